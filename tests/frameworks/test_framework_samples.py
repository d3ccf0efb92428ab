"""Mixtures and windows in the frameworks: the columns and rows of ds.batches, the source's name too."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
import unirecord.torch

READERS: dict[str, Callable[[Any], Iterable[Any]]] = {
    "torch": lambda ds: unirecord.torch.loader(ds, 8),
    "tf": lambda ds: unirecord.tf.dataset(ds, 8).as_numpy_iterator(),
    "pipeline": lambda ds: ds.pipeline().batch(8),
    "hf": lambda ds: unirecord.hf.dataset(ds, 1).with_format("arrow").iter(8),
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder: Path = tmp_path_factory.mktemp("sources")
    sources = {}
    for first, (name, rows) in enumerate({"web": 30, "code": 13}.items()):
        schema = {"i": "int64", "tokens": {"type": "uint16", "shape": [-1]}}
        with unirecord.Writer(folder / f"{name}.urec", schema) as writer:
            for i in range(rows):
                writer.write({"i": i + 1000 * first, "tokens": np.arange(i, i + i % 7, dtype=np.uint16)})
        sources[name] = unirecord.UniRecordDataset(folder / f"{name}.urec", shuffle=True, seed=1)
    return {
        "mix": unirecord.mix({name: ds.view(columns=["i"]) for name, ds in sources.items()}, seed=4),
        "windows": unirecord.windows(sources["web"], "tokens", 5, 4),
        "packed": unirecord.packed(sources["web"], "tokens", 16),
    }


def plain(batch: Any) -> dict[str, Any]:
    if hasattr(batch, "to_pydict"):
        return dict(batch.to_pydict())
    found = {name: values if isinstance(values, list) else values.tolist() for name, values in batch.items()}
    return {
        name: [value.decode() if isinstance(value, bytes) else value for value in values]
        for name, values in found.items()
    }


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("samples", ["mix", "windows", "packed"])
def test_mixtures_and_windows_have_the_rows_and_columns_of_batches(
    opened: dict[str, Any], samples: str, reader: str
) -> None:
    ds = opened[samples].view()
    expected = [plain(batch) for batch in ds.view().batches(8)]
    assert [plain(batch) for batch in READERS[reader](ds)] == expected
    assert ("source" in expected[0]) == (samples == "mix")
