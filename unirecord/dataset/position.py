"""Where a dataset stands: the epoch, and how far the latest pass over it has come."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Any

from ..core import Locked
from ..order.shard_order import EpochRun, ShardOrder
from ..order.spec import check_integer
from .named_epoch import NamedEpoch

__all__ = ["Position"]


class Position(Locked):
    """The only thing of a dataset that changes: an epoch, and how far the latest pass over it has come.

    It belongs to this process; an epoch that ``set_epoch`` names reaches the processes that the dataset is sent to
    from here as well (see NamedEpoch). A copy stands where the original stood. One pass at a time is followed: the
    latest that has begun. Threads may begin and follow passes at once.
    """

    def __init__(self, epoch: int = 0, start: int = 0) -> None:
        super().__init__()
        self._named = NamedEpoch()
        self._stamp = 0
        self._epoch = epoch
        self._loaded = start > 0  # whether the next pass begins where a state says
        self._begun = False  # whether a pass over the epoch has begun
        self._place = start  # the global position of that pass, or the one that the next begins at
        self._run: EpochRun | None = None
        self._followed: tuple[Sequence[int], Iterator[int]] | None = None
        self._outside = 0  # the process in which a pass began that is not counted here
        self._stood_at = 0
        self._fetched = -1

    @property
    def epoch(self) -> int:
        """The current epoch."""
        if self._named.stamp() != self._stamp:
            with self.lock:
                if self._named.stamp() != self._stamp:
                    self._stamp, epoch = self._named.latest()
                    self._stand_at(epoch)
        return self._epoch

    @property
    def next_start(self) -> int:
        """The global position that the next pass begins at."""
        with self.lock:
            return 0 if self.epoch >= 0 and self._begun else self._place

    @property
    def next_pass(self) -> tuple[int, int]:
        """(epoch, global position) at which the next pass begins."""
        with self.lock:
            start = self.next_start
            return self._epoch + self._begun, start

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the current one; a position that was resumed at in another epoch is forgotten."""
        epoch = check_integer("epoch", epoch, 0, (1 << 63) - 1)
        with self.lock:
            same = epoch == self.epoch
            resumed, loaded = self.next_start if same else 0, same and self._loaded and not self._begun
            self._stamp = self._named.name(epoch)
            self._stand_at(epoch, resumed, loaded)

    def resume(self, epoch: int, position: int) -> None:
        """Makes the next pass begin at a global position of an epoch."""
        with self.lock:
            self._stamp = self._named.name(epoch)
            self._stand_at(epoch, position, True)

    def _stand_at(self, epoch: int, place: int = 0, loaded: bool = False) -> None:
        self._epoch, self._place, self._loaded = epoch, place, loaded
        self._begun, self._run, self._followed, self._outside, self._fetched = False, None, None, 0, -1
        self._stood_at = time.monotonic_ns()

    def begin(self, order: ShardOrder) -> EpochRun:
        """Starts a pass: over the current epoch if it has had none, else over the next."""
        with self.lock:
            epoch, start = self.epoch, self.next_start
            if self._begun:
                epoch += 1
            run = order.run(epoch, start)
            self._stand_at(epoch, start, self._loaded and not self._begun)
            self._begun, self._run = True, run
            return run

    @property
    def from_state(self) -> bool:
        """Whether the pass that is followed began where a loaded state says."""
        return self._loaded

    def begin_outside(self) -> None:
        """Starts a pass that others read and count, in this process or in those that the dataset is sent to."""
        with self.lock:
            self._refuse_to_begin_later(self.next_start)
            epoch = self._epoch + self._begun
            self._stamp = self._named.name(epoch)
            self._stand_outside(epoch)

    def begin_fetching(self, in_worker: bool) -> int:
        """The epoch of a pass of others, when it first reads here.

        In a worker process the first pass is the one for which the process was made, whatever has been named since.
        """
        with self.lock:
            if not in_worker:
                if self._outside != os.getpid() or self._fetched >= 0:  # nobody has said that it begins
                    self.begin_outside()
            elif self._outside != os.getpid():
                self._refuse_to_begin_later(0 if self._begun else self._place)
                # Usually the pass begins when the workers have been made; a sampler that was asked before has begun it.
                has_begun = self._outside != 0 and self._named.stamp() == self._stamp
                self._stand_outside(self._epoch + (self._begun and not has_begun))
                self._named.say_read()
            else:
                self._stand_outside(self.epoch)
                self._named.say_read()
            self._fetched = self._epoch
            return self._epoch

    @property
    def epoch_fetched(self) -> int:
        """The epoch of the latest pass of others that has read here since one was named; -1: none."""
        return self._fetched if self._named.stamp() == self._stamp else -1

    def _stand_outside(self, epoch: int) -> None:
        self._stand_at(epoch)
        self._begun, self._outside = True, os.getpid()

    def _refuse_to_begin_later(self, place: int) -> None:
        if place:
            raise ValueError(
                f"a state has been loaded that stands at position {place} of the epoch, and a DataLoader begins at its "
                "front: use unirecord.torch.loader, or torchdata's StatefulDataLoader with its own state"
            )

    def follows(self, run: EpochRun) -> bool:
        """Whether a pass is the one that is followed: the latest that has begun."""
        return self._run is run

    def mark(self, run: EpochRun, end: int) -> None:
        """Notes that a pass has been handed out as far as ``end``; only the latest one is followed."""
        if self._run is run:
            with self.lock:
                if self._run is run:  # no other has begun meanwhile
                    self._place, self._followed = end, None

    def follow(self, run: EpochRun, ends: Sequence[int]) -> Iterator[int]:
        """The numbers of ``ends``: taking number i marks ``ends[i]``, for samples too small for a call each."""
        taken = iter(range(len(ends)))
        with self.lock:
            if self._run is run:
                self._place, self._followed = self._marked(), (ends, taken)
        return taken

    def _marked(self) -> int:
        if self._followed is None:
            return self._place
        ends, taken = self._followed
        passed = len(ends) - length_hint(taken)
        return ends[passed - 1] if passed else self._place

    def place(self) -> tuple[int, int]:
        """(epoch, global position) of the latest pass, or of where the next one begins.

        ValueError where others read and count.
        """
        with self.lock:
            return self._placed()

    def _placed(self) -> tuple[int, int]:
        epoch = self.epoch
        if self._outside or (self._run is None and self._named.was_read_since(self._stood_at)):
            raise ValueError(
                "a DataLoader reads this dataset, and it alone knows how far it has come. unirecord.torch.loader and "
                "torchdata's StatefulDataLoader have exact states; between epochs, save the epoch and call set_epoch"
            )
        return epoch, self._marked()

    def place_outside(self) -> tuple[int, int]:
        """The front of the pass that others count, or of their next one."""
        with self.lock:
            epoch = self.epoch
            return (epoch if self._outside == os.getpid() else epoch + self._begun), 0

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            epoch = self.epoch  # what has been named meanwhile is taken in first
            place = self._marked()
            return {**self.__dict__, "_epoch": epoch, "_place": place, "_run": None, "_followed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(state)
