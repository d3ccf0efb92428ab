"""Requests to object stores: many in flight at once, under one limit for the process, in an event loop of their own."""

from __future__ import annotations

import asyncio
import atexit
import errno
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any, Final

from ..core import Locked, WeakObjects, result_of
from .pacing import STALLED, Durations, InFlightLimit
from .store import Store, in_short, is_silence, let_go, not_after_fork, verdict_of

__all__ = [
    "Batch",
    "Call",
    "InFlight",
    "MOST_IN_FLIGHT",
    "Read",
    "Requests",
    "requests",
]


# Requests to object stores until they have their answers.


_LONG: Final = 1 << 20  # bytes of a request whose time is that of its bytes, not of its latency

Call = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Read:
    """A request that may be made several times: ``ask`` of a client of ``store``, for about ``size`` bytes.

    Several requests by one call of the client are ``count``: when one of them fails, that is their answer. ``take``:
    called with the answer once, as soon as that is there; what it returns is the answer. In the loop, so that what came
    can go at once: memory that is held until all of a batch is there has to be got from the system each time.
    """

    store: Store
    ask: Callable[[Any], Awaitable[Any]]
    size: int
    count: int = 1
    take: Callable[[Any], Any] | None = None

    def made_of(self, answer: Any) -> Any:
        """What is taken of an answer, or the exception that this raises; exceptions stay what they are."""
        if self.take is None or isinstance(answer, BaseException):
            return answer
        try:
            return self.take(answer)
        except Exception as error:
            return error


class Batch:
    """Requests that are waited for together.

    ``takes_later``: answers are taken by the thread that waits, when all have come. It must be so in the main thread,
    where Ctrl-C ends the wait at any place, after which nothing may be taken any more.
    """

    def __init__(self, count: int, *, takes_later: bool = False) -> None:
        self.takes_later = takes_later
        self.answers: list[Any] = [None] * count
        self.left = count
        self.in_flight: list[InFlight] = []
        self.done: Future[list[Any]] = Future()


class InFlight:
    """A request until it has its answer: the copies of it that are on their way, and how often it has failed."""

    batch: Batch
    number: int
    began: float
    first: float
    error: BaseException | None

    __slots__ = (
        *("attempts", "batch", "began", "call", "client", "copies", "count"),
        *("done", "error", "first", "hedged", "is_long", "number", "renewals", "store"),
    )

    def __init__(self, batch: Batch, number: int, call: Call | Read) -> None:
        self.batch, self.number = batch, number
        self.call: Call | Read = call
        self.store: Store | None = call.store if isinstance(call, Read) else None
        self.count: int = call.count if isinstance(call, Read) else 1
        self.copies: dict[asyncio.Future[Any], float] = {}
        self.client: Any = None  # that it was last asked of
        self.attempts = self.renewals = 0
        self.began = self.first = 0.0  # this attempt, and the first one
        self.error = None  # of the last attempt
        self.hedged = self.done = False
        self.is_long: bool = isinstance(call, Read) and call.size >= _LONG


MOST_IN_FLIGHT: Final = (
    256  # requests of this process: what hides 25 ms of latency at 10,000 requests a second
)
_MOST_LONG_BYTES: Final = 128 << 20  # of long requests in flight: more of them but wait for each other
_HEDGED: Final = 16  # of those in flight, one may be a second copy of one that is late
_LEAST_LOOK: Final = 0.005  # seconds between two looks for late ones
_RENEWALS: Final = 3  # in a row, with which a request gets new credentials
FIRST_WORD_SECONDS = 5.0  # after which a user is told of a store that has never answered
_EXIT_SECONDS: Final = 5.0  # seconds that the client's threads have to leave the interpreter when it ends

_LOG = logging.getLogger("unirecord")


def _awaited(batch: Batch, process: int) -> Any:
    """What comes of a request that ``process`` has asked for, or the exception that it raises, in any thread."""
    if process != os.getpid():  # nobody is there who would make it come
        raise not_after_fork()
    try:
        return result_of(batch.done)[0]
    except CancelledError:
        return _given_up()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that knows the futures made in it which somebody still holds, as the client's threads do.

    Such a thread lets its future go when it is done with Python, also where the request was cancelled. One that is
    in Python when the interpreter ends is ended there, at its next wait for the GIL, which aborts a process that
    is not written in C.
    """

    def __init__(self) -> None:
        super().__init__()
        self.held: WeakObjects[asyncio.Future[Any]] = WeakObjects()

    def create_future(self) -> asyncio.Future[Any]:
        """One more."""
        made = super().create_future()
        self.held.add(made)
        return made


class Requests:
    """Waits for stores on behalf of any thread; one for each process.

    Those that fail by the store's fault are made again; those that are late are made a second time, beside the first.
    """

    durations: Durations
    hedged: int

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = _Loop()
        self._pace, self.durations = InFlightLimit(MOST_IN_FLIGHT), Durations()
        self._queue: deque[InFlight] = deque()
        self._long: deque[InFlight] = deque()  # of which fewer are in flight, and which short ones overtake
        self._flying: dict[InFlight, None] = {}  # that may be late, the oldest first
        self._batches: set[Batch] = set()
        self._long_bytes = 0  # in flight
        self._hedges, self.hedged = 0, 0  # in flight, and made
        self._looking = self._opening = False
        self._random = Random()
        self._starting, self._ended = Locked(), False
        self._thread = threading.Thread(target=self._run, name="unirecord-requests", daemon=True)
        self._thread.start()

    def all(self, calls: Sequence[Call | Read], stop: Callable[[], None] | None = None) -> list[Any]:
        """What comes of each of the calls, which are made in the loop, or the exception that it raises.

        Waits for all of them; Ctrl-C cancels them, or calls ``stop``, which has them end, and waits until they have.
        """
        later = threading.get_ident() == threading.main_thread().ident
        batch = Batch(len(calls), takes_later=later)
        if not calls:
            return []
        try:
            with self._starting.lock:
                if self._ended:
                    raise CancelledError
                self._loop.call_soon_threadsafe(self._begin, batch, calls)
            answers = result_of(batch.done)
        except CancelledError:
            raise _given_up() from None
        except BaseException:
            self._loop.call_soon_threadsafe(self._leave, batch, stop is None)
            if stop is not None:
                stop()
                with suppress(CancelledError):
                    result_of(batch.done)
            raise
        if later:
            for i, call in enumerate(calls):
                answers[i] = call.made_of(answers[i]) if isinstance(call, Read) else answers[i]
        return answers

    def begin(self, calls: Sequence[Read]) -> list[Callable[[], Any]]:
        """Makes requests that nobody waits for yet; what waits for each, and gives what comes of it."""
        batches = [Batch(1) for _ in calls]
        with self._starting.lock:
            for batch, call in zip(batches, calls, strict=True):
                if self._ended:
                    batch.done.cancel()
                else:
                    self._loop.call_soon_threadsafe(self._begin, batch, [call])
        return [partial(_awaited, batch, os.getpid()) for batch in batches]

    # ---- in the loop -------------------------------------------------------------------------------------

    def _begin(self, batch: Batch, calls: Sequence[Call | Read]) -> None:
        if self._ended:
            batch.done.cancel()
            return
        now = self._loop.time()
        self._batches.add(batch)
        batch.in_flight = [InFlight(batch, number, call) for number, call in enumerate(calls)]
        for flight in batch.in_flight:
            self._queue_in_time(flight, 0.0, now)
        self._start_waiting()

    def _queue_in_time(self, flight: InFlight, pause: float, now: float) -> None:
        """Puts a request in the queue, after a pause, and when its budget allows it."""
        budget = None if flight.store is None else flight.store.budget
        wait = pause if budget is None else max(pause, budget.wait(now))
        if wait <= 0:
            self._queue_of(flight).append(flight)
        else:
            self._loop.call_later(wait, self._queue_now, flight)

    def _queue_now(self, flight: InFlight) -> None:
        self._queue_of(flight).append(flight)
        self._start_waiting()

    def _queue_of(self, flight: InFlight) -> deque[InFlight]:
        return self._long if flight.is_long else self._queue

    def _start_waiting(self) -> None:
        if self._ended:
            return
        pace, now = self._pace, self._loop.time()
        while self._queue and pace.may_start(now):
            flight = self._queue.popleft()
            if not flight.done:
                self._start(flight, now)
        while self._long and self._long_bytes < _MOST_LONG_BYTES and pace.may_start(now):
            flight = self._long.popleft()
            if not flight.done:
                self._start(flight, now)
        if (self._queue or self._long) and now < pace.closed_until and not self._opening:
            self._opening = True
            self._loop.call_at(pace.closed_until, self._open_again)

    def _open_again(self) -> None:
        self._opening = False
        self._start_waiting()

    def _start(self, flight: InFlight, now: float) -> None:
        call = flight.call
        copy: asyncio.Future[Any]
        try:
            if isinstance(call, Read):
                flight.client = call.store.once
                asked = call.ask(flight.client)
            else:
                asked = call()
            copy = asyncio.ensure_future(asked, loop=self._loop)
        except Exception as error:
            copy = self._loop.create_future()
            copy.set_exception(error)
        flight.copies[copy] = now
        self._pace.in_flight += flight.count
        self._long_bytes += call.size if flight.is_long else 0  # type: ignore[union-attr]
        copy.add_done_callback(partial(self._landed, flight))
        if isinstance(call, Read) and not flight.hedged:
            flight.began = now
            if not flight.first:
                flight.first = now
                self._expect_first_word(flight, call.store)
            self._flying[flight] = None
            if not self._looking:
                self._looking = True
                self._loop.call_later(_LEAST_LOOK, self._look)

    def _landed(self, flight: InFlight, copy: asyncio.Future[Any]) -> None:
        began, now = flight.copies.pop(copy), self._loop.time()
        self._pace.in_flight -= flight.count
        self._long_bytes -= flight.call.size if flight.is_long else 0  # type: ignore[union-attr]
        error = asyncio.CancelledError() if copy.cancelled() else copy.exception()
        if flight.store is not None and not copy.cancelled() and (error is None or not is_silence(error)):
            flight.store.is_reached = True
        if flight.done:
            pass
        elif error is None:
            self._pace.succeeded()
            if flight.store is not None:
                flight.store.has_answered = True
                self.durations.note(flight.call.size, now - began, flight.count)  # type: ignore[union-attr]
            later = flight.batch.takes_later or flight.store is None
            self._finish(flight, copy.result() if later else flight.call.made_of(copy.result()))  # type: ignore[union-attr]
        elif copy.cancelled() or flight.store is None:
            self._finish(flight, error)
        else:
            self._failed(flight, flight.store, error, began, now)
        self._start_waiting()

    def _failed(self, flight: InFlight, store: Store, error: BaseException, began: float, now: float) -> None:
        """Has the request made again, unless another copy is on its way, or it is no use."""
        verdict, flight.error = verdict_of(error), error
        if verdict == "slower":
            self._pace.was_too_much(began, now, store.retries.pause(flight.attempts + 1, self._random))
        if flight.copies and verdict != "final":
            return
        if flight.count > 1:
            self._finish(flight, error)
            return
        flight.attempts += 1
        if verdict == "renew":
            flight.renewals += 1
            if store.has_answered and flight.renewals <= _RENEWALS:
                store.renew(flight.client)
            else:
                verdict = "final"
        pause = store.retries.pause(flight.attempts, self._random)
        waited = now - flight.first
        if (
            verdict == "final"
            or flight.attempts > store.retries.most
            or waited + pause > store.retries.patience
        ):
            self._finish(flight, error)
            return
        self._grounded(flight)
        self._queue_in_time(flight, pause, now)

    def _expect_first_word(self, flight: InFlight, store: Store) -> None:
        """Has a store told of that gives no answer at first, and the request given up where it says nothing at all."""
        if not store.has_answered:
            self._loop.call_later(FIRST_WORD_SECONDS, self._tell_of_wait, flight, store)
        if not store.is_reached:
            self._loop.call_later(store.contact, self._end_silence, flight, store)

    def _tell_of_wait(self, flight: InFlight, store: Store) -> None:
        if flight.done or store.has_answered or store.is_told_of:
            return
        store.is_told_of = True
        why = f": {in_short(flight.error)}" if flight.error is not None else ""
        seconds = store.retries.patience if store.is_reached else store.contact
        _LOG.warning(
            "%s has given no answer yet, and is asked for %.0f s in all (is the endpoint right?)%s",
            store.root, seconds, why,
        )  # fmt: skip

    def _end_silence(self, flight: InFlight, store: Store) -> None:
        if not flight.done and not store.is_reached:
            silent = TimeoutError(f"it has not answered within {store.contact:.0f} s")
            self._finish(flight, flight.error or silent)
            self._start_waiting()

    def _finish(self, flight: InFlight, answer: Any) -> None:
        flight.done = True
        self._grounded(flight)
        for copy in list(flight.copies):
            copy.cancel()
        batch = flight.batch
        batch.answers[flight.number] = answer
        batch.left -= 1
        if not batch.left:
            self._batches.discard(batch)
            batch.done.set_result(batch.answers)

    def _grounded(self, flight: InFlight) -> None:
        self._flying.pop(flight, None)
        if flight.hedged:
            flight.hedged = False
            self._hedges -= 1

    def _leave(self, batch: Batch, cancel: bool) -> None:
        """Cancels requests of which nobody wants to know more, or that have not even begun."""
        if not batch.in_flight:
            batch.done.cancel()
        for flight in batch.in_flight if cancel else ():
            if not flight.done:
                self._finish(flight, None)

    # ---- late ones ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Makes requests that are late a second time: whichever copy comes first is the answer."""
        if self._ended:
            return
        now, soonest, least = self._loop.time(), 1.0, STALLED if self._pace.is_cut else 0.0
        for flight in list(self._flying):
            if flight.hedged or flight.store is None or flight.store.budget is not None:
                continue
            left = flight.began + max(least, self.durations.long(flight.call.size, flight.count)) - now  # type: ignore[union-attr]
            if left > 0:
                soonest = min(soonest, left)
            elif self._hedges <= self._pace.in_flight // _HEDGED and self._pace.may_start(now):
                flight.hedged = True
                self._hedges += 1
                self.hedged += 1
                self._start(flight, now)
        self._looking = bool(self._flying)
        if self._looking:
            self._loop.call_later(max(_LEAST_LOOK, soonest / 2), self._look)

    # ---- its end -----------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def stop(self) -> None:
        """Ends the requests in flight and the thread: the client's own threads must not outlive the interpreter."""
        if self._process != os.getpid() or not self._thread.is_alive():
            return
        with self._starting.lock:
            self._ended = True
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result()
        until = time.monotonic() + _EXIT_SECONDS
        while len(self._loop.held) and time.monotonic() < until:
            let_go()
            time.sleep(0.001)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _cancel_all(self) -> None:
        copies = []
        for batch in list(self._batches):
            batch.done.cancel()
            for flight in batch.in_flight:
                flight.done = True
                copies += list(flight.copies)
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


def _given_up() -> ConnectionAbortedError:
    return ConnectionAbortedError(errno.ECONNABORTED, "it was given up, because the process ends")


_made: list[Requests] = []
_making = Locked()


def requests() -> Requests:
    """Those of this process. UniRecordError in a fork of a process that has made requests: its client died there."""
    if not _made:
        with _making.lock:
            if not _made:
                made = Requests()
                atexit.register(made.stop)  # before it can be used: an interrupt may come between
                _made.append(made)
    if _made[0]._process != os.getpid():
        raise not_after_fork()
    return _made[0]
