"""States of ds.pipeline(): any place gives exactly the rest, on any number of threads, and on which ranks."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_rows import ROWS, later, number, numbers, opened, plain, written

from unirecord import UniRecordDataset
from unirecord.pipeline.pipeline import Pipeline


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pipeline") / "set")


def thrice(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**sample, "copy": k} for k in range(number(sample) % 4)]


BUILDS: dict[str, Callable[[Pipeline], Pipeline]] = {
    "map": lambda p: p.map(later),
    "batch": lambda p: p.batch(9),
    "map, batch": lambda p: p.map(later, threads=3).batch(9).map_batch(lambda batch: batch),
    "filter": lambda p: p.filter(lambda sample: number(sample) % 3 > 0),
    "filter, batch": lambda p: p.filter(lambda sample: number(sample) % 3 > 0).batch(7),
    "where, batch": lambda p: p.filter("i < 250 and i != 7").batch(7, drop_last=True),
    "flat_map": lambda p: p.flat_map(thrice),
    "flat_map, batch": lambda p: p.flat_map(thrice, threads=2).batch(5),
    "flat_map twice": lambda p: p.flat_map(thrice).flat_map(thrice),
    "filter, flat_map, batch, unbatch, filter": lambda p: (
        p.filter(lambda s: number(s) % 2 == 0)
        .flat_map(thrice)
        .batch(4)
        .unbatch()
        .filter(lambda s: s["copy"] != 1)
    ),
    "batch, unbatch, batch": lambda p: p.batch(6).unbatch().filter(lambda s: number(s) % 5 > 0).batch(4),
    "prefetch": lambda p: p.batch(9).prefetch(3).map_batch(lambda batch: batch).prefetch(1),
}


@pytest.mark.parametrize("name", BUILDS)
def test_a_state_from_any_place_gives_exactly_the_rest(path: Path, name: str) -> None:
    build = BUILDS[name]
    full = [plain(result) for result in build(opened(path).take(60).pipeline())]
    assert len(full) > 3
    loader = build(opened(path).take(60).pipeline())
    states = []
    for _ in loader:
        states.append(json.loads(json.dumps(loader.state_dict())))  # noqa: PERF401
    for place in {0, 1, len(full) // 2, len(full) - 2, len(full) - 1}:
        again = build(opened(path).take(60).pipeline(cpus=1 + place % 3))
        again.load_state_dict(states[place])
        assert again.state_dict() == states[place]
        assert [plain(result) for result in again] == full[place + 1 :], f"after {place + 1} results"


def test_random_numbers_after_a_resume_are_those_of_the_whole_epoch(path: Path) -> None:
    def some(sample: Any, rng: np.random.Generator) -> list[Any]:
        return [{"i": sample["i"], "first": rng.random()} for _ in range(int(rng.integers(4)))]

    def more(sample: Any, rng: np.random.Generator) -> Any:
        return {**sample, "second": rng.random()}

    def build(cpus: int) -> Pipeline:
        pipeline = opened(path).take(60).pipeline(cpus=cpus).flat_map(some, random=True)
        batches = pipeline.map(more, random=True).batch(5)
        return batches.map_batch(lambda b, rng: {**b, "third": rng.random()}, random=True)

    loader = build(2)
    full, states = [], []
    for batch in loader:
        full.append(plain(batch))
        states.append(loader.state_dict())
    assert len({number for batch in full for number in batch["second"]}) == sum(len(b["i"]) for b in full)
    for place in (0, 1, len(full) // 2, len(full) - 2):
        again = build(1)
        again.load_state_dict(states[place])
        assert [plain(batch) for batch in again] == full[place + 1 :]


@settings(max_examples=25)
@given(data=st.data())
def test_any_pipeline_goes_on_where_its_state_was_taken(path: Path, data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.sampled_from(["map", "filter", "flat", "batch"]), min_size=1, max_size=5))

    def build(pipeline: Pipeline, threads: Any) -> Pipeline:
        for step in steps:
            if step == "map":
                pipeline = pipeline.map(lambda sample: sample, threads=threads)
            elif step == "filter":
                pipeline = pipeline.filter(lambda sample: number(sample) % 3 != 1)
            elif step == "flat":
                pipeline = pipeline.flat_map(thrice, threads=threads)
            else:
                pipeline = pipeline.batch(4).unbatch()
        return pipeline

    def samples() -> UniRecordDataset:
        return opened(path, columns=["i"]).take(25)

    full = [plain(result) for result in build(samples().pipeline(), "auto")]
    place = data.draw(st.integers(0, len(full)))
    loader = build(samples().pipeline(), data.draw(st.sampled_from([1, 2, "auto"])))
    results = iter(loader)
    for _ in range(place):
        next(results)
    state = loader.state_dict()
    results.close()
    again = build(samples().pipeline(), data.draw(st.sampled_from([1, 3, "auto"])))
    again.load_state_dict(state)
    rest = [plain(result) for result in again]
    assert rest == (full[place:] if place else full)


def test_a_state_goes_on_with_other_ranks_where_each_sample_gives_one(path: Path) -> None:
    loaders = [opened(path, rank, 2).pipeline().map(later).batch(10) for rank in range(2)]
    first: list[int] = []
    for loader in loaders:
        results = iter(loader)
        first += numbers([next(results), next(results)])
        results.close()
    rest: list[int] = []
    for rank in range(4):
        again = opened(path, rank, 4).pipeline().map(later).batch(10)
        again.load_state_dict(loaders[0].state_dict())
        rest += numbers(again)
    assert sorted(first + rest) == list(range(ROWS))


def test_a_state_of_uneven_ranks_is_refused_by_another_rank(path: Path) -> None:
    loader = opened(path, 1, 2).pipeline().filter(lambda sample: number(sample) % 3 > 0).batch(8)
    next(iter(loader))
    state = loader.state_dict()
    own = opened(path, 1, 2).pipeline().filter(lambda sample: number(sample) % 3 > 0).batch(8)
    own.load_state_dict(state)
    for rank, ranks in ((0, 2), (1, 3), (0, 1)):
        other = opened(path, rank, ranks).pipeline().filter(lambda sample: number(sample) % 3 > 0).batch(8)
        with pytest.raises(ValueError, match="rank 1 of 2"):
            other.load_state_dict(state)


def test_a_state_in_the_middle_of_a_sample_is_refused_by_other_operators(path: Path) -> None:
    loader = opened(path).pipeline().flat_map(lambda sample: [sample] * 3)
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(ValueError, match="flat_map"):
        opened(path).pipeline().batch(3).unbatch().load_state_dict(state)
    with pytest.raises(ValueError, match="pipeline"):
        opened(path).load_state_dict(state)


def test_states_are_those_of_the_dataset_where_each_sample_gives_one(path: Path) -> None:
    loader = opened(path).pipeline().map(later, threads=3).batch(32)
    results = iter(loader)
    next(results)
    state = loader.state_dict()
    plain_loader = opened(path).batches(32)
    next(iter(plain_loader))
    assert state == plain_loader.state_dict()
    again = opened(path).batches(32)
    again.load_state_dict(state)
    assert numbers(again) == opened(path).order.row_ids().tolist()[32:]


def odd(sample: dict[str, Any]) -> bool:
    return number(sample) % 2 == 1


@pytest.mark.parametrize("taken", [0, 1, 4])
@pytest.mark.parametrize(
    "copied", [copy.deepcopy, lambda p: pickle.loads(pickle.dumps(p))], ids=["copy", "pickle"]
)
@pytest.mark.parametrize(
    "build",
    [
        lambda ds, folder: ds.pipeline().map(later).batch(9),
        lambda ds, folder: ds.pipeline(receipts=folder).map(later).batch(9),
        lambda ds, folder: ds.pipeline().filter(odd).flat_map(thrice).batch(5),
    ],
    ids=["map", "receipts", "flat_map"],
)
def test_a_copied_pipeline_stands_where_the_original_stood(
    path: Path, tmp_path: Path, build: Callable[..., Any], copied: Callable[[Any], Any], taken: int
) -> None:
    """And goes its own way: trainers copy what they are given, and processes get it pickled."""
    original = build(opened(path).take(60), tmp_path / "a")
    results = iter(original)
    for _ in range(taken):
        next(results)
    other = copied(original)
    assert other.state_dict() == original.state_dict()
    again = build(opened(path).take(60), tmp_path / "b")
    again.load_state_dict(other.state_dict())
    rest = [plain(result) for result in results]
    assert [plain(result) for result in again] == rest
    if not taken:  # no pass of the copy has begun either
        assert [plain(result) for result in other] == rest
    for _ in range(2):
        assert [plain(result) for result in other] == [plain(result) for result in original]
