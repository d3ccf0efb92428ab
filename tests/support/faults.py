"""System calls of the store that fail on purpose, or end the writer as a killed process would."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from unirecord.storage import system as store

KILLED = 17


def killed(work: Callable[[], None], at: int, torn: bool) -> bool:
    """Does the work in a child process that ends before system call `at`, or in the middle of it when it is a write.

    False when the child needed fewer calls than that.
    """
    child = os.fork()
    if child == 0:
        try:
            with system(lambda number, name: _die(number, name, at, torn)):
                work()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def _die(number: int, name: str, at: int, torn: bool) -> str | None:
    if number == at and not (torn and name == "writev"):
        os._exit(KILLED)
    return "torn" if number == at else None


class Watched(store.OsCalls):
    """Counts calls; `fault(number, name)` may raise before a call, or return "torn" to die in the middle of a write."""

    def __init__(self, fault: Callable[[int, str], str | None]) -> None:
        self.fault = fault
        self.count = 0
        self.names: list[str] = []

    def call(self, name: str, *arguments: Any) -> Any:
        self.count += 1
        self.names.append(name)
        if self.fault(self.count, name) == "torn":
            whole = b"".join(bytes(part) for part in arguments[1])
            os.write(arguments[0], whole[: len(whole) // 2])
            os._exit(KILLED)
        if name == "fsync":
            return None  # whoever dies here is a process and not the machine
        return getattr(super(), name)(*arguments)

    open = lambda self, *a: self.call("open", *a)  # noqa: E731
    close = lambda self, *a: self.call("close", *a)  # noqa: E731
    writev = lambda self, *a: self.call("writev", *a)  # noqa: E731
    pwrite = lambda self, *a: self.call("pwrite", *a)  # noqa: E731
    ftruncate = lambda self, *a: self.call("ftruncate", *a)  # noqa: E731
    fchmod = lambda self, *a: self.call("fchmod", *a)  # noqa: E731
    fchown = lambda self, *a: self.call("fchown", *a)  # noqa: E731
    fsync = lambda self, *a: self.call("fsync", *a)  # noqa: E731
    flock = lambda self, *a: self.call("flock", *a)  # noqa: E731
    rename = lambda self, *a: self.call("rename", *a)  # noqa: E731
    link = lambda self, *a: self.call("link", *a)  # noqa: E731
    unlink = lambda self, *a: self.call("unlink", *a)  # noqa: E731
    mkdir = lambda self, *a: self.call("mkdir", *a)  # noqa: E731
    rmdir = lambda self, *a: self.call("rmdir", *a)  # noqa: E731


@contextmanager
def system(fault: Callable[[int, str], str | None]) -> Iterator[Watched]:
    """The store works through a Watched while this lasts."""
    before, watched = store.os_calls, Watched(fault)
    store.os_calls = watched
    try:
        yield watched
    finally:
        store.os_calls = before


class Unsynced(store.OsCalls):
    """Syncs nothing: for what surrounds the calls under test."""

    def fsync(self, fd: int) -> None:
        pass


@contextmanager
def unsynced() -> Iterator[None]:
    before, store.os_calls = store.os_calls, Unsynced()
    try:
        yield
    finally:
        store.os_calls = before


def count_only(number: int, name: str) -> None:
    return None


OF_FILES = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EMFILE, errno.ESTALE)


def fail_at(at: int, code: int = errno.EIO, forever: bool = False) -> Callable[[int, str], None]:
    """Call `at` fails (and all after it); closing always works, as it does in a kernel."""

    def fault(number: int, name: str) -> None:
        if name not in ("close", "flock") and (number == at or (forever and number > at)):
            raise OSError(code, os.strerror(code))

    return fault
