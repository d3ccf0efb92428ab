"""Finds rows by the sorted rows of a column: a binary search, and the hits are read off."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..columns.flat import Array, Vector
from ..errors import CorruptionError
from .bound_condition import BoundCondition
from .fields import PartFields

Probe = Callable[[int], Any]  # row -> its value, or None where null


@dataclass(frozen=True)
class Hits:
    """Slices of the sorted rows that hold the rows of a condition, and how many rows that is."""

    bound: BoundCondition
    sorted_rows: Vector
    slices: tuple[tuple[int, int], ...]
    count: int

    def rows(self, total: int) -> npt.NDArray[np.int64]:
        """The rows, ascending; ``total`` is the number of rows in the part."""
        pieces: list[Array] = [self.sorted_rows.span(start, stop) for start, stop in self.slices]
        rows = np.concatenate(pieces).astype(np.int64) if pieces else np.empty(0, np.int64)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < total:
            raise CorruptionError("the sorted rows of a column name a row that does not exist")
        if len(pieces) > 1 or self.is_range:
            rows.sort()
        return rows

    @property
    def is_range(self) -> bool:
        """Whether several values are in one slice, so that the rows in it do not ascend."""
        return any(low != high for low, high in self.bound.search)


def find(bound: BoundCondition, fields: PartFields, most_ranges: int) -> Hits | None:
    """Where the rows of a condition stand in the sorted rows of its column; None when these cannot tell."""
    if not bound.search or len(bound.search) > most_ranges:
        return None
    rows = fields.columns.sorted_rows(bound.column)
    if rows is None or len(rows) != fields.rows:
        return None
    probe = _probe(bound, fields)
    slices = [_slice(rows, probe, low, high) for low, high in bound.search]
    slices = [(start, stop) for start, stop in slices if start < stop]
    return Hits(bound, rows, tuple(slices), sum(stop - start for start, stop in slices))


def _slice(rows: Vector, probe: Probe, low: int | float, high: int | float) -> tuple[int, int]:
    """The places of the sorted rows at which ``low <= value <= high``."""

    def side(place: int) -> int:
        """−1, 0 or 1: the value there is below, within, or above (NaN and null too)."""
        found = probe(int(rows.span(place, place + 1)[0]))
        if found is None or not found <= high:
            return 1
        return -1 if found < low else 0

    start, stop = 0, len(rows)
    while start < stop and (where := side(middle := (start + stop) // 2)) != 0:
        start, stop = (middle + 1, stop) if where < 0 else (start, middle)
    if start == stop:
        return start, start
    first = bisect_left(range(start, middle), 0, key=side) + start
    last = bisect_left(range(middle + 1, stop), 1, key=side) + middle + 1
    return first, last


def _probe(bound: BoundCondition, fields: PartFields) -> Probe:
    dictionary = fields.columns.dictionary(bound.column) if bound.how == "dictionary" else None
    vector = fields.columns.values(bound.column) if dictionary is None else dictionary.codes
    validity = fields.columns.validity(bound.column)

    def probe(row: int) -> Any:
        if not 0 <= row < len(vector):
            raise CorruptionError("the sorted rows of a column name a row that does not exist")
        if validity is not None and not validity.span(row // 8, row // 8 + 1)[0] >> (row % 8) & 1:
            return None
        return vector.span(row, row + 1)[0].item()

    return probe
