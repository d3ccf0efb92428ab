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

    name = "balanced"

    def __init__(self, class_of: Numbers, classes: int, per_class: int, batches: int) -> None:
        """``class_of`` numbers the class of each row, from 0, none left out."""
        self.classes, self.per_class, self.samples = classes, per_class, batches
        self.rows = len(class_of)
        self.counts = np.bincount(class_of)
        self.starts = np.concatenate([[0], np.cumsum(self.counts)])
        self.by_class = np.argsort(class_of, kind="stable").astype(np.int64)
        self.digest = f"{xxh3_64(np.ascontiguousarray(class_of, '<i8')):016x}"

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
        self.rows = rule.samples
        self.largest = rule.classes * rule.per_class
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
