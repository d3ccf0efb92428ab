"""How many threads are worth starting, a pool of them that can be left anywhere, and work for it without any."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, TypeVar

Result = TypeVar("Result")


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LeavablePool(ThreadPoolExecutor):
    """Threads that a finalizer can use and end, on whatever thread and in whatever process the collector runs it.

    Whoever makes one calls `leave`.
    """

    # The collector clears weak references to a pool in a cycle before it runs finalizers: its threads would then end,
    # and whoever then waits for their work, for ever.
    _not_left: ClassVar[set[LeavablePool]] = set()

    def __init__(self, threads: int, name: str) -> None:
        self._threads_of_it: set[int] = set()
        self._process = os.getpid()
        super().__init__(threads, name, _note_thread, (self._threads_of_it,))
        self._not_left.add(self)

    @property
    def is_own(self) -> bool:
        """Whether this process made it; a child after fork has none of its threads."""
        return self._process == os.getpid()

    def leave(self) -> None:
        """Drop what has not begun, and wait for the rest; one of its threads does not wait, nor does a forked child."""
        self._not_left.discard(self)
        if self.is_own:
            self.shutdown(wait=threading.get_ident() not in self._threads_of_it, cancel_futures=True)


def _note_thread(threads: set[int]) -> None:
    threads.add(threading.get_ident())


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
