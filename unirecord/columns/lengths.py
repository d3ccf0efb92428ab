"""How long the value of each selected row is in a column, from the indexes alone, piece by piece: no blob is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError, SchemaError
from ..format.column import Column
from ..order.selection import Selection
from ..parts.part_set import PartSet
from .part_columns import PartColumns, columns_of
from .scalars import scalar_arrays

__all__ = ["element_lengths", "row_lengths", "value_bytes"]

Numbers = NDArray[np.int64]


def row_lengths(parts: PartSet, name: str, selection: Selection) -> Numbers:
    """The lengths [rows selected] of the values of a column, in the order of the selection.

    Of arrays with a free first dimension these are the entries along it, of bytes, text and objects their bytes, of a
    column of integers the integers themselves; 0 where null. SchemaError for any other column, and for integers below
    0.
    """
    parts.check_open()
    ordinal = parts.schema.ordinal(name)
    column = parts.schema.columns[ordinal]
    if column.is_blob and not column.fixed_bytes:
        entry = _entry_bytes(column)
        lengths = np.empty(len(selection), np.int64)
        for first, rows in selection.pieces():
            # A value that is cut in two is corrupt when it is read, which the loader is asked what to do about.
            lengths[first : first + len(rows)] = value_bytes(parts, ordinal, rows) // entry
        return lengths
    if column.is_blob or column.dtype is None or np.dtype(column.dtype).kind not in "iu":
        raise SchemaError(
            f"column {name!r} is {column.spec}: lengths are those of a column whose values differ in length, or the "
            "values of a column of integers"
        )
    values = scalar_arrays(parts, [name], selection)[name]
    lengths = np.asarray(np.ma.filled(values, 0)).astype(np.int64)
    if len(lengths) and int(lengths.min()) < 0:
        raise SchemaError(f"column {name!r} has {int(lengths.min())}, which is no length")
    return lengths


def element_lengths(parts: PartSet, name: str, selection: Selection, size: int) -> Iterator[Numbers]:
    """Elements of ``size`` bytes of the selected rows, in their order. CorruptionError where one is cut in two."""
    ordinal = parts.schema.ordinal(name)
    column = parts.schema.columns[ordinal]
    for _, rows in selection.pieces():
        if column.fixed_bytes:
            yield np.full(len(rows), column.fixed_bytes // size, np.int64)
            continue
        lengths, left = np.divmod(value_bytes(parts, ordinal, rows), size)
        if left.any():
            path, row = parts.locate(int(rows[np.flatnonzero(left)[0]]))
            raise _cut(path, row, column)
        yield lengths


def _entry_bytes(column: Column) -> int:
    """Bytes of what a length of a column of variable width counts."""
    if not column.is_array:
        return 1
    shape = column.shape or ()
    if column.dtype is None or column.free_dims != 1 or shape[0] != -1:
        raise SchemaError(
            f"column {column.name!r} is {column.spec}: only arrays whose first dimension is the one that is free have "
            "a length"
        )
    return max(column.dtype.itemsize * math.prod(shape[1:]), 1)


def _cut(path: str, row: int, column: Column) -> CorruptionError:
    message = f"{path}: row {row}, column {column.name!r}: its bytes are no whole number of {column.spec!r} elements"
    return CorruptionError(message, path=path, row=row, column=column.name)


def value_bytes(parts: PartSet, ordinal: int, rows: Numbers) -> Numbers:
    """Bytes of the cells of these rows in a blob column of variable width, from the indexes; 0 for null."""
    every = cast("Sequence[PartColumns]", columns_of(parts))
    starts: Numbers = parts.starts
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool(np.all(np.diff(rows) == 1)):
        first, stop = int(rows[0]), int(rows[-1]) + 1
        low, high = (np.searchsorted(starts, [first, stop - 1], side="right") - 1).tolist()
        found = [
            every[number].value_lengths(ordinal).span(max(first - base, 0), min(stop, end) - base)
            for number, base, end in zip(
                range(low, high + 1), starts[low:].tolist(), starts[low + 1 :].tolist(), strict=False
            )
            if base < end
        ]
        return np.concatenate(found).astype(np.int64)
    lengths = np.empty(len(rows), np.int64)
    number_of = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(number_of).tolist():
        chosen = np.flatnonzero(number_of == number)
        lengths[chosen] = every[number].value_lengths(ordinal).at(rows[chosen] - starts[number])
    return lengths
