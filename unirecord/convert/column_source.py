"""New columns of the rows of a dataset as a source: made of its rows by a function, or found in a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError, TransformError
from ..format.column import Column
from ..format.schema import Schema
from ..loading.batch import items_of
from ..loading.samples import SampleReader
from ..parts.part_set import PartSet, Snapshot
from ..storage.storage_options import use_storage
from .sources.base import Options, RawBatch, Source, Unit
from .sources.input_path import InputPath

__all__ = ["ColumnMaker", "ColumnSource", "FunctionMaker", "TableMaker"]

_MOST_ROWS: Final = 4_096  # that a function is called with, unless the caller says so
_ROWS_BYTES: Final = 8 << 20

Rows = NDArray[np.int64]


class ColumnMaker(Protocol):
    """What makes the new columns; it can be pickled where processes are to do it.

    Attributes:
        reads: the columns that it is given; empty: it needs the numbers of the rows alone.
    """

    reads: tuple[str, ...]

    def make(self, rows: Rows, given: dict[str, Any]) -> Mapping[str, Any]:
        """The new columns of these rows, by name."""


class FunctionMaker:
    """Calls a function with batches of the rows, dicts of columns as ``read_rows`` gives them."""

    def __init__(self, function: Callable[[dict[str, Any]], Mapping[str, Any]], reads: Sequence[str]) -> None:
        self.reads: tuple[str, ...] = tuple(reads)
        self._function = function

    def make(self, rows: Rows, given: dict[str, Any]) -> Mapping[str, Any]:
        """What the function makes of them. TransformError, with its own as the cause, where it raises."""
        try:
            return self._function(given)
        except Exception as error:
            raise TransformError(
                f"the function for new columns failed at rows {rows[0]} to {rows[-1]}: {type(error).__name__}: {error}"
            ) from error


class TableMaker:
    """Takes the values of a table: those of row ``found[i]`` of it for row i of the dataset.

    Where that is -1 a column of ``kept`` has the value that it has in the dataset, and any other one is null.
    """

    reads: tuple[str, ...]

    def __init__(self, columns: Mapping[str, Sequence[Any]], found: Rows, kept: Sequence[str] = ()) -> None:
        self._columns, self._found = columns, found
        self.reads = tuple(kept)

    def make(self, rows: Rows, given: dict[str, Any]) -> Mapping[str, Any]:
        """The values for these rows."""
        places = self._found[rows]
        if (places >= 0).all():
            return {name: _taken(values, places) for name, values in self._columns.items()}
        every, before = places.tolist(), items_of(given)
        nulls = [None] * len(every)
        return {
            name: [
                values[place] if place >= 0 else there
                for place, there in zip(every, before.get(name, nulls), strict=True)
            ]
            for name, values in self._columns.items()
        }


def _taken(values: Sequence[Any], places: Rows) -> Any:
    if isinstance(values, np.ndarray) and not isinstance(values, np.ma.MaskedArray):
        return values[places]
    return [values[place] for place in places.tolist()]


class ColumnSource(Source):
    """The new columns of each part of a snapshot, a unit each; rows that have been deleted get blank values."""

    schema: Schema
    units: Sequence[Unit]

    snapshot: Snapshot

    kind: ClassVar[str] = "columns"
    about: ClassVar[str] = "columns made of the rows of a dataset"
    computes = True

    def __init__(
        self, snapshot: Snapshot, schema: Schema, maker: ColumnMaker, batch_size: int | None
    ) -> None:
        self.snapshot, self._made, self._maker, self._batch_size = snapshot, schema, maker, batch_size
        self._parts: PartSet | None = None
        super().__init__(InputPath(str(snapshot.path), ""), Options())

    def look_through(self, options: Options, progress: Any) -> None:
        """A unit for each part."""
        self.schema = self._made
        starts = np.cumsum([0, *(part.rows for part in self.snapshot.parts)]).tolist()
        self.units = [
            Unit(part.path, start, part.rows)
            for part, start in zip(self.snapshot.parts, starts, strict=False)
        ]

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the new columns of the rows of a part, in their order."""
        assert unit.rows is not None
        parts = self._opened()
        live, reader = parts.live, None
        if self._maker.reads:
            ordinals = [parts.schema.ordinal(name) for name in self._maker.reads]
            reader = SampleReader(parts, [(ordinal, parts.schema.columns[ordinal]) for ordinal in ordinals])
            step = _batch_rows(parts.mean_row_bytes(ordinals), self._batch_size)
        else:
            step = self._batch_size or _MOST_ROWS
        for start in range(unit.place, unit.place + unit.rows, step):
            rows = np.arange(start, min(start + step, unit.place + unit.rows), dtype=np.int64)
            there = None if live is None else live.contains(rows)
            yield RawBatch(self._columns(rows if there is None else rows[there], there, reader), len(rows))

    def _columns(
        self, rows: Rows, there: NDArray[np.bool_] | None, reader: SampleReader | None
    ) -> dict[str, Any]:
        if len(rows):
            given = {} if reader is None else reader.batch(rows)
            made = self._checked(self._maker.make(rows, given), rows)
        else:
            made = {name: [] for name in self.schema.names}
        if there is None or there.all():
            return made
        return {column.name: _spread(column, made[column.name], there) for column in self.schema}

    def _checked(self, made: Any, rows: Rows) -> dict[str, Any]:
        if not isinstance(made, Mapping):
            raise SchemaError(
                f"{self.path}: what is made of rows is {type(made).__name__}; expected a dict of the columns "
                f"{list(self.schema.names)}"
            )
        if set(made) != set(self.schema.names):
            raise SchemaError(
                f"{self.path}: the columns {sorted(map(str, made))} were made of rows; expected "
                f"{sorted(self.schema.names)}"
            )
        for name, values in made.items():
            if len(values) != len(rows):
                raise SchemaError(
                    f"{self.path}: column {name!r} has {len(values):,} values for {len(rows):,} rows ({rows[0]} to "
                    f"{rows[-1]})"
                )
        return dict(made)

    def _opened(self) -> PartSet:
        if self._parts is None:
            with use_storage(self.snapshot.storage):
                self._parts = PartSet(self.snapshot, knows_deletions=True)
        return self._parts

    def done(self) -> None:
        """Close the files."""
        if self._parts is not None:
            self._parts.close()
            self._parts = None

    def __getstate__(self) -> dict[str, Any]:
        """All but the open files."""
        return {**self.__dict__, "_parts": None}


def _batch_rows(row_bytes: float, asked: int | None) -> int:
    return asked or min(max(int(_ROWS_BYTES / max(row_bytes, 1.0)), 1), _MOST_ROWS)


def _spread(column: Column, values: Any, there: NDArray[np.bool_]) -> Any:
    """The values with blank ones among them: null, 0, or empty."""
    if isinstance(values, np.ndarray) and type(values) is np.ndarray and values.dtype != object:
        spread = np.zeros((len(there), *values.shape[1:]), values.dtype)
        if not column.nullable:
            spread[there] = values
            return spread
    if isinstance(values, np.ma.MaskedArray):
        values = items_of({column.name: values})[column.name]
    given, blank = iter(values), None if column.nullable else _blank(column)
    return [next(given) if one else blank for one in there.tolist()]


def _blank(column: Column) -> Any:
    if column.is_array:
        return np.zeros([max(size, 0) for size in column.item_shape], column.dtype)
    if column.dtype is not None:
        return column.dtype.type(0)
    return {"bytes": b"", "object": {}}.get(column.type, "")
