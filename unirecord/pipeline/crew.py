"""The threads of a pass: begun one by one, woken, and left when it ends, even in the middle of a user's function."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue

from ..core import leave_at_work

__all__ = ["Crew", "Worker"]

_PATIENCE_S = 0.01  # for a user's function that is nearly done when its pass is left


class Worker:
    """One thread; ``calling`` while it is in something that may take for ever."""

    __slots__ = ("calling", "thread", "wake")

    def __init__(self) -> None:
        self.calling: bool = False
        self.wake: SimpleQueue[None] = SimpleQueue()
        self.thread: threading.Thread


class Crew:
    """At most ``most()`` threads that run ``work``; the collector may leave them on whatever thread it runs."""

    def __init__(self, work: Callable[[Worker], None], most: Callable[[], int]) -> None:
        self._work, self._most = work, most
        self._workers: list[Worker] = []
        self._ended: list[Worker] = []
        self._idle: deque[Worker] = deque()

    @property
    def has_begun(self) -> bool:
        """Whether there are threads."""
        return bool(self._workers)

    def start(self) -> bool:
        """Starts one more; False where there are as many as may be, or no more is to be had."""
        if len(self._workers) >= self._most():
            return False
        worker = Worker()
        worker.thread = threading.Thread(
            target=self._work, args=(worker,), name="unirecord-pipeline", daemon=True
        )
        self._workers.append(
            worker
        )  # before a signal can be handled: it may run when start() does not return
        try:
            worker.thread.start()
        except RuntimeError as error:
            self._workers.remove(worker)
            if "start new thread" not in str(error):
                raise
            return False
        return True

    def idle(self, worker: Worker) -> None:
        """From now on ``wake_one`` may choose this one."""
        self._idle.append(worker)

    def at_work(self, worker: Worker) -> None:
        """It need not be woken any more."""
        with suppress(ValueError):
            self._idle.remove(worker)

    @property
    def has_idle(self) -> bool:
        """Whether one waits for work."""
        return bool(self._idle)

    @property
    def may_grow(self) -> bool:
        """Whether one more may be put to work: one waits, or may be started."""
        return bool(self._idle) or len(self._workers) < self._most()

    def wake_one(self) -> None:
        """One that waits for work looks again."""
        if self._idle:
            with suppress(IndexError):
                self._idle.pop().wake.put(None)

    def ended(self, worker: Worker) -> bool:
        """Notes that a thread is about to end; True for the last one."""
        self._ended.append(worker)
        return len(self._ended) == len(self._workers)

    def leave(self) -> bool:
        """Waits for the threads, which have been told to end, but for those in a user's function.

        False where one of them calls it itself, and cannot wait for the others.
        """
        for worker in self._workers:
            worker.wake.put(None)
        threads = [worker.thread for worker in self._workers]
        mine = threading.current_thread() in threads
        number = 0
        while not mine and number < len(
            self._workers
        ):  # one that is being waited for may have started another
            worker = self._workers[number]
            if worker.thread.is_alive():
                worker.thread.join(_PATIENCE_S if worker.calling else None)
            number += 1
        leave_at_work(worker.thread for worker in self._workers)
        return not mine
