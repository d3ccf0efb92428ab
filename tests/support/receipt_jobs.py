"""A training job of several ranks that writes receipts: it takes checkpoints, is killed, goes on with other ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import unirecord
from unirecord import UniRecordDataset

__all__ = ["Job"]


class Job:
    """Ranks in lockstep, as a training job runs them: steps, checkpoints, kills, resumes on other numbers of ranks."""

    def __init__(
        self, base: UniRecordDataset, folder: Path, batch: int, drop_last: bool = False, column: str = "i"
    ) -> None:
        """``column`` says which sample one is."""
        self.base, self.folder, self.batch, self.drop_last = base, folder, batch, drop_last
        self.column = column
        self.rows: Counter[tuple[int, Any]] = (
            Counter()
        )  # (epoch, sample) → how often, without what a kill undid
        self.state: dict | None = None

    def launch(self, ranks: int, steps: int | None = None, lost: int = 0, epochs: int = 2) -> None:
        """Runs so many epochs; or takes a checkpoint after ``steps``, and is killed ``lost`` steps later."""
        loaders = [self.loader(rank, ranks) for rank in range(ranks)]
        done = 0
        for done, got in enumerate(self.steps(loaders, epochs)):
            if steps is None or done <= steps:
                self.rows.update(got)
            if done == steps:
                self.state = loaders[0].state_dict()
            if steps is not None and done >= steps + lost:
                return
        if steps is None or done < steps:
            self.state = loaders[0].state_dict()

    def loader(self, rank: int, ranks: int) -> unirecord.BatchLoader:
        ds = self.base.view(shard_id=rank, num_shards=ranks)
        if self.state is not None:
            ds.load_state_dict(self.state)
        options = {"drop_last": self.drop_last, "num_threads": 1, "prefetch": 1}
        return ds.batches(self.batch, receipts=self.folder, **options)

    def steps(self, loaders: list[unirecord.BatchLoader], epochs: int) -> Iterator[list[tuple[int, Any]]]:
        """Before each step what the one before it has given."""
        got: list[tuple[int, Any]] = []
        for _ in range(epochs):
            passes = [iter(loader) for loader in loaders]
            while True:
                yield got
                batches = [batch for batch in (next(own, None) for own in passes) if batch is not None]
                epoch = loaders[0].state_dict()["epoch"]
                got = [(epoch, told(value)) for batch in batches for value in batch[self.column]]
                if not batches:
                    break


def told(value: Any) -> Any:
    """A value as something that can be counted."""
    return tuple(value.tolist()) if isinstance(value, np.ndarray) else value.item()
