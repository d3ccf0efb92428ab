"""How many different values several parts have together, about: the least hashes of the values of each.

Bar-Yossef et al., "Counting Distinct Elements in a Data Stream", 2002; Beyer et al., "On Synopses for Distinct-Value
Estimation under Multiset Operations", 2007. Of `MOST` hashes the estimate is off by 1 / sqrt(MOST - 2), or 3 %, in two
cases of three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges

__all__ = ["MOST", "Hashes", "Sketch", "estimated", "hashes_of", "hashes_of_numbers"]

MOST: Final = 1024  # hashes of a column
_SPAN: Final = float(1 << 64)
_AT_ONCE: Final = 64  # sketches that are merged in one go
Hashes = npt.NDArray[np.uint64]


def hashes_of(data: Any, ends: npt.NDArray[np.int64], valid: npt.NDArray[np.bool_] | None = None) -> Hashes:
    """The hashes of strings that lie one after the other, of those alone that are valid."""
    starts, lengths = ends[:-1].astype(np.uint64), (ends[1:] - ends[:-1]).astype(np.uint64)
    if valid is not None:
        starts, lengths = starts[valid], lengths[valid]
    return digest_ranges(data, starts, lengths, 0, 0)


def hashes_of_numbers(values: npt.NDArray[Any]) -> Hashes:
    """The hashes of numbers: all NaN are one number, and so are both zeros."""
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # of NaNs that signal
            values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    ends = np.arange(len(values) + 1, dtype=np.int64) * values.dtype.itemsize
    return hashes_of(np.ascontiguousarray(values).view(np.uint8), ends)


class Sketch:
    """The least hashes of values, which come some at a time."""

    def __init__(self) -> None:
        self.hashes: Hashes = np.zeros(0, np.uint64)

    def add(self, hashes: Hashes) -> None:
        """Take the hashes of more values in."""
        if len(self.hashes) == MOST:
            hashes = hashes[hashes < self.hashes[-1]]
        self.hashes = _different(np.concatenate([self.hashes, hashes]))[:MOST]


def _different(values: Hashes) -> Hashes:
    ordered = np.sort(values)
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def estimated(sketches: Sequence[Hashes]) -> tuple[int, bool]:
    """How many different values there are where these are the sketches, and whether that is exact."""
    whole = all(len(hashes) < MOST for hashes in sketches)
    found = Sketch()
    every: Hashes = np.zeros(0, np.uint64)
    for start in range(0, len(sketches), _AT_ONCE):
        some = np.concatenate(sketches[start : start + _AT_ONCE])
        found.add(some)
        if whole:
            every = _different(np.concatenate([every, some]))
            whole = len(every) <= MOST * _AT_ONCE
    if whole:
        return len(every), True
    return round((MOST - 1) / ((float(found.hashes[-1]) + 1) / _SPAN)), False
