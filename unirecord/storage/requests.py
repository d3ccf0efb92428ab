"""Requests to object stores: many in flight at once, under one limit for the process, in an event loop of their own."""

from __future__ import annotations

import asyncio
import atexit
import errno
import gc
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

__all__ = ["Call", "MOST_IN_FLIGHT", "Read", "Requests", "requests"]

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


MOST_IN_FLIGHT: Final = (
    256  # requests of this process: what hides 25 ms of latency at 10,000 requests a second
)
_LONG: Final = 1 << 20  # bytes of a request whose time is that of its bytes, not of its latency
_MOST_LONG_BYTES: Final = 128 << 20  # of long requests in flight: more of them but wait for each other
_HEDGED: Final = 16  # of those in flight, one may be a second copy of one that is late
_RENEWALS: Final = 3  # in a row, with which a request gets new credentials
FIRST_WORD_SECONDS = 5.0  # after which a user is told of a store that has never answered
_EXIT_SECONDS: Final = 5.0  # seconds that the client's threads have to leave the interpreter when it ends

_LOG = logging.getLogger("unirecord")


def _awaited(done: Future[list[Any]], process: int) -> Any:
    """What comes of a request that ``process`` has asked for, or the exception that it raises, in any thread."""
    if process != os.getpid():  # nobody is there who would make it come
        raise not_after_fork()
    try:
        return result_of(done)[0]
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
        # Who waits for a place in flight, with the bytes and the requests: short ones overtake long ones.
        self._short: deque[tuple[asyncio.Future[None], int, int]] = deque()
        self._long: deque[tuple[asyncio.Future[None], int, int]] = deque()
        self._running: dict[Future[list[Any]], asyncio.Future[list[Any]]] = {}
        self._long_bytes = 0  # in flight
        self._hedges, self.hedged = 0, 0  # in flight, and made
        self._opening = False
        self._random = Random()
        self._starting, self._ended = Locked(), False
        self._thread = threading.Thread(target=self._run, name="unirecord-requests", daemon=True)
        self._thread.start()

    def all(self, calls: Sequence[Call | Read], stop: Callable[[], None] | None = None) -> list[Any]:
        """What comes of each of the calls, which are made in the loop, or the exception that it raises.

        Waits for all of them; Ctrl-C cancels them, or calls ``stop``, which has them end, and waits until they have.
        """
        if not calls:
            return []
        # Ctrl-C ends the wait of the main thread at any place, after which nothing may be taken any more.
        later = threading.get_ident() == threading.main_thread().ident
        done: Future[list[Any]] = Future()
        try:
            self._submit(done, calls, later)
            answers = result_of(done)
        except CancelledError:
            raise _given_up() from None
        except BaseException:
            self._loop.call_soon_threadsafe(self._leave, done, stop is None)
            if stop is not None:
                stop()
                with suppress(CancelledError):
                    result_of(done)
            raise
        if later:
            for i, call in enumerate(calls):
                answers[i] = call.made_of(answers[i]) if isinstance(call, Read) else answers[i]
        return answers

    def begin(self, calls: Sequence[Read]) -> list[Callable[[], Any]]:
        """Makes requests that nobody waits for yet; what waits for each, and gives what comes of it."""
        begun: list[Future[list[Any]]] = [Future() for _ in calls]
        for done, call in zip(begun, calls, strict=True):
            self._submit(done, [call], False)
        return [partial(_awaited, done, os.getpid()) for done in begun]

    def _submit(self, done: Future[list[Any]], calls: Sequence[Call | Read], later: bool) -> None:
        with self._starting.lock:
            if self._ended:
                done.cancel()
            else:
                self._loop.call_soon_threadsafe(self._begin, done, calls, later)

    # ---- in the loop -------------------------------------------------------------------------------------

    def _begin(self, done: Future[list[Any]], calls: Sequence[Call | Read], later: bool) -> None:
        answers = asyncio.gather(*(self._answer(call, later) for call in calls), return_exceptions=True)
        self._running[done] = answers
        answers.add_done_callback(partial(self._finish, done))

    def _finish(self, done: Future[list[Any]], answers: asyncio.Future[list[Any]]) -> None:
        del self._running[done]
        try:
            done.set_result(answers.result())
        except asyncio.CancelledError:
            done.cancel()

    def _leave(self, done: Future[list[Any]], cancel: bool) -> None:
        """Cancels requests of which nobody wants to know more, or that have not even begun."""
        answers = self._running.get(done)
        if answers is None:
            done.cancel()
        elif cancel:
            answers.cancel()

    async def _answer(self, call: Call | Read, later: bool) -> Any:
        """What comes of a call; of a read what is taken of it, unless that is done later, or the exception."""
        if not isinstance(call, Read):
            await self._place(0, 1)
            return await self._start(call, 0, 1)
        answer = await (self._read(call) if call.store.has_answered else self._first_word(call))
        return answer if later else call.made_of(answer)

    async def _first_word(self, read: Read) -> Any:
        """The same of a store that has not answered yet: it is told of, and given up where it says nothing at all."""
        store = read.store
        reading = self._loop.create_task(self._read(read))
        try:
            await asyncio.wait([reading], timeout=min(FIRST_WORD_SECONDS, store.contact))
            if not (reading.done() or store.has_answered or store.is_told_of):
                store.is_told_of = True
                why = f": {in_short(store.error)}" if store.error is not None else ""
                seconds = store.retries.patience if store.is_reached else store.contact
                _LOG.warning(
                    "%s has given no answer yet, and is asked for %.0f s in all (is the endpoint right?)%s",
                    store.root, seconds, why,
                )  # fmt: skip
            await asyncio.wait([reading], timeout=max(0.0, store.contact - FIRST_WORD_SECONDS))
            if not (reading.done() or store.is_reached):
                return store.error or TimeoutError(f"it has not answered within {store.contact:.0f} s")
            return await reading
        finally:
            reading.cancel()

    async def _read(self, read: Read) -> Any:
        """What comes of a request by as many attempts as its store's retries allow, or the exception of the last."""
        store, attempts, renewals, until = read.store, 0, 0, 0.0
        while True:
            if store.budget is not None:
                await asyncio.sleep(store.budget.wait(self._loop.time()))
            try:
                client = store.once
            except Exception as error:
                return error
            await self._place(read.size, read.count)
            until = until or self._loop.time() + store.retries.patience
            answer = await self._attempt(read, client, attempts)
            if not isinstance(answer, BaseException):
                return answer
            store.error = answer
            attempts += 1
            verdict = verdict_of(answer)
            if verdict == "renew" and store.has_answered and renewals < _RENEWALS:
                renewals += 1
                store.renew(client)
            elif verdict in ("final", "renew"):
                return answer
            pause = store.retries.pause(attempts, self._random)
            if read.count > 1 or attempts > store.retries.most or self._loop.time() + pause > until:
                return answer
            await asyncio.sleep(pause)

    async def _attempt(self, read: Read, client: Any, failed: int) -> Any:
        """What the client gives, or the exception: of one request, or of two, where the first one is late."""
        store, ask = read.store, partial(read.ask, client)
        copies = {self._start(ask, read.size, read.count): self._loop.time()}
        # What has a budget is not asked for twice.
        late = None if store.budget is not None else self._late(read)
        hedged, answer = 0, None
        try:
            while copies:
                done, _ = await asyncio.wait(copies, timeout=late, return_when=asyncio.FIRST_COMPLETED)
                now = self._loop.time()
                if not done and self._hedges <= self._pace.in_flight // _HEDGED and self._pace.may_start(now):
                    hedged, late = 1, None
                    self._hedges += 1
                    self.hedged += 1
                    self._count(read.size, read.count)
                    copies[self._start(ask, read.size, read.count)] = now
                for copy in done:
                    began, error = copies.pop(copy), copy.exception()
                    store.is_reached |= error is None or not is_silence(error)
                    if error is None:
                        store.has_answered = True
                        self._pace.succeeded()
                        self.durations.note(read.size, now - began, read.count)
                        return copy.result()
                    answer, verdict = error, verdict_of(error)
                    if verdict == "slower":
                        self._pace.was_too_much(began, now, store.retries.pause(failed + 1, self._random))
                    elif verdict == "final":
                        return answer
            return answer
        finally:
            self._hedges -= hedged
            for copy in copies:
                copy.cancel()

    def _late(self, read: Read) -> float:
        """Seconds after which a request is late."""
        return max(STALLED if self._pace.is_cut else 0.0, self.durations.long(read.size, read.count))

    async def _place(self, size: int, count: int) -> None:
        """Waits until one more may be in flight, behind those that came before."""
        place: asyncio.Future[None] = self._loop.create_future()
        (self._long if size >= _LONG else self._short).append((place, size, count))
        self._give_places()
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self._count(size, count, -1)
            raise

    def _give_places(self) -> None:
        pace, now = self._pace, self._loop.time()
        while pace.may_start(now) and (self._short or (self._long and self._long_bytes < _MOST_LONG_BYTES)):
            place, size, count = (self._short or self._long).popleft()
            if not place.cancelled():
                self._count(size, count)
                place.set_result(None)
        if (self._short or self._long) and now < pace.closed_until and not self._opening:
            self._opening = True
            self._loop.call_at(pace.closed_until, self._open_again)

    def _open_again(self) -> None:
        self._opening = False
        self._give_places()

    def _count(self, size: int, count: int, sign: int = 1) -> None:
        self._pace.in_flight += sign * count
        if size >= _LONG:
            self._long_bytes += sign * size

    def _start(self, ask: Call, size: int, count: int) -> asyncio.Future[Any]:
        """Asks, in a place that has been counted, which is given up with the answer."""
        asked: asyncio.Future[Any]
        try:
            asked = asyncio.ensure_future(ask(), loop=self._loop)
        except Exception as error:
            asked = self._loop.create_future()
            asked.set_exception(error)
        asked.add_done_callback(partial(self._leave_place, size, count))
        return asked

    def _leave_place(self, size: int, count: int, asked: asyncio.Future[Any]) -> None:
        self._count(size, count, -1)
        self._give_places()

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
            gc.collect()  # what was cancelled holds its futures, in circles
            let_go()
            time.sleep(0.001)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _cancel_all(self) -> None:
        running = list(self._running.values())
        for answers in running:
            answers.cancel()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*running, *tasks, return_exceptions=True)


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
