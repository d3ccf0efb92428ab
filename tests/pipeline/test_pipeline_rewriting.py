"""Rewriting a pipeline changes no result: each rule alone, all together, and what each of them saves."""

from __future__ import annotations

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_rows import plain

from unirecord import Pipeline, SkipSample, UniRecordDataset, Writer
from unirecord.errors import CorruptionError
from unirecord.pipeline.graph import RULES

ROWS = 60
SCHEMA = {
    "x": {"type": "float32", "shape": [3]},
    "i": "int64",
    "name": "string",
    "blob": "bytes",
    "w": "float32?",
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rewriting") / "a.urec"
    with Writer(path, SCHEMA) as writer:
        for i in range(ROWS):
            blob = bytes([i]) * (3000 if i == 33 else i % 5)
            x = np.arange(3, dtype=np.float32) + i
            writer.write({"x": x, "i": i, "name": f"n{i % 7}", "blob": blob, "w": None if i % 4 == 0 else i})
    return path


def left_out_by_seven(sample: Any) -> Any:
    if int(sample["i"]) % 7 == 3:
        raise SkipSample("by seven")
    return sample


OPERATORS: dict[str, Any] = {
    "scale": lambda p: p.map(lambda x: x * 2, columns=["x"], vectorised=True),
    "shift": lambda p: p.map(lambda i: i + 1, columns=["i"], vectorised=True),
    "both": lambda p: p.map(lambda x, i: (x + 1, i * 2), columns=["x", "i"], vectorised=True),
    "reshape": lambda p: p.map(lambda x: x[: 1 + int(x[0]) % 3], columns=["x"]),
    "upper": lambda p: p.map(str.upper, columns=["name"]),
    "whole": lambda p: p.map(lambda s: {**s, "twice": s["i"] * 2}),
    "noise": lambda p: p.map(lambda i, rng: i + rng.integers(5), columns=["i"], random=True),
    "keep": lambda p: p.filter(lambda i: i % 5 > 0, columns=["i"]),
    "where": lambda p: p.filter("i < 40 and name != 'n3'"),
    "where w": lambda p: p.filter("w > 10"),
    "several": lambda p: p.flat_map(lambda s: [s] * (1 + int(s["i"]) % 2)),
    "some": lambda p: p.map(left_out_by_seven),
    "select": lambda p: p.select(["i", "x"]),
}


def built(pipeline: Pipeline, steps: list[str], batch: int) -> Pipeline:
    for step in steps:
        with suppress(ValueError):  # a column that is no more there, behind select
            pipeline = OPERATORS[step](pipeline)
    if batch:
        pipeline = pipeline.batch(batch)
        pipeline = pipeline.map_batch(lambda batch: {**batch, "count": len(batch["i"])})
    return pipeline


@settings(max_examples=60)
@given(
    steps=st.lists(st.sampled_from(list(OPERATORS)), max_size=5),
    batch=st.sampled_from([0, 4, 7]),
    rules=st.one_of(st.just(list(RULES)), st.lists(st.sampled_from(list(RULES)), unique=True)),
    columns=st.sampled_from([None, ["x", "i", "name"]]),
)
def test_results_are_the_same_with_and_without_each_rule(
    path: Path, steps: list[str], batch: int, rules: list[str], columns: list[str] | None
) -> None:
    def results(rewrite: Any) -> tuple[list[Any], list[Any]]:
        ds = UniRecordDataset(path, shuffle=True, seed=1, columns=columns)
        loader = built(ds.pipeline(rewrite=rewrite), steps, batch)
        found, states = [], []
        for result in loader:
            found.append(types(result))
            states.append(loader.state_dict())
        return found, states

    assert results(rules) == results(False)


def types(result: Any) -> Any:
    """What a result is, with the types of its arrays."""
    found = {name: (type(value).__name__, str(getattr(value, "dtype", ""))) for name, value in result.items()}
    return plain(result), found


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_can_be_turned_off(path: Path, rule: str) -> None:
    ds = UniRecordDataset(path, columns=["x", "i", "name"])
    pipeline = built(ds.pipeline(rewrite=[]), ["scale"], 0)
    for rules in ([rule], [name for name in RULES if name != rule]):
        build = ds.pipeline(rewrite=rules)
        build = build.filter("i < 9").map(abs, columns=["x"]).select(["x"]).map(abs, columns=["x"]).batch(3)
        assert [plain(batch) for batch in build] == [plain(b) for b in _unwritten(ds)]
    assert "as it runs" not in str(pipeline)
    with pytest.raises(ValueError, match="rewrite"):
        ds.pipeline(rewrite=["nothing"])


def _unwritten(ds: UniRecordDataset) -> Pipeline:
    pipeline = ds.pipeline(rewrite=False).filter("i < 9").map(abs, columns=["x"]).select(["x"])
    return pipeline.map(abs, columns=["x"]).batch(3)


def test_the_graph_is_shown_before_and_after(path: Path) -> None:
    ds = UniRecordDataset(path)
    pipeline = (
        ds.pipeline()
        .filter("i < 9")
        .map(np.negative, columns=["x"], vectorised=True)
        .select(["x", "i"])
        .map(np.negative, columns=["x"], vectorised=True)
        .batch(4)
        .map_batch(lambda batch: batch)
    )
    before, after = str(pipeline).split("\n\nas it runs:\n")
    assert before.splitlines()[0] == "read x, i, name, blob, w"
    assert len(before.splitlines()) == 7
    lines = after.splitlines()
    assert lines[0] == "read x, i where i <= 8"
    assert [line.strip(" +").partition("(")[0] for line in lines[1:]] == [
        "map",
        "select",
        "batch",
        "map_batch",
        "map_batch",
    ]


@pytest.mark.parametrize(
    ("rules", "stages"), [(["fuse"], [1, 4, 2]), ([], [1] * 7), (list(RULES), [1, 4, 2])], ids=str
)
def test_neighbours_without_workers_of_their_own_are_one_stage(
    path: Path, rules: list[str], stages: list[int]
) -> None:
    def operators(pipeline: Pipeline, **own: Any) -> Pipeline:
        pipeline = pipeline.map(lambda s: s).map(lambda s: s, **own)
        pipeline = pipeline.filter(lambda s: True).filter(lambda s: True)
        return pipeline.batch(8).map_batch(lambda batch: batch)

    loader = operators(UniRecordDataset(path).pipeline(rewrite=rules))
    assert sum(len(batch["i"]) for batch in loader) == ROWS
    assert [1 + stage.name.count(" → ") for stage in loader.stats().stages] == stages
    apart = operators(UniRecordDataset(path).pipeline(rewrite=rules), threads=2)
    assert len(list(apart)) == -(-ROWS // 8)
    found = [1 + stage.name.count(" → ") for stage in apart.stats().stages]
    assert found == ([1, 1, 1, 2, 2] if rules else [1] * 7)


def test_columns_that_nobody_reads_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unirecord.loading import loader

    read: list[list[str]] = []

    class Noted(loader.BatchBuilder):
        def __init__(self, columns: Any, *more: Any) -> None:
            read.append([column.name for column in columns])
            super().__init__(columns, *more)

    monkeypatch.setattr(loader, "BatchBuilder", Noted)
    for rewrite in (True, False):
        ds = UniRecordDataset(path)
        batches = ds.pipeline(rewrite=rewrite).map(abs, columns=["x"]).select(["i", "x"]).batch(8)
        assert [int(i) for i in chain.from_iterable(batch["i"] for batch in batches)] == list(range(ROWS))
    assert read == [["x", "i"], list(SCHEMA)]


def test_rows_that_do_not_meet_a_condition_are_not_read(path: Path, tmp_path: Path) -> None:
    for file in (path, path.with_name(path.name + ".idx")):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    data = bytearray(path.read_bytes())
    data[data.index(bytes([33]) * 3000) + 99] ^= 1
    (tmp_path / path.name).write_bytes(data)
    ds = UniRecordDataset(tmp_path / path.name, shuffle=True)

    def build(rewrite: Any) -> Pipeline:
        return ds.pipeline(rewrite=rewrite).map(lambda sample: sample).filter("i > 50").batch(8)

    rows = [row for row in ds.order.row_ids().tolist() if row > 50]
    assert [int(i) for i in chain.from_iterable(batch["i"] for batch in build(True))] == rows
    with pytest.raises(CorruptionError):
        list(build(False))


def test_a_vectorised_map_is_called_once_for_a_batch(path: Path) -> None:
    shapes = []

    def scaled(x: np.ndarray) -> np.ndarray:
        shapes.append(x.shape)
        return x * 2

    ds = UniRecordDataset(path, columns=["x", "i"])
    list(ds.pipeline().map(scaled, columns=["x"], vectorised=True).batch(20))
    assert shapes == [(20, 3)] * 3
    shapes.clear()
    list(ds.pipeline(rewrite=False).map(scaled, columns=["x"], vectorised=True).batch(20))
    assert shapes == [(3,)] * ROWS


def test_conditions_in_windows_meet_the_same_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from unirecord.pipeline import source

    ds = UniRecordDataset(path, 1, 2, shuffle=True, seed=4)
    expected = [plain(sample) for sample in ds.pipeline(rewrite=False).filter("i > 20")]
    monkeypatch.setattr(source, "_WINDOW", 7)
    ds.set_epoch(0)
    assert [plain(sample) for sample in ds.pipeline().filter("i > 20")] == expected
