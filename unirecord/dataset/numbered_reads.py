"""Reads by number, as PyTorch's own DataLoader does them: what is told of mistakes that the numbers alone show.

A DataLoader asks for samples by the numbers that its sampler gives. Where these come from ``EpochSampler``, each says
its epoch. Plain numbers are places in the current epoch, and where a pass over them begins or ends, nobody says.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..order.permutation import ShardOrder
from ..order.spec import launched_ranks
from .cursor import warn_of_ranks
from .position import Position

__all__ = ["NumberedReads"]


class NumberedReads:
    """What one process has read of a dataset by number. It warns, of each kind of mistake once, and changes nothing."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._said: set[str] = set()
        self._begun = False
        self._epoch = -1
        # of the plain numbers read in that epoch: the first, the latest, the largest, how often one was lower than the
        # one before, and whether the last one of all has been read by itself
        self._first = -1
        self._last = -1
        self._largest = -1
        self._descents = 0
        self._ended = False

    def places(self, places: Sequence[tuple[int, int]], order: ShardOrder, whole: bool) -> None:
        """Sees a batch of an ``EpochSampler``; ``whole``: nobody has said that this process is to have all rows."""
        in_worker = _worker() is not None
        if in_worker:
            self._position.say_read()
        positions = [position for _, position in places]
        self._check_step(positions, order.sharding.num_shards, order)
        self._check_ranks(positions, whole)
        self._begun = True

    def numbers(self, numbers: Sequence[int], order: ShardOrder, whole: bool) -> None:
        """Sees a batch of plain numbers, which are not negative.

        ValueError where a loaded state says that the next pass begins behind the front.
        """
        worker = _worker()
        self._read(worker is not None)
        self._check_step(numbers, 1, order)
        self._check_ranks(numbers, whole)
        if order.shuffled:
            if not self._begun:
                self._check_subset(order, worker)
            epoch = self._position.epoch
            if epoch != self._epoch:
                self._check_torn(epoch, numbers[0])
                self._epoch, self._first, self._largest, self._descents = epoch, numbers[0], -1, 0
            self._check_order(numbers)
            if "order" not in self._said and self._position.begins_again(numbers[0], worker is not None):
                self._warn_of_repetition(epoch)
            self._largest = max(self._largest, *numbers)
        self._begun, self._last = True, numbers[-1]

    def one(self, number: int, order: ShardOrder) -> None:
        """Sees the first or the last sample read by itself, as a DataLoader without batches does."""
        if _worker() is not None:
            self._read(True)
            if order.shuffled and number == 0 and self._position.begins_again(0, True):
                self._warn_of_repetition(self._position.epoch)
        elif order.shuffled:
            epoch = self._position.epoch
            if number == 0 and self._ended and epoch == self._epoch:
                self._warn_of_repetition(epoch)
            self._epoch, self._ended = epoch, number > 0

    def _read(self, in_worker: bool) -> None:
        self._position.read_by_number(in_worker)
        if in_worker:
            self._position.say_read()

    def _warn_of_repetition(self, epoch: int) -> None:
        self._warn(
            "repetition",
            f"epoch {epoch} of a shuffled dataset is read by number for the second time, in the same order. A "
            "DataLoader over it takes sampler=unirecord.torch.EpochSampler(ds), of which each pass is the next epoch; "
            "or call ds.set_epoch(epoch) before each epoch",
        )

    def _check_order(self, numbers: Sequence[int]) -> None:
        """Warns of samplers that put an order over that of the dataset."""
        for number in numbers:
            if number == self._first:  # a pass begins
                self._descents = 0
            elif number <= self._last:
                self._descents += 1
            self._last = number
        if self._descents >= 2:  # one is the padding of DistributedSampler
            self._warn(
                "order",
                "a sampler (DataLoader(shuffle=True), WeightedRandomSampler, the numbers of random_split) puts an "
                "order of its own over a dataset that is shuffled already. Its numbers are places in the shuffled "
                "order, not rows, and are other rows in the next epoch: weights by row are those of other samples, and "
                "parts by number mix. Open the dataset with shuffle=False, or leave the order to it, and part it with "
                'ds.split([0.8, 0.2]); ds.scalars(order="samples") has the values in the order of ds[i]',
            )

    def _check_torn(self, epoch: int, number: int) -> None:
        if number > self._largest >= 0:
            self._warn(
                "torn",
                f"a pass by number began in epoch {self._epoch} of a shuffled dataset and goes on in epoch {epoch}: "
                "set_epoch, or another pass over the dataset, has come in between, so that rows come twice or never. "
                "Give the DataLoader sampler=unirecord.torch.EpochSampler(ds), whose passes keep their epoch",
            )

    def _check_step(self, numbers: Sequence[int], step: int, order: ShardOrder) -> None:
        """Warns where every n-th sample of a shard is asked for: it would be shared out twice."""
        ranks = order.sharding.num_shards
        if ranks == 1 or len(numbers) < 2:
            return
        found = numbers[1] - numbers[0]
        if found > step and all(b - a == found for a, b in pairwise(numbers)):
            self._warn(
                "twice",
                f"one sample in {found // step} of shard {order.sharding.shard_id} of {ranks} is asked for: a "
                "DistributedSampler, such as Lightning adds, shards this dataset twice, and rows are left out. Open it "
                "without shard_id and num_shards, or use it without that sampler "
                "(use_distributed_sampler=False in Lightning)",
            )

    def _check_ranks(self, numbers: Sequence[int], whole: bool) -> None:
        """Warns where a rank but the first begins at the front: every rank then has all rows."""
        begins = whole and not self._begun and len(numbers) > 1 and (numbers[0], numbers[1]) == (0, 1)
        if begins and launched_ranks()[0] > 0:
            warn_of_ranks()

    def _check_subset(self, order: ShardOrder, worker: Any) -> None:
        """Warns where a ``Subset`` reads a shuffled dataset: its rows would be others in each epoch."""
        subset: Any = sys.modules["torch.utils.data"].Subset
        if worker is None:
            found = any(
                issubclass(type(one), subset) and self._is_mine(one.__dict__.get("dataset"))
                for one in gc.get_objects()
            )
        else:
            reading = worker.dataset
            found = issubclass(type(reading), subset) and self._is_mine(reading.dataset)
        if found:
            self._warn(
                "subset",
                "a torch.utils.data.Subset (random_split makes them) reads a shuffled dataset: its numbers are places "
                "in the order of an epoch, and other rows in the next, so that rows for validation come into training. "
                "ds.split([0.8, 0.2]) parts the rows for good; or open the dataset with shuffle=False",
            )

    def _is_mine(self, dataset: Any) -> bool:
        return getattr(getattr(dataset, "_cursor", None), "position", None) is self._position

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._said:
            self._said.add(kind)
            warnings.warn(message, UserWarning, stacklevel=6)


def _worker() -> Any:
    """What PyTorch says of this worker process of a DataLoader; None in any other process."""
    torch_data: Any = sys.modules["torch.utils.data"]
    return torch_data.get_worker_info()
