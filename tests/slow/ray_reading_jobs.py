"""Reading with a real Ray (`make ray`): rows, order, types, conditions, blocks, and from there to files again.

Not named test_*: installing Ray and starting it take longer than every run of the tests can spare.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ray_cluster import cluster  # noqa: F401  # isort: skip

import ray
import ray.data

import unirecord
import unirecord.ray
from unirecord import UniRecordDataset
from unirecord.frameworks.ray_data import _blocks_for

N = 1000


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("read") / "data"
    types = {
        "n": "int64",
        "score": "float64?",
        "single": "float32",
        "name": "string",
        "flag": "bool",
        "data": "bytes",
    }
    with unirecord.Writer(path, types, max_part_bytes=20_000) as writer:
        for i in range(N):
            writer.write({
                "n": i, "score": None if i % 5 == 0 else float("nan") if i % 5 == 1 else i / 4, "single": i / 10,
                "name": f"row {i % 7}", "flag": i % 2 == 0, "data": bytes([i % 256]) * (i % 90),
            })  # fmt: skip
    return path


def test_rows_are_read_once_in_order_and_counted_before(written: Path) -> None:
    found = unirecord.ray.read(written, override_num_blocks=7)
    assert found.count() == N
    assert found.schema().names == ["n", "score", "single", "name", "flag", "data"]
    ds = UniRecordDataset(written)
    rows = sorted(found.take_all(), key=lambda one: one["n"])
    assert [one["n"] for one in rows] == list(range(N))
    assert all(one["data"] == ds[i]["data"] and one["name"] == ds[i]["name"] for i, one in enumerate(rows))
    some = unirecord.ray.read(written, columns=["name", "n"], where="n % 3 == 0", override_num_blocks=4)
    assert some.count() == len(range(0, N, 3))
    assert sorted(one["n"] for one in some.take_all()) == list(range(0, N, 3))
    assert some.schema().names == ["name", "n"]
    assert unirecord.ray.read(written, where="n < 0").count() == 0


def test_arrays_are_tensors_in_batches_of_torch_and_numpy_and_come_back(tmp_path: Path) -> None:
    kinds = {
        "n": "int64", "x": {"type": "float32", "shape": [2, 3]}, "u": "uint8[5]", "b": {"type": "bool", "shape": [3]},
        "r": {"type": "int32", "shape": [-1, 2]}, "m": {"type": "float32?", "shape": [2]},
    }  # fmt: skip
    with unirecord.Writer(tmp_path / "a.urec", kinds) as writer:
        for n in range(100):
            writer.write({
                "n": n, "x": np.full((2, 3), n, np.float32), "u": np.full(5, n, np.uint8), "b": np.arange(3) == n % 3,
                "r": np.full((n % 4, 2), n, np.int32), "m": None if n % 5 == 0 else np.full(2, n, np.float32),
            })  # fmt: skip
    found = unirecord.ray.read(tmp_path / "a.urec", override_num_blocks=3)
    seen = []
    for batch in found.select_columns(["n", "x", "u", "b"]).iter_torch_batches(batch_size=32):
        assert (batch["x"].dtype, batch["u"].dtype, batch["b"].dtype) == (
            torch.float32,
            torch.uint8,
            torch.bool,
        )
        for n, x, u, b in zip(*(batch[name].numpy() for name in ("n", "x", "u", "b")), strict=True):
            seen.append(int(n))
            assert x.tolist() == [[n] * 3] * 2
            assert u.tolist() == [n] * 5
            assert b.tolist() == [i == n % 3 for i in range(3)]
    assert sorted(seen) == list(range(100))
    for batch in found.iter_batches(batch_size=32, batch_format="numpy"):
        assert batch["x"].shape[1:] == (2, 3)
        assert batch["x"].dtype == np.float32
        assert [list(map(list, r)) for r in batch["r"]] == [[[n, n]] * (n % 4) for n in batch["n"]]
    unirecord.ray.write(
        found, tmp_path / "again", schema={"m": {"type": "float32?", "shape": [2]}, "r": kinds["r"]}
    )
    again, ds = UniRecordDataset(tmp_path / "again"), UniRecordDataset(tmp_path / "a.urec")
    assert [str(again.schema[name].spec) for name in ("x", "u", "b")] == [
        str(ds.schema[name].spec) for name in ("x", "u", "b")
    ]
    rows = {int(sample["n"]): sample for sample in again}
    for n, sample in enumerate(ds):
        for name in ("x", "u", "b", "r", "m"):
            assert np.array_equal(rows[n][name], sample[name]), (n, name)


def test_blocks_are_as_large_as_ray_wants_them_and_not_two_hundred(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unirecord.ray.read(written).materialize().num_blocks() == 1  # 100 kB
    assert unirecord.ray.read(written, override_num_blocks=7).materialize().num_blocks() == 7
    monkeypatch.setattr(ray.data.DataContext.get_current(), "target_max_block_size", 20_000)
    assert 3 <= unirecord.ray.read(written).materialize().num_blocks() <= 10
    monkeypatch.setattr(ray.data.DataContext.get_current(), "read_op_min_num_blocks", 20)
    assert _blocks_for(ray, 1 << 40) is None  # the user's own number


def test_conditions_of_ray_choose_the_rows_that_arrow_would(written: Path) -> None:
    from ray.data.expressions import col, lit

    from unirecord.frameworks.ray_data import condition_of

    ds = UniRecordDataset(written)
    table = ds.to_batches().read_all()
    asked = [
        (col("n") >= 100) & (col("n") < 130), (lit(5) > col("n")) | (col("name") == "row 3"), col("score") != 2.5,
        ~(col("score") <= 100), col("score").is_null(), col("score").is_not_null() & (col("flag") == True),  # noqa: E712
        col("n").is_in([1, 5, 7]), col("name").not_in(["row 1", "row 2"]), ~((col("score") > 3) & (col("n") < 50)),
    ]  # fmt: skip
    for expression in asked:
        text = condition_of(expression, ds.schema)
        assert text is not None, expression
        wanted = table.filter(expression.to_pyarrow())["n"].to_pylist()
        assert ds.view(where=text).to_batches(["n"]).read_all()["n"].to_pylist() == wanted, text
    for expression in (col("single") > 0.1, col("n") + 1 > 3, col("score").is_in([1.0]), col("n") > 2.5):
        assert condition_of(expression, ds.schema) is None
    for expression in (asked[0], col("single") > 0.1, asked[0] & (col("single") < 11.0)):
        found = unirecord.ray.read(written).filter(expr=expression).select_columns(["n"])
        wanted = table.filter(expression.to_pyarrow())["n"].to_pylist()
        assert sorted(one["n"] for one in found.take_all()) == wanted
        assert found.count() == len(wanted)


def test_read_map_write_is_row_exact(written: Path, tmp_path: Path) -> None:
    found = unirecord.ray.read(written).map_batches(lambda batch: {"n": batch["n"], "twice": batch["n"] * 2})
    assert unirecord.ray.write(found, tmp_path / "out", schema={"n": "int64", "twice": "int64"}) == N
    again = UniRecordDataset(tmp_path / "out").scalars(["n", "twice"])
    assert sorted(again["n"].tolist()) == list(range(N))
    assert np.array_equal(again["twice"], again["n"] * 2)


def test_the_python_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "ray.md").read_text(encoding="utf-8")
    found: dict[str, Any] = {}
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M):
        exec(block, found)
    assert found["found"].count() == 900
