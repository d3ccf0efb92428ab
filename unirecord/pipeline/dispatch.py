"""Which task of a pass is done next, and where what it has made goes: all of it under the lock of the pass."""

from __future__ import annotations

from collections.abc import Sequence
from queue import SimpleQueue
from typing import Protocol

from .chunk import Chunk
from .lane import Lane, Task

__all__ = ["Dispatch", "Job", "Tuning"]

_LARGE_RESULT = 64 << 20

Job = tuple[Lane, Task]


class Tuning(Protocol):
    """What decides how many tasks of the stages without a number of their own run at a time (tuning.py)."""

    workers: int
    counts_reading: bool  # whether reading is one of so many tasks, too

    def waited(self, start: int, end: int) -> None:
        """Notes when the consumer waited."""

    def look(self, lanes: Sequence[Lane], now: int) -> None:
        """Looks at how it goes, after each task; ``now``: the clock."""


class Dispatch:
    """The lanes of a pass, within ``memory`` bytes of what is made ahead; results come to ``out``, and None at the end.

    ``taken`` and ``taken_bytes``, of results, are changed by the consumer alone, without the lock.
    """

    lanes: list[Lane]

    def __init__(self, lanes: Sequence[Lane], memory: int, tuner: Tuning) -> None:
        self.lanes, self._backwards = list(lanes), list(lanes)[::-1]
        self.out: SimpleQueue[list[Chunk] | None] = SimpleQueue()
        self.taken = self.taken_bytes = 0
        self._memory, self._tuner = memory, tuner
        self._shared_running = 0
        self._reserved = 0
        self._put = 0
        self._ended = False

    @property
    def lie_ready(self) -> int:
        """Results that have not been taken."""
        return self._put - self.taken

    def could_start(self) -> bool:
        """Whether there is another task that may begin."""
        return any(map(self._can_start, self.lanes))

    def _can_start(self, lane: Lane) -> bool:
        if lane.fixed:
            if lane.running >= lane.fixed:
                return False
        elif self._is_shared(lane) and self._shared_running >= self._tuner.workers:
            return False
        if not lane.has_input or lane.is_full(self._tuner.workers):
            return False
        if not lane.tasks:  # how large results are is not known before the first
            return lane.running < max(1, self._memory // _LARGE_RESULT)
        return self._fits(lane)

    def _is_shared(self, lane: Lane) -> bool:
        return not lane.fixed and (lane.upstream is not None or self._tuner.counts_reading)

    def _fits(self, lane: Lane) -> bool:
        """Whether another result has room; one may always be made where nothing behind it is under way."""
        if self._reserved - self.taken_bytes + lane.largest <= self._memory:
            return True
        behind = self.lanes[self.lanes.index(lane) :]
        return not any(other.inflight or other.ready or other.handed_out for other in behind)

    def find(self, now: int) -> Job | None:
        """The job that stands nearest to the consumer and can begin; ``now``: the clock, about."""
        if self._ended:
            return None
        self.lanes[-1].handed_out = self._put - self.taken
        found: Job | None = None
        again = True
        while again and found is None:
            again = False
            for lane in self._backwards:
                if not self._can_start(lane):
                    continue
                task = lane.form()
                if task is not None and task.results is None:
                    found = lane, task
                    self._begin(lane, task)
                    break
                again = again or task is not None  # nothing to do for it: whatever is behind it may go on
                self.settle()
        workers = self._tuner.workers
        for lane in self.lanes:
            lane.clock(workers, now)
        return found

    def _begin(self, lane: Lane, task: Task) -> None:
        task.shared = self._is_shared(lane)
        self._shared_running += task.shared
        task.bytes = lane.largest
        self._reserved += task.bytes

    def finish(self, job: Job, chunks: list[Chunk], ended: bool, wall: int, now: int) -> None:
        """Notes what a job has made, whether that was the last of the source, and the nanoseconds that it took."""
        lane, task = job
        self._shared_running -= task.shared
        lane.ended = lane.ended or ended
        size = chunks[0].size if len(chunks) == 1 else sum([chunk.size for chunk in chunks])
        self._reserved += size - task.bytes - task.chunk.size
        lane.finish(task, chunks, wall, size)
        self.settle()
        self._tuner.look(self.lanes, now)

    def settle(self) -> None:
        """Moves results on that are next in order."""
        for lane in self.lanes:
            lane.settle()
        last = self.lanes[-1]
        if last.ready:
            chunks = list(last.ready)
            last.ready.clear()
            last.handed_out += len(chunks)
            self._put += len(chunks)
            self.out.put(chunks)
        if last.ended and not self._ended:
            self._ended = True
            self.out.put(None)
