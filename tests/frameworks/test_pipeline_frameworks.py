"""A pipeline's batches as tensors and as JAX arrays: values, memory, states, and what cannot stand behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unirecord import UniRecordDataset, Writer
from unirecord.errors import TransformError
from unirecord.frameworks.jax import to_arrays
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
    rows = ds.order.row_ids().tolist()
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


def widened(x: np.ndarray) -> np.ndarray:
    return (x.astype(np.uint32) << 16).view(np.float32)


def test_arrays_that_an_operator_has_made_keep_their_type(path: Path) -> None:
    ds = opened(path)
    pipeline = ds.pipeline().select(["x", "i"]).map(widened, columns=["x"]).batch(8)
    for batch in pipeline.to_torch():
        assert batch["x"].dtype == torch.float32
        assert batch["x"][:, 1].tolist() == batch["i"].tolist()


def test_arrays_of_any_form_become_tensors(path: Path) -> None:
    def made(batch: Any) -> Any:
        i = batch["i"]
        return {
            "backwards": i[::-1],
            "read-only": np.broadcast_to(i[:1], (3,)),
            "foreign": i.astype(">i4"),
            "lists": [i[:1], {"inner": i[:2]}],
            "text": np.array(["a", "b"]),
            "words": ["a", None],
        }

    batch = next(iter(opened(path).pipeline().batch(4).map_batch(made).to_torch()))
    i = opened(path).order.row_ids().tolist()[:4]
    assert batch["backwards"].tolist() == i[::-1]
    assert batch["read-only"].tolist() == [i[0]] * 3
    assert batch["foreign"].tolist() == i
    assert [batch["lists"][0].tolist(), batch["lists"][1]["inner"].tolist()] == [i[:1], i[:2]]
    assert batch["text"].tolist() == ["a", "b"]
    assert batch["words"] == ["a", None]


@pytest.mark.parametrize("form", ["hidden", "tuple"])
def test_a_mask_that_has_no_name_is_an_error(path: Path, form: str) -> None:
    def made(batch: Any) -> Any:
        return {**batch, "w_valid": batch["i"]} if form == "hidden" else (batch["w"], batch["i"])

    with pytest.raises(TransformError, match="mask"):
        list(opened(path).pipeline().batch(4).map_batch(made).to_torch())


def test_jax_gets_the_numbers_that_are_stored(path: Path) -> None:
    jax = pytest.importorskip("jax")
    ds = opened(path)
    for batch in ds.pipeline().batch(8).to_jax():
        assert batch["x"].dtype == jax.numpy.bfloat16
        assert np.asarray(batch["x"], np.float32)[:, 1].tolist() == np.asarray(batch["i"]).tolist()
    large = ds.pipeline().map(lambda i: i + (1 << 40), columns=["i"]).batch(8)
    with pytest.raises(TransformError, match="jax_enable_x64"):
        list(large.to_jax())
    ds.set_epoch(0)
    rows = [row + (1 << 40) for row in ds.order.row_ids().tolist()[:8]]
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        assert np.asarray(to_arrays(next(iter(large)))["i"]).tolist() == rows


def test_batches_become_jax_arrays(path: Path) -> None:
    jax = pytest.importorskip("jax")
    ds = opened(path)
    found = []
    for batch in ds.pipeline().batch(8).to_jax(jax.devices()[0]):
        assert isinstance(batch["i"], jax.Array)
        found += np.asarray(batch["i"]).tolist()
        assert np.asarray(batch["w_valid"]).tolist() == [i % 3 == 0 for i in np.asarray(batch["i"]).tolist()]
    assert found == ds.order.row_ids().tolist()
