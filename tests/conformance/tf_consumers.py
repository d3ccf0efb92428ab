"""TensorFlow's ways to read: ds.to_tf, once, pass after pass as Keras does, and repeated."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

from conformance.canonical import Sample, freeze
from conformance.consumers import BATCHES, Options, Reading, consumer
from conformance.records import Field
from conformance.unpack import masked, samples_of
from unirecord import UniRecordDataset

TENSORS = frozenset({"number", "bool", "string", "bytes", "text", "fixed", "free", "free2"})


def split_tensors(field: Field, batch: Mapping[str, Any]) -> list[Any]:
    """The values of a column in a batch of tensors."""
    value = batch[field.name]
    known = batch[f"{field.name}_valid"].numpy().tolist() if field.nullable else None
    if isinstance(value, tf.RaggedTensor):
        return masked(field, [freeze(array) for array in _arrays(value)], known)
    assert (value.dtype == tf.bfloat16) == (field.type == "bfloat16"), f"{field.name} is {value.dtype}"
    array = value.numpy()
    if field.kind in ("string", "text", "bytes"):
        items = [item if field.kind == "bytes" else item.decode() for item in array.tolist()]
        return masked(field, items, known)
    return masked(field, [freeze(item) for item in _bits(array)], known)


def _bits(array: Any) -> Any:
    return array.view(np.uint16) if array.dtype.name == "bfloat16" else array


def _arrays(ragged: Any) -> list[Any]:
    """The array of each row; of the harness's arrays, free dimensions behind an empty one are empty too."""
    flat = _bits(ragged.flat_values.numpy())
    outer, *inner = [splits.numpy().tolist() for splits in ragged.nested_row_splits]
    found = []
    for first, last in pairwise(outer):
        if not inner:
            found.append(flat[first:last])
            continue
        rows = [flat[inner[0][row] : inner[0][row + 1]] for row in range(first, last)]
        found.append(np.stack(rows) if rows else np.empty((0, 0, *flat.shape[1:]), flat.dtype))
    return found


def _reading(data: Any, ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    def batches() -> Iterator[list[Sample]]:
        for batch in data:
            yield samples_of(batch, fields, split_tensors, seen=False, collated=False)

    def length() -> int | None:
        known = int(data.cardinality())
        return known if known >= 0 else None

    return Reading(batches, ds, length)


@consumer(
    "to_tf",
    "UniRecordDataset.to_tf",
    takes=BATCHES - {"dataset_transform"},
    carries=TENSORS,
    loads=True,
    late_states=False,
    skips_ended=True,
    weight=5,
)
def by_to_tf(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    data = ds.to_tf(options.batch_size, **options.given("drop_last", "prefetch", "num_threads"))
    return _reading(data, ds, options, fields)
