"""What writes a part in C: bytes appended to a file, digested on threads while they are copied, and written back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .library import Handle, buffer_of, ffi, lib

# Many buffers to the end of a file.


def append(fd: int, buffers: Sequence[Any]) -> int:
    """Write the buffers where the file stands, and return how many bytes it took; others run meanwhile.

    Fewer than all when a call took fewer, or failed after others had not; the first one's failure is an OSError.
    """
    pieces = [ffi.from_buffer(buffer_of(buffer)) for buffer in buffers]
    written = ffi.new("uint64_t *")
    lengths = ffi.new("uint64_t[]", list(map(len, pieces)))
    code = lib.ur_append(fd, ffi.new("void *[]", pieces), lengths, len(pieces), written)
    if code:
        raise OSError(code, os.strerror(code))
    return int(written[0])


# Digests: XXH3 of one piece of memory and of many, at once or while the caller goes on; CRC-32C.


U64 = npt.NDArray[np.uint64]

_THREAD_BYTES: Final = 256 << 10  # from here on a thread is worth its start


def xxh3_64(data: Any, seed: int = 0) -> int:
    """XXH3-64 of a bytes-like object or C-contiguous array."""
    view = memoryview(data).cast("B")
    return int(lib.ur_xxh3_64(ffi.from_buffer(buffer_of(view)), len(view), seed))


def xxh3_128(data: Any, seed: int = 0) -> bytes:
    """XXH3-128 of a bytes-like object or C-contiguous array: 16 bytes, the low half first, little-endian."""
    view = memoryview(data).cast("B")
    found = ffi.new("uint8_t[16]")
    lib.ur_xxh3_128(ffi.from_buffer(buffer_of(view)), len(view), seed, found)
    return bytes(ffi.buffer(found))


def crc32c(data: Any) -> int:
    """CRC-32C (Castagnoli) of a bytes-like object."""
    view = memoryview(data).cast("B")
    return int(lib.ur_crc32c(ffi.from_buffer(buffer_of(view)), len(view)))


def digest_ranges(data: Any, starts: U64, lengths: U64, first_seed: int, step: int) -> U64:
    """Digest of each ``data[start : start + length]``, seeded ``first_seed + i * step``; others run meanwhile."""
    job = _Job(data, starts, lengths, wide=False)
    lib.ur_digest_ranges(*job.arguments(first_seed, step))
    return job.found


def wide_digests(data: Any, starts: U64, lengths: U64, first_seed: int, step: int) -> tuple[U64, U64]:
    """The same, and XXH3-128 of the same ranges: uint64 [n, 2], the low half first; in one pass where they are long."""
    job = _Job(data, starts, lengths, wide=True)
    lib.ur_digest_ranges(*job.arguments(first_seed, step))
    assert job.wide is not None
    return job.found, job.wide


class _Job:
    """What is to be digested, and the memory for the digests. Without ``data``, ``starts`` are addresses."""

    def __init__(self, data: Any, starts: U64, lengths: U64, *, wide: bool) -> None:
        self.data: memoryview | None = None if data is None else memoryview(data).cast("B")
        self.starts: U64 = np.ascontiguousarray(starts, np.uint64)
        self.lengths: U64 = np.ascontiguousarray(lengths, np.uint64)
        self.found: U64 = np.empty(len(starts), np.uint64)
        self.wide: U64 | None = np.empty((len(starts), 2), np.uint64) if wide else None
        if self.data is not None and len(starts) and int((self.starts + self.lengths).max()) > len(self.data):
            raise ValueError("a range ends beyond the data")

    def arguments(self, first_seed: int, step: int) -> tuple[Any, ...]:
        data = ffi.NULL if self.data is None else ffi.from_buffer(buffer_of(self.data))
        starts, lengths, found = (
            ffi.from_buffer("uint64_t[]", a) for a in (self.starts, self.lengths, self.found)
        )
        wide = ffi.NULL if self.wide is None else ffi.from_buffer("uint64_t[]", self.wide)
        return data, starts, lengths, len(self.found), first_seed, step, found, wide


class Digesting:
    """What `wide_digests` finds, computed by another thread; the memory stays as it is until `digests` has returned."""

    def __init__(self, job: _Job, first_seed: int, step: int, keep: object) -> None:
        arguments = job.arguments(first_seed, step)
        assert job.wide is not None
        self._found = job.found, job.wide
        self._thread: Handle | None = None
        if int(job.lengths.sum()) < _THREAD_BYTES:
            lib.ur_digest_ranges(*arguments)
        else:
            borrowed = (arguments, job, keep)  # all that the thread looks at
            self._thread = Handle(lib.ur_digesting_start(*arguments), lib.ur_digesting_end, borrowed)

    @classmethod
    def of_ranges(cls, data: Any, starts: U64, lengths: U64, first_seed: int, step: int) -> Digesting:
        """Begin what `wide_digests` does."""
        return cls(_Job(data, starts, lengths, wide=True), first_seed, step, data)

    @classmethod
    def of_cells(cls, cells: Sequence[bytes | memoryview], first_seed: int, step: int) -> Digesting:
        """Begin to digest each cell, seeded ``first_seed + i * step``."""
        starts = ffi.new("void *[]", [ffi.from_buffer(buffer_of(cell)) for cell in cells])
        lengths = np.fromiter(map(len, cells), np.uint64, len(cells))
        job = _Job(None, np.frombuffer(ffi.buffer(starts), np.uintp), lengths, wide=True)
        return cls(job, first_seed, step, list(cells))

    def digests(self) -> tuple[U64, U64]:
        """Wait for the digests: those of 64 bits, and those of 128."""
        self._thread = None  # which waits for it
        return self._found


# The kernel's own writing of a file to the disk, begun early.


def start_writeback(fd: int, offset: int, size: int) -> None:
    """Have the kernel begin to write these bytes of a file to the disk; others run meanwhile.

    A hint that nothing depends on: it may be refused, it waits for no byte, and an error stays for fsync to report.
    """
    lib.ur_start_writeback(fd, offset, size)
