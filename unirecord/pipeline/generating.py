"""What generators make: errors say which one it was, and one element of each comes in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..errors import TransformError
from .operators import function_name

__all__ = ["Make", "in_turn", "made"]

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
