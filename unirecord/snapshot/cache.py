"""A cache between the C core and an object store: what the store has sent is kept on a disk until there is no room."""

from __future__ import annotations

import errno
import logging
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ..core import CACHE_RANGE, CACHE_STRETCH, Answer, Fetch, Locked, NativeCache, Put, Range, xxh3_64
from ..errors import UniRecordError
from ..figures import Figures, MetricName
from ..sizes import parse_size
from ..storage.cache import DROPPED, KEPT, PAGE, RECORD, CacheDirectory, Segment, SegmentError, on_disk
from .dataset_path import PartRef

__all__ = [
    "CacheOptions",
    "CacheStats",
    "CachedFile",
    "CachedParts",
    "default_cache",
    "file_of",
    "sum_of",
    "use_cache_by_default",
]


# Where a cache of an object store lies, and how large it may be: for one dataset, or for all that are opened.


@dataclass(frozen=True)
class CacheOptions:
    """Where a cache lies, and how many bytes of the disk it may take."""

    path: str
    limit: int

    @classmethod
    def of(cls, path: str | os.PathLike[str] | None, limit: int | str | None) -> CacheOptions | None:
        """The options as they are given; None without a cache. ValueError when one is missing or wrong."""
        if path is None and limit is None:
            return None
        if path is None or limit is None:
            raise ValueError(
                "cache= and cache_bytes= belong together: a directory on a local disk, and the bytes that it may "
                'take, as cache="/scratch/cache", cache_bytes="200GB"'
            )
        return cls(os.path.abspath(os.fspath(path)), parse_size(limit))


_default: list[CacheOptions] = []


def default_cache() -> CacheOptions | None:
    """The cache of what is opened without one."""
    return _default[0] if _default else None


@contextmanager
def use_cache_by_default(options: CacheOptions | None) -> Iterator[None]:
    """What any thread opens of an object store within the block has this cache, if it has none of its own."""
    before = list(_default)
    _default[:] = [] if options is None else [options]
    try:
        yield
    finally:
        _default[:] = before


# A cache between the C core and an object store: what the store has brought is kept on a disk until there
# is no room.
#
# Each sample is read once an epoch, so nothing that is kept is worth less than what comes by: nothing is
# ever replaced.


_log = logging.getLogger(__name__)
_LOOK_AGAIN: Final = 256  # calls after which a full cache is looked at again
_LEAST_ROOM: Final = 8192  # bytes, two pages: with less a cache is full

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class CacheStats(Figures):
    """What a cache has saved since its dataset was opened, in this process.

    Attributes:
        hits: ranges (cells, digest units, blocks of an index) that came from the cache.
        hit_bytes: their bytes.
        fetched_bytes: bytes that were asked of the object store, without what lies between them.
        kept_bytes: of those, bytes that this process put into the cache.
        damaged: entries that were not as written, and have been dropped.
        full: whether the cache has no room for more.
        stopped: whether nothing more is kept because the disk refused it: it is full, or broken.
    """

    METRICS: ClassVar[Mapping[str, MetricName]] = {
        "hits": MetricName("cache_hits_total", "counter"),
        "hit_bytes": MetricName("cache_hit_bytes_total", "counter"),
        "fetched_bytes": MetricName("cache_fetched_bytes_total", "counter"),
        "kept_bytes": MetricName("cache_kept_bytes_total", "counter"),
        "damaged": MetricName("cache_damaged_total", "counter"),
        "full": MetricName("cache_full", "gauge"),
        "stopped": MetricName("cache_stopped", "gauge"),
    }

    hits: int = 0
    hit_bytes: int = 0
    fetched_bytes: int = 0
    kept_bytes: int = 0
    damaged: int = 0
    full: bool = False
    stopped: bool = False


def sum_of(stats: Sequence[CacheStats]) -> CacheStats:
    """The figures of several sets of files together."""
    names = ("hits", "hit_bytes", "fetched_bytes", "kept_bytes", "damaged")
    sums = {name: sum(getattr(each, name) for each in stats) for name in names}
    flags = {name: any(getattr(each, name) for each in stats) for name in ("full", "stopped")}
    return CacheStats(**sums, **flags)


@dataclass(frozen=True)
class CachedFile:
    """One of the two files of a part: folder and identity of the object."""

    url: str
    identity: tuple[int, int]
    size: int


def file_of(path: str, part: PartRef, size: int) -> CachedFile:
    """One of a part's files: known again by its name, the part's id and the digest of its content, and its length."""
    text = f"{posixpath.basename(path)}\0{part.id!r}\0{part.content!r}\0{size}".encode()
    return CachedFile(posixpath.dirname(path), (xxh3_64(text), xxh3_64(text, 1)), size)


class _Noting:
    """Puts ranges, and remembers which of them may be kept, and where they are."""

    def __init__(self, put: Put, ranges: Sequence[Range]) -> None:
        self._put, self._ranges = put, ranges
        self._noted: list[tuple[int, Any]] = []

    def __call__(self, number: int, found: Any) -> Any:
        there = self._put(number, found)
        self._noted.append((number, there))
        return there

    def many(self, answers: Sequence[Answer], puts: Array) -> None:
        """Several of them."""
        self._put.many(answers, puts)
        self._noted += [(number, self.there(number)) for number in puts["range"].tolist()]

    def there(self, number: int) -> Any:
        """The memory of one."""
        return self._put.there(number)

    def kept(self) -> list[tuple[Range, Any]]:
        """In the order of the ranges: they come in any, and neighbours are kept as one."""
        noted = [(self._ranges[number], there) for number, there in sorted(self._noted, key=itemgetter(0))]
        return [(wanted, there) for wanted, there in noted if wanted.keep]


# What has come of a part, by its number, when it was opened: the core checks it then, and forgets it if it is wrong.
Heads = Callable[[int], Sequence[tuple[Range, Any]]]


class CachedParts:
    """The parts of a set as a cache has them; ``fetch`` brings ranges of them, and keeps what it can. Thread-safe."""

    def __init__(
        self, options: CacheOptions, files: Sequence[CachedFile], fetch: Fetch, heads: Heads = lambda part: ()
    ) -> None:
        self.options = options
        self._files, self._fetch, self._heads = files, fetch, heads
        self._begun: set[int] = set()  # parts whose heads have come
        try:
            self._directory = CacheDirectory(options.path, options.limit)
            self._segments = self._open_segments()
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            text = f"{error.strerror}, for a cache; make room, or name a cache on another disk"
            raise type(error)(error.errno, text, options.path) from error
        self._numbers = {segment.url: i for i, segment in enumerate(self._segments)}
        self._of_object: list[dict[int, int]] = [{} for _ in self._segments]  # file of each object's number
        self.table: NativeCache = NativeCache(len(files), len(self._segments))
        for i, segment in enumerate(self._segments):
            self.table.set_segment(i, segment.bytes_descriptor, segment.seed)
        for number, file in enumerate(files):
            if file.url in self._numbers:
                self.table.set_file(number, self._numbers[file.url], file.size)
        self._by_identity = {(file.url, file.identity): number for number, file in enumerate(files)}
        self._lock = Locked()
        self._calls = self._fetched = self._kept = 0
        self._full, self._broken, self._closed = not self._segments, False, False
        with self._directory.locked() as held:  # or it would see what a full disk is about to undo
            for segment in self._segments if held else ():
                self._take_news(segment)

    def _open_segments(self) -> list[Segment]:
        segments = []
        for url in dict.fromkeys(file.url for file in self._files):
            try:
                segment = self._directory.open_segment(url)
            except SegmentError as error:
                _log.warning("%s: the cache of %s is not used: %s", self.options.path, url, error)
                continue
            if segment is not None:
                segments.append(segment)
        return segments

    def fetch(self, ranges: Sequence[Range], put: Put) -> None:
        """Brings ranges that the cache does not have, which are kept as far as there is room."""
        if ranges[0].in_index and not ranges[0].size:  # what came of the part was wrong
            with self._lock.lock:
                self._begun.discard(ranges[0].part)
            self._fetch(ranges, put)
            return
        noted = _Noting(put, ranges)
        if not any(wanted.size for wanted in ranges):  # parts that are going to be opened
            missing = [wanted for wanted in ranges if not self._has_heads(wanted.part)]
            if missing:
                self._fetch(missing, put)
        else:
            self._fetch(ranges, noted)
        brought = noted.kept()
        brought += self._new_heads(ranges)
        with self._lock.lock:
            self._fetched += sum(wanted.size for wanted, _ in brought)
            self._calls += 1
            tries = not self._closed and (self._calls % _LOOK_AGAIN == 0 or not (self._full or self._broken))
        whole = [(wanted, bytes_) for wanted, bytes_ in brought if len(bytes_) == wanted.size]
        if whole and tries:
            try:
                self._keep(whole)
            except OSError as error:
                self._give_up(error)

    def _has_heads(self, part: int) -> bool:
        """Whether the first and the last bytes of both files are there."""
        if self._files[2 * part].url not in self._numbers:
            return False
        places = [(2 * part + i, at) for i in (0, 1) for at in (0, self._files[2 * part + i].size - 1)]
        return all(at >= 0 and not self.table.gaps(number, at, 1) for number, at in places)

    def _new_heads(self, ranges: Sequence[Range]) -> list[tuple[Range, Any]]:
        """What these ranges, if they are for opening parts, have brought of them."""
        with self._lock.lock:
            parts = {wanted.part for wanted in ranges if not wanted.keep} - self._begun
        found = {part: heads for part in sorted(parts) if (heads := self._heads(part))}
        with self._lock.lock:
            self._begun |= found.keys()  # of others, another thread has them brought anew, and keeps them
        return [head for heads in found.values() for head in heads]

    def _give_up(self, error: OSError) -> None:
        if not self._broken:
            self._broken = True
            _log.warning(
                "%s: nothing more is kept in this cache: %s; reading goes on without",
                self.options.path,
                error,
            )

    def _keep(self, wanted: Sequence[tuple[Range, Any]]) -> None:
        with self._directory.locked() as held:
            if not held or self._closed:
                return
            for segment in self._segments:
                self._take_news(segment)
            self._note_dropped()
            room = self._directory.room() - PAGE  # which pins and notes of damage may need
            self._full = room < _LEAST_ROOM
            by_segment: dict[int, list[tuple[int, Range, Any]]] = {}
            for of, found in wanted:
                number = 2 * of.part + of.in_index
                segment_number = self._numbers.get(self._files[number].url)
                if segment_number is not None:
                    by_segment.setdefault(segment_number, []).append((number, of, found))
            for segment_number, ranges in by_segment.items():
                if room >= _LEAST_ROOM and self._segments[segment_number].is_linked:
                    room -= self._append(segment_number, ranges, room)

    def _append(self, segment_number: int, wanted: Sequence[tuple[int, Range, Any]], room: int) -> int:
        """Puts what is not there yet in a segment, as far as there is room; returns the bytes of disk that it takes."""
        ranges, pieces = self._joined(wanted)
        if not len(ranges):
            return 0
        segment = self._segments[segment_number]
        objects = {int(file) for file in np.unique(ranges["file"])}
        before = sum(map(on_disk, segment.sizes()))
        new = sum(self._files[file].identity not in segment.objects for file in objects)
        count = _fitting(ranges["bytes"], segment.sizes(), new, room)
        if count < len(ranges):
            self._full = True
            ranges, pieces = ranges[:count], pieces[:count]
        if count == 0:
            return 0
        for file in objects:
            number = segment.number_of(self._files[file].identity, self._files[file].size)
            self._of_object[segment_number][number] = file
        numbers = {file: number for number, file in self._of_object[segment_number].items()}
        records = np.zeros(count, RECORD)
        records["kind"] = KEPT
        records["object"] = [numbers[file] for file in ranges["file"].tolist()]
        records["offset"], records["bytes"] = ranges["offset"], ranges["bytes"]
        segment.append([piece for run in pieces for piece in run], records)
        self._take_news(segment)
        self._kept += int(ranges["bytes"].sum())
        return sum(map(on_disk, segment.sizes())) - before

    def _joined(self, wanted: Sequence[tuple[int, Range, Any]]) -> tuple[Array, list[list[memoryview]]]:
        """What is not there yet of ranges, neighbours as one, and the pieces of bytes of each."""
        found: list[tuple[int, int, int]] = []
        pieces: list[list[memoryview]] = []
        for number, of, data in wanted:
            view = memoryview(data).cast("B")
            for offset, size in self.table.gaps(number, of.offset, of.size):
                piece = view[offset - of.offset : offset - of.offset + size]
                last = found[-1] if found else (-1, 0, 0)
                if (
                    last[0] == number
                    and last[1] + last[2] == offset
                    and last[1] // CACHE_STRETCH == (offset + size - 1) // CACHE_STRETCH
                ):
                    found[-1] = (number, last[1], last[2] + size)
                    pieces[-1].append(piece)
                elif last[0] != number or offset >= last[1] + last[2]:  # the same may be wanted twice
                    found.append((number, offset, size))
                    pieces.append([piece])
        ranges = np.zeros(len(found), CACHE_RANGE)
        if found:
            ranges["file"], ranges["offset"], ranges["bytes"] = np.array(found, np.int64).T
        return ranges, pieces

    def _take_news(self, segment: Segment) -> None:
        """Takes in what processes have put in a segment, or dropped, since this was last asked."""
        with self._lock.lock:
            news = segment.news()
            segment_number = self._numbers[segment.url]
            known = self._of_object[segment_number]
            for identity, number in segment.objects.items():
                file = self._by_identity.get((segment.url, identity))
                if file is not None:
                    known[number] = file
            if not len(news):
                return
            objects, places = np.unique(news["object"], return_inverse=True)
            files = np.array([known.get(number, -1) for number in objects.tolist()], np.int64)[places]
            ranges = np.zeros(len(news), CACHE_RANGE)
            ranges["file"] = files
            for name in ("offset", "bytes", "place", "digest"):
                ranges[name] = news[name]
            dropped = (news["kind"] == DROPPED) & (files >= 0)
            kept = (news["kind"] == KEPT) & (files >= 0)
            # what was dropped may have been put back elsewhere since: a record takes out only what lies at its place
            gone = set(zip(files[dropped].tolist(), news["place"][dropped].tolist(), strict=True))
            if gone:
                self.table.remove(np.ascontiguousarray(ranges[dropped]))
                pairs = zip(files.tolist(), news["place"].tolist(), strict=True)
                kept &= np.fromiter((pair not in gone for pair in pairs), np.bool_, len(news))
            self.table.add(np.ascontiguousarray(ranges[kept]))

    def _note_dropped(self) -> None:
        """Writes down which entries were damaged, so that no process looks at them again."""
        while len(dropped := self.table.take_dropped()):
            for file in np.unique(dropped["file"]).tolist():
                segment_number = self._numbers[self._files[file].url]
                segment = self._segments[segment_number]
                number = segment.objects.get(self._files[file].identity)
                of_file = dropped[dropped["file"] == file]
                records = np.zeros(len(of_file), RECORD)
                if number is None or not self._fits(segment, len(records)):
                    continue
                records["kind"], records["object"] = DROPPED, number
                for name in ("offset", "bytes", "place", "digest"):
                    records[name] = of_file[name]
                segment.note(records)
                self._take_news(segment)

    def _fits(self, segment: Segment, records: int) -> bool:
        size = segment.sizes()[1]
        return on_disk(size + records * RECORD.itemsize) - on_disk(size) <= self._directory.room()

    def stats(self) -> CacheStats:
        """The figures so far."""
        hits, hit_bytes, damaged = self.table.counts()
        return CacheStats(
            hits,
            hit_bytes,
            self._fetched,
            self._kept,
            damaged + sum(segment.damaged for segment in self._segments),
            self._full,
            self._broken,
        )

    def close(self) -> None:
        """Keeps nothing any more, and lets others clear it; what was damaged is written down."""
        with self._lock.lock:
            closed, self._closed = self._closed, True
        if closed:
            return
        try:
            with self._directory.locked() as held:
                if held:
                    for segment in self._segments:
                        self._take_news(segment)
                    self._note_dropped()
                    for segment in self._segments:
                        segment.close()
        except (OSError, UniRecordError) as error:
            self._give_up(error if isinstance(error, OSError) else OSError(str(error)))


def _fitting(sizes: Array, before: tuple[int, int], new: int, room: int) -> int:
    """How many ranges of these sizes, and records of them and of new objects, fit."""
    numbers = np.arange(1, len(sizes) + 1, dtype=np.int64)
    data = before[0] + np.cumsum(sizes.astype(np.int64))
    log = before[1] + (numbers + new) * RECORD.itemsize
    pages = -(-data // PAGE) - (log // -PAGE)
    return int(np.searchsorted(pages * PAGE - sum(map(on_disk, before)), room, side="right"))
