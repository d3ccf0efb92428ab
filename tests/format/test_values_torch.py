"""Tensors of PyTorch given to whatever writes: their values, bit for bit, or a refusal that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer

torch = pytest.importorskip("torch")

Write = Callable[[Any, str | None, Path], None]


def _record(value: Any, column: str | None, path: Path) -> None:
    with Writer(path, column and {"a": column}) as writer:
        writer.write({"a": value})
        writer.write({"a": value})


def _list(value: Any, column: str | None, path: Path) -> None:
    with Writer(path, column and {"a": column}) as writer:
        writer.write_batch({"a": [value, value]})


def _stacked(value: Any, column: str | None, path: Path) -> None:
    with Writer(path, column and {"a": column}) as writer:
        writer.write_batch({"a": value.to_dense()[None] if value.is_sparse else value[None]})


def _records(value: Any, column: str | None, path: Path) -> None:
    unirecord.write_dataset([{"a": value}, {"a": value}], path, schema=column and {"a": column})


def _generated(value: Any, column: str | None, path: Path) -> None:
    unirecord.write_dataset(iter([(value,)]), path, names=["a"], schema=column and {"a": column})


def _added(value: Any, column: str | None, path: Path) -> None:
    with Writer(path, {"n": "int32"}) as writer:
        writer.write({"n": 1})
    column = column or str(value.dtype).removeprefix("torch.") + str(list(value.shape) or "")
    unirecord.add_columns(path, {"a": column}, lambda batch: {"a": [value] * len(batch["n"])}, reads=["n"])


WAYS: list[Write] = [_record, _list, _stacked, _records, _generated, _added]
VALUES = {
    "bfloat16": lambda: torch.tensor([1.5, -0.0, 3e38, float("inf")], dtype=torch.bfloat16),
    "bfloat16, turned": lambda: torch.arange(6, dtype=torch.bfloat16).reshape(2, 3).T,
    "a gradient's leaf": lambda: torch.ones(2, requires_grad=True),
    "what a gradient leads through": lambda: torch.ones(2, requires_grad=True) * 3,
    "a conjugate": lambda: torch.tensor([1 + 2j]).conj(),
    "a sign to be taken": lambda: torch.tensor([1 + 2j]).conj().imag,
    "one number": lambda: torch.tensor(0.5, requires_grad=True),
    "a Parameter": lambda: torch.nn.Parameter(torch.ones(3)),
}


@pytest.mark.parametrize("write", WAYS)
@pytest.mark.parametrize("name", VALUES)
def test_a_tensor_is_written_with_its_values(name: str, write: Write, tmp_path: Path) -> None:
    value = VALUES[name]()
    path = tmp_path / ("x" if write is _added else "x.urec")
    write(value, None, path)
    want = value.detach().resolve_conj().resolve_neg()
    with UniRecordDataset(path) as ds:
        got = ds[0]["a"]
        if value.dtype is torch.bfloat16:
            assert ds.schema["a"].type == "bfloat16"
            want = want.contiguous().view(torch.int16)
        assert np.array_equal(np.asarray(got).view(want.numpy().dtype), want.numpy())


REFUSED = {
    "sparse": (lambda: torch.ones(3).to_sparse(), "to_dense()"),
    "sparse rows": (lambda: torch.ones(3, 3).to_sparse_csr(), "to_dense()"),
    "float8": (lambda: torch.ones(2).to(torch.float8_e4m3fn), "tensor.to(torch.float32)"),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8),
        "tensor.dequantize()",
    ),
    "without values": (lambda: torch.ones(2, device="meta"), "has no values"),
    "one bfloat16": (lambda: torch.tensor(1.0, dtype=torch.bfloat16), "make it a float32"),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:.*quantize.*")
@pytest.mark.parametrize("write", [_record, _list, _records, _generated, _added])
@pytest.mark.parametrize("column", [None, "float32[2]"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_tensor_that_no_column_holds_is_refused_with_a_way(
    name: str, column: str | None, write: Write, tmp_path: Path
) -> None:
    make, said = REFUSED[name]
    if write is _added and column is None:
        column = "float32"
    if name == "one bfloat16" and column == "float32[2]":
        column = "float32"
    with pytest.raises(SchemaError) as refused:
        write(make(), column, tmp_path / ("x" if write is _added else "x.urec"))
    assert "'a'" in str(refused.value)
    assert said in str(refused.value) or (write is _added and column == "float32")


def test_bits_of_bfloat16_are_no_uint16(tmp_path: Path) -> None:
    value = torch.ones(3, dtype=torch.bfloat16)
    for write in WAYS:
        with pytest.raises(SchemaError, match="bfloat16"):
            write(value, "uint16[3]", tmp_path / f"{write.__name__}{'' if write is _added else '.urec'}")
