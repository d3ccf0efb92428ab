"""What the tuner keeps of what it tries, by curves of measured rates: others on the machine change every look."""

from __future__ import annotations

import math
from functools import partial
from random import Random
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord.pipeline.budget import Budget
from unirecord.pipeline.tuner import Trial
from unirecord.pipeline.tuner import Tuner as _Tuner

STEP = 50_000_000
Tuner = partial(_Tuner, waited_for_cores=lambda: 0)

# Elements a second by threads on two cores, as sweeps have given them, and the cores that are used at the best rate.
CURVES = {
    "waits 4 ms": (
        {1: 227, 2: 450, 4: 900, 8: 1830, 16: 3600, 32: 6800, 64: 6700, 128: 6000, 256: 5500},
        0.8,
    ),
    "waits, with fewer others": (
        {1: 227, 2: 450, 4: 900, 8: 1830, 16: 3600, 32: 7000, 64: 10900, 128: 11200, 256: 9300},
        0.9,
    ),
    "numpy, memory is what is short": ({1: 1000, 2: 1850, 3: 1800, 4: 1520, 8: 1500}, 1.8),
    "tasks leave cores idle": ({1: 1000, 2: 1750, 3: 1950, 4: 1950, 8: 1800}, 1.95),
    "holds the GIL": ({1: 1000, 2: 960, 3: 950, 4: 940, 8: 930}, 1.0),
}


class Curve:
    """A stage with these rates; what others take changes at each look by ``noise``, and wanders."""

    def __init__(self, name: str, noise: float, seed: int) -> None:
        self.rates, self.cores = CURVES[name]
        self.best = max(self.rates.values())
        self.noise, self.others, self.now, self.left, self.wander = noise, Random(seed), 1, 1.0, 0.0
        self.stage_queue = SimpleNamespace(reads=False, shared=True, tasks=0, elements=0, busy_ns=0, cpu_ns=0)

    def rate(self, workers: int) -> float:
        """Between two that are known, on a line of logarithms."""
        low = max(known for known in self.rates if known <= workers)
        high = min((known for known in self.rates if known >= workers), default=low)
        if low == high:
            return self.rates[low]
        way = math.log(workers / low) / math.log(high / low)
        return float(self.rates[low] ** (1 - way) * self.rates[high] ** way)

    def run(self, tuner: _Tuner, seconds: float) -> float:
        """Runs for so long; the mean rate without the others, as a share of the best."""
        total = 0.0
        for step in range(int(seconds * 20)):
            if step % 4 == 0:
                self.wander = 0.97 * self.wander + self.others.gauss(0, self.noise / 2)
                self.left = math.exp(self.others.gauss(0, self.noise) + self.wander)
            rate = self.rate(tuner.workers)
            self.now += STEP
            self.stage_queue.tasks += rate * self.left * STEP / 1e9
            self.stage_queue.elements = self.stage_queue.tasks
            self.stage_queue.cpu_ns += min(1.0, self.left) * self.cores * rate / self.best * STEP
            self.stage_queue.busy_ns += tuner.workers * STEP
            tuner.waited(0, STEP)
            tuner.look([self.stage_queue], self.now)  # type: ignore[list-item]
            total += rate / self.best
        return total / int(seconds * 20)


@pytest.mark.parametrize("name", CURVES)
@given(seed=st.integers(0, 10_000), noise=st.sampled_from([0.0, 0.02, 0.05]))
def test_within_five_per_cent_of_the_best_after_ten_seconds_and_from_then_on(
    name: str, seed: int, noise: float
) -> None:
    machine, tuner = Curve(name, noise, seed), Tuner(Budget(2, 1 << 30, whole=True))
    machine.run(tuner, 10)
    assert machine.rate(tuner.plan().workers) >= 0.94 * machine.best, tuner.reasons
    assert machine.run(tuner, 20) >= 0.94, tuner.reasons


@pytest.mark.parametrize("name", CURVES)
def test_looks_that_differ_by_a_fifth_seldom_lead_it_astray(name: str) -> None:
    shares = []
    for seed in range(20):
        machine, tuner = Curve(name, 0.2, seed), Tuner(Budget(2, 1 << 30, whole=True))
        machine.run(tuner, 10)
        shares.append(machine.rate(tuner.plan().workers) / machine.best)
    assert sorted(shares)[2] >= 0.85
    assert sorted(shares)[10] >= 0.95


def test_of_numbers_that_do_as_well_the_smallest_is_kept() -> None:
    machine = Curve("waits 4 ms", 0.0, 0)
    machine.rates = {**machine.rates, 64: 6800, 128: 6800, 256: 6800}
    tuner = Tuner(Budget(2, 1 << 30, whole=True))
    machine.run(tuner, 10)
    assert tuner.workers == 32
    tuner.workers = 256  # as if it had been led astray
    machine.run(tuner, 10)
    assert tuner.workers == 32


def test_a_computing_stage_gets_no_more_threads_than_there_are_cores() -> None:
    machine = Curve("numpy, memory is what is short", 0.0, 0)
    machine.cores = 1.2
    taken = SimpleNamespace(
        look=lambda: int(0.8 * machine.now)
    )  # threads that could have run, and others did
    tuner = _Tuner(Budget(2, 1 << 30, whole=True), waited_for_cores=taken.look)
    assert machine.run(tuner, 10) == pytest.approx(machine.rate(2) / machine.best)
    assert len(tuner.reasons) == 1, "something was tried"


def test_no_more_threads_are_tried_where_those_there_are_have_nothing_to_do() -> None:
    machine = Curve("waits 4 ms", 0.0, 0)
    tuner, used = Tuner(Budget(2, 1 << 30, whole=True)), set()
    for _ in range(100):
        machine.run(tuner, 0.05)
        machine.stage_queue.busy_ns -= 0.5 * tuner.workers * STEP  # the reader is slower
        used.add(tuner.workers)
    assert max(used) == 2


def test_a_trial_takes_turns_and_compares_with_both_neighbours() -> None:
    trial, seen = Trial(2, 4, [100.0]), []
    for share in (1.0, 0.9, 0.8, 0.7):  # others take ever more
        seen.append(trial.workers)
        verdict = trial.note(share * (130.0 if trial.workers == 4 else 100.0))
    assert seen == [4, 2, 4, 2]
    assert verdict is True
    assert trial.growth == pytest.approx(1.33, abs=0.05)


def test_a_gain_within_what_looks_differ_by_is_none() -> None:
    trial, verdict = Trial(2, 4, [100.0]), None
    for rate in (123.0, 100.0, 95.0, 100.0, 123.0, 100.0, 95.0, 100.0, 123.0, 100.0):
        assert verdict is None
        verdict = trial.note(rate)
    assert verdict is False
    assert trial.growth > trial.needed


def test_the_fourth_part_of_a_look_in_each_of_many_epochs_is_seen() -> None:
    machine, tuner = Curve("waits 4 ms", 0.0, 0), None
    for _ in range(300):
        tuner = Tuner(Budget(2, 1 << 30, whole=True), before=tuner)
        machine.run(tuner, 0.1)
        tuner.end([machine.stage_queue], machine.now)  # type: ignore[list-item]
    assert tuner is not None
    assert tuner.workers == 32, tuner.reasons


def test_threads_that_mostly_wait_become_more_where_others_hold_them_up_as_well() -> None:
    machine = Curve("waits 4 ms", 0.0, 0)
    taken = SimpleNamespace(look=lambda: 5 * machine.now)  # of 32 threads, five stand in the queue for a core
    tuner = _Tuner(Budget(2, 1 << 30, whole=True), waited_for_cores=taken.look)
    tuner.workers = 16
    machine.run(tuner, 10)
    assert tuner.workers == 32
