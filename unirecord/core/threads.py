"""How many threads are worth starting, and a pool of them that can be used and left anywhere."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, TypeAlias, TypeVar

Result = TypeVar("Result")
_Jobs: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]"


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LeavablePool:
    """Threads that a finalizer can use and end, on whatever thread and in whatever process the collector runs it.

    Whoever makes one calls `leave`; the end of the process calls the rest.
    """

    # Not a ThreadPoolExecutor: all of those share one lock, for which a finalizer waits in vain when the collector runs
    # it in the middle of another's submit, or of a fork.
    _not_left: ClassVar[set[LeavablePool]] = set()

    def __init__(self, threads: int, name: str) -> None:
        self._most, self._name = threads, name
        self._threads: list[threading.Thread] = []
        self._jobs: _Jobs = SimpleQueue()  # whose put() may come in the middle of another
        self._process = os.getpid()
        self._not_left.add(self)

    @property
    def is_own(self) -> bool:
        """Whether this process made it; a child after fork has none of its threads."""
        return self._process == os.getpid()

    def submit(self, work: Callable[..., Result], *arguments: Any) -> Future[Result]:
        """What ``work`` returns or raises; done at once, by the caller, where no thread is to be had."""
        done: Future[Result] = Future()
        job = done, partial(work, *arguments)
        if self._has_threads():
            self._jobs.put(job)
        else:
            _do(*job)
        return done

    def leave(self) -> None:
        """Drop what has not begun, and wait for the rest; one of its threads does not wait, nor does a forked child."""
        self._not_left.discard(self)
        if not self.is_own:
            return
        with suppress(Empty):
            while (job := self._jobs.get_nowait()) is not None:
                job[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)
        if threading.current_thread() not in self._threads:
            for thread in self._threads:
                thread.join()

    def _has_threads(self) -> bool:
        """Whether there are threads; one more has been started if there may be."""
        if self not in self._not_left or not self.is_own:
            return False
        if len(self._threads) < self._most:
            # A daemon, because whoever ends the process would wait for any other before `_leave_all`.
            thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                if "start new thread" not in str(error):
                    raise
            else:
                self._threads.append(thread)
        return bool(self._threads)


def _do(done: Future[Result], work: Callable[[], Result]) -> None:
    if not done.set_running_or_notify_cancel():
        return
    try:
        done.set_result(work())
    except BaseException as error:
        done.set_exception(error)


def _work(jobs: _Jobs) -> None:
    while (job := jobs.get()) is not None:
        _do(*job)
        del job


@atexit.register
def _leave_all() -> None:
    for pool in list(LeavablePool._not_left):
        pool.leave()
