"""What became of the positions of an epoch, delivered or left out: intervals and residues, never a sort."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

__all__ = ["Coverage", "PositionRange", "Stretch", "coverage", "stretches"]

Numbers = NDArray[np.int64]

_MOST_AT_ONCE = 1 << 22  # positions, or one period of them, that are looked at one by one
_DELIVERED = ""  # beside the reasons for which positions are left out
_MOST_LISTED = 64  # ranges of one period that are named one by one


@dataclass(frozen=True)
class PositionRange:
    """``count`` positions from ``first`` on and below ``stop``: ``stride`` apart, or with 0 scattered between them."""

    first: int
    stop: int
    stride: int
    count: int

    def __str__(self) -> str:
        if self.count == 1:
            return f"{self.first:,}"
        text = f"{self.first:,} … {self.stop - 1:,}"
        if self.stride == 1:
            return text
        return f"{text}, every {_ordinal(self.stride)}" if self.stride else f"{self.count:,} of {text}"


def _ordinal(number: int) -> str:
    ending = "th" if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number:,}{ending}"


@dataclass(frozen=True)
class Stretch:
    """Those positions p of ``first`` … ``stop`` − 1 for which (p − start) mod ``ranks`` is one of ``active``.

    ``active`` is sorted and distinct, None for all; ``start`` is the position at which the pass began.
    """

    first: int
    stop: int
    start: int
    ranks: int
    active: Numbers | None = None

    @property
    def whole(self) -> bool:
        """Whether all positions of it are meant."""
        return self.active is None

    def clipped(self, first: int, stop: int) -> Stretch | None:
        """What of it lies in an interval."""
        first, stop = max(first, self.first), min(stop, self.stop)
        return Stretch(first, stop, self.start, self.ranks, self.active) if first < stop else None

    @property
    def count(self) -> int:
        """How many positions are meant."""
        if self.active is None:
            return self.stop - self.first
        rounds, rest = divmod(self.stop - self.first, self.ranks)
        last = (self.active - (self.first - self.start) % self.ranks) % self.ranks < rest
        return rounds * len(self.active) + int(np.count_nonzero(last))

    def holds(self, positions: Numbers) -> NDArray[np.bool_]:
        """Which of some positions, all of the interval, are meant."""
        if self.active is None:
            return np.ones(len(positions), np.bool_)
        rank = (positions - self.start % self.ranks) % self.ranks
        found = self.active[np.searchsorted(self.active, rank) % len(self.active)]
        return np.asarray(found == rank)


def stretches(
    start: int, ranks: int, rank_of: Numbers, begin: Sequence[int], end: Sequence[int]
) -> Iterator[Stretch]:
    """The positions start + r + i·N of samples begin ≤ i < end of each of some ranks r, in the order of positions."""
    edges = sorted({*begin, *end})
    lower, upper = np.array(begin, object), np.array(end, object)
    in_order = np.argsort(rank_of)
    for low, high in pairwise(edges):
        taking = ((lower <= low) & (upper >= high)).astype(np.bool_)
        active = rank_of[in_order][taking[in_order]]
        if len(active):
            some = None if len(active) == ranks else active
            yield Stretch(start + low * ranks, start + high * ranks, start, ranks, some)


@dataclass(frozen=True)
class Coverage:
    """What has become of some positions; each is in one of these at most, and in none if it was delivered once.

    ``never``: neither delivered nor left out; ``twice``: delivered more often than once; ``left_out``: not delivered,
    by the first reason that it was left out for.
    """

    never: list[PositionRange]
    twice: list[PositionRange]
    left_out: dict[str, list[PositionRange]]


def coverage(
    delivered: Iterable[Stretch], left_out: Mapping[str, Sequence[Stretch]], first: int, stop: int
) -> Coverage:
    """What has become of the positions ``first`` … ``stop`` − 1; ``left_out`` are those left out, by the reason.

    Takes time by the number of stretches and of ranks, not by that of positions. OverflowError where stretches of very
    different numbers of ranks overlap, so that there is no short period to look at.
    """
    by_fate = [(_DELIVERED, delivered), *left_out.items()]
    clipped = [
        (fate, piece)
        for fate, pieces in by_fate
        for piece in (stretch.clipped(first, stop) for stretch in pieces)
        if piece is not None
    ]
    edges = sorted({first, stop, *(p.first for _, p in clipped), *(p.stop for _, p in clipped)})
    begins = sorted(clipped, key=lambda one: one[1].first, reverse=True)
    over: list[tuple[str, Stretch]] = []
    never: list[PositionRange] = []
    twice: list[PositionRange] = []
    gone: dict[str, list[PositionRange]] = {why: [] for why in left_out}
    for low, high in pairwise(edges):
        over = [one for one in over if one[1].stop > low]
        while begins and begins[-1][1].first <= low:
            over.append(begins.pop())
        length = _period([piece for _, piece in over if not piece.whole], low, high)
        times = {fate: np.zeros(length, np.int64) for fate, _ in by_fate}
        for fate, piece in over:
            times[fate] += piece.holds(piece.start % piece.ranks + _residues(piece, low, length))
        left = times[_DELIVERED] == 0
        twice += _ranges(times[_DELIVERED] > 1, low, high)
        for why in left_out:
            here = left & (times[why] > 0)
            gone[why] += _ranges(here, low, high)
            left &= ~here
        never += _ranges(left, low, high)
    return Coverage(_joined(never), _joined(twice), {why: _joined(found) for why, found in gone.items()})


def _period(partial: Sequence[Stretch], low: int, high: int) -> int:
    """How many positions from ``low`` on stand for all: one period of the stretches, or all if there are fewer."""
    length = min(math.lcm(*(piece.ranks for piece in partial)), high - low)
    if length > _MOST_AT_ONCE:
        raise OverflowError(
            f"positions {low:,} … {high - 1:,}: receipts of {sorted({p.ranks for p in partial})} ranks overlap there, "
            f"each of some ranks alone, and no period of less than {_MOST_AT_ONCE:,} positions describes that"
        )
    return length


def _residues(piece: Stretch, low: int, length: int) -> Numbers:
    """Positions from ``low`` on as numbers that are small and equal to them modulo the ranks of a stretch."""
    return np.arange(length, dtype=np.int64) + (low - piece.start) % piece.ranks


def _ranges(mask: NDArray[np.bool_], low: int, high: int) -> list[PositionRange]:
    """The positions that are marked: ``mask`` is one period of them, from ``low`` on."""
    period, length = len(mask), high - low
    if mask.all():
        return [PositionRange(low, high, 1, length)]
    marked = np.flatnonzero(mask)
    if not len(marked):
        return []
    edges = np.flatnonzero(np.diff(marked) > 1) + 1
    if period == length:
        if len(edges) >= _MOST_LISTED:
            return [PositionRange(low + int(marked[0]), low + int(marked[-1]) + 1, 0, len(marked))]
        runs = np.split(marked, edges)
        return [PositionRange(low + int(r[0]), low + int(r[-1]) + 1, 1, len(r)) for r in runs]
    each = [(low + k, -(-(length - k) // period)) for k in marked.tolist()]
    found = [PositionRange(at, at + (count - 1) * period + 1, period, count) for at, count in each]
    if len(found) <= _MOST_LISTED:
        return found
    return [PositionRange(low + int(marked[0]), max(r.stop for r in found), 0, sum(r.count for r in found))]


def _joined(ranges: Iterable[PositionRange]) -> list[PositionRange]:
    """Neighbouring intervals as one."""
    joined: list[PositionRange] = []
    for found in ranges:
        last = joined[-1] if joined else None
        if last is not None and last.stride == found.stride == 1 and last.stop == found.first:
            joined[-1] = PositionRange(last.first, found.stop, 1, last.count + found.count)
        else:
            joined.append(found)
    return joined
