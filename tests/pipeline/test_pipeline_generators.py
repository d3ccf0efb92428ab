"""Pipelines over generators, here and in processes: order, states, failures, and what is made ahead."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
from unirecord import Pipeline
from unirecord.errors import TransformError
from unirecord.pipeline.producers import ThreadProducers

ROWS = 120


def producer(start: int, count: int) -> Any:
    def make() -> Iterator[dict[str, Any]]:
        for number in range(start, start + count):
            yield {"n": number, "array": np.full(5000, number)}

    return make


@pytest.mark.parametrize("in_processes", [False, True])
def test_generators_are_gathered_in_their_order(in_processes: bool) -> None:
    makes = [producer(0, 3), producer(100, 5), producer(200, 1)]
    pipeline = Pipeline.from_generators(makes, processes=3 if in_processes else 0)
    expected = [0, 100, 200, 1, 101, 2, 102, 103, 104]
    for _ in range(2):
        found = list(pipeline)
        assert [sample["n"] for sample in found] == expected
        assert all((sample["array"] == sample["n"]).all() for sample in found)
    batches = list(pipeline.map(lambda s: s["n"]).batch(4))
    assert [batch.tolist() for batch in batches] == [expected[:4], expected[4:8], expected[8:]]
    with pytest.raises(TypeError, match="length"):
        len(pipeline)


def test_generators_are_gathered_as_they_come() -> None:
    def slow() -> Iterator[int]:
        time.sleep(0.3)
        yield -1

    pipeline = Pipeline.from_generators([slow, lambda: range(50)], processes=2, ordered=False)
    found = list(pipeline)
    assert sorted(found) == [-1, *range(50)]
    assert found[0] == 0
    with pytest.raises(ValueError, match="ordered=False"):
        pipeline.state_dict()


@pytest.mark.parametrize("processes", [0, 2])
def test_generators_go_on_where_a_state_was_taken(processes: int) -> None:
    makes = [producer(0, 6), producer(100, 9)]

    def build() -> Pipeline:
        return Pipeline.from_generators(makes, processes=processes).flat_map(lambda s: [s["n"]] * 2)

    full = list(build())
    for place in (1, 2, 7, 20, len(full)):
        loader = build()
        results = iter(loader)
        for _ in range(place):
            next(results)
        state = loader.state_dict()
        results.close()
        again = build()
        again.load_state_dict(state)
        assert list(again) == full[place:]


def test_a_generator_that_fails_or_dies_is_named() -> None:
    def fails() -> Iterator[int]:
        yield 1
        raise KeyError("x")

    def dies() -> Iterator[int]:
        yield 1
        yield 2
        os._exit(3)

    for processes in (0, 2):
        with pytest.raises(TransformError, match=r"generator 1 \(.*fails\) failed at its element 1"):
            list(Pipeline.from_generators([lambda: range(100), fails], processes=processes))
    with pytest.raises(
        TransformError, match=r"generator 1 \(.*dies\) ended with exit code 3 at its element 2"
    ):
        list(Pipeline.from_generators([lambda: range(100), dies], processes=2))


def test_producers_make_no_more_ahead_than_asked_for(tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.touch()

    def make() -> Iterator[int]:
        for number in range(1000):
            with made.open("a") as file:
                file.write("x")
            yield number

    results = iter(Pipeline.from_generators([make], processes=1, prefetch=2).map(lambda n: n).prefetch(1))
    next(results)
    time.sleep(0.3)
    assert made.stat().st_size < 60
    results.close()


def test_wrong_generators_are_refused() -> None:
    for wrong, error in (
        (lambda: Pipeline.from_generators([]), TypeError),
        (lambda: Pipeline.from_generators([3]), TypeError),
        (lambda: Pipeline.from_generators([list, list], processes=3), ValueError),
        (lambda: Pipeline.from_generators([list]).filter("x < 3"), ValueError),
    ):
        with pytest.raises(error):
            wrong()
    assert unirecord.Pipeline is Pipeline


@pytest.fixture
def no_gil(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)


def producing() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "unirecord-producer"]


@pytest.mark.parametrize("ordered", [True, False])
def test_without_a_gil_generators_run_on_threads_of_their_own(no_gil: None, ordered: bool) -> None:
    here = os.getpid()
    meet = threading.Barrier(2, timeout=20)

    def make() -> Iterator[Any]:
        assert os.getpid() == here
        for number in range(4):
            meet.wait()  # both at the same time
            yield number

    pipeline = Pipeline.from_generators([make] * 2, processes=2, ordered=ordered)
    for _ in range(2):
        found = list(pipeline.map(lambda n: n))
        assert found == [0, 0, 1, 1, 2, 2, 3, 3] if ordered else sorted(found) == [0, 0, 1, 1, 2, 2, 3, 3]
    results = iter(pipeline)
    next(results)
    meet.abort()
    results.close()
    assert not producing()


def test_without_a_gil_states_errors_and_bounds_are_the_same(no_gil: None) -> None:
    made = []

    def make() -> Iterator[Any]:
        for number in range(9):
            made.append(number)
            yield number

    def make_many() -> Iterator[Any]:
        for number in range(1_000):
            made.append(number)
            yield number

    def fail() -> Iterator[Any]:
        yield 0
        raise KeyError("gone")

    pipeline = Pipeline.from_generators([make], processes=1, prefetch=2)
    results = iter(pipeline)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    state = pipeline.state_dict()
    results.close()
    assert not producing()
    pipeline.load_state_dict(state)
    assert list(pipeline) == [3, 4, 5, 6, 7, 8]
    made.clear()
    producers = ThreadProducers([make_many], ahead=500, memory=1)
    producers.start()
    for taken, value in zip(range(20), producers.in_turn(), strict=False):
        assert value == taken
        assert len(made) <= taken + 2, "one at a time, where memory is for less"
    producers.end()
    producers.close()
    found = []
    with pytest.raises(TransformError, match=r"generator 1 .*element 1.*gone"):
        found.extend(Pipeline.from_generators([make, fail], processes=2))
    assert found[:2] == [0, 0]
    assert not producing()
