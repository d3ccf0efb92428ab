"""What a RaggedArray says of its elements, and what it is in PyTorch, against the values one by one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord.format.schema import Schema
from unirecord.loading.batch import RaggedArray

LENGTHS = st.lists(st.one_of(st.none(), st.integers(0, 6)), min_size=0, max_size=7)


def ragged(spec: Any, items: list[Any]) -> RaggedArray:
    """As a batch of these values has it; None is null."""
    column = next(iter(Schema.parse({"x": spec}).columns))
    cells = [b"" if item is None else np.ascontiguousarray(item).tobytes() for item in items]
    offsets = np.concatenate([[0], np.cumsum([len(cell) for cell in cells])]).astype(np.int64)
    valid = np.array([item is not None for item in items], np.bool_) if column.nullable else None
    return RaggedArray(column, np.frombuffer(bytearray(b"".join(cells)), np.uint8), offsets, valid)


@settings(deadline=None)
@given(
    lengths=LENGTHS, inner=st.sampled_from([(), (2,), (2, 3)]), dtype=st.sampled_from(["uint16", "float32"])
)
def test_elements_are_those_of_the_values_one_by_one(
    lengths: list[int | None], inner: tuple[int, ...], dtype: str
) -> None:
    numbers = iter(range(10_000))
    items = [
        None if n is None else np.fromiter(numbers, dtype, n * int(np.prod(inner))).reshape(n, *inner)
        for n in lengths
    ]
    batch = ragged({"type": f"{dtype}?", "shape": [-1, *inner]}, items)
    present = [np.empty((0, *inner), dtype) if item is None else item for item in items]
    assert batch.element_lengths.tolist() == [len(item) for item in present]
    bounds = pairwise(batch.element_offsets)
    assert [batch.values[a:b].tolist() for a, b in bounds] == [item.tolist() for item in present]
    assert batch.pad(9).shape[:2] == batch.mask().shape
    assert batch.pad(9)[batch.mask()].tolist() == batch.values.tolist()
    assert batch.mask(8).sum(axis=1).tolist() == batch.element_lengths.tolist()

    tensors = batch.to_torch()
    assert [tensor.tolist() for tensor in tensors.tensors()] == [item.tolist() for item in present]
    assert tensors.padded(9).numpy().tolist() == batch.pad(9).tolist()
    assert tensors.mask().tolist() == batch.mask().tolist()
    assert tensors.cu_seqlens.dtype == torch.int32
    assert tensors.cu_seqlens.tolist() == batch.element_offsets.tolist()
    assert tensors.valid is not None
    assert tensors.valid.tolist() == [item is not None for item in items]
    assert batch.to("cpu").values.tolist() == tensors.values.tolist()


def test_a_nested_tensor_has_the_values(tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "a.urec", {"tokens": {"type": "uint16", "shape": [-1]}}) as writer:
        for n in (3, 0, 65, 1):
            writer.write({"tokens": np.arange(65_000, 65_000 + n, dtype=np.uint16)})
    batch = next(iter(unirecord.UniRecordDataset(tmp_path / "a.urec").batches(4)))["tokens"]
    tokens = batch.to_torch(torch.int64)
    assert tokens.values.dtype == torch.int64
    assert [part.tolist() for part in tokens.nested().unbind()] == [value.tolist() for value in batch]
    assert tokens.max_seqlen == 65
    shared = batch.to_torch()
    batch.values[0] = 7
    assert int(shared.values[0]) == 7  # over the memory of the batch


@pytest.mark.parametrize(
    ("values", "dtype"), [([40_000], torch.int16), ([2**63], torch.int64), ([-1], torch.uint8)]
)
def test_an_element_that_does_not_fit_is_refused(values: list[int], dtype: torch.dtype) -> None:
    kind = "uint64" if values[0] > 0 else "int64"
    batch = ragged({"type": kind, "shape": [-1]}, [np.array(values, kind)])
    with pytest.raises(ValueError, match=rf"{values[0]} does not fit"):
        batch.to_torch(dtype)


@pytest.mark.parametrize(
    "spec", ["text", "object", {"type": "int8", "shape": [3, -1]}, {"type": "int8", "shape": [-1, -1]}]
)
def test_values_that_are_no_run_of_elements_are_refused(spec: Any) -> None:
    batch = ragged(spec, [])
    for ask in (batch.mask, batch.to_torch, lambda: batch.values, lambda: batch.element_offsets):
        with pytest.raises(TypeError, match="one run of elements"):
            ask()


def test_bytes_are_elements_and_too_short_a_mask_is_refused() -> None:
    batch = ragged("bytes", [np.frombuffer(b"abc", np.uint8), np.frombuffer(b"z", np.uint8)])
    assert batch.values.tobytes() == b"abcz"
    assert batch.element_lengths.tolist() == [3, 1]
    with pytest.raises(ValueError, match="up to 3 elements"):
        batch.mask(2)


def test_a_cell_that_is_no_whole_number_of_entries_is_named() -> None:
    batch = ragged(
        {"type": "int32", "shape": [-1]}, [np.arange(2, dtype=np.int32), np.arange(2, dtype=np.int32)]
    )
    broken = RaggedArray(batch.column, batch.data, np.array([0, 6, 16], np.int64))
    with pytest.raises(unirecord.CorruptionError, match="value 0 of the batch has 6 bytes"):
        _ = broken.element_offsets
