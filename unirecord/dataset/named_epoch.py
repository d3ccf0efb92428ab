"""The epoch that ``set_epoch`` has named: here, or in a process that this dataset has come from."""

from __future__ import annotations

import os
import time
from multiprocessing import context
from typing import Any
from weakref import WeakSet

from .epoch import SharedEpoch

__all__ = ["NamedEpoch"]


class NamedEpoch:
    """Reaches the processes that a dataset is sent to from here, and no others: no parent, no sibling.

    Each process that a dataset goes through adds a cell of its own, which it alone writes, with the time; the latest
    one holds. Times are of the monotonic clock, which all processes of a machine share.
    """

    __slots__ = ("__weakref__", "_cells")

    def __init__(self, cells: tuple[tuple[SharedEpoch, SharedEpoch], ...] = ()) -> None:
        self._cells = (*cells, _cell(0, 0))
        _LIVING.add(self)

    def stamp(self) -> int:
        """When it was named last; 0: never."""
        cells = self._cells
        if len(cells) == 1:
            return cells[0][0].get()
        return max(stamp.get() for stamp, _ in cells)

    def latest(self) -> tuple[int, int]:
        """The stamp, and the epoch that was named then."""
        while True:
            stamp, number = max((stamp.get(), -number) for number, (stamp, _) in enumerate(self._cells))
            cell, epoch = self._cells[-number]
            named = epoch.get()
            if cell.get() == stamp:  # the epoch is written before its stamp
                return stamp, named

    def name(self, epoch: int) -> int:
        """Names an epoch for this process and those that follow it; the stamp of that."""
        stamp, cell = self._cells[-1]
        cell.set(epoch)
        now = max(time.monotonic_ns(), self.stamp() + 1)
        stamp.set(now)
        return now

    def add_own(self) -> None:
        """Begins a cell of this process's own."""
        self._cells = (*self._cells, _cell(0, 0))

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return _copied, self.latest()
        return NamedEpoch, (self._cells,)


def _cell(stamp: int, epoch: int) -> tuple[SharedEpoch, SharedEpoch]:
    return SharedEpoch(stamp), SharedEpoch(epoch)


def _copied(stamp: int, epoch: int) -> NamedEpoch:
    """One that follows nobody, for a copy in this process or on another machine."""
    named = NamedEpoch()
    named._cells = (_cell(stamp, epoch),)
    return named


_LIVING: WeakSet[NamedEpoch] = WeakSet()


def _after_fork() -> None:
    for named in list(_LIVING):
        named.add_own()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
