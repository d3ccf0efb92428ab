"""The only importer of unirecord._core: its handles as typed classes, its statuses as exceptions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ._core import ffi, lib
from .order import OrderSpec


def xxh3_64(data: Any, seed: int = 0) -> int:
    """XXH3-64 of a bytes-like object or C-contiguous array."""
    view = memoryview(data).cast("B")
    return int(lib.ur_xxh3_64(ffi.from_buffer(view), len(view), seed))


def digest_ranges(
    data: Any,
    starts: npt.NDArray[np.uint64],
    lengths: npt.NDArray[np.uint64],
    first_seed: int,
    step: int,
) -> npt.NDArray[np.uint64]:
    """Digest of each ``data[start : start + length]``, seeded ``first_seed + i * step``; other threads run meanwhile."""
    view = memoryview(data).cast("B")
    starts, lengths = np.ascontiguousarray(starts, np.uint64), np.ascontiguousarray(lengths, np.uint64)
    if len(starts) and int((starts + lengths).max()) > len(view):
        raise ValueError("a range ends beyond the data")
    found = np.empty(len(starts), np.uint64)
    arrays = [ffi.from_buffer("uint64_t[]", a) for a in (starts, lengths, found)]
    lib.ur_digest_ranges(ffi.from_buffer(view), *arrays[:2], len(starts), first_seed, step, arrays[2])
    return found


class Order:
    """Which row stands at each position of an epoch: a permutation of [0, rows) that is computed, not stored.

    Immutable, safe to share between threads. ``part_rows`` is for the modes by parts and sums to ``rows``.
    """

    def __init__(self, rows: int, spec: OrderSpec, part_rows: npt.ArrayLike | None = None) -> None:
        parts = np.ascontiguousarray([] if part_rows is None else part_rows, dtype=np.int64)
        out, error = ffi.new("ur_order **"), ffi.new("ur_error *")
        status = lib.ur_order_new(
            rows,
            spec.code,
            spec.seed,
            spec.epoch,
            spec.block_rows,
            spec.window_blocks,
            ffi.from_buffer("int64_t[]", parts),
            len(parts),
            out,
            error,
        )
        if status == lib.UR_NO_MEMORY:
            raise MemoryError(ffi.string(error.what).decode())
        if status != lib.UR_OK:
            raise ValueError(ffi.string(error.what).decode("utf-8", "replace"))
        self.rows = rows
        self.spec = spec
        self.handle = ffi.gc(out[0], lib.ur_order_release)

    def range(self, start: int, stride: int, count: int) -> npt.NDArray[np.int64]:
        """The rows at ``count`` positions from ``start`` on, ``stride`` apart; it wraps past the end."""
        rows = np.empty(max(count, 0), np.int64)
        status = lib.ur_order_range(self.handle, start, stride, count, ffi.from_buffer("int64_t[]", rows))
        if status != lib.UR_OK:
            raise ValueError(f"no {count} positions {stride} apart from {start} on, in {self.rows} rows")
        return rows

    def at(self, positions: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The rows at these positions."""
        return self._map(lib.ur_order_at, positions, "position")

    def inverse(self, rows: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The positions at which these rows stand."""
        return self._map(lib.ur_order_inverse, rows, "row")

    def _map(self, function: Any, values: npt.ArrayLike, name: str) -> npt.NDArray[np.int64]:
        given = np.ascontiguousarray(values, dtype=np.int64)
        found = np.empty_like(given)
        pointers = (ffi.from_buffer("int64_t[]", array) for array in (given, found))
        if function(self.handle, next(pointers), given.size, next(pointers)) != lib.UR_OK:
            raise IndexError(f"a {name} is out of range: there are {self.rows}")
        return found


class BatchPool:
    """Memory of batches that is used again; keeps at most ``spare`` pieces that no batch uses."""

    __slots__ = ("handle",)

    def __init__(self, spare: int) -> None:
        out = ffi.new("ur_pool **")
        if lib.ur_pool_new(spare, out, ffi.NULL) != lib.UR_OK:
            raise MemoryError("no memory for a pool of batches")
        self.handle = ffi.gc(out[0], lib.ur_pool_release)

    @property
    def allocations(self) -> int:
        """Pieces of memory taken from the system so far."""
        return int(lib.ur_pool_allocations(self.handle))


class NativeBatch:
    """One batch as the C loader hands it out: a piece of memory and the places of the arrays in it."""

    __slots__ = ("_views", "data_bytes", "memory", "number", "row_ids_at", "rows", "skipped", "skipped_at")

    def __init__(self, info: Any) -> None:
        # The buffer keeps the piece, and every array made over the buffer keeps the buffer: the piece goes back to the
        # pool when the last of them is gone.
        self.memory = ffi.buffer(ffi.gc(info.batch, lib.ur_batch_release), info.memory_bytes)
        self.data_bytes: int = info.data_bytes
        self.rows: int = info.rows
        self.number: int = info.number
        self.skipped: int = info.skipped
        self.row_ids_at: int = info.row_ids_at
        self.skipped_at: int = info.skipped_at
        self._views = info.columns

    def view(self, output: int) -> tuple[int, int, int, int]:
        """Places of an output's arrays: data_at, data_bytes, offsets_at, valid_at (2^64 − 1 = none)."""
        view = self._views[output]
        return view.data_at, view.data_bytes, view.offsets_at, view.valid_at

    def row_ids(self) -> npt.NDArray[np.int64]:
        """Row of the set for each row of the batch, int64[rows]."""
        return np.ndarray((self.rows,), np.int64, self.memory, self.row_ids_at)

    def skipped_rows(self) -> npt.NDArray[np.int64]:
        """Rows of the set that were left out because they are corrupt, int64[skipped]."""
        return np.ndarray((self.skipped,), np.int64, self.memory, self.skipped_at)


class NativeLoader:
    """The C loader of one pass. One consumer at a time; ``close`` ends its threads."""

    __slots__ = ("_error", "_fail", "_info", "_kept", "_loader")

    def __init__(
        self,
        handle: Any,
        fail: Callable[[Any], NoReturn],
        *,
        order: Order,
        selection: npt.NDArray[np.int64] | None,
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
    ) -> None:
        options = ffi.new("ur_loader_options *")
        options.order = order.handle
        options.selection = ffi.NULL if selection is None else ffi.from_buffer("int64_t[]", selection)
        options.selection_start, options.selection_step = selection_start, selection_step
        options.first, options.stride, options.samples = first, stride, samples
        options.batch_size, options.drop_last = batch_size, drop_last
        options.prefetch, options.threads = prefetch, threads
        options.output_count = len(columns)
        options.columns = numbers = ffi.new("int32_t[]", list(columns))
        options.on_corrupt = skip_corrupt
        out = ffi.new("ur_loader **")
        self._error = ffi.new("ur_error *")
        self._fail = fail
        if lib.ur_loader_new(handle, pool.handle, options, out, self._error) != lib.UR_OK:
            fail(self._error)
        self._kept = (order, selection, numbers)  # borrowed by the loader
        self._loader = ffi.gc(out[0], lib.ur_loader_release)
        self._info = ffi.new("ur_batch_info *")

    def next(self) -> NativeBatch | None:
        """The next batch, waiting for it; None after the last. A batch that could not be read raises."""
        status = lib.ur_loader_next(self._loader, self._info, self._error)
        if status == lib.UR_OK:
            return NativeBatch(self._info)
        if status == lib.UR_END:
            return None
        self._fail(self._error)

    def close(self) -> int:
        """Ends the threads and returns the nanoseconds that they spent filling batches, all together."""
        stats = ffi.new("ur_loader_stats *")
        lib.ur_loader_stop(self._loader)
        lib.ur_loader_statistics(self._loader, stats)
        return int(stats.read_ns)
