"""A plan and where a dataset stands in it: the epoch, and how far the latest pass over it has come."""

from __future__ import annotations

import mmap
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from multiprocessing import context
from operator import length_hint
from typing import Any, Final, Literal, NamedTuple
from weakref import finalize

from ..core import Locked, all_forks
from ..order.permutation import EpochRun, ShardOrder
from ..order.spec import check_integer

__all__ = [
    "NamedEpoch",
    "Position",
    "SharedEpoch",
]


# The number of the current epoch, seen by every process that a dataset has been sent or forked to.


_CELL: Final = 8
_CELLS: Final = 1 << 16  # of a page: of some ten thousand datasets, each used once


def _anonymous_file() -> int:
    """A file without a name: nothing is left behind however the processes end."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("unirecord-epoch", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class _Page:
    """Memory that processes share, in a file without a name; ``descriptor`` is None where none was to be had."""

    def __init__(self, cells: int, descriptor: int | None) -> None:
        self.descriptor = descriptor
        self.used = 0
        self.forks: int = all_forks()
        if descriptor is not None:
            finalize(self, os.close, descriptor).atexit = False  # the end of the process closes it as well
        memory = mmap.mmap(-1 if descriptor is None else descriptor, cells * _CELL)
        self.cells = memoryview(memory).cast("Q")

    @classmethod
    def new(cls) -> _Page:
        """A page of zeros that forked processes can share; and spawned ones, if there is a free descriptor."""
        try:
            descriptor = _anonymous_file()
        except OSError:
            return cls(_CELLS, None)
        os.ftruncate(descriptor, _CELLS * _CELL)
        return cls(_CELLS, descriptor)

    @property
    def is_open(self) -> bool:
        """Whether it has cells that no other process uses: after a fork, both might take the same ones."""
        return self.used < len(self.cells) and self.forks == all_forks()

    def __reduce__(self) -> tuple[Any, ...]:
        """Its descriptor, once for all that lie in it: one that is named twice cannot be handed to a process."""
        from multiprocessing.reduction import DupFd

        if self.descriptor is None:
            raise OSError(
                "the epoch of this dataset cannot be shared with a spawned process: no file descriptor was left when "
                "it was opened; open the dataset again, or raise the limit on open files (ulimit -n)"
            )
        return _from_descriptor, (DupFd(self.descriptor), len(self.cells))


class SharedEpoch:
    """An integer >= 0 in memory that forked and spawned worker processes share with their parent.

    ``DataLoader(persistent_workers=True)`` keeps the copies of a dataset that its workers got at the start;
    a plain attribute that the parent sets later would never reach them. Pickled on the way into a new
    process it stays shared; pickled for anything else (a file, another host) it becomes a copy of its value.

    It lies in memory that is shared from the beginning: nothing has to be done when a process forks. Thousands of them
    share one page, and its descriptor.
    """

    __slots__ = ("_at", "_cell", "_page")

    def __init__(self, value: int = 0) -> None:
        self._page, self._at = _free_cell()
        self._cell = self._page.cells[self._at : self._at + 1]
        self._cell[0] = value

    def get(self) -> int:
        """The current epoch."""
        return self._cell[0]

    def set(self, value: int) -> None:
        """Makes ``value`` the epoch of every process that shares this one."""
        self._cell[0] = value

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return SharedEpoch, (self.get(),)
        return _in_page, (self._page, self._at)


def _in_page(page: _Page, at: int) -> SharedEpoch:
    epoch = SharedEpoch.__new__(SharedEpoch)
    epoch._page, epoch._at, epoch._cell = page, at, page.cells[at : at + 1]
    return epoch


def _from_descriptor(duplicate: Any, cells: int) -> _Page:
    return _Page(cells, duplicate.detach())


_pages: list[_Page] = []  # the one that new epochs lie in
_taking = Locked()


def _free_cell() -> tuple[_Page, int]:
    with _taking.lock:
        if not _pages or not _pages[0].is_open:
            _pages[:] = [_Page.new()]
        page = _pages[0]
        page.used += 1
        return page, page.used - 1


# The epoch that ``set_epoch`` has named: here, or in a process that this dataset has come from.


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


# Where a dataset stands: the epoch, and how far the latest pass over it has come.


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
