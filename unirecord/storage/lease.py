"""Files that readers hold by a shared lock, so that who would remove what they lead to can see it."""

from __future__ import annotations

import os

from . import system
from .claim import lock
from .system import Descriptor

__all__ = ["Lease", "is_leased", "take_lease", "unless_leased"]

_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK


class Lease:
    """A shared lock on a file, until `close`, or until nobody has this object. A forked child has none."""

    def __init__(self, file: Descriptor) -> None:
        self._file = file

    def close(self) -> None:
        """Gives it up."""
        self._file.close()


def take_lease(paths: tuple[str, ...], mark: bytes) -> Lease | None:
    """A lease on the first of the files whose content has ``mark`` in it.

    None where there is none such, it may not be opened, somebody removes it now, or the file system has no locks.
    """
    for path in paths:
        try:
            file = Descriptor(path, os.O_RDONLY | _FLAGS)
        except OSError:
            continue
        try:
            if lock(file, path, shared=True) and mark in _content(file):
                taken, file = Lease(file), None  # type: ignore[assignment]
                return taken
        except OSError:
            continue
        finally:
            if file is not None:
                file.close()
    return None


def _content(file: Descriptor) -> bytes:
    size = os.fstat(file.number).st_size
    return os.pread(file.number, size, 0)


def is_leased(path: str) -> bool | None:
    """Whether somebody has a lease on a file; None when no lock could tell. False for one that is not there."""
    try:
        file = _opened(path)
    except FileNotFoundError:
        return False
    try:
        free = lock(file, path)
        return None if free is None else not free
    finally:
        file.close()


def unless_leased(path: str) -> bool | None:
    """Removes a file: False, and it stays, when somebody has a lease on it, None when no lock could tell.

    OSError says what else is in the way. One that is not there counts as removed.
    """
    try:
        file = _opened(path)
    except FileNotFoundError:
        return True
    try:
        free = lock(file, path)
        if free:
            system.os_calls.unlink(path)
        return free
    finally:
        file.close()


def _opened(path: str) -> Descriptor:
    try:
        return Descriptor(path, os.O_RDWR | _FLAGS)  # network file systems lock only what is open for writing
    except PermissionError:
        return Descriptor(path, os.O_RDONLY | _FLAGS)
