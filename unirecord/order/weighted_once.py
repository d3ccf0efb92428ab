"""Rows drawn by weight, without replacement: each at most once an epoch, the heavy ones rather at its front."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from .rule import Vectorised
from .spec import OrderSpec
from .splitmix import splitmix64

__all__ = ["WeightedOnce"]

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]

_DOMAIN = 8
_CHUNK = 1 << 20
_TERMS = 12
_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476


class WeightedOnce:
    """The exponential keys of Efraimidis and Spirakis (2006): row i has the key −ln(u) / weights[i], the least first.

    So the row at a position is each of those that are left with the probability weights[i] / their sum. Rows without
    a weight do not come.
    """

    name = "weighted"
    repeats = False

    def __init__(self, weights: Floats, samples: int) -> None:
        """Weights are finite, 0 or more, and those of ``samples`` rows at least more than 0."""
        self.weights = weights
        self.samples = samples
        self.rows: int = len(weights)
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(weights, '<f8')):016x}"

    def order(self, spec: OrderSpec) -> WeightedOnceOrder:
        """The draws of an epoch: they are sorted, 8 bytes a sample, and 40 more meanwhile."""
        return WeightedOnceOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values, with a digest of the weights."""
        return {"samples": self.samples, "weights": self.digest, "replacement": False}

    def difference(
        self, state: Mapping[str, Any], spec: OrderSpec, epoch: int, position: int
    ) -> tuple[Any, Any] | None:
        """What differs between another's ``state`` and this one; None: nothing."""
        own = self.state(spec)
        return None if dict(state) == own else (dict(state), own)


class WeightedOnceOrder(Vectorised):
    """One epoch of draws: the rows with the least keys, in the order of the keys."""

    def __init__(self, rule: WeightedOnce, spec: OrderSpec) -> None:
        super().__init__(rule.samples, spec)
        head = np.array([spec.seed, spec.epoch, 0, _DOMAIN * 256], "<u8").tobytes()
        state = xxh3_64(head)
        kept, rows, limit = np.empty(0, np.float64), np.empty(0, np.int64), np.inf
        for first in range(0, rule.rows, _CHUNK):
            weights = rule.weights[first : first + _CHUNK]
            some = np.flatnonzero(weights > 0)
            with np.errstate(over="ignore"):
                keys = _minus_ln_of_uniform(splitmix64(state, some + first)) / weights[some]
            if limit < np.inf:  # of equal keys, the row that is kept came first
                less = np.flatnonzero(keys < limit)
                keys, some = keys[less], some[less]
            kept, rows = np.concatenate([kept, keys]), np.concatenate([rows, some + first])
            if len(kept) >= 2 * rule.samples or first + _CHUNK >= rule.rows:
                least = np.argsort(kept, kind="stable")[: rule.samples]
                kept, rows = kept[least], rows[least]
                limit = kept[-1]
        self._rows = rows

    def _rows_at(self, positions: Numbers) -> Numbers:
        return self._rows[positions]

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its position) for those that come."""
        sorter = np.argsort(rows, kind="stable")
        first = np.searchsorted(rows, self._rows, "left", sorter)
        count = np.searchsorted(rows, self._rows, "right", sorter) - first
        within = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
        return sorter[np.repeat(first, count) + within], np.repeat(
            np.arange(self.rows, dtype=np.int64), count
        )


def _minus_ln_of_uniform(words: NDArray[np.uint64]) -> Floats:
    """−ln((⌊z / 2^12⌋ + ½) · 2^-52), by sums, products and quotients alone: the same bits on every machine.

    With u = m · 2^k and √½ ≤ m < √2: k · ln 2 + 2s(1 + s²/3 + … + s²³/25) with s = (m − 1) / (m + 1).
    """
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    part, exponent = np.frexp(uniform)
    below = part < _ROOT_HALF
    part = np.where(below, part * 2, part)
    s = (part - 1) / (part + 1)
    square = s * s
    series = np.full(len(s), 1 / (2 * _TERMS + 1))
    for term in range(_TERMS - 1, -1, -1):
        series = series * square + 1 / (2 * term + 1)
    return np.asarray(-((exponent - below) * _LN2 + 2 * s * series), np.float64)
