"""Rows as a caller names them, by their numbers in the dataset: checked, and each once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["each_once", "row_numbers"]

Numbers = NDArray[np.int64]


def row_numbers(rows: Any, total: int) -> Numbers:
    """One number or a list of them, as given; TypeError for others, IndexError where the ``total`` rows have none such.

    A negative number is none either: what is deleted, excluded or asked for is named without counting from the end.
    """
    asked = np.atleast_1d(np.asarray(rows))
    if asked.size == 0 and asked.ndim == 1:
        return np.empty(0, np.int64)
    if asked.dtype.kind not in "iu" or asked.ndim != 1:
        given = repr(rows) if isinstance(rows, str) else f"{asked.dtype} of shape {asked.shape}"
        hint = "; ds.view(where=…).row_ids() are those that meet a condition" if isinstance(rows, str) else ""
        raise TypeError(f"rows are integers, not {given}{hint}")
    outside = asked[(asked < 0) | (asked >= total)]
    if len(outside):
        raise IndexError(f"there is no row {outside[0]}: the dataset has {total} rows")
    return asked.astype(np.int64)


def each_once(numbers: Numbers) -> Numbers:
    """Ascending; `numpy.unique` hashes integers, which takes seconds for a million of them."""
    ascending = np.sort(numbers)
    return ascending[np.append(True, ascending[1:] != ascending[:-1])] if len(ascending) else ascending
