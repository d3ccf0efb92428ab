"""Records, one by one or as whole columns, to checked cells; a misfit is named by row and column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NoReturn

from ..errors import SchemaError
from ..schema import Schema, near
from .batch import ColumnBatch, column_length, encode_column
from .cell import Encode, Refused, encoder_for, expected, shown

__all__ = ["RecordEncoder"]


class RecordEncoder:
    """Turns records into cells of a schema's columns; it has no state, so a refused record leaves nothing."""

    def __init__(self, schema: Schema, extra: Literal["error", "ignore"] = "error") -> None:
        """``extra`` says what to do with fields that the schema does not have."""
        if extra not in ("error", "ignore"):
            raise ValueError(f'extra is "error" or "ignore", got {extra!r}')
        self.schema = schema
        self._strict = extra == "error"
        self._encoders = [encoder_for(c) for c in schema]
        self._plan = tuple(
            (c.name, _or_none(e) if c.nullable else e) for c, e in zip(schema, self._encoders, strict=True)
        )

    def encode(self, record: Mapping[str, Any], row: int) -> list[bytes | None]:
        """Return one cell per column: the value's bytes as the format stores them, or None for null.

        Nothing in the result shares memory with the record. Raises `SchemaError` naming ``row`` and column.
        """
        try:
            cells = [encode(record[name]) for name, encode in self._plan]
        except Exception as error:
            self._explain(record, row, error)
        if self._strict and len(record) != len(cells):
            self._refuse_extra(record, f"row {row}")
        return cells

    def encode_batch(self, batch: Mapping[str, Any], first_row: int) -> ColumnBatch:
        """Return whole columns, given as arrays or lists of one length, ready to store.

        Arrays of fixed width in the column's dtype are checked and passed on without a copy: the result
        **views the caller's memory** and must be used up before control returns to the caller. Nulls are None
        in a list, or masked in a numpy masked array. Raises `SchemaError` naming the row (``first_row`` + position).
        """
        if not isinstance(batch, Mapping):
            raise SchemaError(f"a batch is a dict of columns, got {shown(batch)}")
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
        for column, (name, encode) in zip(self.schema, self._plan, strict=True):
            if name not in record:
                self._refuse_missing(record, name, f"row {row}")
            try:
                encode(record[name])
            except Refused as refused:
                raise SchemaError(
                    f"row {row}, column {name!r}: expected {expected(column)}, {refused}"
                ) from None
        raise error

    def _refuse_missing(self, record: Mapping[str, Any], name: str, place: str) -> NoReturn:
        others = [str(k) for k in record if k not in self.schema]
        hint = near(name, others)
        listed = "" if hint else f"; it has {', '.join(repr(k) for k in list(record)[:20]) or 'no columns'}"
        raise SchemaError(f"{place}: column {name!r} is missing{listed}{hint}")

    def _refuse_extra(self, record: Mapping[str, Any], place: str) -> NoReturn:
        extra = next(k for k in record if k not in self.schema)
        raise SchemaError(
            f"{place}: field {extra!r} is not a column{near(str(extra), self.schema.names)}; "
            f'remove it, add it to the schema, or pass extra="ignore"'
        )


def _or_none(encode: Encode) -> Any:
    return lambda value: None if value is None else encode(value)
