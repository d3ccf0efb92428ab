"""Runs tasks in a few threads that end with the call, results in the order of the tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

PARALLEL = 1 << 20  # rows to try from which threads pay
MOST_THREADS = 8  # memory is the limit beyond
State = TypeVar("State")
Task = TypeVar("Task")
Result = TypeVar("Result")


def threads_for(effort: int) -> int:
    """How many threads to try ``effort`` rows with."""
    if effort < PARALLEL:
        return 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_THREADS)


def in_threads(
    work: Callable[[Task, State], Result], state: Callable[[], State], tasks: Sequence[Task], threads: int
) -> list[Result]:
    """``work`` on each task with its thread's own ``state()``; the first failure is raised, and ends the others."""
    results: list[Result | None] = [None] * len(tasks)
    failures: list[BaseException] = []
    places = iter(range(len(tasks)))
    lock = threading.Lock()

    def run() -> None:
        try:
            own = state()
            while not failures:
                with lock:
                    place = next(places, None)
                if place is None:
                    return
                results[place] = work(tasks[place], own)
        except BaseException as failure:  # handed to the caller below
            failures.append(failure)

    helpers = [
        threading.Thread(target=run, name="unirecord-query", daemon=True)
        for _ in range(min(threads, len(tasks)) - 1)
    ]
    for helper in helpers:
        helper.start()
    run()
    for helper in helpers:
        helper.join()
    if failures:
        raise failures[0]
    return [result for result in results if result is not None]
