"""A sampler for PyTorch's own DataLoader, each of whose passes is an epoch of a dataset."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import repeat
from operator import length_hint
from typing import Any

from ..dataset.cursor import Cursor
from ..dataset.dataset import UniRecordDataset
from ..order.permutation import EpochRun

__all__ = ["EpochSampler"]


class EpochSampler:
    """What a ``DataLoader`` takes as ``sampler=``, so that each of its passes is the next epoch of a dataset.

    It gives pairs of an epoch and a position, so that a worker process knows the epoch of each sample it is asked for,
    whatever becomes of the dataset meanwhile. A pass begins when its first sample is asked for: in the epoch that
    ``set_epoch`` names, here or of the dataset, where a state that has been loaded into the dataset says, or in the
    epoch after the pass before. Lightning, Accelerate and the Trainer of transformers find ``set_epoch``, and
    torchdata's ``StatefulDataLoader`` the state of each pass.

    Args:
        ds: the dataset, which is what the ``DataLoader`` reads. Its shuffle, seed and shard hold.
    """

    def __init__(self, ds: UniRecordDataset[Any]) -> None:
        if not isinstance(ds, UniRecordDataset):
            raise TypeError(
                f"EpochSampler takes a UniRecordDataset, not {ds!r:.100}; batches that have been drawn are a batch "
                "sampler themselves: DataLoader(drawn.dataset, batch_sampler=drawn)"
            )
        self._cursor = ds.cursor

    def __len__(self) -> int:
        """How many samples the next pass has."""
        return self._cursor.samples_left()

    def __iter__(self) -> EpochPass:
        return EpochPass(self._cursor)

    @property
    def epoch(self) -> int:
        """The current epoch of the dataset."""
        return self._cursor.position.epoch

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``."""
        self._cursor.position.set_epoch(epoch)


class EpochPass:
    """One pass of a sampler, with the state that torchdata's ``StatefulDataLoader`` keeps of it."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._run: EpochRun | None = None
        self._given: Iterator[int] = iter(())
        self._places: Iterator[tuple[int, int]] | None = None

    def __iter__(self) -> EpochPass:
        return self

    def __next__(self) -> tuple[int, int]:
        if self._places is None:
            self._places = self._begun()
        return next(self._places)

    def _begun(self) -> Iterator[tuple[int, int]]:
        cursor, plan = self._cursor, self._cursor.plan
        plan.data.parts.check_open()
        if self._run is None:
            self._run = cursor.position.begin(plan.order, sampled=True)
        else:
            cursor.position.take_up(self._run)
        run = self._run
        positions = range(run.first, run.first + run.samples * run.stride, run.stride)
        self._given = cursor.position.follow(run, range(run.after(1), run.after(run.samples + 1), run.stride))
        return zip(repeat(run.epoch), map(positions.__getitem__, self._given), strict=False)

    def state_dict(self) -> dict[str, Any]:
        """A state of the dataset: as far as samples have been asked for, or where this pass would begin."""
        run = self._run
        if run is None:
            return self._cursor.state_at(*self._cursor.position.next_pass)
        given = 0 if self._places is None else run.samples - length_hint(self._given)
        return self._cursor.state_at(run.epoch, run.after(given))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes this pass go on where ``state`` was taken, on any number of ranks; it has begun then."""
        cursor = self._cursor
        cursor.load_state_dict(state)
        self._run, self._places = cursor.plan.order.run(*cursor.position.next_pass), None
        cursor.position.take_up(self._run)
