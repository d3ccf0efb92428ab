"""The system calls that change the file system, each as a method, so that tests can watch calls and make them fail."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..core import Locked, append, close_in_children, start_writeback

Buffer = bytes | bytearray | memoryview | Any  # anything with the buffer protocol, numpy arrays included


class OsCalls:
    """Each system call that changes anything."""

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:
        return append(fd, buffers)

    def write(self, fd: int, buffer: Buffer) -> int:
        return os.write(fd, buffer)

    def pwrite(self, fd: int, buffer: Buffer, offset: int) -> int:
        return os.pwrite(fd, buffer, offset)

    def ftruncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fchmod(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def fchown(self, fd: int, user: int, group: int) -> None:
        os.fchown(fd, user, group)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def sync(self) -> None:
        os.sync()

    def start_writeback(self, fd: int, offset: int, size: int) -> None:
        start_writeback(fd, offset, size)

    def flock(self, fd: int, operation: int) -> None:
        fcntl.flock(fd, operation)

    def rename(self, old: str, target: str) -> None:
        os.rename(old, target)

    def link(self, there: str, name: str) -> None:
        os.link(there, name)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)


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

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._number < 0:  # it may go so late that this module has lost the names that `close` needs
            return
        try:
            with suppress(OSError):
                self.close()
        except (TypeError, AttributeError):  # the system closes it
            if not is_finalizing():
                raise
