"""What a cache on the disk holds of the files of a set, as the C core looks it up and reads it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .handle import Handle
from .library import ffi, lib

__all__ = ["CACHE_RANGE", "CACHE_STRETCH", "NativeCache"]

CACHE_RANGE: Final = np.dtype(
    [("file", "<i8"), ("offset", "<u8"), ("bytes", "<u8"), ("place", "<u8"), ("digest", "<u8")]
)
assert CACHE_RANGE.itemsize == ffi.sizeof("ur_cache_range")
CACHE_STRETCH: Final = int(lib.UR_CACHE_STRETCH)  # bytes of a file, in which a kept range lies as a whole

_ROOM: Final = 256

Ranges = npt.NDArray[Any]  # of CACHE_RANGE


class NativeCache:
    """The ranges of ``files`` files that lie in ``segments`` segments. Thread-safe once both have been set."""

    def __init__(self, files: int, segments: int) -> None:
        pointer = lib.ur_cache_new(files, segments)
        if pointer == ffi.NULL:
            raise MemoryError("no memory for what a cache holds")
        self.pointer = pointer
        self.handle: Handle = Handle(pointer, lib.ur_cache_release)

    def set_segment(self, segment: int, fd: int, seed: int) -> None:
        """The file that segment's ranges lie in, whose descriptor is taken over."""
        lib.ur_cache_set_segment(self.pointer, segment, fd, seed)

    def set_file(self, file: int, segment: int, size: int) -> None:
        """The segment that a file's ranges lie on, and the length of the file."""
        if lib.ur_cache_set_file(self.pointer, file, segment, size) != lib.UR_OK:
            raise MemoryError("no memory for what a cache holds")

    def add(self, ranges: Ranges) -> None:
        """Takes ranges in, but for impossible ones, and those that overlap what is there."""
        if lib.ur_cache_add(self.pointer, _pointer(ranges), len(ranges)) != lib.UR_OK:
            raise MemoryError("no memory for what a cache holds")

    def remove(self, ranges: Ranges) -> None:
        """Takes these ranges out, if they are there, at these places."""
        lib.ur_cache_remove(self.pointer, _pointer(ranges), len(ranges))

    def gaps(self, file: int, offset: int, size: int) -> list[tuple[int, int]]:
        """Offset and size of each piece of bytes [offset, offset + size) of a file that is not there."""
        wanted = ffi.new("ur_cache_range *", (file, offset, size, 0, 0))
        at, found = ffi.new("uint64_t *", offset), ffi.new("ur_cache_range[]", _ROOM)
        pieces: list[tuple[int, int]] = []
        while at[0] < offset + size:
            count = lib.ur_cache_gaps(self.pointer, wanted, at, found, _ROOM)
            pieces += [(found[i].offset, found[i].bytes) for i in range(count)]
        return pieces

    def read(self, file: int, offset: int, size: int) -> bytearray | None:
        """Bytes [offset, offset + size) of a file, checked; None when they are not all there."""
        found = bytearray(size)
        to = ffi.from_buffer("uint8_t[]", found, True)
        return found if lib.ur_cache_has(self.pointer, file, offset, size, to) else None

    def take_dropped(self) -> Ranges:
        """Ranges that were damaged, and are not there any more; each is given out once."""
        found = np.empty(_ROOM, CACHE_RANGE)
        count = lib.ur_cache_take_dropped(self.pointer, _pointer(found), _ROOM)
        return found[:count]

    def counts(self) -> tuple[int, int, int]:
        """Ranges that were read, their bytes, and ranges that were damaged."""
        counts = ffi.new("uint64_t[3]")
        lib.ur_cache_counts(self.pointer, counts)
        return counts[0], counts[1], counts[2]


def _pointer(ranges: Ranges) -> Any:
    return ffi.cast("ur_cache_range *", ffi.from_buffer(ranges, require_writable=False))
