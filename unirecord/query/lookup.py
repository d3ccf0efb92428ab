"""Finds rows by the sorted order of a column: a binary search, and the hits are read off."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from .bound import Bound
from .selection import Reader
from .source import Array, Vector

Probe = Callable[[int], Any]  # row -> its value, or None where null


@dataclass(frozen=True)
class Hits:
    """Slices of an order that hold the rows of a condition, and how many rows that is."""

    bound: Bound
    order: Vector
    slices: tuple[tuple[int, int], ...]
    count: int

    def rows(self, total: int) -> npt.NDArray[np.int64]:
        """The rows, ascending; ``total`` is the number of rows in the part."""
        pieces: list[Array] = [self.order.span(start, stop) for start, stop in self.slices]
        rows = np.concatenate(pieces).astype(np.int64) if pieces else np.empty(0, np.int64)
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < total:
            raise CorruptionError("the order of a column names a row that does not exist")
        if len(pieces) > 1 or self.is_range:
            rows.sort()
        return rows

    @property
    def is_range(self) -> bool:
        """Whether several values are in one slice, so that the rows in it do not ascend."""
        return any(low != high for low, high in self.bound.search)


def find(bound: Bound, reader: Reader, most_ranges: int) -> Hits | None:
    """Where the rows of a condition stand in the order of its column; None when no order can tell."""
    if not bound.search or len(bound.search) > most_ranges:
        return None
    order = reader.source.order(bound.column)
    if order is None or len(order) != reader.source.rows:
        return None
    probe = _probe(bound, reader)
    slices = []
    for low, high in bound.search:
        start = _first(order, probe, low, after_equal=False)
        stop = _first(order, probe, high, after_equal=True)
        if start < stop:
            slices.append((start, stop))
    return Hits(bound, order, tuple(slices), sum(stop - start for start, stop in slices))


def _first(order: Vector, probe: Probe, value: int | float, after_equal: bool) -> int:
    """Place of the first row of the order whose value is > ``value`` if ``after_equal``, else >=, or is NaN or null."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        found = probe(int(order.span(middle, middle + 1)[0]))
        before = found is not None and (found <= value if after_equal else found < value)
        low, high = (middle + 1, high) if before else (low, middle)
    return low


def _probe(bound: Bound, reader: Reader) -> Probe:
    dictionary = reader.source.dictionary(bound.column) if bound.how == "dictionary" else None
    vector = reader.source.values(bound.column) if dictionary is None else dictionary.codes
    validity = reader.source.validity(bound.column)

    def probe(row: int) -> Any:
        if not 0 <= row < len(vector):
            raise CorruptionError("the order of a column names a row that does not exist")
        if validity is not None and not validity.span(row // 8, row // 8 + 1)[0] >> (row % 8) & 1:
            return None
        return vector.span(row, row + 1)[0].item()

    return probe


