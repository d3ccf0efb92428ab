"""Threads of ds.pipeline(): how many run, what is made ahead, and how they end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline_rows import later, numbers, opened, written

from unirecord.errors import TransformError
from unirecord.pipeline.source import DatasetSource


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pipeline") / "set")


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def are_gone(before: int) -> bool:
    """A thread that has been joined may stay listed for a moment."""
    deadline = time.monotonic() + 5
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    return threads() <= before


def test_no_thread_outlives_its_iterator(path: Path) -> None:
    ds = opened(path)
    before = threads()

    def fail(sample: Any) -> Any:
        raise ValueError

    pipeline = ds.pipeline().map(later, threads=4).batch(8).map_batch(lambda batch: batch, threads=2)
    list(pipeline)
    assert are_gone(before)
    results = iter(pipeline)
    next(results)
    assert threads() > before
    results.close()
    assert are_gone(before)
    results = iter(pipeline)
    next(results)
    del results
    assert are_gone(before)
    with pytest.raises(TransformError):
        list(ds.pipeline().map(fail, threads=4))
    assert are_gone(before)
    iter(pipeline)
    assert threads() <= before  # nothing begins before the first result is asked for


def test_operators_run_at_the_same_time_on_as_many_threads_as_they_ask_for(path: Path) -> None:
    for count in (1, 3, 8):
        meet = threading.Barrier(count, timeout=10)

        def together(sample: Any, meet: threading.Barrier = meet) -> Any:
            meet.wait()
            time.sleep(0.002)  # so that one is worth a thread
            return sample

        ds = opened(path).take(8 * 3)
        found = numbers(ds.pipeline(cpus=1).map(together, threads=count))
        assert found == ds.order.row_ids().tolist()


def test_no_more_threads_call_an_operator_than_it_asks_for(path: Path) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def counted(sample: Any) -> Any:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.001)
        with lock:
            now -= 1
        return sample

    list(opened(path).take(80).pipeline(cpus=4).map(counted, threads=2))
    assert most == 2


def test_what_is_made_ahead_is_bounded(path: Path) -> None:
    made = 0

    def counted(batch: Any) -> Any:
        nonlocal made
        made += 1
        return batch

    results = iter(opened(path).pipeline().batch(1).map_batch(counted, threads=2).prefetch(3))
    next(results)
    time.sleep(0.2)
    assert made <= 1 + 3
    results.close()


@pytest.mark.parametrize(
    ("build", "most"),
    [
        (lambda p: p.prefetch(4).map(later, threads=1), 4),
        (lambda p: p.batch(5).prefetch(2).map_batch(lambda b: b, threads=1), 1),
        (lambda p: p.filter("i < 999").prefetch(6).prefetch(3).map(later, threads=1), 3),
    ],
    ids=["samples", "batches", "twice"],
)
def test_what_is_read_ahead_is_what_prefetch_says(
    path: Path, build: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []
    handed = DatasetSource._chunk

    def chunk(source: DatasetSource, *given: Any) -> Any:
        made = handed(source, *given)
        sizes.append(len(made))
        return made

    monkeypatch.setattr(DatasetSource, "_chunk", chunk)
    loader = build(opened(path).pipeline(cpus=1))
    loader = loader.prefetch(1)
    results = iter(loader)
    next(results)
    time.sleep(0.05)
    results.close()
    assert max(sizes) == most
    assert sum(sizes) <= 5 * most, "one taken, one ready, one at work, one in the queue, one read"


def test_a_forked_child_does_not_use_the_iterator_of_its_parent(path: Path) -> None:
    results = iter(opened(path).pipeline().map(later, threads=2))
    next(results)
    child = os.fork()
    if child == 0:
        try:
            next(results)
        except ValueError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    next(results)
    results.close()


def test_an_interrupt_ends_everything(path: Path) -> None:
    before = threads()

    def iterate() -> Iterator[Any]:
        for sample in opened(path).pipeline().map(later, threads=3):
            yield sample
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(iterate())
    assert are_gone(before)
