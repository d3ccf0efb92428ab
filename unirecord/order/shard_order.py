"""From the samples of one shard to row numbers: a selection, its order in an epoch, and a rank's share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import Order
from .selection import Selection
from .spec import OrderSpec, Sharding

__all__ = ["EpochRun", "ShardOrder"]

RowIds = NDArray[np.int64]


@dataclass(frozen=True)
class EpochRun:
    """One pass over a shard: ``samples`` positions of ``order``, from position ``first``, ``stride`` apart.

    ``start`` is the global position the pass began at: 0, or where a loaded state says.
    """

    epoch: int
    order: Order
    first: int
    stride: int
    samples: int
    start: int


class ShardOrder:
    """Immutable but for a cache: which row of the dataset is sample i of this shard in an epoch."""

    def __init__(
        self, selection: Selection, sharding: Sharding, spec: OrderSpec, part_starts: RowIds
    ) -> None:
        self.selection = selection
        self.sharding = sharding
        self.spec = spec
        self._part_starts = part_starts
        self.shuffled = spec.mode != "sequential"
        self._cache: tuple[int, Order] | None = None
        self._length = sharding.length  # these four make `row` cheap
        self._stride, self._first, self._total = sharding.num_shards, sharding.first, sharding.rows
        self._all = selection.is_all

    def __len__(self) -> int:
        return self._length

    def narrowed(self, selection: Selection) -> ShardOrder:
        """The same order and shards over other rows of the dataset."""
        old = self.sharding
        sharding = Sharding(len(selection), old.shard_id, old.num_shards, old.remainder)
        return ShardOrder(selection, sharding, self.spec, self._part_starts)

    def order(self, epoch: int) -> Order:
        """The order of an epoch; the latest one is kept."""
        cached = self._cache
        if cached is not None and cached[0] == epoch:
            return cached[1]
        by_parts = self.spec.mode in ("parts", "within-parts")
        part_rows = self.selection.part_rows(self._part_starts) if by_parts else None
        order = Order(len(self.selection), self.spec.at_epoch(epoch), part_rows)
        self._cache = (epoch, order)
        return order

    def row(self, index: int, epoch: int) -> int:
        """The row of sample ``index``; negative ones count from the end. IndexError when there is none."""
        if not 0 <= index < self._length:
            position = self.sharding.position(index)
        else:
            position = (self._first + index * self._stride) % self._total
        if self.shuffled:
            cached = self._cache
            order = cached[1] if cached is not None and cached[0] == epoch else self.order(epoch)
            position = order.one(position)
        return position if self._all else self.selection[position]

    def rows(self, indices: Sequence[int], epoch: int) -> RowIds:
        """The rows of the samples at ``indices``."""
        length = len(self)
        given = np.asarray(indices, np.int64) if len(indices) else np.empty(0, np.int64)
        if len(given) and (given.min() < -length or given.max() >= length):
            wrong = given[(given < -length) | (given >= length)][0]
            raise IndexError(f"sample {wrong} is out of range: this shard has {length}")
        sharding = self.sharding
        positions = np.where(given < 0, given + length, given) * sharding.num_shards + sharding.first
        if length * sharding.num_shards > sharding.rows:
            positions %= sharding.rows
        if self.shuffled and len(positions):
            positions = self.order(epoch).at(positions)
        return self.selection.row_ids(positions)

    def row_ids(self, start: int, stop: int | None, epoch: int) -> RowIds:
        """The rows of samples [start, stop), clipped like a slice."""
        start, stop, _ = slice(start, stop).indices(len(self))
        if stop <= start:
            return np.empty(0, np.int64)
        sharding = self.sharding
        first = sharding.first + start * sharding.num_shards
        return self.selection.row_ids(self.order(epoch).range(first, sharding.num_shards, stop - start))

    def run(self, epoch: int, start: int) -> EpochRun:
        """A pass over this shard's samples from global position ``start`` on."""
        sharding = self.sharding.resumed(start)
        return EpochRun(epoch, self.order(epoch), sharding.first, sharding.num_shards, sharding.length, start)
