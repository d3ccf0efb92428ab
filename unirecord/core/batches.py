"""The C core's loader, the memory its batches lie in, and the batches."""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .bitmap import Bitmap
from .handle import Handle, keeping
from .library import ffi, lib
from .order import Order
from .parts import NativeSet
from .streams import NativeStream

# A ur_batch_info but for its first field: one call instead of one for each field.
_INFO: Final = struct.Struct("=8xQQqqqQQQ")
assert _INFO.size == ffi.sizeof("ur_batch_info")

PART_TIME: Final = np.dtype([("part", "<i8"), ("batches", "<i8"), ("bytes", "<u8"), ("ns", "<u8")])
assert PART_TIME.itemsize == ffi.sizeof("ur_part_time")

# Looked up once: batches of small rows come every few microseconds.
_next_batch, _gc, _buffer, _unpack_info = lib.ur_loader_next, ffi.gc, ffi.buffer, _INFO.unpack
_digest, _from_buffer = lib.ur_xxh3_64, ffi.from_buffer


class BatchPool:
    """Memory of batches that is used again: at most ``spare`` pieces that no batch uses, and what it has been lent."""

    __slots__ = ("_owner", "handle", "lent", "pointer")

    def __init__(self, spare: int) -> None:
        out = ffi.new("ur_pool **")
        if lib.ur_pool_new(spare, out, ffi.NULL) != lib.UR_OK:
            raise MemoryError("no memory for a pool of batches")
        self.pointer: Any = out[0]
        self.lent: list[Any] = []
        self.handle: Handle = Handle(out[0], lib.ur_pool_release, self.lent)
        self._owner = os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether this process made it; a child after fork makes its own."""
        return self._owner == os.getpid()

    def keep(self, spare: int) -> None:
        """From now on keeps ``spare`` pieces, if that is more."""
        lib.ur_pool_keep(self.pointer, spare)

    def lend(self, memory: npt.NDArray[np.uint8]) -> None:
        """Lets batches lie in ``memory``, a multiple of 64 bytes at such an address; they keep it alive."""
        if lib.ur_pool_lend(self.pointer, ffi.from_buffer(memory), memory.nbytes, ffi.NULL) != lib.UR_OK:
            raise ValueError(
                f"{memory.nbytes} bytes at {memory.ctypes.data:#x} cannot hold batches: not aligned, or too few"
            )
        self.lent.append(memory)

    def releaser(self) -> Any:
        """What ends the use of a batch of this pool."""
        return keeping(lib.ur_batch_release, self.lent) if self.lent else lib.ur_batch_release

    @property
    def allocations(self) -> int:
        """Pieces of memory taken from the system so far."""
        return int(lib.ur_pool_allocations(self.pointer))


class NativeBatch:
    """One batch as the C loader hands it out: a piece of memory and the places of the arrays in it."""

    data_bytes: Any
    number: Any
    row_ids_at: Any
    rows: Any
    skipped: Any
    skipped_at: Any

    __slots__ = ("_views", "data_bytes", "memory", "number", "row_ids_at", "rows", "skipped", "skipped_at")

    def __init__(self, info: Any, fields: Any, release: Any) -> None:
        """``fields`` is the memory of ``info``."""
        memory_bytes: int
        (
            memory_bytes,
            self.data_bytes,
            self.number,
            self.rows,
            self.skipped,
            self.row_ids_at,
            self.skipped_at,
            self._views,
        ) = _unpack_info(fields)
        # The buffer keeps the piece, and every array made over the buffer keeps the buffer: the piece goes back to the
        # pool when the last of them is gone.
        self.memory: Any = _buffer(_gc(info.batch, release), memory_bytes)

    def view(self, output: int) -> tuple[int, int, int, int]:
        """Places of an output's arrays: data_at, data_bytes, offsets_at, valid_at (2^64 − 1 = none)."""
        view = ffi.cast("ur_column_view *", self._views)[output]
        return view.data_at, view.data_bytes, view.offsets_at, view.valid_at

    def row_ids(self) -> npt.NDArray[np.int64]:
        """Row of the set for each row of the batch, int64[rows]."""
        return np.ndarray((self.rows,), np.int64, self.memory, self.row_ids_at)

    def rows_digest(self) -> int:
        """XXH3-64 of its row ids."""
        return int(_digest(_from_buffer(self.memory) + self.row_ids_at, 8 * self.rows, 0))

    def skipped_rows(self) -> npt.NDArray[np.int64]:
        """Rows of the set that were left out because they are corrupt, int64[skipped]."""
        return np.ndarray((self.skipped,), np.int64, self.memory, self.skipped_at)


class NativeLoader:
    """The C loader of one pass. One consumer at a time; ``close`` ends its threads."""

    __slots__ = ("_error", "_fail", "_fields", "_info", "_pointer", "_release", "handle", "paths")

    def __init__(
        self,
        parts: NativeSet,
        *,
        order: Order,
        selection: npt.NDArray[np.int64] | Bitmap | None,
        selection_start: int,
        selection_step: int,
        first: int,
        stride: int,
        samples: int,
        columns: Sequence[int],
        pool: BatchPool,
        batch_size: int,
        drop_last: bool,
        prefetch: int,
        threads: int,
        skip_corrupt: bool,
        near: tuple[int, int] = (0, 0),
        stream: NativeStream | None = None,
        batch_ends: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """``batch_ends``: for batches of different sizes, ``batch_size`` at most, the sample before which each ends.

        ``stream``: of it, and of the set that it is cut from, in place of the rows of ``parts``.
        ``near``: ``prefetch`` and ``threads`` while no thread waits for what is fetched; 0: the same.
        """
        if stream is not None:
            parts = stream.parts
        options = ffi.new("ur_loader_options *")
        options.order = order.pointer
        if isinstance(selection, Bitmap):
            options.bitmap = selection.pointer
        elif selection is not None:
            options.selection = ffi.from_buffer("int64_t[]", selection)
        options.selection_start, options.selection_step = selection_start, selection_step
        options.first, options.stride, options.samples = first, stride, samples
        options.batch_size, options.drop_last = batch_size, drop_last
        options.prefetch, options.threads = prefetch, threads
        options.prefetch_near, options.threads_near = near
        options.output_count = len(columns)
        numbers = ffi.new("int32_t[]", list(columns))
        options.columns = numbers
        options.on_corrupt = skip_corrupt
        if stream is not None:
            options.stream = stream.pointer
        if batch_ends is not None:
            options.batch_ends, options.batches = ffi.from_buffer("int64_t[]", batch_ends), len(batch_ends)
        out = ffi.new("ur_loader **")
        self._error = ffi.new("ur_error *")
        self._fail = parts.fail
        self._release = pool.releaser()
        if lib.ur_loader_new(parts.pointer, pool.pointer, options, out, self._error) != lib.UR_OK:
            self._fail(self._error)
        self._pointer = out[0]
        self.paths: Sequence[str] = parts.paths  # by the number of the part
        self.handle: Handle = Handle(
            out[0], lib.ur_loader_release, selection, pool.lent, *parts.fetching, stream
        )
        self._info = ffi.new("ur_batch_info *")
        self._fields = ffi.buffer(self._info)

    def next(self) -> NativeBatch | None:
        """The next batch, waiting for it; None after the last. A batch that could not be read raises."""
        status = _next_batch(self._pointer, self._info, self._error)
        if status:
            if status == lib.UR_END:
                return None
            self._fail(self._error)
        return NativeBatch(self._info, self._fields, self._release)

    def close(self) -> int:
        """Ends the threads and returns the nanoseconds that they spent filling batches, all together."""
        stats = ffi.new("ur_loader_stats *")
        lib.ur_loader_stop(self._pointer)
        lib.ur_loader_statistics(self._pointer, stats)
        return int(stats.read_ns)

    def part_times(self) -> npt.NDArray[np.void]:
        """The parts that have been timed, in no order: ``part``, ``batches``, ``bytes`` and ``ns`` of each."""
        room = int(lib.ur_loader_part_times(self._pointer, ffi.NULL, 0))
        times = np.zeros(room, PART_TIME)
        told = int(lib.ur_loader_part_times(self._pointer, ffi.from_buffer("ur_part_time[]", times), room))
        return times[:told]
