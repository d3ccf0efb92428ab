"""The number of the current epoch, seen by every process that a dataset has been sent or forked to."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from multiprocessing import context
from typing import Any

_SIZE = 8


def _anonymous_file() -> int:
    """A file without a name: nothing is left behind however the processes end."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("unirecord-epoch", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class SharedEpoch:
    """An integer >= 0 in memory that forked and spawned worker processes share with their parent.

    ``DataLoader(persistent_workers=True)`` keeps the copies of a dataset that its workers got at the start;
    a plain attribute that the parent sets later would never reach them. Pickled on the way into a new
    process it stays shared; pickled for anything else (a file, another host) it becomes a copy of its value.
    """

    __slots__ = ("_fd", "_map", "_view")

    def __init__(self, value: int = 0, fd: int | None = None) -> None:
        if fd is None:
            fd = _anonymous_file()
            os.ftruncate(fd, _SIZE)
            fresh = True
        else:
            fresh = False
        self._fd = fd
        self._map = mmap.mmap(fd, _SIZE)
        self._view = memoryview(self._map).cast("Q")
        if fresh:
            self._view[0] = value

    def get(self) -> int:
        """The current epoch."""
        return self._view[0]

    def set(self, value: int) -> None:
        """Makes ``value`` the epoch of every process that shares this one."""
        self._view[0] = value

    def __del__(self) -> None:
        fd = getattr(self, "_fd", None)
        if fd is not None:
            with contextlib.suppress(OSError):  # interpreter shutdown may have closed it
                os.close(fd)

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is None:
            return SharedEpoch, (self.get(),)
        from multiprocessing.reduction import DupFd

        return _from_descriptor, (DupFd(self._fd),)


def _from_descriptor(duplicate: Any) -> SharedEpoch:
    return SharedEpoch(fd=duplicate.detach())
