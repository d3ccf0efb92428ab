"""The step that keeps so many rows, spread evenly over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from ...order.randomness import mixed
from ..sources.base import RawBatch, Unit
from .base import Change, Places, Step, chosen_rows

__all__ = ["EvenSample"]


class EvenSample(Step):
    """Keeps ``rows`` of all rows: one, drawn by ``seed``, of each of so many stretches of equal length.

    So every row has about the same chance, and sorted rows (class folders) are drawn from in proportion. ``counts``
    are the rows of each unit.
    """

    chooses = True

    def __init__(self, rows: int, seed: int, counts: Sequence[int]) -> None:
        self._starts = [0, *accumulate(counts)]
        self._all = self._starts[-1]
        self._rows = min(rows, self._all)
        self._seed = seed

    @property
    def share(self) -> float:
        """How much of all rows is kept."""
        return self._rows / self._all if self._all else 1.0

    def begin(self, unit: Unit, places: Places) -> Change:
        """Keeps what is drawn of one unit."""
        start = self._starts[unit.place]

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal start
            places = self._drawn(start, start + batch.rows) - start
            start += batch.rows
            return chosen_rows(batch, places)

        return keep

    def _drawn(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """The rows drawn of [start, stop), ascending."""
        if not self._rows:
            return np.empty(0, np.int64)
        first = start * self._rows // self._all
        last = min(-(-stop * self._rows // self._all), self._rows)
        numbers = np.arange(first, last + 1, dtype=np.int64)
        begins = self._begin(numbers)
        sizes = (begins[1:] - begins[:-1]).astype(np.uint64)
        drawn = begins[:-1] + (mixed(numbers[:-1], self._seed) % sizes).astype(np.int64)
        return drawn[(drawn >= start) & (drawn < stop)]

    def _begin(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Where stretches begin, number * all // rows, without leaving 64 bits."""
        whole, rest = divmod(self._all, self._rows)
        return numbers * whole + numbers * rest // self._rows
