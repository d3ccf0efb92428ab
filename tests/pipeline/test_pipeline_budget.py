"""The budget of a pipeline: no more cores compute, and no more memory holds what is made ahead, than it says."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from timed_machine import STEP, Machine

from unirecord import Pipeline, UniRecordDataset, Writer
from unirecord.pipeline.budget import Budget, available_cpus, available_memory
from unirecord.pipeline.tuner import Tuner


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("budget") / "a.urec"
    with Writer(path, {"i": "int64"}) as writer:
        writer.write_batch({"i": np.arange(600)})
    return path


@pytest.mark.parametrize(
    ("reads", "whole", "counts"), [(0.4, False, True), (0.0, False, False), (0.4, True, False)]
)
def test_reading_counts_where_more_than_the_budget_would_compute(
    reads: float, whole: bool, counts: bool
) -> None:
    machine, tuner = Machine(0.0, 1.0, 1), Tuner(Budget(1, 1 << 30, whole=whole), waited_for_cores=lambda: 0)
    source = SimpleNamespace(reads=True, shared=False, tasks=0, elements=0, busy_ns=0, cpu_ns=0)
    look = tuner.look
    for _ in range(40):
        source.cpu_ns += int(reads * STEP)
        tuner.look = lambda stage_queues, now: look([source, *stage_queues], now)  # type: ignore[method-assign]
        machine.run(tuner, 0.05)
    assert tuner.counts_reading is counts
    assert Tuner(Budget(1, 1 << 30, whole=whole), before=tuner).counts_reading is counts


@pytest.mark.parametrize("counts", [True, False])
def test_reading_that_counts_takes_turns_with_the_stages(
    monkeypatch: pytest.MonkeyPatch, counts: bool
) -> None:
    init = Tuner.__init__

    def made(tuner: Tuner, *given: Any, **options: Any) -> None:
        init(tuner, *given, **options)
        tuner.counts_reading = counts

    monkeypatch.setattr(Tuner, "__init__", made)
    making, beside = threading.Event(), []

    def make() -> Iterator[int]:
        for number in range(60):
            making.set()
            time.sleep(0.001)
            making.clear()
            yield number

    def stage(number: int) -> int:
        time.sleep(0.001)
        beside.append(making.wait(0.02) if not counts and True not in beside else making.is_set())
        return number

    assert list(Pipeline.from_generators([make], cpus=1).map(stage)) == list(range(60))
    assert any(beside) is not counts


def test_no_more_compute_at_a_time_than_the_budget_has_cores(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "unirecord.pipeline.scheduler.thread_time_ns", time.perf_counter_ns
    )  # all is computing
    at_work, most = [], 0

    def compute(sample: Any) -> Any:
        nonlocal most
        at_work.append(1)
        most = max(most, len(at_work))
        time.sleep(0.004)
        at_work.pop()
        return sample

    ds = UniRecordDataset(path).take(70)
    loader = ds.pipeline(cpus=1, rewrite=False).map(compute).map(compute)
    assert len(list(loader)) == 70
    assert most == 1
    assert loader.stats().threads == 1


@pytest.mark.parametrize("where", ["map", "map_batch"])
def test_what_is_made_ahead_stays_within_the_memory(path: Path, where: str) -> None:
    made = 0

    def large(value: Any) -> Any:
        nonlocal made
        made += 1
        return {"i": value["i"], "x": np.zeros(1 << 20, np.uint8)}

    pipeline = UniRecordDataset(path).take(100).pipeline(cpus=4, memory=8 << 20)
    pipeline = (
        pipeline.map(large, threads=8).prefetch(50)
        if where == "map"
        else pipeline.batch(1).map_batch(large, threads=8).prefetch(50)
    )
    for taken, _ in enumerate(pipeline):
        time.sleep(0.002)
        assert made - taken - 1 <= 8
    assert made == 100


def test_a_result_larger_than_the_memory_is_made_alone(path: Path) -> None:
    made = 0

    def large(sample: Any) -> Any:
        nonlocal made
        made += 1
        return np.zeros(1 << 20, np.uint8)

    results = iter(UniRecordDataset(path).take(20).pipeline(memory=1000).map(large, threads=4))
    for taken, _ in enumerate(results):
        time.sleep(0.005)
        assert made - taken - 1 <= 1
    assert made == 20


def test_budgets_are_those_of_the_cgroup(tmp_path: Path) -> None:
    cores = available_cpus(tmp_path)
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert available_cpus(tmp_path) == cores >= 1
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert available_cpus(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("100000000 100000\n")
    assert available_cpus(tmp_path) == cores
    free = available_memory(tmp_path)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("400000\n")
    assert available_memory(tmp_path) == 600_000 < free
    assert Budget.of(3, "1.5 GiB") == Budget(3, 3 << 29)
    for cpus, memory, error in (
        (0, None, ValueError),
        (1.5, None, TypeError),
        (True, None, TypeError),
        (1, "x", ValueError),
    ):
        with pytest.raises(error):
            Budget.of(cpus, memory)
