"""Columns in memory, laid out as an index lays them out: what the query tests run on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unirecord.format.schema import Schema
from unirecord.query.columns import Dictionary, Strings, Vector, Zones

ZONE = 8_192


class MemoryColumns:
    """A part in memory. ``data`` maps names to lists of values, None where null; ``ordered`` columns are indexed."""

    def __init__(
        self,
        schema: Schema,
        data: Mapping[str, Sequence[Any]],
        ordered: Sequence[str] = (),
        plain: Sequence[str] = (),
        zoned: bool = True,
    ) -> None:
        self.name, self.schema, self.zoned = "memory", schema, zoned
        self.rows = len(next(iter(data.values())))
        self.columns = [
            None
            if column.is_blob and not column.is_wide_decimal
            else _Column(column, list(data[column.name]), column.name in plain)
            for column in schema
        ]
        self.sorted = {schema.ordinal(name): self._sorted(name, data[name]) for name in ordered}

    @staticmethod
    def _sorted(name: str, values: Sequence[Any]) -> Vector:
        def key(row: int) -> tuple[int, Any]:
            value = values[row]
            if value is None:
                return (2, 0)
            return (1, 0) if value != value else (0, value.encode() if isinstance(value, str) else value)

        return Vector(np.array(sorted(range(len(values)), key=key), np.uint32))

    def confirm_rows(self) -> None:
        """They are all here."""

    def values(self, column: int) -> Vector:
        return Vector(self.columns[column].values)

    def validity(self, column: int) -> Vector | None:
        bits = self.columns[column].validity
        return None if bits is None else Vector(bits)

    def lengths(self, column: int) -> Vector:
        raise AssertionError("there are no blob columns in memory")

    def dictionary(self, column: int) -> Dictionary | None:
        return self.columns[column].dictionary

    def strings(self, column: int) -> Strings:
        return self.columns[column].strings

    def zones(self, column: int) -> Zones | None:
        return self.columns[column].zones() if self.zoned and not self.schema[column].is_blob else None

    def sorted_rows(self, column: int) -> Vector | None:
        return self.sorted.get(column)

    def words(self, column: int, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        values: np.ndarray[Any, Any] = self.columns[column].values
        return values[rows]


class _Column:
    def __init__(self, column: Any, values: list[Any], plain: bool) -> None:
        valid = np.array([value is not None for value in values], np.bool_)
        self.valid = valid
        self.validity = np.packbits(valid, bitorder="little") if column.nullable else None
        self.dictionary = self.strings = None
        if column.is_wide_decimal:
            cells = b"".join((value or 0).to_bytes(16, "little", signed=True) for value in values)
            self.values, self.ranked = np.frombuffer(cells, "<i8").reshape(-1, 2), None
            return
        if not column.is_string:
            self.values = np.array([0 if value is None else value for value in values], column.dtype)
            self.ranked = self.values
            return
        encoded = [b"" if value is None else value.encode() for value in values]
        if plain:
            self.strings, self.ranked = _strings(encoded), None
            return
        entries = sorted({text for text, is_valid in zip(encoded, valid, strict=True) if is_valid})
        codes = {text: code for code, text in enumerate(entries)}
        self.ranked = np.array(
            [codes.get(text, 0) if ok else 0 for text, ok in zip(encoded, valid, strict=True)], np.uint16
        )
        self.dictionary = Dictionary(Vector(self.ranked), _strings(entries))

    def zones(self) -> Zones:
        bounds, flags = [], []
        for start in range(0, len(self.valid), ZONE):
            valid = self.valid[start : start + ZONE]
            flag = 0 if valid.all() else 1
            if self.ranked is not None:
                values = self.ranked[start : start + ZONE][valid]
                nan = values != values
                flag |= 2 if nan.any() else 0
                values = values[~nan]
                flag |= 4 if len(values) else 0
                bounds.append([values.min(), values.max()] if len(values) else [0, 0])
            flags.append(flag)
        if self.ranked is None:
            return Zones(ZONE, None, np.array(flags, np.uint8))
        return Zones(ZONE, np.array(bounds, self.ranked.dtype).reshape(-1, 2), np.array(flags, np.uint8))


def _strings(texts: list[bytes]) -> Strings:
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.uint64)
    return Strings(Vector(offsets), Vector(np.frombuffer(b"".join(texts), np.uint8)))
