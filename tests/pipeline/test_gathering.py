"""Cheap maps and the batch behind them in one task: the same batches, also where samples are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unirecord import Pipeline, SkipSample, TransformError, UniRecordDataset, Writer
from unirecord.pipeline.scheduler import StageQueue

ROWS = 1000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fused_batches") / "a.urec"
    with Writer(path, {"i": "int64", "x": {"type": "float32", "shape": [2]}}) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "x": np.array([i, -i], np.float32)})
    return path


@pytest.fixture
def taken_over(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches that were made in tasks of the map; elements are cheap, however long this machine takes."""
    sizes: list[int] = []
    take = StageQueue._taken_over

    def taken(stage_queue: StageQueue, *given: Any) -> Any:
        sizes.append(len(given[0].values))
        return take(stage_queue, *given)

    monkeypatch.setattr(StageQueue, "_taken_over", taken)
    monkeypatch.setattr(
        StageQueue, "_note_each", lambda stage_queue, each: setattr(stage_queue, "element_ns", 1_000)
    )
    return sizes


def opened(path: Path, rewrite: Any = True, **options: Any) -> Pipeline:
    return UniRecordDataset(path, shuffle=True, seed=5).pipeline(rewrite=rewrite, **options)


def plain(batches: Any) -> list[Any]:
    return [(batch["i"].tolist(), batch["x"].tolist()) for batch in batches]


def negative(x: Any) -> Any:
    return -x


@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize(
    ("size", "drop_last"), [(1, False), (7, True), (64, False), (300, False), (999, True)]
)
def test_batches_are_the_same(
    path: Path,
    taken_over: list[int],
    size: int,
    drop_last: bool,
    threads: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if threads:
        monkeypatch.setattr("unirecord.pipeline.scheduler._HANDED_OVER_NS", -1)

    def built(rewrite: Any) -> Pipeline:
        return opened(path, rewrite).map(negative, columns=["x"]).batch(size, drop_last=drop_last)

    expected = plain(built(False))
    assert not taken_over
    loader = built(True)
    found, states = [], []
    for batch in loader:
        found += plain([batch])
        states.append(loader.state_dict())
    assert found == expected
    if size <= 64:
        assert len(taken_over) > ROWS // size // 4
    assert loader.stats().stages[-1].elements == sum(len(rows) for rows, _ in expected)
    for number in range(0, len(states), 1 + len(states) // 4):
        again = built(True)
        again.load_state_dict(states[number])
        assert plain(again) == expected[number + 1 :]


def test_samples_left_out_are_followed_by_the_next(path: Path, taken_over: list[int]) -> None:
    order = UniRecordDataset(path, shuffle=True, seed=5).order.row_ids().tolist()
    left_out = set(order[800:803])

    def some(sample: Any) -> Any:
        if int(sample["i"]) in left_out:
            raise SkipSample("these")
        return sample

    loader = opened(path).map(some).batch(16)
    rows = [batch["i"].tolist() for batch in loader]
    kept = [row for row in order if row not in left_out]
    assert rows == [kept[start : start + 16] for start in range(0, len(kept), 16)]
    assert 10 < len(taken_over) < len(rows)
    assert loader.stats().skipped == 3


def test_an_error_behind_the_batch_is_met_once(path: Path, taken_over: list[int]) -> None:
    order = UniRecordDataset(path, shuffle=True, seed=5).order.row_ids().tolist()
    met = 0

    def failing(batch: Any) -> Any:
        nonlocal met
        if order[480] in batch["i"]:
            met += 1
            raise KeyError("here")
        return batch

    seen = []
    with pytest.raises(TransformError, match=rf"failing.*row {order[480]} .*here"):
        seen.extend(opened(path).map(negative, columns=["x"]).batch(16).map_batch(failing))
    assert (len(seen), met) == (30, 1)
    assert taken_over


def test_an_error_before_the_batch_comes_behind_whole_batches(path: Path, taken_over: list[int]) -> None:
    order = UniRecordDataset(path, shuffle=True, seed=5).order.row_ids().tolist()

    def failing(sample: Any) -> Any:
        if int(sample["i"]) == order[900]:
            raise KeyError("here")
        return sample

    seen = []
    with pytest.raises(TransformError, match=rf"row {order[900]} "):
        seen.extend(opened(path).map(failing).batch(16))
    assert len(seen) == 56
    assert taken_over


def test_it_is_shown_and_can_be_turned_off(path: Path, taken_over: list[int]) -> None:
    def built(rewrite: Any) -> Pipeline:
        return opened(path, rewrite).map(negative, columns=["x"]).batch(8)

    assert "  + batch(8)" in str(built(["gather"]))
    assert "+ batch" not in str(built(["fuse", "columns"]))
    assert "+ batch" not in str(opened(path).map(negative, columns=["x"], threads=2).batch(8))
    list(built(["fuse", "columns"]))
    assert not taken_over
    list(built(["gather"]))
    assert taken_over


def test_what_is_dear_behind_the_batch_runs_in_tasks_of_its_own(
    path: Path, taken_over: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def takes(stage_queue: StageQueue, each: float) -> None:
        stage_queue.element_ns = 1_000_000 if stage_queue.stage.group else 1_000

    monkeypatch.setattr(StageQueue, "_note_each", takes)
    assert len(list(opened(path).map(negative, columns=["x"]).batch(8))) == ROWS // 8
    assert not taken_over


def test_a_filter_runs_in_tasks_of_its_own(path: Path, taken_over: list[int]) -> None:
    def filtered(pipeline: Pipeline) -> Pipeline:
        return pipeline.filter(lambda i: i % 2 == 0, columns=["i"]).batch(8)

    assert plain(filtered(opened(path))) == plain(filtered(opened(path, False)))
    assert not taken_over  # how many samples a filter keeps is not known before
