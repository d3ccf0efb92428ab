"""From the samples of one shard to row numbers: a selection, its permutation in an epoch, and a rank's share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Order, xxh3_64
from .selection import Selection
from .spec import OrderSpec, Sharding

__all__ = [
    "BatchOrder",
    "EpochRun",
    "Rule",
    "ShardOrder",
    "Vectorised",
    "derived_seed",
    "grouped",
    "whole_numbers",
]

# Of the rules by which draws are made (docs/order.md): a state says it, and that of another one is refused.
DRAWS_VERSION = 1


# Orders of positions that the C core does not compute: mixtures and draws.


Numbers = NDArray[np.int64]


class Rule(ABC):
    """Makes the orders of epochs of its own kind, in place of a shuffle: of samples, or of whole batches."""

    name: str
    batched = False  # whether what stands at a position is a batch, and ranks share batches
    repeats: bool  # whether a row may come more often than once in an epoch
    samples: int  # positions of an epoch
    rows: int  # rows that may come

    @abstractmethod
    def order(self, spec: OrderSpec) -> Vectorised | BatchOrder:
        """The order of an epoch, of a seed."""

    @abstractmethod
    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """All that decides the orders, as plain values for a state."""

    def difference(
        self, state: Mapping[str, Any], spec: OrderSpec, epoch: int, position: int
    ) -> tuple[Any, Any] | None:
        """What differs between another's ``state`` and this one as far as a position of an epoch; None: nothing."""
        own = self.state(spec)
        return None if dict(state) == own else (dict(state), own)


class Vectorised:
    """An order that is a vectorised function of positions; ``at`` and ``occurrences`` are its own."""

    batched = False

    def __init__(self, rows: int, spec: OrderSpec) -> None:
        self.rows = rows
        self.spec = spec

    def range(self, start: int, stride: int, count: int) -> Numbers:
        """The rows at ``count`` positions from ``start`` on, ``stride`` apart; it wraps past the end."""
        if count <= 0:
            return np.empty(0, np.int64)
        return self._rows_at((start + stride * np.arange(count, dtype=np.int64)) % self.rows)

    def one(self, position: int) -> int:
        """The row at one position."""
        return int(self.at(np.array([position], np.int64))[0])

    def at(self, positions: Numbers) -> Numbers:
        """The rows at these positions."""
        given = np.asarray(positions, np.int64)
        if len(given) and (given.min() < 0 or given.max() >= self.rows):
            raise IndexError(f"a position is out of range: there are {self.rows}")
        return self._rows_at(given)

    def _rows_at(self, positions: Numbers) -> Numbers:
        raise NotImplementedError

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its position) for each time that one of them comes."""
        raise NotImplementedError


# Orders of whole batches: what stands at a position of an epoch is a batch, and ranks share batches.


_KEPT = 4096  # permutations of groups


class BatchOrder(ABC):
    """One epoch of ``rows`` batches, each of ``largest`` rows at most, which are places in a selection."""

    batched = True
    rows: int
    largest: int

    def __init__(self, spec: OrderSpec) -> None:
        self.spec = spec
        self._permutations: dict[tuple[int, int], Order] = {}

    @abstractmethod
    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these batches one after the other, where each ends)."""

    @abstractmethod
    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """(which of ``rows``, position of a batch, slot in it) for each time that one of them comes in the epoch."""

    def range(self, start: int, stride: int, count: int) -> Numbers:
        """The rows of ``count`` batches from ``start`` on, ``stride`` apart; it wraps past the end."""
        return self.batches(self.positions(start, stride, count))[0]

    def draws(self, positions: Numbers, repeats: bool) -> Numbers | None:
        """Numbers of the places in these batches, one batch after the other: each has one of its own in the epoch.

        None where no row ``repeats``.
        """
        if not repeats:
            return None
        _, ends = self.batches(positions)
        counts = np.diff(ends, prepend=0)
        slots = np.arange(int(counts.sum()), dtype=np.int64) - np.repeat(ends - counts, counts)
        return (np.repeat(positions, counts) << 32) + slots

    def positions(self, start: int, stride: int, count: int) -> Numbers:
        """Positions from ``start`` on, ``stride`` apart; they wrap past the end."""
        return (start + stride * np.arange(count, dtype=np.int64)) % max(self.rows, 1)

    def permuted(self, group: int, epoch: int, rows: int, places: Numbers) -> Numbers:
        """What stands at these places of a permutation of [0, rows), one for each group and epoch."""
        return places if self.spec.mode == "sequential" else self._permutation(group, epoch, rows).at(places)

    def places(self, group: int, epoch: int, rows: int, found: Numbers) -> Numbers:
        """The places at which these stand in it."""
        return (
            found if self.spec.mode == "sequential" else self._permutation(group, epoch, rows).inverse(found)
        )

    def _permutation(self, group: int, epoch: int, rows: int) -> Order:
        order = self._permutations.get((group, epoch))
        if order is None:
            if len(self._permutations) >= _KEPT:
                self._permutations.clear()
            order = Order(rows, OrderSpec("shuffle", derived_seed(self.spec.seed, group), epoch))
            self._permutations[group, epoch] = order
        return order


def derived_seed(seed: int, group: int) -> int:
    """The seed of a group's permutations: the hash of its number; −1 is no group."""
    return xxh3_64(group.to_bytes(8, "little", signed=True), seed)


def grouped(keys: Numbers) -> list[Numbers]:
    """Where each distinct key stands, in ascending order of the keys and of the places."""
    if not len(keys):
        return []
    by_key = np.argsort(keys, kind="stable")
    return np.split(by_key, np.flatnonzero(np.diff(keys[by_key])) + 1)


# From the samples of one shard to row numbers: a selection, its order in an epoch, and a rank's share.


RowIds = NDArray[np.int64]

_NAMED = {"mixture": "mixture", "weighted": "weighted draw"}  # rules that make samples, in a message


@dataclass(frozen=True)
class EpochRun:
    """One pass over a shard: ``samples`` positions of ``order``, from position ``first``, ``stride`` apart.

    Where a rule makes whole batches, what stands at a position is a batch.

    ``start`` is the global position the pass began at: 0, or where a loaded state says.
    """

    epoch: int
    order: Order | Vectorised | BatchOrder
    first: int
    stride: int
    samples: int
    start: int

    def after(self, samples: int) -> int:
        """The global position when every rank has delivered ``samples`` of the pass: what a state records."""
        return self.start + samples * self.stride

    def positions(self, start: int, stop: int) -> RowIds:
        """What stands at samples [start, stop) of the pass, as rows of the selection."""
        return self.order.range(self.first + start * self.stride, self.stride, stop - start)


class ShardOrder:
    """Immutable but for a cache: which row of the dataset is sample i of this shard in an epoch.

    ``rule`` makes the orders of epochs where that is no shuffle, and says how many samples an epoch has.
    """

    def __init__(
        self,
        selection: Selection,
        sharding: Sharding,
        spec: OrderSpec,
        part_starts: RowIds,
        rule: Rule | None = None,
    ) -> None:
        self.selection = selection
        self.rule = rule
        self.sharding = sharding
        self.spec = spec
        self._part_starts = part_starts
        self.shuffled: bool = rule is not None or spec.mode != "sequential"
        self._cache: tuple[int, Any] | None = None
        self._length = sharding.length  # these four make `row` cheap
        self._stride, self._first, self._total = sharding.num_shards, sharding.first, sharding.rows
        self._all = selection.is_all

    def __len__(self) -> int:
        return self._length

    def __reduce__(self) -> tuple[Any, ...]:
        return ShardOrder, (self.selection, self.sharding, self.spec, self._part_starts, self.rule)

    @property
    def samples(self) -> int:
        """Positions of an epoch, those of all shards."""
        return len(self.selection) if self.rule is None else self.rule.samples

    @property
    def batched(self) -> bool:
        """Whether what stands at a position is a batch, which a rule has drawn."""
        return self.rule is not None and self.rule.batched

    @property
    def repeats(self) -> bool:
        """Whether a row may come more often than once in an epoch, on all shards together."""
        return (self.rule is not None and self.rule.repeats) or self.selection.repeats

    def draws_at(self, positions: RowIds, drawn: NDArray[np.bool_] | None = None) -> RowIds | None:
        """What tells the samples of a row at these positions, not wrapped, apart: −1 where it comes once; None: all do.

        ``drawn``: at which of them another row fills a skipped slot.
        """
        if self.repeats:
            return positions % self.samples
        if drawn is None or not drawn.any():
            return None
        return np.where(drawn, positions % self.samples, -1)

    @property
    def selected_rows(self) -> int:
        """Rows that may come, of all shards."""
        return len(self.selection) if self.rule is None else self.rule.rows

    def narrowed(self, selection: Selection) -> ShardOrder:
        """The same order and shards over other rows of the dataset."""
        self.check_rows()
        old = self.sharding
        sharding = Sharding(len(selection), old.shard_id, old.num_shards, old.remainder)
        return ShardOrder(selection, sharding, self.spec, self._part_starts)

    def check_rows(self) -> None:
        """Refuses to choose rows where a rule has drawn samples of them already."""
        if self.rule is not None:
            made = _NAMED[self.rule.name]
            raise ValueError(
                f"rows are chosen before a {made} is made, not after: use where, select, take, skip and split on what "
                "it is made of"
            )

    def listed(self, rows: RowIds) -> ShardOrder:
        """These rows of the dataset alone, in the order given, on one rank."""
        selection = Selection(self.selection.rows, array=rows)
        spec = OrderSpec(seed=self.spec.seed)  # random numbers of samples are made of it
        return ShardOrder(selection, Sharding(len(selection)), spec, self._part_starts)

    def with_spec(self, spec: OrderSpec) -> ShardOrder:
        """The same rows and shards in another order."""
        return ShardOrder(self.selection, self.sharding, spec, self._part_starts, self.rule)

    def with_sharding(self, sharding: Sharding) -> ShardOrder:
        """The same order, shared out otherwise."""
        return ShardOrder(self.selection, sharding, self.spec, self._part_starts, self.rule)

    def sharded_as(self, shard_id: int) -> ShardOrder:
        """The same order as another of its ranks has it."""
        old = self.sharding
        return self.with_sharding(Sharding(old.rows, shard_id, old.num_shards, old.remainder))

    def with_rule(self, rule: Rule) -> ShardOrder:
        """The same rows and ranks, drawn by a rule."""
        old = self.sharding
        sharding = Sharding(rule.samples, old.shard_id, old.num_shards, old.remainder)
        return ShardOrder(self.selection, sharding, self.spec, self._part_starts, rule)

    def order(self, epoch: int) -> Any:
        """The order of an epoch, an ``Order`` or what a rule makes in its place; the latest one is kept."""
        cached = self._cache
        if cached is not None and cached[0] == epoch:
            return cached[1]
        order = self._made(epoch)
        self._cache = (epoch, order)
        return order

    def _made(self, epoch: int) -> Any:
        if self.rule is not None:
            return self.rule.order(self.spec.at_epoch(epoch))
        return self.permutation(self.spec.at_epoch(epoch))

    def permutation(self, spec: OrderSpec) -> Order:
        """The rows of the selection in an order, each once."""
        by_parts = spec.mode in ("parts", "within-parts")
        part_rows = self.selection.part_rows(self._part_starts) if by_parts else None
        return Order(len(self.selection), spec, part_rows)

    def row(self, index: int, epoch: int) -> int:
        """The row of sample ``index``; negative ones count from the end. IndexError when there is none."""
        if not 0 <= index < self._length:
            position = self.sharding.position(index)
        else:
            position = (self._first + index * self._stride) % self._total
        if self.shuffled:
            cached = self._cache
            order = cached[1] if cached is not None and cached[0] == epoch else self.order(epoch)
            position = order.one(position)
        return position if self._all else self.selection[position]

    def rows(self, indices: Sequence[int], epoch: int) -> RowIds:
        """The rows of the samples at ``indices``."""
        return self.rows_at(self.positions(indices), epoch)

    def rows_at(self, positions: RowIds, epoch: int) -> RowIds:
        """The rows at positions of an epoch, not wrapped."""
        if len(positions) and positions.max() >= self.sharding.rows:
            positions = positions % self.sharding.rows
        if self.shuffled and len(positions):
            positions = self.order(epoch).at(positions)
        return self.selection.row_ids(positions)

    def positions(self, indices: Sequence[int]) -> RowIds:
        """The positions of the samples at ``indices``, not wrapped. IndexError where there is no such sample."""
        length = len(self)
        given = whole_numbers(indices)
        if len(given) and (given.min() < -length or given.max() >= length):
            wrong = given[(given < -length) | (given >= length)][0]
            raise IndexError(f"sample {wrong} is out of range: this shard has {length}")
        sharding = self.sharding
        return np.where(given < 0, given + length, given) * sharding.num_shards + sharding.first

    def row_ids(self, start: int, stop: int | None, epoch: int) -> RowIds:
        """The rows of samples [start, stop), clipped like a slice."""
        start, stop, _ = slice(start, stop).indices(len(self))
        if stop <= start:
            return np.empty(0, np.int64)
        sharding = self.sharding
        first = sharding.first + start * sharding.num_shards
        return self.selection.row_ids(self.order(epoch).range(first, sharding.num_shards, stop - start))

    def positions_of(self, epoch: int, places: RowIds) -> RowIds:
        """Every position of an epoch at which one of these places of the selection stands, in any order."""
        found: RowIds = self.order(epoch).occurrences(places)[1]
        return found

    def drawn_state(self) -> dict[str, Any] | None:
        """What a state keeps of the rule; None: there is none."""
        if self.rule is None:
            return None
        return {"rule": self.rule.name, "version": DRAWS_VERSION, **self.rule.state(self.spec)}

    def drawn_difference(
        self, theirs: dict[str, Any] | None, epoch: int, position: int
    ) -> tuple[Any, Any] | None:
        """What a state's rule and the one here differ in as far as a position of an epoch; None: nothing."""
        own = self.drawn_state()
        if own is None or theirs is None or self.rule is None or theirs.get("rule") != self.rule.name:
            return None if own is None and theirs is None else (theirs, own)
        if theirs.get("version") != DRAWS_VERSION:
            raise ValueError(
                f"the state's rule of draws {self.rule.name!r} has version {theirs.get('version')!r}; this unirecord "
                f"draws by version {DRAWS_VERSION}: go on with the version of unirecord that the state was taken by"
            )
        said = {name: value for name, value in theirs.items() if name not in ("rule", "version")}
        return self.rule.difference(said, self.spec, epoch, position)

    def samples_from(self, start: int) -> int:
        """How many samples this shard has from global position ``start`` on."""
        return self.sharding.resumed(start).length

    def run(self, epoch: int, start: int) -> EpochRun:
        """A pass over this shard's samples from global position ``start`` on."""
        sharding = self.sharding.resumed(start)
        return EpochRun(epoch, self.order(epoch), sharding.first, sharding.num_shards, sharding.length, start)


def whole_numbers(indices: Any) -> NDArray[np.int64]:
    """Numbers of samples as int64; TypeError or IndexError for what a cast would make one."""
    given = np.asarray(indices)
    if given.size == 0 and given.ndim == 1:
        return np.empty(0, np.int64)
    if given.dtype == np.bool_:
        raise TypeError(
            "a boolean mask is no list of samples: choose rows with select(mask), or np.flatnonzero(mask)"
        )
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(
            f"samples are chosen by a flat list of integers, not by {given.dtype} of shape {given.shape}"
        )
    if given.dtype == np.uint64 and (largest := int(given.max())) >= 1 << 63:  # a cast would make it negative
        raise IndexError(f"sample {largest} is out of range: numbers of samples are below 2^63")
    return given if given.dtype == np.int64 else given.astype(np.int64)
