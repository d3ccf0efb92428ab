"""Parts in an object store: the ranges that the reader wants, asked for ahead in few requests, many of them at once."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from ..core import PUT, Answer, FetchError, Locked, Put, Range, Ranges, result_of
from ..errors import MissingError, StaleError, UniRecordError
from ..format.layout import BLOCK_BYTES
from ..sizes import many
from ..storage.location import Location
from ..storage.schemes import location_of
from .part import NEW, PathsIn, find_files, no_part

__all__ = [
    "Beginnings",
    "Fetcher",
    "MOST_AHEAD_BYTES",
    "MOST_WINDOW_BYTES",
    "RUN_BYTES",
    "PrefetchedRuns",
    "FileRun",
    "Taken",
    "fetch_for",
    "join",
]


# Which ranges come by one request: neighbours, where what lies between comes sooner than another request.


RUN_BYTES: Final = 4 << 20  # that one request brings at most, unless a single range is longer
# Bytes between two ranges that are brought with them, since that costs less than a second request. Measured for each
# store, from its latency and bandwidth, they were more bytes by fewer requests, and no more rows a second.
_GAP_BYTES: Final = 32 << 10
# The same of an index, where all of these together are no more than a share of what comes: the rest of one of which
# some blocks have come takes about as many requests as the whole of it.
_HELD_BYTES: Final = 256 << 10
_HELD_SHARE: Final = 8

_I64 = npt.NDArray[np.int64]


@dataclass
class FileRun:
    """Bytes [start, stop) of one file of a part, that come by one request."""

    part: int
    in_index: bool
    start: int
    stop: int


def join(ranges: Ranges) -> tuple[list[FileRun], _I64, _I64]:
    """The runs that bring the ranges; the number of the first range of each, and of all; where each lies in its run."""
    if len(ranges) == 1:  # a single row: not worth a dozen calls of numpy
        one = ranges[0]
        return (
            [FileRun(one.part, one.in_index, one.offset, one.offset + one.size)],
            np.arange(2),
            np.zeros(1, np.int64),
        )
    stops = ranges.offsets + ranges.sizes
    first = np.array([*_firsts(ranges, stops), len(ranges)], np.int64)
    starts = ranges.offsets[first[:-1]]
    ends = np.maximum.reduceat(stops, first[:-1])
    files = (ranges.parts[first[:-1]].tolist(), ranges.in_index[first[:-1]].tolist())
    runs = [FileRun(*each) for each in zip(*files, starts.tolist(), ends.tolist(), strict=True)]
    return runs, first, ranges.offsets - np.repeat(starts, np.diff(first))


def _firsts(ranges: Ranges, stops: _I64) -> list[int]:
    files = 2 * ranges.parts + ranges.in_index
    is_next = files[1:] != files[:-1]
    gaps = ranges.offsets[1:] - stops[:-1]
    is_far = is_next | (gaps > _GAP_BYTES)
    if ranges.in_index[0]:  # of which blocks that are here lie between those that come
        held = ~is_next & (gaps <= _HELD_BYTES)
        if _HELD_SHARE * int(gaps[held].sum()) <= int(ranges.sizes.sum()):
            is_far &= ~held
    firsts: list[int] = []
    for begin, end in pairwise([0, *(np.flatnonzero(is_far) + 1).tolist(), len(ranges)]):
        start = begin
        while start < end:
            firsts.append(start)
            limit = int(ranges.offsets[start]) + RUN_BYTES
            if int(stops[end - 1]) <= limit:
                break
            start += max(1, int(np.searchsorted(stops[start:end], limit, side="right")))
    return firsts


# Runs of parts that are asked for before their rows are read, and kept until these have been taken.


MOST_WINDOW_BYTES: Final = (
    512 << 20
)  # of runs, whose memory is kept until the last row of them has been taken
MOST_AHEAD_BYTES: Final = (
    MOST_WINDOW_BYTES * 3 // 2
)  # that have been asked for, and not been taken: of two windows

_start = attrgetter("start")


@dataclass(eq=False)
class _Kept:
    """A run on its way, or here; ``left`` of ``wanted`` bytes are still to be taken of it.

    Rows that have a digest together are read with all that it covers, so more may be taken of a run than it has.
    """

    run: FileRun
    wanted: int
    wait: Callable[[], Any]
    turn: int
    left: int = 0
    answer: Answer | None = None

    @property
    def start(self) -> int:
        return self.run.start

    @property
    def bytes(self) -> int:
        """That it counts for."""
        return min(self.left, (self.run.stop - self.run.start) * self.left // max(1, self.wanted))

    def come(self) -> Answer | None:
        """Its bytes, when they are here; None when they could not be had."""
        if self.answer is None:
            found = self.wait()
            if not isinstance(found, BaseException) and len(found) == self.run.stop - self.run.start:
                self.answer = Answer(found)
        return self.answer


class _OfPart:
    """The runs of a part, sorted by where they start."""

    def __init__(self) -> None:
        self.runs: list[_Kept] = []
        self._starts: _I64 | None = None  # and stops, until runs come or go
        self._stops: _I64 = np.empty(0, np.int64)

    def add(self, runs: Sequence[_Kept]) -> None:
        """Runs more."""
        self.runs.extend(runs)
        self.runs.sort(key=_start)
        self._starts = None

    def remove(self, kept: _Kept) -> None:
        """One run less."""
        at = bisect_left(self.runs, kept.start, key=_start)
        while self.runs[at] is not kept:
            at += 1
        del self.runs[at]
        self._starts = None

    def find(self, offsets: _I64, stops: _I64) -> _I64:
        """The number of the run that each range is in, or -1."""
        if not self.runs:
            return np.full(len(offsets), -1)
        if self._starts is None:
            places = np.array([(kept.run.start, kept.run.stop) for kept in self.runs], np.int64)
            self._starts, self._stops = places[:, 0].copy(), places[:, 1].copy()
        at = np.searchsorted(self._starts, offsets, side="right") - 1
        at[stops > self._stops[at]] = -1  # of -1, which is before the first run, the last one's
        return at


class Taken:
    """What a call takes of runs, which it waits for; ``others`` are the numbers of ranges that are in none."""

    def __init__(self, others: _I64, kept: list[_Kept], puts: npt.NDArray[Any]) -> None:
        self.others = others
        self._kept, self._puts = kept, puts

    def put(self, put: Put) -> _I64:
        """Puts them, all those that could be had by one call; returns the numbers of the others."""
        answers = [kept.come() for kept in self._kept]
        here = [answer for answer in answers if answer is not None]
        puts, missing = self._puts, np.empty(0, np.int64)
        if len(here) < len(answers):
            has_come = np.array([answer is not None for answer in answers])
            number = np.cumsum(has_come) - 1  # of a answer, among those that are here
            could = has_come[puts["answer"]]
            missing, puts = puts["range"][~could], puts[could]
            puts["answer"] = number[puts["answer"]]
        put.many(here, puts)
        return missing


class PrefetchedRuns:
    """Runs of data files, at most `MOST_AHEAD_BYTES` of them: the oldest go first. Thread-safe.

    ``begin`` asks for runs and gives, for each, what waits for its bytes or an exception; None where it cannot.
    """

    def __init__(self, begin: Callable[[Sequence[FileRun]], list[Callable[[], Any]] | None]) -> None:
        self._begin = begin
        self._of_part: dict[int, _OfPart] = {}
        self._all: dict[int, _Kept] = {}  # by their identity, the oldest first
        self._bytes = self._turn = 0
        self._lock = Locked()

    @property
    def bytes(self) -> int:
        """That have been asked for, and not been taken yet."""
        return self._bytes

    def next_turn(self) -> int:
        """The number of what is added from now on, by which it can be dropped."""
        with self._lock.lock:
            self._turn += 1
            return self._turn

    def add(self, runs: Sequence[FileRun], wanted: Sequence[int]) -> None:
        """Asks for runs of one part, of which so many bytes will be taken."""
        kept, room = [], MOST_AHEAD_BYTES
        for run, size in zip(runs, wanted, strict=True):
            each = _Kept(run, size, _never, self._turn, size)
            if each.bytes > room:
                break
            kept.append(each)
            room -= each.bytes
        waits = self._begin(runs[: len(kept)]) if kept else None
        if waits is None:
            return
        for each, wait in zip(kept, waits, strict=True):
            each.wait = wait
        with self._lock.lock:
            self._bytes += MOST_AHEAD_BYTES - room
            while self._bytes > MOST_AHEAD_BYTES and self._all:
                self._drop(next(iter(self._all.values())))
            for each in kept:
                self._all[id(each)] = each
            self._of_part.setdefault(kept[0].run.part, _OfPart()).add(kept)

    def take(self, ranges: Ranges) -> Taken | None:
        """What gives those of the ranges that have been asked for; None when none has been."""
        if not self._all:
            return None
        with self._lock.lock:
            runs: list[_Kept] = []
            of = np.full(len(ranges), -1)  # the number of its run
            stops = ranges.offsets + ranges.sizes
            starts = np.flatnonzero(np.diff(ranges.parts, prepend=-1)).tolist()  # of parts: they are sorted
            for start, stop in pairwise([*starts, len(ranges)]):
                there = self._of_part.get(int(ranges.parts[start]))
                if there is not None:
                    at = there.find(ranges.offsets[start:stop], stops[start:stop])
                    at[at >= 0] += len(runs)
                    of[start:stop] = at
                    runs += there.runs
            is_here = of >= 0
            if not is_here.any():
                return None
            numbers = np.flatnonzero(is_here)
            found, answers = np.unique(of[numbers], return_inverse=True)
            sums = np.bincount(answers, ranges.sizes[numbers])
            kept = [runs[number] for number in found.tolist()]
            for each, taken in zip(kept, sums.tolist(), strict=True):
                self._take(each, int(taken))
        puts = np.empty(len(numbers), PUT)
        puts["range"], puts["answer"] = numbers, answers
        puts["place"] = ranges.offsets[numbers] - np.array([each.start for each in kept])[answers]
        return Taken(np.flatnonzero(~is_here), kept, puts)

    def _take(self, kept: _Kept, size: int) -> None:
        before = kept.bytes
        kept.left = max(0, kept.left - size)
        self._bytes -= before - kept.bytes
        if not kept.left:
            self._drop(kept)

    def drop(self, turn: int) -> None:
        """Drops what was added in this turn, and before."""
        with self._lock.lock:
            for kept in [kept for kept in self._all.values() if kept.turn <= turn]:
                self._drop(kept)

    def clear(self) -> None:
        """Keeps nothing any more; what is on its way is not waited for."""
        with self._lock.lock:
            self._of_part.clear()
            self._all.clear()
            self._bytes = 0

    def _drop(self, kept: _Kept) -> None:
        self._all.pop(id(kept), None)
        self._bytes -= kept.bytes
        self._of_part[kept.run.part].remove(kept)


def _never() -> Any:
    raise AssertionError("it has not been asked for")


# Parts in an object store: the ranges that the reader wants, fetched in few requests, many of them at once.


_HEAD_BYTES: Final = 16 << 10  # of a file, that opening it most likely needs
_END_BYTES: Final = 64  # of a data file: its end page
_JUST_CAME: Final = 256  # blocks of indexes, and heads, kept for threads that asked before they were there
_HEADS_KEPT: Final = 512  # of parts that are being opened, or have been lately: 40 MB of them

_Key = TypeVar("_Key", bound=Hashable)


Head = tuple[FileRun, Any]  # bytes of a file that opening its part needs


class Beginnings:
    """What was read of a part to find out what it is, for whoever opens it next; once, as it takes memory."""

    def __init__(self) -> None:
        self._kept: list[tuple[list[Head], Location]] = []

    def keep(self, heads: list[Head], location: Location) -> None:
        """Keeps them, and where they came from."""
        self._kept[:] = [(heads, location)]

    def take(self, location: Location) -> list[Head]:
        """Gives them away to what goes on reading from ``location``."""
        heads, before = self._kept.pop() if self._kept else ([], location)
        location.goes_on_from(before)
        return heads


def fetch_for(
    paths: Sequence[str],
    sizes: npt.NDArray[np.int64],
    beginnings: Sequence[Beginnings | None] = (),
    checked: bool = True,
    heads_only: bool = False,
) -> Fetcher | None:
    """What brings the bytes of the parts at these paths; ``sizes``: (parts, 2), of data file and index of each.

    Sizes that are not known, -1, are looked up, and what came with them is kept in ``beginnings``. None for files that
    the C core opens by itself. ``checked``: whether digests are compared; ``heads_only``: whether the parts are only
    described, and none of their rows is read. ValueError when there are both kinds.
    """
    # Files in one folder are all in its storage.
    each = [paths.folder] if isinstance(paths, PathsIn) else paths
    elsewhere = ["://" in path and not location_of(path).in_file_system for path in each]
    if not any(elsewhere):
        return None
    if not all(elsewhere):
        raise ValueError(
            f"{each[elsewhere.index(True)]} is in an object store, and {each[elsewhere.index(False)]} on a "
            "disk: parts that are read together lie in one kind of storage"
        )
    fetcher = Fetcher(location_of(each[0]), checked, heads_only, paths, sizes)
    unknown = set(np.flatnonzero((sizes < 0).any(axis=1)).tolist())
    for number, kept in enumerate(beginnings):
        if kept is not None and number not in unknown:
            fetcher.begin_with(number, kept)
    for number in sorted(unknown):
        fetcher.look_up(number, beginnings[number] if number < len(beginnings) else None)
    return fetcher


class Fetcher:
    """Brings ranges of parts, for all threads: what several of them want of heads and indexes at once comes once.

    ``sizes``: (parts, 2) int64, the bytes of data file and index of each of ``paths``.
    """

    def __init__(
        self,
        location: Location,
        checked: bool,
        heads_only: bool = False,
        paths: Sequence[str] = (),
        sizes: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._paths = paths
        self.sizes: npt.NDArray[np.int64] = np.empty((0, 2), np.int64) if sizes is None else sizes.copy()
        self._renamed: set[int] = set()  # parts whose index has its other name
        self._checked, self._heads_only = checked, heads_only
        self._location = location  # of whatever scheme: their paths say which
        self._begun: dict[int, list[Head]] = {}  # what has come of parts when they were looked up
        self._beginnings: dict[int, Beginnings] = {}
        self._heads: dict[int, list[Head]] = {}  # of parts that are being opened
        self._coming: dict[Hashable, Future[Any]] = {}  # and what has just come
        self._came: deque[Hashable] = deque()
        self._process = os.getpid()  # whose threads bring it
        self._lock = Locked()
        self.ahead: PrefetchedRuns = PrefetchedRuns(self._begin)

    def begin_with(self, number: int, beginnings: Beginnings) -> None:
        """Takes over what has come of a part already."""
        known = beginnings.take(self._location)
        self._begun[number] = [(replace(run, part=number), found) for run, found in known]

    def look_up(self, number: int, beginnings: Beginnings | None) -> None:
        """Finds out the sizes of a part, and keeps what comes with them."""
        path = self._paths[number]
        if beginnings is not None:
            self._beginnings[number] = beginnings
        found = self._location.read_heads([(path, _HEAD_BYTES), (path + ".idx", BLOCK_BYTES)])
        if isinstance(found[0], FileNotFoundError):
            raise no_part(path)
        if any(isinstance(each, BaseException) for each in found):  # one is not there, or is empty
            files = find_files(path)
            self.sizes[number] = files.data_bytes, files.index_bytes
            if files.index.endswith(NEW):
                self._renamed.add(number)
            return
        (data, data_bytes), (index, index_bytes) = found
        self.sizes[number] = data_bytes, index_bytes
        self._begun[number] = [
            (FileRun(number, False, 0, len(data)), data),
            (FileRun(number, True, 0, len(index)), index),
        ]

    def __call__(self, ranges: Sequence[Range], put: Put) -> None:
        asked = Ranges.of(ranges)
        in_index = bool(asked.in_index[0])
        if not asked.sizes.any():
            if in_index:
                self._forget(int(asked.parts[0]))
            else:
                self._heads_of(asked.parts.tolist())
        elif in_index:
            for number, found in enumerate(self._of_index(list(asked))):
                put(number, found)
        elif len(asked) == 1 and (found := self._from_head(asked[0])) is not None:
            put(0, found)
        else:
            self._put_rows(asked, put)

    def _put_rows(self, ranges: Ranges, put: Put) -> None:
        """Bytes of cells: those that were asked for ahead, and all others, asked for before that is waited for.

        What was asked for ahead and could not be had is asked for once more, and then said.
        """
        taken = self.ahead.take(ranges)
        if taken is None:
            self._put_joined(ranges, np.arange(len(ranges)), put)
            return
        self._put_joined(ranges, taken.others, put)
        self._put_joined(ranges, taken.put(put), put)

    def _put_joined(self, ranges: Ranges, numbers: _I64, put: Put) -> None:
        """Brings ranges, of which neighbours come by one request, and puts those of each as soon as they come."""
        if not len(numbers):
            return
        runs, first, places = join(ranges.only(numbers))
        puts = np.zeros(len(numbers), PUT)
        puts["range"], puts["place"] = numbers, places
        alone = numbers.tolist() if len(runs) == len(numbers) else []

        def take(run: int, found: Any) -> int:
            if len(found) == runs[run].stop - runs[run].start:
                if alone:
                    put(alone[run], found)
                else:
                    put.many([Answer(found)], puts[first[run] : first[run + 1]])
            return len(found)

        self._fetch_runs(runs, take)

    def read_ahead(self, ranges: Sequence[Range]) -> None:
        """Asks for ranges of one part, which will be read once each; neighbours by one request."""
        wanted = Ranges.of(ranges)
        runs, first, _ = join(wanted)
        self.ahead.add(runs, np.add.reduceat(wanted.sizes, first[:-1]).tolist())

    def _begin(self, runs: Sequence[FileRun]) -> list[Callable[[], Any]] | None:
        wanted = [(self._path(run), run.start, run.stop - run.start) for run in runs]
        return self._location.begin_ranges(wanted)

    def _forget(self, part: int) -> None:
        """Gives nothing again of what came of a part, which was wrong."""
        with self._lock.lock:
            self._heads.pop(part, None)
            self._begun.pop(part, None)
            for key in [key for key in self._came if key == part or getattr(key, "part", -1) == part]:
                self._came.remove(key)
                self._coming.pop(key, None)

    def _joined(self, ranges: Sequence[Range]) -> list[Any]:
        """The bytes of ranges, of which neighbours come by one request."""
        if not ranges:
            return []
        runs, first, places = join(Ranges.of(ranges))
        fetched = [memoryview(found) for found in self._fetch_runs(runs)]
        of = np.repeat(np.arange(len(runs)), np.diff(first))
        return [
            fetched[number][at : at + wanted.size]
            for number, at, wanted in zip(of.tolist(), places.tolist(), ranges, strict=True)
        ]

    def _of_index(self, ranges: Sequence[Range]) -> list[Any]:
        """Blocks of an index, which all threads want when an epoch begins."""
        found = [self._from_head(wanted) for wanted in ranges]
        units = [
            Range(wanted.part, True, at, min(BLOCK_BYTES, wanted.offset + wanted.size - at))
            for wanted, there in zip(ranges, found, strict=True)
            if there is None
            for at in range(wanted.offset, wanted.offset + wanted.size, BLOCK_BYTES)
        ]
        blocks = iter(self._once(units, self._joined) if units else ())
        for i, wanted in enumerate(ranges):
            if found[i] is None:
                parts = [next(blocks) for _ in range(-(-wanted.size // BLOCK_BYTES))]
                found[i] = parts[0] if len(parts) == 1 else b"".join(parts)
        return found

    def _once(self, keys: Sequence[_Key], fetch: Callable[[Sequence[_Key]], Sequence[Any]]) -> list[Any]:
        """What ``fetch`` gives for each key: for those that another thread is bringing, what it will give to that.

        Or has just given: that thread may not have come to say so in the C core.
        """
        with self._lock.lock:
            if self._process != os.getpid():  # what was coming then does not come here
                self._coming.clear()
                self._came.clear()
                self._process = os.getpid()
            mine = [key for key in keys if key not in self._coming]
            self._coming.update((key, Future()) for key in mine)
            futures = [self._coming[key] for key in keys]
        try:
            fetched = fetch(mine) if mine else ()
        except BaseException as error:
            # an interrupt is of this thread alone
            why = error if isinstance(error, Exception) else ConnectionError("the request was given up")
            with self._lock.lock:
                for key in mine:
                    self._coming.pop(key).set_exception(why)
            raise
        with self._lock.lock:
            for key, found in zip(mine, fetched, strict=True):
                self._coming[key].set_result(found)
            self._came.extend(mine)
            while len(self._came) > _JUST_CAME:
                del self._coming[self._came.popleft()]
        return [result_of(future) for future in futures]

    def _from_head(self, wanted: Range) -> Any | None:
        """Bytes that opening a part needs: all such bytes of both files come together when the first are asked for."""
        heads = self._heads.get(wanted.part)
        if heads is None:
            if wanted.offset or wanted.in_index:
                return None
            [heads] = self._heads_of([wanted.part])
        for run, found in heads:
            at = wanted.offset - run.start
            if run.in_index == wanted.in_index and at >= 0 and wanted.offset + wanted.size <= run.stop:
                return memoryview(found)[at : at + wanted.size]
        return None

    def _heads_of(self, parts: Sequence[int]) -> list[list[Head]]:
        """What opening these parts needs, all of it asked for at once."""
        known = {part: self._heads.get(part) for part in parts}
        missing = [part for part, heads in known.items() if heads is None]
        if missing:
            known.update(zip(missing, self._once(missing, self._fetch_heads), strict=True))
        return [known[part] or [] for part in parts]

    def _fetch_heads(self, parts: Sequence[int]) -> list[list[Head]]:
        heads, wanted = [self._begun.pop(part, []) for part in parts], []
        for part, had in zip(parts, heads, strict=True):
            missing: list[FileRun] = []
            for run in self._opening(part):
                if not any(_covers(each, run) for each in (*(each for each, _ in had), *missing)):
                    missing.append(run)
            wanted.append(missing)
        fetched = iter(self._fetch_runs([run for missing in wanted for run in missing]))
        heads = [
            [*had, *((run, next(fetched)) for run in missing)]
            for had, missing in zip(heads, wanted, strict=True)
        ]
        with self._lock.lock:
            for part, found in zip(parts, heads, strict=True):
                if part in self._beginnings:
                    self._beginnings[part].keep(found, self._location)
                while len(self._heads) >= _HEADS_KEPT:
                    del self._heads[next(iter(self._heads))]
                self._heads[part] = found
        return heads

    def heads(self, part: int) -> list[tuple[Range, Any]]:
        """What has come of a part to open it, as long as it is here."""
        return [
            (Range(part, run.in_index, run.start, run.stop - run.start, True), found)
            for run, found in self._heads.get(part, ())
        ]

    def _opening(self, part: int) -> list[FileRun]:
        """The bytes of both files of a part that opening it most likely needs."""
        data_bytes, index_bytes = self.sizes[part].tolist()
        heads = [
            FileRun(part, False, 0, min(_HEAD_BYTES, data_bytes)),
            FileRun(part, True, 0, min(BLOCK_BYTES, index_bytes)),
        ]
        if self._heads_only:
            return heads
        digests = index_bytes // BLOCK_BYTES * 8 + 8
        return [
            *heads,
            FileRun(part, False, max(0, data_bytes - _END_BYTES), data_bytes),
            FileRun(part, True, max(0, index_bytes - digests), index_bytes),
        ]

    def _fetch_runs(
        self, runs: Sequence[FileRun], take: Callable[[int, Any], int] | None = None
    ) -> list[Any]:
        """The bytes of each run; or how many came, where they are taken as they come. Raises where one is missing."""
        found = self._ask(runs, take)
        for i, run in enumerate(runs):
            if run.in_index and isinstance(found[i], FileNotFoundError) and self._rename(run.part):
                found = self._ask(runs, take)
        for run, fetched in zip(runs, found, strict=True):
            if isinstance(fetched, Exception):
                raise self._failure(run, fetched)
            if isinstance(fetched, BaseException):
                raise fetched
            came = len(fetched) if take is None else fetched
            if came != run.stop - run.start:
                # A store that looks at an object twice for one answer may find another one the second time.
                if self.has_changed(self._path(run)):
                    raise self._failure(run, StaleError(f"{self._path(run)}: it has been replaced"))
                why = f"{many(came, 'byte')} came for {run.stop - run.start}: the object has been cut"
                raise FetchError(run.part, run.in_index, why)
        return found

    def _ask(self, runs: Sequence[FileRun], take: Callable[[int, Any], int] | None) -> list[Any]:
        wanted = [(self._path(run), run.start, run.stop - run.start) for run in runs]
        if take is None:
            return self._location.read_ranges(wanted, checked=self._checked)
        return self._location.take_ranges(wanted, take, checked=self._checked)

    def has_changed(self, path: str) -> bool:
        """Whether one of the parts' files is another now than was read; False when that cannot be known."""
        try:
            return self._location.has_changed(path)
        except (OSError, UniRecordError):
            return False

    def _rename(self, part: int) -> bool:
        """Takes the index of a part to have its other name; False when it has been taken so already."""
        if part in self._renamed:
            return False
        self._renamed.add(part)
        return True

    def _path(self, run: FileRun) -> str:
        path = self._paths[run.part]
        if not run.in_index:
            return path
        return path + ".idx" + (NEW if run.part in self._renamed else "")

    def _failure(self, run: FileRun, error: Exception) -> FetchError:
        if isinstance(error, FileNotFoundError):
            return FetchError(run.part, run.in_index, "it is not there", MissingError(str(error)))
        if isinstance(error, StaleError):
            return FetchError(
                run.part, run.in_index, "the object has been replaced since it was opened", error
            )
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return FetchError(run.part, run.in_index, f"bytes {run.start} to {run.stop} could not be had: {why}")


def _covers(had: FileRun, run: FileRun) -> bool:
    return had.in_index == run.in_index and had.start <= run.start and run.stop <= had.stop
