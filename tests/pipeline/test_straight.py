"""What is cheap goes through a pipeline without tasks and queues, and comes out as it would through them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from unirecord import TransformError, UniRecordDataset, Writer
from unirecord.pipeline.scheduler import StageQueue

ROWS, BATCH = 1600, 8
CHEAP, DEAR = 1_000, 1_000_000  # nanoseconds an element


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("straight") / "a.urec"
    with Writer(path, {"i": "int64"}) as writer:
        writer.write_batch({"i": list(range(ROWS))})
    return path


class Ways:
    """Counts tasks, and elements that went without; says what they take, however long that is on this machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tasks = self.straight = 0
        self.takes = CHEAP
        finish, passed = StageQueue.finish, StageQueue.passed

        def finished(stage_queue: StageQueue, *given: Any) -> None:
            self.tasks += stage_queue.upstream is not None
            finish(stage_queue, *given)

        def went(stage_queue: StageQueue, count: int, *given: Any) -> None:
            self.straight += count
            passed(stage_queue, count, *given)

        monkeypatch.setattr(StageQueue, "finish", finished)
        monkeypatch.setattr(StageQueue, "passed", went)
        monkeypatch.setattr(
            StageQueue, "_note_each", lambda stage_queue, each: setattr(stage_queue, "element_ns", self.takes)
        )


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    monkeypatch.setattr("unirecord.pipeline.scheduler._HANDED_OVER_NS", 1 << 60)  # no threads
    monkeypatch.setattr("unirecord.pipeline.scheduler._MOST_READ", 1)
    return Ways(monkeypatch)


def rows(loader: Any) -> list[int]:
    return [int(i) for batch in loader for i in batch["i"]]


def pipeline(path: Path, change: Callable[[Any], Any] = lambda batch: batch) -> Any:
    return UniRecordDataset(path, shuffle=True, seed=3).pipeline().batch(BATCH).map_batch(change)


def test_what_is_cheap_goes_without_tasks(path: Path, ways: Ways) -> None:
    expected = UniRecordDataset(path, shuffle=True, seed=3).order.row_ids().tolist()
    loader = pipeline(path)
    assert rows(loader) == expected
    assert ways.tasks < 10
    assert ways.straight > ROWS / BATCH - 10
    stats = loader.stats()
    assert [stage.elements for stage in stats.stages] == [ROWS / BATCH] * 2
    assert stats.results == ROWS / BATCH


def test_what_is_dear_does_not(path: Path, ways: Ways) -> None:
    ways.takes = DEAR
    assert len(rows(pipeline(path))) == ROWS
    assert ways.straight == 0


def test_what_becomes_dear_goes_by_tasks_from_then_on(path: Path, ways: Ways) -> None:
    done = 0

    def change(batch: Any) -> Any:
        nonlocal done
        done += 1
        ways.takes = DEAR if done > 100 else CHEAP
        return batch

    expected = UniRecordDataset(path, shuffle=True, seed=3).order.row_ids().tolist()
    assert rows(pipeline(path, change)) == expected
    assert 90 < ways.straight <= 101
    assert ways.tasks + ways.straight == ROWS / BATCH


def test_an_error_comes_behind_the_results_before_it(path: Path, ways: Ways) -> None:
    done = 0

    def change(batch: Any) -> Any:
        nonlocal done
        done += 1
        if done == 120:
            raise KeyError("this one")
        return batch

    seen = []
    with pytest.raises(TransformError, match=r"row \d+ .*this one"):
        seen.extend(pipeline(path, change))
    assert len(seen) == 119
    assert ways.straight > 100


def test_the_rest_follows_wherever_it_is_stopped(path: Path, ways: Ways) -> None:
    expected = UniRecordDataset(path, shuffle=True, seed=3).order.row_ids().tolist()
    for stop in (1, 4, 5, 6, 7, 80, 199, 200):
        loader = pipeline(path)
        results = iter(loader)
        for _ in range(stop):
            next(results)
        again = pipeline(path)
        again.load_state_dict(loader.state_dict())
        results.close()
        assert rows(again) == expected[stop * BATCH :]


def test_what_a_filter_leaves_goes_straight_too(path: Path, ways: Ways) -> None:
    ds = UniRecordDataset(path)
    assert rows([{"i": [s["i"]]} for s in ds.pipeline().filter(lambda i: i % 3 == 0, columns=["i"])]) == [
        *range(0, ROWS, 3)
    ]
    none = ds.pipeline().batch(BATCH).unbatch().filter(lambda sample: False)
    assert list(none) == []
