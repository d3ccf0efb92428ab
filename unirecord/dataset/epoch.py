"""The number of the current epoch, seen by every process that a dataset has been sent or forked to."""

from __future__ import annotations

import mmap
import os
import tempfile
from multiprocessing import context
from typing import Any, Final
from weakref import finalize

from ..core import Locked, all_forks

__all__ = ["SharedEpoch"]

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
