"""What is made of one thing after the other, by threads that are ahead of whoever asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from ...core import LeavablePool, result_of

__all__ = ["made_ahead", "taken_ahead"]

_Thing = TypeVar("_Thing")
_Made = TypeVar("_Made")
_END: Final = object()


def made_ahead(
    make: Callable[[_Thing], _Made], things: Iterable[_Thing], threads: int
) -> Iterator[tuple[_Thing, _Made]]:
    """Yield each thing with what ``make`` makes of it, in order; with one thread no other is started.

    ``things`` are taken by the caller's thread, at most ``threads`` more than have been yielded.
    """
    if threads == 1:
        for thing in things:
            yield thing, make(thing)
        return
    pool = LeavablePool(threads, "unirecord-look")
    waiting: deque[tuple[_Thing, Future[_Made]]] = deque()
    try:
        for thing in things:
            waiting.append((thing, pool.submit(make, thing)))
            if len(waiting) > threads:
                first, made = waiting.popleft()
                yield first, result_of(made)
        for first, made in waiting:
            yield first, result_of(made)
    finally:
        pool.leave()


def taken_ahead(things: Iterator[_Thing]) -> Generator[_Thing, None, None]:
    """Yield the same things; while one is in use, a thread takes the next, so that reading and writing overlap."""
    pool = LeavablePool(1, "unirecord-read")
    try:
        coming: Future[Any] = pool.submit(next, things, _END)
        while (thing := result_of(coming)) is not _END:
            coming = pool.submit(next, things, _END)
            yield thing
    finally:
        pool.leave()
