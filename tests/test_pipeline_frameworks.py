"""A pipeline's batches as tensors and as JAX arrays: values, memory, states, and what cannot stand behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unirecord import UniRecordDataset, Writer
from unirecord.pipeline.pipeline import Pipeline

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frameworks") / "a.urec"
    with Writer(
        path, {"x": {"type": "bfloat16", "shape": [2]}, "i": "int64", "name": "string", "w": "float32?"}
    ) as writer:
        for i in range(50):
            x = np.full(2, i, np.float32).view(np.uint32) >> 16
            writer.write({"x": x.astype(np.uint16), "i": i, "name": f"n{i}", "w": None if i % 3 else i})
    return path


def opened(path: Path) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True)


@pytest.mark.parametrize("device", [None, "cpu", "meta"])
def test_batches_become_tensors(path: Path, device: Any) -> None:
    ds = opened(path)
    pipeline = ds.pipeline().batch(8).map_batch(lambda b: {**b, "pair": (b["i"], b["name"])}).to_torch(device)
    rows = ds.row_ids().tolist()
    for number, batch in enumerate(pipeline):
        want = rows[8 * number : 8 * number + 8]
        assert batch["name"] == [f"n{i}" for i in want]
        assert isinstance(batch["pair"], tuple)
        if device == "meta":
            assert batch["i"].device.type == "meta"
            continue
        assert batch["i"].tolist() == want == batch["pair"][0].tolist()
        assert batch["x"].dtype == torch.bfloat16
        assert batch["x"][:, 1].tolist() == want
        assert batch["w_valid"].tolist() == [i % 3 == 0 for i in want]


def test_tensors_share_the_memory_of_the_batch(path: Path) -> None:
    seen = []

    def keep(batch: Any) -> Any:
        seen.append(batch["i"].__array_interface__["data"][0])
        return batch

    for batch in opened(path).pipeline().batch(8).map_batch(keep).to_torch():
        assert batch["i"].data_ptr() in seen


def test_states_count_what_stages_behind_have_handed_out(path: Path) -> None:
    def build() -> Pipeline:
        kept = opened(path).pipeline().filter(lambda s: s["i"] % 3 > 0)
        return kept.batch(4).to_torch("meta")  # with a stage on the consumer's thread

    whole = [len(batch["i"]) for batch in build()]
    loader = build()
    results = iter(loader)
    for _ in range(3):
        next(results)
    state = loader.state_dict()
    results.close()
    again = build()
    again.load_state_dict(state)
    assert [len(batch["i"]) for batch in again] == whole[3:]


def test_nothing_stands_behind_a_device(path: Path) -> None:
    pipeline = opened(path).pipeline().batch(4).to_torch()
    with pytest.raises(ValueError, match="last operator"):
        pipeline.map_batch(lambda batch: batch)
    with pytest.raises(ValueError, match="batch"):
        opened(path).pipeline().to_torch()


def test_batches_become_jax_arrays(path: Path) -> None:
    jax = pytest.importorskip("jax")
    ds = opened(path)
    found = []
    for batch in ds.pipeline().batch(8).to_jax(jax.devices()[0]):
        assert isinstance(batch["i"], jax.Array)
        found += np.asarray(batch["i"]).tolist()
        assert np.asarray(batch["w_valid"]).tolist() == [i % 3 == 0 for i in np.asarray(batch["i"]).tolist()]
    assert found == ds.row_ids().tolist()
