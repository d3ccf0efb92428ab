"""The system calls that change the file system, each as a method, so that tests can watch calls and make them fail."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Self

from ..core import Locked, append, close_in_children, start_writeback

Buffer = bytes | bytearray | memoryview | Any  # anything with the buffer protocol, numpy arrays included


class OsCalls:
    """Each system call that changes anything."""

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    close = staticmethod(os.close)
    writev = staticmethod(append)
    write = staticmethod(os.write)
    pwrite = staticmethod(os.pwrite)
    ftruncate = staticmethod(os.ftruncate)
    fchmod = staticmethod(os.fchmod)
    fchown = staticmethod(os.fchown)
    fsync = staticmethod(os.fsync)
    sync = staticmethod(os.sync)
    start_writeback = staticmethod(start_writeback)
    flock = staticmethod(fcntl.flock)
    rename = staticmethod(os.rename)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)


os_calls: OsCalls = OsCalls()


class Descriptor(Locked):
    """An open file, closed at the latest when nobody holds this object. A forked child has none of its parent's.

    A lock belongs to the open file, which a child would share: it would stay until the last child has ended.
    """

    locked: bool = False
    _number = -1  # of whose file is closed, or not open yet
    # Asked of an object that may go so late that this module has lost its names.
    _process_now = staticmethod(os.getpid)

    def __init__(self, path: str, flags: int, mode: int = 0o666) -> None:
        super().__init__()
        self._process = self._process_now()
        self._number = os_calls.open(path, flags, mode)
        close_in_children(self._number, True)

    @property
    def number(self) -> int:
        """Its number; -1 when it is closed, as in every child."""
        return self._number if self._number < 0 or self._process == self._process_now() else -1

    def close(self) -> None:
        """Gives up lock and file."""
        with self.lock:  # closed twice, it may be somebody else's file by then
            if self.number < 0:
                return
            if self.locked:  # for all who share it: a child made by other means than os.fork may
                with suppress(OSError):
                    os_calls.flock(self.number, fcntl.LOCK_UN)
                self.locked = False
            number, self._number = self._number, -1
            close_in_children(number, False)
            os_calls.close(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._number < 0:  # it may go so late that this module has lost the names that `close` needs
            return
        try:
            with suppress(OSError):
                self.close()
        except (TypeError, AttributeError):  # the system closes it
            if not is_finalizing():
                raise
