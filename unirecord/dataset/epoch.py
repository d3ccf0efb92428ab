"""The number of the current epoch, seen by every process that a dataset has been sent or forked to."""

from __future__ import annotations

import mmap
import os
import tempfile
import threading
from collections.abc import MutableSequence
from multiprocessing import context
from typing import Any
from weakref import WeakSet, finalize

__all__ = ["SharedEpoch"]

_CELL = 8


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
        if descriptor is not None:
            finalize(self, os.close, descriptor).atexit = False  # the end of the process closes it as well
        memory = mmap.mmap(-1 if descriptor is None else descriptor, cells * _CELL)
        self.cells = memoryview(memory).cast("Q")

    @classmethod
    def new(cls, cells: int) -> _Page:
        """A page of zeros that forked and spawned processes can share; OSError without a free descriptor."""
        descriptor = _anonymous_file()
        os.ftruncate(descriptor, cells * _CELL)
        return cls(cells, descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        """Its descriptor, once for all that lie in it: one that is named twice cannot be handed to a process."""
        from multiprocessing.reduction import DupFd

        if self.descriptor is None:
            raise OSError(
                "the epoch of this dataset cannot be shared with a spawned process: no file descriptor was left when a "
                "process was forked; open the dataset again, or raise the limit on open files (ulimit -n)"
            )
        return _from_descriptor, (DupFd(self.descriptor), len(self.cells))


class SharedEpoch:
    """An integer >= 0 in memory that forked and spawned worker processes share with their parent.

    ``DataLoader(persistent_workers=True)`` keeps the copies of a dataset that its workers got at the start;
    a plain attribute that the parent sets later would never reach them. Pickled on the way into a new
    process it stays shared; pickled for anything else (a file, another host) it becomes a copy of its value.

    It is a plain number until the first fork or spawn: thousands of datasets hold no descriptor.
    """

    __slots__ = ("__weakref__", "_at", "_cell", "_page")

    def __init__(self, value: int = 0) -> None:
        self._cell: MutableSequence[int] | memoryview[int] = [value]
        self._page: _Page | None = None
        self._at = 0
        with _LOCK:
            _UNSHARED.add(self)

    def get(self) -> int:
        """The current epoch."""
        return self._cell[0]

    def set(self, value: int) -> None:
        """Makes ``value`` the epoch of every process that shares this one."""
        with _LOCK:
            self._cell[0] = value

    def _lie_in(self, page: _Page, at: int) -> None:
        """From now on lies in a cell of a page."""
        self._page, self._at, self._cell = page, at, page.cells[at : at + 1]

    def _share(self, page: _Page, at: int) -> None:
        page.cells[at] = self.get()
        self._lie_in(page, at)
        _UNSHARED.discard(self)

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return SharedEpoch, (self.get(),)
        with _LOCK:
            if self._page is None:
                self._share(_Page.new(1), 0)
            page = self._page
        return _in_page, (page, self._at)


def _in_page(page: _Page, at: int) -> SharedEpoch:
    epoch = SharedEpoch()
    with _LOCK:
        epoch._lie_in(page, at)
        _UNSHARED.discard(epoch)
    return epoch


def _from_descriptor(duplicate: Any, cells: int) -> _Page:
    return _Page(cells, duplicate.detach())


_LOCK = threading.RLock()  # a signal handler, or a finalizer, may come in between
_UNSHARED: WeakSet[SharedEpoch] = WeakSet()


def _before_fork() -> None:
    """All that are not shared yet move into one page; the lock is held until both processes go on."""
    _LOCK.acquire()
    epochs = list(_UNSHARED)
    if not epochs:
        return
    try:
        page = _Page.new(len(epochs))
    except OSError:
        page = _Page(len(epochs), None)  # good for forked processes
    for at, epoch in enumerate(epochs):
        epoch._share(page, at)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)
