"""Scalar columns of selected rows as arrays, from the indexes alone, and the lengths of the values of others."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError, SchemaError
from ..format.column import Column
from ..order.selection import Selection
from ..snapshot.part_set import PartSet
from .flat import FlatColumns, PartColumns, all_strings, all_valid, all_values, columns_of

__all__ = [
    "element_lengths",
    "row_lengths",
    "scalar_arrays",
    "value_bytes",
]


# Scalar columns of selected rows as arrays, from the indexes alone: no blob is read.


def scalar_arrays(parts: PartSet, names: Sequence[str], selection: Selection) -> dict[str, Any]:
    """Arrays [rows selected], in the order of the selection.

    A column of fixed width of a single part that is selected whole, or as a slice, is a read-only view of
    the mapped index. Nullable columns are masked arrays; strings are object arrays of ``str``, None where
    null. SchemaError for a column that is not scalar.
    """
    parts.check_open()
    return {name: _column(parts, _scalar(parts, name), selection) for name in names}


def _scalar(parts: PartSet, name: str) -> int:
    ordinal = parts.schema.ordinal(name)
    if parts.schema.columns[ordinal].is_blob:
        scalars = ", ".join(column.name for _, column in parts.schema.scalars)
        raise SchemaError(
            f"column {name!r} is not scalar: its values are in the data file; scalar columns are: {scalars}"
        )
    return ordinal


def _column(parts: PartSet, ordinal: int, selection: Selection) -> Any:
    column = parts.schema.columns[ordinal]
    if len(parts) == 1:
        values, valid = _of_part(columns_of(parts)[0], ordinal, column)
        where = _index(selection)
        values, valid = values[where], None if valid is None else valid[where]
    else:
        values, valid = _gathered(parts, ordinal, column, selection)
    if column.is_string or valid is None:
        return values
    return np.ma.MaskedArray(values, mask=~valid)


def _of_part(
    part: FlatColumns, ordinal: int, column: Column
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    if column.is_string:
        return all_strings(part, ordinal, column.name), None
    return all_values(part, ordinal), all_valid(part, ordinal)


def _index(selection: Selection) -> slice | NDArray[np.int64]:
    """What to index an array of all rows with."""
    if not selection.is_range:
        return selection.every()
    start, step, length = selection.start, selection.step, selection.length
    if length == 0:
        return slice(0, 0)
    stop = start + step * length
    return slice(start, None if stop < 0 else stop, step)


def _gathered(
    parts: PartSet, ordinal: int, column: Column, selection: Selection
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Over several parts: each part's share is put where the selection has it."""
    dtype = np.dtype(object) if column.is_string else np.dtype(column.dtype)
    values = np.empty(len(selection), dtype)
    valid = np.empty(len(selection), np.bool_) if column.nullable and not column.is_string else None
    for number, at, rows in _shares_of_parts(parts, selection):
        found, has_value = _of_part(columns_of(parts)[number], ordinal, column)
        values[at] = found[rows]
        if valid is not None and has_value is not None:
            valid[at] = has_value[rows]
    return values, valid


def _shares_of_parts(
    parts: PartSet, selection: Selection
) -> Iterator[tuple[int, slice | NDArray[np.int64], slice | NDArray[np.int64]]]:
    """For each part with selected rows: its number, places in the selection, and rows in the part."""
    starts = parts.starts
    if selection.is_range and selection.step == 1:
        for number in range(len(parts)):
            first = max(int(starts[number]), selection.start)
            stop = min(int(starts[number + 1]), selection.start + selection.length)
            if first < stop:
                at = slice(first - selection.start, stop - selection.start)
                yield number, at, slice(first - int(starts[number]), stop - int(starts[number]))
        return
    rows = selection.every()
    number_of = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(number_of).tolist():
        chosen = np.flatnonzero(number_of == number)
        yield number, chosen, rows[chosen] - starts[number]


# How long the value of each selected row is in a column, from the indexes alone, piece by piece: no blob is read.


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
