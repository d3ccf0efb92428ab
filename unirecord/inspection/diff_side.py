"""One of two datasets that are compared: its parts, which of its rows are there, and which parts both have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import cached_property
from ..parts.dataset_path import use_snapshot
from ..parts.layouts import same_values
from ..parts.part_set import PartSet

__all__ = ["Side", "opened_sides"]

Numbers = NDArray[np.int64]
_AT_ONCE = 1 << 20  # row numbers


Identity = tuple[Any, ...]  # of a part


@dataclass(frozen=True)
class Side:
    """One of the two.

    Attributes:
        name: its path, as it was given.
        parts: its rows.
        twins: for each of its parts, the number of the part of the other that is the same, or -1.
    """

    name: str
    parts: PartSet
    twins: NDArray[np.int64]

    @cached_property
    def count(self) -> int:
        """How many rows there are."""
        return self.parts.rows if self.parts.live is None else self.parts.live.ones

    def has(self, first: int, last: int) -> NDArray[np.bool_]:
        """Whether there is a row of each number in [first, last)."""
        found = np.zeros(last - first, np.bool_)
        stop = min(last, self.parts.rows)
        if stop > first:
            live = self.parts.live
            found[: stop - first] = (
                True if live is None else live.contains(np.arange(first, stop, dtype=np.int64))
            )
        return found

    def numbers(self) -> Iterator[Numbers]:
        """The numbers of all rows that are there, ascending, some at a time."""
        for first in range(0, self.parts.rows, _AT_ONCE):
            last = min(first + _AT_ONCE, self.parts.rows)
            yield np.flatnonzero(self.has(first, last)).astype(np.int64) + first

    def same_row(self, rows: Numbers, other: Side, others: Numbers) -> NDArray[np.bool_]:
        """Whether rows are stored in a part that the other has as well, and are that row of it: equal, unread."""
        mine = np.searchsorted(self.parts.starts, rows, side="right") - 1
        theirs = np.searchsorted(other.parts.starts, others, side="right") - 1
        within = (rows - self.parts.starts[mine]) == (others - other.parts.starts[theirs])
        result: NDArray[np.bool_] = (self.twins[mine] == theirs) & within
        return result


def opened_sides(first: str, second: str) -> tuple[Side, Side]:
    """Both datasets, opened; whoever has them closes their parts."""
    a = _opened(first)
    try:
        b = _opened(second)
    except BaseException:
        a.close()
        raise
    names = [one.name for one in a.schema if one.name in b.schema and same_values(one, b.schema[one.name])]
    mine, theirs = [[_identity(parts, i, names) for i in range(len(parts))] for parts in (a, b)]
    return Side(first, a, _twins(mine, theirs)), Side(second, b, _twins(theirs, mine))


def _opened(path: str) -> PartSet:
    return use_snapshot(path, lambda snapshot: PartSet(snapshot, knows_deletions=True))


def _identity(parts: PartSet, number: int, names: Sequence[str]) -> Identity:
    """What is equal of two parts only where all of their stored rows are, in the columns of these names.

    How many, and for each column the id and content digest of the file that it lies in, and which column of it it is.
    """
    ref, layouts = parts.snapshot.parts[number], parts.snapshot.layouts
    if not ref.content:  # a part that was named by its own path
        ref = replace(ref, content=parts.part(number).info.content_digest)
    files, ordinals = (ref, *ref.files), [parts.schema.ordinal(name) for name in names]
    places = [layouts[ref.layout - 1].columns[i] if ref.layout else (0, i) for i in ordinals]
    return ref.rows, *((files[file].id, files[file].content, column) for file, column in places or [(0, -1)])


def _twins(mine: list[Identity], theirs: list[Identity]) -> NDArray[np.int64]:
    there: dict[Identity, int] = {}
    for number, part in enumerate(theirs):
        there.setdefault(part, number)
    return np.array([there.get(part, -1) for part in mine], np.int64)
