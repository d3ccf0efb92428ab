"""Where a dataset stands: the epoch, and how far the latest pass over it has come."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from operator import length_hint
from typing import Any, Literal

from ..core import Locked
from ..order.permutation import EpochRun, ShardOrder
from ..order.spec import check_integer
from .named_epoch import NamedEpoch

__all__ = ["Position"]


class Position(Locked):
    """The only thing of a dataset that changes: an epoch, and how far the latest pass over it has come.

    A pass begins in an iteration, in a loader, or in a sampler (``EpochSampler``), and nowhere else: asking for a
    length, or for samples by number, moves nothing. The position belongs to this process; an epoch that ``set_epoch``
    names reaches the processes that the dataset is sent to from here as well (see NamedEpoch). A copy stands where the
    original stood. One pass at a time is followed: the latest that has begun. Threads may begin and follow passes at
    once.
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
        # whether the pass is a sampler's, which may be asked ahead of what is delivered
        self._sampled = False
        # whether a sampler has taken the pass up from a state, and nothing of it has been asked for yet
        self._taken_up = False
        # who has read by number, unfollowed, since it stands here: nobody, this process, or this worker process
        self._by_number: Literal["", "here", "worker"] = ""
        self._asked = True  # whether anybody has asked for the epoch since it was set
        self._warned_of_front = False
        self._stood_at = 0

    @property
    def epoch(self) -> int:
        """The current epoch."""
        self._asked = True
        return self._current()

    def _current(self) -> int:
        if self._named.stamp() != self._stamp:
            with self.lock:
                if self._named.stamp() != self._stamp:
                    self._stamp, epoch = self._named.latest()
                    self._stand_at(epoch)
                    self._named.say_taken()
        return self._epoch

    @property
    def next_start(self) -> int:
        """The global position that the next pass begins at."""
        with self.lock:
            return 0 if self._current() >= 0 and self._begun else self._place

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
            undone = self._undone_by(epoch)
            same = epoch == self._epoch
            resumed, loaded = self.next_start if same else 0, same and self._loaded and not self._begun
            self._stamp = self._named.name(epoch)
            self._stand_at(epoch, resumed, loaded)
            self._asked = False
        if undone:
            warnings.warn(
                f"set_epoch({epoch}) undoes {undone}. A loader that counts epochs by itself, as those that Accelerate "
                "and Fabric prepare do, sets its own at the beginning of each pass: set the epoch of that loader",
                UserWarning,
                stacklevel=3,
            )

    def _undone_by(self, epoch: int) -> str:
        """What has been set, was not used, and is about to be lost; nothing where this epoch or the next is named."""
        here = self._current()
        if epoch in (here, here + 1):
            return ""
        if self._loaded and not self._begun:
            return f"a state that has been loaded, at position {self._place} of epoch {here}"
        if (
            self._asked
            or self._named.was_read_since(self._stood_at)
            or self._named.was_taken_since(self._stood_at)
        ):
            return ""
        return f"set_epoch({here}), since when nothing has been read"

    def resume(self, epoch: int, position: int) -> None:
        """Makes the next pass begin at a global position of an epoch."""
        with self.lock:
            if self._taken_up and self._run is not None and (self._epoch, self._place) == (epoch, position):
                return  # of one checkpoint, a sampler's state has been loaded before this dataset's
            self._stamp = self._named.name(epoch)
            self._stand_at(epoch, position, True)

    def _stand_at(self, epoch: int, place: int = 0, loaded: bool = False) -> None:
        self._epoch, self._place, self._loaded = epoch, place, loaded
        self._begun, self._run, self._followed = False, None, None
        self._sampled, self._taken_up, self._by_number, self._asked = False, False, "", True
        self._stood_at = time.monotonic_ns()

    def begin(self, order: ShardOrder, sampled: bool = False) -> EpochRun:
        """Starts a pass: over the current epoch if it has had none, else over the next.

        ``sampled``: whether a sampler gives places alone, which others read.
        """
        with self.lock:
            epoch, start = self._current(), self.next_start
            if self._begun:
                epoch += 1
            run = order.run(epoch, start)
            self._stand_at(epoch, start, self._loaded and not self._begun)
            self._begun, self._run, self._sampled = True, run, sampled
            self._named.say_taken()
            return run

    def take_up(self, run: EpochRun) -> None:
        """Makes a sampler's pass, whose place comes from a state, the latest one, unless another has begun since."""
        with self.lock:
            if not self._begun:
                self._stand_at(run.epoch, run.start, True)
                self._begun, self._run, self._sampled, self._taken_up = True, run, True, True

    @property
    def from_state(self) -> bool:
        """Whether the pass that is followed began where a loaded state says."""
        return self._loaded

    def read_by_number(self, in_worker: bool) -> None:
        """Notes that others read in an order of their own, in a worker process of theirs or here.

        ValueError where a loaded state says that the next pass begins behind the front, which they do not know.
        """
        if self._loaded and not self._begun and self.next_start:
            raise ValueError(
                f"a state has been loaded that stands at position {self._place} of the epoch, and a DataLoader begins "
                "at its front: give it sampler=unirecord.torch.EpochSampler(ds), which goes on from there, or use "
                "unirecord.torch.loader"
            )
        self._by_number = "worker" if in_worker else "here"

    def say_read(self) -> None:
        """Tells the process that this one has the dataset from that samples are read here."""
        self._named.say_read()

    def begins_again(self, place: int, in_worker: bool) -> bool:
        """Whether reads by number have begun with this place in this epoch before, here or in workers of one job."""
        return self._named.begins_again(self._current(), place, in_worker)

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
                self._taken_up = False
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
            epoch = self._current()
            in_workers = (self._run is None or self._sampled) and self._named.was_read_since(self._stood_at)
            by_number = self._by_number == "here"
            # torchdata's loader counts by itself, and asks for the epoch alone
            counted = "torchdata.stateful_dataloader" in sys.modules
            if in_workers or (by_number and not counted):
                raise ValueError(
                    "a DataLoader reads this dataset, and it alone knows how far it has come. unirecord.torch.loader "
                    "and torchdata's StatefulDataLoader have exact states, and so has a dataset that a DataLoader "
                    "without worker processes reads by sampler=unirecord.torch.EpochSampler(ds); between epochs, save "
                    "the epoch and call set_epoch"
                )
            if by_number and not self._warned_of_front:
                self._warned_of_front = True
                warnings.warn(
                    f"a DataLoader reads this dataset by number, and it alone knows how far it has come: this state is "
                    f"the front of epoch {epoch}. That is right within the state of torchdata's StatefulDataLoader; "
                    "with sampler=unirecord.torch.EpochSampler(ds) the dataset knows",
                    UserWarning,
                    stacklevel=4,
                )
            return epoch, 0 if self._by_number else self._marked()

    def __getstate__(self) -> dict[str, Any]:
        with self.lock:
            epoch = self._current()  # what has been named meanwhile is taken in first
            place = self._marked()
            return {**self.__dict__, "_epoch": epoch, "_place": place, "_run": None, "_followed": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__init__()
        self.__dict__.update(state)
