"""The rest of an epoch in which ranks have come differently far: the same order, with what was delivered in front."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..sizes import many
from .permutation import ShardOrder, Vectorised
from .spec import check_integer

__all__ = ["Rest", "RestOrder", "stepped_ranges"]


Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Rest:
    """Where all ranks took an epoch up: ``start`` of its samples had been delivered.

    ``left`` are the positions that had not, in ascending order, below ``behind``; from there on none had. What follows
    counts places of the epoch in another order: first those delivered, then those left, then all from ``behind`` on.
    So a place says as ever how many samples came before it, and ranks share the places from ``start`` on.
    """

    start: int
    left: Numbers

    @classmethod
    def at(cls, start: int) -> Rest:
        """All before a place has been delivered."""
        return cls(start, np.empty(0, np.int64))

    @classmethod
    def of_state(cls, start: object, ranges: object, samples: int) -> Rest:
        """What a state says of an epoch of so many samples; ValueError where no state does."""
        begin = check_integer("the state's start", start, 0)
        given: list[Numbers] = []
        room = samples - begin
        for one in ranges if isinstance(ranges, Sequence) and not isinstance(ranges, str) else [ranges]:
            if not isinstance(one, Sequence) or len(one) != 3:
                raise ValueError(
                    f"the state's left has {one!r:.100}: it must be [first, behind the last, step]"
                )
            first, stop, step = (check_integer("the state's left", n, 0, 1 << 62) for n in one)
            room -= len(range(first, stop, max(step, 1)))
            if not step or room < 0:
                raise ValueError(
                    f"the state's left has {one!r:.100}, which is not of {many(samples, 'sample')}"
                )
            given.append(np.arange(first, stop, step, dtype=np.int64))
        left = np.unique(np.concatenate(given)) if given else np.empty(0, np.int64)
        rest = cls(begin, left)
        if len(left) != sum(map(len, given)) or (len(left) and left[-1] >= rest.behind):
            raise ValueError("the state's left has a position twice, or one that cannot be left")
        return rest

    @property
    def behind(self) -> int:
        """The position from which on nothing had been delivered."""
        return self.start + len(self.left)

    def positions(self, places: Numbers) -> Numbers:
        """The positions of the epoch at these places."""
        found = np.array(places, np.int64)
        done, left = found < self.start, (found >= self.start) & (found < self.behind)
        found[left] = self.left[found[left] - self.start]
        # left[i] − i delivered positions come before left[i]
        found[done] += np.searchsorted(self.left - np.arange(len(self.left)), found[done], side="right")
        return found

    def places(self, positions: Numbers) -> Numbers:
        """The places of these positions of the epoch."""
        before = np.searchsorted(self.left, positions)
        found = np.where(positions < self.behind, positions - before, positions)
        is_left = np.isin(positions, self.left)
        return np.where(is_left, self.start + before, found)


def stepped_ranges(positions: Numbers, step: int) -> list[list[int]]:
    """Ascending, distinct positions as [first, behind the last, step], few where those of a rank lie ``step`` apart."""
    found: list[list[int]] = []
    for residue in range(step) if len(positions) else ():
        own = positions[positions % step == residue]
        if len(own):
            cuts = np.flatnonzero(np.diff(own) != step) + 1
            firsts, lasts = own[np.append(0, cuts)], own[np.append(cuts - 1, len(own) - 1)]
            found += [
                [first, last + 1, step] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)
            ]
    return found


class _Rearranged(Vectorised):
    """The order of an epoch by the places of its rest."""

    def __init__(self, order: Any, rest: Rest) -> None:
        super().__init__(order.rows, order.spec)
        self._order, self._rest = order, rest

    def _rows_at(self, positions: Numbers) -> Numbers:
        rows: Numbers = self._order.at(self._rest.positions(positions))
        return rows

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its place) for each time that one of them comes."""
        which, positions = self._order.occurrences(rows)
        return which, self._rest.places(positions)


class RestOrder(ShardOrder):
    """An order whose positions are places of the rest of an epoch, the only one that it is asked for."""

    def __init__(self, order: ShardOrder, rest: Rest) -> None:
        super().__init__(order.selection, order.sharding, order.spec, order._part_starts, order.rule)
        self._order, self._rest = order, rest
        self.shuffled = True

    def __reduce__(self) -> tuple[Any, ...]:
        return RestOrder, (self._order, self._rest)

    def draws_at(self, positions: Numbers, drawn: NDArray[np.bool_] | None = None) -> Numbers | None:
        """What tells samples of a row apart is where they stand in the epoch, whoever has come how far."""
        return super().draws_at(self._rest.positions(positions % self.samples), drawn)

    def _made(self, epoch: int) -> Any:
        return _Rearranged(super()._made(epoch), self._rest)
