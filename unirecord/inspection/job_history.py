"""From the passes of ranks to the history of a job: which launches there were, and what a resume has undone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ..dataset.receipts import Head
from ..order.coverage import Stretch, stretches
from .receipt_files import RankFile, RankPass

__all__ = ["JobPass", "Launch", "launches"]

Place = tuple[int, int]  # epoch, position


@dataclass(frozen=True)
class JobPass:
    """A pass over an epoch by those ranks of a launch that have begun it; ``over``: one has ended it, or gone on."""

    head: Head
    epoch: int
    start: int
    ranks: dict[int, RankPass]
    over: bool

    @property
    def front(self) -> int:
        """The position before which every rank has delivered what is its own."""
        if len(self.ranks) < self.head.ranks:
            return self.start
        return self.start + min(found.samples for found in self.ranks.values()) * self.head.ranks

    def delivered(self) -> Iterator[Stretch]:
        """The positions of all samples, also of those that came again after the end of the epoch."""
        order = sorted(self.ranks)
        ends = [self.ranks[rank].samples for rank in order]
        return stretches(self.start, self.head.ranks, np.array(order, np.int64), [0] * len(order), ends)

    def left_out_by_rule(self) -> Iterator[tuple[str, Stretch]]:
        """Which option leaves positions out of a pass that comes to its end, and which."""
        start, ranks, rows = self.start, self.head.ranks, self.head.samples
        size = self.head.batch_size if self.head.drop_last else 1
        most, least = (self.head.sharding(start, rank).length for rank in (0, ranks - 1))
        whole, whole_of_last = most // size * size, least // size * size
        shared = min(start + most * ranks, rows)
        if whole == whole_of_last:
            if start + whole * ranks < shared:
                yield "drop_last", Stretch(start + whole * ranks, shared, start, ranks)
        else:  # "uneven": the first ranks have one sample more, and with it a whole batch
            fewer = np.arange((rows - start) % ranks, ranks, dtype=np.int64)
            begin, end = start + whole_of_last * ranks, start + least * ranks
            yield "drop_last", Stretch(begin, end, start, ranks, fewer)
        if start <= shared < rows:
            yield "remainder", Stretch(shared, rows, start, ranks)


@dataclass
class Session:
    """Passes of one rank on end, of which only the first may begin where a loaded state says."""

    head: Head
    passes: list[RankPass]

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for the ranks of one launch."""
        first, head = self.passes[0], self.head
        return (first.epoch, first.start, first.from_state, head.ranks, head.batch_size, head.drop_last)


@dataclass
class Launch:
    """Ranks that have begun at the same place together; ``limit`` is where a later resume has cut it off."""

    head: Head
    place: Place
    from_state: bool
    time_ns: int
    sessions: dict[int, Session]
    limit: Place | None = None
    undone: int = 0  # samples that had been delivered behind the limit

    def passes(self) -> Iterator[JobPass]:
        """Its passes, epoch by epoch as they came."""
        grouped: dict[tuple[int, int, int], dict[int, RankPass]] = {}
        over: set[tuple[int, int, int]] = set()
        for rank, session in self.sessions.items():
            seen: dict[Place, int] = defaultdict(int)
            for number, found in enumerate(session.passes):
                place = (found.epoch, found.start)
                key = (*place, seen[place])
                seen[place] += 1
                grouped.setdefault(key, {})[rank] = found
                if found.ended or number + 1 < len(session.passes):
                    over.add(key)
        for key, ranks in grouped.items():
            yield JobPass(self.head, key[0], key[1], ranks, key in over)

    def cut(self, place: Place) -> None:
        """Notes that later launches have begun at a place: all from there on is undone."""
        self.limit = place
        for found in self.passes():
            stop = place[1] if found.epoch == place[0] else 0
            if found.epoch >= place[0]:
                behind = (stretch.clipped(stop, 1 << 64) for stretch in found.delivered())
                self.undone += sum(stretch.count for stretch in behind if stretch is not None)

    def stands(self, epoch: int) -> int | None:
        """The position of an epoch before which what it has delivered stands; None: all of it does."""
        if self.limit is None or epoch < self.limit[0]:
            return None
        return self.limit[1] if epoch == self.limit[0] else 0


def launches(files: Iterable[RankFile], restarts: bool) -> list[Launch]:
    """The launches of a job in the order of time, each cut where a later one has begun.

    A launch that begins where a loaded state says undoes what has been delivered from there on; with ``restarts`` every
    later launch does. The ranks of one begin at the same place; where ranks have begun there several times, the last
    time counts for each if that undoes the others, and the first, the second, … belong together if it does not.
    """
    begun: dict[tuple[object, ...], dict[int, list[Session]]] = defaultdict(lambda: defaultdict(list))
    for file in files:
        for session in _sessions(file):
            begun[session.key][file.head.rank].append(session)
    found: list[Launch] = []
    for by_rank in begun.values():
        for sessions in by_rank.values():
            sessions.sort(key=lambda session: session.passes[0].time_ns)
        found += _together(by_rank)
    found.sort(key=lambda launch: launch.time_ns)
    limit: Place | None = None
    for launch in reversed(found):
        if limit is not None:
            launch.cut(limit)
        if launch.from_state or restarts:
            limit = launch.place if limit is None else min(limit, launch.place)
    return found


def _sessions(file: RankFile) -> Iterator[Session]:
    current: list[RankPass] = []
    for found in file.passes:
        if found.from_state and current:
            yield Session(file.head, current)
            current = []
        current.append(found)
    if current:
        yield Session(file.head, current)


def _together(by_rank: dict[int, list[Session]]) -> Iterator[Launch]:
    """Launches that begin at one place: the last ones of all ranks, those before them, and so on."""
    for back in range(max(map(len, by_rank.values())), 0, -1):
        sessions = {rank: found[-back] for rank, found in by_rank.items() if len(found) >= back}
        firsts = [session.passes[0] for session in sessions.values()]
        head = next(iter(sessions.values())).head
        place = (firsts[0].epoch, firsts[0].start)
        yield Launch(head, place, firsts[0].from_state, max(f.time_ns for f in firsts), sessions)
