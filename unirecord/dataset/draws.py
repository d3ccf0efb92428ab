"""Draws: functions of datasets that give samples by weight, batches by class or length, windows, packs and mixtures."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import SchemaError, StaleError
from ..format.column import Column, differing_meaning
from ..format.schema import Schema
from ..loading.batch import WhereFrom
from ..loading.loader import UNCHANGED, ReadAhead, Unchanged, check_callable
from ..loading.opened import OpenedData, PathLike
from ..loading.plan import Plan
from ..loading.sequences import SequenceData
from ..loading.streams import SEQ_LENS, StreamData, StreamRule, WrittenPacks, element_type
from ..migration_hints import OF_DRAWS, no_attribute
from ..order.length_turns import samples_by_length
from ..order.mixture import (
    Ends,
    Mixture,
    MixtureSource,
    RunOf,
    Stop,
    WeightsFrom,
    run_of,
    samples_until,
    whole_weights,
)
from ..order.permutation import Rule, ShardOrder
from ..order.sampling import Balanced, Bucketed, Weighted, WeightedOnce, edges_of
from ..order.selection import Selection
from ..order.spec import OrderSpec, Sharding, Shuffle, check_integer, check_shard_arguments
from ..order.windows import Windows
from ..query.columns import row_lengths, scalar_arrays
from ..sizes import many
from ..snapshot.layouts import same_values
from ..snapshot.part_set import resolve_again
from ..storage.storage_options import use_storage
from .batch_loader import BatchLoader, batch_options
from .cursor import Cursor
from .dataset import UniRecordDataset
from .order_queries import OrderQueries
from .position import Position

if TYPE_CHECKING:
    from fractions import Fraction

    from typing_extensions import Unpack

    from ..loading.loader import OnCorrupt

__all__ = [
    "DrawnBatches",
    "balanced",
    "bucketed",
    "mix",
    "packed",
    "weighted",
    "windows",
]


# Draws: functions of datasets that give samples by weight, balanced batches, batches of like lengths,
# mixtures.


# Draws: functions of datasets that give samples by weight, batches of balanced classes, batches of like
# lengths.


Given = TypeVar("Given")


def weighted(
    ds: UniRecordDataset[Given],
    weights: str | Sequence[float] | NDArray[Any],
    *,
    samples: int | None = None,
    replacement: bool = True,
) -> UniRecordDataset[Given]:
    """A dataset whose samples are drawn by weight (docs/drawing.md).

    With replacement, each position of each epoch is a draw of its own. Without, a row comes once an epoch at most:
    at each position, each row that is left with the probability of its weight among theirs. It is a dataset like
    any other, whatever the ranks and the shuffle, but that ``where``, ``select``, ``take``, ``skip`` and ``split``
    come before.

    Args:
        ds: the dataset.
        weights: of each of its ``num_rows`` rows, as stored; or the name of a scalar column that has them.
            Finite, 0 or more; their proportions count. 8 bytes a row are kept; without replacement, 8 more for each
            sample of the epoch, and 40 while it is drawn.
        samples: an epoch has so many, of all ranks; by default ``num_rows``, without replacement the rows with a
            weight of more than 0, which are the most then.
        replacement: whether a row that has been drawn may be drawn again.
    """
    plan: Any = _plain_plan(ds, "weighted")
    given: Any = weights
    if isinstance(weights, str):
        given = scalar_arrays(plan.data.parts, [weights], plan.order.selection)[weights]
        if np.ma.is_masked(given):
            raise SchemaError(f"column {weights!r} is null in some rows, which have no weight")
    given = np.asarray(given)
    if given.dtype.kind not in "iufb" or given.shape != (ds.read_cursor.plan.order.selected_rows,):
        raise ValueError(
            f"weights are {given.dtype} of shape {given.shape}; they must be numbers, one for each of the "
            f"{many(ds.read_cursor.plan.order.selected_rows, 'row')}"
        )
    numbers = given.astype(np.float64)
    total = float(numbers.sum())
    if not np.isfinite(total) or not len(numbers) or numbers.min() < 0 or total <= 0:
        raise ValueError("weights must be finite, 0 or more, and not all 0")
    if not isinstance(replacement, bool):
        raise TypeError(f"replacement must be True or False, got {replacement!r}")
    most = len(numbers) if replacement else int(np.count_nonzero(numbers))
    draws = most if samples is None else check_integer("samples", samples, 1, 1 << 62)
    if replacement:
        return ds._over(plan.drawn(Weighted(numbers, draws)))
    if draws > most:
        raise ValueError(
            f"samples={draws}: without replacement, {many(most, 'row')} can be drawn, which have a weight"
        )
    return ds._over(plan.drawn(WeightedOnce(numbers, draws)))


def balanced(
    ds: UniRecordDataset[Any], column: str, *, classes: int, per_class: int, batches: int | None = None
) -> DrawnBatches:
    """Batches of ``per_class`` rows of each of ``classes`` classes, which differ (docs/drawing.md).

    Every class comes as often as any other, and goes through epochs of its own, over all epochs: with
    ``shuffle=True`` in new orders, else as stored. No row comes twice in a batch but of a class of fewer than
    ``per_class`` rows, which is gone through again from its front.

    Args:
        ds: the dataset.
        column: a scalar column; each of its values is a class.
        classes: how many classes a batch has.
        per_class: how many rows of each.
        batches: batches of an epoch, of all ranks; by default as many as hold ``num_rows`` rows.

    Raises:
        SchemaError: the column is not scalar, or is null somewhere.
        ValueError: there are fewer classes, or the dataset is shuffled in another way.
    """
    plan = _plain_plan(ds, "balanced")
    check_integer("classes", classes, 1)
    check_integer("per_class", per_class, 1)
    values = scalar_arrays(plan.data.parts, [column], plan.order.selection)[column]
    if np.ma.is_masked(values) or (values.dtype == object and any(value is None for value in values)):
        raise SchemaError(
            f"column {column!r} is null in some rows, which have no class: leave them out with where="
        )
    found, class_of = np.unique(np.asarray(values), return_inverse=True)
    if len(found) < classes:
        raise ValueError(
            f"column {column!r} has {many(len(found), 'class')} in these rows, and a batch is to have {classes}"
        )
    if batches is None:
        batches = -(-len(class_of) // (classes * per_class))
    check_integer("batches", batches, 1)
    return _drawn(ds, Balanced(class_of.astype(np.int64), classes, per_class, batches))


def bucketed(
    ds: UniRecordDataset[Any],
    column: str,
    *,
    batch_size: int | None = None,
    max_length: int | None = None,
    edges: Sequence[int] | None = None,
    drop_last: bool = False,
) -> DrawnBatches:
    """Batches of rows of like length, or of bounded size: every row once an epoch (docs/drawing.md).

    Rows are divided into buckets by length, which the index alone says. With ``shuffle=True`` each bucket is
    shuffled anew for each epoch, and cut into batches, which come in a random order; else all as stored.

    Args:
        ds: the dataset.
        column: whose values' lengths count: entries of arrays along their free first dimension (tokens), bytes of
            others; or a column of integers, which are the lengths.
        batch_size: rows in a batch.
        max_length: in place of it, what a padded batch may hold: its rows times its longest one at most.
        edges: ascending lengths; a bucket has those up to its edge, the last one all above. By default from the
            shortest, or a sixteenth of the longest, up to it, each about an eighth above the one before.
        drop_last: leave out the last batch of a bucket where it is smaller than the others.

    Raises:
        SchemaError: the column has no lengths.
        ValueError: a row is longer than ``max_length``, or another wrong argument.
    """
    plan = _plain_plan(ds, "bucketed")
    if (batch_size is None) == (max_length is None):
        raise ValueError("give one of batch_size and max_length")
    if batch_size is not None:
        check_integer("batch_size", batch_size, 1)
    lengths = row_lengths(plan.data.parts, column, plan.order.selection)
    if max_length is not None:
        check_integer("max_length", max_length, 1)
        longer = np.flatnonzero(lengths > max_length)
        if len(longer):
            row = int(plan.order.selection.row_ids(longer[:1])[0])
            raise ValueError(
                f"{many(len(longer), 'row', 'are')} longer than max_length={max_length}; row {row} has "
                f"{lengths[longer[0]]}: "
                "leave them out with select, or allow more"
            )
    chosen = edges_of(lengths) if edges is None else [check_integer("an edge", edge, 0) for edge in edges]
    if sorted(set(chosen)) != chosen:
        raise ValueError(f"edges are {chosen}; they must ascend")
    if not isinstance(drop_last, bool):
        raise TypeError(f"drop_last must be True or False, got {drop_last!r}")
    return _drawn(ds, Bucketed(lengths, chosen, batch_size, max_length, drop_last))


def _drawn(ds: UniRecordDataset[Any], rule: Rule) -> DrawnBatches:
    plan: Any = ds.read_cursor.plan
    ds.read_cursor.refuse_exclusions(f"{rule.name} batches")
    if plan.order.spec.mode not in ("sequential", "shuffle"):
        raise ValueError(
            f"the dataset is shuffled by {plan.order.spec.mode!r}, and {rule.name} batches have an order of their "
            "own: give it shuffle=True or shuffle=False"
        )
    return DrawnBatches(ds, Cursor(plan.drawn(rule), Position(ds.read_cursor.position.epoch)))


def _plan_of(ds: UniRecordDataset[Any]) -> Plan:
    """What a dataset reads; TypeError for what is none, such as a path."""
    if not isinstance(ds, UniRecordDataset):
        raise TypeError(f"expected a UniRecordDataset, got {ds!r:.100}: open one with UniRecordDataset(path)")
    return ds.read_cursor.plan


def _plain_plan(ds: UniRecordDataset[Any], draw: str) -> Plan:
    """What a dataset reads; ValueError where it has no rows of its own to draw."""
    plan = _plan_of(ds)
    if plan.order.rule is not None:
        raise ValueError(f"this is {plan.order.rule.name} already: draw from what it is made of")
    if isinstance(plan.data, StreamData):
        raise ValueError(f"{draw} draws rows, and these are windows or packed samples, which have no columns")
    return plan


class DrawnBatches:
    """What ``balanced`` and ``bucketed`` give: batches with a length, epochs and a state (docs/drawing.md).

    ``batches()`` and ``unirecord.torch.loader`` read them ahead. Iterated over, it is a batch sampler as PyTorch knows
    them: lists of places in ``dataset``, for ``DataLoader(drawn.dataset, batch_sampler=drawn)``. Ranks share batches:
    rank r of N has the batches r, r + N, …, and ``remainder`` says what becomes of the last ones. A position in a state
    counts batches of all ranks.
    """

    def __init__(self, source: Any, cursor: Cursor) -> None:
        self._source = source
        self.read_cursor = cursor

    @property
    def dataset(self) -> Any:
        """The rows that batches are drawn from, in the order stored, on one rank: what the lists of places are of."""
        return self._source.view(shuffle=False, shard_id=0, num_shards=1)

    @property
    def transform(self) -> Callable[[dict[str, Any]], Any] | None:
        """What is called with every sample: the dataset's."""
        transform: Callable[[dict[str, Any]], Any] | None = self._source.transform
        return transform

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What becomes of corrupt rows: as the dataset says."""
        found: OnCorrupt = self._source.on_corrupt
        return found

    @property
    def schema(self) -> Schema:
        """The schema of the data."""
        return self.read_cursor.plan.data.snapshot.schema

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return tuple(column.name for _, column in self.read_cursor.plan.columns)

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.read_cursor.position.epoch

    def __len__(self) -> int:
        return self.read_cursor.samples_left()

    def __repr__(self) -> str:
        rule = self.read_cursor.plan.order.rule
        assert rule is not None
        return f"DrawnBatches({rule.name}, {many(rule.samples, 'batch')} of {many(rule.rows, 'row')}: {self._source!r})"

    def batches(
        self,
        *,
        transform: Callable[[Any], Any] | Unchanged | None = UNCHANGED,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[Any]:
        """The batches of this rank, read ahead by C threads, as ``UniRecordDataset.batches`` gives its own.

        Args:
            transform, collate_fn, batch_transform: as for ``UniRecordDataset.batches``.
            **read_ahead: ``prefetch``, ``num_threads``, ``num_workers``, ``random``, ``crops`` and ``return_places``,
                likewise.
        """
        own = self.transform if isinstance(transform, Unchanged) else transform
        check_callable("transform", own)
        return BatchLoader(self, batch_options(self, None, own, collate_fn, batch_transform, read_ahead))

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self).__name__, name, OF_DRAWS), name=name, obj=self)

    @property
    def order(self) -> OrderQueries:
        """The order, to be asked: which rows a step of the job gets, and when a row comes (docs/order.md)."""
        return OrderQueries(self, self.read_cursor)

    def __iter__(self) -> Generator[list[int], None, None]:
        # A generator: the pass begins when the first batch is asked for.
        run, position = self.read_cursor.begin(self.read_cursor.plan), self.read_cursor.position
        for number in range(run.samples):
            places: list[int] = run.positions(number, number + 1).tolist()
            position.mark(run, run.after(number + 1))
            yield places

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``."""
        self.read_cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands; of a ``DataLoader``, which asks ahead, by the batches that it has asked for."""
        return self.read_cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on where ``state`` was taken, on any number of ranks."""
        self.read_cursor.load_state_dict(state)


# Several datasets as one, whose samples come from them in turns by weight.


Sources = Mapping[str, UniRecordDataset[Any]]
Weights = Mapping[str, "float | Fraction"]
Value = TypeVar("Value")


def mix(
    sources: Sources,
    weights: Weights | None = None,
    *,
    seed: int = 0,
    shuffle: Shuffle = True,
    stop: Stop = "first",
    samples: int | None = None,
    repeat: int | Mapping[str, int | None] | None = None,
    then: Mapping[str, Weights] | None = None,
    schedule: Mapping[int, Weights] | None = None,
    by: str | None = None,
    shard_id: int | None = None,
    num_shards: int | None = None,
    source_column: str | None = "source",
) -> UniRecordDataset[Any]:
    """Several datasets as one, whose samples come from them in turns by weight (docs/drawing.md).

    At every prefix of the samples of all ranks together, the count of each source is less than one away from its share.
    Each source goes through epochs of its own, each in a new order, over all epochs of the mixture: no row comes again
    before all others of its source have come. What is returned is a dataset like any other, but that ``where``,
    ``select``, ``take``, ``skip`` and ``split`` are for its sources, before they are mixed.

    Args:
        sources: datasets by name. A source that was opened with a shuffle keeps its order and its seed. Their ranks,
            ``remainder``, ``io``, ``verify``, ``on_corrupt`` and ``transform`` must agree, and hold; in object stores
            ``storage_options`` and ``cache`` too. The columns are those that all of them read, in the order of the
            first, and have the same type in each.
        weights: of each source, 0 or more; their proportions count. By default the rows of each source.
        seed: 0 … 2^64 − 1; of the turns, and of the order of sources that were opened without a shuffle.
        shuffle: the order of sources that were opened without a shuffle, as for a dataset.
        stop: an epoch ends when the "first" source has been read whole, or when "all" have.
        samples: an epoch has this many samples, whatever has been read; in place of ``stop``.
        repeat: how often a source is read in an epoch at most, of all or by name; None: as often as its turns come.
            Then it is left out until the next epoch, and the others share its turns by their weights. With
            ``stop="all"`` an epoch ends when each has been read so often, or once where it is None. It needs that, or
            ``samples``.
        then: by the name of a source that ``repeat`` leaves out, the weights from there on, in place of those before;
            sources that have ended have none. They hold to the end of the epoch, the next ``then`` or stage of the
            ``schedule``.
        schedule: other weights from a sample on, such as ``{1_000_000: {"web": 1, "code": 1}}``. Samples count over all
            ranks and epochs: step · batch size · ranks. Every source goes on where it stands. It needs ``samples``.
        by: a column of runs of elements, such as "tokens", or of whole numbers that say how many there are: weights
            are shares of these elements in place of samples, at every prefix within half a sample of each source
            (docs/drawing.md). By default weights are then the elements of each source.
        shard_id, num_shards: this rank and the number of ranks; by default those of the sources.
        source_column: the name of a column that says which source a sample is of; None for none.

    Raises:
        SchemaError: the sources have a column of different types, or whose logical types or annotations say that it
            means different things (other classes, another form of boxes), or none in common, or one named
                ``source_column``.
        StaleError: a source has been replaced since it was opened.
        ValueError, TypeError: another wrong argument.
    """
    _check_sources(sources)
    lengths = None if by is None else _lengths(sources, by)
    _check_by_key("schedule", "samples", schedule)
    _check_by_key("then", "sources", then)
    if weights is None and lengths is not None:
        weights = {name: int(own.sum(dtype=np.int64)) for name, own in zip(sources, lengths, strict=True)}
    means = None if by is None or lengths is not None else [_mean(n, ds, by) for n, ds in sources.items()]
    stages = _stages(sources, weights, schedule, means)
    rows = [_order(ds).samples for ds in sources.values()]
    if schedule and samples is None:
        raise ValueError("with a schedule, say how many samples an epoch has: samples=")
    if stop not in ("first", "all"):
        raise ValueError(
            f'stop must be "first" or "all", got {stop!r}; for a number of samples, give samples='
        )
    made = _orders(sources, lengths)
    spec = OrderSpec.parse(shuffle, seed)
    ends = None
    if repeat is not None:
        if stop == "first" and samples is None:
            raise ValueError(
                "repeat= says what becomes of a source that ends before the epoch, and this ends with the first: give "
                'stop="all" or samples='
            )
        ends = Ends(_most(sources, repeat), _weights_after(sources, then or {}, repeat, means))
        # Without samples=, an epoch is as long as the first is; by elements, sources end in another order in others.
        whole = _samples_with(ends, rows, stages, run_of(made, spec)) if samples is None else samples
        if samples is not None or lengths is not None:
            _refuse_too_few(list(sources), ends, stages, whole)
        samples = whole
    elif then is not None:
        raise ValueError(
            "then= has weights from the end of a source on, and no source ends: give repeat= as well"
        )
    elif samples is None and lengths is not None:
        in_turn = [source.lengths_in_turn(spec) for source in made]
        samples = samples_by_length(in_turn, stages[0][1], of_all=stop == "all")
    elif samples is None:
        samples = max(samples_until(stop, rows, stages[0][1]), 1)
    samples = check_integer("samples", samples, 1)
    mixture = Mixture(made, stages, samples, ends, None if lengths is None else by)
    data = _joined(sources)
    if source_column is not None:
        data = data.telling(WhereFrom(source_column, *_names_of(sources, mixture)))
    shard = _shard(sources, shard_id, num_shards)
    remainder = _agreed(sources, "remainder", {n: _order(ds).sharding.remainder for n, ds in sources.items()})
    everything = Selection(data.snapshot.rows)
    order = ShardOrder(
        everything,
        Sharding(len(everything), 0, 1, remainder),
        spec,
        data.parts.starts,
    )
    plan = Plan(data, order.with_rule(mixture), None, None, False, (None, None))
    plan = plan.ordered(plan.order.spec).sharded(*shard, remainder)
    mixed: UniRecordDataset[Any] = object.__new__(UniRecordDataset)
    mixed._stand(
        Cursor(plan, Position()),
        _agreed(sources, "transform", {name: ds.transform for name, ds in sources.items()}),
        _agreed(sources, "on_corrupt", {name: ds.on_corrupt for name, ds in sources.items()}),
    )
    return mixed


def _order(ds: UniRecordDataset[Any]) -> ShardOrder:
    return ds.read_cursor.plan.order


def _check_sources(sources: Sources) -> None:
    if not isinstance(sources, Mapping) or not sources:
        raise TypeError(f'sources are datasets by name, such as {{"web": a, "code": b}}, not {sources!r}')
    for name, ds in sources.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a source is {name!r}; it must be a string")
        if isinstance(ds, DrawnBatches):
            raise TypeError(
                f"source {name!r} is of batches that belong together, and a mixture is of samples: mix datasets, and "
                "draw batches from each apart"
            )
        if not isinstance(ds, UniRecordDataset):
            raise TypeError(f"source {name!r} is {ds!r}; it must be a UniRecordDataset")
        ds.read_cursor.refuse_exclusions("a mixture")
        if ds.num_rows == 0:
            raise ValueError(
                f"source {name!r} has no {_kind_of(ds.read_cursor.plan.data)}, so that its turns would stay empty: "
                "leave it out"
            )


def _check_by_key(option: str, keys: str, given: Any) -> None:
    """TypeError where an option is not weights of sources by key."""
    if given is None or (
        isinstance(given, Mapping) and all(isinstance(one, Mapping) for one in given.values())
    ):
        return
    key = "1_000_000" if keys == "samples" else '"code"'
    raise TypeError(
        f'{option} is {given!r:.100}; it must be weights by {keys}, such as {{{key}: {{"web": 1}}}}'
    )


def _stages(
    sources: Sources,
    weights: Weights | None,
    schedule: Mapping[int, Weights] | None,
    means: Sequence[Fraction] | None,
) -> list[WeightsFrom]:
    """(first turn, integer weights) of each stage, those before the schedule first."""
    stages = [(0, whole_weights([ds.num_rows for ds in sources.values()]))] if weights is None else []
    for start, wanted in [*([] if weights is None else [(0, weights)]), *sorted((schedule or {}).items())]:
        check_integer("a sample of the schedule", start, 1 if stages else 0, 1 << 62)
        stages.append((int(start), _whole(sources, wanted, means)))
    if not schedule and 0 in stages[0][1]:
        without = list(sources)[stages[0][1].index(0)]
        raise ValueError(f"source {without!r} has the weight 0 and would never come: leave it out")
    return stages


def _whole(sources: Sources, weights: Any, means: Sequence[Fraction] | None) -> tuple[int, ...]:
    """Weights as integers: those of elements become those of samples by ``means``, of elements in a sample."""
    if not isinstance(weights, Mapping) or set(weights) != set(sources):
        shown = sorted(weights) if isinstance(weights, Mapping) else weights
        raise ValueError(f"weights are for {shown}; there must be one for each of {sorted(sources)}")
    shares = whole_weights([weights[name] for name in sources])
    if means is None:
        return shares
    return whole_weights([one / mean for one, mean in zip(shares, means, strict=True)])


def _most(sources: Sources, repeat: int | Mapping[str, int | None]) -> tuple[int | None, ...]:
    """The samples that each source has in an epoch at most."""
    times = repeat if isinstance(repeat, Mapping) else dict.fromkeys(sources, repeat)
    if strangers := sorted(set(times) - set(sources)):
        raise ValueError(f"repeat= is for {strangers}; the sources are {sorted(sources)}")
    return tuple(
        None
        if (often := times.get(name)) is None
        else _order(ds).samples * check_integer(f"repeat of {name!r}", often, 1, 1 << 32)
        for name, ds in sources.items()
    )


def _weights_after(
    sources: Sources,
    then: Mapping[str, Weights],
    repeat: int | Mapping[str, int | None],
    means: Sequence[Fraction] | None,
) -> tuple[tuple[int, ...] | None, ...]:
    """The weights from the end of each source on, None: those before."""
    ending = sources if not isinstance(repeat, Mapping) else [n for n in repeat if repeat[n] is not None]
    if strangers := sorted(set(then) - set(ending)):
        raise ValueError(
            f"then= is for {strangers}, of which repeat= says no end; it does of {sorted(ending)}"
        )
    zero = dict.fromkeys(sources, 0)
    return tuple(
        _whole(sources, {**zero, **then[name], name: 0}, means) if name in then else None for name in sources
    )


def _samples_with(ends: Ends, rows: Sequence[int], stages: Sequence[WeightsFrom], run_of: RunOf) -> int:
    """The samples of an epoch in which sources end."""
    whole = ends.samples(rows, ends.stages(stages, [0] * len(rows), run_of))
    if whole is None:
        raise ValueError(
            "then= leaves a source without a weight before it has been read whole: give samples="
        )
    return whole


def _refuse_too_few(names: Sequence[str], ends: Ends, stages: Sequence[WeightsFrom], samples: int) -> None:
    """ValueError where sources with a weight may all have ended while an epoch lasts."""
    found = ends.too_few(stages, samples)
    if found is None:
        return
    ended, held = found
    what = "every source end,"
    if len(ended) < len(names):
        what = f"all of {[names[s] for s in ended]} end, at times no other has a weight,"
    raise ValueError(
        f"an epoch is of {many(samples, 'sample')}: repeat= has {what} and together they have "
        f"{many(held, 'sample')}: give fewer samples, or a weight in weights=, then= or schedule= to one without an end"
    )


def _names_of(sources: Sources, mixture: Mixture) -> tuple[list[str], list[int]]:
    """The name of each source, and its first row; of a mixture among them ``name/inner`` for each of its own."""
    names, first_rows = [], []
    for (name, ds), source in zip(sources.items(), mixture.sources, strict=True):
        inner = ds.read_cursor.plan.data.where_from
        for within, first in [("", 0)] if inner is None else inner.ranges():
            names.append(f"{name}/{within}" if within else name)
            first_rows.append(source.first_row + first)
    return names, first_rows


def _lengths(sources: Sources, column: str) -> list[NDArray[Any]] | None:
    """The elements of a column in each sample of each source; None where those of each source have as many."""
    for name, ds in sources.items():
        plan = ds.read_cursor.plan
        if plan.order.rule is not None:
            raise ValueError(
                f"by={column!r}: source {name!r} is {plan.order.rule.name} itself, and its samples are as long as it "
                "draws them: give weights of samples"
            )
        if isinstance(plan.data, SequenceData) and plan.data.steps_of(column) is not None:
            raise ValueError(
                f"by={column!r}: a sample of source {name!r} has its values at several steps: give weights of samples"
            )
    plans = [ds.read_cursor.plan for ds in sources.values()]
    if any(isinstance(plan.data, StreamData) for plan in plans):
        return None
    found = [row_lengths(plan.data.parts, column, plan.order.selection) for plan in plans]
    for name, own in zip(sources, found, strict=True):
        if not own.any():
            raise ValueError(f"by={column!r}: source {name!r} has no elements in it")
    if all(own.min() == own.max() for own in found):
        return None
    return [own.astype(np.min_scalar_type(own.max())) for own in found]


def _mean(name: str, ds: UniRecordDataset[Any], column: str) -> Fraction:
    """Elements of a column in a sample of a source, in the mean."""
    from fractions import Fraction

    data = ds.read_cursor.plan.data
    if not isinstance(data, StreamData):
        lengths = row_lengths(data.parts, column, ds.read_cursor.plan.order.selection)
        return Fraction(int(lengths.sum()), len(lengths))
    if column != data.streams[0][0].column:
        raise ValueError(
            f"by={column!r}: the samples of source {name!r} are cut from {data.streams[0][0].column!r}"
        )
    if not data.mean_elements:
        raise ValueError(f"by={column!r}: source {name!r} has no elements in it")
    return data.mean_elements


def _orders(sources: Sources, lengths: Sequence[NDArray[Any]] | None) -> list[MixtureSource]:
    made, first_row = [], 0
    for number, (name, ds) in enumerate(sources.items()):
        plan = ds.read_cursor.plan
        own = None if lengths is None else lengths[number]
        made.append(MixtureSource(name, plan.order, first_row, plan.condition, plan.identity, own))
        first_row += plan.data.snapshot.rows
    return made


_VIEW = "ds.view({option}=…) gives a source another"
_ANEW = "unirecord.windows or packed makes the samples of a source anew, with that of the others"


def _agreed(sources: Sources, option: str, values: Mapping[str, Value], way: str = _VIEW) -> Value:
    """The value of an option that all sources have; ``way``: how one gets another."""
    first = next(iter(sources))
    for name, value in values.items():
        if value != values[first]:
            raise ValueError(
                f"{option} is {values[first]!r} in source {first!r} and {value!r} in {name!r}; "
                f"a mixture has one for all: {way.format(option=option)}"
            )
    return values[first]


def _shard(sources: Sources, shard_id: int | None, num_shards: int | None) -> tuple[int, int]:
    if shard_id is not None or num_shards is not None:
        return check_shard_arguments(shard_id, num_shards)
    return _agreed(
        sources, "shard_id, num_shards", {name: (ds.shard_id, ds.num_shards) for name, ds in sources.items()}
    )


_MADE_BY = {
    "rows": "",
    "windows or packed samples": "unirecord.windows and packed make samples of rows",
    "sequences": 'unirecord.sequences(ds, at={"name": [0]}) makes sequences of rows',
}


def _kind_of(data: OpenedData) -> str:
    if isinstance(data, StreamData):
        return "windows or packed samples"
    return "sequences" if isinstance(data, SequenceData) else "rows"


def _joined(sources: Sources) -> OpenedData:
    """The data of all sources, one after the other, with the columns that all of them read."""
    opened = {name: ds.read_cursor.plan.data for name, ds in sources.items()}
    kinds = {name: _kind_of(data) for name, data in opened.items()}
    (first, kind), *_ = kinds.items()
    for name, other in kinds.items():
        if other != kind:
            made = "; ".join(how for how in (_MADE_BY[kind], _MADE_BY[other]) if how)
            raise ValueError(
                f"source {first!r} is of {kind}, and {name!r} of {other}: a mixture is of one kind of samples; {made}"
            )
    streams = {name: data for name, data in opened.items() if isinstance(data, StreamData)}
    if streams:
        return _joined_streams(sources, streams)
    sequences = {name: data for name, data in opened.items() if isinstance(data, SequenceData)}
    if sequences:
        return _joined_sequences(sources, sequences)
    return _joined_parts(sources, opened, _common_columns(sources))


def _joined_sequences(sources: Sources, sequences: Mapping[str, SequenceData]) -> SequenceData:
    """Sequences of several datasets, each by its own offsets, as those of all their parts."""
    names = _common_columns(sources)
    first, *others = sequences
    for column in names:
        steps = {name: data.steps_of(column) for name, data in sequences.items()}
        for other in others:
            if steps[other] != steps[first]:
                has, have = (
                    "the anchor's value alone" if count is None else many(count, "step")
                    for count in (steps[first], steps[other])
                )
                raise ValueError(
                    f"column {column!r} has {has} in source {first!r} and {have} in {other!r}, and batches have one "
                    "shape: give it as many offsets in at=, or leave it out with ds.view(columns=…)"
                )
    blank = {name: data.steps.blank for name, data in sequences.items()}
    for other in others:
        if blank[other] != blank[first]:
            partial, full = (first, other) if blank[first] else (other, first)
            raise ValueError(
                f'source {partial!r} has edges="partial" and {full!r} has not: what is missing is zero, or a row, in '
                "all sources of a mixture"
            )
    base = _joined_parts(sources, {name: data.base for name, data in sequences.items()}, names)
    pieces, before = [], 0
    for data in sequences.values():
        pieces += [(rows, before + first_row) for rows, first_row in data.pieces]
        before += data.snapshot.rows
    return SequenceData(base, pieces, names)


def _joined_streams(sources: Sources, streams: Mapping[str, StreamData]) -> StreamData:
    """Windows and packed samples of several datasets, as those of all their parts."""
    rules = {name: data.streams[0][0] for name, data in streams.items()}
    for option in ("column", "length", "documents", "positions", "labels", "lengths"):
        _agreed(sources, option, {name: getattr(rule, option) for name, rule in rules.items()}, _ANEW)
    paddings = {name: rule.padding for name, rule in rules.items() if rule.padding is not None}
    if paddings:
        _agreed({name: sources[name] for name in paddings}, "pad", paddings, _ANEW)
    column = next(iter(rules.values())).column
    bases = {name: data.base.with_columns([column]) for name, data in streams.items()}
    names = _common_columns(sources)
    written = next((name for name, rule in rules.items() if rule.packs is not None), None)
    packing = next((name for name, rule in rules.items() if rule.packs is None), None)
    if written is not None and packing is not None:
        raise SchemaError(
            f"the samples of source {written!r} have been packed and written, and those of {packing!r} are made as "
            "they are read: rows of one length and of any are no one column. Give documents of both, or write the "
            f'samples of {packing!r}, too: unirecord.write_dataset(samples, "packs"), then '
            f'unirecord.packed(UniRecordDataset("packs"), {column!r})'
        )
    _refuse_other_values(column, {name: data.snapshot.schema[column] for name, data in bases.items()})
    base = _joined_parts(sources, bases, [column])
    joined, first = [], 0
    for name, data in streams.items():
        padding = next(iter(paddings.values()), None)
        for rule, selection in data.streams:
            rows = Selection(base.snapshot.rows, array=selection.every() + first)
            joined.append((replace(rule, padding=padding), rows))
        first += bases[name].snapshot.rows
    return StreamData(base, joined, names)


def _joined_parts(sources: Sources, opened: Mapping[str, OpenedData], common: Sequence[str]) -> OpenedData:
    """The parts of all sources, one after the other, with these columns."""
    plans = [ds.read_cursor.plan for ds in sources.values()]
    paths: list[PathLike] = []
    for plan in plans:
        path: PathLike | Sequence[PathLike] = plan.path
        paths.extend(path if isinstance(path, (list, tuple)) else [path])  # type: ignore[list-item]
    io = _agreed(sources, "io", {name: data.parts.io for name, data in opened.items()})
    verify = _agreed(sources, "verify", {name: data.parts.verify for name, data in opened.items()})
    fetched = {name: data for name, data in opened.items() if data.parts.is_fetched}
    storage = _agreed_elsewhere("storage_options", {n: data.snapshot.storage for n, data in fetched.items()})
    cache = _agreed_elsewhere("cache", {n: data.parts.cache_options for n, data in fetched.items()})
    schemas = [data.snapshot.schema for data in opened.values()]
    one_schema = all(schema.says_the_same_as(schemas[0]) for schema in schemas)
    with use_storage(storage):
        snapshot = resolve_again(paths, () if one_schema else common)
        data = OpenedData.open(paths, common, io, verify, snapshot, cache)
    before = [(part.path, part.id) for one in opened.values() for part in one.snapshot.parts]
    if [(part.path, part.id) for part in data.snapshot.parts] != before:
        data.parts.close()
        raise StaleError("a source has been replaced since it was opened: open it again, and mix anew")
    return data


def _common_columns(sources: Sources) -> list[str]:
    """The columns that all sources read, in the order of the first; SchemaError where one is of several types."""
    first, *others = sources
    if any(source.read_cursor.plan.data.tells_row for source in sources.values()):
        raise ValueError(
            "a source has the number of its rows among its columns, and in a mixture they have other numbers: ask the "
            "mixture for them, as in mix(…).view(columns=[…, 'row'])"
        )
    names = [
        name for name in sources[first].column_names if all(name in sources[n].column_names for n in others)
    ]
    if not names:
        raise SchemaError(f"the sources {sorted(sources)} have no column in common")
    for name in names:
        _refuse_other_values(name, {source: ds.schema[name] for source, ds in sources.items()})
    return names


def _refuse_other_values(name: str, columns: Mapping[str, Column]) -> None:
    """SchemaError where sources have a column of several types, or of several meanings."""
    first, *others = columns
    column = columns[first]
    for other in others:
        if not same_values(column, columns[other]):
            raise SchemaError(
                f"column {name!r} is {column.spec!r} in source {first!r} and "
                f"{columns[other].spec!r} in {other!r}: leave it out with ds.view(columns=…)"
            )
        if (difference := differing_meaning(column, columns[other])) is not None:
            raise SchemaError(
                f"column {name!r} means another thing in source {other!r} than in {first!r}: "
                f"{difference}; leave it out with "
                "ds.view(columns=…), or write it in the form of the other: unirecord.add_columns(replace=True)"
            )


def _agreed_elsewhere(option: str, values: Mapping[str, Value]) -> Value | None:
    """The value of an option that all sources in object stores have; None without one."""
    different = list(dict.fromkeys(values.values()))
    if len(different) > 1:
        names = [next(name for name, value in values.items() if value == one) for one in different[:2]]
        raise ValueError(
            f"{option} of source {names[0]!r} is not that of {names[1]!r}; a mixture has one for all"
        )
    return different[0] if different else None


# Samples for language models: windows over a column's values as one stream, and documents packed whole.


def windows(
    ds: UniRecordDataset[Any],
    column: str,
    length: int,
    stride: int | None = None,
    *,
    boundaries: Literal["document"] | None = None,
    pad: float | None = None,
    documents: str | bool = False,
    positions: str | bool = False,
    labels: str | bool = False,
    lengths: str | bool = False,
) -> UniRecordDataset:
    """Windows over the values of a column, which lie one behind the other as one stream (docs/language.md).

    The stream is of the dataset's rows, in the order of ``order.row_ids`` without a shuffle; its shuffle, seed and
    ranks are those of the windows. What is returned is a dataset like any other, without a transform,
    whose rows are windows: arrays [length] of the elements of the column, uint8 for bytes and text.

    Args:
        ds: the dataset.
        column: bytes, text, or arrays of one dimension, such as tokens. Nulls and empty values have no elements.
        length: elements of a window.
        stride: elements from the beginning of one to that of the next; by default ``length``.
        boundaries: "document": each window lies in one value; None: windows reach from one value into the next.
        pad: what is left at the end (of each document, or of all) makes one more window, filled up with this; by
            default it is left out.
        documents: a further column "document", or of this name: the row of each element, int64[length], −1 where
            filled up.
        positions: a further column "position", or of this name: the place of each element in its run of one
            document in the window, int64[length]; ``positions="position_ids"`` is what models of Hugging Face take.
        labels: a further column "labels", or of this name: each element as int64[length], −100 where a run of a
            document begins, and where filled up: what no loss is to count.
        lengths: a further column "seq_lens", or of this name: how long each run of a document is, int32, as many as
            there are in the sample; batches have it as a `RaggedArray`.

    Raises:
        SchemaError: the column is of another kind.
        ValueError, TypeError: another wrong argument, or the dataset is a mixture.
    """
    if boundaries not in (None, "document"):
        raise ValueError(f'boundaries must be "document" or None, got {boundaries!r}')
    check_integer("length", length, 1, 1 << 40)
    step = length if stride is None else check_integer("stride", stride, 1, 1 << 40)
    windows = Windows(length, step, boundaries == "document", pad is not None)
    return _streamed(ds, column, length, windows, pad, documents, positions, labels, lengths)


def packed(
    ds: UniRecordDataset[Any],
    column: str,
    length: int | None = None,
    *,
    pad: float = 0,
    documents: str | bool = True,
    positions: str | bool = False,
    labels: str | bool = False,
    lengths: str | bool = False,
) -> UniRecordDataset:
    """Values of a column packed whole into samples of one length: none is cut that fits (docs/language.md).

    A value of more than ``length`` elements is cut into pieces of ``length`` and a rest. Rests and shorter values
    are put together, 8,192 values at a time, by best fit. ``unirecord.cu_seqlens`` of the column "document" says
    where each begins. Else as for ``windows``.

    ``write_dataset`` keeps the elements and the column "seq_lens" of what has been packed, and of a column "document"
    one number for each document. Without a length, ``ds`` is of such rows, which are the samples as they are; what
    else is asked for is made of these two columns, whatever they were called.

    Args:
        ds: the dataset.
        column: as for ``windows``.
        length: elements of a sample; None: values have been packed already, and are of one length.
        pad: what the end of a sample is filled up with.
        documents, positions, labels, lengths: as for ``windows``.
    """
    if length is not None:
        check_integer("length", length, 1, 1 << 40)
    return _streamed(ds, column, length, None, pad, documents, positions, labels, lengths)


_DOCUMENT = "document"


def _streamed(
    ds: UniRecordDataset[Any],
    column: str,
    length: int | None,
    windows: Windows | None,
    pad: float | None,
    documents: str | bool,
    positions: str | bool,
    labels: str | bool,
    lengths: str | bool,
) -> UniRecordDataset:
    plan = _plan_of(ds)
    if plan.order.rule is not None:
        raise ValueError(f"a {plan.order.rule.name} has no stream: make one of each source, and mix these")
    if isinstance(plan.data, (StreamData, SequenceData)):
        raise ValueError(
            "these are windows, packed samples or sequences already: make others of the dataset they come from"
        )
    ds.read_cursor.refuse_exclusions("windows or packed samples")
    selection, packs = plan.order.selection, None
    if length is None:
        element_type(plan.data, column)
        stored = _named(lengths, SEQ_LENS) or SEQ_LENS, _named(documents, _DOCUMENT) or _DOCUMENT
        packs = WrittenPacks.read(plan.data, selection, column, *stored)
        (length,) = plan.data.parts.schema[column].shape or ()
    rule = StreamRule(
        column,
        length,
        windows,
        pad,
        _named(documents, _DOCUMENT),
        _named(positions, "position"),
        _named(labels, "labels"),
        _named(lengths, SEQ_LENS),
        packs=packs,
    )
    data = StreamData(plan.data, [(rule, selection)])
    old = plan.order.sharding
    sharding = Sharding(data.snapshot.rows, old.shard_id, old.num_shards, old.remainder)
    spec = data.with_blocks(plan.order.spec, data.snapshot.rows, plan.blocks)
    starts = np.array([0, data.snapshot.rows], np.int64)
    order = ShardOrder(Selection(data.snapshot.rows), sharding, spec, starts)
    made: UniRecordDataset = object.__new__(UniRecordDataset)
    fresh = Plan(data, order, None, None, False, plan.blocks)
    made._stand(Cursor(fresh, Position(ds.read_cursor.position.epoch)), None, ds.on_corrupt)
    return made


def _named(asked: str | bool, default: str) -> str | None:
    """The name of a column that may be asked for."""
    return asked if isinstance(asked, str) else default if asked else None


def as_written(ds: Any) -> UniRecordDataset | None:
    """What is written of windows or packed samples, with their order; None for all else, and with a transform."""
    if not isinstance(ds, UniRecordDataset) or ds.transform is not None:
        return None
    plan = ds.read_cursor.plan
    if not isinstance(plan.data, StreamData):
        return None
    made: UniRecordDataset = object.__new__(UniRecordDataset)
    written = replace(plan, data=plan.data.as_written())
    made._stand(Cursor(written, Position(ds.read_cursor.position.epoch)), None, ds.on_corrupt)
    return made
