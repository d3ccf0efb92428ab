"""Whose turn it is when several sources take turns by weight: at every prefix each is within one of its share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heappop, heappush
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from .splitmix import splitmix64

__all__ = ["Turns", "whole_weights"]

Numbers = NDArray[np.int64]

MOST_WEIGHT = 1 << 16
_LEAST_TURNS = 4096  # turns in the table: cycles of small weights differ from each other
_DOMAIN = 6
_NO_EPOCH = (1 << 64) - 1


class Turns:
    """An endless sequence of turns that repeats a table: an exact quota sequence of integer weights.

    The table is made of cycles, each of as many turns as the weights add up to. In a cycle draw j of a source of weight
    w of W has one of the places ⌊jW/w⌋ … ⌈(j + 1)W/w⌉ − 1, which is to say that at every prefix its count is less than
    one away from its share (the windows of Pfair scheduling, Baruah et al. 1996; that there is such a sequence is
    Tijdeman's theorem, 1980). Earliest place first finds one; exchanges of neighbours, at random, which keep to the
    places, make each cycle another one, so that ranks that take every N-th turn do not meet the same source each time.
    """

    def __init__(self, weights: Sequence[int], seed: int) -> None:
        total = sum(weights)
        cycles = -(-_LEAST_TURNS // total)
        plain, first, last = _earliest_place_first(weights)
        table = np.concatenate([_exchanged(plain, first, last, seed, cycle) for cycle in range(cycles)])
        self.length: int = len(table)
        self.counts: NDArray[np.int64] = np.array(weights, np.int64) * cycles
        self._source = table.astype(np.min_scalar_type(len(weights)))
        self._within = np.empty(self.length, np.int32)
        self._places: list[Numbers] = []
        for source in range(len(weights)):
            places = np.flatnonzero(table == source)
            self._within[places] = np.arange(len(places))
            self._places.append(places)

    def at(self, turns: Numbers) -> tuple[NDArray[np.unsignedinteger], Numbers]:
        """(whose turn it is, which of its turns from 0) for each of ``turns``."""
        round_, place = np.divmod(turns, self.length)
        source = self._source[place]
        return source, round_ * self.counts[source] + self._within[place]

    def turns_of(self, source: int, draws: Numbers) -> Numbers:
        """The turns at which a source comes for its draws with these numbers; it must have a weight."""
        round_, within = np.divmod(draws, self.counts[source])
        return np.asarray(round_ * self.length + self._places[source][within], np.int64)

    def before(self, source: int, turn: int) -> int:
        """How many turns a source has had before a turn."""
        round_, place = divmod(turn, self.length)
        return round_ * int(self.counts[source]) + int(np.searchsorted(self._places[source], place))


def _earliest_place_first(weights: Sequence[int]) -> tuple[Numbers, Numbers, Numbers]:
    """Whose turn each place of a cycle is, and the first and last place at which that draw may stand."""
    total = sum(weights)
    source, first, last = (np.empty(total, np.int64) for _ in range(3))
    waiting = [(0, s, 0) for s, weight in enumerate(weights) if weight]  # (first place, source, draw)
    ready: list[tuple[int, int, int, int]] = []  # (last place, source, draw, first place)
    for place in range(total):
        while waiting and waiting[0][0] <= place:
            begins, s, draw = heappop(waiting)
            heappush(ready, (-(-(draw + 1) * total // weights[s]) - 1, s, draw, begins))
        ends, s, draw, begins = heappop(ready)
        source[place], first[place], last[place] = s, begins, ends
        if draw + 1 < weights[s]:
            heappush(waiting, ((draw + 1) * total // weights[s], s, draw + 1))
    return source, first, last


def _exchanged(source: Numbers, first: Numbers, last: Numbers, seed: int, cycle: int) -> Numbers:
    """The cycle after one sweep of exchanges between neighbours, each made with a chance of a half."""
    heads = _heads(seed, cycle, len(source) - 1)
    turns, begins, ends = source.tolist(), first.tolist(), last.tolist()
    for place in np.flatnonzero(heads).tolist():
        after = place + 1
        if ends[place] >= after and begins[after] <= place:
            for values in (turns, begins, ends):
                values[place], values[after] = values[after], values[place]
    return np.array(turns, np.int64)


def _heads(seed: int, cycle: int, count: int) -> NDArray[np.bool_]:
    """The highest bits of the first numbers of SplitMix64, from a state that seed and cycle are hashed to."""
    head = np.array([seed, _NO_EPOCH, cycle, _DOMAIN * 256], "<u8").tobytes()
    return np.asarray(splitmix64(xxh3_64(head), np.arange(count, dtype=np.int64)) >> np.uint64(63), np.bool_)


def whole_weights(weights: Sequence[float | Fraction]) -> tuple[int, ...]:
    """The weights as integers of the same proportions, without a common divisor.

    A float is the nearest fraction with a denominator up to 10^9. Weights that would add up to more than 2^16 are
    rounded to add up to that: each down, but to 1 at least if it is more than 0, then those with the largest remainders
    up (or the largest weights down) until the sum is right. ValueError where that would be far from what was asked: a
    weight below 2^-17 of the sum.
    """
    exact = [_exact(weight) for weight in weights]
    total = sum(exact, Fraction(0))
    if min(exact, default=Fraction(0)) < 0 or total <= 0:
        raise ValueError(f"weights are {list(weights)}; they must be ≥ 0, and not all 0")
    denominator = 1
    for weight in exact:
        denominator = denominator * weight.denominator // gcd(denominator, weight.denominator)
    whole = [int(weight * denominator) for weight in exact]
    divisor = gcd(*whole)
    whole = [weight // divisor for weight in whole]
    return tuple(whole if sum(whole) <= MOST_WEIGHT else _rounded([weight / total for weight in exact]))


def _exact(weight: float | Fraction) -> Fraction:
    if isinstance(weight, Fraction):
        return weight
    if isinstance(weight, (bool, str)) or not hasattr(weight, "__float__"):
        raise TypeError(f"a weight is {weight!r}; it must be a number")
    try:
        if hasattr(weight, "__index__"):
            return Fraction(int(weight))
        return Fraction(float(weight)).limit_denominator(10**9)
    except (ValueError, OverflowError):
        raise ValueError(f"a weight is {weight!r}; it must be a finite number") from None


def _rounded(shares: Sequence[Fraction]) -> list[int]:
    scaled = [share * MOST_WEIGHT for share in shares]
    if any(0 < share < Fraction(1, 2) for share in scaled):
        raise ValueError(
            f"a weight is less than 1/{2 * MOST_WEIGHT} of the sum, and weights are kept in {MOST_WEIGHT}ths: "
            "give more, or 0"
        )
    whole = [max(int(share), 1) if share else 0 for share in scaled]
    by_remainder = sorted(range(len(shares)), key=lambda s: (int(scaled[s]) - scaled[s], s))
    for s in by_remainder[: max(MOST_WEIGHT - sum(whole), 0)]:
        whole[s] += 1
    while sum(whole) > MOST_WEIGHT:
        whole[whole.index(max(whole))] -= 1
    return whole
