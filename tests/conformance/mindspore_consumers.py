"""MindSpore's way to read: unirecord.mindspore.dataset(ds), whose rows are batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import unirecord
from conformance.canonical import Sample, freeze
from conformance.consumers import ANY_TYPE, BATCHES, Options, Reading, consumer
from conformance.records import Field
from conformance.unpack import masked, samples_of
from unirecord import UniRecordDataset


def split_rows(field: Field, batch: Mapping[str, Any]) -> list[Any]:
    """The values of a column in a row of MindSpore's."""
    value = batch[field.name]
    items = value.tolist() if field.kind in ("string", "text") else [freeze(item) for item in value]
    return masked(field, items, batch[f"{field.name}_valid"].tolist() if field.nullable else None)


@consumer(
    "mindspore.dataset",
    "unirecord.mindspore.dataset",
    takes=BATCHES - {"dataset_transform"},
    stored_times=True,
    carries=frozenset({"number", "time", "bool", "string", "text", "fixed"}),
    types=ANY_TYPE - {"complex64", "complex128"},
    loads=True,
    late_states=False,
    weight=1,
)
def by_rows(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    data = unirecord.mindspore.dataset(
        ds, options.batch_size, **options.given("drop_last", "prefetch", "num_threads")
    )

    def batches() -> Iterator[list[Sample]]:
        for batch in data.create_dict_iterator(num_epochs=1, output_numpy=True):
            yield samples_of(batch, fields, split_rows, seen=False, collated=False)

    return Reading(batches, ds, lambda: None)
