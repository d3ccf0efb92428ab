"""A cache of objects on a disk: a directory that caches share, and in it a segment for each folder of objects."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import Locked, digest_ranges, xxh3_64
from ..errors import BusyError, MissingError, did_you_mean
from . import system
from .claim import lock
from .local import clear, length_of, read_at, write_all
from .own_directory import own_directory, own_file, secret_of
from .system import Buffer, Descriptor

__all__ = [
    "CacheDirectory",
    "CacheReport",
    "DROPPED",
    "KEPT",
    "OBJECT",
    "PAGE",
    "PINNED",
    "RECORD",
    "Records",
    "Segment",
    "SegmentError",
    "SegmentFacts",
    "check_segments",
    "is_cache",
    "on_disk",
    "paths_of",
    "url_of",
]


# One segment of a cache: bytes of the objects of one folder in a file that only grows, and a journal that
# says which.
#
# What the journal does not name is not there, and its records follow the bytes; so a process can end
# anywhere. Bytes stay
# where they are until the segment as a whole is cleared.


RECORD: Final = np.dtype(
    [
        ("kind", "<u4"),
        ("object", "<u4"),  # number of an object of this segment, drawn by lot
        ("offset", "<u8"),  # in the object; of OBJECT, its identity
        ("bytes", "<u8"),  # of the range; of OBJECT, the other half of its identity
        (
            "place",
            "<u8",
        ),  # of the range in the file of bytes; of OBJECT, the object's length; of PINNED, 1 or 0
        ("digest", "<u8"),  # XXH3-64 of the range with the segment's seed
        ("check", "<u8"),  # XXH3-64 of this record, with the seed and its number
    ]
)
OBJECT, KEPT, DROPPED, PINNED = 1, 2, 3, 4  # kinds of records

_MAGIC: Final = b"URCACHE1"
_HEAD: Final = struct.Struct("<8sIIQQ")  # magic, bytes of the head, bytes of the URL, seed, digest of it all
_STEP: Final = 0x9E3779B97F4A7C15  # between the seeds of records, as between those of a part's digests
_MOST_HEAD: Final = 1 << 16

Records = npt.NDArray[Any]  # of RECORD


class SegmentError(Exception):
    """The files of a segment are not those of one."""


def paths_of(folder: str, url: str, secret: bytes | None = None) -> tuple[str, str]:
    """The paths of a segment's journal and of its bytes: without the folder's secret the URL does not tell them."""
    key = secret_of(folder) if secret is None else secret
    digest = hashlib.blake2b(url.encode(), key=key, digest_size=8).hexdigest()
    name = os.path.join(folder, digest)
    return name + ".log", name + ".bytes"


def url_of(journal: str) -> str:
    """The URL that the segment with this journal is for; SegmentError when it is none."""
    with own_file(journal, os.O_RDONLY) as file:
        return _read_head(file)[0]


def _read_head(file: Descriptor) -> tuple[str, int, int]:
    """URL, seed, and bytes of the head of a journal."""
    head = os.pread(file.number, _MOST_HEAD, 0)
    if len(head) < _HEAD.size:
        raise SegmentError("its head is cut")
    magic, size, url_bytes, seed, digest = _HEAD.unpack_from(head)
    if magic != _MAGIC or not _HEAD.size + url_bytes <= size <= len(head):
        raise SegmentError("its head is another one")
    if xxh3_64(_HEAD.pack(magic, size, url_bytes, seed, 0) + head[_HEAD.size : size]) != digest:
        raise SegmentError("its head is damaged")
    return head[_HEAD.size : _HEAD.size + url_bytes].decode(errors="replace"), seed, size


def head_of(url: str) -> bytes:
    """The head of a new journal."""
    text = url.encode()
    size = -(-(_HEAD.size + len(text)) // 16) * 16
    seed = secrets.randbits(64)
    rest = text.ljust(size - _HEAD.size, b"\0")
    digest = xxh3_64(_HEAD.pack(_MAGIC, size, len(text), seed, 0) + rest)
    return _HEAD.pack(_MAGIC, size, len(text), seed, digest) + rest


class Segment:
    """An open segment, which nobody clears meanwhile. Whoever appends holds the cache's lock.

    FileNotFoundError when it is not there, SegmentError when its files are not those of a segment.
    """

    journal: str
    path: str
    seed: int

    def __init__(self, folder: str, url: str, secret: bytes) -> None:
        self.url = url
        self.journal, self.path = paths_of(folder, url, secret)
        self._log = own_file(self.journal, os.O_RDWR | os.O_APPEND)
        try:
            self._bytes = own_file(self.path, os.O_RDWR | os.O_APPEND)
            self.seed, self._head = self._look_at_head()
        except BaseException:
            self._log.close()  # or whoever clears the segment would find it in use
            raise
        self._read = 0  # records that have been read, damaged ones included
        self.damaged: int = 0
        self.objects: dict[tuple[int, int], int] = {}  # number of each identity; the latest counts
        self.pinned: bool = False

    def _look_at_head(self) -> tuple[int, int]:
        if lock(self._log, self.journal, shared=True) is not True:
            raise OSError(errno.ENOLCK, "it is being cleared, or this file system has no locks", self.journal)
        url, seed, size = _read_head(self._log)
        if url != self.url:
            raise SegmentError(f"it is for {url}")
        return seed, size

    @property
    def bytes_descriptor(self) -> int:
        """A descriptor of the file of bytes, which the caller closes."""
        return os.dup(self._bytes.number)

    def sizes(self) -> tuple[int, int]:
        """Bytes of both files: the one of bytes, and the journal."""
        return os.fstat(self._bytes.number).st_size, os.fstat(self._log.number).st_size

    @property
    def is_linked(self) -> bool:
        """Whether its files still have their names: what was removed by hand is not written to."""
        return os.fstat(self._bytes.number).st_nlink > 0 and os.fstat(self._log.number).st_nlink > 0

    def news(self) -> Records:
        """The records that have come since the last call, of ranges only; damaged ones are left out and counted."""
        whole = (os.fstat(self._log.number).st_size - self._head) // RECORD.itemsize
        count = max(whole - self._read, 0)
        if count == 0:
            return np.empty(0, RECORD)
        data = read_at(self._log.number, self._head + self._read * RECORD.itemsize, count * RECORD.itemsize)
        found = np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)
        right = self._checks(found, self._read) == found["check"]
        self._read += len(found)
        self.damaged += int(len(found) - right.sum())
        found = found[right]
        for record in found[found["kind"] == OBJECT]:
            self.objects[int(record["offset"]), int(record["bytes"])] = int(record["object"])
        for record in found[found["kind"] == PINNED]:
            self.pinned = bool(record["place"])
        ranges: Records = found[(found["kind"] == KEPT) | (found["kind"] == DROPPED)]
        return ranges

    def _checks(self, records: Records, first: int) -> npt.NDArray[np.uint64]:
        starts = np.arange(len(records), dtype=np.uint64) * np.uint64(RECORD.itemsize)
        lengths = np.full(len(records), RECORD.itemsize - 8, np.uint64)
        seed = (self.seed + first * _STEP) % 2**64
        return digest_ranges(np.ascontiguousarray(records).view(np.uint8), starts, lengths, seed, _STEP)

    def number_of(self, identity: tuple[int, int], size: int) -> int:
        """The number of an object, which gets one if it has none."""
        number = self.objects.get(identity)
        if number is None:
            number = secrets.randbits(32)  # none that a damaged record may have given out
            record = np.zeros(1, RECORD)
            record["kind"], record["object"] = OBJECT, number
            record["offset"], record["bytes"], record["place"] = identity[0], identity[1], size
            self.note(record)
            self.news()
        return number

    def append(self, pieces: Sequence[Buffer], records: Records) -> None:
        """Puts the bytes of KEPT records, which follow each other in ``pieces``, and then the records.

        Fills in places and digests. OSError when they do not fit; then nothing has changed.
        """
        place = os.fstat(self._bytes.number).st_size
        data = b"".join(pieces)
        ends = np.cumsum(records["bytes"], dtype=np.uint64)
        starts = ends - records["bytes"]
        records["place"] = starts + np.uint64(place)
        records["digest"] = digest_ranges(data, starts, records["bytes"], self.seed, 0)
        _append(self._bytes, data, place)
        try:
            self.note(records)
        except OSError:
            system.os_calls.ftruncate(self._bytes.number, place)  # nobody has been told of them
            raise

    def note(self, records: Records) -> None:
        """Appends records, all that was there having been read."""
        size = os.fstat(self._log.number).st_size
        whole = (size - self._head) // RECORD.itemsize
        end = self._head + whole * RECORD.itemsize
        if end != size:  # a record of a process that died while it wrote it
            system.os_calls.ftruncate(self._log.number, end)
        records["check"] = self._checks(records, whole)
        _append(self._log, records.view(np.uint8), end)

    def read(self, place: int, size: int) -> bytes:
        """Bytes of a range, or as many as there are."""
        return os.pread(self._bytes.number, size, place)

    def close(self) -> None:
        """Gives both files up."""
        self._log.close()
        self._bytes.close()


def _append(file: Descriptor, data: Buffer, end: int) -> None:
    """Appends to a file that is ``end`` bytes long; OSError when it does not fit, and then it is that long again."""
    try:
        write_all(file, data)
    except OSError:
        system.os_calls.ftruncate(file.number, end)
        raise


# A directory that caches share: one lock, one limit for all its files together, a segment for each folder of objects.


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
class SegmentFacts:
    """A segment as it is listed: bytes of its files, ranges that it holds; ``problem`` when it cannot be read."""

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

    def open_segment(self, url: str) -> Segment | None:
        """The segment for a folder, made if need be; None without room. SegmentError when it is damaged and in use."""
        with self.locked() as held:
            if not held:
                return None
            try:
                return Segment(self.path, url, self.secret)
            except FileNotFoundError:
                pass
            except (SegmentError, PermissionError):  # damaged, or a link that somebody has put there
                if not self._clear(*paths_of(self.path, url, self.secret)):
                    raise
            head = head_of(url)
            if self.room() < on_disk(len(head)):
                return None
            self._make(url, head)
            return Segment(self.path, url, self.secret)

    def _make(self, url: str, head: bytes) -> None:
        journal, path = paths_of(self.path, url, self.secret)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        for name, content in ((path, b""), (journal, head)):
            clear(name)  # what a process that died has left, or somebody has put there
            with own_file(name, flags) as file:
                if content and system.os_calls.writev(file.number, [content]) != len(content):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name)

    def journals(self) -> list[str]:
        """The paths of all journals."""
        names = sorted(
            name for name in os.listdir(self.path) if _FILE.fullmatch(name) and name.endswith(".log")
        )
        return [os.path.join(self.path, name) for name in names]

    def segments(self) -> list[SegmentFacts]:
        """What is there, by URL."""
        return sorted(map(self._facts, self.journals()), key=lambda facts: facts.url)

    def _facts(self, journal: str) -> SegmentFacts:
        size = sum(length_of(name) for name in (journal, journal[:-4] + ".bytes"))
        try:
            url = url_of(journal)
            segment = Segment(self.path, url, self.secret)
        except (OSError, SegmentError) as error:
            return SegmentFacts(os.path.basename(journal), size, problem=str(error))
        try:
            records = segment.news()
            kept = int((records["kind"] == KEPT).sum())
            return SegmentFacts(
                url, size, kept - (len(records) - kept), len(segment.objects), segment.damaged, segment.pinned
            )
        finally:
            segment.close()

    def clear(self, urls: list[str], *, pinned: bool = False) -> list[str]:
        """Removes segments: of these URLs, or of all that are not pinned; returns the URLs of those that are in use.

        MissingError when there is no segment for a URL.
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
        """Removes a segment's files; False when a process has it open."""
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
        """Says whether ``clear`` leaves the segment of this URL alone. MissingError when there is none."""
        with self.locked() as held:
            if not held:
                raise BusyError(f"{self.path}: another process holds this cache, and does not let go of it")
            try:
                segment = Segment(self.path, url, self.secret)
            except FileNotFoundError:
                raise self._nothing_of(url) from None
            segment.news()
            record = _pin_record(pinned)
            segment.note(record)
            segment.close()


def _pin_record(pinned: bool) -> npt.NDArray[Any]:
    record = np.zeros(1, RECORD)
    record["kind"], record["place"] = PINNED, int(pinned)
    return record


def _url(journal: str) -> str | None:
    try:
        return url_of(journal)
    except (OSError, SegmentError):
        return None


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return on_disk(entry.stat(follow_symlinks=False).st_size)
    except FileNotFoundError:
        return 0


# Reading a cache whole: every entry against its digest; what is damaged is dropped.


@dataclass
class CacheReport:
    """What was found: ranges that are right and their bytes, damaged ones, and segments that cannot be read."""

    ranges: int = 0
    bytes: int = 0
    damaged: int = 0
    problems: list[str] = field(default_factory=list)


def check_segments(directory: CacheDirectory, progress: Callable[[int], Any]) -> CacheReport:
    """Reads all segments; ``progress`` is told of bytes. Others may use the cache meanwhile."""
    report = CacheReport()
    for journal in directory.journals():
        try:
            segment = Segment(directory.path, url_of(journal), directory.secret)
        except (OSError, SegmentError) as error:
            report.problems.append(f"{journal}: {error}")
            continue
        try:
            _check(directory, segment, report, progress)
        finally:
            segment.close()
    return report


def _check(
    directory: CacheDirectory, segment: Segment, report: CacheReport, progress: Callable[[int], Any]
) -> None:
    news = segment.news()
    gone = set(news["place"][news["kind"] == DROPPED].tolist())
    wrong = []
    for number in np.flatnonzero(news["kind"] == KEPT).tolist():
        record = news[number]
        place, size = int(record["place"]), int(record["bytes"])
        if place in gone:
            continue
        data = segment.read(place, size)
        if len(data) == size and xxh3_64(data, segment.seed) == int(record["digest"]):
            report.ranges += 1
            report.bytes += size
            progress(report.bytes)
        else:
            wrong.append(number)
    report.damaged += len(wrong) + segment.damaged
    if wrong:
        _drop(directory, segment, news[wrong].copy())


def _drop(directory: CacheDirectory, segment: Segment, records: Records) -> None:
    """Writes down that these are gone, in what is left of the journal's last page: its limit is not known here.

    What is left over is found by whoever uses it.
    """
    records["kind"] = DROPPED
    with directory.locked() as held:
        if held:
            segment.news()
            size = segment.sizes()[1]
            segment.note(records[: (on_disk(size) - size) // RECORD.itemsize])
