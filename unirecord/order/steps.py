"""Which positions of an epoch a step of a job takes, and which step takes a position: arithmetic alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .spec import Sharding, check_integer

__all__ = ["JobSteps"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class JobSteps:
    """The steps of an epoch: in each, every rank takes a batch of ``batch_size`` samples.

    Sample i of rank r stands at position start + r + i·N, modulo the rows. So a step of the whole job is a run of
    neighbouring positions, whatever the number of ranks. ``sharding`` may be that of any rank.
    """

    sharding: Sharding
    batch_size: int
    drop_last: bool = False

    def __post_init__(self) -> None:
        check_integer("batch_size", self.batch_size, 1, (1 << 62) // self.sharding.num_shards)

    def __len__(self) -> int:
        """Steps of the whole job: those of rank 0, which has most."""
        return -(-int(self.samples(np.zeros(1, np.int64))[0]) // self.batch_size)

    def split(self, step: int) -> tuple[int, int]:
        """(epoch, step of that epoch) of a step that is counted from the start of epoch 0."""
        steps = len(self)
        if steps == 0:
            none = f"no full batch of {self.batch_size}" if self.sharding.rows else "no samples"
            raise IndexError(f"there is no step {step}: an epoch has {none}")
        return divmod(check_integer("step", step, 0), steps)

    def located(self, step: int, epoch: int | None) -> tuple[int, int]:
        """(epoch, step of it); a step without an epoch is counted over all epochs, of which none was taken up later.

        ValueError for a step without an epoch where an epoch begins behind its front.
        """
        if epoch is not None:
            return check_integer("epoch", epoch, 0, (1 << 63) - 1), step
        if self.sharding.start:
            raise ValueError(
                "start is a position in an epoch: give the epoch that was taken up there as well"
            )
        return self.split(step)

    def positions(self, step: int, rank: int | None = None) -> Numbers:
        """The positions of a step, in their order: of one rank, or of the whole job."""
        return self.unwrapped(step, rank) % max(self.sharding.rows, 1)

    def unwrapped(self, step: int, rank: int | None = None) -> Numbers:
        """The same, of which those beyond the end of the epoch stand for its front."""
        steps, ranks = len(self), self.sharding.num_shards
        if not 0 <= check_integer("step", step, 0) < steps:
            raise IndexError(f"there is no step {step}: an epoch has {steps} of {self.batch_size} a rank")
        first, last = 0, ranks
        if rank is not None:
            first = check_integer("rank", rank, 0, ranks - 1)
            last = first + 1
        within = np.arange(
            step * self.batch_size, min((step + 1) * self.batch_size, self._most()), dtype=np.int64
        )
        rank_of = np.arange(first, last, dtype=np.int64)
        delivered = within[:, None] < self.samples(rank_of)[None, :]
        return np.asarray(self.sharding.start + (within[:, None] * ranks + rank_of)[delivered], np.int64)

    def places(self, positions: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """(which of ``positions``, step, rank, slot in the rank's batch) of every time that one is delivered.

        With ``remainder="pad"`` the first positions may come again at the end; those left out do not come at all.
        """
        ranks, rows = self.sharding.num_shards, self.sharding.rows
        which = np.tile(np.arange(len(positions), dtype=np.int64), 2)
        after = np.concatenate([positions, positions + rows]) - self.sharding.start
        sample, rank = np.divmod(after, ranks)
        came = (after >= 0) & (sample < self.samples(rank))
        step, slot = np.divmod(sample[came], self.batch_size)
        return which[came], step, rank[came], slot

    def _most(self) -> int:
        return int(self.samples(np.zeros(1, np.int64))[0])

    def samples(self, rank: Numbers) -> Numbers:
        """How many samples each of these ranks delivers."""
        sharding = self.sharding
        left = max(sharding.rows - sharding.start, 0)
        if sharding.remainder == "uneven":
            samples = np.maximum(-((rank - left) // sharding.num_shards), 0)
        else:
            samples = np.full(len(rank), sharding.length, np.int64)
        return samples // self.batch_size * self.batch_size if self.drop_last else samples
