"""Mixtures: several sources in turns by weight, each through epochs of its own, as one endless sequence of samples."""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heappop, heappush
from math import gcd
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from ..sizes import many
from .length_turns import Lengths, LengthTurns, kept, runs
from .permutation import Rule, ShardOrder, Vectorised
from .randomness import splitmix64
from .spec import OrderSpec, check_integer

__all__ = [
    "Ends",
    "MixedOrder",
    "Mixture",
    "MixtureSource",
    "RunOf",
    "Stages",
    "Stop",
    "Turns",
    "WeightsFrom",
    "run_of",
    "samples_until",
    "whole_weights",
]


# Whose turn it is when several sources take turns by weight: at every prefix each is within one of its share.


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
            "give more, or leave the source out; in a stage of a schedule, 0 is allowed"
        )
    whole = [max(int(share), 1) if share else 0 for share in scaled]
    by_remainder = sorted(range(len(shares)), key=lambda s: (int(scaled[s]) - scaled[s], s))
    for s in by_remainder[: max(MOST_WEIGHT - sum(whole), 0)]:
        whole[s] += 1
    while sum(whole) > MOST_WEIGHT:
        whole[whole.index(max(whole))] -= 1
    return whole


Stop = Literal["first", "all"]

_MOST_TURNS = 1 << 62
_KEPT = 4  # orders of epochs of a source
_MOST_WALKED = 1 << 16  # epochs that are looked at to find where one begins

WeightsFrom = tuple[int, tuple[int, ...]]  # a turn, and the integer weights of all sources from it on


@dataclass(frozen=True)
class MixtureSource:
    """A source: its name, the selected rows and their order, and the number in the mixture's data of its first row.

    ``lengths``: of the selected rows, where turns are by these.
    """

    name: str
    order: ShardOrder
    first_row: int
    where: str | None
    identity: str
    lengths: NDArray[np.unsignedinteger] | None = None

    @property
    def samples(self) -> int:
        """Samples of an epoch of its own: its rows, or what is drawn from them."""
        return self.order.samples

    def epoch(self, spec: OrderSpec) -> Any:
        """The order of an epoch of its own."""
        rule = self.order.rule
        return self.order.permutation(spec) if rule is None else rule.order(spec)

    def spec(self, mixed: OrderSpec) -> OrderSpec:
        """How it is ordered: as it was opened, or where that was without a shuffle as the mixture says.

        Then its seed is the hash of its name, with the mixture's seed.
        """
        if self.order.spec.mode != "sequential":
            return self.order.spec.at_epoch(0)
        seed = xxh3_64(self.name.encode(), mixed.seed)
        return replace(mixed, seed=seed, epoch=0)

    def state(self, mixed: OrderSpec) -> dict[str, Any]:
        """All of it that decides a mixture."""
        spec = self.spec(mixed)
        block = spec.mode == "block"
        return {
            "name": self.name,
            "identity": self.identity,
            "where": self.where,
            "selection": self.order.selection.digest(),
            "shuffle": spec.mode,
            "seed": spec.seed,
            "block_rows": spec.block_rows if block else 1,
            "window_blocks": spec.window_blocks if block else 1,
            **({} if self.order.rule is None else {self.order.rule.name: self.order.rule.state(spec)}),
            **({} if self.lengths is None else {"lengths": f"{xxh3_64(self.lengths.astype('<i8')):016x}"}),
        }

    def lengths_in_turn(self, mixed: OrderSpec) -> Lengths:
        """Its lengths in the order of its epochs."""
        assert self.lengths is not None
        spec, every = self.spec(mixed), np.arange(self.samples, dtype=np.int64)
        return Lengths(self.lengths, lambda epoch: self.epoch(spec.at_epoch(epoch)).at(every))


class Run(Protocol):
    """Turns of the same weights; a source has had ``begun`` draws before them, which its own numbers include."""

    begun: list[int]

    def has(self, source: int) -> bool:
        """Whether a source comes at all."""

    def at(self, turns: Numbers) -> tuple[NDArray[Any], Numbers]:
        """(source, which of its draws) of each turn."""

    def turns_of(self, source: int, draws: Numbers) -> Numbers:
        """The turns at which a source has these draws; it must have a weight."""

    def split(self, turn: int) -> list[int]:
        """How many draws each source has had before a turn."""


RunOf = Callable[[tuple[int, ...], Sequence[int]], Run]  # of weights, and the draws before


class CountedTurns:
    """The turns of some weights of samples, by their table: the draws from ``begun`` on of all sources."""

    def __init__(self, table: Turns, begun: Sequence[int]) -> None:
        self.begun: list[int] = list(begun)
        self._table, self._begun = table, np.array(begun, np.int64)

    def has(self, source: int) -> bool:
        """Whether a source comes at all."""
        return bool(self._table.counts[source])

    def at(self, turns: Numbers) -> tuple[NDArray[Any], Numbers]:
        """(source, which of its draws) of each turn."""
        source, draw = self._table.at(turns)
        return source, draw + self._begun[source]

    def turns_of(self, source: int, draws: Numbers) -> Numbers:
        """The turns at which a source has these draws; it must have a weight."""
        return self._table.turns_of(source, draws - self.begun[source])

    def split(self, turn: int) -> list[int]:
        """How many draws each source has had before a turn."""
        return [begun + self._table.before(s, turn) for s, begun in enumerate(self.begun)]


def run_of(sources: Sequence[MixtureSource], spec: OrderSpec) -> RunOf:
    """What makes the turns of weights: of elements where the sources have lengths, else of samples."""
    if sources[0].lengths is not None:
        lengths = [source.lengths_in_turn(spec) for source in sources]
        return lambda weights, begun: LengthTurns(lengths, weights, begun)
    tables: dict[tuple[int, ...], Turns] = {}

    def counted(weights: tuple[int, ...], begun: Sequence[int]) -> CountedTurns:
        if weights not in tables:
            tables[weights] = Turns(weights, spec.seed)
        return CountedTurns(tables[weights], begun)

    return counted


class Stages:
    """Turns in stages of other weights, each with the turn at which it begins; each source goes on where it stood."""

    def __init__(self, stages: Sequence[tuple[int, Run]]) -> None:
        self._starts: Numbers = np.array([start for start, _ in stages], np.int64)
        self._runs = [run for _, run in stages]
        self._begun: Numbers = np.array([run.begun for run in self._runs], np.int64)

    @classmethod
    def of(cls, stages: Sequence[WeightsFrom], run_of: RunOf) -> Stages:
        """Those of a schedule, from turn 0 on."""
        made: list[tuple[int, Run]] = []
        begun = [0] * len(stages[0][1])
        for start, weights in stages:
            begun = made[-1][1].split(start - made[-1][0]) if made else begun
            made.append((start, run_of(weights, begun)))
        return cls(made)

    def at(self, turns: Numbers) -> tuple[NDArray[Any], Numbers]:
        """(source, which of its draws) of each turn."""
        if len(self._runs) == 1:
            return self._runs[0].at(turns)
        source, draw = np.empty(len(turns), np.int64), np.empty(len(turns), np.int64)
        stages = np.searchsorted(self._starts, turns, side="right") - 1
        for some in runs(stages):
            stage = int(stages[some][0])
            source[some], draw[some] = self._runs[stage].at(turns[some] - self._starts[stage])
        return source, draw

    def turns_of(self, source: int, draws: Numbers) -> Numbers:
        """The turns of the draws of a source; −1 for those that never come."""
        stages = (
            np.searchsorted(self._begun[:, source], draws, side="right") - 1
        )  # the last that begins there
        turns = np.full(len(draws), -1, np.int64)
        for some in runs(stages):
            stage = int(stages[some][0])
            if self._runs[stage].has(source):
                turns[some] = self._runs[stage].turns_of(source, draws[some]) + self._starts[stage]
        return turns

    def split(self, turn: int) -> list[int]:
        """How many draws each source has had before a turn."""
        stage = int(np.searchsorted(self._starts, turn, side="right")) - 1
        return self._runs[stage].split(turn - int(self._starts[stage]))


@dataclass(frozen=True)
class Ends:
    """What becomes of sources that end within an epoch: they come no more in it, and others take their turns.

    ``most``: the samples of each source in an epoch at most, None: any number. ``weights``: those from the end of a
    source on, None: as before. Sources that have ended have none.
    """

    most: tuple[int | None, ...]
    weights: tuple[tuple[int, ...] | None, ...]

    def stages(self, scheduled: Sequence[WeightsFrom], begun: Sequence[int], run_of: RunOf) -> Stages:
        """The turns of an epoch: another stage begins with the end of a source, and with another of the schedule.

        ``scheduled``: weights from turns of the epoch on, the first of them from 0. ``begun``: the draws of each source
        in all epochs before.
        """
        made: list[tuple[int, Run]] = []
        turn, drawn, ended = 0, list(begun), set[int]()
        weights, waiting = scheduled[0][1], list(scheduled[1:])
        while any(now := tuple(0 if s in ended else weight for s, weight in enumerate(weights))):
            run = run_of(now, drawn)
            made.append((turn, run))
            ends = [
                (turn + int(run.turns_of(s, np.array([begun[s] + most - 1], np.int64))[0]) + 1, s)
                for s, most in enumerate(self.most)
                if most is not None and now[s]
            ]
            end, source = min(ends, default=(None, -1))
            if waiting and (end is None or end > waiting[0][0]):
                after, weights = waiting.pop(0)
            elif end is not None:
                after, weights = end, self.weights[source] or weights
                ended.add(source)
            else:
                break
            turn, drawn = after, run.split(after - turn)
        return Stages(made)

    def samples(self, rows: Sequence[int], stages: Stages) -> int | None:
        """The length of an epoch that ends when each source has ended, or has been read whole; None: it never does.

        ``stages``: of the first epoch, to which ``rows`` are the samples of each source.
        """
        last = [
            int(stages.turns_of(s, np.array([(most or n) - 1], np.int64))[0])
            for s, (most, n) in enumerate(zip(self.most, rows, strict=True))
        ]
        return None if -1 in last else max(last) + 1

    def too_few(self, scheduled: Sequence[WeightsFrom], samples: int) -> tuple[list[int], int] | None:
        """(sources that may all have ended while an epoch lasts, what they have in it); None: there are none.

        Weights are gone once each source that has one has ended, and so has had all of its samples.
        """
        named = [(weights, set[int]()) for _, weights in scheduled]
        named += [(weights, {s}) for s, weights in enumerate(self.weights) if weights is not None]
        for weights, ended in named:
            most = [self.most[s] for s, weight in enumerate(weights) if weight or s in ended]
            if None not in most and (held := sum(n or 0 for n in most)) < samples:
                return [s for s, weight in enumerate(weights) if weight or s in ended], held
        return None


class EndingEpochs:
    """Epochs in which sources end, and to which all of them come again, each with the draw behind its last one."""

    def __init__(
        self, ends: Ends, stages: Sequence[WeightsFrom], samples: int, run_of: RunOf, by: str | None
    ):
        self._ends, self._scheduled, self._samples, self._run_of = ends, stages, samples, run_of
        # Epochs in which as many samples of each source come: by elements, only where all sources end.
        all_end = None not in ends.most and sum(n or 0 for n in ends.most) == samples
        self._walked: bool = by is not None and not all_end
        changed = {start // samples + after for start, _ in stages[1:] for after in (0, 1)}
        self._changes = [] if all_end else sorted(changed)
        self._known: list[tuple[int, list[int]]] = [(0, [0] * len(ends.most))]  # (epoch, draws before it)
        self._epochs: OrderedDict[int, Stages] = OrderedDict()

    def epoch(self, epoch: int) -> Stages:
        """The turns of an epoch, from 0 on."""
        return kept(self._epochs, epoch, lambda: self._stages(epoch, self._drawn_before(epoch)))

    def _stages(self, epoch: int, begun: Sequence[int]) -> Stages:
        first = epoch * self._samples
        since = [(max(start - first, 0), weights) for start, weights in self._scheduled]
        now = max(i for i, (start, _) in enumerate(self._scheduled) if start <= first)
        within = [one for one in since[now:] if one[0] < self._samples]
        return self._ends.stages(within, begun, self._run_of)

    def _drawn_before(self, epoch: int) -> list[int]:
        known, begun = self._known[bisect_right(self._known, epoch, key=lambda one: one[0]) - 1]
        if self._walked and epoch - known > _MOST_WALKED:
            raise ValueError(
                f"epoch {epoch}: where it begins follows from the samples of every epoch before, as not every source "
                f"ends in each, and {_MOST_WALKED:,} are looked at: have all of them end (repeat= for each, "
                'stop="all"), or give weights of samples, without by='
            )
        while known < epoch:
            change = known + 1 if self._walked else next((one for one in self._changes if one > known), None)
            until = epoch if change is None else min(change, epoch)
            drawn = (self._epochs.get(known) or self._stages(known, begun)).split(self._samples)
            begun = [n + (until - known) * (end - n) for n, end in zip(begun, drawn, strict=True)]
            known = until
            if known == change:
                self._known.append((known, begun))
        return begun


class Mixture(Rule):
    """The rule of a mixture. Epoch e is the turns e · samples … (e + 1) · samples − 1 of one endless sequence.

    So no row of a source comes again before all of its rows have come, over all epochs of the mixture.
    """

    name = "mixture"
    repeats = True  # also where an epoch ends with the first source: those of another may end within it

    def __init__(
        self,
        sources: Sequence[MixtureSource],
        stages: Sequence[WeightsFrom],
        samples: int,
        ends: Ends | None = None,
        by: str | None = None,
    ) -> None:
        """``stages`` are (first turn, integer weights of the sources), ``samples`` the turns of an epoch.

        ``by``: the column whose lengths the sources have, of which the weights are then.
        """
        self.sources: tuple[MixtureSource, ...] = tuple(sources)
        self.stages: tuple[tuple[int, tuple[int, ...]], ...] = tuple(stages)
        self.samples: int = check_integer("samples", samples, 1, _MOST_TURNS)
        self.rows: int = sum(source.order.selected_rows for source in self.sources)
        self.first_rows: NDArray[np.int64] = np.array([source.first_row for source in sources], np.int64)
        self.ends, self.by = ends, by
        self._latest: tuple[OrderSpec, Stages | EndingEpochs] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return Mixture, (self.sources, self.stages, self.samples, self.ends, self.by)

    def turns_of_epoch(self, spec: OrderSpec) -> tuple[Stages, int]:
        """The turns with those of an epoch, and the first of these; what was made of the latest spec is kept."""
        base, latest = spec.at_epoch(0), self._latest
        if latest is None or latest[0] != base:
            latest = self._latest = (base, self._turns(base))
        turns = latest[1]
        return (
            (turns.epoch(spec.epoch), 0)
            if isinstance(turns, EndingEpochs)
            else (turns, spec.epoch * self.samples)
        )

    def _turns(self, spec: OrderSpec) -> Stages | EndingEpochs:
        made = run_of(self.sources, spec)
        if self.ends is None:
            return Stages.of(self.stages, made)
        return EndingEpochs(self.ends, self.stages, self.samples, made, self.by)

    def order(self, spec: OrderSpec) -> MixedOrder:
        """The order of an epoch."""
        return MixedOrder(self, spec)

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """Plain values: the sources, the weights of each stage and the length of an epoch, and what ends in it."""
        state: dict[str, Any] = {
            "samples": self.samples,
            "sources": [source.state(spec) for source in self.sources],
            "weights": [[start, list(weights)] for start, weights in self.stages],
        }
        if self.by is not None:
            state["by"] = self.by
        if self.ends is not None:
            state["repeat"] = [
                None if most is None else most // source.samples
                for most, source in zip(self.ends.most, self.sources, strict=True)
            ]
            state["then"] = [None if one is None else list(one) for one in self.ends.weights]
        return state

    def difference(
        self, state: Mapping[str, Any], spec: OrderSpec, epoch: int, position: int
    ) -> tuple[Any, Any] | None:
        """What differs between a state's mixture and this one before a position of an epoch; None: nothing.

        Weights that begin at the position or later may be others: the state has not come to them yet. Of sources that
        differ the name is there, too.
        """
        turn = epoch * self.samples + position
        theirs, own = dict(state), self.state(spec)
        for one in (theirs, own):
            stages = one.get("weights")
            if isinstance(stages, list):
                one["weights"] = [stage for stage in stages if stage[0] == 0 or stage[0] < turn]
            sources = one.get("sources")
            # As in a state of rows: the selection decides, and the condition says how it was found.
            if isinstance(sources, list) and all(isinstance(source, Mapping) for source in sources):
                one["sources"] = [{k: v for k, v in source.items() if k != "where"} for source in sources]
        if theirs == own:
            return None
        were, are = theirs.get("sources"), own["sources"]
        if isinstance(were, list) and len(were) == len(are):
            apart = [_apart(*pair, "name") for pair in zip(were, are, strict=True) if pair[0] != pair[1]]
            theirs["sources"], own["sources"] = [one for one, _ in apart], [one for _, one in apart]
        return _apart(theirs, own)


def _apart(one: Any, other: Any, *kept: str) -> tuple[Any, Any]:
    """Of two mappings the values that differ, and those that are kept anyhow; anything else as it is."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return one, other
    same = {name for name in one.keys() & other.keys() if one[name] == other[name]}.difference(kept)
    left = [{name: value for name, value in of.items() if name not in same} for of in (one, other)]
    return left[0], left[1]


class MixedOrder(Vectorised):
    """One epoch of a mixture: positions to rows of the mixture's data, and back."""

    def __init__(self, mixture: Mixture, spec: OrderSpec) -> None:
        super().__init__(mixture.samples, spec)
        self._mixture = mixture
        if (spec.epoch + 1) * self.rows > _MOST_TURNS:
            raise ValueError(
                f"epoch {spec.epoch} of a mixture of {many(self.rows, 'sample')} lies behind sample 2^62"
            )
        self._stages, self._begin = mixture.turns_of_epoch(spec)
        self._orders: OrderedDict[tuple[int, int], Any] = OrderedDict()

    def _order(self, number: int, epoch: int) -> Any:
        """The order of an epoch of a source; the latest ones are kept."""
        key = (number, epoch)
        found = self._orders.get(key)
        if found is None:
            source = self._mixture.sources[number]
            found = source.epoch(source.spec(self.spec).at_epoch(epoch))
            while len(self._orders) >= _KEPT * len(self._mixture.sources):
                self._orders.popitem(last=False)
            self._orders[key] = found
        return found

    def _rows_at(self, positions: Numbers) -> Numbers:
        source_of, draw = self._stages.at(positions + self._begin)
        rows = np.empty(len(positions), np.int64)
        for number, source in enumerate(self._mixture.sources):
            here = np.flatnonzero(source_of == number)
            if not len(here):
                continue
            epoch, place = np.divmod(draw[here], source.samples)
            for some in runs(epoch):
                places = self._order(number, int(epoch[some][0])).at(place[some])
                rows[here[some]] = source.order.selection.row_ids(places) + source.first_row
        return rows

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its position) for each time that one of them comes in the epoch."""
        which, positions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        source_of = np.searchsorted(self._mixture.first_rows, rows, side="right") - 1
        begun, ended = (self._stages.split(turn) for turn in (self._begin, self._begin + self.rows))
        for number, source in enumerate(self._mixture.sources):
            here = np.flatnonzero(source_of == number)
            selected, place = source.order.selection.places(rows[here] - source.first_row)
            if not len(place):
                continue
            first, end = begun[number], ended[number]
            for epoch in range(first // source.samples, -(-end // source.samples)):
                order = self._order(number, epoch)
                if source.order.rule is None:
                    of, places = np.arange(len(place)), order.inverse(place)
                else:
                    of, places = order.occurrences(place)
                draws = places + epoch * source.samples
                came = np.flatnonzero((draws >= first) & (draws < end))
                which.append(here[selected[of[came]]])
                positions.append(self._stages.turns_of(number, draws[came]) - self._begin)
        return np.concatenate(which), np.concatenate(positions)


def samples_until(stop: Stop, rows: Sequence[int], weights: Sequence[int]) -> int:
    """The length of an epoch that ends when the ``first`` source, or each of them, has been read whole.

    A source of n rows and weight w of W has its last row at turn ⌈nW/w⌉ at the latest, and no more than n before turn
    ⌊nW/w⌋.
    """
    total = sum(weights)
    if stop == "first":
        return min(n * total // weight for n, weight in zip(rows, weights, strict=True))
    return max(-(-n * total // weight) for n, weight in zip(rows, weights, strict=True))
