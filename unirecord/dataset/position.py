"""Where a dataset stands: the epoch, and how far the latest pass over it has come."""

from __future__ import annotations

from typing import Any

from ..order.shard_order import EpochRun, ShardOrder
from ..order.spec import check_integer
from .named_epoch import NamedEpoch

__all__ = ["Position"]


class Position:
    """The only thing of a dataset that changes: an epoch, and how far the latest pass over it has come.

    It belongs to this process; an epoch that ``set_epoch`` names reaches the processes that the dataset is sent to
    from here as well (see NamedEpoch). A copy stands where the original stood. One pass at a time is followed: the
    latest that has begun.
    """

    def __init__(self, epoch: int = 0, start: int = 0) -> None:
        self._named = NamedEpoch()
        self._stamp = 0
        self._epoch = epoch
        self._begun = False  # whether a pass over the epoch has begun
        self._place = start  # the global position of that pass, or the one that the next begins at
        self._run: EpochRun | None = None

    @property
    def epoch(self) -> int:
        """The current epoch."""
        if self._named.stamp() != self._stamp:
            self._stamp, epoch = self._named.latest()
            self._stand_at(epoch)
        return self._epoch

    @property
    def next_start(self) -> int:
        """The global position that the next pass begins at."""
        return 0 if self.epoch >= 0 and self._begun else self._place

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the current one; a position that was resumed at in another epoch is forgotten."""
        epoch = check_integer("epoch", epoch, 0, (1 << 63) - 1)
        resumed = self.next_start if epoch == self.epoch else 0
        self.resume(epoch, resumed)

    def resume(self, epoch: int, position: int) -> None:
        """Makes the next pass begin at a global position of an epoch."""
        self._stamp = self._named.name(epoch)
        self._stand_at(epoch, position)

    def _stand_at(self, epoch: int, place: int = 0) -> None:
        self._epoch, self._place = epoch, place
        self._begun, self._run = False, None

    def begin(self, order: ShardOrder) -> EpochRun:
        """Starts a pass: over the current epoch if it has had none, else over the next."""
        epoch, start = self.epoch, self.next_start
        if self._begun:
            epoch += 1
        run = order.run(epoch, start)
        self._stand_at(epoch, start)
        self._begun, self._run = True, run
        return run

    def mark(self, run: EpochRun, end: int) -> None:
        """Notes that a pass has been handed out as far as ``end``; only the latest one is followed."""
        if self._run is run:
            self._place = end

    def place(self) -> tuple[int, int]:
        """(epoch, global position) of the latest pass, or of where the next one begins."""
        return self.epoch, self._place

    def __getstate__(self) -> dict[str, Any]:
        epoch = self.epoch  # what has been named meanwhile is taken in first
        return {**self.__dict__, "_epoch": epoch, "_run": None}
