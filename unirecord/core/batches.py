"""Batches, single rows, streams of elements and joined arrays, read by the C core."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from ..sizes import many
from .fetch import Fetching
from .library import Handle, ffi, keeping, lib, raise_refused
from .order import Order
from .output import xxh3_64
from .parts import NativePart, NativeSet
from .scan import Bitmap

__all__ = [
    "JoinedSet",
]


# Several sets with the same rows, read as one with columns of each.


class JoinedSet(NativeSet):
    """The rows of ``layers``, which have as many parts and rows in each: column i is ``places[i]``, (layer, column).

    Opens a part of each layer; the errors of a layer name its files.
    """

    paths: Sequence[str]
    names: tuple[str, ...]

    layers: tuple[NativeSet, ...]
    places: tuple[tuple[int, int], ...]

    __slots__ = ("layers", "places")

    def __init__(self, layers: Sequence[NativeSet], places: Sequence[tuple[int, int]]) -> None:
        self.layers, self.places = tuple(layers), tuple(places)
        self.paths, self.names = layers[0].paths, ()
        self.moved_on: Callable[[str | None], str] = layers[0].moved_on
        self.fetching: tuple[Fetching, ...] = tuple(
            fetching for layer in layers for fetching in layer.fetching
        )
        out, error = ffi.new("ur_set **"), ffi.new("ur_error *")
        sets = ffi.new("ur_set *[]", [layer.pointer for layer in layers])
        columns = ffi.new("ur_joined_column[]", list(places))
        if lib.ur_set_join(sets, len(layers), columns, len(places), out, error) != lib.UR_OK:
            self.fail(error)
        self.pointer: Any = out[0]
        self.handle: Handle = Handle(out[0], lib.ur_set_release, *(layer.handle for layer in layers))

    def fail(self, error: Any) -> NoReturn:
        """Raises what a failed call on this set says."""
        for fetching in self.fetching:
            fetching.raise_kept()
        layer = 0
        if 0 <= error.column < len(self.places):
            layer, error.column = self.places[error.column]
        self.layers[layer].fail(error)

    def part(self, number: int) -> NativePart:
        """Part ``number`` of the first layer, opened if need be."""
        return self.layers[0].part(number)


# Single rows of a set as samples, through structures that are made once.


# Looked up once: samples are read one at a time through them.
_read_row, _row_from_buffer, _row_buffer, _empty = lib.ur_set_read_row, ffi.from_buffer, ffi.buffer, np.empty
_BYTES: Final = ffi.typeof("uint8_t[]")
_COPIED: Final = 4096  # bytes of an array up to which a copy costs less than telling C of new memory
_FIRST_SIZE: Final = 256  # bytes made room for in a value of variable width, until one is larger


class RowOutput(NamedTuple):
    """A column to be read: its ordinal in the schema, and the bytes of a value, 0 when they differ.

    With a ``shape``, which values of fixed width alone can have, values become arrays; of ``scalar``, numbers.
    """

    name: str
    column: int
    size: int
    nullable: bool
    shape: tuple[int, ...] | None = None
    dtype: npt.DTypeLike = np.uint8
    scalar: bool = False


class RowReader:
    """Reads a row as a dict: writable arrays, numbers, else bytes as stored, None for null. One call at a time."""

    __slots__ = (
        "_arrays",
        "_blank",
        "_cells",
        "_count",
        "_error",
        "_may_be_null",
        "_outputs",
        "_parts",
        "_pointer",
        "_scalars",
        "_small",
    )

    def __init__(self, parts: NativeSet, outputs: Sequence[RowOutput]) -> None:
        self._parts = parts
        self._pointer = parts.pointer  # which ``parts`` holds
        self._count = len(outputs)
        self._outputs = ffi.new("ur_output[]", max(len(outputs), 1))
        self._error = ffi.new("ur_error *")
        self._blank = dict.fromkeys(output.name for output in outputs)
        self._arrays = []
        self._scalars: list[tuple[str, npt.NDArray[Any]]] = []  # each read into the same place, as are
        self._small: list[tuple[str, npt.NDArray[Any]]] = []  # small arrays
        self._may_be_null: list[tuple[str, Any]] = []
        self._cells: list[_Cell] = []
        for i, output in enumerate(outputs):
            native = self._outputs[i]
            native.column = output.column
            if output.shape is None and not output.scalar:
                self._cells.append(_Cell(native, output))
            else:
                native.capacity = output.size
                if output.shape is not None and output.size > _COPIED:
                    self._arrays.append((native, output.name, output.shape, np.dtype(output.dtype)))
                else:
                    place = np.zeros(1 if output.shape is None else output.shape, output.dtype)
                    native.data = _row_from_buffer(_BYTES, place, True)
                    (self._scalars if output.shape is None else self._small).append((output.name, place))
                if output.nullable:
                    native.valid = valid = ffi.new("uint8_t[1]")
                    self._may_be_null.append((output.name, valid))

    def read(self, row: int) -> dict[str, Any]:
        """The sample of one row; its arrays and bytes are its own."""
        sample: dict[str, Any] = self._blank.copy()
        for output, name, shape, dtype in self._arrays:
            sample[name] = array = _empty(shape, dtype)
            output.data = _row_from_buffer(_BYTES, array, True)
        while status := _read_row(self._pointer, row, self._outputs, self._count, self._error):
            if status != lib.UR_TOO_SMALL:
                self._parts.fail(self._error)
            for cell in self._cells:
                cell.make_room()
        for name, place in self._scalars:
            sample[name] = place[0]  # a copy
        for name, place in self._small:
            sample[name] = place.copy()
        for cell in self._cells:
            if cell.valid is None or cell.valid[0]:
                sample[cell.name] = _row_buffer(cell.data, cell.output.used)[:]
        for name, valid in self._may_be_null:
            if not valid[0]:
                sample[name] = None
        return sample


class _Cell:
    """An output that is no array, and its memory."""

    __slots__ = ("data", "name", "offsets", "output", "valid")

    def __init__(self, output: Any, column: RowOutput) -> None:
        self.name = column.name
        self.output = output
        self.offsets = None if column.size else ffi.new("int64_t[2]")
        self.valid = ffi.new("uint8_t[1]") if column.nullable else None
        output.offsets = ffi.NULL if self.offsets is None else self.offsets
        output.valid = ffi.NULL if self.valid is None else self.valid
        self._hold(column.size or _FIRST_SIZE)

    def _hold(self, size: int) -> None:
        self.output.data = self.data = ffi.new("uint8_t[]", size)
        self.output.capacity = size

    def make_room(self) -> None:
        """Makes the memory as large as the last read would have needed it, if that is more."""
        if self.output.used > self.output.capacity:
            self._hold(self.output.used)


# The C core's streams: samples of one length, cut from values that lie one after the other; and packing.


WHOLE: Final = int(lib.UR_STREAM_WHOLE)
APART: Final = int(lib.UR_STREAM_APART)
PACKED: Final = int(lib.UR_STREAM_PACKED)

ELEMENTS: Final = int(lib.UR_STREAM_ELEMENTS)
DOCUMENTS: Final = int(lib.UR_STREAM_DOCUMENTS)
POSITIONS: Final = int(lib.UR_STREAM_POSITIONS)
LABELS: Final = int(lib.UR_STREAM_LABELS)
LENGTHS: Final = int(lib.UR_STREAM_LENGTHS)
RUNS: Final = int(lib.UR_STREAM_RUNS)
# What is said of a run, and in which type.
OF_RUNS: Final[dict[int, np.dtype[Any]]] = {LENGTHS: np.dtype(np.int32), RUNS: np.dtype(np.int64)}

Numbers = npt.NDArray[np.int64]


class NativeStream:
    """A ur_stream over a column of ``parts``, and the arrays that it borrows; immutable.

    ``before``, ``pieces`` (int64[n, 3]) and ``numbers`` as the header says. ``selection`` is what a selection gives the
    C loader.
    """

    pointer: Any

    def __init__(
        self,
        parts: NativeSet,
        kind: int,
        column: int,
        *,
        length: int,
        stride: int,
        samples: int,
        documents: int,
        before: Numbers,
        every: int,
        pieces: Numbers | None,
        numbers: Numbers | None,
        selection: tuple[Numbers | Bitmap | None, int, int, int],
        padding: npt.NDArray[Any] | None,
        element_bytes: int,
        is_signed: bool,
    ) -> None:
        held, start, step, _ = selection
        self.parts = parts
        self.pointer = pointer = ffi.new("ur_stream *")
        pointer.kind, pointer.column, pointer.element_bytes = kind, column, element_bytes
        pointer.is_signed = is_signed
        pointer.length, pointer.stride, pointer.samples = length, stride, samples
        pointer.documents, pointer.every = documents, every
        pointer.selection_start, pointer.selection_step = start, step
        pointer.before = ffi.from_buffer("int64_t[]", before)
        self._kept = [before, pieces, numbers, held]
        if pieces is not None:
            pointer.pieces = ffi.cast("ur_stream_piece *", ffi.from_buffer(pieces))
        if numbers is not None:
            pointer.numbers = ffi.from_buffer("int64_t[]", numbers)
        if isinstance(held, Bitmap):
            pointer.bitmap = held.pointer
        elif held is not None:
            pointer.selection = ffi.from_buffer("int64_t[]", held)
        if padding is not None:
            pointer.padded = 1
            ffi.memmove(pointer.padding, padding.tobytes(), element_bytes)

    def read(self, samples: Numbers, numbers: Sequence[int], outputs: Sequence[npt.NDArray[Any]]) -> None:
        """Fills an array for each output (ELEMENTS, DOCUMENTS, POSITIONS, LABELS), [samples, length]."""
        native = ffi.new("ur_output[]", max(len(numbers), 1))
        for output, number, array in zip(native, numbers, outputs, strict=False):
            output.column, output.capacity = number, array.nbytes
            output.data = ffi.from_buffer("uint8_t[]", array, True)
        self._read(samples, native, len(numbers))

    def read_runs(self, samples: Numbers, number: int) -> tuple[npt.NDArray[np.uint8], Numbers]:
        """What an output (of OF_RUNS) has of each run, as bytes, and where each sample's begin."""
        offsets, data = np.empty(len(samples) + 1, np.int64), np.empty(0, np.uint8)
        output = ffi.new("ur_output *")
        output.column, output.offsets = number, ffi.from_buffer("int64_t[]", offsets, True)
        while not self._read(samples, output, 1):
            data = np.empty(output.used, np.uint8)
            output.data, output.capacity = ffi.from_buffer("uint8_t[]", data, True), data.nbytes
        return data, offsets

    def _read(self, samples: Numbers, native: Any, count: int) -> bool:
        """Whether there was room in the outputs."""
        given, error = np.ascontiguousarray(samples, np.int64), ffi.new("ur_error *")
        rows = ffi.from_buffer("int64_t[]", given)
        status = lib.ur_stream_read(self.parts.pointer, self.pointer, rows, len(given), native, count, error)
        if status not in (lib.UR_OK, lib.UR_TOO_SMALL):
            self.parts.fail(error)
        return bool(status == lib.UR_OK)


class NativeSequence:
    """A ur_sequence and the arrays that it borrows: what stands at offsets from rows, within their groups; immutable.

    ``rows`` (None: their numbers), ``starts`` and ``times`` as the header says. ``steps``: offsets, whether they are of
    times, and how many outputs have them, of each. ``later``: the sequences of the rows behind these.
    """

    pointer: Any

    def __init__(
        self,
        places: int,
        first_row: int,
        rows: Numbers | None,
        starts: Numbers,
        times: Numbers | None,
        steps: Sequence[tuple[Numbers, bool, int]],
        *,
        tolerance: int,
        before: bool,
        blank: bool,
        later: NativeSequence | None,
    ) -> None:
        self.pointer = pointer = ffi.new("ur_sequence *")
        given = ffi.new("ur_steps[]", max(len(steps), 1))
        self._kept = [rows, starts, times, given, later, *(offsets for offsets, _, _ in steps)]
        self._counts = [len(offsets) for offsets, _, _ in steps]
        pointer.places, pointer.groups, pointer.first_row = places, len(starts) - 1, first_row
        pointer.starts = ffi.from_buffer("int64_t[]", starts)
        if rows is not None:
            pointer.rows = ffi.from_buffer("int64_t[]", rows)
        if times is not None:
            pointer.times = ffi.from_buffer("int64_t[]", times)
        pointer.tolerance, pointer.before, pointer.blank = tolerance, before, blank
        for one, (offsets, timed, outputs) in zip(given, steps, strict=False):
            one.offsets, one.count = ffi.from_buffer("int64_t[]", offsets), len(offsets)
            one.timed, one.outputs = timed, outputs
        pointer.steps, pointer.steps_count = given, len(steps)
        if later is not None:
            pointer.next = later.pointer

    def find(self, number: int, anchors: Numbers) -> tuple[Numbers, npt.NDArray[np.bool_]]:
        """The rows at steps ``number`` from each anchor, and where there is none: [anchors, offsets] both.

        ValueError for an anchor that is no row of the sequences.
        """
        anchors = np.ascontiguousarray(anchors, np.int64)
        shape = len(anchors), self._counts[number]
        rows, missing, error = np.empty(shape, np.int64), np.empty(shape, np.bool_), ffi.new("ur_error *")
        given = ffi.from_buffer("int64_t[]", anchors), len(anchors)
        found = ffi.from_buffer("int64_t[]", rows, True), ffi.from_buffer("uint8_t[]", missing, True)
        if lib.ur_sequence_find(self.pointer, number, *given, *found, error) != lib.UR_OK:
            raise_refused(error)
        return rows, missing


def pack(lengths: Numbers, size: int) -> tuple[Numbers, int]:
    """The bin of each length, and how many there are: each goes where the least room is that is enough."""
    given = np.ascontiguousarray(lengths, np.int64)
    places, used, error = np.empty(len(given), np.int64), ffi.new("int64_t *"), ffi.new("ur_error *")
    from_buffer = ffi.from_buffer
    status = lib.ur_pack(
        from_buffer("int64_t[]", given), len(given), size, from_buffer("int64_t[]", places), used, error
    )
    if status != lib.UR_OK:
        raise_refused(error)
    return places, int(used[0])


# The C core's loader, the memory its batches lie in, and the batches.


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
                f"{many(memory.nbytes, 'byte')} at {memory.ctypes.data:#x} cannot hold batches: not aligned, or too few"
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

    def starts(self, output: int, rank: int) -> npt.NDArray[np.int64]:
        """Where the crop of each row begins, int64[rows, rank], of an output of crops."""
        view = ffi.cast("ur_column_view *", self._views)[output]
        return np.ndarray((self.rows, rank), np.int64, self.memory, view.starts_at)

    def missing_at(self, output: int) -> int:
        """Place of the array that says where no row stands at a step, bool[rows, steps], of a sequence's output."""
        return int(ffi.cast("ur_column_view *", self._views)[output].missing_at)

    def row_ids(self) -> npt.NDArray[np.int64]:
        """Row of the set for each row of the batch, int64[rows]."""
        return np.ndarray((self.rows,), np.int64, self.memory, self.row_ids_at)

    def rows_digest(self) -> int:
        """XXH3-64 of its row ids."""
        return int(_digest(_from_buffer(self.memory) + self.row_ids_at, 8 * self.rows, 0))

    def skipped_rows(self) -> npt.NDArray[np.int64]:
        """Rows of the set that were left out because they are corrupt, int64[skipped]."""
        return np.ndarray((self.skipped,), np.int64, self.memory, self.skipped_at)


class Crops(NamedTuple):
    """Crops of the outputs of a loader: name, shape of the values and sizes of each, None for whole values.

    ``base``, and ``draws`` of all samples or else ``period``, make the keys of samples, as ur_loader_options says.
    """

    outputs: Sequence[tuple[str, Sequence[int] | None, Sequence[int]] | None]
    base: int
    draws: npt.NDArray[np.int64] | None = None
    period: int = 0


def _give_crops(options: Any, crops: Crops) -> list[Any]:
    """Fills the options of a loader; returns what must stay as long as it."""
    given = ffi.new("ur_drawn_box[]", max(len(crops.outputs), 1))
    held = [given, crops.draws]
    for one, output in zip(given, crops.outputs, strict=False):
        if output is None:
            continue
        name, shape, sizes = output
        known = [max(size, 0) for size in shape or (0,)]
        arrays = ffi.new("int64_t[]", known), ffi.new("int64_t[]", list(sizes))
        held += arrays
        one.rank, one.name = len(sizes), xxh3_64(name.encode())
        one.shape, one.sizes = arrays
    options.crops, options.crop_base, options.crop_period = given, crops.base, crops.period
    if crops.draws is not None:
        options.crop_draws = ffi.from_buffer("int64_t[]", crops.draws)
    return held


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
        crops: Crops | None = None,
        sequence: NativeSequence | None = None,
    ) -> None:
        """``batch_ends``: for batches of different sizes, ``batch_size`` at most, the sample before which each ends.

        ``stream``: of it, and of the set that it is cut from, in place of the rows of ``parts``.
        ``sequence``: samples are what stands at its steps from these rows.
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
        if sequence is not None:
            options.sequence = sequence.pointer
        held: list[Any] = []
        if crops is not None:
            held = _give_crops(options, crops)
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
            out[0], lib.ur_loader_release, selection, pool.lent, *parts.fetching, stream, sequence, held
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
