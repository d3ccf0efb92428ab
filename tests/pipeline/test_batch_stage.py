"""The functions of a batch loader on threads: small batches go together, and nothing of what comes out shows it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from unirecord.dataset.batch_loader import changed
from unirecord.loading.loader import TrackedBatch
from unirecord.loading.stats import Recorder
from unirecord.pipeline import scheduler
from unirecord.pipeline.scheduler import StageQueue

COUNT = 300


def batches(read: list[int], size: int = 100, count: int = COUNT) -> Iterator[TrackedBatch[Any]]:
    for number in range(count):
        read.append(number)
        yield TrackedBatch({"x": np.full(3, number)}, 0, number + 1, (), 3, size)


def doubled(delivered: TrackedBatch[Any]) -> TrackedBatch[Any]:
    return delivered.with_batch({"x": 2 * delivered.batch["x"]})


def given(change: Callable[[Any], Any], workers: int, read: list[int] | None = None) -> Iterator[Any]:
    return changed(batches([] if read is None else read), change, workers, Recorder())


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches each task had; they are as many as fit, however long the machine takes for one."""
    counts: list[int] = []
    form, finish = StageQueue.form, StageQueue.finish

    def formed(stage_queue: StageQueue) -> Any:
        task = form(stage_queue)
        if task is not None and stage_queue.upstream is not None:
            counts.append(len(task.chunk))
        return task

    def finished(stage_queue: StageQueue, task: Any, results: Any, wall_ns: int, size: int) -> None:
        finish(stage_queue, task, results, 1000 * max(1, len(task.chunk)), size)

    monkeypatch.setattr(StageQueue, "form", formed)
    monkeypatch.setattr(StageQueue, "finish", finished)
    monkeypatch.setattr(scheduler, "_READ_NS", 1 << 62)
    return counts


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_come_in_order_with_their_places(workers: int, together: list[int]) -> None:
    found = [(d.end, int(d.batch["x"][0])) for d in given(doubled, workers)]
    assert found == [(number + 1, 2 * number) for number in range(COUNT)]
    assert sum(together) == (COUNT if workers else 0)
    assert not workers or max(together) > 1


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_what_comes_before_an_error_is_handed_out(
    workers: int, error: type[BaseException], together: list[int]
) -> None:
    def failing(delivered: TrackedBatch[Any]) -> TrackedBatch[Any]:
        if delivered.end == 223:
            raise error("this one")
        return doubled(delivered)

    seen: list[int] = []
    with pytest.raises(error, match="this one"):
        seen.extend(delivered.end for delivered in given(failing, workers))
    assert seen == list(range(1, 223))


def test_no_batch_is_begun_when_the_pass_has_been_left(together: list[int]) -> None:
    begun: list[int] = []
    several, go = threading.Event(), threading.Event()

    def waiting(delivered: TrackedBatch[Any]) -> TrackedBatch[Any]:
        begun.append(delivered.end)
        if together[-1] > 1:
            several.set()
            go.wait()
        return delivered

    results = given(waiting, 1)
    next(results)
    several.wait()
    results.close()  # type: ignore[attr-defined]
    go.set()
    for thread in threading.enumerate():
        if thread.name.startswith("unirecord-pipeline"):
            thread.join()
    assert begun == list(range(1, sum(together[:-1]) + 2))  # the first of the last task


def test_large_batches_are_under_way_one_by_one(together: list[int]) -> None:
    read: list[int] = []
    results = changed(batches(read, 2 << 20, 40), doubled_to_2_mib, 2, Recorder())
    for taken, _ in enumerate(results):
        assert (
            len(read) <= taken + 6
        )  # handed out; as many as workers + 1 behind it; one more; one being read
    assert max(together) == 1


def doubled_to_2_mib(delivered: TrackedBatch[Any]) -> TrackedBatch[Any]:
    return delivered.with_batch({"x": np.empty(2 << 20, np.uint8)})


@pytest.mark.parametrize("workers", [0, 1])
def test_waiting_for_functions_is_told_from_waiting_for_the_reader(workers: int) -> None:
    recorder = Recorder()

    def change(delivered: TrackedBatch[Any]) -> TrackedBatch[Any]:
        time.sleep(0.02)  # so long that a busy machine's pauses beside it are short
        return delivered

    for _ in changed(batches([], count=20), change, workers, recorder):
        recorder.waited(1_000_000)
    assert recorder.of_loader(1, workers, 0).bound == "transform"
