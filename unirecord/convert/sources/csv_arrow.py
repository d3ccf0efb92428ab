"""Blocks of CSV by pyarrow where it is installed: the same cells, types and values as without it, only faster."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import numpy as np

from ...format.schema import Column
from ...format.values.tables import texts_of
from .cell_types import BOOL_CELL, INT_CELL, REAL_CELL, CellEvidence
from .text_blocks import quotes_are_plain

__all__ = ["ArrowBlock", "arrow_block"]

_MOST_BYTES: Final = 1 << 30
_DIGITS: Final = [b"%d" % digit for digit in range(10)]
_MANY_DIGITS: Final = 19
_HEAD: Final = 64


class ArrowBlock:
    """The cells of a block as text, column by column."""

    def __init__(self, pa: Any, compute: Any, columns: list[Any], rows: int) -> None:
        self._pa, self._compute = pa, compute
        self._columns, self.rows = columns, rows

    def add_to(self, evidence: list[CellEvidence]) -> None:
        """Take the cells into account, as `CellEvidence.add` does."""
        for cells, column in zip(self._columns, evidence, strict=True):
            self._add(cells, column)

    def _add(self, cells: Any, evidence: CellEvidence) -> None:
        compute = self._compute
        sizes = compute.binary_length(cells)
        empty = compute.any(compute.equal(sizes, 0)).as_py()
        filled = compute.filter(cells, compute.not_equal(sizes, 0)) if empty else cells
        evidence.empty = evidence.empty or bool(empty)
        longest = compute.max(sizes).as_py() or 0
        if longest > evidence.longest:
            evidence.longest = max(evidence.longest, compute.max(compute.utf8_length(cells)).as_py() or 0)
        if not len(filled):
            return
        evidence.filled = True
        whole = evidence.whole and self._are_numbers(filled, self._pa.int64(), INT_CELL)
        if whole and longest >= _MANY_DIGITS:
            evidence.add(cells.to_pylist())  # they may be beyond 64 bits
            return
        evidence.real = evidence.real and (whole or self._are_numbers(filled, self._pa.float64(), REAL_CELL))
        evidence.logical = evidence.logical and not whole and self._all_match(filled, BOOL_CELL)
        evidence.whole = whole

    def _are_numbers(self, filled: Any, kind: Any, pattern: str) -> bool:
        """Whether all cells match; those that Arrow reads as finite numbers do, unless zeros stand before digits."""
        values = self._cast(filled, kind)
        finite = values is not None and (
            self._pa.types.is_integer(kind) or self._compute.all(self._compute.is_finite(values)).as_py()
        )
        return (finite and not self._are_padded(filled)) or self._all_match(filled, pattern)

    def _are_padded(self, filled: Any) -> bool:
        """Whether a cell begins with a zero and another digit, as 007 does, after a sign or not."""
        compute = self._compute
        cells = filled.cast(self._pa.binary())
        for sign in (b"", b"-", b"+"):
            chosen = compute.starts_with(cells, sign + b"0")
            if compute.any(chosen).as_py():
                at = len(sign) + 1
                next_to_zero = compute.binary_slice(cells.filter(chosen), at, at + 1)
                if compute.any(compute.is_in(next_to_zero, self._pa.array(_DIGITS))).as_py():
                    return True
        return False

    def _all_match(self, filled: Any, pattern: str) -> bool:
        found = self._compute.match_substring_regex(filled, rf"(?i)\A(?:{pattern})\z")
        return bool(self._compute.all(found).as_py())

    def _cast(self, cells: Any, kind: Any) -> Any:
        try:
            cells[:_HEAD].cast(kind)  # Arrow is slow to fail: it words an error for every cell
            return cells.cast(kind)
        except self._pa.ArrowException:
            return None

    def values(self, number: int, column: Column) -> Any:
        """Return the values of a column; None where they have to be converted one by one."""
        cells, pa, compute = self._columns[number], self._pa, self._compute
        if column.is_array or column.type in ("bytes", "object"):
            return None
        if column.nullable:
            cells = compute.if_else(
                compute.equal(compute.binary_length(cells), 0), pa.scalar(None, cells.type), cells
            )
        if column.type in ("string", "text"):
            return texts_of(cells) if column.type == "string" else cells.to_pylist()
        kinds = {"b": pa.bool_(), "i": pa.int64(), "u": pa.uint64(), "f": pa.float64()}
        assert column.dtype is not None
        values = self._cast(cells, kinds[column.dtype.kind])
        if values is None:
            return None
        missing = values.is_null() if values.null_count else None
        if column.dtype.kind == "f" and not compute.all(compute.is_finite(values)).as_py():
            return None
        if missing is None:
            return values.to_numpy(zero_copy_only=False)
        filled = compute.fill_null(values, False if column.dtype.kind == "b" else 0)
        mask = missing.to_numpy(zero_copy_only=False)
        return np.ma.MaskedArray(filled.to_numpy(zero_copy_only=False), mask)

    def texts(self, number: int) -> list[str]:
        """The cells of a column."""
        return list(self._columns[number].to_pylist())


def arrow_block(data: bytes, width: int, delimiter: str) -> ArrowBlock | None:
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
    names = [f"{i}" for i in range(width)]
    try:
        table = reader.read_csv(
            pa.BufferReader(data),
            reader.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            reader.ParseOptions(delimiter=delimiter, newlines_in_values=quoted),
            reader.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), null_values=[]),
        )
    except pa.ArrowException:
        return None
    columns = [column.combine_chunks() for column in table.columns]
    return ArrowBlock(pa, compute, columns, table.num_rows)
