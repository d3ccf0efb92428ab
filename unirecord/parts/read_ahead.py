"""Runs of parts that are asked for before their rows are read, and kept until these have been taken."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["MOST_AHEAD_BYTES", "MOST_WINDOW_BYTES", "ReadAhead", "Run"]

MOST_WINDOW_BYTES: Final = (
    512 << 20
)  # of runs, whose memory is kept until the last row of them has been taken
MOST_AHEAD_BYTES: Final = (
    MOST_WINDOW_BYTES * 3 // 2
)  # that have been asked for, and not been taken: of two windows

_BUFFER_BYTES: Final = 4 << 20  # of a run, but for those of longer rows

_LEAST_HELD: Final = 3 << 20  # bytes of a run that are worth one: of shorter runs there may be thousands
_BUFFERS: Final = 8  # of them are got from the system at once

_start = attrgetter("start")


@dataclass
class Run:
    """Bytes [start, stop) of one file of a part, that come by one request."""

    part: int
    in_index: bool
    start: int
    stop: int


@dataclass
class _Kept:
    """A run on its way, or here; ``left`` bytes of it are still to be taken, ``users`` wait for theirs."""

    run: Run
    left: int
    wait: Callable[[], Any]
    turn: int
    users: int = 0
    is_dropped: bool = False

    @property
    def start(self) -> int:
        return self.run.start


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
        self._of_part: dict[int, list[_Kept]] = {}  # sorted by where they start
        self._all: dict[int, _Kept] = {}  # by their identity, the oldest first
        self._bytes = self._turn = 0
        self._lock = threading.Lock()

    @property
    def bytes(self) -> int:
        """That have been asked for, and not been taken yet."""
        return self._bytes

    def next_turn(self) -> int:
        """The number of what is added from now on, by which it can be dropped."""
        with self._lock:
            self._turn += 1
            return self._turn

    def add(self, runs: Sequence[Run], wanted: Sequence[int]) -> None:
        """Asks for runs of one part, of which so many bytes will be taken."""
        room, fitting = MOST_AHEAD_BYTES, 0
        while fitting < len(runs) and wanted[fitting] <= room:
            room -= wanted[fitting]
            fitting += 1
        waits = self._begin(runs[:fitting], self._buffers.hold) if fitting else None
        if waits is None:
            return
        kept = [_Kept(*each, self._turn) for each in zip(runs, wanted, waits, strict=False)]
        with self._lock:
            self._bytes += MOST_AHEAD_BYTES - room
            while self._bytes > MOST_AHEAD_BYTES and self._all:
                self._drop(next(iter(self._all.values())))
            for each in kept:
                self._all[id(each)] = each
            there = self._of_part.setdefault(kept[0].run.part, [])
            there.extend(kept)
            there.sort(key=_start)

    def take(self, part: int, offset: int, size: int) -> Callable[[Callable[[Any], None]], bool] | None:
        """What waits for these bytes, and puts them; False when they could not be had. None for those not asked for."""
        if not self._all:
            return None
        with self._lock:
            there = self._of_part.get(part, [])
            at = bisect_right(there, offset, key=_start) - 1
            if at < 0 or offset + size > there[at].run.stop:
                return None
            kept = there[at]
            taken = min(size, kept.left)
            kept.left -= taken
            kept.users += 1
            self._bytes -= taken
            if kept.left <= 0:
                self._drop(kept)

        def wait(put: Callable[[Any], None]) -> bool:
            found, run = kept.wait(), kept.run
            is_good = not isinstance(found, BaseException) and len(found) == run.stop - run.start
            if is_good:
                put(found[offset - run.start : offset - run.start + size])
            with self._lock:
                kept.users -= 1
                if kept.is_dropped and not kept.users:
                    self._buffers.give_back(found)
            return is_good

        return wait

    def drop(self, turn: int) -> None:
        """Drops what was added in this turn, and before."""
        with self._lock:
            for kept in [kept for kept in self._all.values() if kept.turn <= turn]:
                self._drop(kept)

    def clear(self) -> None:
        """Keeps nothing any more; what is on its way is not waited for."""
        with self._lock:
            self._of_part.clear()
            self._all.clear()
            self._bytes = 0
            self._buffers.clear()

    def _drop(self, kept: _Kept) -> None:
        self._all.pop(id(kept), None)
        self._bytes -= kept.left
        there = self._of_part[kept.run.part]
        at = bisect_left(there, kept.start, key=_start)
        while there[at] is not kept:
            at += 1
        del there[at]
        kept.is_dropped = True
