"""Keras' way to read: unirecord.keras.dataset, as `fit` goes through it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keras.src.trainers.data_adapters import get_data_adapter

import unirecord.keras
from conformance.canonical import Sample, freeze
from conformance.consumers import ANY_TYPE, BATCHES, Options, Reading, consumer
from conformance.records import Field
from conformance.unpack import masked, samples_of
from unirecord import UniRecordDataset


def split_keras(field: Field, batch: Mapping[str, Any]) -> list[Any]:
    """The values of a column in a batch."""
    items = [freeze(item) for item in batch[field.name]]
    return masked(field, items, batch[f"{field.name}_valid"].tolist() if field.nullable else None)


@consumer(
    "keras.dataset",
    "unirecord.keras.dataset",
    takes=BATCHES - {"dataset_transform"},
    stored_times=True,
    carries=frozenset({"number", "time", "bool", "fixed"}),
    types=ANY_TYPE,
    skips_ended=True,
    weight=3,
)
def by_py_dataset(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    data = unirecord.keras.dataset(
        ds, options.batch_size, **options.given("drop_last", "prefetch", "num_threads")
    )

    def batches() -> Iterator[list[Sample]]:
        adapter = get_data_adapter(data)
        adapter.on_epoch_end()  # as each fit does before it begins
        adapter.on_epoch_begin()
        try:
            for batch in adapter.get_numpy_iterator():
                yield samples_of(batch, fields, split_keras, seen=False, collated=False)
        finally:
            adapter.on_epoch_end()

    return Reading(batches, ds, lambda: len(data))
