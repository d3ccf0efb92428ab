"""States of pipelines whose ranks come differently far: any number of ranks goes on from those of all, exactly once."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_rows import number, opened, plain, written

import unirecord
from unirecord import SkipSample, UniRecordDataset
from unirecord.pipeline.pipeline import Pipeline

Build = Callable[[Pipeline], Pipeline]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("pipeline") / "set")


def several(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """None to three elements of each, which have names of their own."""
    name = sample.get("copy", "")
    return [{**sample, "copy": f"{name}.{k}"} for k in range(number(sample) % 4)]


def keep(sample: dict[str, Any]) -> bool:
    return number(sample) % 7 not in (1, 2, 4)


def skip(sample: dict[str, Any]) -> dict[str, Any]:
    if number(sample) % 11 in (2, 3, 7):
        raise SkipSample("of no use")
    return sample


STEPS: dict[str, Build] = {
    "map": lambda p: p.map(lambda sample: sample),
    "skip": lambda p: p.map(skip),
    "filter": lambda p: p.filter(keep),
    "where": lambda p: p.filter("i != 9 and i < 40"),
    "flat": lambda p: p.flat_map(several),
    "unbatch": lambda p: p.batch(3).unbatch(),
}
LAST: dict[str, Build] = {
    "samples": lambda p: p,
    "batch": lambda p: p.batch(4),
    "batch, map": lambda p: p.batch(3).map_batch(lambda batch: batch),
    "prefetch": lambda p: p.batch(3).prefetch(2),
}


def elements(results: Sequence[Any]) -> list[tuple[int, str]]:
    """What of which row has been handed out."""
    found: list[tuple[int, str]] = []
    for result in map(plain, results):
        rows = result["i"] if isinstance(result["i"], list) else [result["i"]]
        names = result.get("copy", [""] * len(rows))
        found += zip(rows, names if isinstance(names, list) else [names], strict=True)
    return found


def taken(pipeline: Pipeline, count: int) -> list[Any]:
    """The first results of an iteration, which is then left."""
    results = iter(pipeline)
    found = list(islice(results, count))
    results.close()
    return found


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_number_of_ranks_goes_on_exactly_once(path: Path, data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(STEPS)), max_size=4), label="operators")
    last = data.draw(st.sampled_from(sorted(LAST)))
    rewrite = data.draw(st.booleans())
    ds = opened(path, columns=["i"], where="i < 60")

    def build(rank: int, ranks: int) -> Pipeline:
        pipeline = ds.view(shard_id=rank, num_shards=ranks, remainder="uneven").pipeline(
            cpus=1, rewrite=rewrite
        )
        for name in names:
            pipeline = STEPS[name](pipeline)
        return LAST[last](pipeline)

    def begun(ranks: int, states: list[Any]) -> list[Pipeline]:
        pipelines = [build(rank, ranks) for rank in range(ranks)]
        for pipeline in pipelines if states else ():
            pipeline.load_state_dict(states)
        return pipelines

    expected = Counter(elements(list(build(0, 1))))
    found: Counter[tuple[int, str]] = Counter()
    states: list[Any] = []
    interruptions = data.draw(st.integers(1, 3), label="interruptions")
    for interruption in range(interruptions + 1):
        ranks = data.draw(st.integers(1, 5), label="ranks")
        try:
            pipelines = begun(ranks, states)
        except ValueError:  # in the middle of what was made of a batch: with as many ranks alone
            assert "unbatch" in names
            with pytest.raises(ValueError, match="middle of what has been made of a batch"):
                begun(ranks, states)
            pipelines = begun(len(states), states)
        for pipeline in pipelines:
            count = 1000 if interruption == interruptions else data.draw(st.integers(0, 20), label="results")
            found.update(elements(taken(pipeline, count)))
        states = json.loads(json.dumps([pipeline.state_dict() for pipeline in pipelines]))
    assert found == expected


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_where_conditions_alone_leave_samples_out_any_state_says_it(path: Path, data: st.DataObject) -> None:
    """Ranks that have handed out as many results each, as trainers do, go on from one state, on any number of ranks."""
    size, drop_last = data.draw(st.sampled_from([0, 1, 3])), data.draw(st.booleans())
    conditions = data.draw(
        st.lists(st.sampled_from(["i != 9", "i < 45", "i >= 3", "i < 20 or i > 30"]), min_size=1)
    )
    rewrite = data.draw(st.booleans())
    ds = opened(path, columns=["i"], where="i < 60")

    def build(rank: int, ranks: int) -> Pipeline:
        pipeline = ds.view(shard_id=rank, num_shards=ranks, remainder="uneven").pipeline(
            cpus=1, rewrite=rewrite
        )
        for condition in conditions:
            pipeline = pipeline.map(lambda sample: sample).filter(condition)
        return pipeline.batch(size, drop_last=drop_last) if size else pipeline

    state: Any = None
    found: Counter[tuple[int, str]] = Counter()
    met = ds.view(where=" and ".join(f"({condition})" for condition in conditions))
    expected = set(elements(list(met)))
    ranks, interruptions = 1, data.draw(st.integers(1, 3), label="interruptions")
    for interruption in range(interruptions + 1):
        others = data.draw(st.integers(1, 5), label="ranks")
        pipelines = [build(rank, others) for rank in range(others)]
        for pipeline in pipelines if state is not None else ():
            pipeline.load_state_dict(state)
        ranks = others
        count = 1000 if interruption == interruptions else data.draw(st.integers(0, 8), label="results")
        came = [taken(pipeline, count) for pipeline in pipelines]
        for results in came:
            found.update(elements(results))
        if interruption < interruptions:
            states = json.loads(json.dumps([pipeline.state_dict() for pipeline in pipelines]))
            again = [build(rank, others) for rank in range(others)]
            for pipeline, own in zip(again, states, strict=True):
                pipeline.load_state_dict(own)
            going_on = [rank for rank, pipeline in enumerate(again) if taken(pipeline, 1)]
            state = states[data.draw(st.sampled_from(going_on))] if going_on else states
    assert set(found.values()) <= {1}
    assert set(found) <= expected
    if not drop_last or not size:
        assert set(found) == expected
    else:
        assert len(expected) - len(found) < size * ranks


def test_a_state_of_conditions_is_refused_where_one_rank_cannot_tell(path: Path) -> None:
    ds = opened(path, columns=["i"], where="i < 60")

    def build(rank: int, ranks: int, source: UniRecordDataset = ds) -> Pipeline:
        view = source.view(shard_id=rank, num_shards=ranks, remainder="uneven")
        return view.pipeline(cpus=1).filter("i != 9").batch(4)

    over = build(0, 2)
    list(over)
    with pytest.raises(ValueError, match=r"all of its epoch.*those of all in a list"):
        build(0, 3).load_state_dict(over.state_dict())

    def odd(sample: dict[str, Any]) -> dict[str, Any]:
        if number(sample) % 2:
            raise SkipSample("odd")
        return sample

    skipping = (
        ds.view(shard_id=0, num_shards=2, remainder="uneven")
        .pipeline(cpus=1)
        .map(odd)
        .filter("i != 9")
        .batch(4)
    )
    taken(skipping, 2)
    with pytest.raises(ValueError, match=r"more has been left out there.*those of all in a list"):
        build(0, 3).load_state_dict(skipping.state_dict())
    with pytest.raises(ValueError, match="selection is"):
        build(0, 3, opened(path, columns=["i"], where="i < 50")).load_state_dict(
            (lambda pipeline: (taken(pipeline, 2), pipeline.state_dict())[1])(build(0, 2))
        )
    excluding = ds.view(shard_id=0, num_shards=2, remainder="uneven")
    excluding.exclude(rows=[3])
    pipeline = excluding.pipeline(cpus=1).filter("i != 9")
    taken(pipeline, 2)
    with pytest.raises(ValueError, match="those of all in a list"):
        build(0, 3).load_state_dict(pipeline.state_dict())


def left_early(
    ds: UniRecordDataset, build: Build, ranks: int, counts: Sequence[int], remainder: Any = "uneven"
) -> tuple[list[dict[str, Any]], list[Any]]:
    """States of ranks that are left after so many results each, and what they have handed out."""
    states, found = [], []
    for rank, count in zip(range(ranks), counts, strict=True):
        pipeline = build(ds.view(shard_id=rank, num_shards=ranks, remainder=remainder).pipeline(cpus=1))
        found += taken(pipeline, count)
        states.append(json.loads(json.dumps(pipeline.state_dict())))
    return states, found


def test_a_rank_that_has_left_samples_out_says_so(path: Path) -> None:
    """Batches behind SkipSample are filled by later samples, which no state of another rank knows."""
    ds = opened(path, columns=["i"], where="i < 60")
    build: Build = lambda p: p.map(skip).batch(4)  # noqa: E731
    states, found = left_early(ds, build, 2, (3, 3))
    assert all("pipeline" in state for state in states)
    alone, _ = left_early(ds, build, 1, (3,))
    assert "pipeline" not in alone[0]
    other = build(ds.view(shard_id=0, num_shards=3, remainder="uneven").pipeline())
    with pytest.raises(ValueError, match="those of all in a list"):
        other.load_state_dict(states[0])
    with pytest.raises(ValueError, match="of a pipeline that has left samples out"):
        ds.view(shard_id=0, num_shards=2, remainder="uneven").load_state_dict(states[0])
    own = build(ds.view(shard_id=1, num_shards=2, remainder="uneven").pipeline())
    own.load_state_dict(states[1])
    assert own.state_dict() == states[1]
    for rank in range(3):
        pipeline = build(ds.view(shard_id=rank, num_shards=3, remainder="uneven").pipeline())
        pipeline.load_state_dict(states)
        found += list(pipeline)
    assert sorted(row for row, _ in elements(found)) == [i for i in range(60) if i % 11 not in (2, 3, 7)]


@pytest.mark.parametrize("remainder", ["pad", "drop"])
@pytest.mark.parametrize("counts", [(0, 9, 4), (30, 0, 2), (50, 50, 50), (1, 2, 3)])
def test_what_remains_of_ranks_is_padded_or_dropped_as_ever(
    path: Path, remainder: Any, counts: tuple[int, ...]
) -> None:
    ds = opened(path, columns=["i"], where="i < 61")
    states, found = left_early(ds, STEPS["map"], 3, counts, remainder)
    for rank in range(4):
        pipeline = ds.view(shard_id=rank, num_shards=4, remainder=remainder).pipeline()
        pipeline.load_state_dict(states)
        found += list(pipeline)
    count = Counter(number(sample) for sample in found)
    if remainder == "pad":
        assert set(count) == set(range(61))
        assert count.total() - 61 <= 2 + 3
    else:
        assert set(count.values()) == {1}
        assert 61 - count.total() <= 3


def test_random_numbers_are_those_of_the_whole_epoch_wherever_a_sample_comes(path: Path) -> None:
    """Of a mixture, whose rows come again, each draw has its own, by where it stands in the epoch."""

    def noisy(sample: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
        return [{"i": sample["i"], "noise": rng.random()} for _ in range(int(rng.integers(4)))]

    def build(pipeline: Pipeline) -> Pipeline:
        return pipeline.flat_map(noisy, random=True).map(
            lambda sample, rng: {**sample, "more": rng.random()}, random=True
        )

    few, many = (opened(path, columns=["i"], where=where) for where in ("i < 7", "i >= 7"))
    mixed = unirecord.mix({"few": few, "many": many}, {"few": 1, "many": 1}, samples=60, seed=3)

    def told(samples: Any) -> list[tuple[float, ...]]:
        return sorted((number(sample), sample["noise"], sample["more"]) for sample in samples)

    whole = told(build(mixed.view().pipeline()))
    assert len({noise for _, noise, _ in whole}) == len(whole) > 60
    states, found = left_early(mixed, build, 2, (3, 31))
    for rank in range(3):
        pipeline = build(mixed.view(shard_id=rank, num_shards=3, remainder="uneven").pipeline())
        pipeline.load_state_dict(states)
        found += list(pipeline)
    assert told(found) == whole


@pytest.mark.parametrize("fill", [False, True])
def test_rows_that_were_excluded_stay_left_out_and_others_can_be(path: Path, fill: bool) -> None:
    ds = opened(path, columns=["i"], where="i < 60")
    build: Build = lambda p: p.filter(keep).batch(2)  # noqa: E731
    states: list[dict[str, Any]] = []
    found: list[Any] = []
    for rank, count in enumerate((2, 7)):
        own = ds.view(shard_id=rank, num_shards=2, remainder="uneven")
        pipeline = build(own.pipeline())
        results = iter(pipeline)
        found += islice(results, 1)
        own.exclude(rows=[5, 7, 12], fill=fill)
        found += islice(results, count)
        states.append(json.loads(json.dumps(pipeline.state_dict())))
    before = {row for row, _ in elements(found)}
    for rank in range(3):
        own = ds.view(shard_id=rank, num_shards=3, remainder="uneven")
        pipeline = build(own.pipeline())
        pipeline.load_state_dict(states)
        results = iter(pipeline)
        first = list(islice(results, 1))
        own.exclude(rows=[20, 21], fill=fill)
        rest = [*first, *results]
        assert not {5, 7, 12} & {row for row, _ in elements(rest)}
        assert not {20, 21} & {row for row, _ in elements(rest[1:])}
        found += rest
    count = Counter(row for row, _ in elements(found))
    kept = {i for i in range(60) if keep({"i": i})}
    assert kept - {5, 7, 12, 20, 21} <= set(count) <= kept
    if not fill:
        assert set(count.values()) == {1}
        assert before <= set(count)


def test_the_rest_goes_on_from_a_state_of_its_own_and_as_a_copy(path: Path) -> None:
    ds = opened(path, columns=["i"], where="i < 60")
    build: Build = lambda p: p.filter(keep).flat_map(several).flat_map(several)  # noqa: E731
    states, _ = left_early(ds, build, 3, (2, 40, 11))

    def again(state: Any, rank: int = 1) -> Pipeline:
        pipeline = build(ds.view(shard_id=rank, num_shards=2, remainder="uneven").pipeline(cpus=1))
        pipeline.load_state_dict(state)
        return pipeline

    full = [plain(result) for result in again(states)]
    for count in (0, 1, 5, len(full) - 1, len(full)):
        pipeline = again(states)
        taken(pipeline, count)
        state = json.loads(json.dumps(pipeline.state_dict()))
        own = again(state)
        assert own.state_dict() == state
        assert copy.deepcopy(own).state_dict() == state
        assert [plain(result) for result in own] == full[count:]
    next_epoch = build(ds.view(shard_id=1, num_shards=2, remainder="uneven").pipeline())
    next_epoch.set_epoch(1)
    assert [plain(result) for result in own] == [plain(result) for result in next_epoch]


def test_states_that_do_not_say_how_far_all_ranks_have_come_are_refused(path: Path) -> None:
    ds = opened(path, columns=["i"], where="i < 60")
    build: Build = lambda p: p.filter(keep).flat_map(several)  # noqa: E731
    states, _ = left_early(ds, build, 2, (3, 12))

    def load(given: Any, builds: Build = build, rank: int = 0, ranks: int = 3) -> None:
        builds(ds.view(shard_id=rank, num_shards=ranks, remainder="uneven").pipeline()).load_state_dict(given)

    load(states)
    with pytest.raises(ValueError, match=r"rank 0 of 2, and this is rank 1 of 3.*those of all in a list"):
        load(states[0], rank=1)
    with pytest.raises(ValueError, match=r"number 0 was saved by rank 1 of 2.*in the order of ranks"):
        load(states[::-1])
    with pytest.raises(ValueError, match=r"states of 1 rank, .* rank 0 of 2"):
        load(states[:1])
    with pytest.raises(ValueError, match="the state of each rank"):
        load([])
    with pytest.raises(
        ValueError,
        match=r"epoch is 0 in the state of rank 0 and 1 in that of rank 1: go on with 2 ranks.*one epoch",
    ):
        load([states[0], {**states[1], "epoch": 1}])
    with pytest.raises(ValueError, match="selection is"):
        load([states[0], {**states[1], "selection": "0" * 16}])
    with pytest.raises(ValueError, match="one time"):
        load([states[0], {**states[1], "position": states[1]["position"] + 1}])
    inner = [state for state in states if "inner" in state["pipeline"]]
    assert inner
    with pytest.raises(ValueError, match="flat_map"):
        load(states, lambda p: p.flat_map(several))
    for name, value in (
        ("left", [[0, 1 << 50, 1]]),
        ("left", [[0, 4, 0]]),
        ("left", [[0, 4]]),
        ("left", [[1, 4, 1], [2, 3, 1]]),
        ("left", "all"),
        ("left", [[50, 53, 1]]),
        ("start", -1),
        ("results", "many"),
        ("partly", [[3]]),
        ("partly", 3),
        ("inner", "12"),
        ("more", 1),
    ):
        wrong = {**inner[0], "pipeline": {**inner[0]["pipeline"], name: value}}
        with pytest.raises((ValueError, TypeError), match="state's"):
            load(wrong, rank=wrong["pipeline"]["shard"][0], ranks=2)


def test_receipts_are_of_positions_that_all_ranks_have_come_to(path: Path, tmp_path: Path) -> None:
    ds = opened(path, columns=["i"])
    states, _ = left_early(ds, STEPS["map"], 2, (3, 12))
    other = ds.view(shard_id=0, num_shards=3, remainder="uneven")
    with pytest.raises(ValueError, match="receipts"):
        other.pipeline(receipts=tmp_path).load_state_dict(states)
    even, _ = left_early(ds, STEPS["map"], 2, (3, 3))
    pipeline = other.pipeline(receipts=tmp_path)
    pipeline.load_state_dict(even)
    assert pipeline.state_dict() == even[0] == even[1]
