"""Rules that draw rows: by weight, by classes, by length, or as somebody else's batch sampler names them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import lcm
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from ..sizes import many
from .permutation import BatchOrder, Rule, Vectorised, grouped, whole_numbers
from .randomness import splitmix64
from .spec import OrderSpec

__all__ = [
    "Balanced",
    "Bucketed",
    "SampledOrder",
    "Weighted",
    "WeightedOnce",
    "edges_of",
]


# Rows drawn by weight, with replacement: which one stands at a position is a random number there, and a search.


Numbers = NDArray[np.int64]

_DOMAIN = 7
_CHUNK = 1 << 20
_MOST_LOOKED_AT = 1 << 30  # draws: about a minute


class Weighted(Rule):
    """Every position of every epoch is a draw of its own: row i with the probability weights[i] / their sum."""

    name = "weighted"
    repeats = True

    def __init__(self, weights: NDArray[np.float64], samples: int) -> None:
        """Weights are finite, 0 or more, and not all 0."""
        self.samples = samples
        self.rows: int = len(weights)
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(weights, '<f8')):016x}"
        self.ends: NDArray[np.float64] = np.cumsum(weights)

    def order(self, spec: OrderSpec) -> WeightedOrder:
        """The draws of an epoch."""
        return WeightedOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values, with a digest of the weights."""
        return {"samples": self.samples, "weights": self.digest}


class WeightedOrder(Vectorised):
    """One epoch of draws."""

    def __init__(self, rule: Weighted, spec: OrderSpec) -> None:
        super().__init__(rule.samples, spec)
        self._ends = rule.ends
        head = np.array([spec.seed, spec.epoch, 0, _DOMAIN * 256], "<u8").tobytes()
        self._state = xxh3_64(head)

    def _rows_at(self, positions: Numbers) -> Numbers:
        uniform = (splitmix64(self._state, positions) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        # A product that is rounded up to the sum itself would lie behind the last row that has a weight.
        below = np.nextafter(self._ends[-1], 0.0)
        rows = np.searchsorted(self._ends, np.minimum(uniform * self._ends[-1], below), side="right")
        return np.asarray(rows, np.int64)

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its position) for each time that one of them is drawn; every draw is looked at."""
        if self.rows > _MOST_LOOKED_AT:
            raise ValueError(
                f"a draw by weight has no inverse: to say when a row comes, each of the "
                f"{many(self.rows, 'draw')} of the epoch "
                f"would be looked at, and {_MOST_LOOKED_AT} are the most: ask for the rows "
                "of steps, with order.rows_of"
            )
        sorter = np.argsort(rows, kind="stable")
        wanted = rows[sorter]
        which, where = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for start in range(0, self.rows, _CHUNK):
            drawn = self.range(start, 1, min(_CHUNK, self.rows - start))
            first = np.searchsorted(wanted, drawn, side="left")
            count = np.searchsorted(wanted, drawn, side="right") - first
            within = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
            which.append(sorter[np.repeat(first, count) + within])
            where.append(np.repeat(np.arange(len(drawn), dtype=np.int64) + start, count))
        return np.concatenate(which), np.concatenate(where)


# Rows drawn by weight, without replacement: each at most once an epoch, the heavy ones rather at its front.


Floats = NDArray[np.float64]

_ONCE_DOMAIN = 8
_ONCE_CHUNK = 1 << 20
_TERMS = 12
_LN2 = 0.6931471805599453
_ROOT_HALF = 0.7071067811865476


class WeightedOnce(Rule):
    """The exponential keys of Efraimidis and Spirakis (2006): row i has the key −ln(u) / weights[i], the least first.

    So the row at a position is each of those that are left with the probability weights[i] / their sum. Rows without
    a weight do not come.
    """

    name = "weighted"
    repeats = False

    def __init__(self, weights: Floats, samples: int) -> None:
        """Weights are finite, 0 or more, and those of ``samples`` rows at least more than 0."""
        self.weights = weights
        self.samples = samples
        self.rows: int = len(weights)
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(weights, '<f8')):016x}"

    def order(self, spec: OrderSpec) -> WeightedOnceOrder:
        """The draws of an epoch: they are sorted, 8 bytes a sample, and 40 more meanwhile."""
        return WeightedOnceOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values, with a digest of the weights."""
        return {"samples": self.samples, "weights": self.digest, "replacement": False}


class WeightedOnceOrder(Vectorised):
    """One epoch of draws: the rows with the least keys, in the order of the keys."""

    def __init__(self, rule: WeightedOnce, spec: OrderSpec) -> None:
        super().__init__(rule.samples, spec)
        head = np.array([spec.seed, spec.epoch, 0, _ONCE_DOMAIN * 256], "<u8").tobytes()
        state = xxh3_64(head)
        kept, rows, limit = np.empty(0, np.float64), np.empty(0, np.int64), np.inf
        for first in range(0, rule.rows, _ONCE_CHUNK):
            weights = rule.weights[first : first + _ONCE_CHUNK]
            some = np.flatnonzero(weights > 0)
            with np.errstate(over="ignore"):
                keys = _minus_ln_of_uniform(splitmix64(state, some + first)) / weights[some]
            if limit < np.inf:  # of equal keys, the row that is kept came first
                less = np.flatnonzero(keys < limit)
                keys, some = keys[less], some[less]
            kept, rows = np.concatenate([kept, keys]), np.concatenate([rows, some + first])
            if len(kept) >= 2 * rule.samples or first + _ONCE_CHUNK >= rule.rows:
                least = np.argsort(kept, kind="stable")[: rule.samples]
                kept, rows = kept[least], rows[least]
                limit = kept[-1]
        self._rows = rows

    def _rows_at(self, positions: Numbers) -> Numbers:
        return self._rows[positions]

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its position) for those that come."""
        sorter = np.argsort(rows, kind="stable")
        first = np.searchsorted(rows, self._rows, "left", sorter)
        count = np.searchsorted(rows, self._rows, "right", sorter) - first
        within = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
        return sorter[np.repeat(first, count) + within], np.repeat(
            np.arange(self.rows, dtype=np.int64), count
        )


def _minus_ln_of_uniform(words: NDArray[np.uint64]) -> Floats:
    """−ln((⌊z / 2^12⌋ + ½) · 2^-52), by sums, products and quotients alone: the same bits on every machine.

    With u = m · 2^k and √½ ≤ m < √2: k · ln 2 + 2s(1 + s²/3 + … + s²³/25) with s = (m − 1) / (m + 1).
    """
    uniform = ((words >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    part, exponent = np.frexp(uniform)
    below = part < _ROOT_HALF
    part = np.where(below, part * 2, part)
    s = (part - 1) / (part + 1)
    square = s * s
    series = np.full(len(s), 1 / (2 * _TERMS + 1))
    for term in range(_TERMS - 1, -1, -1):
        series = series * square + 1 / (2 * term + 1)
    return np.asarray(-((exponent - below) * _LN2 + 2 * s * series), np.float64)


# Batches with as many rows of each of some classes: every class comes as often, through epochs of its own.


_MOST_BATCHES = 1 << 62


class Balanced(Rule):
    """``classes`` classes a batch, ``per_class`` rows of each; an endless sequence of which an epoch is a stretch."""

    samples: int

    classes: int
    per_class: int

    name = "balanced"
    batched = True
    repeats = True

    def __init__(self, class_of: Numbers, classes: int, per_class: int, batches: int) -> None:
        """``class_of`` numbers the class of each row, from 0, none left out."""
        self.classes, self.per_class, self.samples = classes, per_class, batches
        self.rows: int = len(class_of)
        self.counts: NDArray[np.int64] = np.bincount(class_of)
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.counts)])
        self.by_class: NDArray[np.int64] = np.argsort(class_of, kind="stable").astype(np.int64)
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(class_of, '<i8')):016x}"

    def order(self, spec: OrderSpec) -> BalancedOrder:
        """The batches of an epoch."""
        return BalancedOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values, with a digest of the classes."""
        return {
            "batches": self.samples,
            "classes": self.classes,
            "per_class": self.per_class,
            "labels": self.digest,
        }


class BalancedOrder(BatchOrder):
    """One epoch of balanced batches."""

    def __init__(self, rule: Balanced, spec: OrderSpec) -> None:
        super().__init__(spec)
        self._rule = rule
        self.rows: int = rule.samples
        self.largest: int = rule.classes * rule.per_class
        self._begin = spec.epoch * rule.samples
        if self._begin + rule.samples > _MOST_BATCHES:
            raise ValueError(f"epoch {spec.epoch} of {many(rule.samples, 'batch')} lies behind batch 2^62")

    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these batches one after the other, where each ends)."""
        classes, visit = self._visits(positions + self._begin)
        rule, per_class = self._rule, self._rule.per_class
        counts = rule.counts[classes]
        visits = np.maximum(counts // per_class, 1)  # of a class in one of its epochs
        epoch, number = np.divmod(visit, visits)
        rows = np.empty((len(classes), per_class), np.int64)
        within = np.arange(per_class, dtype=np.int64)
        for of_class in grouped(classes):
            one = int(classes[of_class[0]])
            for of_epoch in grouped(epoch[of_class]):
                some = of_class[of_epoch]
                places = (number[some, None] * per_class + within).ravel() % rule.counts[one]
                found = self.permuted(one, int(epoch[some[0]]), int(rule.counts[one]), places)
                rows[some] = rule.by_class[rule.starts[one] + found].reshape(-1, per_class)
        return rows.ravel(), np.arange(1, len(positions) + 1, dtype=np.int64) * self.largest

    def _visits(self, batches: Numbers) -> tuple[Numbers, Numbers]:
        """The classes of these batches, one batch after the other, and how often each had come before."""
        all_classes, chosen = len(self._rule.counts), self._rule.classes
        slots = (batches[:, None] * chosen + np.arange(chosen, dtype=np.int64)).ravel()
        turn, place = np.divmod(slots, lcm(all_classes, chosen))
        repeat, place = np.divmod(place, all_classes)
        classes = np.empty(len(slots), np.int64)
        for some in grouped(turn):
            classes[some] = self.permuted(-1, int(turn[some[0]]), all_classes, place[some])
        return classes, turn * (lcm(all_classes, chosen) // all_classes) + repeat

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(which of ``rows``, position of a batch, slot in it) for each time that one of them comes."""
        rule = self._rule
        found = [(np.empty(0, np.int64),) * 3]
        for one in range(len(rule.counts)):
            held = rule.by_class[rule.starts[one] : rule.starts[one + 1]]  # ascends
            place = np.minimum(np.searchsorted(held, rows), len(held) - 1)
            there = np.flatnonzero(held[place] == rows)
            if len(there):
                which, positions, slots = self._of_class(one, place[there])
                found.append((there[which], positions, slots))
        which, positions, slots = map(np.concatenate, zip(*found, strict=True))
        return which, positions, slots

    def _of_class(self, one: int, places: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """The same for the rows at some places of a class."""
        per_class, count = self._rule.per_class, int(self._rule.counts[one])
        visit, batch, within = self._visits_of(one)
        epoch, number = np.divmod(visit, max(count // per_class, 1))
        again = np.arange(-(-per_class // count) if count < per_class else 1, dtype=np.int64) * count
        found = [(np.empty(0, np.int64),) * 3]
        for of_epoch in grouped(epoch):
            stands = self.places(one, int(epoch[of_epoch[0]]), count, places)
            turn, slot = np.divmod((stands[:, None] + again).ravel(), per_class)
            visits = number[of_epoch]  # ascend, and are not all of the class's epoch at its ends
            comes = np.minimum(np.searchsorted(visits, turn), len(visits) - 1)
            there = np.flatnonzero(visits[comes] == turn)
            came = of_epoch[comes[there]]
            found.append((there // len(again), batch[came], within[came] * per_class + slot[there]))
        which, positions, slots = map(np.concatenate, zip(*found, strict=True))
        return which, positions, slots

    def _visits_of(self, one: int) -> tuple[Numbers, Numbers, Numbers]:
        """The numbers of a class's visits in the epoch, ascending; the batch of each, and its place there."""
        all_classes, chosen = len(self._rule.counts), self._rule.classes
        together = lcm(all_classes, chosen)
        first, end = self._begin * chosen, (self._begin + self.rows) * chosen
        turns = np.arange(first // together, -(-end // together), dtype=np.int64)
        stands = np.array(
            [self.places(-1, turn, all_classes, np.array([one], np.int64))[0] for turn in turns.tolist()],
            np.int64,
        )
        repeats = np.arange(together // all_classes, dtype=np.int64)
        slots = (turns[:, None] * together + stands[:, None] + repeats * all_classes).ravel()
        visits = (turns[:, None] * len(repeats) + repeats).ravel()
        here = np.flatnonzero((slots >= first) & (slots < end))
        batch, within = np.divmod(slots[here], chosen)
        return visits[here], batch - self._begin, within


# Batches of rows of like length: buckets by length, each cut into batches, the batches of all in a random order.


class Bucketed(Rule):
    """Every row once an epoch. Bucket b has the rows with edges[b − 1] < length ≤ edges[b], the last one the rest."""

    name = "bucketed"
    batched = True
    repeats = False

    def __init__(
        self,
        lengths: Numbers,
        edges: Sequence[int],
        batch_size: int | None,
        max_length: int | None,
        drop_last: bool,
    ) -> None:
        """A batch has ``batch_size`` rows, or as many of the bucket's longest as ``max_length`` holds."""
        self.edges: tuple[int, ...] = tuple(edges)
        self._asked = (batch_size, max_length, drop_last)
        self.rows: int = len(lengths)
        bucket = np.searchsorted(np.array(edges, np.int64), lengths, side="left")
        self._by_bucket = np.argsort(bucket, kind="stable").astype(np.int64)
        self.counts: NDArray[np.int64] = np.bincount(bucket, minlength=len(edges) + 1)
        self.starts: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.counts)])
        longest = np.zeros(len(self.counts), np.int64)
        np.maximum.at(longest, bucket, lengths)
        if batch_size is not None:
            sizes = np.full(len(longest), batch_size, np.int64)
        else:
            assert max_length is not None
            sizes = max_length // np.maximum(longest, 1)
        self.batches_of: NDArray[np.int64] = self.counts // sizes if drop_last else -(-self.counts // sizes)
        # None has more rows than its bucket.
        self.sizes: NDArray[np.int64] = np.minimum(sizes, np.maximum(self.counts, 1))
        self.before: NDArray[np.int64] = np.concatenate([[0], np.cumsum(self.batches_of)])
        self.samples: int = int(self.before[-1])
        self.digest: str = f"{xxh3_64(np.ascontiguousarray(lengths, '<i8')):016x}"

    def order(self, spec: OrderSpec) -> BucketedOrder:
        """The batches of an epoch."""
        return BucketedOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values: edges, sizes, and a digest of the lengths."""
        batch_size, max_length, drop_last = self._asked
        return {
            "batches": self.samples,
            "edges": list(self.edges),
            "batch_size": batch_size,
            "max_length": max_length,
            "drop_last": drop_last,
            "lengths": self.digest,
        }

    def rows_of_bucket(self, bucket: int, places: Numbers) -> Numbers:
        """The rows at these places of a bucket."""
        return np.asarray(self._by_bucket[self.starts[bucket] + places], np.int64)

    def places_in_bucket(self, bucket: int, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows`` are in a bucket, their places there)."""
        held = self._by_bucket[self.starts[bucket] : self.starts[bucket + 1]]  # ascends
        place = np.searchsorted(held, rows)
        there = np.flatnonzero(place < len(held))
        there = there[held[place[there]] == rows[there]]
        return there, place[there]


class BucketedOrder(BatchOrder):
    """One epoch of bucketed batches."""

    def __init__(self, rule: Bucketed, spec: OrderSpec) -> None:
        super().__init__(spec)
        self._rule = rule
        self.rows: int = rule.samples
        self.largest: int = int(rule.sizes.max(initial=1))

    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these batches one after the other, where each ends)."""
        rule = self._rule
        batch = self.permuted(-1, self.spec.epoch, self.rows, positions)
        bucket = np.searchsorted(rule.before, batch, side="right") - 1
        first = (batch - rule.before[bucket]) * rule.sizes[bucket]
        count = np.minimum(rule.sizes[bucket], rule.counts[bucket] - first)
        ends = np.cumsum(count, dtype=np.int64)
        rows = np.empty(int(ends[-1]) if len(ends) else 0, np.int64)
        for some in grouped(bucket):
            number = int(bucket[some[0]])
            at, places = _spread(ends[some] - count[some], first[some], count[some])
            places = self.permuted(number, self.spec.epoch, int(rule.counts[number]), places)
            rows[at] = rule.rows_of_bucket(number, places)
        return rows, ends

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(which of ``rows``, position of its batch, slot in it); one that ``drop_last`` leaves out does not come."""
        rule = self._rule
        which, batch, slot = ([np.empty(0, np.int64)] for _ in range(3))
        for bucket in np.flatnonzero(rule.batches_of).tolist():
            there, place = rule.places_in_bucket(bucket, rows)
            place = self.places(bucket, self.spec.epoch, int(rule.counts[bucket]), place)
            number, within = np.divmod(place, rule.sizes[bucket])
            came = np.flatnonzero(number < rule.batches_of[bucket])
            which.append(there[came])
            batch.append(number[came] + rule.before[bucket])
            slot.append(within[came])
        positions = self.places(-1, self.spec.epoch, self.rows, np.concatenate(batch))
        return np.concatenate(which), positions, np.concatenate(slot)


def _spread(at: Numbers, first: Numbers, count: Numbers) -> tuple[Numbers, Numbers]:
    """``at`` and ``first``, and the ``count`` numbers from each of them on."""
    within = np.arange(int(count.sum()), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(at, count) + within, np.repeat(first, count) + within


def edges_of(lengths: Numbers) -> list[int]:
    """Edges from the shortest length, or a sixteenth of the longest, up to it, each about an eighth above the last."""
    if not len(lengths):
        return []
    longest = int(lengths.max())
    edges = [max(int(lengths.min()), longest // 16, 1)]
    while edges[-1] < longest:
        edges.append(max(edges[-1] + 1, edges[-1] * 9 // 8))
    return edges


# Batches that somebody else's batch sampler names: lists of places, taken as they are needed, one pass of it.


class SampledOrder(BatchOrder):
    """What stands at position i is the i-th list of a sampler, as rows of the selection.

    Lists are kept from the time they are taken until their batch has been delivered; which places have come, a bit
    for each of the selection. ``digests[i]`` is that of the first i lists: each the XXH3-64 of a list, seeded with the
    one before.
    """

    def __init__(self, spec: OrderSpec, sampler: Iterable[object], places: int, skipped: int) -> None:
        """For a selection of ``places`` rows; the first ``skipped`` lists are not to be read."""
        super().__init__(spec)
        self.rows = 1 << 62  # nobody knows
        self.largest = 1
        self.digests: dict[int, int] = {0: 0}
        self._places = places
        self._lists = iter(sampler)
        self._held: dict[int, Numbers] = {}
        self._draws: dict[int, Numbers] = {}
        self._came: NDArray[np.uint8] = np.zeros(-(-places // 8), np.uint8)
        self._kept = self._taken = 0
        self._failure: Exception | None = None
        self._ended = False
        while self._taken < skipped and self._take_one():
            self.delivered(self._taken)
        self._asked = self._taken

    @property
    def taken(self) -> int:
        """How many lists the sampler has given."""
        return self._taken

    def usual_size(self) -> int:
        """Rows of the next list; 1 where there is none."""
        if self._taken == self._asked:
            self._take_one()
        return len(self._held[self._asked]) if self._asked < self._taken else 1

    def take(self, count: int) -> Numbers:
        """The numbers of ``count`` lists more; of fewer at the end, which a failure of the sampler is too."""
        begin = self._asked
        while self._taken < begin + count and self._take_one():
            pass
        self._asked = min(self._taken, begin + count)
        return np.arange(begin, self._asked)

    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these lists one after the other, where each ends)."""
        lists = [self._held[number] for number in positions.tolist()]
        ends = np.cumsum([len(rows) for rows in lists], dtype=np.int64)
        return np.concatenate(lists) if lists else np.empty(0, np.int64), ends

    def draws(self, positions: Numbers, repeats: bool) -> Numbers:
        """The draws of these lists where a place has come before in the epoch; −1 where it has not."""
        return np.concatenate([self._draws[number] for number in positions.tolist()])

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Refused: lists are known as they are taken."""
        raise ValueError("when rows come, only the batch sampler knows")

    def delivered(self, end: int) -> None:
        """Lets go of the lists before number ``end``."""
        while self._kept < end:  # another thread may be taking lists
            del self._held[self._kept], self._draws[self._kept], self.digests[self._kept]
            self._kept += 1

    def raise_failure(self) -> None:
        """Raises what the sampler has failed with, if it has."""
        if self._failure is not None:
            raise self._failure

    def _take_one(self) -> bool:
        if self._ended:
            return False
        try:
            places = self._checked(next(self._lists))
        except StopIteration:
            self._ended = True
        except Exception as error:
            self._ended, self._failure = True, error
        else:
            self._held[self._taken] = places
            self._draws[self._taken] = np.where(
                self._come_again(places), (self._taken << 32) + np.arange(len(places), dtype=np.int64), -1
            )
            before = self.digests[self._taken]
            self._taken += 1
            self.digests[self._taken] = xxh3_64(places, before)
        return not self._ended

    def _come_again(self, places: Numbers) -> NDArray[np.bool_]:
        """Which of the places of a list have come before, in a list before it or in this one; all have come now."""
        byte, bit = places >> 3, np.left_shift(1, places & 7).astype(np.uint8)
        before = (self._came[byte] & bit) != 0
        np.bitwise_or.at(self._came, byte, bit)
        again = np.ones(len(places), np.bool_)
        again[np.unique(places, return_index=True)[1]] = False
        again |= before
        return again

    def _checked(self, given: object) -> Numbers:
        try:
            places = whole_numbers(given)
        except TypeError as error:
            raise TypeError(f"a batch sampler gives lists of places, and this one gave {given!r}") from error
        if not len(places):
            raise ValueError(f"the batch sampler's list {self._taken} is empty")
        wrong = places[(places < -self._places) | (places >= self._places)]
        if len(wrong):
            raise IndexError(
                f"the batch sampler's list {self._taken} has {wrong[0]}, and there are "
                f"{many(self._places, 'sample')}"
            )
        return np.where(places < 0, places + self._places, places)
