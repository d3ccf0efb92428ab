"""The only code that changes the file system: files written under temporary names, synced, renamed, locked, removed."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from ..core import append, start_writeback
from ..errors import BusyError

Buffer = bytes | bytearray | memoryview | Any  # anything with the buffer protocol, numpy arrays included

_WRITEBACK_BYTES = 8 << 20  # appended before the disk is set to work on them


class OsCalls:
    """Each system call that changes anything, as a method, so that tests can watch calls and make any of them fail."""

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, fd: int) -> None:
        os.close(fd)

    def writev(self, fd: int, buffers: Sequence[Buffer]) -> int:
        return append(fd, buffers)

    def pwrite(self, fd: int, buffer: Buffer, offset: int) -> int:
        return os.pwrite(fd, buffer, offset)

    def ftruncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        os.fsync(fd)

    def start_writeback(self, fd: int, offset: int, size: int) -> None:
        start_writeback(fd, offset, size)

    def flock(self, fd: int, operation: int) -> None:
        fcntl.flock(fd, operation)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)


os_calls = OsCalls()


def temporary_name(path: str) -> str:
    """The name under which the file at ``path`` is written until it is complete."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmp")


def _located(error: OSError, path: str) -> OSError:
    """The same error with the file's name in it, and for a full disk what it means."""
    text = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text += " (nothing has been published; make room and write again)"
    return type(error)(error.errno, text, path)


class StagedFile:
    """A file being written under its temporary name. Not published until ``publish``; ``discard`` leaves no trace.

    With ``lock`` the temporary file also says who may write: a live writer holds a lock on it, and what a dead one left
    behind is taken over. A file is synced once and whole: after a failed sync it can only be discarded.
    """

    def __init__(self, path: str, *, lock: bool = False) -> None:
        self.path = path
        self.temporary = temporary_name(path)
        self.size = 0
        self._begun = 0  # bytes that the disk has been set to work on
        self.published = False
        self._fd = _open_locked(self.temporary, path) if lock else _open_new(self.temporary)
        try:
            os_calls.ftruncate(self._fd, 0)
        except OSError as error:
            self.discard()
            raise _located(error, self.temporary) from error

    def fileno(self) -> int:
        return self._fd

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Writes all bytes of all buffers at the end of the file.

        The disk is set to work on those before, so that it has little left to do when the file is synced.
        """
        if self.size - self._begun >= _WRITEBACK_BYTES:
            os_calls.start_writeback(self._fd, self._begun, self.size - self._begun)
            self._begun = self.size
        left = sum(memoryview(buffer).nbytes for buffer in buffers)
        while left:
            written = self._call(os_calls.writev, buffers)
            self.size += written
            left -= written
            if left:  # a signal came, or the disk runs full
                buffers = _after(buffers, written)

    def write_at(self, offset: int, buffer: Buffer) -> None:
        """Writes all bytes of ``buffer`` at ``offset``, which may lie beyond the end; what is skipped reads as zero."""
        view = memoryview(buffer).cast("B")
        while len(view):
            written = self._call(os_calls.pwrite, view, offset)
            offset += written
            view = view[written:]
        self.size = max(self.size, offset)

    def truncate(self, size: int) -> None:
        """Sets the file's length."""
        try:
            os_calls.ftruncate(self._fd, size)
        except OSError as error:
            raise _located(error, self.temporary) from error
        self.size = size

    def _call(self, call: Callable[..., int], *arguments: Any) -> int:
        while True:
            try:
                written = call(self._fd, *arguments)
            except InterruptedError:
                continue
            except OSError as error:
                raise _located(error, self.temporary) from error
            if written <= 0:
                raise OSError(errno.EIO, "the file system accepted no bytes", self.temporary)
            return written

    def sync(self) -> None:
        """Makes the contents durable."""
        _sync(self._fd, self.temporary)

    def publish(self, path: str | None = None) -> None:
        """Gives the (synced) file its name, replacing what had it, and makes that durable. The lock stays held."""
        target = path or self.path
        try:
            os_calls.rename(self.temporary, target)
        except OSError as error:
            raise _located(error, target) from error
        self.published = True
        sync_directory(os.path.dirname(target))

    def close(self) -> None:
        """Gives the file up as it is, lock included."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os_calls.close(fd)

    def discard(self) -> None:
        """Removes the temporary file, if it is still there, and closes it; never raises."""
        if self._fd < 0:
            return
        with suppress(OSError):  # what cannot be removed now is removed by the next writer
            if _same_file(self._fd, self.temporary):
                os_calls.unlink(self.temporary)
        with suppress(OSError):
            self.close()


def _after(buffers: Sequence[Buffer], size: int) -> list[Buffer]:
    """What is left of the buffers after ``size`` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        rest.append(view[size:])
        size -= min(size, len(view))
    return rest


def _sync(fd: int, path: str) -> None:
    while True:
        try:
            os_calls.fsync(fd)
        except InterruptedError:
            continue
        except OSError as error:
            raise _located(error, path) from error
        return


def _same_file(fd: int, path: str) -> bool:
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(fd), there)


def _open_new(path: str) -> int:
    try:
        return os_calls.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        raise _located(error, path) from error


def _open_locked(path: str, target: str) -> int:
    while True:
        fd = _open_new(path)
        try:
            lock(fd, target)
            if _same_file(fd, path):
                return fd
        except BaseException:
            os_calls.close(fd)
            raise
        os_calls.close(
            fd
        )  # its writer has just published or removed it: the name stands for another file now


def lock(fd: int, target: str) -> None:
    """Takes the exclusive lock that a writer of ``target`` holds while it lives; BusyError when another one has it."""
    while True:
        try:
            os_calls.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except InterruptedError:
            continue
        except BlockingIOError:
            raise BusyError(
                f"{target}: another writer is writing it; wait until it has finished, or write to another path"
            ) from None
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS):
                raise _located(error, target) from error
            # a file system without locks: publishing is still atomic, only two writers at once are not kept apart
        return


class LockedFolder:
    """A directory held by one writer; the lock ends with the process at the latest."""

    def __init__(self, path: str) -> None:
        self.path = path
        while True:
            self._fd = os_calls.open(path, os.O_RDONLY | os.O_DIRECTORY)
            try:
                lock(self._fd, path)
                if os.path.samestat(os.fstat(self._fd), os.stat(path)):
                    return
            except BaseException:
                self.close()
                raise
            self.close()  # it was removed and made again in between

    def close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os_calls.close(fd)


def is_locked(path: str) -> bool:
    """Whether a live writer holds a lock on the file at ``path``."""
    try:
        fd = os_calls.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except FileNotFoundError:
        return False
    try:
        lock(fd, path)
    except BusyError:
        return True
    finally:
        os_calls.close(fd)
    return False


def move(source: str, target: str) -> None:
    """Renames ``source`` to ``target`` in the same directory, replacing it, and makes that durable."""
    try:
        os_calls.rename(source, target)
    except OSError as error:
        raise _located(error, target) from error
    sync_directory(os.path.dirname(target))


def sync_directory(path: str) -> None:
    """Makes the names in a directory durable."""
    fd = os_calls.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        _sync(fd, path or ".")
    finally:
        os_calls.close(fd)


def clear(path: str) -> None:
    """Removes a file that is of no use any more; what cannot be removed is left to the next writer."""
    with suppress(OSError):
        os_calls.unlink(path)


def probe(path: str) -> None:
    """Makes and removes a file, to know whether that is possible before any work is done."""
    fd = _open_new(path)
    os_calls.close(fd)
    clear(path)


def make_directory(path: str) -> bool:
    """Makes a directory whose parent exists; False when it was there."""
    while True:
        try:
            os_calls.mkdir(path)
            break
        except FileExistsError:
            if os.path.isdir(path):
                return False
            if os.path.lexists(path):
                raise
            # it has been removed in between
    sync_directory(os.path.dirname(os.path.abspath(path)))
    return True


def remove_directory(path: str) -> bool:
    """Removes an empty directory; False when it is not empty or not there."""
    try:
        os_calls.rmdir(path)
    except OSError:
        return False
    return True


def write_new(path: str, data: Buffer) -> None:
    """Writes a file that nobody depends on: not synced, and `FileExistsError` when there is anything of that name."""
    try:
        fd = os_calls.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
    except OSError as error:
        raise _located(error, path) from error
    try:
        view = memoryview(data).cast("B")
        while len(view):
            view = view[os_calls.writev(fd, [view]) :]
    except OSError as error:
        raise _located(error, path) from error
    finally:
        os_calls.close(fd)
