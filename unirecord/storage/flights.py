"""Requests to object stores until they have their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final

from .store import Store

__all__ = ["Batch", "Call", "Flight", "Read"]

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
        self.flights: list[Flight] = []
        self.done: Future[list[Any]] = Future()


class Flight:
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
