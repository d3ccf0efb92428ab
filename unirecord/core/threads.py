"""How many threads are worth starting, and work for a pool that goes on where the system gives no more threads."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def submit(pool: ThreadPoolExecutor, work: Callable[..., Result], *arguments: Any) -> Future[Result]:
    """``pool.submit``; done at once, by this thread, where no thread can be started and the pool has none."""
    try:
        return pool.submit(work, *arguments)
    except RuntimeError as error:
        if "start new thread" not in str(error):
            raise
    done: Future[Result] = Future()
    try:
        done.set_result(work(*arguments))
    except Exception as failure:
        done.set_exception(failure)
    return done
