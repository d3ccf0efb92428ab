"""Reads the rows of parts: many as arrays, one as stored bytes; one call into C for either."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..core import (
    IO_CODES,
    VERIFY_CODES,
    Bitmap,
    JoinedSet,
    NativeLoader,
    NativeSet,
    ReadBuffers,
    RowOutput,
    RowReader,
    cached_property,
)
from ..errors import ClosedError, UniRecordError
from ..format.column import Column
from ..format.schema import Schema
from ..storage.lease import take_lease
from ..storage.registry import location_of
from ..storage.storage_options import use_storage
from .cache_options import CacheOptions
from .cached import CacheStats, sum_of
from .column_layers import layers_of, places_in
from .dataset_path import PartRef, Snapshot, has_moved_on, resolve, resolve_again, use_snapshot
from .deletions import deleted_rows, live_rows
from .opened_layer import OpenedLayer
from .part import JoinedPart, Part
from .part_refs import ListedRefs, rows_of

__all__ = [
    "ColumnResult",
    "Io",
    "Part",
    "PartRef",
    "PartSet",
    "ColumnReader",
    "Snapshot",
    "Verify",
    "resolve",
    "resolve_again",
    "use_snapshot",
]

Io = Literal["auto", "mmap", "pread", "uring", "uring-direct", "memory"]
Verify = Literal["first", "always", "never"]

Array = NDArray[Any]
Empty = Callable[[tuple[int, ...], np.dtype[Any]], Array]
_SPARE = 4  # argument structures kept by a reader; more are made when more threads read at once
_STRING_BYTES = 64  # of a string, when a guess has to do
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
        """Bytes of the data files for each row; 0 without rows. Of some columns (ordinals in the schema): about.

        What columns of fixed width do not account for is taken to belong to each blob of variable width: too much
        where there are several.
        """
        mean = self._data_bytes / self.rows if self.rows else 0.0
        if columns is None:
            return mean
        every = self.schema.columns
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
    def _data_bytes(self) -> int:
        if isinstance(self.snapshot.parts, ListedRefs):
            return sum(self.snapshot.parts.listed.fields.bytes.tolist())
        with use_storage(self.snapshot.storage):
            return sum(
                file.bytes if file.bytes >= 0 else location_of(file.path).size(file.path)
                for part in self.snapshot.parts
                for file in (part, *part.files)
            )

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
