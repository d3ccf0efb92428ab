"""Rows of two datasets by their numbers: which only one of them has, and which both have, read only where need be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .diff_side import Side

__all__ = ["Stretch", "by_number"]

Numbers = NDArray[np.int64]
_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Stretch:
    """What some neighbouring numbers stand for: rows that one alone has, and rows of both that are to be compared."""

    gone: Numbers
    added: Numbers
    both: Numbers


def by_number(a: Side, b: Side) -> Iterator[Stretch]:
    """All rows of both, ascending. What lies in a part that both have, at the same place, is not given: it is equal."""
    most = max(a.parts.rows, b.parts.rows)
    shared = _shared(a, b)
    edges = sorted({0, a.parts.rows, b.parts.rows, most, *(edge for one in shared for edge in one)})
    begins = {first for first, _ in shared}
    whole = a.parts.live is None and b.parts.live is None
    for first, last in pairwise(edges):
        is_shared = first in begins
        if is_shared and whole:
            continue
        for at in range(first, last, _AT_ONCE):
            yield _stretch(a, b, at, min(at + _AT_ONCE, last), is_shared)


def _stretch(a: Side, b: Side, first: int, last: int, is_shared: bool) -> Stretch:
    mine, theirs = a.has(first, last), b.has(first, last)
    found = [mine & ~theirs, theirs & ~mine, np.zeros(0, np.bool_) if is_shared else mine & theirs]
    return Stretch(*(np.flatnonzero(flags).astype(np.int64) + first for flags in found))


def _shared(a: Side, b: Side) -> list[tuple[int, int]]:
    """Numbers [first, last) of the parts that both have at the same place."""
    found = []
    for number, twin in enumerate(a.twins.tolist()):
        first, last = int(a.parts.starts[number]), int(a.parts.starts[number + 1])
        if twin >= 0 and last > first and int(b.parts.starts[twin]) == first:
            found.append((first, last))
    return found
