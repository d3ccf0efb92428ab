"""Reads scalar columns of chosen rows in chunks, from the index alone, so that 10^8 rows take little memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns.part_columns import columns_of
from ..columns.source import Strings
from ..errors import SchemaError
from ..format.schema import Schema
from ..parts.part_set import PartSet
from ..query.selection import Chosen, Reader
from ..query.tree import Field

CHUNK = 1 << 20
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """Some rows of one part, and the reader of its columns."""

    reader: Reader
    chosen: Chosen

    def __len__(self) -> int:
        return len(self.chosen)

    def valid(self, field: Field) -> NDArray[np.bool_]:
        """Which of the rows have a value."""
        found = self.reader.valid(field, self.chosen)
        return np.ones(len(self), np.bool_) if found is None else found

    def numbers(self, field: Field) -> NDArray[Any]:
        """The values of a column of numbers or bools that are not null."""
        values = self.reader.values(field, self.chosen)
        valid = self.reader.valid(field, self.chosen)
        return values if valid is None else values[valid]

    def codes(self, field: Field) -> tuple[NDArray[Any], Strings] | None:
        """The codes of a string column that are not null, and the strings they stand for; None when it is plain."""
        dictionary = self.reader.source.dictionary(field.position)
        if dictionary is None:
            return None
        codes = self.chosen.read(dictionary.codes)
        valid = self.reader.valid(field, self.chosen)
        return codes if valid is None else codes[valid], dictionary.entries

    def values(self, field: Field) -> list[Any]:
        """The values of any scalar column as Python's own, None where null."""
        valid = self.reader.valid(field, self.chosen)
        if field.type == "string":
            found: list[Any] = [
                text.decode("utf-8", "replace") for text in self.reader.strings(field, self.chosen)
            ]
        else:
            found = self.reader.values(field, self.chosen).tolist()
        if valid is None:
            return found
        return [value if ok else None for value, ok in zip(found, valid.tolist(), strict=True)]


def scalar_field(schema: Schema, name: str) -> Field:
    """The scalar column of this name; SchemaError for any other."""
    position = schema.position(name)
    column = schema[position]
    if column.is_blob:
        raise SchemaError(
            f"column {name!r} is {column}: it has no value in the index to sort, count or group by"
        )
    return Field(column.name, position, column.type, column.nullable)


def chunks(parts: PartSet, rows: Rows | None, size: int = CHUNK) -> Iterator[Chunk]:
    """All rows of the parts, or these (ascending), in order; no chunk crosses parts."""
    base = 0
    for number, source in enumerate(columns_of(parts)):
        reader = Reader(source, number, base)
        if rows is None:
            for start in range(0, source.rows, size):
                yield Chunk(reader, Chosen(start, min(start + size, source.rows)))
        else:
            first, stop = np.searchsorted(rows, [base, base + source.rows]).tolist()
            for start in range(first, stop, size):
                yield Chunk(reader, Chosen(0, source.rows, rows[start : min(start + size, stop)] - base))
        base += source.rows
