"""Several datasets as one, whose samples come from them in turns by weight."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import SchemaError, StaleError
from ..format.column import other_meaning
from ..loading.opened import OpenedData, PathLike
from ..loading.plan import Plan
from ..loading.samples import WhereFrom
from ..loading.streams import StreamData
from ..order.mixture import Mixture, Source, Stop, samples_until, whole_weights
from ..order.permutation import ShardOrder
from ..order.selection import Selection
from ..order.spec import OrderSpec, Sharding, Shuffle, check_integer, check_shard_arguments
from ..parts.layouts import same_values
from ..parts.part_set import resolve_again
from ..storage.storage_options import use_storage
from .cursor import Cursor
from .dataset import UniRecordDataset
from .position import Position

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = [
    "mix",
]


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
    schedule: Mapping[int, Weights] | None = None,
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
        schedule: other weights from a sample on, such as ``{1_000_000: {"web": 1, "code": 1}}``. Samples count over all
            ranks and epochs: step · batch size · ranks. Every source goes on where it stands. It needs ``samples``.
        shard_id, num_shards: this rank and the number of ranks; by default those of the sources.
        source_column: the name of a column that says which source a sample is of; None for none.

    Raises:
        SchemaError: the sources have a column of different types, or whose annotations say that it means different
            things (other classes, another form of boxes), or none in common, or one named ``source_column``.
        StaleError: a source has been replaced since it was opened.
        ValueError, TypeError: another wrong argument.
    """
    _check_sources(sources)
    stages = _stages(sources, weights, schedule)
    if schedule and samples is None:
        raise ValueError("with a schedule, say how many samples an epoch has: samples=")
    if stop not in ("first", "all"):
        raise ValueError(
            f'stop must be "first" or "all", got {stop!r}; for a number of samples, give samples='
        )
    if samples is None:
        rows = [ds.num_rows for ds in sources.values()]
        samples = max(samples_until(stop, rows, stages[0][1]), 1)
    mixture = Mixture(_orders(sources), stages, check_integer("samples", samples, 1))
    data = _joined(sources)
    if source_column is not None:
        data = data.telling(
            WhereFrom(source_column, list(sources), [source.first_row for source in mixture.sources])
        )
    shard = _shard(sources, shard_id, num_shards)
    remainder = _agreed(sources, "remainder", {n: _order(ds).sharding.remainder for n, ds in sources.items()})
    everything = Selection(data.snapshot.rows)
    order = ShardOrder(
        everything,
        Sharding(len(everything), 0, 1, remainder),
        OrderSpec.parse(shuffle, seed),
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
    return ds._cursor.plan.order


def _check_sources(sources: Sources) -> None:
    if not isinstance(sources, Mapping) or not sources:
        raise TypeError(f'sources are datasets by name, such as {{"web": a, "code": b}}, not {sources!r}')
    for name, ds in sources.items():
        if not isinstance(name, str):
            raise TypeError(f"the name of a source is {name!r}; it must be a string")
        if not isinstance(ds, UniRecordDataset):
            raise TypeError(f"source {name!r} is {ds!r}; it must be a UniRecordDataset")
        if isinstance(ds._cursor.plan.data, StreamData):
            raise ValueError(f"source {name!r} is of windows or packed samples: these cannot be mixed yet")
        ds._cursor.refuse_exclusions("a mixture")
        rule = _order(ds).rule
        if rule is not None:
            raise ValueError(f"source {name!r} is a {rule.name} itself: mix what it is made of")
        if ds.num_rows == 0:
            raise ValueError(f"source {name!r} has no rows")


def _stages(
    sources: Sources, weights: Weights | None, schedule: Mapping[int, Weights] | None
) -> list[tuple[int, tuple[int, ...]]]:
    """(first turn, integer weights) of each stage, those before the schedule first."""
    given = {name: ds.num_rows for name, ds in sources.items()} if weights is None else weights
    named = [(0, given), *sorted((schedule or {}).items())]
    stages: list[tuple[int, tuple[int, ...]]] = []
    for start, wanted in named:
        check_integer("a sample of the schedule", start, 1 if stages else 0, 1 << 62)
        if not isinstance(wanted, Mapping) or set(wanted) != set(sources):
            shown = sorted(wanted) if isinstance(wanted, Mapping) else wanted
            raise ValueError(f"weights are for {shown}; there must be one for each of {sorted(sources)}")
        stages.append((int(start), whole_weights([wanted[name] for name in sources])))
    if not schedule and 0 in stages[0][1]:
        without = list(sources)[stages[0][1].index(0)]
        raise ValueError(f"source {without!r} has the weight 0 and would never come: leave it out")
    return stages


def _orders(sources: Sources) -> list[Source]:
    made, first_row = [], 0
    for name, ds in sources.items():
        plan = ds._cursor.plan
        made.append(Source(name, plan.order, first_row, plan.condition, plan.identity))
        first_row += plan.data.snapshot.rows
    return made


def _agreed(sources: Sources, option: str, values: Mapping[str, Value]) -> Value:
    """The value of an option that all sources have."""
    first = next(iter(sources))
    for name, value in values.items():
        if value != values[first]:
            raise ValueError(
                f"{option} is {values[first]!r} in source {first!r} and {value!r} in {name!r}; "
                f"a mixture has one for all: ds.view({option}=…) gives a source another"
            )
    return values[first]


def _shard(sources: Sources, shard_id: int | None, num_shards: int | None) -> tuple[int, int]:
    if shard_id is not None or num_shards is not None:
        return check_shard_arguments(shard_id, num_shards)
    return _agreed(
        sources, "shard_id, num_shards", {name: (ds.shard_id, ds.num_shards) for name, ds in sources.items()}
    )


def _joined(sources: Sources) -> OpenedData:
    """The parts of all sources, one after the other, with the columns that all of them read."""
    plans = [ds._cursor.plan for ds in sources.values()]
    common = _common_columns(sources)
    paths: list[PathLike] = []
    for plan in plans:
        path: PathLike | Sequence[PathLike] = plan.path
        paths.extend(path if isinstance(path, (list, tuple)) else [path])  # type: ignore[list-item]
    opened = {name: ds._cursor.plan.data for name, ds in sources.items()}
    io = _agreed(sources, "io", {name: data.parts.io for name, data in opened.items()})
    verify = _agreed(sources, "verify", {name: data.parts.verify for name, data in opened.items()})
    fetched = {name: data for name, data in opened.items() if data.parts.is_fetched}
    storage = _agreed_elsewhere("storage_options", {n: data.snapshot.storage for n, data in fetched.items()})
    cache = _agreed_elsewhere("cache", {n: data.parts.cache_options for n, data in fetched.items()})
    schemas = [plan.data.snapshot.schema for plan in plans]
    one_schema = all(schema.says_the_same_as(schemas[0]) for schema in schemas)
    with use_storage(storage):
        snapshot = resolve_again(paths, () if one_schema else common)
        data = OpenedData.open(paths, common, io, verify, snapshot, cache)
    before = [(part.path, part.id) for plan in plans for part in plan.data.snapshot.parts]
    if [(part.path, part.id) for part in data.snapshot.parts] != before:
        data.parts.close()
        raise StaleError("a source has been replaced since it was opened: open it again, and mix anew")
    return data


def _common_columns(sources: Sources) -> list[str]:
    """The columns that all sources read, in the order of the first; SchemaError where one is of several types."""
    first, *others = sources
    names = [
        name for name in sources[first].column_names if all(name in sources[n].column_names for n in others)
    ]
    if not names:
        raise SchemaError(f"the sources {sorted(sources)} have no column in common")
    for name in names:
        column = sources[first].schema[name]
        for other in others:
            if not same_values(column, sources[other].schema[name]):
                raise SchemaError(
                    f"column {name!r} is {column.spec!r} in source {first!r} and "
                    f"{sources[other].schema[name].spec!r} in {other!r}: leave it out with ds.view(columns=…)"
                )
            theirs = sources[other].schema[name].annotations
            if (key := other_meaning(column.annotations, theirs)) is not None:
                raise SchemaError(
                    f"column {name!r} means another thing in source {other!r} than in {first!r}: its annotation "
                    f"{key} is {theirs[key]!r} and not {column.annotations[key]!r}; leave it out with "
                    "ds.view(columns=…), or write it in the form of the other: unirecord.add_columns(replace=True)"
                )
    return names


def _agreed_elsewhere(option: str, values: Mapping[str, Value]) -> Value | None:
    """The value of an option that all sources in object stores have; None without one."""
    different = list(dict.fromkeys(values.values()))
    if len(different) > 1:
        names = [next(name for name, value in values.items() if value == one) for one in different[:2]]
        raise ValueError(
            f"{option} of source {names[0]!r} is not that of {names[1]!r}; a mixture has one for all"
        )
    return different[0] if different else None
