"""Rows left out on purpose, from a position on: which positions are skipped, and which rows are there instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core import digest_ranges
from .permutation import ShardOrder
from .randomness import scaled, splitmix64
from .selection import Selection
from .spec import JobSteps

__all__ = [
    "Exclusion",
    "Exclusions",
    "ExclusionMask",
    "RankRows",
    "ranges_of",
    "rows_of_ranges",
]


Numbers = NDArray[np.int64]
Mask = NDArray[np.bool_]

_DOMAIN = 9
_MOST_DRAWS = 1 << 16
_DRAWS_AT_ONCE = 1 << 13


@dataclass(frozen=True)
class Exclusion:
    """These rows of the dataset, in ascending order, from position ``since[1]`` of epoch ``since[0]`` on.

    ``fill``: whether another row stands where one of them is left out. ``named`` says in plain values which rows they
    are, for a state.
    """

    rows: Selection
    since: tuple[int, int]
    fill: bool
    named: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for a state."""
        return {"since": list(self.since), "fill": self.fill, **self.named}


@dataclass(frozen=True)
class Exclusions:
    """All that has been left out so far; it is never changed, but replaced."""

    entries: tuple[Exclusion, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.entries)

    def skipped(self, epoch: int, positions: Numbers, rows: Numbers) -> tuple[Mask, Mask]:
        """(which of the rows at these positions, not wrapped, are left out, and which of those are filled)."""
        out, filled = np.zeros((2, len(rows)), np.bool_)
        for entry in self.entries:
            since_epoch, since = entry.since
            if epoch < since_epoch:
                continue
            found = entry.rows.holds(rows)
            if epoch == since_epoch:
                found &= positions >= since
            out |= found
            if entry.fill:
                filled |= found
        return out, filled


class RankRows(NamedTuple):
    """Neighbouring samples of a rank: ``own`` rows by the order, and ``given`` the rows that come there.

    ``out``: the own row is left out. ``there``: a row is given all the same, which is another one where ``out``.
    """

    own: Numbers
    given: Numbers
    out: Mask
    there: Mask


class ExclusionMask:
    """Which rows come in one pass over an epoch, as its steps have them; without ``steps``, of samples one by one.

    It is false where nothing has been left out: then the rows are those of the order.
    A skipped slot stays empty, so that its batch is smaller; or the row of another position of the epoch, drawn for
    it, fills it. That is done where an exclusion says so, and in the first slot of a rank's batch that would be empty
    while the step is not: ranks stay in step.
    """

    def __init__(
        self, exclusions: Exclusions, order: ShardOrder, epoch: int, steps: JobSteps | None = None
    ) -> None:
        self.exclusions = exclusions
        self._order, self._epoch, self._steps = order, epoch, steps
        self._in_epoch: tuple[Numbers, Mask, Numbers] | None = None

    def __bool__(self) -> bool:
        return bool(self.exclusions)

    def rows_at(self, positions: Numbers) -> RankRows:
        """The rows at positions, not wrapped, without a look at batches."""
        own = self._own(positions)
        if not self.exclusions.entries:
            return RankRows(own, own, np.zeros(len(own), np.bool_), np.ones(len(own), np.bool_))
        out, filled = self.exclusions.skipped(self._epoch, positions, own)
        given, places = own, np.flatnonzero(filled)
        if len(places):
            given = own.copy()
            given[places] = self._drawn(positions[places])
        return RankRows(own, given, out, ~out | filled)

    def of_rank(self, first: int, stride: int, start: int, stop: int) -> RankRows:
        """Samples [start, stop) of a pass of a rank that begins at position ``first``; ``start`` begins a batch."""
        positions = first + stride * np.arange(start, stop, dtype=np.int64)
        found = self.rows_at(positions)
        if self._steps is None or found.there.all():
            return found
        size = self._steps.batch_size
        fronts = np.arange(0, stop - start, size)
        empty = fronts[~np.logical_or.reduceat(found.there, fronts)]
        a_step = size * self._steps.sharding.num_shards
        step_of = (positions - self._steps.sharding.start) // a_step
        kept = [front for front in empty.tolist() if not self.is_empty(int(step_of[front]))]
        if kept:
            found = found._replace(given=found.given.copy())
            found.given[kept] = self._drawn(positions[kept])
            found.there[kept] = True
        return found

    def instead(self, positions: Numbers) -> Numbers:
        """The rows that fill skipped slots at positions, not wrapped."""
        return self._drawn(positions)

    def of_step(self, step: int, rank: int | None = None) -> Numbers:
        """The rows that a step gives to all ranks, in the order of positions; or to one."""
        assert self._steps is not None
        places = self._steps.unwrapped(step, rank)
        if not self:
            return self._own(places)
        found = self.rows_at(places)
        if not found.there.all() and not self.is_empty(step):
            rank_of = (places - self._steps.sharding.start) % self._steps.sharding.num_shards
            without = np.setdiff1d(rank_of, rank_of[found.there])
            found = found._replace(given=found.given.copy())
            slots = [int(np.flatnonzero(rank_of == one)[0]) for one in without.tolist()]
            found.given[slots] = self._drawn(places[slots])
            found.there[slots] = True
        return found.given[found.there]

    def is_empty(self, step: int) -> bool:
        """Whether a step gives nothing to any rank, and is passed over."""
        assert self._steps is not None
        places = self._steps.unwrapped(step)
        out, filled = self.exclusions.skipped(self._epoch, places, self._own(places))
        return bool((out & ~filled).all())

    # ---- the whole epoch: time by the rows left out, not by the others --------------------------------------

    def empty_steps(self) -> Numbers:
        """The steps that are passed over, in ascending order."""
        _, filled, step = self._of_epoch()
        numbers, counts = np.unique(step[~filled], return_counts=True)
        assert self._steps is not None
        found = [n for n, c in zip(numbers.tolist(), counts.tolist(), strict=True) if c == self._samples(n)]
        return np.array(found, np.int64)

    def open_slots(self) -> int:
        """How many samples of this rank are left out without others in their place, none of its batches looked at."""
        assert self._steps is not None
        positions, filled, _ = self._of_epoch()
        sharding = self._steps.sharding
        own = (positions - sharding.start) % sharding.num_shards == sharding.shard_id
        return int(np.count_nonzero(own & ~filled))

    def fills(self) -> tuple[Numbers, Numbers]:
        """(positions, not wrapped, of all skipped slots of the pass that are filled, the rows there)."""
        assert self._steps is not None
        positions, filled, step = self._of_epoch()
        empty = np.isin(step, self.empty_steps())
        start, ranks = self._steps.sharding.start, self._steps.sharding.num_shards
        rank = (positions - start) % ranks
        open_, fronts = ~filled & ~empty, np.zeros(len(positions), np.bool_)
        batch, first, counts = np.unique(
            (step * ranks + rank)[open_], return_index=True, return_counts=True
        )  # positions ascend: the first of a batch is its first slot
        most = self._steps.samples(batch % ranks) - batch // ranks * self._steps.batch_size
        whole = counts == np.minimum(most, self._steps.batch_size)
        fronts[np.flatnonzero(open_)[first[whole]]] = True
        there = positions[filled | fronts]
        return there, self._drawn(there)

    def _of_epoch(self) -> tuple[Numbers, Mask, Numbers]:
        """(positions of all skipped slots, ascending, not wrapped; whether an exclusion fills them; their step)."""
        found_before = self._in_epoch
        if found_before is not None:
            return found_before
        steps = self._steps
        assert steps is not None
        start, ranks, size = steps.sharding.start, steps.sharding.num_shards, steps.batch_size
        found = [np.empty(0, np.int64)]
        for entry in self.exclusions.entries:
            for _, rows in entry.rows.pieces():
                _, place = self._order.selection.places(rows)
                wrapped = self._order.positions_of(self._epoch, place)
                _, step, rank, slot = steps.places(wrapped)
                found.append(start + (step * size + slot) * ranks + rank)
        positions = np.unique(np.concatenate(found))
        out, filled = self.exclusions.skipped(self._epoch, positions, self._own(positions))
        positions, filled = positions[out], filled[out]
        self._in_epoch = positions, filled, (positions - start) // (ranks * size)
        return self._in_epoch

    def _samples(self, step: int) -> int:
        assert self._steps is not None
        return len(self._steps.unwrapped(step))

    def _own(self, positions: Numbers) -> Numbers:
        return self._order.rows_at(positions, self._epoch)

    def _drawn(self, positions: Numbers) -> Numbers:
        """Rows that fill skipped slots: of positions drawn one after the other until the row there is not left out."""
        rows = np.zeros(len(positions), np.int64)
        if not len(positions):
            return rows
        samples, spec = self._order.samples, self._order.order(self._epoch).spec
        heads = np.zeros((len(positions), 4), "<u8")
        heads[:, 0], heads[:, 1], heads[:, 2], heads[:, 3] = spec.seed, self._epoch, positions, _DOMAIN * 256
        begins = np.arange(0, heads.nbytes, 32, dtype=np.uint64)
        states = digest_ranges(heads, begins, np.full(len(heads), 32, np.uint64), 0, 0)
        left = np.arange(len(positions))
        first, draws = 0, 1
        while first < _MOST_DRAWS:
            # Several draws of each slot at once where few slots are left: the first that finds a row counts.
            draws = min(draws, max(1, _DRAWS_AT_ONCE // len(left)), _MOST_DRAWS - first)
            z = splitmix64(
                np.repeat(states[left], draws), np.tile(np.arange(first, first + draws), len(left))
            )
            drawn = self._own(scaled(z, samples))
            out, _ = self.exclusions.skipped(self._epoch, np.repeat(positions[left], draws), drawn)
            there = ~out.reshape(-1, draws)
            rows[left] = drawn.reshape(-1, draws)[np.arange(len(left)), there.argmax(axis=1)]
            left = left[~there.any(axis=1)]
            if not len(left):
                return rows
            first, draws = first + draws, draws * 2
        raise ValueError(
            "too few rows are left to fill skipped slots with: nearly all selected rows have been excluded; choose the "
            "others with where= or select() instead"
        )


def ranges_of(rows: Numbers) -> list[list[int]]:
    """Ascending, distinct rows as [first, behind the last] of each run of neighbours."""
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(rows) > 1)
    firsts = rows[np.concatenate([[0], cuts + 1])]
    lasts = rows[np.concatenate([cuts, [len(rows) - 1]])]
    return [[first, last + 1] for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True)]


def rows_of_ranges(ranges: Sequence[Sequence[int]]) -> Numbers:
    """The rows of such ranges."""
    runs = [np.arange(first, stop, dtype=np.int64) for first, stop in ranges]
    return np.concatenate(runs) if runs else np.empty(0, np.int64)
