"""The only importer of unirecord._core: its handles as typed classes, its statuses as exceptions."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ._core import ffi as ffi
from ._core import lib as lib
from .failure import Failure, raise_failure
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
    """Digest of each ``data[start : start + length]``, seeded ``first_seed + i * step``; others run meanwhile."""
    view = memoryview(data).cast("B")
    starts, lengths = np.ascontiguousarray(starts, np.uint64), np.ascontiguousarray(lengths, np.uint64)
    if len(starts) and int((starts + lengths).max()) > len(view):
        raise ValueError("a range ends beyond the data")
    found = np.empty(len(starts), np.uint64)
    arrays = [ffi.from_buffer("uint64_t[]", a) for a in (starts, lengths, found)]
    lib.ur_digest_ranges(ffi.from_buffer(view), *arrays[:2], len(starts), first_seed, step, arrays[2])
    return found


_order_one = lib.ur_order_one  # looked up once: samples are read one at a time through it


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

    def one(self, position: int) -> int:
        """The row at one position, 0 … rows − 1."""
        row: int = _order_one(self.handle, position)
        if row < 0:
            raise IndexError(f"position {position} is out of range: there are {self.rows}")
        return row

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
    """Memory of batches that is used again: at most ``spare`` pieces that no batch uses, and what it has been lent."""

    __slots__ = ("_owner", "handle", "lent")

    def __init__(self, spare: int) -> None:
        out = ffi.new("ur_pool **")
        if lib.ur_pool_new(spare, out, ffi.NULL) != lib.UR_OK:
            raise MemoryError("no memory for a pool of batches")
        self.handle = ffi.gc(out[0], lib.ur_pool_release)
        self.lent: list[Any] = []
        self._owner = os.getpid()

    @property
    def is_own(self) -> bool:
        """Whether this process made it; a child after fork makes its own."""
        return self._owner == os.getpid()

    def keep(self, spare: int) -> None:
        """From now on keeps ``spare`` pieces, if that is more."""
        lib.ur_pool_keep(self.handle, spare)

    def lend(self, memory: npt.NDArray[np.uint8]) -> None:
        """Lets batches lie in ``memory``, a multiple of 64 bytes at such an address; they keep it alive."""
        if lib.ur_pool_lend(self.handle, ffi.from_buffer(memory), memory.nbytes, ffi.NULL) != lib.UR_OK:
            raise ValueError(
                f"{memory.nbytes} bytes at {memory.ctypes.data:#x} cannot hold batches: not aligned, or too few"
            )
        self.lent.append(memory)

    def releaser(self) -> Any:
        """What ends the use of a batch of this pool."""
        if not self.lent:
            return lib.ur_batch_release
        return lambda batch, _lent=self.lent: lib.ur_batch_release(batch)

    @property
    def allocations(self) -> int:
        """Pieces of memory taken from the system so far."""
        return int(lib.ur_pool_allocations(self.handle))


class NativeBatch:
    """One batch as the C loader hands it out: a piece of memory and the places of the arrays in it."""

    __slots__ = ("_views", "data_bytes", "memory", "number", "row_ids_at", "rows", "skipped", "skipped_at")

    def __init__(self, info: Any, release: Any) -> None:
        # The buffer keeps the piece, and every array made over the buffer keeps the buffer: the piece goes back to the
        # pool when the last of them is gone.
        self.memory = ffi.buffer(ffi.gc(info.batch, release), info.memory_bytes)
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

    __slots__ = ("_error", "_fail", "_info", "_kept", "_loader", "_release")

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
        self._release = pool.releaser()
        if lib.ur_loader_new(handle, pool.handle, options, out, self._error) != lib.UR_OK:
            fail(self._error)
        self._kept = (order, selection, numbers, pool.lent)  # borrowed by the loader
        self._loader = ffi.gc(out[0], lib.ur_loader_release)
        self._info = ffi.new("ur_batch_info *")

    def next(self) -> NativeBatch | None:
        """The next batch, waiting for it; None after the last. A batch that could not be read raises."""
        status = lib.ur_loader_next(self._loader, self._info, self._error)
        if status == lib.UR_END:
            return None
        if status != lib.UR_OK:
            self._fail(self._error)
        return NativeBatch(self._info, self._release)

    def close(self) -> int:
        """Ends the threads and returns the nanoseconds that they spent filling batches, all together."""
        stats = ffi.new("ur_loader_stats *")
        lib.ur_loader_stop(self._loader)
        lib.ur_loader_statistics(self._loader, stats)
        return int(stats.read_ns)


# ---- sets of parts ---------------------------------------------------------------------------------------------------

IO_CODES = {"auto": 0, "mmap": 1, "pread": 2, "uring": 3, "uring-direct": 4, "memory": 5}
IO_NAMES = {code: name for name, code in IO_CODES.items()}
VERIFY_CODES = {"first": 0, "always": 1, "never": 2}
_NOWHERE = 2**64 - 1


def failure_of(error: Any) -> Failure:
    """What a filled ur_error says."""
    return Failure(
        error.status,
        error.os_errno,
        error.file == lib.UR_FILE_INDEX,
        None if error.part < 0 else error.part,
        None if error.row < 0 else error.row,
        None if error.column < 0 else error.column,
        None if error.offset == _NOWHERE else error.offset,
        ffi.string(error.what).decode("utf-8", "replace"),
    )


def raise_for(error: Any, paths: Sequence[str], names: Sequence[str] = ()) -> NoReturn:
    """Raises what a filled ur_error says of one of ``paths`` (data files by position of the part)."""
    raise_failure(failure_of(error), paths, names)


class NativePart:
    """One opened part. Arrays over its memory keep it open."""

    __slots__ = ("_paths", "handle", "info")

    def __init__(self, handle: Any, path: str) -> None:
        self.handle = ffi.gc(handle, lib.ur_part_release)
        self.info = ffi.new("ur_part_info *")
        self._paths = (path,)
        lib.ur_part_describe(self.handle, self.info)

    @property
    def id(self) -> bytes:
        """The 16 bytes of the part's id."""
        return bytes(ffi.buffer(self.info.id))

    def metadata(self) -> bytes:
        """The index's msgpack map."""
        return bytes(ffi.buffer(self.info.metadata, self.info.metadata_bytes))

    def section(self, kind: int, column: int) -> Any | None:
        """The ur_section of this kind, or None when the index has none."""
        section = ffi.new("ur_section *")
        status = lib.ur_part_section(self.handle, kind, column, section)
        return section if status == lib.UR_OK else None

    def array(self, section: Any, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """A section as a read-only array over the mapped index, not checked."""
        if section.bytes == 0:
            return np.empty(0, dtype)
        handle = self.handle
        data = ffi.gc(section.data, lambda _, keep=handle: None)  # the array keeps the part open
        return np.frombuffer(memoryview(ffi.buffer(data, section.bytes)).toreadonly(), dtype)

    def check(self, section: Any, first: int, size: int) -> None:
        """Checks the digests of the index blocks under bytes [first, first + size) of a section."""
        error = ffi.new("ur_error *")
        if lib.ur_part_check(self.handle, section, first, size, error) != lib.UR_OK:
            error.part = 0
            raise_for(error, self._paths)

    def locate(self, row: int, column: int) -> tuple[int, int]:
        """Offset in the data file, and size, of a blob."""
        place, error = ffi.new("uint64_t[2]"), ffi.new("ur_error *")
        if lib.ur_part_locate(self.handle, row, column, place, place + 1, error) != lib.UR_OK:
            error.part = 0
            raise_for(error, self._paths)
        return place[0], place[1]


class NativeSet:
    """The rows of several parts as one row space, opened as needed; ``parts``: (path, id or None, rows or -1)."""

    __slots__ = ("handle", "names", "paths")

    def __init__(
        self, parts: Sequence[tuple[str, bytes | None, int]], io: str, verify: str, names: Sequence[str] = ()
    ) -> None:
        options, error = ffi.new("ur_set_options *"), ffi.new("ur_error *")
        options.io, options.verify = IO_CODES[io], VERIFY_CODES[verify]
        refs, kept = ffi.new("ur_part_ref[]", max(len(parts), 1)), []
        for ref, (path, part_id, rows) in zip(refs, parts, strict=False):
            kept.append(name := ffi.new("char[]", os.fsencode(path)))
            ref.data_path, ref.rows = name, rows
            if part_id is not None:
                kept.append(number := ffi.new("uint8_t[]", part_id))
                ref.id = number
        self.paths = tuple(path for path, _, _ in parts)
        self.names = tuple(names)
        out = ffi.new("ur_set **")
        if lib.ur_set_open(refs, len(parts), options, out, error) != lib.UR_OK:
            raise_for(error, self.paths, self.names)
        self.handle = ffi.gc(out[0], lib.ur_set_release)

    def fail(self, error: Any) -> NoReturn:
        """Raises what a failed call on this set says."""
        raise_for(error, self.paths, self.names)

    @property
    def rows(self) -> int:
        """Rows of all parts."""
        return int(lib.ur_set_rows(self.handle))

    @property
    def io_name(self) -> str:
        """The way of reading in use; ``auto`` while no part has been opened."""
        return IO_NAMES[lib.ur_set_io(self.handle)]

    def part(self, number: int) -> NativePart:
        """Part ``number``, opened if need be."""
        out, error = ffi.new("ur_part **"), ffi.new("ur_error *")
        if lib.ur_set_part(self.handle, number, out, error) != lib.UR_OK:
            self.fail(error)
        return NativePart(out[0], self.paths[number])

    def advise(self, rows: npt.NDArray[np.int64]) -> None:
        """Tells the kernel that the blobs of these rows will be read soon."""
        lib.ur_set_advise(self.handle, ffi.from_buffer("int64_t[]", rows), len(rows))

    def close(self) -> None:
        """Ends reading: later calls raise ClosedError, calls in flight finish."""
        lib.ur_set_close(self.handle)


class ReadBuffers:
    """The arguments of one ur_set_read at a time, made once: outputs for ``columns``, and where an error goes."""

    __slots__ = ("_from", "_kept", "_rows", "error", "outputs")

    def __init__(self, columns: Sequence[int]) -> None:
        self.outputs = ffi.new("ur_output[]", max(len(columns), 1))
        self.error = ffi.new("ur_error *")
        self._rows = ffi.new("int64_t[1]")
        self._from = ffi.from_buffer
        self._kept: list[Any] = [None] * len(columns)  # memory that belongs to this object
        for output, column in zip(self.outputs, columns, strict=False):
            output.column = column

    def set_data(self, i: int, data: Any, capacity: int) -> None:
        """Where output ``i`` goes: a C-contiguous array, borrowed for the next read."""
        output = self.outputs[i]
        output.data, output.capacity = self._from("uint8_t[]", data, True), capacity

    def set_offsets(self, i: int, offsets: npt.NDArray[np.int64]) -> None:
        """Where the offsets of output ``i`` go, int64[n + 1]."""
        self.outputs[i].offsets = self._from("int64_t[]", offsets, True)

    def set_valid(self, i: int, valid: npt.NDArray[np.bool_]) -> None:
        """Where output ``i`` says which values are not null, bool[n]."""
        self.outputs[i].valid = self._from("uint8_t[]", valid, True)

    def own(self, i: int, size: int, variable: bool, nullable: bool) -> None:
        """Gives output ``i`` memory of its own for one row: ``size`` bytes."""
        data, offsets, valid = (
            ffi.new("uint8_t[]", max(size, 1)),
            ffi.new("int64_t[2]"),
            ffi.new("uint8_t[1]"),
        )
        output = self.outputs[i]
        output.data, output.capacity = data, size
        output.offsets = offsets if variable else ffi.NULL
        output.valid = valid if nullable else ffi.NULL
        self._kept[i] = (data, offsets, valid)

    def used(self, i: int) -> int:
        """Bytes written to output ``i``, or needed when it was too small."""
        return int(self.outputs[i].used)

    def is_null(self, i: int) -> bool:
        """Whether the one row just read is null in output ``i``, which owns its memory."""
        return not self._kept[i][2][0]

    def one(self, i: int) -> bytes:
        """A copy of the one value just read into output ``i``, which owns its memory."""
        return ffi.buffer(self._kept[i][0], self.outputs[i].used)[:]  # type: ignore[no-any-return]

    def read(self, parts: NativeSet, rows: npt.NDArray[np.int64], count: int) -> bool:
        """Reads the rows; False when an output was too small, other failures raise."""
        status = lib.ur_set_read(
            parts.handle, self._from("int64_t[]", rows), len(rows), self.outputs, count, self.error
        )
        if status == lib.UR_OK:
            return True
        if status != lib.UR_TOO_SMALL:
            parts.fail(self.error)
        return False

    def read_one(self, parts: NativeSet, row: int, count: int) -> bool:
        """``read`` for a single row."""
        self._rows[0] = row
        status = lib.ur_set_read(parts.handle, self._rows, 1, self.outputs, count, self.error)
        if status == lib.UR_OK:
            return True
        if status != lib.UR_TOO_SMALL:
            parts.fail(self.error)
        return False
