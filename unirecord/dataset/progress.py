"""Where a dataset stands: the epoch, and how far the latest pass over it has come."""

from __future__ import annotations

from typing import Any

from ..order.shard_order import EpochRun, ShardOrder
from ..order.spec import check_integer
from .epoch import SharedEpoch

__all__ = ["Progress"]


class Progress:
    """The epoch is shared with worker processes (see SharedEpoch); the rest belongs to this process."""

    def __init__(self, epoch: int = 0) -> None:
        self._epoch = SharedEpoch(epoch)
        self._begun = False
        self._resume_at = 0
        self._run: EpochRun | None = None
        self._delivered = 0

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._epoch.get()

    @property
    def next_start(self) -> int:
        """The global position that the next pass begins at."""
        return 0 if self._begun else self._resume_at

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the current one; a position that was resumed at in another epoch is forgotten."""
        check_integer("epoch", epoch, 0, (1 << 63) - 1)
        if epoch != self.epoch:
            self._resume_at = 0
        self._epoch.set(epoch)
        self._begun = False
        self._run = None

    def resume(self, epoch: int, position: int) -> None:
        """Makes the next pass begin at a global position of an epoch."""
        self.set_epoch(epoch)
        self._resume_at = position

    def begin(self, order: ShardOrder) -> EpochRun:
        """Starts a pass: over the current epoch if it has had none, else over the next."""
        if self._begun:
            self._epoch.set(self.epoch + 1)
            self._resume_at = 0
        self._begun = True
        run = order.run(self.epoch, self._resume_at)
        self._resume_at = 0
        self._run, self._delivered = run, 0
        return run

    def deliver(self, run: EpochRun, samples: int) -> None:
        """Notes that ``samples`` of a pass have been handed out; passes other than the latest one are not
        followed."""
        if self._run is run:
            self._delivered = samples

    def position(self) -> tuple[int, int]:
        """(epoch, global position) of the latest pass, or of where the next one begins."""
        run = self._run
        if run is None:
            return self.epoch, self._resume_at
        return run.epoch, run.start + self._delivered * run.stride

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_run": None, "_delivered": 0, "_resume_at": 0, "_begun": False}
