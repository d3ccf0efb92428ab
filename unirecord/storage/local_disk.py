"""Local file systems, and whatever is mounted as one: names looked up, regular files opened, ranges read whole."""

from __future__ import annotations

import os
import stat
from glob import glob, has_magic
from typing import Any, Final

from ..errors import FormatError
from .location import Entry, Location, OpenFile

__all__ = ["LocalDisk", "LocalFile", "forget_cached", "read_at"]

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class LocalDisk(Location):
    """The storage of paths without a scheme."""

    def absolute(self, path: str) -> str:
        """The path from the root on."""
        return os.path.abspath(path)

    def find(self, path: str) -> Entry | None:
        """What is at ``path``; ``version`` is its device, inode and time of change."""
        try:
            there = os.stat(path)
        except (OSError, ValueError):
            return None
        version = (there.st_dev, there.st_ino, there.st_mtime_ns)
        if stat.S_ISDIR(there.st_mode):
            return Entry("directory", there.st_size, version)
        return Entry("file" if stat.S_ISREG(there.st_mode) else "other", there.st_size, version)

    def is_taken(self, path: str) -> bool:
        """Whether there is anything of this name."""
        return os.path.lexists(path)

    def link(self, path: str) -> str | None:
        """Where a link leads."""
        try:
            return os.readlink(path)
        except (OSError, ValueError):
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a directory; the empty path is the working directory."""
        return os.listdir(folder or ".")

    def matching(self, pattern: str) -> list[str] | None:
        """The paths that match."""
        return sorted(glob(pattern)) if has_magic(pattern) and not os.path.lexists(pattern) else None

    def open(self, path: str) -> OpenFile:
        """Opens a regular file."""
        return LocalFile(path)


class LocalFile:
    """A regular file open for reading. FormatError says what else is there; OSError as of ``os.open``."""

    def __init__(self, path: str) -> None:
        self._fd = _open_regular(path)
        self.size: int = os.fstat(self._fd).st_size

    def __enter__(self) -> LocalFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the file up."""
        os.close(self._fd)

    def read_at(self, offset: int, size: int) -> bytes:
        """These bytes, or as many as there are before the end."""
        return read_at(self._fd, offset, size)

    def read_into(self, buffer: Any, offset: int) -> int:
        """Fills ``buffer``; returns how many bytes there were before the file's end."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            read = os.preadv(self._fd, [view[done:]], offset + done)
            if not read:
                break
            done += read
        return done


def _open_regular(path: str) -> int:
    """A descriptor of the file at ``path``; a named pipe without a writer is not waited for."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_NONBLOCK)
    except BlockingIOError:  # someone holds a lease on it, which only regular files have: wait for that
        fd = os.open(path, flags)
    try:
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind != stat.S_IFREG:
            raise FormatError(f"{path}: it is {_KINDS.get(kind, 'no file')}; expected a regular file")
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_at(fd: int, offset: int, size: int) -> bytes:
    """These bytes of an open file, or as many as there are before its end."""
    raw = os.pread(fd, size, offset)
    while len(raw) < size:
        more = os.pread(fd, size - len(raw), offset + len(raw))
        if not more:
            break
        raw += more
    return raw


def forget_cached(path: str) -> None:
    """Asks the kernel to drop a file that has been synced from its cache; pages that are mapped somewhere stay."""
    fd = _open_regular(path)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)
