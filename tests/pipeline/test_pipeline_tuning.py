"""Workers chosen while a pipeline runs: what is found, the budget of cores and memory, plans, and what stats say."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timed_machine import MS, Machine

from unirecord import PipelinePlan, UniRecordDataset, Writer
from unirecord.loading.stats import StageStats, pace
from unirecord.pipeline.budget import Budget
from unirecord.pipeline.scheduler import StageQueue
from unirecord.pipeline.stage import Stage
from unirecord.pipeline.tuner import Tuner as _Tuner


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tuning") / "a.urec"
    with Writer(path, {"i": "int64"}) as writer:
        writer.write_batch({"i": np.arange(600)})
    return path


MOST = 256
Tuner = partial(_Tuner, waited_for_cores=lambda: 0)


SHAPES = {
    "waits": st.sampled_from([0.0, 0.1, 1.0, 5.0, 50.0]),
    "computes": st.sampled_from([0.0, 0.1, 1.0, 5.0]),
    "cores": st.integers(1, 16),
}


@given(**SHAPES, lock=st.booleans())
def test_the_number_found_is_the_best_settles_soon_and_stays_within_the_cores(
    waits: float, computes: float, cores: int, lock: bool
) -> None:
    if waits + computes == 0:
        return
    machine = Machine(waits, computes, cores, lock)
    tuner = Tuner(Budget(cores, 1 << 30))
    used = machine.run(tuner, 20)
    computing = computes / (waits + computes)  # cores that a worker needs, if nothing holds it up
    fitting = [
        workers for workers in range(1, MOST + 1) if workers <= cores or workers * computing < cores + 1e-9
    ]
    assert machine.rate(used[-1]) >= 0.95 * machine.best(fitting)
    assert len(set(used[200:])) == 1, "it is still trying after ten seconds"
    assert tuner.settled
    assert tuner.plan().workers == used[-1]
    if not lock:
        assert set(used) <= set(fitting)  # not even tried


@given(**SHAPES)
def test_where_all_cores_may_be_used_none_is_left_idle(waits: float, computes: float, cores: int) -> None:
    if waits + computes == 0:
        return
    machine = Machine(waits, computes, cores)
    used = machine.run(Tuner(Budget(cores, 1 << 30, whole=True)), 20)
    assert machine.rate(used[-1]) >= 0.95 * machine.best(range(1, MOST + 1))
    assert len(set(used[200:])) == 1


@given(**SHAPES, lock=st.booleans())
def test_others_on_the_machine_do_not_lead_it_astray(
    waits: float, computes: float, cores: int, lock: bool
) -> None:
    if waits + computes == 0:
        return
    machine = Machine(waits, computes, cores, lock, noise=0.3)
    used = machine.run(Tuner(Budget(cores, 1 << 30, whole=True)), 20)
    assert machine.rate(used[-1]) >= 0.9 * machine.best(range(1, MOST + 1))


def test_a_frozen_plan_is_left_as_it_is() -> None:
    for frozen in (True, False):
        tuner = Tuner(Budget(2, 1 << 30), PipelinePlan(3), frozen=frozen)
        used = set(Machine(5.0, 0.0, 2).run(tuner, 10))
        assert (used == {3}) is frozen
        assert (tuner.plan().workers == 3) is frozen


def test_a_trial_that_something_else_has_spoilt_is_repeated_soon() -> None:
    machine = Machine(5.0, 0.0, 2)
    tuner = Tuner(Budget(2, 1 << 30, whole=True))
    machine.run(tuner, 0.6)
    assert tuner.workers > 4
    machine.noise, machine.others = 1.0, SimpleNamespace(uniform=lambda low, high: 0.8 * high)
    machine.run(tuner, 0.6)  # everything takes five times as long
    machine.noise = 0.0
    assert machine.run(tuner, 5)[-1] == MOST


def test_fewer_threads_are_not_tried_where_others_take_the_cores() -> None:
    machine = Machine(0.0, 1.0, 2, noise=1.0)
    machine.others = SimpleNamespace(uniform=lambda low, high: 0.6 * high)  # 0.8 of two cores are left
    taken = SimpleNamespace(look=lambda: int(1.2 * machine.now))
    used = machine.run(_Tuner(Budget(2, 1 << 30), waited_for_cores=taken.look), 20)
    assert min(used) == 2
    assert 1 in machine.run(Tuner(Budget(2, 1 << 30)), 20), "it cannot be told from a lock otherwise"


def test_a_number_that_was_no_better_is_tried_again_when_the_stage_has_changed() -> None:
    machine = Machine(0.0, 1.0, 2, lock=True)
    tuner = Tuner(Budget(2, 1 << 30))
    assert machine.run(tuner, 10)[-1] == 1
    machine.waits, machine.lock = 9.0 * MS, False  # from a lock to a network
    assert machine.run(tuner, 60)[-1] > 8


@pytest.mark.parametrize("epoch_ms", [250, 390, 600])
def test_epochs_about_as_long_as_a_trial_are_tuned_too(epoch_ms: int) -> None:
    machine = Machine(50.0, 0.1, 2)
    tuner = None
    for _ in range(30_000 // epoch_ms):
        tuner = Tuner(Budget(2, 1 << 30), before=tuner)
        machine.stage_queue = Machine(50.0, 0.1, 2).stage_queue  # the stage queues of a pass are its own
        machine.run(tuner, epoch_ms / 1000)
    assert tuner is not None
    assert tuner.workers >= 32, tuner.reasons


def test_what_has_been_seen_of_a_short_epoch_counts_for_the_next(path: Path) -> None:
    loader = UniRecordDataset(path).take(8).pipeline(cpus=1).map(lambda sample: time.sleep(0.002))
    seen = []
    for _ in range(2):
        list(loader)
        assert loader._passes.tuner is not None
        seen.append(loader._passes.tuner._seen.spent)
    assert 0 < seen[0] < seen[1]


def test_a_stage_that_waits_gets_more_threads_than_cores(path: Path) -> None:
    def wait(sample: Any) -> Any:
        time.sleep(0.005)
        return sample

    loader = UniRecordDataset(path).pipeline(cpus=1).map(wait)
    assert [int(s["i"]) for s in loader] == list(range(600))
    assert loader.stats().threads > 1
    assert any("times the rate" in reason for reason in loader.stats().reasons)
    plan = loader.plan()
    assert plan.workers > 1
    again = UniRecordDataset(path).take(20).pipeline(cpus=1, plan=plan).map(wait)
    list(again)
    assert again.stats().threads == plan.workers
    assert again.stats().reasons == (f"{plan.workers} threads, as planned",)
    assert PipelinePlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    with pytest.raises(ValueError, match="plan"):
        list(UniRecordDataset(path).pipeline(plan=plan).map(wait).batch(4))
    with pytest.raises(TypeError, match="plan"):
        UniRecordDataset(path).pipeline(plan=4)  # type: ignore[arg-type]


def test_stats_name_what_sets_thepace(path: Path) -> None:
    def slow(sample: Any) -> Any:
        time.sleep(0.003)
        return sample

    def quick(sample: Any) -> Any:
        return sample

    ds = UniRecordDataset(path).take(100)
    loader = ds.pipeline().map(quick, threads=1).map(slow, threads=2).map(quick, threads=1)
    list(loader)
    stats = loader.stats()
    assert stats.bound == "transform"
    assert stats.bound_stage.endswith("slow")
    assert [stage.elements for stage in stats.stages] == [100] * 4
    assert stats.results == 100
    slowest = stats.stages[2]
    assert slowest.share == max(stage.share for stage in stats.stages)
    assert slowest.limit == "2"
    assert slowest.workers <= 2.05
    assert stats.stages[3].wait_in > 0.5  # the one behind it has nothing to do
    assert slowest.name in str(stats)
    json.dumps(stats.to_dict())

    loader = ds.pipeline().map(quick)
    for _ in loader:
        time.sleep(0.01)
    assert (loader.stats().bound, loader.stats().bound_stage) == ("consumer", "")
    assert loader.stats().one_more_core == loader.stats().rate

    results = iter(loader)
    next(results)
    loader._passes.recorder.forget()
    list(results)
    assert loader.stats().results == 99
    assert [stage.elements for stage in loader.stats().stages][-1] < 100
    list(loader)
    assert loader.stats().results == 199


@pytest.mark.parametrize(
    ("workers", "cores", "limit", "more"),
    [
        (2.0, 2.0, 0, 150.0),
        (8.0, 1.9, 0, 150.0),  # more threads than cores: a core counts, not a thread
        (0.9, 0.7, 0, 100.0),  # a lock lets one in at a time
        (8.0, 0.3, 0, 100.0),  # waits
        (2.0, 2.0, 2, 100.0),  # it has as many as were asked for
    ],
)
def test_one_more_core_helps_where_cores_are_what_is_short(
    workers: float, cores: float, limit: int, more: float
) -> None:
    read = StageStats("read", "1", 10, 0.1, 0.1, 1.0, 0.1, 0.1)
    slow = StageStats("slow", "auto", 10, 0.9, workers, 1.0, 0.9, cores)
    threads = max(2, round(workers))
    found = pace([read, slow], [1, limit], (threads, 2), 100.0)
    assert found == ("slow", pytest.approx(more))


def test_times_of_a_stage_never_run_backwards() -> None:
    stage_queue = StageQueue(Stage(()), lambda chunk, slots: chunk, None)
    begun = stage_queue._since
    stage_queue.running = 1
    stage_queue.clock(1, begun + 500)
    stage_queue.running = 0
    stage_queue.clock(1, begun + 300)  # from a thread that has waited for the lock
    stage_queue.running = 1
    stage_queue.clock(1, begun + 600)
    assert stage_queue.wait_in_ns == 600
