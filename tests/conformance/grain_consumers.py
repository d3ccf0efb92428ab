"""Grain's ways to read: its readers over our source, and our batches as its iterator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import grain

import unirecord.grain
from conformance.canonical import Sample, frozen
from conformance.consumers import BATCHES, DATASET, Options, Reading, consumer
from conformance.records import Field
from conformance.unpack import samples_of, split_arrays
from unirecord import UniRecordDataset


class Iterators:
    """Iterators over one dataset of Grain's, one after the other, with the state of the latest."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._state: Mapping[str, Any] | None = None
        self._latest: Any = None

    def __iter__(self) -> Iterator[Any]:
        self._latest = iter(self._data)
        if self._state is not None:
            self._latest.set_state(self._state)
            self._state = None
        return self._latest

    def state_dict(self) -> Any:
        return self._latest.get_state()

    def load_state_dict(self, state: Any) -> None:
        self._state = state


ITERATED: dict[str, Any] = {"advances": False, "saves": True, "loads": True}


@consumer("grain.batches", "unirecord.grain.batches", takes=BATCHES, ends_ahead=True, weight=10, **ITERATED)
def by_batches(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    names = ("drop_last", "prefetch", "num_threads")
    data = Iterators(unirecord.grain.batches(ds, options.batch_size, **options.given(*names)))
    return Reading(lambda: _split(data, fields), Owner(ds, data))


class Owner:
    """What has the states: an iterator; and the epoch: the dataset."""

    def __init__(self, ds: UniRecordDataset, iterators: Iterators) -> None:
        self.set_epoch = ds.set_epoch
        self.state_dict = iterators.state_dict
        self.load_state_dict = iterators.load_state_dict


def _split(data: Any, fields: Sequence[Field]) -> Iterator[list[Sample]]:
    for batch in data:
        yield samples_of(batch, fields, split_arrays, seen=False, collated=False)


class Remade:
    """Data of Grain's that are made anew for each epoch, and its states beside the epoch."""

    def __init__(self, ds: UniRecordDataset, make: Callable[[], Any]) -> None:
        self._ds = ds
        self._make = make
        self.set_epoch(ds.epoch)

    def set_epoch(self, epoch: int) -> None:
        self._ds.set_epoch(epoch)
        self.data = Iterators(self._make())

    def state_dict(self) -> Any:
        return {"epoch": self._ds.epoch, "grain": self.data.state_dict()}

    def load_state_dict(self, state: Any) -> None:
        self.set_epoch(state["epoch"])
        self.data.load_state_dict(state["grain"])


SAMPLES: dict[str, Any] = {
    "takes": DATASET | {"batch_size"},
    "advances": False,
    "saves": True,
    "loads": True,
    "own_states": True,
}


def _listed(owner: Remade) -> Iterator[list[Sample]]:
    return ([frozen(dict(sample)) for sample in batch] for batch in owner.data)


@consumer("grain MapDataset", "unirecord.grain.dataset", weight=5, **SAMPLES)
def by_map_dataset(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    def make() -> Any:
        data = unirecord.grain.dataset(ds).batch(options.batch_size, batch_fn=list)
        return data.to_iter_dataset(grain.ReadOptions(1, 2))

    owner = Remade(ds, make)
    return Reading(lambda: _listed(owner), owner)


@consumer("grain.DataLoader", "unirecord.grain.Source", weight=3, **SAMPLES)
def by_data_loader(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    def make() -> Any:
        source = unirecord.grain.Source(ds)
        if not len(source):  # Grain's samplers take no number of records but positive ones
            return []
        return grain.DataLoader(
            data_source=source,
            sampler=grain.samplers.SequentialSampler(len(source), grain.sharding.NoSharding()),
            operations=[grain.transforms.Batch(options.batch_size, batch_fn=list)],
            worker_count=0,
        )

    owner = Remade(ds, make)
    return Reading(lambda: _listed(owner), owner)
