"""The records in a piece of a TFRecord file, found and checked in one call: csrc/tfrecord.c."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from .library import buffer_of, ffi, lib

__all__ = ["BAD_CONTENT", "BAD_LENGTH", "FoundRecords", "find_records"]

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
