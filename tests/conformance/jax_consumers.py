"""JAX's ways to read: unirecord.jax.loader, on a device and as global arrays of one process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np

import unirecord.jax
from conformance.canonical import Sample, digested, freeze
from conformance.consumers import BATCHES, Options, Reading, consumer
from conformance.records import Field
from conformance.unpack import gathered, masked, samples_of, split_arrays
from unirecord import UniRecordDataset


def split_jax(field: Field, batch: Mapping[str, Any]) -> list[Any]:
    """The values of a column in a batch of JAX arrays."""
    value = batch[field.name]
    if not isinstance(value, jax.Array):
        assert field.kind not in ("number", "bool", "fixed"), f"{field.name} is a {type(value).__name__}"
        return split_arrays(field, batch)
    array = np.asarray(value)
    assert (array.dtype.name == "bfloat16") == (field.type == "bfloat16"), f"{field.name} is {array.dtype}"
    if array.dtype.name == "bfloat16":
        array = array.view(np.uint16)
    known = np.asarray(batch[f"{field.name}_valid"]).tolist() if field.nullable else None
    return masked(field, [freeze(item) for item in array], known)


def _back(value: Any) -> Any:
    """What a collate function returned, in which arrays have become JAX's, as it was."""
    if isinstance(value, dict):
        return {name: _back(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_back, value))
    array = np.asarray(value) if isinstance(value, jax.Array) else value
    return array.view(np.uint16) if getattr(array, "dtype", None) == jax.numpy.bfloat16 else array


@consumer(
    "jax.loader",
    "unirecord.jax.loader",
    takes=BATCHES | {"num_workers", "transform", "collate"},
    saves=True,
    loads=True,
    stored_times=True,
    weight=20,
)
def by_loader(ds: UniRecordDataset, options: Options, fields: Sequence[Field]) -> Reading:
    functions: dict[str, Any] = {}
    if options.transform:
        functions["transform"] = digested
    if options.collate:
        functions["collate_fn"] = gathered
    names = ("drop_last", "prefetch", "num_threads", "num_workers")
    loader = unirecord.jax.loader(ds, options.batch_size, **options.given(*names), **functions)

    def batches() -> Iterator[list[Sample]]:
        with jax.enable_x64(True):
            for batch in loader:
                given = _back(batch) if options.collate else batch
                yield samples_of(given, fields, split_jax, seen=False, collated=options.collate)

    return Reading(batches, loader, loader.__len__)
