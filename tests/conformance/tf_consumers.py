"""TensorFlow's ways to read: unirecord.tf.dataset, pass after pass, repeated, and by Keras' fit."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf

import unirecord
from conformance.canonical import Sample, freeze
from conformance.consumers import BATCHES, Options, Reading, consumer
from conformance.records import Field
from conformance.unpack import masked, samples_of
from unirecord import UniRecordDataset

TENSORS = frozenset({"number", "time", "bool", "string", "bytes", "text", "fixed", "free", "free2"})


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
    """``len(data)`` is that of a whole epoch, also before a pass that is the rest of one (docs/tensorflow.md)."""
    rest = len(ds.batches(options.batch_size, drop_last=options.drop_last))
    size = options.batch_size
    whole = len(ds) // size if options.drop_last else -(-len(ds) // size)

    def batches() -> Iterator[list[Sample]]:
        for batch in data:
            yield samples_of(batch, fields, split_tensors, seen=False, collated=False)

    def length() -> int | None:
        known = int(data.cardinality())
        assert known < 0 or known == whole, f"the length is {known}, and a whole epoch has {whole} batches"
        return known if known >= 0 and rest == whole else None

    return Reading(batches, ds, length)


TO_TF: dict[str, Any] = {
    "takes": BATCHES - {"dataset_transform"},
    "carries": TENSORS,
    "stored_times": True,
    "late_states": False,
}


def _made(ds: UniRecordDataset, options: Options) -> Any:
    return unirecord.tf.dataset(
        ds, options.batch_size, **options.given("drop_last", "prefetch", "num_threads")
    )


@consumer(
    "tf.dataset", "unirecord.tf.dataset", loads=True, skips_ended=True, skips_last=True, weight=5, **TO_TF
)
def by_tf_dataset(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    return _reading(_made(ds, options), ds, options, fields)


@consumer("tf.dataset().repeat()", "unirecord.tf.dataset", weight=2, **TO_TF)
def by_repeat(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    """Epochs one after the other out of one iterator, for as long as it is not left in the middle."""
    data = _made(ds, options)
    full = len(ds.batches(options.batch_size, drop_last=options.drop_last))
    endless: list[Any] = []

    def batches() -> Iterator[list[Sample]]:
        if full and not endless:
            endless.append(iter(data.repeat()))
        running = endless.pop() if full else iter(())
        for batch in islice(running, full):
            yield samples_of(batch, fields, split_tensors, seen=False, collated=False)
        endless.append(running)

    return Reading(batches, ds)


class Recorder(tf.keras.Model):
    """Learns nothing, and keeps the batches that it is trained on."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Any] = []

    def train_step(self, data: Any) -> dict[str, Any]:
        self.batches.append(data)
        return {"batches": tf.constant(len(self.batches))}


@consumer(
    "Keras fit", "unirecord.tf.dataset", loads=True, skips_ended=True, skips_last=True, weight=2, **TO_TF
)
def by_fit(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    """An epoch of training for each pass, from the first to the last batch."""
    data = _made(ds, options)
    model = Recorder()
    model.compile(run_eagerly=True)

    def batches() -> Iterator[list[Sample]]:
        model.batches.clear()
        if int(data.cardinality()) != 0:  # Keras takes no epoch without a batch
            model.fit(data, epochs=1, verbose=0, shuffle=False)
        for batch in [*model.batches]:
            yield samples_of(batch, fields, split_tensors, seen=False, collated=False)

    return Reading(batches, ds)
