"""Reads the rows of parts: many as arrays, one as stored bytes; one call into C for either."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import (
    CODEC_PLAIN,
    IO_CODES,
    VERIFY_CODES,
    Bitmap,
    Decoder,
    JoinedSet,
    NativeLoader,
    NativeSet,
    ReadBuffers,
    RowOutput,
    RowReader,
    cached_property,
    check_column,
)
from ..errors import ClosedError, ColumnError, CorruptionError, UniRecordError
from ..format.chunks import chunk_sizes
from ..format.column import Column, impossible_sizes
from ..format.patch import decode_patch
from ..format.schema import Schema
from ..format.value_rules import (
    BROKEN,
    NO_TEXT,
    NULL_WITH_BYTES,
    Values,
    broken_scalars,
    filled_nulls,
    no_texts,
    no_values,
    takes_any_bytes,
)
from ..storage.claim import take_lease
from ..storage.schemes import location_of
from ..storage.storage_options import use_storage
from .cache import CacheOptions, CacheStats, sum_of
from .data_file import DataFile, DataHead, RowGroup
from .dataset_path import PartRef, Snapshot, has_moved_on, resolve, resolve_again, use_snapshot
from .deletions import deleted_rows, live_rows
from .layers import OpenedLayer, layers_of, places_in
from .part import JoinedPart, Part
from .snapshot import ListedRefs, rows_of

__all__ = [
    "CellValues",
    "ColumnReader",
    "ColumnResult",
    "Decoders",
    "Io",
    "Part",
    "PartRef",
    "PartSet",
    "Snapshot",
    "Verify",
    "check_values",
    "pieces_of",
    "refuse_value",
    "resolve",
    "resolve_again",
    "use_snapshot",
]


# Values of a row group's blob columns, as they are or decompressed, in pieces of bounded size.


_PIECE_BYTES: Final = 64 << 20  # decompressed at a time, unless a single value has more

_UNDONE: Final = "the cell cannot be decompressed to the size that is stored for it"

U64 = npt.NDArray[np.uint64]
Rows = npt.NDArray[np.intp]


class Decoders:
    """What decompresses the cells of a part's compressed columns, and which columns cannot be read.

    ``dictionaries``: by ordinal of the column. ``whole``: these are all that there were; else a column for which there
    is none here cannot be decompressed, since nobody knows whether it had one.

    ``unavailable``: why columns cannot be read here, by ordinal, and ``lost``: why they cannot be read anywhere.
    """

    def __init__(self, head: DataHead, dictionaries: Mapping[int, bytes], *, whole: bool) -> None:
        self._found: dict[int, Decoder] = {}
        self.unavailable: dict[int, str] = {}
        self.lost: dict[int, str] = {}
        for ordinal, column in enumerate(head.schema):
            try:
                check_column(column.code, CODEC_PLAIN if column.codec is None else column.codec.code)
            except ColumnError as error:
                self.unavailable[ordinal] = str(error)
                continue
            if column.codec is None:
                continue
            if ordinal not in dictionaries and not whole:
                self.lost[ordinal] = "its dictionary cannot be read"
            else:
                self._add(ordinal, column, dictionaries.get(ordinal, b""))

    def _add(self, ordinal: int, column: Column, dictionary: bytes) -> None:
        assert column.codec is not None
        try:
            self._found[ordinal] = Decoder(column.codec.code, column.element_bytes, dictionary)
        except CorruptionError as error:
            self.lost[ordinal] = str(error)

    @classmethod
    def of(
        cls, data: DataFile, head: DataHead, others: Callable[[], Mapping[int, bytes] | None] = lambda: None
    ) -> Decoders:
        """Those of a data file; ``others`` gives the dictionaries that its index repeats, if it is sound."""
        found: dict[int, bytes] = {}
        try:
            for page in data.each_dictionary(head):
                found[page.column] = page.content
        except CorruptionError:
            known = others()
            return cls(head, found if known is None else known, whole=known is not None)
        return cls(head, found, whole=True)

    def check_available(self, head: DataHead, path: str) -> None:
        """ColumnError when a column cannot be read here."""
        for ordinal, why in self.unavailable.items():
            raise ColumnError(f"{path}, column {head.schema[ordinal].name!r}: {why}")

    def decoder(self, ordinal: int) -> Decoder | None:
        """That of a column; None when its cells cannot be decompressed here."""
        return self._found.get(ordinal)


def _raw_sizes(schema: Schema, rows: int, raw_lengths: Sequence[npt.NDArray[Any] | None]) -> dict[int, U64]:
    """Bytes of the value of each row, by ordinal of the compressed column; ``raw_lengths``: where they differ."""
    given = iter(raw_lengths)
    sizes = {}
    for ordinal, column in schema.blobs:
        if column.has_raw_lengths:
            known = next(given)
            assert known is not None
            sizes[ordinal] = known.astype(np.uint64, copy=False)
        elif column.codec is not None:
            sizes[ordinal] = np.full(rows, column.fixed_bytes, np.uint64)
    return sizes


def pieces_of(head: DataHead, group: RowGroup, rows: Rows) -> Iterator[Rows]:
    """These rows in pieces of which the compressed columns can be decompressed in bounded memory."""
    every = _raw_sizes(head.schema, group.page.rows, group.page.raw_lengths)
    raw = [sizes[rows].astype(np.float64) for sizes in every.values()]
    if not raw:
        if len(rows):
            yield rows
        return
    for cut in _cuts(np.sum(raw, axis=0)):
        yield rows[cut]


class _Pieces(NamedTuple):
    """Where pieces of cells lie, their lengths, and those of what they become; the first of each row."""

    places: tuple[U64, U64, U64]
    firsts: Rows
    several: bool


class CellValues:
    """The values of the blob columns of some rows, decompressed where they are compressed.

    ``places``, ``sizes``: where each cell lies in ``payload`` and its length, [rows, blob columns]; ``raw_lengths``:
    bytes of the values of each compressed column of variable width; ``tables``: as `chunk_tables` has them. The
    elements of arrays that are cut into chunks come in the order of the chunks.
    """

    def __init__(
        self,
        schema: Schema,
        places: U64,
        sizes: U64,
        raw_lengths: Sequence[npt.NDArray[Any] | None],
        tables: Mapping[int, Sequence[U64]],
        payload: npt.NDArray[np.uint8],
        decoders: Decoders,
    ) -> None:
        self._tables = tables
        self._schema, self._blobs, self._payload, self._decoders = schema, schema.blobs, payload, decoders
        self._places, self._sizes = places, sizes
        self._raw = _raw_sizes(schema, len(places), raw_lengths)

    def of(self, j: int, rows: Rows) -> Iterator[Values]:
        """Those of these rows in the j-th blob column; none of a column that cannot be decompressed."""
        starts, stored = self._places[rows, j], self._sizes[rows, j]
        ordinal, column = self._blobs[j]
        if column.codec is None:
            good = np.ones(len(rows), bool)
            yield Values(rows, self._payload, starts.astype(np.int64), stored.astype(np.int64), good)
            return
        decoder = self._decoders.decoder(ordinal)
        if decoder is None:
            return
        raw = self._raw[ordinal][rows]
        impossible = impossible_sizes(stored, raw)
        raw = np.where(impossible, np.uint64(0), raw)
        stored = np.where(impossible, np.uint64(0), stored)
        for cut in _cuts(raw):
            pieces = self._pieces(ordinal, rows[cut], starts[cut], stored[cut], raw[cut])
            data, good = decoder.decode(self._payload, *pieces.places)
            good = np.logical_and.reduceat(good, pieces.firsts) if pieces.several else good
            ends = np.cumsum(raw[cut], dtype=np.int64)
            lengths = raw[cut].astype(np.int64)
            yield Values(rows[cut], data, ends - lengths, lengths, good & ~impossible[cut])

    def _pieces(self, ordinal: int, rows: Rows, starts: U64, stored: U64, raw: U64) -> _Pieces:
        """What is decompressed one by one: cells, or their chunks."""
        tables = self._tables.get(ordinal)
        if tables is None:
            return _Pieces((starts, stored, raw), np.arange(len(rows)), several=False)
        column = self._schema[ordinal]
        every: list[tuple[U64, U64, U64]] = []
        for i, row in enumerate(rows.tolist()):
            lengths, sizes = tables[row], chunk_sizes(column, int(raw[i]))
            if len(sizes) != len(lengths) or not len(sizes) or sum(lengths.tolist()) != int(stored[i]):
                every.append((starts[i : i + 1], stored[i : i + 1], raw[i : i + 1]))
                continue
            wrong = impossible_sizes(lengths, sizes)
            given = np.where(wrong, np.uint64(0), lengths)  # which makes no value
            every.append((starts[i] + np.cumsum(lengths, dtype=np.uint64) - lengths, given, sizes))
        counts = np.array([len(sizes) for _, _, sizes in every])
        joined = tuple(np.concatenate(parts) for parts in zip(*every, strict=True))
        return _Pieces((joined[0], joined[1], joined[2]), np.cumsum(counts) - counts, several=True)

    def problems(
        self, j: int, valid: npt.NDArray[np.bool_] | None, among: npt.NDArray[np.bool_] | None = None
    ) -> Iterator[tuple[str, Rows]]:
        """What is wrong in the j-th blob column, each with its rows: cells of no value, and nulls that have bytes.

        ``among``: the rows that are looked at; None: all.
        """
        _, column = self._blobs[j]
        every = np.ones(len(self._places), bool) if among is None else among
        problems: dict[str, list[Rows]] = {}
        if valid is not None:
            for values in self.of(j, np.flatnonzero(~valid & every)):
                problems.setdefault(_UNDONE, []).append(values.rows[~values.good])
                problems.setdefault(NULL_WITH_BYTES, []).append(filled_nulls(column, values))
        if valid is not None or column.codec is not None or not takes_any_bytes(column):
            for values in self.of(j, np.flatnonzero(every if valid is None else every & valid)):
                problems.setdefault(_UNDONE, []).append(values.rows[~values.good])
                problems.setdefault(f"the bytes are no value of {column}", []).append(
                    no_values(column, values)
                )
        for what, found in problems.items():
            yield what, np.sort(np.concatenate(found))


def _cuts(sizes: npt.NDArray[Any]) -> Iterator[slice]:
    """Slices of values that have so many bytes together, or are one."""
    ends: npt.NDArray[Any] = np.cumsum(sizes, dtype=np.float64)
    first = 0
    while first < len(ends):
        before = ends[first - 1] if first else 0.0
        stop = max(int(np.searchsorted(ends, before + _PIECE_BYTES, side="right")), first + 1)
        yield slice(first, stop)
        first = stop


Io = Literal["auto", "mmap", "pread", "uring", "uring-direct", "memory"]
Verify = Literal["first", "always", "never"]

Array = NDArray[Any]
Empty = Callable[[tuple[int, ...], np.dtype[Any]], Array]
_SPARE = 4  # argument structures kept by a reader; more are made when more threads read at once
_STRING_BYTES = 64  # of a string, when a guess has to do
_LEAST_STRING_BYTES = 16  # of one that nothing is known of
_FIRST_GUESS = 1 << 16  # bytes of values of variable width that a first read makes room for


@dataclass(slots=True)
class ColumnResult:
    """A column of some rows, in memory of its own.

    Fixed width: ``data`` [n, …] of the column's dtype. Variable: ``data`` uint8[bytes], and value i is
    ``data[offsets[i]:offsets[i + 1]]``. ``valid`` bool[n] for nullable columns, else None.
    """

    data: Array
    offsets: NDArray[np.int64] | None
    valid: NDArray[np.bool_] | None


class ColumnReader:
    """Reads chosen columns of a set: knows their outputs, and keeps the structures that a call needs. Thread-safe."""

    def __init__(self, parts: NativeSet, columns: Sequence[tuple[int, Column]]) -> None:
        self._parts = parts
        self._numbers = [number for number, _ in columns]
        self._row_outputs = [_row_output(number, column) for number, column in columns]
        self._count = len(columns)
        self._outputs = [_Output(i, column) for i, (_, column) in enumerate(columns)]
        self._spare: list[ReadBuffers] = []
        self._spare_rows: list[RowReader] = []
        self._mean = [_FIRST_GUESS // 256] * self._count  # bytes of a value of variable width, as seen lately

    def read(self, rows: NDArray[np.int64], empty: Empty = np.empty) -> list[ColumnResult]:
        """The columns of these rows (int64, contiguous), in the order given.

        ``empty`` makes the memory of columns of fixed width.
        """
        try:
            buffers = self._spare.pop()
        except IndexError:  # there is none, or another thread has taken the last one
            buffers = ReadBuffers(self._numbers)
        count = len(rows)
        results = [self._prepare(buffers, output, count, empty) for output in self._outputs]
        if not buffers.read(self._parts, rows, self._count):
            for output, result in zip(self._outputs, results, strict=True):
                if output.variable:
                    needed = buffers.used(output.i)
                    result.data = np.empty(needed, np.uint8)
                    buffers.set_data(output.i, result.data, needed)
            if not buffers.read(self._parts, rows, self._count):
                raise AssertionError("the sizes of values changed while they were read")
        for output, result in zip(self._outputs, results, strict=True):
            if output.variable:
                used = buffers.used(output.i)
                result.data = result.data[:used]
                if count:
                    self._mean[output.i] = max(used // count + 1, self._mean[output.i] * 7 // 8)
        if len(self._spare) < _SPARE:
            self._spare.append(buffers)
        return results

    def _prepare(self, buffers: ReadBuffers, output: _Output, count: int, empty: Empty) -> ColumnResult:
        offsets = valid = None
        if output.variable:
            data: Array = np.empty(count * self._mean[output.i] * 5 // 4, np.uint8)
            offsets = np.empty(count + 1, np.int64)
            buffers.set_offsets(output.i, offsets)
        else:
            data = empty((count, *output.shape), output.dtype)
        buffers.set_data(output.i, data, data.nbytes)
        if output.nullable:
            valid = np.empty(count, np.bool_)
            buffers.set_valid(output.i, valid)
        return ColumnResult(data, offsets, valid)

    def read_one(self, row: int) -> dict[str, Any]:
        """The columns of one row by name: writable arrays, numbers, else bytes as stored; None for null."""
        try:
            reader = self._spare_rows.pop()
        except IndexError:  # there is none, or another thread has taken the last one
            reader = RowReader(self._parts, self._row_outputs)
        sample = reader.read(row)
        self._spare_rows.append(reader)  # as many as threads have read at once
        return sample


def _row_output(number: int, column: Column) -> RowOutput:
    size, shape = column.fixed_bytes, column.item_shape if column.is_array and column.fixed_bytes else None
    scalar = not column.is_array and column.dtype is not None
    return RowOutput(column.name, number, size, column.nullable, shape, column.dtype or np.uint8, scalar)


class _Output:
    """What a reader knows of one output."""

    __slots__ = ("dtype", "i", "nullable", "shape", "variable")

    def __init__(self, i: int, column: Column) -> None:
        self.i = i
        self.variable = column.fixed_bytes == 0
        self.nullable = column.nullable
        self.shape = () if self.variable else column.item_shape
        self.dtype = np.dtype(np.uint8) if column.dtype is None else np.dtype(column.dtype)


class PartSet:
    """The rows of a snapshot's parts, one after the other, as one row space. Thread-safe; usable after fork.

    Rows that have been deleted keep their numbers here, and can be read: who says ``knows_deletions`` asks ``live``.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        io: Io = "auto",
        verify: Verify = "first",
        cache: CacheOptions | None = None,
        *,
        knows_deletions: bool = False,
    ) -> None:
        if snapshot.deleted and not knows_deletions:
            raise UniRecordError(
                f"{snapshot.path}: {snapshot.deleted:,} of its rows have been deleted, and this does not know of that "
                "yet; open it as a UniRecordDataset, or write what is left to another path: unirecord export, or write"
            )
        if io not in IO_CODES:
            raise ValueError(f"io is {io!r}; expected one of {', '.join(map(repr, IO_CODES))}")
        if verify not in VERIFY_CODES:
            raise ValueError(f"verify is {verify!r}; expected one of {', '.join(map(repr, VERIFY_CODES))}")
        self.snapshot = snapshot
        self.schema: Schema = snapshot.schema
        self.rows: int = snapshot.rows
        self.starts: NDArray[np.int64] = np.cumsum([0, *rows_of(snapshot.parts)], dtype=np.int64)
        self._starts: list[int] = self.starts.tolist()
        opened = partial(
            OpenedLayer,
            io=io,
            verify=verify,
            cache=cache,
            storage=snapshot.storage,
            data_bytes=self._data_bytes,
            moved_on=partial(has_moved_on, snapshot),
        )
        self._layers = [opened(layer) for layer in layers_of(snapshot)]
        self._leases = [take_lease(listing.paths, listing.mark) for listing in snapshot.listings]
        self._places = places_in([layer.layer for layer in self._layers])
        self._native: NativeSet = self._layers[0].native
        if len(self._layers) > 1:
            self._native = JoinedSet([layer.native for layer in self._layers], self._places)
        self.is_fetched: bool = self._layers[0].is_fetched
        self.cache_options: CacheOptions | None = self._layers[0].cache_options
        self._ahead = [layer.ahead for layer in self._layers if layer.ahead is not None]
        self.io, self.verify = io, verify
        self._readers: dict[tuple[int, ...], ColumnReader] = {}
        self._closed = False

    def __len__(self) -> int:
        return len(self.snapshot.parts)

    @property
    def io_name(self) -> str:
        """The way of reading in use, ``"fetch"`` of an object store; before any part is opened, the one asked for."""
        if self.is_fetched:
            return "fetch"
        name = self._native.io_name
        return self.io if name == "auto" else name

    def reader(self, columns: Sequence[int]) -> ColumnReader:
        """How to read these columns (ordinals in the schema); kept for the next time."""
        key = tuple(columns)
        reader = self._readers.get(key)
        if reader is None:
            reader = self._readers[key] = ColumnReader(
                self._native, [(i, self.schema.columns[i]) for i in key]
            )
        return reader

    def read(self, rows: NDArray[np.int64], columns: Sequence[int]) -> list[ColumnResult]:
        """Columns of rows [0, rows), in the order given. IndexError names a row that does not exist."""
        return self.reader(columns).read(np.ascontiguousarray(rows, np.int64))

    def read_boxes(
        self, ordinal: int, rows: NDArray[np.int64], sizes: Sequence[int], starts: NDArray[np.int64]
    ) -> ColumnResult:
        """A box of the value of each row (int64, contiguous) in a column of arrays, of bytes or of text.

        Of the dimensions of the arrays, one may be free.

        ``sizes`` are those of a box, and ``starts`` [n, dimensions] where it begins in each value, in which it lies. Of
        a column in chunks, the chunks that boxes touch are read alone.
        """
        column = self.schema.columns[ordinal]
        data = np.empty((len(rows), *sizes), np.uint8 if column.dtype is None else column.dtype)
        valid = np.empty(len(rows), np.bool_) if column.nullable else None
        self._native.read_boxes(ordinal, rows, column.shape, sizes, starts, data, valid)
        return ColumnResult(data, None, valid)

    def value_size(self, ordinal: int, row: int) -> int | None:
        """Bytes of the value of a row in a column of variable width, of which nothing is read; None for null."""
        column = self.schema.columns[ordinal]
        if column.nullable:
            rank = len(column.shape or (0,))
            rows, none = np.array([row], np.int64), np.zeros((1, rank), np.int64)
            if not self.read_boxes(ordinal, rows, (0,) * rank, none).valid[0]:  # type: ignore[index]
                return None
        return self._native.value_size(ordinal, row)

    def advise(self, rows: NDArray[np.int64]) -> int:
        """Says that the blobs of these rows will be read soon: to the kernel, or, once each, of an object store.

        Returns what `forget_advice` takes.
        """
        turn = max(
            (ahead.next_turn() for ahead in self._ahead), default=0
        )  # the same of all: no one else asks
        self._native.advise(np.ascontiguousarray(rows, np.int64))
        return turn

    @property
    def advised_bytes(self) -> int:
        """What an object store was asked for by `advise`, and has not been read yet."""
        return sum(ahead.bytes for ahead in self._ahead)

    def forget_advice(self, turn: int | None = None) -> None:
        """Gives up what an object store was asked for up to this call of `advise`, or all calls, and was not read."""
        for ahead in self._ahead:
            if turn is None:
                ahead.clear()
            else:
                ahead.drop(turn)

    def part(self, number: int) -> Part:
        """Part ``number``, opened if need be."""
        if not 0 <= number < len(self):
            raise IndexError(f"part {number} is out of range: there are {len(self)}")
        if len(self._layers) == 1:
            return self._layers[0].part(number)
        opened = [layer.part(number) for layer in self._layers]
        places = [(opened[layer], column) for layer, column in self._places]
        return JoinedPart(self.snapshot.parts[number].path, self.schema, places)

    def locate(self, row: int) -> tuple[str, int]:
        """Path of the part that holds a row, and its number in the part."""
        if not 0 <= row < self.rows:
            raise IndexError(f"row {row} is out of range: there are {self.rows}")
        number = bisect_right(self._starts, row) - 1
        return self.snapshot.parts[number].path, row - self._starts[number]

    @property
    def mean_block_row_bytes(self) -> float:
        """Bytes of the data files for each row by which blocks are chosen: without column parts; 0 without rows."""
        with use_storage(self.snapshot.storage):
            more = sum(file.bytes for part in self.snapshot.parts for file in part.files)
            return (self._data_bytes - more) / self.rows if self.rows else 0.0

    def group_rows(self) -> int:
        """Rows of a row group of the first part that has any; 1 without rows."""
        for number, part in enumerate(self.snapshot.parts):
            if part.rows:
                info = self._native.part(number).info
                return int(info.group_rows or -(-info.rows // max(info.groups, 1)))
        return 1

    def mean_row_bytes(self, columns: Sequence[int] | None = None) -> float:
        """Bytes of the values of a row, about; 0 without rows. Of some columns (ordinals in the schema) or all.

        That is what data files hold for each row, or more where their scalars are compressed: by their widths, and by
        the indexes, which hold strings as they are. What columns of fixed width do not account for is taken to belong
        to each blob of variable width: too much where there are several.
        """
        if not self.rows:
            return 0.0
        stored, every = self._data_bytes / self.rows, self.schema.columns
        scalars = [column for _, column in self.schema.scalars]
        least = sum(column.fixed_bytes or _LEAST_STRING_BYTES for column in scalars)
        mean = max(stored, least, self._index_bytes / self.rows)
        if columns is None:
            return mean
        chosen = [every[ordinal] for ordinal in columns]
        rest = mean - sum(column.fixed_bytes for column in every)
        variable = [column for column in chosen if not column.fixed_bytes]
        strings = [column for column in variable if column.is_string]
        guess = min(_STRING_BYTES * len(strings), max(rest, 0.0))
        if len(variable) > len(strings):
            guess = max(rest, 0.0)
        return min(sum(column.fixed_bytes for column in chosen) + guess, mean)

    @cached_property
    def live(self) -> Bitmap | None:
        """The rows that have not been deleted; None when none has been. Reads, and checks, the files that say so."""
        if not self.snapshot.deleted:
            return None
        with use_storage(self.snapshot.storage):
            of_parts = [(part.deletion, part.id or b"", part.rows) for part in self.snapshot.parts]
            return live_rows(deleted_rows(of_parts, self.rows), self.rows)

    @cached_property
    def patched(self) -> frozenset[int]:
        """Columns of which some rows have values of a patch, of which statistics and sketches know nothing."""
        if isinstance(self.snapshot.parts, ListedRefs):
            return frozenset()
        found = set[int]()
        for part in self.snapshot.parts:
            if part.patch:
                places, patch = self.snapshot.layouts[part.layout - 1].columns, decode_patch(part.patch)
                found |= {ordinal for ordinal, place in enumerate(places) if place in patch}
        return frozenset(found)

    @cached_property
    def _data_bytes(self) -> int:
        if isinstance(self.snapshot.parts, ListedRefs):
            return sum(self.snapshot.parts.fields.bytes.tolist())
        with use_storage(self.snapshot.storage):
            return sum(
                file.bytes if file.bytes >= 0 else location_of(file.path).size(file.path)
                for part in self.snapshot.parts
                for file in (part, *part.files)
            )

    @cached_property
    def _index_bytes(self) -> int:
        """Of the indexes whose sizes are known without a look at them."""
        if isinstance(self.snapshot.parts, ListedRefs):
            return sum(self.snapshot.parts.fields.index_bytes.tolist())
        return sum(max(file.index_bytes, 0) for part in self.snapshot.parts for file in (part, *part.files))

    def open_loader(self, **options: Any) -> NativeLoader:
        """The C loader over these parts."""
        return NativeLoader(self._native, **options)

    def source_of(self, ordinal: int) -> tuple[NativeSet, int]:
        """The set of the C core that a column is read from, which a stream of it is cut from, and its ordinal there."""
        layer, column = self._places[ordinal]
        return self._layers[layer].native, column

    def check_open(self) -> None:
        """Raises ClosedError after ``close``."""
        if self._closed:
            raise ClosedError("the dataset has been closed")

    def close(self) -> None:
        """Closes the files: later calls raise ClosedError, calls in flight finish, views stay good."""
        self._closed = True
        self._native.close()
        for layer in self._layers:
            layer.close()
        for lease in self._leases:
            if lease is not None:
                lease.close()

    def cache_stats(self) -> CacheStats:
        """What the cache has saved; zeros without one."""
        return sum_of([layer.cached.stats() for layer in self._layers if layer.cached is not None])


# Looks whether what was read of parts can be values of its columns: digests only say that it is what was written.


def check_values(
    parts: PartSet,
    rows: NDArray[np.int64],
    found: Sequence[ColumnResult],
    *,
    columns: Sequence[int] | None = None,
    blobs: bool = True,
) -> None:
    """CorruptionError where ``found``, columns of these rows, holds what is no value; it names the first one.

    ``columns``: their ordinals; None for all. ``blobs``: whether those of blob columns are looked at, too; not where
    they are decoded anyway.
    """
    ordinals = range(len(parts.schema)) if columns is None else columns
    for column, one in zip((parts.schema[ordinal] for ordinal in ordinals), found, strict=True):
        if column.is_blob and not blobs:
            continue
        for what, wrong in _problems(column, one, len(rows)):
            if len(wrong):
                path, row = parts.locate(int(rows[wrong[0]]))
                raise refuse_value(path, row, column.name, what)


def refuse_value(path: str, row: int, column: str, what: str) -> CorruptionError:
    """The error of who was to write this value anew."""
    return CorruptionError(
        f"{path}: row {row} of this part, column {column!r}: {what}, so nothing was published: `unirecord repair` "
        "keeps the other rows; or delete what `unirecord verify` lists and run `unirecord compact --drop-deleted`",
        path=path,
        row=row,
    )


def _problems(column: Column, found: ColumnResult, rows: int) -> Iterator[tuple[str, NDArray[np.intp]]]:
    if column.is_blob:
        yield from _blob_problems(column, found, rows)
        return
    values = found.data
    if column.is_string:
        assert found.offsets is not None
        values = np.diff(found.offsets)
        yield NO_TEXT, no_texts(values, found.data)
    yield BROKEN, broken_scalars(column, values, found.valid)


def _blob_problems(column: Column, found: ColumnResult, rows: int) -> Iterator[tuple[str, NDArray[np.intp]]]:
    if found.valid is None and takes_any_bytes(column):
        return
    data = np.ascontiguousarray(found.data).reshape(-1).view(np.uint8)
    starts = (
        np.arange(rows, dtype=np.int64) * column.fixed_bytes if found.offsets is None else found.offsets[:-1]
    )
    sizes = np.full(rows, column.fixed_bytes, np.int64) if found.offsets is None else np.diff(found.offsets)

    def some(chosen: NDArray[np.intp]) -> Values:
        return Values(chosen, data, starts[chosen], sizes[chosen], np.ones(len(chosen), bool))

    if found.valid is not None:
        yield NULL_WITH_BYTES, filled_nulls(column, some(np.flatnonzero(~found.valid)))
    there = np.arange(rows) if found.valid is None else np.flatnonzero(found.valid)
    yield f"the bytes are no value of {column}", no_values(column, some(there))
