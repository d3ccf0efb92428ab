"""The members of a tar archive, in order: only headers are read, and nothing is unpacked to a path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import adler32

from ...errors import SchemaError
from .read_ahead import ReadAhead

__all__ = ["Member", "tar_members"]

_BLOCK: Final = 512
_ZEROS: Final = bytes(_BLOCK)
_MOST_EXTENSION: Final = 1 << 20  # of a header that holds a long name
_REGULAR: Final = (b"0", b"\0", b"7")
_LONG_NAME: Final = b"L"
_LONG_LINK: Final = b"K"
_PAX: Final = b"x"
_PAX_GLOBAL: Final = b"g"


class Member(NamedTuple):
    """A member; only a regular file has content. ``header`` is where its first header begins."""

    name: str
    header: int
    offset: int
    size: int
    is_file: bool


def tar_members(file: ReadAhead, where: str, start: int = 0, stop: int | None = None) -> Iterator[Member]:
    """Yield the members of an archive (ustar, GNU, pax) between two headers.

    Raises `SchemaError`, which names the place, where the archive is damaged.
    """
    size = file.size
    at = first = start
    long_name: str | None = None
    long_size: int | None = None
    while stop is None or at < stop:
        head = bytes(file.at(at, _BLOCK))
        if not head and at:
            return  # without the zeros at the end, as some writers leave it
        if len(head) < _BLOCK:
            raise SchemaError(f"{where} is cut off in the header at byte {at:,}")
        if head == _ZEROS:
            return
        _check(head, f"{where}, byte {at:,}")
        length = long_size if long_size is not None else _number(head[124:136], f"{where}, byte {at:,}")
        kind, offset = head[156:157], at + _BLOCK
        if offset + length > size:
            raise SchemaError(
                f"{where} is cut off in the member at byte {at:,}, by {offset + length - size:,} bytes"
            )
        at = offset + -(-length // _BLOCK) * _BLOCK
        if kind in (_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL):
            if length > _MOST_EXTENSION:
                raise SchemaError(f"{where}: a header at byte {offset - _BLOCK:,} has {length:,} bytes")
            content = bytes(file.at(offset, length)) if kind in (_LONG_NAME, _PAX) else b""
            if kind == _LONG_NAME:
                long_name = _text(content.rstrip(b"\0"))
            elif kind == _PAX:
                said = _pax(content, f"{where}, byte {offset:,}")
                long_name = said.get("path", long_name)
                long_size = int(said["size"]) if said.get("size", "").isdigit() else None
            continue
        yield Member(long_name or _name(head), first, offset, length, kind in _REGULAR)
        long_name = long_size = None
        first = at


def _check(head: bytes, where: str) -> None:
    wanted = _number(head[148:156], where)
    # The lower half of Adler-32 from 0 on is the sum of the bytes, which 256 of them cannot make too large for it.
    found = (adler32(head[:256], 0) & 0xFFFF) + (adler32(head[256:], 0) & 0xFFFF)
    if found - sum(head[148:156]) + 8 * 32 != wanted:
        raise SchemaError(
            f"{where}: a header's checksum differs, so the archive is damaged, or is no tar archive"
        )


def _number(field: bytes, where: str) -> int:
    if field[:1] == b"\x80":  # base 256, for 8 GB and more
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise SchemaError(f"{where}: a header holds {digits!r} where a number should be") from None


def _name(head: bytes) -> str:
    name = head[:100].split(b"\0", 1)[0]
    prefix = head[345:500].split(b"\0", 1)[0] if head[257:263] == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _pax(content: bytes, where: str) -> dict[str, str]:
    found: dict[str, str] = {}
    while content:
        length, _, _rest = content.partition(b" ")
        size = int(length) if length.isdigit() and len(length) < 8 else 0
        entry = content[len(length) + 1 : size - 1]
        name, equals, value = entry.partition(b"=")
        if not equals or size > len(content) or size <= len(length):
            raise SchemaError(f"{where}: an extended header is damaged")
        found[_text(name)] = _text(value)
        content = content[size:]
    return found
