"""Who may write, and who reads: locks on open files, which end with their process."""

from __future__ import annotations

import errno
import fcntl
import gc
import os
import threading
import traceback
from contextlib import suppress
from typing import Protocol
from weakref import ref

from ..core import WeakObjects
from ..errors import BusyError
from . import system
from .local import located, same_file
from .system import Descriptor

__all__ = [
    "HeldHereError",
    "Holder",
    "ClaimPlace",
    "check_unclaimed",
    "clear_dead",
    "holders",
    "is_leased",
    "lock",
    "take_lease",
    "unless_leased",
]


# Who may write: locks on open files, which end with their process, and what is known of the writers of this one.


_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.EBADF, errno.ENOSYS)


class HeldHereError(BusyError):
    """The thread that asks is the one that holds it, so that waiting would not end."""


class ClaimPlace:
    """Where a claim was made: process, thread, and the line of the caller outside this package."""

    process: int
    thread: int

    def __init__(self) -> None:
        self.process, self.thread = os.getpid(), threading.get_ident()
        calls = traceback.StackSummary.extract(traceback.walk_stack(None), lookup_lines=False)
        outside = next((call for call in calls if not call.filename.startswith(_PACKAGE)), calls[-1])
        self.line: str = f"{outside.filename}:{outside.lineno}"


class Holder(Protocol):
    """A writer's hold on a file, in this process."""

    place: ClaimPlace
    given_up: bool

    def holds(self, file: os.stat_result) -> bool:
        """Whether this is the file that it holds a lock on."""

    def discard(self) -> None:
        """Ends the hold."""


holders: WeakObjects[Holder] = WeakObjects()


def lock(file: Descriptor, path: str, *, shared: bool = False) -> bool | None:
    """Takes a lock at once: False when another one holds it, None when the file system has no locks."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    while True:
        try:
            system.os_calls.flock(file.number, kind | fcntl.LOCK_NB)
        except InterruptedError:
            continue
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NO_LOCKS:
                return None
            raise located(error, path) from error
        file.locked = True
        return True


def clear_dead(path: str, target: str) -> None:
    """Removes the temporary file at ``path`` if its writer is dead; BusyError when it lives, or may live."""
    with suppress(FileNotFoundError), _opened(path) as file:
        held = lock(file, path)
        if held is None:
            raise BusyError(
                f"{target}: another writer may be writing it: {path} is there, and this file system has no locks "
                "that would tell; if no writer is alive, remove that file"
            )
        there = os.fstat(file.number)
        if not held:
            _ask_holder(there, target)
        elif same_file(there, path):
            system.os_calls.unlink(path)


def check_unclaimed(path: str, target: str) -> None:
    """BusyError when a live writer, which has published the file at ``path``, has not finished yet."""
    while True:
        try:
            file = Descriptor(path, os.O_RDONLY | os.O_NONBLOCK)
        except FileNotFoundError:
            return
        with file:
            if lock(file, path, shared=True) is not False:
                return
            _ask_holder(os.fstat(file.number), target)


def _ask_holder(file: os.stat_result, target: str) -> None:
    """Returns when the file was held in this process by a writer that nobody has any more; else raises BusyError."""
    holder = next((holder for holder in holders if holder.holds(file)), None)
    if holder is None:
        raise BusyError(
            f"{target}: another writer is writing it; wait until it has finished, or write to another path"
        )
    place = holder.place
    if holder.given_up and place.thread == threading.get_ident():
        holder.discard()
        return
    left, holder = ref(holder), None
    gc.collect()
    if left() is not None:
        raise (HeldHereError if place.thread == threading.get_ident() else BusyError)(
            f"{target}: this process is writing it: another writer was made at {place.line}; "
            "close() or abort() that one first"
        )


# Files that readers hold by a shared lock, so that who would remove what they lead to can see it.


_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK


def take_lease(paths: tuple[str, ...], mark: bytes) -> Descriptor | None:
    """A lease on the first of the files whose content has ``mark`` in it: open, with a shared lock, until it is closed.

    A forked child has none. None where there is none such, it may not be opened, somebody removes it now, or the file
    system has no locks.
    """
    for path in paths:
        try:
            file = Descriptor(path, os.O_RDONLY | _FLAGS)
        except OSError:
            continue
        try:
            if lock(file, path, shared=True) and mark in _content(file):
                taken, file = file, None  # type: ignore[assignment]
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
    with suppress(FileNotFoundError), _opened(path) as file:
        free = lock(file, path)
        return None if free is None else not free
    return False


def unless_leased(path: str) -> bool | None:
    """Removes a file: False, and it stays, when somebody has a lease on it, None when no lock could tell.

    OSError says what else is in the way. One that is not there counts as removed.
    """
    with suppress(FileNotFoundError), _opened(path) as file:
        free = lock(file, path)
        if free:
            system.os_calls.unlink(path)
        return free
    return True


def _opened(path: str) -> Descriptor:
    try:
        return Descriptor(path, os.O_RDWR | _FLAGS)  # network file systems lock only what is open for writing
    except PermissionError:
        return Descriptor(path, os.O_RDONLY | _FLAGS)
