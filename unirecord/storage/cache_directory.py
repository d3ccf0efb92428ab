"""A directory that caches share: one lock, one limit for all its files together, a shelf for each folder of objects."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import Locked
from ..errors import BusyError, MissingError, did_you_mean
from . import system
from .cache_shelf import KEPT, PINNED, RECORD, Shelf, ShelfError, head_of, paths_of, url_of
from .claim import lock
from .local import clear
from .own_directory import own_directory, own_file, secret_of
from .system import Descriptor

__all__ = ["PAGE", "CacheDirectory", "ShelfFacts", "is_cache", "on_disk"]

_LOCK: Final = "cache.lock"
_FILE: Final = re.compile(r"[0-9a-f]{16}\.(log|bytes)")
PAGE: Final = 4096  # what a file system gives out at once, mostly
_PATIENCE: Final = 5.0  # seconds that another process is waited for, which may have been stopped


def on_disk(size: int) -> int:
    """The bytes that a file of this length takes of a disk."""
    return -(-size // PAGE) * PAGE


def is_cache(path: str) -> bool:
    """Whether there is a cache at ``path``."""
    return os.path.isfile(os.path.join(path, _LOCK))


@dataclass(frozen=True)
class ShelfFacts:
    """A shelf as it is listed: bytes of its files, ranges that it holds; ``problem`` when it cannot be read."""

    url: str
    bytes: int
    ranges: int = 0
    objects: int = 0
    damaged: int = 0
    pinned: bool = False
    problem: str = ""


class CacheDirectory:
    """The directory of a cache; all its files together are never longer than ``limit``, in whole pages of a disk.

    Thread-safe. OSError when it cannot be made or locked; PermissionError when others may write to it.
    """

    path: str
    limit: int

    def __init__(self, path: str, limit: int) -> None:
        self.path, self.limit = os.path.abspath(path), limit
        own_directory(self.path)
        self._lock_path = os.path.join(self.path, _LOCK)
        self._file = own_file(self._lock_path, os.O_RDWR | os.O_CREAT)
        self.secret: bytes = secret_of(self.path)
        self._mine = Locked()

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Nobody else changes the cache meanwhile. False when another process does not let go of it."""
        with self._mine.lock:
            if not self._take():
                yield False
                return
            try:
                yield True
            finally:
                self._file.locked = False
                system.os_calls.flock(self._file.number, fcntl.LOCK_UN)

    def _take(self) -> bool:
        last, pause = time.monotonic() + _PATIENCE, 0.0005
        while (taken := lock(self._file, self._lock_path)) is False:
            if time.monotonic() > last:
                return False
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        if taken is None:
            raise OSError(errno.ENOLCK, "this file system has no locks, which a cache needs", self.path)
        return True

    def used(self) -> int:
        """Bytes of a disk that its files take, and the directory."""
        with os.scandir(self.path) as entries:
            sizes = [_size_of(entry) for entry in entries]
        return sum(sizes) + on_disk(os.stat(self.path).st_size)

    def room(self) -> int:
        """Bytes that may still be added."""
        return self.limit - self.used()

    def open_shelf(self, url: str) -> Shelf | None:
        """The shelf for a folder, made if need be; None without room. ShelfError when it is damaged and in use."""
        with self.locked() as held:
            if not held:
                return None
            try:
                return Shelf(self.path, url, self.secret)
            except FileNotFoundError:
                pass
            except (ShelfError, PermissionError):  # damaged, or a link that somebody has put there
                if not self._clear(*paths_of(self.path, url, self.secret)):
                    raise
            head = head_of(url)
            if self.room() < on_disk(len(head)):
                return None
            self._make(url, head)
            return Shelf(self.path, url, self.secret)

    def _make(self, url: str, head: bytes) -> None:
        journal, path = paths_of(self.path, url, self.secret)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        for name, content in ((path, b""), (journal, head)):
            clear(name)  # what a process that died has left, or somebody has put there
            file = own_file(name, flags)
            try:
                if content and system.os_calls.writev(file.number, [content]) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)
            finally:
                file.close()

    def journals(self) -> list[str]:
        """The paths of all journals."""
        names = sorted(
            name for name in os.listdir(self.path) if _FILE.fullmatch(name) and name.endswith(".log")
        )
        return [os.path.join(self.path, name) for name in names]

    def shelves(self) -> list[ShelfFacts]:
        """What is there, by URL."""
        return sorted(map(self._facts, self.journals()), key=lambda facts: facts.url)

    def _facts(self, journal: str) -> ShelfFacts:
        size = sum(_length(name) for name in (journal, journal[:-4] + ".bytes"))
        try:
            url = url_of(journal)
            shelf = Shelf(self.path, url, self.secret)
        except (OSError, ShelfError) as error:
            return ShelfFacts(os.path.basename(journal), size, problem=str(error))
        try:
            records = shelf.news()
            kept = int((records["kind"] == KEPT).sum())
            return ShelfFacts(
                url, size, kept - (len(records) - kept), len(shelf.objects), shelf.damaged, shelf.pinned
            )
        finally:
            shelf.close()

    def clear(self, urls: list[str], *, pinned: bool = False) -> list[str]:
        """Removes shelves: of these URLs, or of all that are not pinned; returns the URLs of those that are in use.

        MissingError when there is no shelf for a URL.
        """
        known = {url: journal for journal in self.journals() if (url := _url(journal))}
        for url in urls:
            if url not in known:
                raise self._nothing_of(url)
        busy = []
        with self.locked() as held:
            if not held:
                raise BusyError(f"{self.path}: another process holds this cache, and does not let go of it")
            for journal in self.journals():
                url = _url(journal)
                if urls and url not in urls:
                    continue
                if not urls and not pinned and url and self._facts(journal).pinned:
                    continue
                if not self._clear(journal, journal[:-4] + ".bytes"):
                    busy.append(url or journal)
            if not urls:
                self._clear_alone()
        return busy

    def _clear_alone(self) -> None:
        """Removes what a process that died has left: bytes without a journal."""
        names = set(os.listdir(self.path))
        for name in names:
            if _FILE.fullmatch(name) and name.endswith(".bytes") and name[:-6] + ".log" not in names:
                system.os_calls.unlink(os.path.join(self.path, name))

    def _clear(self, journal: str, path: str) -> bool:
        """Removes a shelf's files; False when a process has it open."""
        file: Descriptor | None = None
        with suppress(PermissionError):  # no file of a cache: it goes, and nothing is opened
            file = own_file(journal, os.O_RDWR)
        try:
            if file is not None and lock(file, journal) is False:
                return False
            for name in (journal, path):  # without its journal the rest is nothing
                with suppress(FileNotFoundError):
                    system.os_calls.unlink(name)
        finally:
            if file is not None:
                file.close()
        return True

    def _nothing_of(self, url: str) -> MissingError:
        known = [there for journal in self.journals() if (there := _url(journal))]
        return MissingError(f"{url}: the cache at {self.path} has nothing of it{did_you_mean(url, known)}")

    def pin(self, url: str, pinned: bool) -> None:
        """Says whether ``clear`` leaves the shelf of this URL alone. MissingError when there is none."""
        with self.locked() as held:
            if not held:
                raise BusyError(f"{self.path}: another process holds this cache, and does not let go of it")
            try:
                shelf = Shelf(self.path, url, self.secret)
            except FileNotFoundError:
                raise self._nothing_of(url) from None
            shelf.news()
            record = _pin_record(pinned)
            shelf.note(record)
            shelf.close()


def _pin_record(pinned: bool) -> npt.NDArray[Any]:
    record = np.zeros(1, RECORD)
    record["kind"], record["place"] = PINNED, int(pinned)
    return record


def _url(journal: str) -> str | None:
    try:
        return url_of(journal)
    except (OSError, ShelfError):
        return None


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return on_disk(entry.stat(follow_symlinks=False).st_size)
    except FileNotFoundError:
        return 0
