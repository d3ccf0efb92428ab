"""How long each selected row is in a column, from the indexes alone: no blob is read."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError
from ..format.column import Column
from ..order.selection import Selection
from ..parts.part_set import PartSet
from .part_columns import columns_of
from .scalars import scalar_arrays, shares_of_parts

__all__ = ["row_lengths"]


def row_lengths(parts: PartSet, name: str, selection: Selection) -> NDArray[np.int64]:
    """The lengths [rows selected] of the values of a column, in the order of the selection.

    Of arrays with a free first dimension these are the entries along it, of bytes, text and objects their bytes, of a
    column of integers the integers themselves; 0 where null. SchemaError for any other column, and for integers below
    0.
    """
    parts.check_open()
    ordinal = parts.schema.ordinal(name)
    column = parts.schema.columns[ordinal]
    if column.is_blob and not column.fixed_bytes:
        return _of_values(parts, ordinal, column, selection)
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


def _of_values(parts: PartSet, ordinal: int, column: Column, selection: Selection) -> NDArray[np.int64]:
    sizes = np.empty(len(selection), np.int64)
    for number, at, rows in shares_of_parts(parts, selection):
        sizes[at] = columns_of(parts)[number].value_lengths(ordinal).checked()[rows]
    shape = column.shape or ()
    if not column.is_array:
        return sizes
    if column.dtype is None or column.free_dims != 1 or shape[0] != -1:
        raise SchemaError(
            f"column {column.name!r} is {column.spec}: only arrays whose first dimension is the one that is free have "
            "a length"
        )
    return sizes // max(column.dtype.itemsize * math.prod(shape[1:]), 1)
