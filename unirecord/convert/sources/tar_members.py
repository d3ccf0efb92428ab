"""The members of a tar archive, in order: only headers are read, and nothing is unpacked to a path."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple
from zlib import adler32

from ...errors import SchemaError
from ...sizes import many
from .source import FileReadahead

__all__ = ["Member", "tar_members"]

_BLOCK: Final = 512
_ZEROS: Final = bytes(_BLOCK)
_MOST_EXTENSION: Final = 1 << 20  # of a header that holds a long name
# Name, size, checksum, kind, magic, prefix of the name; what lies between is not looked at.
_HEADER: Final = struct.Struct("100s 24x 12s 12x 8s c 100x 6s 82x 155s 12x")
_REGULAR: Final = (b"0", b"\0", b"7")
_LONG_NAME: Final = b"L"
_LONG_LINK: Final = b"K"
_PAX: Final = b"x"
_PAX_GLOBAL: Final = b"g"
_EXTENSIONS: Final = (_LONG_NAME, _LONG_LINK, _PAX, _PAX_GLOBAL)
_SAID: Final = (b"path", b"size")
_SPARSE: Final = b"S"  # GNU's own kind; in pax, keys of this beginning say the same
_SPARSE_KEYS: Final = b"GNU.sparse."


class Member(NamedTuple):
    """A member; only a regular file has content. ``header`` is where its first header begins."""

    name: str
    header: int
    offset: int
    size: int
    is_file: bool


def tar_members(file: FileReadahead, where: str, start: int = 0, stop: int | None = None) -> Iterator[Member]:
    """Yield the members of an archive (ustar, GNU, pax) between two headers.

    Raises `SchemaError`, which names the place, where the archive is damaged.
    """
    size = file.size
    at = first = start
    long_name: str | None = None
    long_size: int | None = None
    is_sparse = False
    while stop is None or at < stop:
        head = bytes(file.at(at, _BLOCK))
        if not head and at:
            return  # without the zeros at the end, as some writers leave it
        if len(head) < _BLOCK:
            raise SchemaError(f"{where} is cut off in the header at byte {at:,}")
        if head == _ZEROS:
            return
        name, digits, checksum, kind, magic, prefix = _HEADER.unpack(head)
        _check(head, checksum, where, at)
        length = long_size if long_size is not None else _number(digits, where, at)
        offset = at + _BLOCK
        if offset + length > size:
            raise SchemaError(
                f"{where} is cut off in the member at byte {at:,}, by {many(offset + length - size, 'byte')}"
            )
        at = offset + -(-length // _BLOCK) * _BLOCK
        if kind in _EXTENSIONS:
            if length > _MOST_EXTENSION:
                raise SchemaError(f"{where}: a header at byte {offset - _BLOCK:,} has {many(length, 'byte')}")
            content = bytes(file.at(offset, length)) if kind in (_LONG_NAME, _PAX) else b""
            if kind == _LONG_NAME:
                long_name = _text(content.rstrip(b"\0"))
            elif kind == _PAX:
                said = _pax(content, where, offset)
                long_name = said.get("path", long_name)
                number = said.get("size", "")
                long_size = int(number) if number.isdecimal() and len(number) < 20 else None
                is_sparse = "sparse" in said
            continue
        if is_sparse or kind == _SPARSE:
            raise SchemaError(
                f"{where}: the member at byte {first:,} ({long_name or _name(name, magic, prefix)}) is sparse, as `tar "
                "--sparse` writes files with holes; its content is not read: pack the files again without --sparse"
            )
        yield Member(long_name or _name(name, magic, prefix), first, offset, length, kind in _REGULAR)
        long_name = long_size = None
        is_sparse = False
        first = at


def _check(head: bytes, checksum: bytes, where: str, at: int) -> None:
    wanted = _number(checksum, where, at)
    # The lower half of Adler-32 from 0 on is the sum of the bytes, which 256 of them cannot make too large for it.
    found = (adler32(head[:256], 0) & 0xFFFF) + (adler32(head[256:], 0) & 0xFFFF)
    if found - (adler32(checksum, 0) & 0xFFFF) + 8 * 32 != wanted:
        raise SchemaError(
            f"{where}, byte {at:,}: a header's checksum differs, so the archive is damaged, or is no tar archive"
        )


def _number(field: bytes, where: str, at: int) -> int:
    if field[0] == 0x80:  # base 256, for 8 GB and more
        return int.from_bytes(field[1:], "big")
    digits = field.strip(b" \0")
    try:
        return int(digits, 8) if digits else 0
    except ValueError:
        raise SchemaError(
            f"{where}, byte {at:,}: a header holds {digits!r} where a number should be"
        ) from None


def _name(name: bytes, magic: bytes, prefix: bytes) -> str:
    name = name.split(b"\0", 1)[0]
    prefix = prefix.split(b"\0", 1)[0] if magic == b"ustar\0" else b""
    return _text(prefix + b"/" + name if prefix else name)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


def _pax(content: bytes, where: str, at: int) -> dict[str, str]:
    """The entries of an extended header that say where a file lies; all are checked."""
    found: dict[str, str] = {}
    start = 0
    while start < len(content):
        space = content.find(b" ", start, start + 8)
        length = content[start : max(space, start)]
        stop = start + int(length) if length.isdigit() else start
        equals = content.find(b"=", space, stop - 1)
        if not start < space < equals < stop <= len(content):
            raise SchemaError(f"{where}, byte {at:,}: an extended header is damaged")
        name = content[space + 1 : equals]
        if name.startswith(_SPARSE_KEYS):
            found["sparse"] = ""
        if name in _SAID:
            found[_text(name)] = _text(content[equals + 1 : stop - 1])
        start = stop
    return found
