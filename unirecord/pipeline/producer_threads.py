"""A thread for each generator, where threads are not held up by one another: in place of processes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..core import SIGNAL_SECONDS, leave_at_work
from .generating import Make, in_turn, made
from .memory_size import bytes_of

__all__ = ["ThreadProducers"]

_PATIENCE_S = 0.01  # for a generator that is nearly done with an element when its pass is left


class ThreadProducers:
    """At most ``ahead`` elements and ``memory`` bytes of each generator before what has been taken; but one."""

    def __init__(self, makes: Sequence[Make], ahead: int, memory: int) -> None:
        self._makes, self._ahead, self._memory = makes, ahead, memory
        self._changed = threading.Condition()
        self._ready: list[deque[Any]] = [deque() for _ in makes]
        self._done = [False] * len(makes)
        self._errors: dict[int, BaseException] = {}
        self._left = False
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name="unirecord-producer", daemon=True)
            for number in range(len(makes))
        ]

    def start(self) -> None:
        """Starts the threads."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Tells them to end, and whoever waits for them."""
        with self._changed:
            self._left = True
            self._changed.notify_all()

    def close(self) -> None:
        """Waits for them, but for those in a generator."""
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_PATIENCE_S)
        leave_at_work(self._threads)

    def in_turn(self) -> Iterator[Any]:
        """One element of each in turn."""
        return in_turn([self._taken([number]) for number in range(len(self._makes))])

    def as_they_come(self) -> Iterator[Any]:
        """Whichever is there first."""
        return self._taken(range(len(self._makes)))

    def _taken(self, numbers: Sequence[int]) -> Iterator[Any]:
        """What these generators make, until all have ended, or one has failed."""
        order = deque(numbers)
        while True:
            with self._changed:
                while not (self._left or self._any(order) or self._over(numbers)):
                    self._changed.wait(SIGNAL_SECONDS)
                if self._left or not self._any(order):
                    break
                while not self._ready[order[0]]:
                    order.rotate(-1)
                value = self._ready[order[0]].popleft()
                order.rotate(-1)  # the others come first next time
                self._changed.notify_all()
            yield value
            del value
        for number in numbers:
            if number in self._errors and not self._left:
                raise self._errors[number]

    def _any(self, numbers: Iterable[int]) -> bool:
        return any(self._ready[number] for number in numbers)

    def _over(self, numbers: Iterable[int]) -> bool:
        return any(n in self._errors for n in numbers) or all(self._done[n] for n in numbers)

    def _work(self, number: int) -> None:
        ready, largest = self._ready[number], 1
        try:
            for value in made(self._makes[number], number):
                largest = max(largest, bytes_of(value))
                most = min(self._ahead, self._memory // largest)
                with self._changed:
                    ready.append(value)
                    del value
                    self._changed.notify_all()
                    while len(ready) > most and not self._left:
                        self._changed.wait()
                    if self._left:
                        return
        except BaseException as error:
            self._errors[number] = error
        finally:
            with self._changed:
                self._done[number] = True
                self._changed.notify_all()
