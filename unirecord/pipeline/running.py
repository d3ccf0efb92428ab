"""One pass of a pipeline: threads that work on whichever stage stands nearest to the consumer and can go on."""

from __future__ import annotations

import atexit
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty
from time import perf_counter_ns
from typing import ClassVar

from ..core import SIGNAL_SECONDS
from .chunk import Chunk
from .crew import Crew, Worker
from .dispatch import Dispatch, Job, Tuning
from .doing import do
from .lane import Lane
from .straight import Straight

__all__ = ["Running"]

_SHORT_NS = 30_000  # what it takes to wake a thread, about
_HANDED_OVER_NS = 50_000  # what it costs that another thread makes a result, about
_MOST_SHORTER = 8  # of those that do not, which are remembered: what a function takes may change
_MOST_LONGER = 2  # tasks that take longer than that, beyond those that do not: one may be held up by others


class Running:
    """The lanes of a pass, the first of which takes from ``source``; ``close`` ends its threads.

    Nobody waits for a lock while it is held for long: what needs time is done between finding a job and its finish.
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
        self.lanes: list[Lane] = list(lanes)
        self._tuner, self._most = tuner, threads
        self._lock, self._dispatch = threading.Lock(), Dispatch(lanes, memory, tuner)
        self._reading = threading.Lock()  # held by the thread that is in the source
        self._out = self._dispatch.out
        self._got: deque[Chunk] = deque()
        self._crew = Crew(self._work, self._most_threads)
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
        self._dispatch.settle()

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
        dispatch = self._dispatch
        dispatch.taken += 1
        dispatch.taken_bytes += chunk.size
        if 2 * dispatch.lie_ready <= self.lanes[-1].window(
            self._tuner.workers
        ):  # not for each result: threads take turns seldom
            self._crew.wake_one()
        return chunk

    def _received(self) -> list[Chunk] | None:
        """The next results. A signal that comes just before the wait begins does not end it: it is seen soon after."""
        while True:
            with suppress(Empty):
                return self._out.get(timeout=SIGNAL_SECONDS)

    def _begin_threads(self) -> None:
        self._here = self._alone = not self._crew.start()

    def _work_here(self) -> None:
        """Makes the next results on the consumer's thread, until that takes longer than to hand them over would."""
        while self._out.empty():
            start = perf_counter_ns()
            with self._lock:
                job = self._dispatch.find(start)
            if job is not None:
                results = job[0].handed_over_as(job[1])
                # An interrupt of this thread is raised at once.
                chunks, ended, wall = self._do(job, Exception)
                with self._lock:
                    self._dispatch.finish(job, chunks, ended, wall, start + wall)
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
        # Not left to the generator to find out that another thread is in it: without the GIL that is no safe question.
        if self._reading.acquire(blocking=False):
            try:
                self._close_source()
            finally:
                self._reading.release()
        for lane in self.lanes:
            lane.close()

    def _close_source(self) -> None:
        with suppress(IndexError):
            source = self._held.pop()
            try:
                source.close()  # type: ignore[attr-defined]
            except AttributeError:
                pass
            except ValueError:  # the collector runs this in the middle of it
                self._held.append(source)

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
                chunks, ended, wall = self._do(job, BaseException)
                worker.calling, now = False, perf_counter_ns()
                with self._lock:
                    self._dispatch.finish(job, chunks, ended, wall, now)
                    del chunks
                    job, more = self._next_job(worker, now)
        except BaseException as error:
            self._out.put([Chunk.failed(error)])
        if self._crew.ended(worker) and self._closed:
            self._release()

    def _do(self, job: Job, caught: type[BaseException]) -> tuple[list[Chunk], bool, int]:
        if job[0].upstream is not None:
            return do(job, self._source, caught)
        with self._reading:
            return do(job, self._source, caught)

    def _next_job(self, worker: Worker, now: int) -> tuple[Job | None, bool]:
        """What to do next, and whether another thread is to be woken for more; under the lock."""
        crew, dispatch = self._crew, self._dispatch
        job = dispatch.find(now)
        if job is None:
            crew.idle(worker)  # before looking again: what happens meanwhile wakes this thread
            job = dispatch.find(now)
            if job is None:
                return None, False
            crew.at_work(worker)
        if not crew.may_grow or self._is_short(job) or not dispatch.could_start() or self._closed:
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
    def _is_short(job: Job) -> bool:
        """Whether waking another thread would take longer than the job, or about as long."""
        lane, task = job
        return lane.tasks > 4 and lane.element_ns * max(1, len(task.chunk)) < _SHORT_NS


@atexit.register
def _close_all() -> None:
    for running in list(Running._open):
        running.close()
