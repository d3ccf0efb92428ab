"""One pass of a pipeline: threads that work on whichever stage stands nearest to the consumer and can go on."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from time import perf_counter_ns, thread_time_ns
from typing import ClassVar, Protocol

from .chunk import Chunk
from .crew import Crew, Worker
from .gathering import make_ahead
from .lane import Lane, Task
from .memory_size import size_of
from .straight import Straight

__all__ = ["Running"]

_SIGNAL_S = 0.1  # how long a signal may be waited for
_SHORT_NS = 30_000  # what it takes to wake a thread, about
_MOST_READ = 16  # chunks read by one task, if they come fast
_READ_BYTES = 1 << 20
_READ_NS = 300_000
_LARGE_RESULT = 64 << 20
_HANDED_OVER_NS = 50_000  # what it costs that another thread makes a result, about
_MOST_SHORTER = 8  # of those that do not, which are remembered: what a function takes may change
_MOST_LONGER = 2  # tasks that take longer than that, beyond those that do not: one may be held up by others


class Tuning(Protocol):
    """What decides how many tasks of the stages without a number of their own run at a time (tuning.py)."""

    workers: int

    def waited(self, start: int, end: int) -> None:
        """Notes when the consumer waited."""

    def look(self, lanes: Sequence[Lane], now: int) -> None:
        """Looks at how it goes, after each task; ``now``: the clock."""


class Running:
    """The lanes of a pass, the first of which takes from ``source``; ``close`` ends its threads.

    Nobody waits for a lock while it is held for long: what needs time is done between ``_next_job`` and ``_finish``.
    The consumer takes no lock while there are threads, so that an interrupt may come anywhere in it. Where there are
    none to be had, or ``threads`` is 0, it does everything itself, when it is needed.
    """

    _open: ClassVar[set[Running]] = set()

    def __init__(
        self,
        source: Iterator[Chunk],
        lanes: Sequence[Lane],
        memory: int,
        tuner: Tuning,
        threads: int | None = None,
    ) -> None:
        """``memory``: bytes of what is made ahead. ``threads``: at most so many; None: as many as lanes need."""
        self._source = source
        self._held = [source]  # until it has been closed
        self.lanes, self._backwards = list(lanes), list(lanes)[::-1]
        self._memory, self._tuner, self._most = memory, tuner, threads
        self._lock = threading.Lock()
        self._out: SimpleQueue[list[Chunk] | None] = SimpleQueue()
        self._got: deque[Chunk] = deque()
        self._crew = Crew(self._work, self._most_threads)
        self._shared_running = 0
        self._reserved = 0
        self._taken = self._taken_bytes = 0  # changed by the consumer alone
        self._put = 0
        self._ended = False
        self._closed = False
        self._longer = 0
        # What is cheap is done where it is needed, as long as nobody has asked for a thread, or for results ahead.
        asked = any(
            lane.fixed or lane.processes or lane.stage.prefetch or lane.stage.under_way for lane in self.lanes
        )
        self._alone = threads == 0
        self._here = self._alone or not asked
        self._straight = Straight(source, self.lanes)
        self._process = os.getpid()

    # ---- the consumer's side -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Chunk]:
        """The results in order; the last may carry an error."""
        self._open.add(self)
        try:
            for lane in self.lanes:
                lane.start()  # processes, while there are no threads of this pass
            if not self._here:
                self._begin_threads()
            while True:
                if self._here and not self._got:
                    yield from self._gone_straight()
                chunk = self._next()
                if chunk is None:
                    return
                yield chunk
                del chunk
        finally:
            self.close()

    def _check(self) -> None:
        if self._process != os.getpid():
            raise ValueError("an iterator made before fork() cannot be used in the child: make a new one")
        if self._closed:
            raise ValueError("this iteration has been ended, as the interpreter ends")

    def _gone_straight(self) -> Iterator[Chunk]:
        """Results that are made without tasks and queues, as long as that may be."""
        straight, waited = self._straight, self._tuner.waited
        while straight.is_open():
            self._check()
            start = perf_counter_ns()
            chunk = straight.next(start)
            waited(start, perf_counter_ns())
            if chunk is None:
                break
            if chunk.error is not None:
                self.lanes[-1].ended = True
            yield chunk
            del chunk
        self._settle()

    def _next(self) -> Chunk | None:
        self._check()
        if not self._got:
            start = perf_counter_ns()
            if self._here:
                self._work_here()
            chunks = self._received()
            self._tuner.waited(start, perf_counter_ns())
            if chunks is None:
                return None
            self._got.extend(chunks)
        chunk = self._got.popleft()
        self._taken += 1
        self._taken_bytes += chunk.size
        window = self.lanes[-1].window(self._tuner.workers)
        if 2 * (self._put - self._taken) <= window:  # not for each result: threads take turns seldom
            self._crew.wake_one()
        return chunk

    def _received(self) -> list[Chunk] | None:
        """The next results. A signal that comes just before the wait begins does not end it: it is seen soon after."""
        while True:
            with suppress(Empty):
                return self._out.get(timeout=_SIGNAL_S)

    def _begin_threads(self) -> None:
        self._here = self._alone = not self._crew.start()

    def _work_here(self) -> None:
        """Makes the next results on the consumer's thread, until that takes longer than to hand them over would."""
        while self._out.empty():
            start = perf_counter_ns()
            with self._lock:
                job = self._find(start)
            if job is not None:
                results = job[0].handed_over_as(job[1])
                chunks, ended, wall = self._do(
                    *job, Exception
                )  # an interrupt of this thread is raised at once
                with self._lock:
                    self._finish(*job, chunks, ended, wall, start + wall)
                if job[0].upstream is not None:
                    longer = self._longer + (1 if wall > _HANDED_OVER_NS * results else -1)
                    self._longer = max(-_MOST_SHORTER, longer)
            if self._alone:
                assert job is not None, "nothing is under way, and nothing can be begun"
            elif (job is None and self._out.empty()) or self._longer > _MOST_LONGER:
                self._begin_threads()
                if not self._here:
                    return

    def close(self) -> None:
        """Ends the threads and waits for them, but for those in a user's function; a forked child does not wait."""
        self._open.discard(self)
        self._closed = True
        if self._process != os.getpid():
            return
        left = True
        try:
            for lane in self.lanes:
                lane.end()
            left = self._crew.leave()
        finally:
            if left:
                self._release()

    def _release(self) -> None:
        """Gives up what it reads from, once; a thread that is in the middle of reading does so at its end."""
        with suppress(IndexError):
            source = self._held.pop()
            try:
                source.close()  # type: ignore[attr-defined]
            except AttributeError:
                pass
            except ValueError:
                self._held.append(source)
        for lane in self.lanes:
            lane.close()

    # ---- the threads -------------------------------------------------------------------------------------

    def _work(self, worker: Worker) -> None:
        try:
            with self._lock:
                job, more = self._next_job(worker, perf_counter_ns())
            while not self._closed:
                if more:
                    self._crew.wake_one()
                if job is None:
                    worker.wake.get()
                    with self._lock:
                        job, more = self._next_job(worker, perf_counter_ns())
                    continue
                worker.calling = job[0].calls_user
                if self._closed:
                    break
                chunks, ended, wall = self._do(*job, BaseException)
                worker.calling, now = False, perf_counter_ns()
                with self._lock:
                    self._finish(*job, chunks, ended, wall, now)
                    del chunks
                    job, more = self._next_job(worker, now)
        except BaseException as error:
            self._out.put([Chunk.failed(error)])
        if self._crew.ended(worker) and self._closed:
            self._release()

    def _next_job(self, worker: Worker, now: int) -> tuple[tuple[Lane, Task] | None, bool]:
        """What to do next, and whether another thread is to be woken for more."""
        crew = self._crew
        job = self._find(now)
        if job is None:
            crew.idle(worker)  # before looking again: what happens meanwhile wakes this thread
            job = self._find(now)
            if job is None:
                return None, False
            crew.at_work(worker)
        if not crew.may_grow or self._is_short(job) or not self._could_start() or self._closed:
            return job, False
        if not crew.has_idle:
            crew.start()
            return job, False
        return job, True

    def _most_threads(self) -> int:
        if self._most is not None:
            return self._most
        return self._tuner.workers + sum(lane.fixed for lane in self.lanes) + 1

    @staticmethod
    def _is_short(job: tuple[Lane, Task]) -> bool:
        """Whether waking another thread would take longer than the job, or about as long."""
        lane, task = job
        return lane.tasks > 4 and lane.element_ns * max(1, len(task.chunk)) < _SHORT_NS

    def _do(self, lane: Lane, task: Task, caught: type[BaseException]) -> tuple[list[Chunk], bool, int]:
        """The results of a task, whether they are the source's last, and the nanoseconds that it took."""
        sampled = lane.samples_cpu  # not for each: on some systems the call takes as long as many a task
        start, cpu = perf_counter_ns(), thread_time_ns() if sampled else 0
        ended = False
        if lane.upstream is None:
            chunks, ended = self._read(lane.stage.prefetch or _MOST_READ, start, caught)
        else:
            try:
                chunk = lane.call(task.chunk, task.slots)
            except caught as error:
                chunk = Chunk.failed(error)
            chunk.size = chunk.size or size_of(chunk)
            if task.group and lane.ahead is not None and len(chunk.values) == len(task.chunk.values):
                make_ahead(chunk, task.group, lane.ahead.call, caught)
            chunks = [chunk]
        wall = perf_counter_ns() - start
        if sampled:
            lane.note_cpu(thread_time_ns() - cpu, wall)
        return chunks, ended, wall

    def _read(self, most: int, start: int, caught: type[BaseException]) -> tuple[list[Chunk], bool]:
        """Some chunks of the source, while they come fast; and whether they are the last."""
        chunks: list[Chunk] = []
        size = 0
        while len(chunks) < most and size < _READ_BYTES and perf_counter_ns() - start < _READ_NS:
            try:
                chunk = next(self._source, None)
            except caught as error:
                return [*chunks, Chunk.failed(error)], True
            if chunk is None:
                return chunks, True
            chunk.size = chunk.size or size_of(chunk)
            size += chunk.size
            chunks.append(chunk)
        return chunks, False

    # ---- under the lock ----------------------------------------------------------------------------------

    def _can_start(self, lane: Lane) -> bool:
        if lane.upstream is None:
            if lane.running or lane.ended:
                return False
        elif lane.fixed:
            if lane.running >= lane.fixed:
                return False
        elif self._shared_running >= self._tuner.workers:
            return False
        if not lane.has_input or lane.is_full(self._tuner.workers):
            return False
        if not lane.tasks:  # how large results are is not known before the first
            return lane.running < max(1, self._memory // _LARGE_RESULT)
        return self._fits(lane)

    def _fits(self, lane: Lane) -> bool:
        """Whether another result has room; one may always be made where nothing behind it is under way."""
        if self._reserved - self._taken_bytes + lane.largest <= self._memory:
            return True
        behind = self.lanes[self.lanes.index(lane) :]
        return not any(other.inflight or other.ready or other.handed_out for other in behind)

    def _could_start(self) -> bool:
        return any(map(self._can_start, self.lanes))

    def _find(self, now: int) -> tuple[Lane, Task] | None:
        """The job that stands nearest to the consumer and can begin; ``now``: the clock, about."""
        if self._ended:
            return None
        self.lanes[-1].handed_out = self._put - self._taken
        found: tuple[Lane, Task] | None = None
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
                self._settle()
        workers = self._tuner.workers
        for lane in self.lanes:
            lane.clock(workers, now)
        return found

    def _begin(self, lane: Lane, task: Task) -> None:
        if not lane.fixed and lane.upstream is not None:
            self._shared_running += 1
        task.bytes = lane.largest
        self._reserved += task.bytes

    def _finish(self, lane: Lane, task: Task, chunks: list[Chunk], ended: bool, wall: int, now: int) -> None:
        if not lane.fixed and lane.upstream is not None:
            self._shared_running -= 1
        lane.ended = lane.ended or ended
        size = chunks[0].size if len(chunks) == 1 else sum([chunk.size for chunk in chunks])
        self._reserved += size - task.bytes - task.chunk.size
        lane.finish(task, chunks, wall, size)
        self._settle()
        self._tuner.look(self.lanes, now)

    def _settle(self) -> None:
        for lane in self.lanes:
            lane.settle()
        last = self.lanes[-1]
        if last.ready:
            chunks = list(last.ready)
            last.ready.clear()
            last.handed_out += len(chunks)
            self._put += len(chunks)
            self._out.put(chunks)
        if last.ended and not self._ended:
            self._ended = True
            self._out.put(None)


@atexit.register
def _close_all() -> None:
    for running in list(Running._open):
        running.close()
