"""Arrays of row numbers: whether they are a range, whether they ascend, which of them are in others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import Bitmap

__all__ = ["CHUNK", "Sieve", "are_in", "as_range", "climbs", "indexes_of"]

Rows = npt.NDArray[np.int64]

CHUNK = 1 << 20  # rows looked at together


def as_range(length: int, run: Callable[[int, int], Rows]) -> tuple[int, int, int] | None:
    """(start, step, length) of rows that are one, with a step other than 0; ``run(first, count)`` gives them."""
    if length < 2:
        return (int(run(0, 1)[0]), 1, 1) if length else (0, 1, 0)
    start, second = run(0, 2).tolist()
    step = second - start
    if step == 0 or int(run(length - 1, 1)[0]) - start != step * (length - 1):
        return None
    for first in range(0, length - 1, CHUNK):
        if not np.all(np.diff(run(first, CHUNK + 1)) == step):
            return None
    return start, step, length


def climbs(array: Rows) -> bool:
    """Whether each is more than the one before."""
    return all(np.all(np.diff(array[first : first + CHUNK + 1]) > 0) for first in range(0, len(array), CHUNK))


def indexes_of(rows: Any, length: int) -> Rows:
    """Row numbers as a checked array of non-negative int64."""
    given = np.asarray(rows)
    if given.ndim != 1:
        raise ValueError(f"rows must be a flat sequence of row numbers, not of shape {given.shape}")
    if given.dtype == np.bool_:
        if len(given) != length:
            raise ValueError(f"the mask has {len(given)} values, but there are {length} rows")
        return np.flatnonzero(given)
    if len(given) == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise TypeError(f"rows must be integers, not {given.dtype}")
    outside = np.flatnonzero((given < -length) | (given >= length))
    if len(outside):
        raise IndexError(f"row {given[outside[0]]} is out of range: there are {length} rows")
    indexes = given.astype(np.int64)
    return np.where(indexes < 0, indexes + length, indexes)


def are_in(haystack: Rows | Bitmap, values: Rows) -> npt.NDArray[np.bool_]:
    """For each value, whether it is in the sorted haystack."""
    if isinstance(haystack, Bitmap):
        return haystack.contains(values)
    if len(haystack) == 0:
        return np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(haystack, values), len(haystack) - 1)
    return np.asarray(haystack[place] == values)


class Sieve:
    """Keeps back most rows that are not among some: a flag for each of their lowest digits, at most 16 bytes a row."""

    def __init__(self, rows: Rows) -> None:
        self._mask = (1 << (8 * len(rows)).bit_length()) - 1
        self._flags = np.zeros(self._mask + 1, np.bool_)
        self._flags[rows & self._mask] = True

    def passes(self, rows: Rows) -> Rows:
        """Which of these may be among them: all that are, and at most about one in eight of the others."""
        return np.flatnonzero(self._flags[rows & self._mask])
