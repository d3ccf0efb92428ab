"""Scalar columns as a ``pyarrow.Table``, which DuckDB, Polars and pandas take as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..columns.scalars import scalar_arrays
from ..order.selection import Selection
from ..parts.part_set import PartSet

if TYPE_CHECKING:
    import pyarrow

__all__ = ["to_arrow"]


def to_arrow(parts: PartSet, selection: Selection, names: Sequence[str]) -> pyarrow.Table:
    """The columns as a table; arrays are shared with the mapped index, strings and bools are copied."""
    import pyarrow

    arrays = {}
    for name, values in scalar_arrays(parts, names, selection).items():
        if parts.schema[name].is_string:
            arrays[name] = pyarrow.array(values, pyarrow.string())
        elif isinstance(values, np.ma.MaskedArray):
            arrays[name] = pyarrow.array(values.data, mask=np.ma.getmaskarray(values))
        else:
            arrays[name] = pyarrow.array(values)
    return pyarrow.table(arrays)
