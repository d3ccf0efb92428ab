"""Batches with as many rows of each of some classes: every class comes as often, through epochs of its own."""

from __future__ import annotations

from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from .batch_rule import BatchOrder, BatchRule, grouped
from .spec import OrderSpec

__all__ = ["Balanced"]

Numbers = NDArray[np.int64]

_MOST_BATCHES = 1 << 62


class Balanced(BatchRule):
    """``classes`` classes a batch, ``per_class`` rows of each; an endless sequence of which an epoch is a stretch."""

    samples: int

    classes: int
    per_class: int

    name = "balanced"
    repeats = True

    def __init__(self, class_of: Numbers, classes: int, per_class: int, batches: int) -> None:
        """``class_of`` numbers the class of each row, from 0, none left out."""
        self.classes, self.per_class, self.samples = classes, per_class, batches
        self.rows: int = len(class_of)
        self.counts: NDArray[np.int64] = np.bincount(class_of)
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.counts)])
        self.by_class: NDArray[np.int64] = np.argsort(class_of, kind="stable").astype(np.int64)
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(class_of, '<i8')):016x}"

    def order(self, spec: OrderSpec) -> BalancedOrder:
        """The batches of an epoch."""
        return BalancedOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values, with a digest of the classes."""
        return {
            "batches": self.samples,
            "classes": self.classes,
            "per_class": self.per_class,
            "labels": self.digest,
        }


class BalancedOrder(BatchOrder):
    """One epoch of balanced batches."""

    def __init__(self, rule: Balanced, spec: OrderSpec) -> None:
        super().__init__(spec)
        self._rule = rule
        self.rows: int = rule.samples
        self.largest: int = rule.classes * rule.per_class
        self._begin = spec.epoch * rule.samples
        if self._begin + rule.samples > _MOST_BATCHES:
            raise ValueError(f"epoch {spec.epoch} of {rule.samples} batches lies behind batch 2^62")

    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these batches one after the other, where each ends)."""
        classes, visit = self._visits(positions + self._begin)
        rule, per_class = self._rule, self._rule.per_class
        counts = rule.counts[classes]
        visits = np.maximum(counts // per_class, 1)  # of a class in one of its epochs
        epoch, number = np.divmod(visit, visits)
        rows = np.empty((len(classes), per_class), np.int64)
        within = np.arange(per_class, dtype=np.int64)
        for of_class in grouped(classes):
            one = int(classes[of_class[0]])
            for of_epoch in grouped(epoch[of_class]):
                some = of_class[of_epoch]
                places = (number[some, None] * per_class + within).ravel() % rule.counts[one]
                found = self.permuted(one, int(epoch[some[0]]), int(rule.counts[one]), places)
                rows[some] = rule.by_class[rule.starts[one] + found].reshape(-1, per_class)
        return rows.ravel(), np.arange(1, len(positions) + 1, dtype=np.int64) * self.largest

    def _visits(self, batches: Numbers) -> tuple[Numbers, Numbers]:
        """The classes of these batches, one batch after the other, and how often each had come before."""
        all_classes, chosen = len(self._rule.counts), self._rule.classes
        slots = (batches[:, None] * chosen + np.arange(chosen, dtype=np.int64)).ravel()
        turn, place = np.divmod(slots, lcm(all_classes, chosen))
        repeat, place = np.divmod(place, all_classes)
        classes = np.empty(len(slots), np.int64)
        for some in grouped(turn):
            classes[some] = self.permuted(-1, int(turn[some[0]]), all_classes, place[some])
        return classes, turn * (lcm(all_classes, chosen) // all_classes) + repeat

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(which of ``rows``, position of a batch, slot in it) for each time that one of them comes."""
        rule = self._rule
        found = [(np.empty(0, np.int64),) * 3]
        for one in range(len(rule.counts)):
            held = rule.by_class[rule.starts[one] : rule.starts[one + 1]]  # ascends
            place = np.minimum(np.searchsorted(held, rows), len(held) - 1)
            there = np.flatnonzero(held[place] == rows)
            if len(there):
                which, positions, slots = self._of_class(one, place[there])
                found.append((there[which], positions, slots))
        which, positions, slots = map(np.concatenate, zip(*found, strict=True))
        return which, positions, slots

    def _of_class(self, one: int, places: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The same for the rows at some places of a class."""
        per_class, count = self._rule.per_class, int(self._rule.counts[one])
        visit, batch, within = self._visits_of(one)
        epoch, number = np.divmod(visit, max(count // per_class, 1))
        again = np.arange(-(-per_class // count) if count < per_class else 1, dtype=np.int64) * count
        found = [(np.empty(0, np.int64),) * 3]
        for of_epoch in grouped(epoch):
            stands = self.places(one, int(epoch[of_epoch[0]]), count, places)
            turn, slot = np.divmod((stands[:, None] + again).ravel(), per_class)
            visits = number[of_epoch]  # ascend, and are not all of the class's epoch at its ends
            comes = np.minimum(np.searchsorted(visits, turn), len(visits) - 1)
            there = np.flatnonzero(visits[comes] == turn)
            came = of_epoch[comes[there]]
            found.append((there // len(again), batch[came], within[came] * per_class + slot[there]))
        which, positions, slots = map(np.concatenate, zip(*found, strict=True))
        return which, positions, slots

    def _visits_of(self, one: int) -> tuple[Numbers, Numbers, Numbers]:
        """The numbers of a class's visits in the epoch, ascending; the batch of each, and its place there."""
        all_classes, chosen = len(self._rule.counts), self._rule.classes
        together = lcm(all_classes, chosen)
        first, end = self._begin * chosen, (self._begin + self.rows) * chosen
        turns = np.arange(first // together, -(-end // together), dtype=np.int64)
        stands = np.array(
            [self.places(-1, turn, all_classes, np.array([one], np.int64))[0] for turn in turns.tolist()],
            np.int64,
        )
        repeats = np.arange(together // all_classes, dtype=np.int64)
        slots = (turns[:, None] * together + stands[:, None] + repeats * all_classes).ravel()
        visits = (turns[:, None] * len(repeats) + repeats).ravel()
        here = np.flatnonzero((slots >= first) & (slots < end))
        batch, within = np.divmod(slots[here], chosen)
        return visits[here], batch - self._begin, within
