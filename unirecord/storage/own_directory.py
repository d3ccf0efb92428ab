"""A directory that its user alone writes to, and its secret: what others have planted is never followed."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from typing import Final

from . import system
from .claim import lock
from .local import make_directories
from .system import Descriptor

__all__ = ["check_own_folder", "own_directory", "own_file", "secret_of"]

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
    directory = Descriptor(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = os.fstat(directory.number)
        if found.st_uid != os.geteuid():
            raise _refused(path, "it belongs to another user")
        if not found.st_mode & _OTHERS:
            return
        if not is_new:
            raise _refused(path, f"others may write to it: chmod go-w {path}")
        system.os_calls.fchmod(directory.number, stat.S_IMODE(found.st_mode) & ~_OTHERS)
    finally:
        directory.close()


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
    file = own_file(path, os.O_RDWR | os.O_CREAT)
    try:
        found = os.pread(file.number, _SECRET_BYTES, 0)
        if len(found) < _SECRET_BYTES:  # new, or its maker has died
            _wait_for_lock(file, path)
            found = os.pread(file.number, _SECRET_BYTES, 0)
        if len(found) < _SECRET_BYTES:
            found = secrets.token_bytes(_SECRET_BYTES)
            if system.os_calls.pwrite(file.number, found, 0) < _SECRET_BYTES:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return found
    finally:
        file.close()


def _wait_for_lock(file: Descriptor, path: str) -> None:
    last = time.monotonic() + _PATIENCE
    while (held := lock(file, path)) is False and time.monotonic() < last:
        time.sleep(0.001)
    if not held:
        raise OSError(errno.ENOLCK, "another process holds it, or this file system has no locks", path)


def _refused(path: str, why: str) -> PermissionError:
    return PermissionError(errno.EACCES, f"{why}; choose a directory of your own (docs/storage.md)", path)
