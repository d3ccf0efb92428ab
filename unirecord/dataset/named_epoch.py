"""The epoch that ``set_epoch`` has named: here, or in a process that this dataset has come from."""

from __future__ import annotations

import os
import time
from multiprocessing import context
from typing import Any, NamedTuple

from ..core import Locked
from .epoch import SharedEpoch

__all__ = ["NamedEpoch"]

_PLACE_BITS = 40
_PLACES = (1 << _PLACE_BITS) - 1
_EPOCHS = (1 << (64 - _PLACE_BITS)) - 1


class NamedEpoch:
    """Reaches the processes that a dataset is sent to from here, and no others: no parent, no sibling.

    Each process that a dataset goes through adds a link of its own to a chain, which it alone writes, with the time;
    the latest one holds. Times are of the monotonic clock, which all processes of a machine share. The other way, a
    process says when it has begun to read.
    """

    __slots__ = ("_chain",)

    def __init__(self, links: tuple[_Link, ...] = ()) -> None:
        self._chain = _Chain((*links, _link()), os.getpid())

    @property
    def _links(self) -> tuple[_Link, ...]:
        """The chain, whose last link is this process's own: in a forked child, one is added."""
        chain = self._chain
        if chain.process != os.getpid():
            with _adding.lock:
                chain = self._chain
                if chain.process != os.getpid():
                    self._chain = chain = _Chain((*chain.links, _link()), os.getpid())
        return chain.links

    def stamp(self) -> int:
        """When it was named last; 0: never."""
        links = self._links
        if len(links) == 1:
            return links[0].named_at.get()
        return max(link.named_at.get() for link in links)

    def latest(self) -> tuple[int, int]:
        """The stamp, and the epoch that was named then."""
        while True:
            link = max(self._links, key=lambda link: link.named_at.get())
            stamp, epoch = link.named_at.get(), link.epoch.get()
            if link.named_at.get() == stamp:  # the epoch is written before its stamp
                return stamp, epoch

    def name(self, epoch: int) -> int:
        """Names an epoch for this process and those that follow it; the stamp of that."""
        own = self._links[-1]
        own.epoch.set(epoch)
        own.first.set(0)
        now = max(time.monotonic_ns(), self.stamp() + 1)
        own.named_at.set(now)
        return now

    def say_read(self) -> None:
        """Tells the processes that the dataset has come from that this one reads."""
        for link in self._links[:-1]:
            link.read_at.set(time.monotonic_ns())

    def say_taken(self) -> None:
        """Tells the processes that the dataset has come from that this one goes by the epoch that has been named."""
        for link in self._links[:-1]:
            link.taken_at.set(time.monotonic_ns())

    def was_taken_since(self, stamp: int) -> bool:
        """Whether a process that the dataset was sent to has gone by a named epoch since then."""
        return self._links[-1].taken_at.get() > stamp

    def was_read_since(self, stamp: int) -> bool:
        """Whether a process that the dataset was sent to has begun to read since then."""
        return self._links[-1].read_at.get() > stamp

    def begins_again(self, epoch: int, place: int, in_worker: bool) -> bool:
        """Whether reads by number in an epoch have begun with this place before; the lowest place is the beginning.

        Workers of one job tell each other through the link of the process that has made them.
        """
        links = self._links
        link = links[-2 if in_worker and len(links) > 1 else -1]
        # a change of one number is seen whole
        now = (epoch & _EPOCHS) << _PLACE_BITS | min(place + 1, _PLACES)
        first = link.first.get()
        if first == now:
            return True
        if first >> _PLACE_BITS != now >> _PLACE_BITS or first & _PLACES == 0 or now < first:
            link.first.set(now)
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return _copied, self.latest()
        return NamedEpoch, (self._links,)


class _Link(NamedTuple):
    named_at: SharedEpoch
    epoch: SharedEpoch
    read_at: SharedEpoch
    taken_at: SharedEpoch
    # where reads by number have begun: the epoch's lowest bits, and the place + 1; 0: nowhere yet
    first: SharedEpoch


class _Chain(NamedTuple):
    links: tuple[_Link, ...]
    process: int  # whose own the last one is


def _link(named_at: int = 0, epoch: int = 0) -> _Link:
    return _Link(SharedEpoch(named_at), SharedEpoch(epoch), *(SharedEpoch(0) for _ in range(3)))


def _copied(stamp: int, epoch: int) -> NamedEpoch:
    """One that follows nobody, for a copy in this process or on another machine."""
    named = NamedEpoch()
    named._chain = _Chain((_link(stamp, epoch),), os.getpid())
    return named


_adding = Locked()
