"""PyTorch's ways to read: unirecord.torch.loader, the stock DataLoader with and without workers, torchdata's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

import unirecord.lightning
import unirecord.torch
from conformance.canonical import Sample, digested, freeze
from conformance.consumers import ANY_TYPE, BATCHES, DATASET, Options, Reading, consumer
from conformance.records import Field
from conformance.unpack import gathered, masked, samples_of
from unirecord import UniRecordDataset

STACKED = frozenset(
    {"number", "time", "bool", "string", "bytes", "text", "fixed"}
)  # what default_collate has a form for
STOCK = DATASET | {"batch_size", "drop_last", "collate"}


def split_tensors(field: Field, batch: Mapping[str, Any]) -> list[Any]:
    """The values of a column in a batch of tensors."""
    value = batch[field.name]
    if not isinstance(value, torch.Tensor):
        assert field.kind not in ("number", "bool", "fixed"), (
            f"{field.name} is a {type(value).__name__}, no tensor"
        )
        return [freeze(item) for item in value]
    assert (value.dtype == torch.bfloat16) == (field.type == "bfloat16"), f"{field.name} is {value.dtype}"
    if value.dtype == torch.bfloat16:
        value = value.view(torch.uint16)
    known = batch[f"{field.name}_valid"].tolist() if field.nullable else None
    items = [freeze(item) for item in value.numpy()]
    return masked(field, items, known)


def _reading(
    loader: Any, owner: Any, options: Options, fields: Sequence[Field], *, sized: bool = True
) -> Reading:
    def batches() -> Iterator[list[Sample]]:
        for batch in loader:
            yield samples_of(
                batch, fields, split_tensors, seen=options.batch_transform, collated=options.collate
            )

    return Reading(batches, owner, loader.__len__ if sized else None)


LOADER = BATCHES | {"num_workers", "transform", "collate"}


@consumer(
    "torch.loader",
    "unirecord.torch.loader",
    takes=LOADER,
    saves=True,
    loads=True,
    stored_times=True,
    weight=40,
)
def by_loader(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _by_loader(ds, options, fields)


def _by_loader(
    ds: UniRecordDataset,
    options: Options,
    fields: Sequence[Field],
    make: Callable[..., Any] = unirecord.torch.loader,
    sized: bool = True,
    **more: Any,
) -> Reading:
    functions: dict[str, Any] = {}
    if options.transform:
        functions["transform"] = digested
    if options.collate:
        functions["collate_fn"] = gathered
    names = ("drop_last", "prefetch", "num_threads", "num_workers")
    loader = make(ds, options.batch_size, **options.given(*names), **functions, **more)
    return _reading(loader, loader, options, fields, sized=sized)


@consumer(
    "torch.loader(device=)", "unirecord.torch.loader", takes=LOADER, saves=True, loads=True, stored_times=True
)
def by_device(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _by_loader(ds, options, fields, device="cpu")


@consumer(
    "lightning.loader",
    "unirecord.lightning.loader",
    takes=LOADER,
    saves=True,
    loads=True,
    stored_times=True,
    weight=1,
)
def by_lightning(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    """Its length is Lightning's matter: that of whole epochs."""
    return _by_loader(ds, options, fields, unirecord.lightning.loader, sized=False)


def _stock(ds: Any, options: Options, **more: Any) -> DataLoader[Any]:
    collate = {"collate_fn": gathered} if options.collate else {}
    if isinstance(ds, UniRecordDataset):
        more.setdefault("sampler", unirecord.torch.EpochSampler(ds))
    return DataLoader(ds, options.batch_size, drop_last=options.drop_last, **collate, **more)


TRAITS: dict[str, Any] = {"takes": STOCK, "carries": STACKED, "nullable": False, "stored_times": True}


@consumer("DataLoader", "torch.utils.data.DataLoader", weight=20, **TRAITS)
def by_stock(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _reading(_stock(ds, options), ds, options, fields)


@consumer("DataLoader, 2 workers", "torch.utils.data.DataLoader", weight=2, **TRAITS)
def by_workers(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _reading(_stock(ds, options, num_workers=2), ds, options, fields)


@consumer("DataLoader, persistent workers", "torch.utils.data.DataLoader", weight=2, **TRAITS)
def by_persistent(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _reading(_stock(ds, options, num_workers=2, persistent_workers=True), ds, options, fields)


@consumer("DistributedSampler", "torch.utils.data.DataLoader", weight=10, **{**TRAITS, "advances": False})
def by_sampler(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    """The share of the rank dealt out by PyTorch, or by a list where it has no such rule."""
    rank, ranks, remainder = ds.shard_id, ds.num_shards, ds.state_dict()["remainder"]
    whole = ds.view(shard_id=0, num_shards=1)
    sampler: Any = range(rank, len(whole), ranks)
    if remainder != "uneven":
        sampler = DistributedSampler(whole, ranks, rank, shuffle=False, drop_last=remainder == "drop")
    return _reading(_stock(whole, options, sampler=sampler), whole, options, fields)


class Shares(IterableDataset[Any]):
    """Each worker takes every second sample of a dataset that it was given."""

    def __init__(self, ds: UniRecordDataset) -> None:
        self.ds = ds

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        for i, sample in enumerate(self.ds):
            if i % count == number:
                yield sample


# default_collate makes tensors of numpy's uint64 in arrays only, and knows no bfloat16 in samples of one's own.
SAMPLES = ANY_TYPE - {"uint64", "bfloat16"}
ITERABLE: dict[str, Any] = {
    **TRAITS,
    "advances": False,
    "takes": STOCK - {"drop_last"},
    "batched": False,
    "types": SAMPLES,
}


@consumer("IterableDataset", "torch.utils.data.DataLoader", weight=10, **ITERABLE)
def by_iterable(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _reading(_stock(Shares(ds), options), ds, options, fields, sized=False)


@consumer("IterableDataset, 2 workers", "torch.utils.data.DataLoader", ordered=False, weight=2, **ITERABLE)
def by_iterable_workers(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    loader = _stock(Shares(ds), options, num_workers=2, persistent_workers=True)
    return _reading(loader, ds, options, fields, sized=False)


STATEFUL: dict[str, Any] = {**TRAITS, "saves": True, "loads": True, "own_states": True, "skips_ended": True}


@consumer("StatefulDataLoader", "torch.utils.data.DataLoader", weight=10, **STATEFUL)
def by_stateful(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _by_stateful(ds, options, fields)


def _by_stateful(
    ds: UniRecordDataset, options: Options, fields: Sequence[Field], num_workers: int = 0
) -> Reading:
    collate = {"collate_fn": gathered} if options.collate else {}
    loader = StatefulDataLoader(
        ds,
        options.batch_size,
        sampler=unirecord.torch.EpochSampler(ds),
        drop_last=options.drop_last,
        num_workers=num_workers,
        **collate,
    )
    return _reading(loader, loader, options, fields, sized=False)


@consumer("StatefulDataLoader, 2 workers", "torch.utils.data.DataLoader", weight=2, **STATEFUL)
def by_stateful_workers(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _by_stateful(ds, options, fields, num_workers=2)
