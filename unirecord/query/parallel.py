"""Runs tasks in a few threads that live no longer than the tasks; results in the order of the tasks."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from ..core import usable_cores, wait_for

PARALLEL = 1 << 20  # rows to try from which threads pay
MOST_THREADS = 8  # memory is the limit beyond
State = TypeVar("State")
Task = TypeVar("Task")
Result = TypeVar("Result")


def threads_for(effort: int) -> int:
    """How many threads to try ``effort`` rows with."""
    if effort < PARALLEL:
        return 1
    return min(usable_cores(), MOST_THREADS)


def in_threads(
    work: Callable[[Task, State], Result], state: Callable[[], State], tasks: Sequence[Task], threads: int
) -> list[Result]:
    """``work`` on each task with its thread's own ``state()``; the first error is raised, and ends the others.

    It returns when the tasks are done and waits for no thread beyond: on a busy machine, one may not even have begun.
    """
    if not tasks:
        return []
    job = _Job(work, state, tasks)
    for _ in range(min(threads, len(tasks)) - 1):
        try:
            # a Thread's start() waits until it runs, which takes longer than many a query
            _thread.start_new_thread(job.run, ())
        except RuntimeError:
            break  # the system gives no more: those there are, this one at least, do it all
    job.run()
    wait_for(job.finished)
    if job.errors:
        raise job.errors[0]
    return [job.results[place] for place in range(len(tasks))]


class _Job(Generic[Task, State, Result]):
    """Tasks that several threads take one after the other."""

    def __init__(
        self, work: Callable[[Task, State], Result], state: Callable[[], State], tasks: Sequence[Task]
    ) -> None:
        self.work, self.state, self.tasks = work, state, tasks
        self.results: dict[int, Result] = {}
        self.errors: list[BaseException] = []
        self.finished = threading.Event()
        self._places = iter(range(len(tasks)))
        self._lock = threading.Lock()

    def _next(self) -> int | None:
        with self._lock:
            return None if self.errors else next(self._places, None)

    def run(self) -> None:
        """Takes tasks until there are no more."""
        try:
            place = self._next()
            own = self.state() if place is not None else None
            while place is not None:
                result = self.work(self.tasks[place], cast("State", own))
                with self._lock:
                    self.results[place] = result
                    if len(self.results) == len(self.tasks):
                        self.finished.set()
                place = self._next()
        except BaseException as error:  # handed to the caller
            self.errors.append(error)
            self.finished.set()
