"""Records, one by one or as whole columns, to checked cells; a misfit is named by row and column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NoReturn

from ...errors import SchemaError, did_you_mean
from ..schema import Schema
from .batch import ColumnBatch, column_from_cells, column_length, encode_column
from .cell import Refused, encoder_for, nullable_encoder, refusal, shown
from .tables import as_columns

__all__ = ["RecordEncoder"]

_OBJECT_BYTES: Final = 40  # what Python needs for a cell beside its bytes


class RecordEncoder:
    """Turns records into a schema's columns: collected one by one, or given as whole columns at once.

    Records are collected in one list per column and not in a list each: Python's garbage collector would go through
    those again and again.
    """

    def __init__(self, schema: Schema, extra: Literal["error", "ignore"] = "error") -> None:
        """``extra`` says what to do with fields that the schema does not have."""
        if extra not in ("error", "ignore"):
            raise ValueError(f'extra is "error" or "ignore", got {extra!r}')
        self.schema = schema
        self._strict = extra == "error"
        self._encoders = [encoder_for(c) for c in schema]
        self._cells: list[list[bytes | None]] = [[] for _ in schema]
        self._bytes = 0
        self._row_bytes = _OBJECT_BYTES * len(self._cells)
        self._plan = tuple(
            (c.name, bytes if c.type == "bytes" else None, nullable_encoder(c, e), cells.append)
            for c, e, cells in zip(schema, self._encoders, self._cells, strict=True)
        )

    @property
    def rows(self) -> int:
        """How many records have been added and not yet taken; the last column says which are complete."""
        return len(self._cells[-1])

    def add(self, record: Mapping[str, Any], first_row: int) -> int:
        """Add a record, and return how much memory those not yet taken hold, about.

        Nothing that is kept shares memory with the record that the caller could change. Raises `SchemaError` naming
        the row (``first_row`` + records not yet taken) and column; a record that is refused leaves nothing.
        """
        size = self._bytes + self._row_bytes
        try:
            extra = self._strict and len(record) != len(self._plan)
            for name, kept, encode, append in self._plan:
                cell = record[name]
                if type(cell) is not kept:  # those of this type are kept as they are
                    cell = encode(cell)
                append(cell)
                if cell is not None:
                    size += len(cell)
        except BaseException as error:
            self._cut(self.rows)
            if isinstance(error, Exception):
                self._explain(record, first_row + self.rows, error)
            raise
        if extra:
            self._cut(self.rows - 1)
            self._refuse_extra(record, f"row {first_row + self.rows}")
        self._bytes = size
        return size

    def take(self) -> ColumnBatch:
        """Return the records added since the last time, as columns."""
        rows = self.rows
        assert all(len(cells) == rows for cells in self._cells)
        columns = [column_from_cells(c, cells) for c, cells in zip(self.schema, self._cells, strict=True)]
        self.clear()
        return ColumnBatch(rows, columns)

    def clear(self) -> None:
        """Forget the records that have not been taken."""
        self._cut(0)
        self._bytes = 0

    def _cut(self, rows: int) -> None:
        for cells in self._cells:
            del cells[rows:]

    def encode_batch(self, batch: Mapping[str, Any], first_row: int) -> ColumnBatch:
        """Return whole columns, given as arrays or lists of one length, ready to store.

        Arrays of fixed width in the column's dtype are checked and passed on without a copy: the result
        **views the caller's memory** and must be used up before control returns to the caller. Nulls are None
        in a list, or masked in a numpy masked array. A DataFrame or table is a batch, too. Raises `SchemaError` naming
        the row (``first_row`` + its place in the batch).
        """
        batch = as_columns(batch)
        if not isinstance(batch, Mapping):
            raise SchemaError(f"a batch is a dict of columns or a DataFrame, got {shown(batch)}")
        names = self.schema.names
        for name in names:
            if name not in batch:
                self._refuse_missing(batch, name, f"batch at row {first_row}")
        if self._strict and len(batch) != len(names):
            self._refuse_extra(batch, f"batch at row {first_row}")
        lengths = {name: column_length(name, batch[name]) for name in names}
        rows = lengths[names[0]]
        for name, length in lengths.items():
            if length != rows:
                raise SchemaError(
                    f"batch at row {first_row}: column {name!r} has {length} values, {names[0]!r} has {rows}"
                )
        columns = [
            encode_column(c, e, batch[c.name], first_row)
            for c, e in zip(self.schema, self._encoders, strict=True)
        ]
        return ColumnBatch(rows, columns)

    def _explain(self, record: Mapping[str, Any], row: int, error: Exception) -> NoReturn:
        """Find which column of a refused record is at fault, and say so."""
        if not isinstance(record, Mapping):
            raise SchemaError(
                f"row {row}: a record is a dict of column names and values, got {shown(record)}"
            ) from None
        for column, (name, _, encode, _) in zip(self.schema, self._plan, strict=True):
            if name not in record:
                self._refuse_missing(record, name, f"row {row}")
            try:
                encode(record[name])
            except Refused as refused:
                raise SchemaError(
                    f"row {row}, column {name!r}: {refusal(column, refused, record[name])}"
                ) from None
        raise error

    def _refuse_missing(self, record: Mapping[str, Any], name: str, place: str) -> NoReturn:
        others = [str(k) for k in record if k not in self.schema]
        hint = did_you_mean(name, others)
        listed = "" if hint else f"; it has {', '.join(repr(k) for k in list(record)[:20]) or 'no columns'}"
        raise SchemaError(f"{place}: column {name!r} is missing{listed}{hint}")

    def _refuse_extra(self, record: Mapping[str, Any], place: str) -> NoReturn:
        extra = next(k for k in record if k not in self.schema)
        raise SchemaError(
            f"{place}: field {extra!r} is not a column{did_you_mean(str(extra), self.schema.names)}; "
            f'remove it, add it to the schema, or pass extra="ignore"'
        )
