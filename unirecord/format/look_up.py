"""Which rows have a value, by its hash: entries that ascend as hashes do, so that a hash says where to look.

Of n entries one with the hash h stands at about n * h / 2^64. How far from there is how far so many independent draws
stray: sqrt(n) / 2 places in two cases of three.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import isqrt
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from ..core import xxh3_64
from .sketches import Hashes, hashes_of_numbers

__all__ = ["LEAST_ROWS", "LookUp", "entries_of", "hash_of", "in_order"]

LEAST_ROWS: Final = (
    65_536  # parts of no more have none: all that a search reads of them comes by a request or two
)
_SPREADS: Final = 6  # of places that are read to either side: a value is not among them once in 10^9 columns
_HASHES: Final = 1 << 64


def _row_bits(rows: int) -> int:
    return max((rows - 1).bit_length(), 1)


def entries_of(hashes: Hashes, numbers: npt.NDArray[np.int64], rows: int) -> Hashes:
    """The entries of the rows of these numbers, whose values have these hashes; in a part of so many rows."""
    low = np.uint64((1 << _row_bits(rows)) - 1)
    entries: Hashes = hashes & ~low | numbers.astype(np.uint64)
    return entries


def in_order(entries: Callable[[], Iterator[Hashes]], count: int, limit: int) -> Iterator[Hashes]:
    """All of ``count`` entries in ascending order, some at a time: about ``limit`` are in memory at once."""
    ranges = max(-(-count * 5 // (limit * 4)), 1)  # so many that few hold more than they may
    edges = [_HASHES * number // ranges for number in range(ranges + 1)]
    waiting = list(pairwise(edges))[::-1]
    while waiting:
        low, high = waiting.pop()
        kept: list[Hashes] = []
        found = 0
        for some in entries():
            inside = some[(some >= np.uint64(low)) & (some <= np.uint64(high - 1))]
            found += len(inside)
            if found > limit:  # of a value that many rows have
                break
            kept.append(inside)
        if found > limit:
            middle = (low + high) // 2
            waiting += [(middle, high), (low, middle)]
        elif found:
            yield np.sort(np.concatenate(kept))


def hash_of(value: Any, dtype: np.dtype[Any] | None) -> int | None:
    """The hash of a value as it is stored, of strings without a ``dtype``; None where the type has no such value."""
    if dtype is None:
        return xxh3_64(value)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            stored = np.array([value], dtype)
        return int(hashes_of_numbers(stored)[0]) if float(stored[0]) == value else None
    try:
        return xxh3_64(value.to_bytes(dtype.itemsize, "little", signed=dtype.kind == "i"))
    except OverflowError:
        return None


class _Entries(Protocol):
    """The entries of a column, each checked where it is read."""

    def __len__(self) -> int: ...
    def span(self, start: int, stop: int) -> Any: ...
    def one(self, place: int) -> Any: ...


class LookUp:
    """The look-up of a column in a part of so many rows."""

    def __init__(self, entries: _Entries, rows: int) -> None:
        self._entries = entries
        self._low = (1 << _row_bits(rows)) - 1
        self._around = _SPREADS * (isqrt(len(entries)) + 1) // 2

    def rows(self, hashed: int) -> list[int]:
        """The rows whose value may have this hash, ascending; those that have it are among them."""
        entries, count = self._entries, len(self._entries)
        low, high = hashed & ~self._low, hashed | self._low
        guess = count * hashed >> 64
        start, stop = max(guess - self._around, 0), min(guess + self._around, count)
        some = entries.span(start, stop)
        first, after = some.searchsorted(np.uint64(low)), some.searchsorted(np.uint64(high), "right")
        if (first == 0 and start > 0) or (after == len(some) and stop < count):
            # they begin or end elsewhere: many rows have one value
            places = range(count)
            first = bisect_left(places, low, key=entries.one)
            after = count if high == _HASHES - 1 else bisect_left(places, high + 1, key=entries.one)
            some, first, after = entries.span(first, after), 0, max(after - first, 0)
        return [entry & self._low for entry in some[first:after].tolist()]
