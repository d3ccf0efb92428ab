"""Deletion files: which rows of a part have been deleted, as a bitmap or as row numbers; bytes <-> rows, checked."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..core import Bitmap, add_rows, empty_words, xxh3_128
from ..errors import CorruptionError, MissingError
from ..sizes import many
from ..storage.schemes import read_file
from .manifest_fields import DELETION_ENDING, PART_NAME

__all__ = [
    "NAME",
    "Deletion",
    "check_deletion",
    "deleted_rows",
    "deletion_name",
    "encode_deletion",
    "live_rows",
    "rows_deleted",
]

NAME: Final = re.compile(PART_NAME.pattern + DELETION_ENDING.pattern)

_MAGIC: Final = b"\x89URDL\r\n\x1a"
_HEAD: Final = struct.Struct("<8sIIQQ16s16x")
_VERSION: Final = 1
_BITMAP, _NUMBERS_32, _NUMBERS_64 = 0, 4, 8
_AT_ONCE: Final = 1 << 20  # bits that become row numbers at a time

Rows = NDArray[np.int64]
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Deletion:
    """What a manifest says of the rows of a part that have been deleted: the file that names them.

    ``path`` is where it is; ``rows`` are how many have been deleted; ``digest`` is the XXH3-64 of the whole file.
    """

    path: str
    rows: int
    bytes: int
    digest: str


def deletion_name(part: str, generation: int) -> str:
    """File name of what is deleted of a part by the version ``generation``."""
    return f"{part}.del-{generation:06d}"


def _form_of(part_rows: int, deleted: int) -> int:
    """The form of the file for so many rows of a part: their numbers where these take fewer bytes than a bitmap."""
    width = _NUMBERS_32 if part_rows <= 1 << 32 else _NUMBERS_64
    return width if deleted * width < -(-part_rows // 64) * 8 else _BITMAP


def encode_deletion(part_id: bytes, part_rows: int, deleted: Rows) -> bytes:
    """The file for these rows of a part, ascending."""
    kind = _form_of(part_rows, len(deleted))
    if kind != _BITMAP:
        body = deleted.astype(f"<u{kind}").tobytes()
    else:
        words = empty_words(part_rows)
        add_rows(words, part_rows, deleted)
        body = words.astype("<u8").tobytes()
    return _HEAD.pack(_MAGIC, _VERSION, kind, part_rows, len(deleted), part_id) + body


def check_deletion(deletion: Deletion, part_id: bytes, part_rows: int) -> None:
    """CorruptionError, or MissingError, when the file is not what the manifest says."""
    for _ in _pieces(deletion, part_id, part_rows):
        pass


def rows_deleted(deletion: Deletion | None, part_id: bytes, part_rows: int) -> Rows:
    """The rows of one part that have been deleted, ascending."""
    pieces = [] if deletion is None else list(_pieces(deletion, part_id, part_rows))
    return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


def deleted_rows(parts: Sequence[tuple[Deletion | None, bytes, int]], total: int) -> Words:
    """The rows that have been deleted of (deletion, id, rows) of all parts, one after the other, as bits."""
    words, start = empty_words(total), 0
    for deletion, part_id, part_rows in parts:
        if deletion is not None:
            for rows in _pieces(deletion, part_id, part_rows):
                add_rows(words, total, rows + start)
        start += part_rows
    return words


def live_rows(deleted: Words, total: int) -> Bitmap:
    """All other rows."""
    words = ~deleted
    if total % 64:
        words[-1] &= np.uint64((1 << total % 64) - 1)
    return Bitmap(words, total)


def _pieces(deletion: Deletion, part_id: bytes, part_rows: int) -> Iterator[Rows]:
    kind, count, body = _checked(deletion, part_id, part_rows)
    if kind != _BITMAP:
        rows = np.frombuffer(body, f"<u{kind}").astype(np.int64)
        if len(rows) and (int(rows[-1]) >= part_rows or bool(np.any(np.diff(rows) <= 0))):
            raise _wrong(deletion, "its rows do not ascend, or are not all rows of the part")
        yield rows
        return
    seen = 0
    for first in range(0, part_rows, _AT_ONCE):
        bits = np.unpackbits(
            np.frombuffer(body, np.uint8)[first // 8 : (first + _AT_ONCE) // 8], bitorder="little"
        )
        rows = np.flatnonzero(bits).astype(np.int64) + first
        if len(rows) and rows[-1] >= part_rows:
            raise _wrong(deletion, "it names rows that the part does not have")
        seen += len(rows)
        yield rows
    if seen != count:
        raise _wrong(deletion, f"it names {many(seen, 'row')}, and says {count:,}")


def _checked(deletion: Deletion, part_id: bytes, part_rows: int) -> tuple[int, int, memoryview]:
    try:
        content = read_file(deletion.path, deletion.bytes + 1)
    except FileNotFoundError:
        raise MissingError(
            f"{deletion.path}: this file, which says what rows have been deleted, is missing; put it back, or go back "
            "to a version without it: unirecord restore PATH@N (unirecord log lists them)"
        ) from None
    if len(content) != deletion.bytes or xxh3_128(content).hex() != deletion.digest:
        raise _wrong(deletion, "it has another length or digest than the manifest says")
    if len(content) < _HEAD.size:
        raise _wrong(deletion, "it is shorter than its head")
    magic, version, kind, rows, count, of_part = _HEAD.unpack(content[: _HEAD.size])
    if magic != _MAGIC or version != _VERSION or content[_HEAD.size - 16 : _HEAD.size] != bytes(16):
        raise _wrong(deletion, "it is no deletion file of this version")
    if (of_part, rows, count) != (part_id, part_rows, deletion.rows):
        raise _wrong(deletion, "it is of another part, or of another number of rows")
    if kind != _form_of(part_rows, count):
        raise _wrong(deletion, f"it has form {kind}, which is not the form for so many rows")
    if len(content) - _HEAD.size != (kind * count or -(-part_rows // 64) * 8):
        raise _wrong(deletion, "its length does not go with what it says")
    return kind, count, memoryview(content)[_HEAD.size :]


def _wrong(deletion: Deletion, why: str) -> CorruptionError:
    return CorruptionError(
        f"{deletion.path}: {why}; restore the file from a copy, or go back to a version without it by "
        "`unirecord restore`",
        path=deletion.path,
    )
