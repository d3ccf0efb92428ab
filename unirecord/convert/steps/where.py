"""The step that keeps the rows that meet a condition of the query language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ...format.schema import Schema
from ...format.values import ColumnData, PackedStrings, RecordEncoder
from ...query.flat import Dictionary, Strings, Vector, Zones
from ...query.query import Query, compile_query
from ...query.tree import fields_in
from ..sources.base import RawBatch, Unit, WrongSourceError
from .base import Change, Places, Step, chosen_rows

__all__ = [
    "BatchColumns",
    "Where",
]


# Encoded rows in memory as the flat columns that queries read.


class BatchColumns:
    """Columns by their ordinal in the schema; those of which nothing is asked need not be there."""

    name: str
    rows: int

    def __init__(self, name: str, rows: int, columns: Mapping[int, ColumnData]) -> None:
        self.name, self.rows = name, rows
        self._columns = columns

    def confirm_rows(self) -> None:
        """They are all here."""

    def values(self, column: int) -> Vector:
        """Values of a column of fixed width, zero where null."""
        return Vector(np.asarray(self._columns[column].values))

    def validity(self, column: int) -> Vector | None:
        """Bits, or None when the column is not nullable."""
        valid = self._columns[column].valid
        return None if valid is None else Vector(np.packbits(valid, bitorder="little"))

    def lengths(self, column: int) -> Vector:
        """Bytes of each value."""
        return Vector(_lengths(self._columns[column].values))

    def value_lengths(self, column: int) -> Vector:
        """The same: nothing is compressed."""
        return self.lengths(column)

    def dictionary(self, column: int) -> Dictionary | None:
        """None: strings are plain."""
        return None

    def strings(self, column: int) -> Strings:
        """The strings of a column."""
        values = self._columns[column].values
        assert isinstance(values, PackedStrings)
        return Strings(Vector((values.ends - values.ends[0]).astype(np.uint64)), Vector(values.content))

    def zones(self, column: int) -> Zones | None:
        """None: nothing is known of the values."""
        return None

    def sorted_rows(self, column: int) -> Vector | None:
        """None: nothing is sorted."""
        return None


def _lengths(values: Any) -> npt.NDArray[np.uint64]:
    if isinstance(values, np.ndarray):
        return np.full(len(values), values.shape[-1], np.uint64)
    if isinstance(values, PackedStrings):
        return values.sizes.astype(np.uint64)
    return np.fromiter(map(len, values), np.uint64, len(values))


class Where(Step):
    """Keeps the rows that meet ``text`` (docs/query.md), which names columns as the source has them.

    Raises `QueryError`, and `WrongSourceError` where the number of a row or part is asked for.
    """

    chooses = True

    def __init__(self, text: str, schema: Schema) -> None:
        self.query: Query = compile_query(text, schema)
        if any(field.ordinal < 0 for field in fields_in(self.query.condition)):
            raise WrongSourceError(
                "--where: row and part are numbers in a dataset, which raw data have not; --limit takes the first rows"
            )
        self.columns: tuple[str, ...] = self.query.columns
        self._schema = Schema(schema[name] for name in self.columns)
        self._places = [schema.names.index(name) for name in self.columns]

    def begin(self, unit: Unit, places: Places) -> Change:
        """The same for all units, but for the number of the row that an error names."""
        encoder = RecordEncoder(self._schema)
        first = 0

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal first
            encoded = encoder.encode_batch({name: batch.columns[name] for name in self.columns}, first)
            first += batch.rows
            columns = dict(zip(self._places, encoded.columns, strict=True))
            return chosen_rows(batch, self.query.rows([BatchColumns("the rows", batch.rows, columns)]))

        return keep if self.columns else self._all_or_none

    def _all_or_none(self, batch: RawBatch) -> RawBatch:
        return chosen_rows(batch, self.query.rows([BatchColumns("the rows", batch.rows, {})]))
