"""A directory that its user alone writes to: what others have planted is never followed; a cache of samples in one."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from dataclasses import dataclass
from typing import Final

from . import system
from .claim import lock
from .local import clear, length_of, make_directories
from .system import Descriptor

__all__ = [
    "SamplesFolder",
    "check_own_folder",
    "own_directory",
    "own_file",
    "secret_of",
]


# A directory that its user alone writes to, and its secret: what others have planted is never followed.


_SECRET: Final = "cache.key"
_SECRET_BYTES: Final = 32
_PATIENCE: Final = 5.0  # seconds that another process is waited for
_OTHERS: Final = 0o022  # may write: the group, and all


def own_directory(path: str) -> None:
    """Makes a directory if need be; PermissionError where it belongs to somebody else, or others may write to it."""
    is_new = not os.path.lexists(path)
    make_directories(path)
    if os.path.islink(path) and os.lstat(path).st_uid not in (os.geteuid(), 0):
        raise _refused(path, "it is a link of another user's")
    with Descriptor(path, os.O_RDONLY | os.O_DIRECTORY) as directory:
        found = os.fstat(directory.number)
        if found.st_uid != os.geteuid():
            raise _refused(path, "it belongs to another user")
        if not found.st_mode & _OTHERS:
            return
        if not is_new:
            raise _refused(path, f"others may write to it: chmod go-w {path}")
        system.os_calls.fchmod(directory.number, stat.S_IMODE(found.st_mode) & ~_OTHERS)


def check_own_folder(path: str) -> None:
    """PermissionError where a folder that was there before is a link, or belongs to whoever could not replace it.

    That is a user other than this one and the owner of the folder that it lies in, who can do anything there.
    """
    found = os.lstat(path)
    if not stat.S_ISDIR(found.st_mode):
        raise _refused(path, "it is a link, or no folder")
    above = os.stat(os.path.dirname(os.path.abspath(path)))
    if found.st_uid not in (os.geteuid(), above.st_uid):
        raise _refused(path, "it belongs to another user")


def own_file(path: str, flags: int) -> Descriptor:
    """Opens a file in a directory of one's own; PermissionError for a link, and all but a plain file of one name."""
    try:
        file = Descriptor(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _refused(path, "it is a link") from None
        raise
    found = os.fstat(file.number)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_uid != os.geteuid():
        file.close()
        raise _refused(path, "it is no plain file of yours, or has another name too")
    return file


def secret_of(folder: str) -> bytes:
    """The secret of a directory, made when it is first asked for: nobody else knows names that are made with it."""
    path = os.path.join(folder, _SECRET)
    with own_file(path, os.O_RDWR | os.O_CREAT) as file:
        found = os.pread(file.number, _SECRET_BYTES, 0)
        if len(found) < _SECRET_BYTES:  # new, or its maker has died
            _wait_for_lock(file, path)
            found = os.pread(file.number, _SECRET_BYTES, 0)
        if len(found) < _SECRET_BYTES:
            found = secrets.token_bytes(_SECRET_BYTES)
            if system.os_calls.pwrite(file.number, found, 0) < _SECRET_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return found


def _wait_for_lock(file: Descriptor, path: str) -> None:
    last = time.monotonic() + _PATIENCE
    while (held := lock(file, path)) is False and time.monotonic() < last:
        time.sleep(0.001)
    if not held:
        raise OSError(errno.ENOLCK, "another process holds it, or this file system has no locks", path)


def _refused(path: str, why: str) -> PermissionError:
    return PermissionError(errno.EACCES, f"{why}; choose a directory of your own (docs/storage.md)", path)


# The folder of a cache of samples: parts that are published one by one, oldest first, within a limit.


_PART: Final = re.compile(r"samples-[0-9]{20}-[0-9]{4}\.urec")
_REST: Final = re.compile(r"\.?samples-[0-9]{20}-[0-9]{4}\.urec(\.idx)?(\.new)?(\.tmp)?")


@dataclass(frozen=True)
class SamplesFolder:
    """A folder that takes ``limit`` bytes, in parts of about ``part_bytes`` each."""

    path: str
    limit: int
    part_bytes: int

    def names(self) -> list[str]:
        """The names of the parts that are complete, oldest first."""
        there = set(os.listdir(self.path))
        return sorted(name for name in there if _PART.fullmatch(name) and name + ".idx" in there)

    def used(self) -> int:
        """Bytes of all files, those of parts that are being written too."""
        return sum(length_of(os.path.join(self.path, name)) for name in os.listdir(self.path))

    def evict(self, room: int) -> list[str]:
        """Removes the oldest parts, but the last one, until there are ``room`` bytes; returns their names."""
        gone = []
        for name in self.names()[:-1]:
            if self.used() + room <= self.limit:
                break
            for file in (name, name + ".idx"):
                clear(os.path.join(self.path, file))
            gone.append(name)
        return gone

    def clear_unfinished(self) -> None:
        """Removes what producers that were killed have left."""
        kept = set(self.names())
        for name in os.listdir(self.path):
            if _REST.fullmatch(name) and name.removesuffix(".idx") not in kept:
                clear(os.path.join(self.path, name))
