"""Rules that make whole batches: what stands at a position of an epoch is a batch, and ranks share batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Order, xxh3_64
from .spec import OrderSpec

__all__ = ["BatchOrder", "BatchRule", "derived_seed", "grouped"]

Numbers = NDArray[np.int64]

_KEPT = 4096  # permutations of groups


class BatchOrder(ABC):
    """One epoch of ``rows`` batches, each of ``largest`` rows at most, which are places in a selection."""

    rows: int
    largest: int

    def __init__(self, spec: OrderSpec) -> None:
        self.spec = spec
        self._permutations: dict[tuple[int, int], Order] = {}

    @abstractmethod
    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these batches one after the other, where each ends)."""

    @abstractmethod
    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(which of ``rows``, position of a batch, slot in it) for each time that one of them comes in the epoch."""

    def range(self, start: int, stride: int, count: int) -> Numbers:
        """The rows of ``count`` batches from ``start`` on, ``stride`` apart; it wraps past the end."""
        return self.batches(self.positions(start, stride, count))[0]

    def draws(self, positions: Numbers) -> Numbers:
        """Numbers of the places in these batches, one batch after the other: each has one of its own in the epoch."""
        _, ends = self.batches(positions)
        counts = np.diff(ends, prepend=0)
        slots = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(ends - counts, counts)
        return (np.repeat(positions, counts) << 32) + slots

    def positions(self, start: int, stride: int, count: int) -> Numbers:
        """Positions from ``start`` on, ``stride`` apart; they wrap past the end."""
        return (start + stride * np.arange(count, dtype=np.int64)) % max(self.rows, 1)

    def permuted(self, group: int, epoch: int, rows: int, places: Numbers) -> Numbers:
        """What stands at these places of a permutation of [0, rows), one for each group and epoch."""
        return places if self.spec.mode == "sequential" else self._permutation(group, epoch, rows).at(places)

    def places(self, group: int, epoch: int, rows: int, found: Numbers) -> Numbers:
        """The places at which these stand in it."""
        return (
            found if self.spec.mode == "sequential" else self._permutation(group, epoch, rows).inverse(found)
        )

    def _permutation(self, group: int, epoch: int, rows: int) -> Order:
        order = self._permutations.get((group, epoch))
        if order is None:
            if len(self._permutations) >= _KEPT:
                self._permutations.clear()
            order = Order(rows, OrderSpec("shuffle", derived_seed(self.spec.seed, group), epoch))
            self._permutations[group, epoch] = order
        return order


class BatchRule(ABC):
    """Makes the batches of epochs, from a selection that has been divided into groups."""

    name: str
    repeats: bool  # whether a row may come more often than once in an epoch
    samples: int  # batches of an epoch: what stands at its positions
    rows: int

    @abstractmethod
    def order(self, spec: OrderSpec) -> BatchOrder:
        """The batches of an epoch."""

    @abstractmethod
    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """All that decides the batches, as plain values."""

    def difference(
        self, state: Mapping[str, Any], spec: OrderSpec, epoch: int, position: int
    ) -> tuple[Any, Any] | None:
        """What differs between another's ``state`` and this one; None: nothing."""
        own = self.state(spec)
        return None if dict(state) == own else (dict(state), own)


def derived_seed(seed: int, group: int) -> int:
    """The seed of a group's permutations: the hash of its number; −1 is no group."""
    return xxh3_64(group.to_bytes(8, "little", signed=True), seed)


def grouped(keys: Numbers) -> list[Numbers]:
    """Where each distinct key stands, in ascending order of the keys and of the places."""
    if not len(keys):
        return []
    by_key = np.argsort(keys, kind="stable")
    return np.split(by_key, np.flatnonzero(np.diff(keys[by_key])) + 1)
