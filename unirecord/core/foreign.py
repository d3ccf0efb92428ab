"""Foreign bytes that the C core takes apart: CSV and TFRecord."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .library import buffer_of, ffi, lib

__all__ = [
    "BAD_CONTENT",
    "BAD_LENGTH",
    "ColumnLook",
    "FoundRecords",
    "find_records",
    "look_through_csv",
]


# CSV text looked through: how many records it has, and what the cells of each column can be read as:
# csrc/foreign/csv.c.


class ColumnLook(NamedTuple):
    """What the cells of a column can all be read as, as ``ur_csv_column`` has it."""

    whole: bool
    real: bool
    logical: bool
    empty: bool
    filled: bool
    negative: bool
    beyond_low: bool
    beyond_high: bool
    inexact: bool
    high: int
    longest: int


def look_through_csv(data: bytes, delimiter: str, columns: int) -> tuple[int, list[ColumnLook]] | None:
    """Return how many records there are, and what they say of each column; None where the text is not RFC 4180.

    ``data``: whole records, in UTF-8. ``delimiter``: an ASCII character.
    """
    found: Any = ffi.new("ur_csv_column[]", columns)
    for column in found:
        column.whole = column.real = column.logical = 1
    rows = ffi.new("uint64_t *")
    if not lib.ur_csv_look(
        ffi.from_buffer("uint8_t[]", buffer_of(data)), len(data), ord(delimiter), columns, found, rows
    ):
        return None
    looks = [
        ColumnLook(
            bool(c.whole), bool(c.real), bool(c.logical), bool(c.empty), bool(c.filled), bool(c.negative),
            bool(c.beyond_low), bool(c.beyond_high), bool(c.inexact), int(c.high), int(c.longest),
        )
        for c in found
    ]  # fmt: skip
    return int(rows[0]), looks


# The records in a piece of a TFRecord file, found and checked in one call: csrc/foreign/tfrecord.c.


BAD_LENGTH: Final = int(lib.UR_TFRECORD_BAD_LENGTH)
BAD_CONTENT: Final = int(lib.UR_TFRECORD_BAD_CONTENT)
_MOST: Final = 65_536  # records of one call


class FoundRecords(NamedTuple):
    """Where the contents of records start, and how long they are; the bytes of these records with their checksums.

    ``stop`` may say of the next one, which begins at ``used``, `BAD_LENGTH` or `BAD_CONTENT`. When it is not whole in
    the data, it has ``wanted`` bytes at least; else that is 0.
    """

    starts: list[int]
    lengths: list[int]
    used: int
    wanted: int
    stop: int


def find_records(data: Any) -> FoundRecords:
    """Find and check the records from the beginning of ``data`` on; others run meanwhile."""
    view = memoryview(data).cast("B")
    room = min(_MOST, len(view) // 16)
    starts, lengths = ffi.new("uint64_t[]", room + 1), ffi.new("uint64_t[]", room + 1)
    numbers = ffi.new("uint64_t[3]")
    stop = lib.ur_tfrecord_find(
        ffi.from_buffer("uint8_t[]", buffer_of(view)), len(view), room + 1, starts, lengths,
        numbers, numbers + 1, numbers + 2,
    )  # fmt: skip
    count, used, wanted = map(int, numbers)
    return FoundRecords(ffi.unpack(starts, count), ffi.unpack(lengths, count), used, wanted, int(stop))
