"""Generators as the origin of a pipeline: on the thread that asks, on threads, or each in a process of its own."""

from __future__ import annotations

import select
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import SIGNAL_SECONDS, has_gil, leave_at_work
from ..errors import TransformError
from ..format.column import Column
from ..loading.batch import bytes_of
from ..loading.stats import PartTimes
from ..order.randomness import child_key, pass_key, sample_keys
from ..order.rest import Rest
from ..order.spec import check_integer
from .budget import Budget
from .chunk import Chunk
from .graph import Graph
from .operators import function_name
from .source import Lend, OriginPass
from .stage import Named
from .workers import Channel, Ended, Portable, Process

__all__ = [
    "GeneratorOrigin",
    "Make",
    "ThreadProducers",
    "in_turn",
    "made",
]


# What generators make: errors say which one it was, and one element of each comes in turn.


Make = Callable[[], Iterable[Any]]


def made(make: Make, number: int) -> Iterator[Any]:
    """The elements of one generator; its errors say which one it is."""
    place = 0
    try:
        for value in make():
            yield value
            place += 1
    except Exception as error:
        raise TransformError(
            f"generator {number} ({function_name(make)}) failed at its element {place}: {error!r}"
        ) from error


def in_turn(iterators: Sequence[Iterator[Any]]) -> Iterator[Any]:
    """One element of each in turn, until all have ended."""
    left = list(iterators)
    while left:
        for iterator in list(left):
            try:
                value = next(iterator)
            except StopIteration:
                left.remove(iterator)
                continue
            yield value
            del value


# A thread for each generator, where threads are not held up by one another: in place of processes.


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


# Generators as the origin of a pipeline: on the thread that asks, or each in a process of its own.


_END = "end"  # what a process sends behind its last element
_VERSION = 1


class GeneratorOrigin:
    """What several generators make: one element of each in turn, or as it comes."""

    def __init__(
        self, makes: Sequence[Make], in_processes: bool, ordered: bool, ahead: int, memory: int, seed: int
    ) -> None:
        """``memory``: bytes of what processes make before it is asked for, all together; each makes one."""
        self._makes, self._in_processes, self._ordered = makes, in_processes, ordered
        self._ahead, self._memory, self._seed = ahead, memory, seed
        self._epoch, self._position, self._begun = 0, 0, False
        self.latest: _GeneratorPass | None = None

    columns: tuple[str, ...] | None = None
    stored: tuple[Column, ...] = ()
    shard: tuple[int, int] = (0, 1)

    def condition(self, text: str) -> str:
        """There are no rows that could meet one."""
        raise ValueError(f"filter({text!r}): generators have no stored columns; give a function")

    samples = 0  # not known

    def samples_left(self) -> int | None:
        """Not known."""
        return None

    def batches_left(self, size: int, drop_last: bool) -> int | None:
        """Not known."""
        return None

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass."""
        self._epoch, self._position = check_integer("epoch", epoch, 0, (1 << 63) - 1), 0
        self._begun, self.latest = False, None

    def state_dict(self) -> dict[str, Any]:
        """How many elements have been handed out in the epoch."""
        if not self._ordered:
            raise ValueError("elements come in any order with ordered=False: no state says which have come")
        return {
            "version": _VERSION,
            "generators": len(self._makes),
            "seed": self._seed,
            "epoch": self._epoch,
            "position": self._position,
        }

    def load_state_dict(self, state: Any) -> None:
        """Makes the next pass leave out what has been handed out; ValueError for a state of others."""
        expected = self.state_dict()
        wrong = not isinstance(state, dict) or set(state) != set(expected)
        if wrong or any(state[name] != expected[name] for name in ("version", "generators", "seed")):
            raise ValueError(
                f"the state is of another pipeline: it is {state!r}, and here it would be {expected!r}"
            )
        self.set_epoch(state["epoch"])
        self._position = check_integer("the state's position", state["position"], 0)

    def places_after(self, state: dict[str, Any], *_: Any) -> list[tuple[int, bool]]:
        """It is never asked to: there is one rank."""
        raise AssertionError(state)

    def begin(self) -> OriginPass:
        """Starts a pass: the generators are made anew."""
        if self._begun:
            self._epoch, self._position = self._epoch + 1, 0
        self._begun = True
        self.latest = _GeneratorPass(self, self._epoch, self._position)
        return self.latest

    def mark(self, of: _GeneratorPass, position: int) -> None:
        """Notes how far a pass has been handed out, if it is the latest."""
        if self.latest is of:
            self._position = position


class _GeneratorPass:
    """One pass; it is also what names its elements in messages."""

    def __init__(self, origin: GeneratorOrigin, epoch: int, start: int) -> None:
        self._origin = origin
        self.epoch: int = epoch
        self.start: int = start
        self._end = start
        self.names: Named = self
        in_processes = origin._in_processes
        memory = origin._memory // len(origin._makes)
        # Where threads are not held up by one another, nothing need cross to another process.
        self.worker_key: int = pass_key(origin._seed, epoch, 0, start)
        self._producers: Any = None
        if in_processes and has_gil():
            key = pass_key(origin._seed, epoch, -1)  # a resume makes again what came before it
            self._producers = _Producers(origin._makes, origin._ahead, memory, key)
        elif in_processes:
            self._producers = ThreadProducers(origin._makes, origin._ahead, memory)
        self.processes: Any = self._producers
        self.calls_user: bool = not in_processes

    @property
    def followed(self) -> bool:
        """Whether it is the latest one."""
        return self._origin.latest is self

    def mark(self, position: int) -> None:
        """Notes that what lies before a position has been handed out."""
        self._origin.mark(self, position)

    is_outdated = False  # nothing is ever left out

    def bounds(self, graph: Graph) -> None:
        """Batches are of as many elements as they say."""

    def end(self, graph: Graph) -> int:
        """Behind the last element that has come."""
        return self._end

    def receipts(self, graph: Graph) -> None:
        """None are written."""

    def going_on(self, position: int) -> OriginPass:
        """It is never asked to."""
        raise AssertionError(position)

    def over(self, rest: Rest) -> OriginPass:
        """It is never asked to: there is one rank."""
        raise AssertionError(rest)

    def locate(self, row: int) -> tuple[str, str]:
        """Elements are numbered as they are gathered."""
        return "", f"element {row} of the generators"

    def meeting(self, condition: str) -> NDArray[np.bool_]:
        """There are no conditions."""
        raise AssertionError(condition)

    def chunks(
        self, graph: Graph, budget: Budget, times: PartTimes, lend: Lend | None = None
    ) -> Iterator[Chunk]:
        """One element after the other, in memory of their own."""
        keyed = any(operator.random for operator in graph.operators)
        origin = self._origin
        if self._producers is not None:
            values = self._producers.in_turn() if origin._ordered else self._producers.as_they_come()
        else:
            values = in_turn([made(make, number) for number, make in enumerate(origin._makes)])
        for number, value in enumerate(values):
            self._end = number + 1
            if number < self.start:
                continue
            keys = sample_keys(origin._seed, self.epoch, np.array([number])) if keyed else ()
            yield Chunk([value], (number,), (number + 1,), [number], keys)
            del value


class _Producers:
    """A process for each generator, at most ``ahead`` elements and ``memory`` bytes before what has been taken.

    ``key``: of the pass, for global random generators.
    """

    def __init__(self, makes: Sequence[Make], ahead: int, memory: int, key: int) -> None:
        self._makes, self._ahead, self._memory, self._key = makes, ahead, memory, key
        self._processes: list[Process] = []
        self._taken = [0] * len(makes)

    def start(self) -> None:
        """Starts the processes."""
        for number, make in enumerate(self._makes):
            making = partial(_produce, make, number, self._ahead, self._memory)
            self._processes.append(Process(making, child_key(self._key, number), self._processes))

    def end(self) -> None:
        """Ends the processes, whatever they are at."""
        for process in self._processes:
            process.end()

    def close(self) -> None:
        """Waits until they have ended."""
        for process in self._processes:
            process.join()
        self._processes = []

    def in_turn(self) -> Iterator[Any]:
        """One element of each in turn."""
        return in_turn([self._of(number) for number in range(len(self._processes))])

    def as_they_come(self) -> Iterator[Any]:
        """Whichever is there first."""
        left = {process.channel.socket.fileno(): self._of(n) for n, process in enumerate(self._processes)}
        while left:
            poll = select.poll()
            for fd in left:
                poll.register(fd, select.POLLIN)
            for fd, _ in poll.poll(200) or [(fd, 0) for fd in left if not self._is_alive(fd)]:
                try:
                    value = next(left[fd])
                except StopIteration:
                    del left[fd]
                    continue
                yield value
                del value

    def _is_alive(self, fd: int) -> bool:
        return any(process.alive for process in self._processes if process.channel.socket.fileno() == fd)

    def _of(self, number: int) -> Iterator[Any]:
        process = self._processes[number]
        while True:
            try:
                word, value = process.channel.receive(lambda: process.alive)
                if word == _END:
                    return
                if isinstance(value, Portable):
                    raise value.error()
                with suppress(Ended):  # what it sent before it ended is still to be taken
                    process.channel.say_taken()
            except Ended:
                raise TransformError(
                    f"the process of generator {number} ({function_name(self._makes[number])}) "
                    f"{process.how_it_ended()} at its element {self._taken[number]}"
                ) from None
            self._taken[number] += 1
            yield value
            del value


def _produce(make: Make, number: int, ahead: int, memory: int, channel: Channel) -> None:
    """What the process of a generator does."""
    sent = largest = 0
    try:
        for value in made(make, number):
            largest = max(largest, channel.send(("value", value)))
            del value
            sent += 1
            channel.await_taken(sent - min(ahead, memory // largest))
    except Ended:
        raise
    except Exception as error:
        channel.send(("error", Portable.of(error)))
    else:
        channel.send((_END, None))
    # The memory of what was sent stays until the other side ends this process.
    channel.await_taken(sent + 1)
