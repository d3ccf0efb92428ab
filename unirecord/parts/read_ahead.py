"""Runs of parts that are asked for before their rows are read, and kept until these have been taken."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import PUT, Answer, Locked, Put, Ranges
from .runs import Run

__all__ = ["MOST_AHEAD_BYTES", "MOST_WINDOW_BYTES", "ReadAhead", "Taken"]

MOST_WINDOW_BYTES: Final = (
    512 << 20
)  # of runs, whose memory is kept until the last row of them has been taken
MOST_AHEAD_BYTES: Final = (
    MOST_WINDOW_BYTES * 3 // 2
)  # that have been asked for, and not been taken: of two windows

_BUFFER_BYTES: Final = 4 << 20  # of a run, but for those of longer rows

_LEAST_HELD: Final = 3 << 20  # bytes of a run that are worth one: of shorter runs there may be thousands
_BUFFERS: Final = 8  # of them are got from the system at once

_I64 = npt.NDArray[np.int64]

_start = attrgetter("start")


@dataclass(eq=False)
class _Kept:
    """A run on its way, or here; ``left`` of ``wanted`` bytes are still to be taken of it, ``users`` wait for theirs.

    Rows that have a digest together are read with all that it covers, so more may be taken of a run than it has.
    """

    run: Run
    wanted: int
    wait: Callable[[], Any]
    turn: int
    left: int = 0
    users: int = 0
    is_dropped: bool = False
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


class _Buffers:
    """Memory of runs, used again: what a client gives is of memory that goes back to the system, and is got anew.

    That is the dearest part of a window: a page that is new costs more than the copy of its bytes.
    """

    def __init__(self) -> None:
        self._spare: list[npt.NDArray[np.uint8]] = []

    def hold(self, found: Any) -> memoryview:
        """What came, or a copy of it where it fills a buffer. Thread-safe: each change of the list is one step."""
        if not _LEAST_HELD <= len(found) <= _BUFFER_BYTES:
            return memoryview(found)
        try:
            whole = self._spare.pop()
        except IndexError:  # several at once: numpy asks for huge pages, which come at once as well
            whole, *more = np.empty((_BUFFERS, _BUFFER_BYTES), np.uint8)
            self._spare.extend(more)
        np.copyto(
            whole[: len(found)], np.frombuffer(found, np.uint8)
        )  # which lets other threads have Python's lock
        return memoryview(whole)[: len(found)]

    def give_back(self, held: Any) -> None:
        """Nobody reads it any more."""
        if isinstance(held, memoryview) and isinstance(held.obj, np.ndarray):
            self._spare.append(held.obj)

    def clear(self) -> None:
        """Keeps none."""
        self._spare.clear()


class Taken:
    """What a call takes of runs, which it waits for; ``others`` are the numbers of ranges that are in none."""

    def __init__(
        self, others: _I64, kept: list[_Kept], puts: npt.NDArray[Any], done: Callable[[list[_Kept]], None]
    ) -> None:
        self.others = others
        self._kept, self._puts, self._done = kept, puts, done

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
        self._done(self._kept)
        return missing


class ReadAhead:
    """Runs of data files, at most `MOST_AHEAD_BYTES` of them: the oldest go first. Thread-safe.

    ``begin`` asks for runs and gives, for each, what waits for what its second argument makes of its bytes, or an
    exception; None where it cannot.
    """

    def __init__(
        self, begin: Callable[[Sequence[Run], Callable[[Any], Any]], list[Callable[[], Any]] | None]
    ) -> None:
        self._begin = begin
        self._buffers = _Buffers()
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

    def add(self, runs: Sequence[Run], wanted: Sequence[int]) -> None:
        """Asks for runs of one part, of which so many bytes will be taken."""
        kept, room = [], MOST_AHEAD_BYTES
        for run, size in zip(runs, wanted, strict=True):
            each = _Kept(run, size, _never, self._turn, size)
            if each.bytes > room:
                break
            kept.append(each)
            room -= each.bytes
        waits = self._begin(runs[: len(kept)], self._buffers.hold) if kept else None
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
        return Taken(np.flatnonzero(~is_here), kept, puts, self._let_go)

    def _take(self, kept: _Kept, size: int) -> None:
        before = kept.bytes
        kept.left = max(0, kept.left - size)
        kept.users += 1
        self._bytes -= before - kept.bytes
        if not kept.left:
            self._drop(kept)

    def _let_go(self, taken: Sequence[_Kept]) -> None:
        with self._lock.lock:
            for kept in taken:
                kept.users -= 1
                if kept.is_dropped and not kept.users and kept.answer is not None:
                    self._buffers.give_back(kept.answer.data)
                    kept.answer = None

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
            self._buffers.clear()

    def _drop(self, kept: _Kept) -> None:
        self._all.pop(id(kept), None)
        self._bytes -= kept.bytes
        self._of_part[kept.run.part].remove(kept)
        kept.is_dropped = True


def _never() -> Any:
    raise AssertionError("it has not been asked for")
