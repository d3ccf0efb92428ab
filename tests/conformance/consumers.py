"""The registry: every public way to get samples out of a dataset, and what it can be asked for."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from conformance.canonical import Sample, digested, freeze, frozen
from conformance.records import ELEMENTS, KINDS, SCALARS, Field
from conformance.unpack import gathered, marked, samples_of, split_arrays
from unirecord import UniRecordDataset

EVERY = frozenset(KINDS)
ANY_TYPE = frozenset(ELEMENTS) | EVERY


@dataclass(frozen=True)
class Options:
    """What a loader is asked for; a consumer gets only what it ``takes``."""

    batch_size: int = 1
    drop_last: bool = False
    prefetch: int | None = None
    num_threads: int | None = None
    num_workers: int | None = None
    dataset_transform: bool = False
    transform: bool = False
    batch_transform: bool = False
    collate: bool = False

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these options that are not left at their defaults, as keyword arguments."""
        return {name: getattr(self, name) for name in names if getattr(self, name) not in (None, False)}


@dataclass(frozen=True)
class Reading:
    """A loader in use: ``batches`` begins a pass, ``owner`` has its state, ``length`` what it says it will deliver."""

    batches: Callable[[], Iterator[list[Sample]]]
    owner: Any
    length: Callable[[], int | None] | None = None

    def set_epoch(self, ds: UniRecordDataset, epoch: int) -> None:
        """Chooses the epoch, at the loader where it has a say."""
        getattr(self.owner, "set_epoch", ds.set_epoch)(epoch)


@dataclass(frozen=True)
class Consumer:
    """One way to read.

    ``covers``: the public name. ``takes``: options. ``carries``, ``types``: columns. ``batched``: batches are as asked
    for, not only samples. ``advances``: a pass without ``set_epoch`` is the next epoch. ``saves``, ``loads``: states.
    ``late_states``: also once it is made. ``skips_ended``: after a state of a pass that has ended comes the next
    epoch, not an empty pass; ``skips_last``: so it does where the pass was left at its last batch. ``ends_ahead``: a
    state of a pass that has ended stands at the front of the next epoch. ``ordered``: False when only the set of
    samples is promised. ``stored_times``: times come as the integers that are stored. ``whole``: all selected rows,
    in their own order.
    """

    name: str
    covers: str
    make: Callable[[UniRecordDataset, Options, Sequence[Field]], Reading]
    takes: frozenset[str] = frozenset()
    carries: frozenset[str] = EVERY
    types: frozenset[str] = ANY_TYPE
    nullable: bool = True
    stored_times: bool = False
    batched: bool = True
    advances: bool = True
    saves: bool = False
    loads: bool = False
    ordered: bool = True
    whole: bool = False
    own_states: bool = False
    late_states: bool = True
    skips_ended: bool = False
    skips_last: bool = False
    ends_ahead: bool = False
    weight: int = 10

    def can_carry(self, column: Field) -> bool:
        """Whether it delivers columns of this kind."""
        known = column.kind in self.carries and column.type in self.types
        return known and (self.nullable or not column.nullable)


CONSUMERS: list[Consumer] = []


def consumer(name: str, covers: str, **traits: Any) -> Callable[[Any], Any]:
    """Registers the decorated ``make``."""

    def register(make: Any) -> Any:
        CONSUMERS.append(Consumer(name, covers, make, **traits))
        return make

    return register


DATASET = frozenset({"dataset_transform"})
BATCHES = DATASET | {"batch_size", "drop_last", "prefetch", "num_threads"}


@consumer("ds[i]", "UniRecordDataset.__getitem__", takes=DATASET, batched=False, advances=False)
def by_index(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return Reading(lambda: ([frozen(ds[i])] for i in range(len(ds))), ds)


@consumer("ds[-i]", "UniRecordDataset.__getitem__", takes=DATASET, batched=False, advances=False)
def by_negative_index(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return Reading(lambda: ([frozen(ds[-i])] for i in range(len(ds), 0, -1)), ds)


@consumer("ds[a:b]", "UniRecordDataset.__getitem__", takes=DATASET | {"batch_size"}, advances=False)
def by_slice(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    size = options.batch_size

    def batches() -> Iterator[list[Sample]]:
        for first in range(0, len(ds), size):
            yield [frozen(sample) for sample in ds[first : first + size]]

    return Reading(batches, ds)


@consumer("__getitems__", "UniRecordDataset.__getitems__", takes=DATASET | {"batch_size"}, advances=False)
def by_indices(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    def batches() -> Iterator[list[Sample]]:
        for first in range(0, len(ds), options.batch_size):
            indices = range(first, min(first + options.batch_size, len(ds)))
            yield [frozen(dict(sample)) for sample in ds.__getitems__(list(indices))]

    return Reading(batches, ds)


@consumer("row_ids, read_rows", "UniRecordDataset.read_rows", takes=frozenset({"batch_size"}), advances=False)
def by_row_ids(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    def batches() -> Iterator[list[Sample]]:
        for first in range(0, len(ds), options.batch_size):
            batch = ds.read_rows(ds.order.row_ids(first, first + options.batch_size))
            yield samples_of(batch, fields, split_arrays, seen=False, collated=False)

    return Reading(batches, ds)


@consumer(
    "for sample in ds", "UniRecordDataset.__iter__", takes=DATASET, batched=False, saves=True, loads=True
)
def by_iteration(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return Reading(lambda: ([frozen(sample)] for sample in ds), ds, ds.batches(1).__len__)


def _loaded(loader: Any, options: Options, fields: Sequence[Field]) -> Reading:
    def batches() -> Iterator[list[Sample]]:
        for batch in loader:
            yield samples_of(
                batch, fields, split_arrays, seen=options.batch_transform, collated=options.collate
            )

    return Reading(batches, loader, loader.__len__)


def _batches(ds: UniRecordDataset, options: Options) -> Any:
    names = ("drop_last", "prefetch", "num_threads", "num_workers")
    functions: dict[str, Any] = {}
    if options.batch_transform:
        functions["batch_transform"] = marked
    if options.collate:
        functions["collate_fn"] = gathered
    return ds.batches(options.batch_size, **options.given(*names), **functions)


ALL_OF_BATCHES = BATCHES | {"num_workers", "batch_transform", "collate"}


@consumer("batches", "UniRecordDataset.batches", takes=ALL_OF_BATCHES, saves=True, loads=True, weight=40)
def by_batches(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _loaded(_batches(ds, options), options, fields)


@consumer("batches, pickled", "UniRecordDataset.batches", takes=ALL_OF_BATCHES, saves=True, loads=True)
def by_pickled_batches(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _loaded(pickle.loads(pickle.dumps(_batches(ds, options))), options, fields)


@consumer("batches, copied", "UniRecordDataset.batches", takes=ALL_OF_BATCHES, saves=True, loads=True)
def by_copied_batches(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _loaded(copy.deepcopy(_batches(ds, options)), options, fields)


def _piped(ds: UniRecordDataset, options: Options) -> Any:
    pipeline = ds.pipeline(cpus=options.num_threads)
    return (
        pipeline
        if options.prefetch is None
        else pipeline.map(lambda sample: sample, threads=options.prefetch)
    )


PIPED = DATASET | {"num_threads", "prefetch"}


@consumer("pipeline", "UniRecordDataset.pipeline", takes=PIPED, batched=False, saves=True, loads=True)
def by_pipeline(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    loader = _piped(ds, options)
    return Reading(lambda: ([frozen(sample)] for sample in loader), loader, loader.__len__)


@consumer(
    "pipeline, batched", "UniRecordDataset.pipeline", takes=BATCHES - {"prefetch"}, saves=True, loads=True
)
def by_batches_of_a_pipeline(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    loader = _piped(ds, options).batch(options.batch_size, **options.given("drop_last"))
    return _loaded(loader, options, fields)


@consumer(
    "pipeline, collated", "UniRecordDataset.pipeline", takes=BATCHES | {"collate"}, saves=True, loads=True
)
def by_collating_pipeline(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    given = options.given("drop_last")
    collated = replace(options, collate=True)
    loader = _piped(ds, options).batch(options.batch_size, collate_fn=gathered, **given)
    return _loaded(loader, collated, fields)


def _once(ds: UniRecordDataset, columns: dict[str, list[Any]]) -> Reading:
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return Reading(lambda: iter([rows]), ds)


SCALAR = {"carries": SCALARS, "whole": True, "batched": False, "advances": False, "weight": 5}


@consumer("scalars", "UniRecordDataset.scalars", **SCALAR)
def by_scalars(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    found = ds.scalars([column.name for column in fields])
    columns = {}
    for column in fields:
        value = found[column.name]
        items = list(value) if column.type == "string" else split_arrays(column, found)
        columns[column.name] = items
    return _once(ds, columns)


@consumer("to_arrow", "UniRecordDataset.to_arrow", **SCALAR)
def by_arrow(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    table = ds.to_arrow([column.name for column in fields])
    return _once(ds, {column.name: arrow_items(column, table[column.name]) for column in fields})


@consumer("to_batches", "UniRecordDataset.to_batches", **SCALAR)
def by_record_batches(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    table = ds.to_batches([column.name for column in fields]).read_all()
    return _once(ds, {column.name: arrow_items(column, table[column.name]) for column in fields})


# pandas has dates as objects of Python, which know the years 1 to 9999.
@consumer(
    "to_pandas", "UniRecordDataset.to_pandas", nullable=False, **{**SCALAR, "carries": SCALARS - {"time"}}
)
def by_pandas(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    frame = ds.to_pandas([column.name for column in fields])
    return _once(ds, {column.name: _typed(column, frame[column.name].tolist()) for column in fields})


def arrow_items(column: Field, cells: Any) -> list[Any]:
    """The values of a column of Arrow's; times by their integers, as objects of Python hold fewer of them."""
    if column.kind != "time":
        return _typed(column, cells.to_pylist())
    stored = cells.cast(column.type).to_pylist()
    return [None if value is None else freeze(np.array([value]).astype(column.time)[0]) for value in stored]


def _typed(column: Field, values: list[Any]) -> list[Any]:
    """Python's numbers as the column's dtype."""
    if column.type == "string":
        return values
    return [None if value is None else freeze(np.dtype(column.type).type(value)) for value in values]


def opened_transform(options: Options) -> dict[str, Any]:
    """The ``transform`` that the dataset is opened with."""
    return {"transform": digested} if options.dataset_transform else {}
