"""Turns of a mixture by lengths: each source has its share of elements at every prefix, however long its samples."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["LengthTurns", "Lengths", "kept", "runs", "samples_by_length"]

Numbers = NDArray[np.int64]
Key = TypeVar("Key")
Kept = TypeVar("Kept")
Place = TypeVar("Place", int, Numbers)

TICKS = 1 << 16  # of a place, for one element of a weight of 1
_MOST_BLOCK = 1 << 16  # turns that are found together, of few samples about as many
_MOST_PLACE = 1 << 61
_KEPT = 4  # epochs of a source, and blocks of turns


class Lengths:
    """The elements of the samples of a source, over all of its epochs, each of which has all samples once."""

    def __init__(self, lengths: NDArray[np.unsignedinteger], places_of: Callable[[int], Numbers]) -> None:
        """``lengths``: by place; ``places_of``: the places of an epoch, in its order."""
        self._lengths, self._places_of = lengths, places_of
        self.samples: int = len(lengths)
        self.total: int = int(lengths.sum(dtype=np.int64))
        self._epochs: OrderedDict[int, tuple[Numbers, Numbers]] = OrderedDict()

    def _epoch(self, epoch: int) -> tuple[Numbers, Numbers]:
        """Of each draw of an epoch its length, and twice the number of elements before its middle."""

        def made() -> tuple[Numbers, Numbers]:
            own = self._lengths[self._places_of(epoch)].astype(np.int64)
            return own, 2 * np.cumsum(own) - own

        return kept(self._epochs, epoch, made)

    def middles(self, draws: Numbers) -> Numbers:
        """Twice the number of elements before the middle of each draw."""
        epochs, within = np.divmod(draws, self.samples)
        found = 2 * self.total * epochs
        for some in runs(epochs):
            found[some] += self._epoch(int(epochs[some][0]))[1][within[some]]
        return found

    def begin(self, draw: int) -> int:
        """Twice the number of elements before a draw."""
        epoch, within = divmod(draw, self.samples)
        own, middles = self._epoch(epoch)
        return 2 * self.total * epoch + int(middles[within] - own[within])

    def below(self, ends: Numbers) -> Numbers:
        """How many draws have their middle before each of these, which count twice the elements."""
        epochs = np.maximum(ends - 1, 0) // (2 * self.total)
        found = epochs * self.samples
        for some in runs(epochs):
            epoch = int(epochs[some][0])
            rest = ends[some] - 2 * self.total * epoch
            found[some] += np.searchsorted(self._epoch(epoch)[1], rest)
        return found

    def count(self, end: int) -> int:
        """``below`` of one."""
        epoch = max(end - 1, 0) // (2 * self.total)
        rest = end - 2 * self.total * epoch
        return epoch * self.samples + int(np.searchsorted(self._epoch(epoch)[1], rest))

    def most(self, end: int) -> int:
        """What ``count`` says at most; it is less by an epoch at most."""
        return (max(end - 1, 0) // (2 * self.total) + 1) * self.samples


class LengthTurns:
    """The turns of some weights of elements, by the places of the middles of draws: those from ``begun`` on of each.

    The place of a draw is the number of elements before its middle, of its source since these turns began, for its
    weight: where sources are read at the rates of their weights, all come to a place at once. Of equal ones the first
    source comes first.
    """

    def __init__(self, sources: Sequence[Lengths], weights: Sequence[int], begun: Sequence[int]) -> None:
        scale = TICKS // sum(weights)
        self._sources = [
            (s, of, weight * scale)
            for s, (of, weight) in enumerate(zip(sources, weights, strict=True))
            if weight
        ]
        self.begun: list[int] = list(begun)
        self._first = {s: of.begin(begun[s]) for s, of, _ in self._sources}
        self._block = min(_MOST_BLOCK, max(64, sum(of.samples for of in sources)))
        self._blocks: OrderedDict[int, tuple[Numbers, Numbers]] = OrderedDict()

    def has(self, source: int) -> bool:
        """Whether a source comes at all."""
        return source in self._first

    def at(self, turns: Numbers) -> tuple[Numbers, Numbers]:
        """(source, which of its draws) of each turn."""
        source, draw = np.empty(len(turns), np.int64), np.empty(len(turns), np.int64)
        blocks, within = np.divmod(turns, self._block)
        for some in runs(blocks):
            found = self._turns(int(blocks[some][0]))
            source[some], draw[some] = found[0][within[some]], found[1][within[some]]
        return source, draw

    def _turns(self, block: int) -> tuple[Numbers, Numbers]:
        size = self._block
        return kept(
            self._blocks,
            block,
            lambda: self._between(self.split(block * size), self.split((block + 1) * size)),
        )

    def _places(self, source: int, of: Lengths, weight: int, draws: Numbers) -> Numbers:
        whole, rest = np.divmod(of.middles(draws) - self._first[source], weight)
        return np.asarray(whole * TICKS + rest * TICKS // weight, np.int64)

    def _end(self, source: int, weight: int, place: Place) -> Place:
        """The elements, twice, that a source has at a place; a draw stands before it if its middle is before these."""
        whole, rest = divmod(place, TICKS)
        return self._first[source] + whole * weight - -rest * weight // TICKS

    def _counts(self, place: int) -> list[int]:
        """How many draws each source has had before a place, over all its turns."""
        found = list(self.begun)
        for s, of, weight in self._sources:
            found[s] = max(of.count(self._end(s, weight, place)), found[s])
        return found

    def _most(self, place: int) -> int:
        return sum(
            max(of.most(self._end(s, weight, place)) - self.begun[s], 0) for s, of, weight in self._sources
        )

    def split(self, turn: int) -> list[int]:
        """How many draws each source has had before one of these turns, over all its turns."""
        before = sum(self.begun)
        # The arithmetic of whole epochs says about where, so that no epochs elsewhere are looked at.
        epochs = sum(of.samples for _, of, _ in self._sources)
        every = range(_MOST_PLACE)
        low = max(bisect_left(every, turn, key=self._most) - 1, 0)
        high = bisect_left(every, turn + 1 + epochs, key=self._most)
        if high == _MOST_PLACE:
            raise ValueError(f"turn {turn} of a mixture by lengths lies behind element 2^60")
        place = bisect_left(every, turn + 1, low, high, key=lambda at: sum(self._counts(at)) - before) - 1
        found, later = self._counts(place), self._counts(place + 1)
        left = turn + before - sum(found)
        for s, _, _ in self._sources:
            some = min(left, later[s] - found[s])
            found[s] += some
            left -= some
        return found

    def _between(self, first: Sequence[int], end: Sequence[int]) -> tuple[Numbers, Numbers]:
        """(source, which of its draws) of all turns between two splits."""
        draws = [np.arange(first[s], end[s], dtype=np.int64) for s, _, _ in self._sources]
        places = [
            self._places(s, of, weight, some)
            for (s, of, weight), some in zip(self._sources, draws, strict=True)
        ]
        in_turn = np.argsort(np.concatenate(places), kind="stable")
        of_source = np.repeat([s for s, _, _ in self._sources], [len(some) for some in draws])
        return of_source[in_turn], np.concatenate(draws)[in_turn]

    def turns_of(self, source: int, draws: Numbers) -> Numbers:
        """The turns at which a source has these draws; it must have a weight."""
        mine = next((of, weight) for s, of, weight in self._sources if s == source)
        places = self._places(source, *mine, draws)
        turns = draws - self.begun[source]
        for s, of, weight in self._sources:
            if s != source:
                before = of.below(self._end(s, weight, places + (s < source)))
                turns = turns + np.maximum(before - self.begun[s], 0)
        return turns


def samples_by_length(sources: Sequence[Lengths], weights: Sequence[int], *, of_all: bool) -> int:
    """The length of an epoch that ends when the first source, or each of them, has been read whole."""
    turns = LengthTurns(sources, weights, [0] * len(sources))
    ends = [int(turns.turns_of(s, np.array([of.samples - 1]))[0]) + 1 for s, of in enumerate(sources)]
    return max(ends) if of_all else min(ends)


def kept(cache: OrderedDict[Key, Kept], key: Key, made: Callable[[], Kept]) -> Kept:
    """What is in a small cache, or is made and put there."""
    found = cache.get(key)
    if found is None:
        found = made()
        while len(cache) >= _KEPT:
            cache.popitem(last=False)
        cache[key] = found
    return found


def runs(numbers: Numbers) -> list[Any]:
    """Where each of the numbers is."""
    if not len(numbers):
        return []
    if numbers[0] == numbers[-1] and np.all(numbers == numbers[0]):
        return [slice(None)]
    by_number = np.argsort(numbers, kind="stable")
    return np.split(by_number, np.flatnonzero(np.diff(numbers[by_number])) + 1)
