"""One pass of a pipeline: threads that work on whichever stage stands nearest to the consumer and can go on."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import SimpleQueue
from time import perf_counter_ns, thread_time_ns
from typing import ClassVar

from .budget import Budget
from .chunk import Chunk
from .lane import Lane, Task
from .memory_size import size_of
from .tuning import Tuner

__all__ = ["Running", "read_alone"]

_SHORT_NS = 30_000  # what it takes to wake a thread, about
_MOST_READ = 16  # chunks read by one task, if they come fast
_READ_BYTES = 1 << 20
_READ_NS = 300_000
_LARGE_RESULT = 64 << 20
_HANDED_OVER_NS = 50_000  # what it costs that another thread makes a result, about
_MOST_LONGER = 2  # tasks that take longer than that, beyond those that do not: one may be held up by others


class Running:
    """The lanes of a pass, the first of which takes from ``source``; ``close`` ends its threads.

    Nobody waits for a lock while it is held for long: what needs time is done between ``_next_job`` and ``_finish``.
    The consumer takes no lock while there are threads, so that an interrupt may come anywhere in it.
    """

    _open: ClassVar[set[Running]] = set()

    def __init__(self, source: Iterator[Chunk], lanes: Sequence[Lane], budget: Budget, tuner: Tuner) -> None:
        self._source = source
        self.lanes = list(lanes)
        self._budget, self._tuner = budget, tuner
        self._lock = threading.Lock()
        self._out: SimpleQueue[list[Chunk] | None] = SimpleQueue()
        self._got: deque[Chunk] = deque()
        self._idle: deque[SimpleQueue[None]] = deque()
        self._wakes: list[SimpleQueue[None]] = []
        self._threads: list[threading.Thread] = []
        self._shared_running = 0
        self._reserved = 0
        self._taken = self._taken_bytes = 0  # changed by the consumer alone
        self._put = 0
        self._ended = False
        self._closed = False
        self._longer = 0
        # What is cheap is done where it is needed, as long as nobody has asked for a thread, or for results ahead.
        self._here = not any(lane.fixed or lane.processes or lane.stage.prefetch for lane in self.lanes)
        self._process = os.getpid()

    # ---- the consumer's side -----------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Chunk]:
        """The results in order; the last may carry an error."""
        self._open.add(self)
        try:
            for lane in self.lanes:
                lane.start()  # processes, while there are no threads of this pass
            if not self._here:
                self._start_thread()
            while (chunk := self._next()) is not None:
                yield chunk
                del chunk
        finally:
            self.close()

    def _next(self) -> Chunk | None:
        if self._process != os.getpid():
            raise ValueError("an iterator made before fork() cannot be used in the child: make a new one")
        if not self._got:
            start = perf_counter_ns()
            if self._here:
                self._work_here()
            chunks = self._out.get()
            self._tuner.waited(start, perf_counter_ns())
            if chunks is None:
                return None
            self._got.extend(chunks)
        chunk = self._got.popleft()
        self._taken += 1
        self._taken_bytes += chunk.size
        window = self.lanes[-1].window(self._tuner.workers)
        if 2 * (self._put - self._taken) <= window:  # not for each result: threads take turns seldom
            self._wake_one()
        return chunk

    def _work_here(self) -> None:
        """Makes the next results on the consumer's thread, until that takes longer than to hand them over would."""
        while self._out.empty():
            with self._lock:
                job = self._find()
            if job is not None:
                start, results = perf_counter_ns(), job[0].handed_over_as(job[1])
                self._do(*job)
                if job[0].upstream is not None:
                    long = perf_counter_ns() - start > _HANDED_OVER_NS * results
                    self._longer += 1 if long else -1
            if (job is None and self._out.empty()) or self._longer > _MOST_LONGER:
                self._here = False
                self._start_thread()
                return

    def close(self) -> None:
        """Ends the threads and waits for them; one of them, or a forked child, does not wait."""
        self._open.discard(self)
        self._closed = True
        if self._process != os.getpid():
            return
        for lane in self.lanes:
            lane.end()
        for wake in self._wakes:
            wake.put(None)
        if threading.current_thread() in self._threads:
            return
        joined = 0
        while joined < len(self._threads):  # one that is being joined may have started another
            self._threads[joined].join()
            joined += 1
        if hasattr(self._source, "close"):
            with suppress(ValueError):
                self._source.close()
        for lane in self.lanes:
            lane.close()

    # ---- the threads -------------------------------------------------------------------------------------

    def _start_thread(self) -> None:
        wake: SimpleQueue[None] = SimpleQueue()
        thread = threading.Thread(target=self._work, args=(wake,), name="unirecord-pipeline", daemon=True)
        self._wakes.append(wake)
        self._threads.append(thread)
        try:
            thread.start()
        except BaseException:
            self._threads.remove(thread)
            raise

    def _wake_one(self) -> bool:
        try:
            self._idle.pop().put(None)
        except IndexError:
            return False
        return True

    def _work(self, wake: SimpleQueue[None]) -> None:
        try:
            while not self._closed:
                job = self._next_job(wake)
                if job is None:
                    wake.get()
                    continue
                self._do(*job)
                del job
        except BaseException as error:
            self._out.put([Chunk.failed(error)])

    def _next_job(self, wake: SimpleQueue[None]) -> tuple[Lane, Task] | None:
        self._idle.append(wake)  # before looking: what happens meanwhile wakes this thread
        with self._lock:
            job = self._find()
            more = job is not None and not self._is_short(job) and self._could_start()
            short_of_threads = more and not self._idle_but(wake) and len(self._threads) < self._most_threads()
            if short_of_threads and not self._closed:
                with suppress(RuntimeError):  # no more to be had: those that there are do the work
                    self._start_thread()
        if job is None:
            return None
        with suppress(ValueError):
            self._idle.remove(wake)
        if more and not short_of_threads:
            self._wake_one()
        return job

    def _idle_but(self, wake: SimpleQueue[None]) -> bool:
        return len(self._idle) > (wake in self._idle)

    def _most_threads(self) -> int:
        return self._tuner.workers + sum(lane.fixed for lane in self.lanes) + 1

    @staticmethod
    def _is_short(job: tuple[Lane, Task]) -> bool:
        """Whether waking another thread would take longer than the job, or about as long."""
        lane, task = job
        return lane.tasks > 4 and lane.element_ns * max(1, len(task.chunk)) < _SHORT_NS

    def _do(self, lane: Lane, task: Task) -> None:
        start, cpu = perf_counter_ns(), thread_time_ns()
        if lane.upstream is None:
            chunks, ended = self._read(start)
        else:
            try:
                chunk = lane.call(task.chunk, task.slots)
            except BaseException as error:
                chunk = Chunk.failed(error)
            chunk.size = size_of(chunk)
            chunks, ended = [chunk], False
        cpu, wall = thread_time_ns() - cpu, perf_counter_ns() - start
        with self._lock:
            self._finish(lane, task, chunks, ended, wall, cpu)

    def _read(self, start: int) -> tuple[list[Chunk], bool]:
        """Some chunks of the source, while they come fast; and whether they are the last."""
        chunks: list[Chunk] = []
        size = 0
        while len(chunks) < _MOST_READ and size < _READ_BYTES and perf_counter_ns() - start < _READ_NS:
            try:
                chunk = next(self._source, None)
            except BaseException as error:
                return [*chunks, Chunk.failed(error)], True
            if chunk is None:
                return chunks, True
            chunk.size = size_of(chunk)
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
            return lane.running < max(1, self._budget.memory // _LARGE_RESULT)
        return self._fits(lane)

    def _fits(self, lane: Lane) -> bool:
        """Whether another result has room; one may always be made where nothing behind it is under way."""
        if self._reserved - self._taken_bytes + lane.largest <= self._budget.memory:
            return True
        behind = self.lanes[self.lanes.index(lane) :]
        return not any(other.inflight or other.ready or other.handed_out for other in behind)

    def _could_start(self) -> bool:
        return any(self._can_start(lane) for lane in self.lanes)

    def _find(self) -> tuple[Lane, Task] | None:
        if self._ended:
            return None
        self._notice_taken()
        now, workers = perf_counter_ns(), self._tuner.workers
        found: tuple[Lane, Task] | None = None
        again = True
        while again and found is None:
            again = False
            for lane in reversed(self.lanes):
                if not self._can_start(lane):
                    continue
                task = lane.form()
                if task is None:
                    continue
                if task.results is None:
                    found = lane, task
                    self._begin(lane, task)
                    break
                again = True  # nothing to do for it: whatever is behind it may go on
                self._settle()
        self._settle()
        for lane in self.lanes:
            lane.clock(workers, now)
        return found

    def _begin(self, lane: Lane, task: Task) -> None:
        if not lane.fixed and lane.upstream is not None:
            self._shared_running += 1
        task.bytes = lane.largest
        self._reserved += task.bytes

    def _finish(self, lane: Lane, task: Task, chunks: list[Chunk], ended: bool, wall: int, cpu: int) -> None:
        if not lane.fixed and lane.upstream is not None:
            self._shared_running -= 1
        lane.ended = lane.ended or ended
        self._reserved += sum(chunk.size for chunk in chunks) - task.bytes - task.chunk.size
        lane.finish(task, chunks, wall, cpu)
        self._settle()
        self._tuner.look(self.lanes, self._shared_running + 1 >= self._tuner.workers)

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

    def _notice_taken(self) -> None:
        last = self.lanes[-1]
        last.handed_out = self._put - self._taken


def read_alone(source: Iterator[Chunk], lane: Lane) -> Iterator[Chunk]:
    """A pass without stages: nothing is gained by a thread, as the source reads ahead itself."""
    try:
        while True:
            start = perf_counter_ns()
            chunk = next(source, None)
            lane.busy_ns += perf_counter_ns() - start
            if chunk is None:
                return
            lane.elements += len(chunk)
            yield chunk
            del chunk
    finally:
        if hasattr(source, "close"):
            source.close()


@atexit.register
def _close_all() -> None:
    for running in list(Running._open):
        running.close()
