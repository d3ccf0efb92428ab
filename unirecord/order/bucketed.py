"""Batches of rows of like length: buckets by length, each cut into batches, the batches of all in a random order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from .batch_rule import BatchOrder, BatchRule, grouped
from .spec import OrderSpec

__all__ = ["Bucketed", "edges_of"]

Numbers = NDArray[np.int64]


class Bucketed(BatchRule):
    """Every row once an epoch. Bucket b has the rows with edges[b − 1] < length ≤ edges[b], the last one the rest."""

    name = "bucketed"
    repeats = False

    def __init__(
        self,
        lengths: Numbers,
        edges: Sequence[int],
        batch_size: int | None,
        max_length: int | None,
        drop_last: bool,
    ) -> None:
        """A batch has ``batch_size`` rows, or as many of the bucket's longest as ``max_length`` holds."""
        self.edges: tuple[int, ...] = tuple(edges)
        self._asked = (batch_size, max_length, drop_last)
        self.rows: int = len(lengths)
        bucket = np.searchsorted(np.array(edges, np.int64), lengths, side="left")
        self._by_bucket = np.argsort(bucket, kind="stable").astype(np.int64)
        self.counts: NDArray[np.int64] = np.bincount(bucket, minlength=len(edges) + 1)
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.counts)])
        longest = np.zeros(len(self.counts), np.int64)
        np.maximum.at(longest, bucket, lengths)
        if batch_size is not None:
            sizes = np.full(len(longest), batch_size, np.int64)
        else:
            assert max_length is not None
            sizes = max_length // np.maximum(longest, 1)
        self.batches_of: NDArray[np.int64] = self.counts // sizes if drop_last else -(-self.counts // sizes)
        # None has more rows than its bucket.
        self.sizes: NDArray[np.int64] = np.minimum(sizes, np.maximum(self.counts, 1))
        self.before: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.batches_of)])
        self.samples: int = int(self.before[-1])
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(lengths, '<i8')):016x}"

    def order(self, spec: OrderSpec) -> BucketedOrder:
        """The batches of an epoch."""
        return BucketedOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values: edges, sizes, and a digest of the lengths."""
        batch_size, max_length, drop_last = self._asked
        return {
            "batches": self.samples,
            "edges": list(self.edges),
            "batch_size": batch_size,
            "max_length": max_length,
            "drop_last": drop_last,
            "lengths": self.digest,
        }

    def rows_of_bucket(self, bucket: int, places: Numbers) -> Numbers:
        """The rows at these places of a bucket."""
        return np.asarray(self._by_bucket[self.starts[bucket] + places], np.int64)

    def places_in_bucket(self, bucket: int, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows`` are in a bucket, their places there)."""
        held = self._by_bucket[self.starts[bucket] : self.starts[bucket + 1]]  # ascends
        place = np.searchsorted(held, rows)
        there = np.flatnonzero(place < len(held))
        there = there[held[place[there]] == rows[there]]
        return there, place[there]


class BucketedOrder(BatchOrder):
    """One epoch of bucketed batches."""

    def __init__(self, rule: Bucketed, spec: OrderSpec) -> None:
        super().__init__(spec)
        self._rule = rule
        self.rows: int = rule.samples
        self.largest: int = int(rule.sizes.max(initial=1))

    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these batches one after the other, where each ends)."""
        rule = self._rule
        batch = self.permuted(-1, self.spec.epoch, self.rows, positions)
        bucket = np.searchsorted(rule.before, batch, side="right") - 1
        first = (batch - rule.before[bucket]) * rule.sizes[bucket]
        count = np.minimum(rule.sizes[bucket], rule.counts[bucket] - first)
        ends = np.cumsum(count, dtype=np.int64)
        rows = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
        for some in grouped(bucket):
            number = int(bucket[some[0]])
            at, places = _spread(ends[some] - count[some], first[some], count[some])
            places = self.permuted(number, self.spec.epoch, int(rule.counts[number]), places)
            rows[at] = rule.rows_of_bucket(number, places)
        return rows, ends

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(which of ``rows``, position of its batch, slot in it); one that ``drop_last`` leaves out does not come."""
        rule = self._rule
        which, batch, slot = ([np.empty(0, np.int64)] for _ in range(3))
        for bucket in np.flatnonzero(rule.batches_of).tolist():
            there, place = rule.places_in_bucket(bucket, rows)
            place = self.places(bucket, self.spec.epoch, int(rule.counts[bucket]), place)
            number, within = np.divmod(place, rule.sizes[bucket])
            came = np.flatnonzero(number < rule.batches_of[bucket])
            which.append(there[came])
            batch.append(number[came] + rule.before[bucket])
            slot.append(within[came])
        positions = self.places(-1, self.spec.epoch, self.rows, np.concatenate(batch))
        return np.concatenate(which), positions, np.concatenate(slot)


def _spread(at: Numbers, first: Numbers, count: Numbers) -> tuple[Numbers, Numbers]:
    """``at`` and ``first``, and the ``count`` numbers from each of them on."""
    within = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(at, count) + within, np.repeat(first, count) + within


def edges_of(lengths: Numbers) -> list[int]:
    """Edges from the shortest length, or a sixteenth of the longest, up to it, each about an eighth above the last."""
    if not len(lengths):
        return []
    longest = int(lengths.max())
    edges = [max(int(lengths.min()), longest // 16, 1)]
    while edges[-1] < longest:
        edges.append(max(edges[-1] + 1, edges[-1] * 9 // 8))
    return edges
