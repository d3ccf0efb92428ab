"""Blocks of CSV by pyarrow where it is installed: the same cells, types and values as without it, only faster."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import numpy as np

from ...format.column import Column
from ...format.schema import Schema
from ...format.values.batch import numbers_of, texts_of
from .text_blocks import quotes_are_plain

__all__ = ["ArrowBlock", "arrow_block"]

_MOST_BYTES: Final = 1 << 30
_HEAD: Final = 64


class ArrowBlock:
    """The cells of a block, column by column: as text, or as the values that the columns hold."""

    rows: int

    def __init__(self, pa: Any, compute: Any, columns: list[Any], rows: int) -> None:
        self._pa, self._compute = pa, compute
        self._columns, self.rows = columns, rows

    def values(self, number: int, column: Column) -> Any:
        """Return the values of a column; None where they have to be converted one by one."""
        cells, pa, compute = self._columns[number], self._pa, self._compute
        if column.is_array or column.type in ("bytes", "object"):
            return None
        if cells.type != pa.string():
            return numbers_of(cells)
        if column.nullable:
            cells = compute.if_else(
                compute.equal(compute.binary_length(cells), 0), pa.scalar(None, cells.type), cells
            )
        if column.type in ("string", "text"):
            return texts_of(cells) if column.type == "string" else cells.to_pylist()
        values = self._cast(cells, pa.type_for_alias(_kind(column)))
        return None if values is None or not _is_finite(pa, compute, values) else numbers_of(values)

    def fits(self, schema: Schema) -> bool:
        """Whether the values are what each cell says: no null where the column has none, no number that overflowed."""
        for cells, column in zip(self._columns, schema, strict=True):
            if cells.null_count and not column.nullable:
                return False
            if not _is_finite(self._pa, self._compute, cells):
                return False
        return True

    def _cast(self, cells: Any, kind: Any) -> Any:
        pa, compute = self._pa, self._compute
        if (
            pa.types.is_integer(kind)
            and compute.any(compute.match_substring(cells, "x", ignore_case=True)).as_py()
        ):
            return None  # Arrow takes 0x1F for a number
        try:
            cells[:_HEAD].cast(kind)  # Arrow is slow to fail: it words an error for every cell
            return cells.cast(kind)
        except pa.ArrowException:
            return None

    def texts(self, number: int) -> list[str]:
        """The cells of a column, which is not of plain values."""
        return list(self._columns[number].to_pylist())


def arrow_block(data: bytes, schema: Schema, delimiter: str) -> ArrowBlock | None:
    """Return the cells of a block; None where pyarrow is not installed, or might read it otherwise than `csv` does."""
    if not data or len(data) > _MOST_BYTES or b"\0" in data:
        return None
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return None
    try:
        pa, reader, compute = map(import_module, ("pyarrow", "pyarrow.csv", "pyarrow.compute"))
    except ImportError:
        return None
    quoted = b'"' in data
    if quoted and (data.count(b'"') % 2 or not quotes_are_plain(data, delimiter)):
        return None

    def parsed(kinds: Sequence[str], nulls: list[str]) -> ArrowBlock | None:
        names = [f"{i}" for i in range(len(kinds))]
        types = {name: pa.type_for_alias(kind) for name, kind in zip(names, kinds, strict=True)}
        try:
            table = reader.read_csv(
                pa.BufferReader(data),
                reader.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
                reader.ParseOptions(delimiter=delimiter, newlines_in_values=quoted),
                reader.ConvertOptions(column_types=types, null_values=nulls),
            )
        except pa.ArrowException:
            return None
        return ArrowBlock(pa, compute, [column.combine_chunks() for column in table.columns], table.num_rows)

    kinds = [_kind(column) for column in schema]
    if set(kinds) != {"string"} and not _has_hexadecimal(data):
        block = parsed(kinds, [""])
        if block is not None and block.fits(schema):
            return block
    return parsed(["string"] * len(kinds), [])


def _has_hexadecimal(data: bytes) -> bool:
    """Whether there is a 0x or 0X; a search for two characters takes ten times as long where one is everywhere."""
    if b"x" not in data and b"X" not in data:
        return False
    found = np.frombuffer(data, np.uint8)
    marks = np.flatnonzero((found | 0x20) == ord("x"))
    return bool((found[marks[marks > 0] - 1] == ord("0")).any())


def _kind(column: Column) -> str:
    """The Arrow type by which the cells of a column are read."""
    if column.dtype is None or column.is_array:
        return "string"
    return {"b": "bool", "i": "int64", "u": "uint64", "f": "float64"}.get(column.dtype.kind, "string")


def _is_finite(pa: Any, compute: Any, values: Any) -> bool:
    """Whether no number is infinite: it may have been written as a finite one."""
    return not pa.types.is_floating(values.type) or bool(compute.all(compute.is_finite(values)).as_py())
