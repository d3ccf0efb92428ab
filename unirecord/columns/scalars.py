"""Scalar columns of selected rows as arrays, from the indexes alone: no blob is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError
from ..format.column import Column
from ..order.selection import Selection
from ..parts.part_set import PartSet
from .flat import FlatColumns
from .part_columns import columns_of
from .whole import all_strings, all_valid, all_values

__all__ = ["scalar_arrays"]


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
