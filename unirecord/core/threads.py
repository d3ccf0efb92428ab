"""How many threads are worth starting, and a pool of them that can be used and left anywhere."""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, TypeAlias, TypeVar

Result = TypeVar("Result")
_Jobs: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]"
_SECONDS_AT_END = 5.0  # for which the end of the process waits for work that nobody asks for any more


def usable_cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


left_at_work: list[threading.Thread] = []


def leave_at_work(threads: Iterable[threading.Thread]) -> None:
    """Nobody waits for these threads any more but the end of the process, for a while."""
    left_at_work.extend(list(threads))  # never put together anew: another thread may add some meanwhile
    for thread in left_at_work.copy():
        if not thread.is_alive():
            with suppress(ValueError):  # another has removed it
                left_at_work.remove(thread)


class Locked:
    """Has a ``lock``, which no forked child finds held: by a thread of its parent, it would never be free there.

    Who holds it may take it again: a signal's handler, or a finalizer that the collector runs.
    """

    __slots__ = ("__weakref__", "_locks")

    def __init__(self) -> None:
        self._locks = {os.getpid(): threading.RLock()}

    @property
    def lock(self) -> AbstractContextManager[object]:
        """The one of this process."""
        process = os.getpid()
        found = self._locks.get(process)
        return self._locks.setdefault(process, threading.RLock()) if found is None else found


class LeavablePool:
    """Threads that a finalizer can use and end, on whatever thread and in whatever process the collector runs it.

    Whoever makes one calls `leave`; the end of the process calls the rest. Nobody waits for work under way, which may
    take minutes: a Ctrl-C would wait with them. It keeps alive what it uses, and what it returns is dropped.
    """

    # Not a ThreadPoolExecutor: all of those share one lock, for which a finalizer waits in vain when the collector runs
    # it in the middle of another's submit, or of a fork.
    _not_left: ClassVar[set[LeavablePool]] = set()

    def __init__(self, threads: int, name: str) -> None:
        self._name = name
        self._may_start = [None] * threads  # each is taken by one call, of one thread
        self._threads: list[threading.Thread] = []
        self._jobs: _Jobs = SimpleQueue()  # whose put() may come in the middle of another
        self._asked: set[Future[Any]] = set()
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
            self._asked.add(done)
            done.add_done_callback(self._asked.discard)
            self._jobs.put(job)
            if self not in self._not_left:  # another thread has left it meanwhile
                self._drop()
            self._do_forsaken()
        else:
            _do(*job)
        return done

    def leave(self) -> None:
        """Drop what has not begun, and leave the rest to end by itself; threads that have nothing to do have ended."""
        self._not_left.discard(self)
        if not self.is_own:
            return
        self._drop()
        if all(asked.done() for asked in self._asked.copy()):
            for thread in self._threads:
                if thread.is_alive():
                    thread.join()
        else:
            leave_at_work(self._threads)

    def _drop(self) -> None:
        """Drop what has not begun, and let the threads end."""
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)

    def _do_forsaken(self) -> None:
        """Do what was given to a thread that another caller could not start after all."""
        while not self._threads:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                return
            if job is not None:
                _do(*job)

    def _has_threads(self) -> bool:
        """Whether there are threads; one more has been started if there may be."""
        if self not in self._not_left or not self.is_own:
            return False
        if self._may_start:
            # A daemon, because whoever ends the process would wait for any other before `_leave_all`.
            thread = threading.Thread(target=_work, args=(self._jobs,), name=self._name, daemon=True)
            try:
                self._threads.append(thread)  # first: others find one when there is none left to start
                self._may_start.pop()
                thread.start()
            except IndexError:  # others have started the last
                self._threads.remove(thread)
            except RuntimeError as error:
                self._threads.remove(thread)
                self._may_start.append(None)
                if "start new thread" not in str(error):
                    raise
                self._do_forsaken()
            except BaseException:  # a signal's, which may have come before the start, in it, or after it
                self._may_start.append(None)
                raise
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
    # What they call may be C++, which aborts the process when its thread is ended in the middle of it.
    end = time.monotonic() + _SECONDS_AT_END
    for thread in left_at_work:
        thread.join(max(0.0, end - time.monotonic()))
