"""Reads scalar columns of chosen rows in chunks, from the index alone, so that 10^8 rows take little memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns.flat import Strings, columns_of
from ..core.bitmap import Bitmap
from ..errors import SchemaError
from ..format.schema import Schema
from ..parts.part_set import PartSet
from ..query.fields import PartFields, RowsAt
from ..query.tree import Field

CHUNK = 1 << 20
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Some rows of one part, and the columns there."""

    fields: PartFields
    at: RowsAt

    def __len__(self) -> int:
        return len(self.at)

    def valid(self, field: Field) -> NDArray[np.bool_]:
        """Which of the rows have a value."""
        found = self.fields.valid(field, self.at)
        return np.ones(len(self), np.bool_) if found is None else found

    def numbers(self, field: Field) -> NDArray[Any]:
        """The values of a column of numbers or bools that are not null."""
        values = self.fields.values(field, self.at)
        valid = self.fields.valid(field, self.at)
        return values if valid is None else values[valid]

    def codes(self, field: Field) -> tuple[NDArray[Any], Strings] | None:
        """The codes of a string column that are not null, and the strings they stand for; None when it is plain."""
        dictionary = self.fields.columns.dictionary(field.ordinal)
        if dictionary is None:
            return None
        codes = self.at.read(dictionary.codes)
        valid = self.fields.valid(field, self.at)
        return codes if valid is None else codes[valid], dictionary.entries

    def values(self, field: Field) -> list[Any]:
        """The values of any scalar column as Python's own, None where null."""
        valid = self.fields.valid(field, self.at)
        if field.type == "string":
            found: list[Any] = [
                text.decode("utf-8", "replace") for text in self.fields.strings(field, self.at)
            ]
        else:
            found = self.fields.values(field, self.at).tolist()
        if valid is None:
            return found
        return [value if ok else None for value, ok in zip(found, valid.tolist(), strict=True)]


def scalar_field(schema: Schema, name: str) -> Field:
    """The scalar column of this name; SchemaError for any other."""
    ordinal = schema.ordinal(name)
    column = schema[ordinal]
    if column.is_blob:
        raise SchemaError(
            f"column {name!r} is {column}: it has no value in the index to sort, count or group by"
        )
    return Field(column.name, ordinal, column.type, column.nullable)


def chunks(parts: PartSet, rows: Rows | None, size: int = CHUNK) -> Iterator[Chunk]:
    """All rows that have not been deleted, or these (ascending), in order; no chunk crosses parts."""
    live, base = parts.live, 0
    for number, columns in enumerate(columns_of(parts)):
        fields = PartFields(columns, number, base)
        if rows is None:
            for start in range(0, columns.rows, size):
                stop = min(start + size, columns.rows)
                yield Chunk(fields, RowsAt(start, stop, _there(live, base, start, stop)))
        else:
            first, stop = np.searchsorted(rows, [base, base + columns.rows]).tolist()
            for start in range(first, stop, size):
                yield Chunk(fields, RowsAt(0, columns.rows, rows[start : min(start + size, stop)] - base))
        base += columns.rows


def count_rows(parts: PartSet, rows: Rows | None) -> int:
    """How many rows these are; None: all that have not been deleted."""
    if rows is not None:
        return len(rows)
    return parts.rows if parts.live is None else parts.live.ones


def _there(live: Bitmap | None, base: int, start: int, stop: int) -> Rows | None:
    """Which of the rows [start, stop) of the part that begins at row ``base`` are there; None for all."""
    if live is None:
        return None
    rows = np.arange(start, stop, dtype=np.int64)
    kept = live.contains(rows + base)
    return None if kept.all() else rows[kept]
