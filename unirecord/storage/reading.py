"""Opens files for reading, regular ones only, and reads ranges of them whole."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..errors import FormatError

__all__ = ["open_regular", "opened", "read_at", "read_file", "read_into"]

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def open_regular(path: str) -> int:
    """A descriptor of the regular file at ``path``.

    FormatError says what else is there; a named pipe without a writer is not waited for. OSError as of ``os.open``.
    """
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


@contextmanager
def opened(path: str) -> Iterator[int]:
    """The descriptor of ``open_regular`` for as long as this lasts."""
    fd = open_regular(path)
    try:
        yield fd
    finally:
        os.close(fd)


def read_into(fd: int, buffer: Any, offset: int) -> int:
    """Fills ``buffer`` with the bytes from ``offset`` on; returns how many there were before the file's end."""
    view = memoryview(buffer).cast("B")
    done = 0
    while done < len(view):
        read = os.preadv(fd, [view[done:]], offset + done)
        if not read:
            break
        done += read
    return done


def read_at(fd: int, offset: int, size: int) -> bytes:
    """These bytes, or as many of them as there are; the caller has checked ``size`` against the file's length."""
    raw = os.pread(fd, size, offset)
    while len(raw) < size:
        more = os.pread(fd, size - len(raw), offset + len(raw))
        if not more:
            break
        raw += more
    return raw


def read_file(path: str, most: int) -> bytes:
    """The first ``most`` bytes of the regular file at ``path``."""
    with opened(path) as fd:
        return read_at(fd, 0, min(os.fstat(fd).st_size, most))
