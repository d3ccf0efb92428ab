"""What a process has to mind: forks, threads, its parent, the end, and objects that outlive their users."""

from __future__ import annotations

import atexit
import logging as logging
import os
import random as random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, TimeoutError
from contextlib import AbstractContextManager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar, overload
from weakref import ref

from .library import lib

__all__ = [
    "WeakObjects",
    "all_forks",
    "cached_property",
    "close_in_children",
    "end_with",
    "end_with_parent",
]


# Objects that are known for as long as somebody else holds them.


T = TypeVar("T")


class WeakObjects(Generic[T]):
    """As weakref.WeakSet, which cannot be looked through while another thread, or a finalizer, adds to it.

    Each change and each copy is one call of C: nothing comes between, neither a thread nor a signal nor a fork.
    """

    def __init__(self) -> None:
        self._references: set[ref[T]] = set()

    def __len__(self) -> int:
        return len(self._references)

    def __iter__(self) -> Iterator[T]:
        """Those that are there now."""
        found = (reference() for reference in self._references.copy())
        return iter([thing for thing in found if thing is not None])

    def add(self, thing: T) -> None:
        """Knows one more, by its identity or what its class takes as that."""
        self._references.add(ref(thing, self._references.discard))


# A property that is computed once, without a lock.


Value = TypeVar("Value")


class cached_property(Generic[Value]):
    """As functools.cached_property, whose one lock for all instances, up to Python 3.11, a forked child may find held.

    Threads that ask at the same time may each compute it; all get what the first of them came to.
    """

    def __init__(self, func: Callable[[Any], Value]) -> None:
        self.func: Callable[[Any], Value] = func
        self.__doc__ = func.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> cached_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> cached_property[Value] | Value:
        if instance is None:
            return self
        value: Value = instance.__dict__.setdefault(self._name, self.func(instance))
        return value


# Processes that end with the one that has started them, however that ends: by SIGKILL nobody else would end
# them.


def end_with(parent: int) -> None:
    """Ends this process, soon, when process ``parent``, which has started it, has ended.

    The C core sees to that: a library that this process is stuck in, with Python's lock, holds up nothing. RuntimeError
    where no thread can be started.
    """
    if failed := lib.ur_end_with_parent(parent):
        raise RuntimeError(f"cannot start a thread: {os.strerror(failed)}")


def end_with_parent() -> None:
    """Ends this process of `multiprocessing` when the one that has started it has ended.

    AssertionError in a process that `multiprocessing` has not started.
    """
    import multiprocessing  # not with the package, whose import it would slow down

    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    if os.getppid() == parent.pid:
        # Not by the pipe of multiprocessing, of which forked siblings have inherited the other end.
        end_with(parent.pid)
    else:
        # A server of forks stands between, or it has ended already.
        threading.Thread(target=_wait, args=(parent,), name="unirecord-parent", daemon=True).start()


def _wait(parent: Any) -> None:
    parent.join()
    os._exit(1)


# What fork() does to memory and descriptors, told by the C core: no code of Python runs while a process
# forks.
#
# A hook in Python (os.register_at_fork) is broken off by whatever a signal's handler raises in it, as
# Ctrl-C does, and
# the exception is lost. So what has to change with a fork is found to be old when it is used next; and
# signals are kept
# while the hooks of other modules run, as logging's, which would not let go of its lock.


def all_forks() -> int:
    """A number that changes with each fork, in the process that forks as in its child."""
    return lib.ur_all_forks()  # type: ignore[no-any-return]


def close_in_children(descriptor: int, closes: bool) -> None:
    """Has each child that is forked from now on close this descriptor, or not any more: before it is closed here."""
    lib.ur_fork_closes(descriptor, closes)


def _keep_signals_of_python() -> None:
    """Tells the C core what Python's own handler of signals is, by a signal that has it.

    SIGINT has it where a terminal or a test has begun the process; a job in the background begins with SIGINT ignored,
    and may have no signal with a handler yet. SIGURG, which means nothing to a process without out-of-band data, is
    given one for a moment then; only the main thread may do so, and a program that imports this elsewhere has none.
    """
    for number in sorted(signal.valid_signals()):
        if callable(signal.getsignal(number)):
            lib.ur_signals_like(number)
            return
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGURG, lambda *_: None)
        lib.ur_signals_like(signal.SIGURG)
        signal.signal(signal.SIGURG, before)


# The first one to ask has forks counted from then on.
all_forks()
_keep_signals_of_python()
# logging and random have been imported, so that their hooks, which were registered before, run between these.
os.register_at_fork(
    before=lib.ur_signals_keep, after_in_parent=lib.ur_signals_give, after_in_child=lib.ur_signals_give
)


# How many threads are worth starting, and a pool of them that can be used and left anywhere.


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


# Waits that Ctrl-C ends: a bare one may see it only when it is over.
#
# A signal that comes just before a wait begins does not end it. None does where a library has system calls
# restarted
# after signals, as Polars has for SIGINT from its import on. So these look for signals ten times a second.


SIGNAL_SECONDS: Final = 0.1  # how long a signal may be waited for


def wait_for(event: threading.Event) -> None:
    """Return when the event is set."""
    while not event.wait(SIGNAL_SECONDS):
        pass


def result_of(future: Future[Result]) -> Result:
    """What a future has come to, or the exception that it raises, when it is done."""
    while not future.done():
        with suppress(TimeoutError, CancelledError):
            future.exception(SIGNAL_SECONDS)
    return future.result()
