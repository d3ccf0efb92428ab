"""Blocks of flat JSON objects by pyarrow where it is installed: columns of the values that `parse_json` gives."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final

import numpy as np

from ...format.column import Column
from ...format.values.batch import numbers_of, texts_of

__all__ = ["ArrowLines", "arrow_kind", "arrow_lines"]

_EXACT: Final = float(1 << 53)  # beyond it a float may be a rounded whole number
_NAMES: Final = {"double": "float64"}  # of types, where Arrow's own are others
_INTS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def arrow_kind(column: Column) -> str | None:
    """Return the Arrow type by which values of a column are read as they are; None where each needs a look."""
    if column.is_array:
        return None
    if column.type in _INTS:
        return "int64"
    return column.type if column.type in ("float64", "string", "bool") else None


class ArrowLines:
    """The values of a block, column by column."""

    rows: int

    def __init__(self, compute: Any, columns: dict[str, Any], rows: int) -> None:
        self._compute, self._columns, self.rows = compute, columns, rows

    @property
    def kinds(self) -> dict[str, str]:
        """Return the Arrow type of each key, as `arrow_kind` names it."""
        return {key: _NAMES.get(str(c.type), str(c.type)) for key, c in self._columns.items()}

    @property
    def nbytes(self) -> int:
        """Return how much memory it takes."""
        return sum(column.nbytes for column in self._columns.values())

    @property
    def keys(self) -> list[str]:
        """Return the keys, in the order of the first line."""
        return list(self._columns)

    def deciding(self, key: str) -> list[Any]:
        """Return the values of a key that decide its type: the least and greatest integer, the longest text, or one."""
        column = self._columns[key].drop_null()
        if not len(column):
            return []
        kind = str(column.type)
        if kind == "int64":
            return list(self._compute.min_max(column).as_py().values())
        place = numbers_of(self._compute.utf8_length(column)).argmax() if kind == "string" else 0
        return [column[int(place)].as_py()]

    def nulls(self, key: str) -> int:
        """Return in how many rows the key is null."""
        return int(self._columns[key].null_count)

    def values(self, key: str) -> Any:
        """Return the values of a key as `Writer.write_batch` takes them."""
        column = self._columns[key]
        texts = texts_of(column)
        if texts is not None:
            return texts
        return numbers_of(column)


def arrow_lines(data: bytes, kinds: Mapping[str, str | None]) -> ArrowLines | None:
    """Return the values of a block whose every line is an object with these keys, of these Arrow types or null.

    None where pyarrow is not installed, or where it might read something else than `parse_json`: what is nested or
    escaped, keys that are missing or there twice, numbers that a float would round.
    """
    if None in kinds.values() or not _is_plain(data):
        return None
    try:
        pa, reader, compute = map(import_module, ("pyarrow", "pyarrow.json", "pyarrow.compute"))
    except ImportError:
        return None
    schema = pa.schema([(key, pa.type_for_alias(kind)) for key, kind in kinds.items()])
    try:
        table = reader.read_json(
            pa.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1),
            reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )
    except pa.ArrowException:
        return None
    rows = table.num_rows
    columns = {key: table.column(key).combine_chunks() for key in kinds}
    texts = sum(len(c) - c.null_count for c in columns.values() if str(c.type) == "string")
    # A key that is missing or there twice, and a quote within a text, leave fewer or more quotes than that.
    if _many(data, "{") != rows or _many(data, '"') != 2 * (rows * len(columns) + texts):
        return None
    exact = all(_are_exact(numbers_of(c.drop_null())) for c in columns.values() if str(c.type) == "double")
    return ArrowLines(compute, columns, rows) if exact and _are_utf8(columns) else None


def _is_plain(data: bytes) -> bool:
    """Whether each line has one opening brace at its start and one closing brace at its end, and nothing is escaped."""
    if not data or len(data) >= 1 << 30 or b"\\" in data or b"[" in data or data[:1] != b"{":
        return False
    found = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(found == ord("\n"))
    inner = breaks[breaks < len(data) - 1]
    return (
        np.count_nonzero(found < 0x20) == len(breaks)
        and _many(data, "{") == len(inner) + 1 == _many(data, "}")
        and bool((found[inner - 1] == ord("}")).all() and (found[inner + 1] == ord("{")).all())
        and data.endswith((b"}", b"}\n"))
    )


def _many(data: bytes, character: str) -> int:
    """How often a character is there; bytes.count takes ten times as long where it is everywhere."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(character)))


def _are_exact(values: Any) -> bool:
    """Whether they are what is written: not whole numbers that were rounded, nor -0, which is a whole number."""
    return bool((np.abs(values) < _EXACT).all() and not (np.signbit(values) & (values == 0)).any())


def _are_utf8(columns: Mapping[str, Any]) -> bool:
    try:
        for column in columns.values():
            texts_of(column)
    except ValueError:
        return False
    return True
