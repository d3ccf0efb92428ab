"""Rows drawn by weight, with replacement: which one stands at a position is a random number there, and a search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from .rule import Vectorised
from .spec import OrderSpec
from .splitmix import splitmix64

__all__ = ["Weighted"]

Numbers = NDArray[np.int64]

_DOMAIN = 7
_CHUNK = 1 << 20
_MOST_LOOKED_AT = 1 << 30  # draws: about a minute


class Weighted:
    """Every position of every epoch is a draw of its own: row i with the probability weights[i] / their sum."""

    name = "weighted"
    repeats = True

    def __init__(self, weights: NDArray[np.float64], samples: int) -> None:
        """Weights are finite, 0 or more, and not all 0."""
        self.samples = samples
        self.rows: int = len(weights)
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(weights, '<f8')):016x}"
        self.ends: NDArray[np.float64] = np.cumsum(weights)

    def order(self, spec: OrderSpec) -> WeightedOrder:
        """The draws of an epoch."""
        return WeightedOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values, with a digest of the weights."""
        return {"samples": self.samples, "weights": self.digest}

    def difference(
        self, state: Mapping[str, Any], spec: OrderSpec, epoch: int, position: int
    ) -> tuple[Any, Any] | None:
        """What differs between another's ``state`` and this one; None: nothing."""
        own = self.state(spec)
        return None if dict(state) == own else (dict(state), own)


class WeightedOrder(Vectorised):
    """One epoch of draws."""

    def __init__(self, rule: Weighted, spec: OrderSpec) -> None:
        super().__init__(rule.samples, spec)
        self._ends = rule.ends
        head = np.array([spec.seed, spec.epoch, 0, _DOMAIN * 256], "<u8").tobytes()
        self._state = xxh3_64(head)

    def _rows_at(self, positions: Numbers) -> Numbers:
        uniform = (splitmix64(self._state, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        # A product that is rounded up to the sum itself would lie behind the last row that has a weight.
        below = np.nextafter(self._ends[-1], 0.0)
        rows = np.searchsorted(self._ends, np.minimum(uniform * self._ends[-1], below), side="right")
        return np.asarray(rows, np.int64)

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its position) for each time that one of them is drawn; every draw is looked at."""
        if self.rows > _MOST_LOOKED_AT:
            raise ValueError(
                f"a draw by weight has no inverse: to say when a row comes, each of the {self.rows} draws of the epoch "
                f"would be looked at, and {_MOST_LOOKED_AT} are the most: ask for the rows of steps, with rows_of"
            )
        sorter = np.argsort(rows, kind="stable")
        wanted = rows[sorter]
        which, where = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start in range(0, self.rows, _CHUNK):
            drawn = self.range(start, 1, min(_CHUNK, self.rows - start))
            first = np.searchsorted(wanted, drawn, side="left")
            count = np.searchsorted(wanted, drawn, side="right") - first
            within = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
            which.append(sorter[np.repeat(first, count) + within])
            where.append(np.repeat(np.arange(len(drawn), dtype=np.int64) + start, count))
        return np.concatenate(which), np.concatenate(where)
