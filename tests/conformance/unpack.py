"""A batch of any loader back into canonical samples, one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.canonical import Sample, freeze
from conformance.records import Field
from unirecord import RaggedArray

Split = Callable[[Field, Any], list[Any]]


def marked(batch: Any) -> tuple[str, Any]:
    """The batch transform of the harness."""
    return ("seen", batch)


def gathered(samples: list[Any]) -> tuple[str, list[Any]]:
    """The collate function of the harness."""
    return ("collated", [dict(sample) for sample in samples])


def samples_of(
    batch: Any, fields: Sequence[Field], split: Split, *, seen: bool, collated: bool
) -> list[Sample]:
    """The samples of a batch, through the marks of what the options asked to be called."""
    if seen:
        mark, batch = batch
        assert mark == "seen", "the batch_transform was not called"
    if collated:
        mark, samples = batch
        assert mark == "collated", "the collate function was not called"
        return [{name: freeze(value) for name, value in sample.items()} for sample in samples]
    assert isinstance(batch, Mapping), f"a batch is a {type(batch).__name__}: {batch!r}"
    if "digest" in batch:
        fields = [Field("digest", "number", "int64")]
    columns = {field.name: split(field, batch) for field in fields}
    expected = {*columns, *(f"{field.name}_valid" for field in fields if f"{field.name}_valid" in batch)}
    assert set(batch) == expected, f"a batch has {list(batch)}, not {sorted(expected)}"
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def split_arrays(field: Field, batch: Mapping[str, Any]) -> list[Any]:
    """The values of a column in a batch of ``UniRecordDataset.batches``."""
    value = batch[field.name]
    if isinstance(value, np.ma.MaskedArray):
        assert field.nullable
        mask = np.ma.getmaskarray(value)
        inner = tuple(range(1, mask.ndim))
        hidden = mask.all(axis=inner)
        assert (hidden == mask.any(axis=inner)).all(), "a value is masked in part"
        return [None if null else freeze(item) for item, null in zip(value.data, hidden, strict=True)]
    assert isinstance(value, (np.ndarray, RaggedArray, list))
    assert not (field.nullable and isinstance(value, np.ndarray)), "nulls are lost"
    return [freeze(item) for item in value]


def masked(field: Field, values: list[Any], known: Any) -> list[Any]:
    """Nulls put where ``x_valid`` says so; what stands there must be empty, zero or NaN."""
    if not field.nullable:
        return values
    for value, valid in zip(values, known, strict=True):
        assert valid or _is_blank(value), f"{field.name} is {value!r} where it is null"
    return [value if valid else None for value, valid in zip(values, known, strict=True)]


def _is_blank(value: Any) -> bool:
    if not isinstance(value, tuple):
        return value in ("", b"")
    return not any(value[-1]) or bool(np.isnan(np.frombuffer(value[-1], value[0])).all())
