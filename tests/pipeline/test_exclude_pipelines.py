"""Rows that are left out of pipelines, before and while they are iterated: what loaders leave out, and when."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import Pipeline, SkipSample, UniRecordDataset

ROWS = 47


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exclude") / "data"
    with unirecord.Writer(folder, {"i": "int64", "s": "bytes"}, max_part_bytes=4096) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "s": str(i).encode()})
    return folder


def plus(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "i": sample["i"] + 0}


BUILDS: dict[str, Callable[[Pipeline], Pipeline]] = {
    "read as batches": lambda p: p,
    "a map": lambda p: p.map(plus),
    "a vectorised map": lambda p: p.map(lambda i: i, columns=["i"], vectorised=True),
    "threads": lambda p: p.map(plus, threads=2).prefetch(3),
    "no rewriting": lambda p: p.select(["i"]),
}


def got(results: Any, count: int = -1) -> list[list[int]]:
    found: list[list[int]] = []
    while count and (batch := next(results, None)) is not None:
        found.append(batch["i"].tolist())
        count -= 1
    return found


@settings(max_examples=60, deadline=None)
@given(
    build=st.sampled_from(sorted(BUILDS)),
    rewrite=st.booleans(),
    size=st.integers(1, 5),
    drop_last=st.booleans(),
    behind=st.booleans(),
    ranks=st.integers(1, 3),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    before=st.sets(st.integers(0, ROWS - 1), max_size=ROWS // 3),
    meanwhile=st.sets(st.integers(0, ROWS - 1), max_size=ROWS // 3),
    fills=st.tuples(st.booleans(), st.booleans()),
    steps=st.integers(0, 5),
    resumed=st.booleans(),
)
@example("a map", True, 2, False, True, 2, "pad", set(range(30)), set(), (False, False), 3, True)
def test_a_pipeline_leaves_out_what_the_loader_does(
    path: Path,
    build: str,
    rewrite: bool,
    size: int,
    drop_last: bool,
    behind: bool,
    ranks: int,
    remainder: str,
    before: set[int],
    meanwhile: set[int],
    fills: tuple[bool, bool],
    steps: int,
    resumed: bool,
) -> None:
    for rank in range(ranks):
        ds, other = (
            UniRecordDataset(path, rank, ranks, shuffle=True, seed=3, remainder=remainder) for _ in range(2)
        )
        loader = ds.batches(size, drop_last=drop_last, num_threads=1)
        pipeline = BUILDS[build](other.pipeline(cpus=1, rewrite=rewrite)).batch(size, drop_last=drop_last)
        pipeline = pipeline.map_batch(dict) if behind else pipeline
        for both in (ds, other) if before else ():
            both.exclude(sorted(before), fill=fills[0])
        assert len(pipeline) == len(loader)
        passes = iter(loader), iter(pipeline)
        assert got(passes[1], steps) == got(passes[0], steps)
        if meanwhile:
            loader.exclude(rows=sorted(meanwhile), fill=fills[1])
            other.exclude(sorted(meanwhile), fill=fills[1])
        if resumed:
            for one in (loader, pipeline):
                one.load_state_dict(one.state_dict())
            passes = iter(loader), iter(pipeline)
        assert pipeline.state_dict() == loader.state_dict()
        rest = got(passes[0])
        assert got(passes[1]) == rest
        assert pipeline.state_dict() == loader.state_dict()
        assert got(iter(pipeline)) == got(iter(loader))  # the next epoch


@pytest.mark.parametrize("fill", [False, True])
def test_samples_and_filtered_batches_pass_over_what_is_left_out(path: Path, fill: bool) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()
    samples = ds.pipeline(cpus=1)
    reading = iter(samples)
    assert [next(reading)["i"] for _ in range(10)] == order[:10]
    ds.exclude(order[:20], fill=fill)
    rest = [int(sample["i"]) for sample in reading]
    assert not set(rest) & set(order[:20])
    assert len(rest) == ROWS - 10 if fill else rest == order[20:]
    ds.set_epoch(1)
    kept = [i for i in ds.order.row_ids().tolist() if i not in order[:20] and i != order[40]]
    filtered = ds.view().pipeline(cpus=1).filter(f"i != {order[40]}").batch(4)
    filtered.set_epoch(1)
    assert len(samples) == (ROWS if fill else ROWS - 20)
    if not fill:
        assert [i for batch in got(iter(filtered)) for i in batch] == kept


def test_batches_that_unbatch_makes_again_go_on_in_the_middle(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()
    samples = ds.pipeline(cpus=1).map(plus).batch(5).unbatch()
    reading = iter(samples)
    assert [next(reading)["i"] for _ in range(7)] == order[:7]
    ds.exclude(
        order[:1] + order[8:10] + order[20:31]
    )  # those of a step that has begun too: what is ahead is made anew
    assert [int(sample["i"]) for sample in reading] == order[7:8] + order[10:20] + order[31:]


def test_steps_that_are_left_out_are_not_replayed(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()
    ds.exclude(order[4:9])
    batched, samples = ds.pipeline(cpus=1).map(plus).batch(4), ds.pipeline(cpus=1)
    with pytest.raises(IndexError, match="step 1 of epoch 0 has been left out"):
        batched.replay(1, epoch=0)
    with pytest.raises(IndexError, match="step 8 of epoch 0 has been left out"):
        samples.replay(8, epoch=0)
    assert batched.replay(2, epoch=0)["i"].tolist() == order[9:12]
    assert samples.replay(9, epoch=0)["i"] == order[9]


def test_an_operator_that_leaves_a_sample_out_does_so_in_a_replay(path: Path) -> None:
    """And the batch takes the next one, as it does in a pass."""
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()

    def refuse(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["i"] == order[9]:
            raise SkipSample("not this one")
        return sample

    pipeline = ds.pipeline(cpus=1).map(refuse).batch(4)
    batches = got(iter(pipeline))
    assert batches[2] == [order[8], *order[10:13]] == pipeline.replay(2, epoch=0)["i"].tolist()


def test_a_batch_ends_where_its_last_sample_has_been_left_out_by_an_operator(path: Path) -> None:
    """Where rows have been excluded, batches keep their places, whatever else is left out of them."""
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()
    ds.exclude(order[:1])
    refused = {order[4], order[7], *order[12:16]}

    def refuse(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["i"] in refused:
            raise SkipSample("not this one")
        return sample

    pipeline = ds.pipeline(cpus=1).map(refuse).batch(4)
    results = iter(pipeline)
    positions = []
    for wanted in (order[1:4], order[5:7], order[8:12], order[16:20]):
        assert got(results, 1) == [wanted]
        positions.append(pipeline.state_dict()["position"])
    assert positions == [4, 8, 12, 20]


@pytest.mark.parametrize("threads", ["auto", 2])
def test_a_batch_that_rows_are_left_out_of_comes_before_an_error_behind_it(path: Path, threads: Any) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()
    ds.exclude([order[6], order[7]])

    def fail(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["i"] == order[8]:
            raise KeyError("this one")
        return sample

    results = iter(ds.pipeline(cpus=1).map(fail, threads=threads).batch(4))
    assert got(results, 2) == [order[:4], order[4:6]]
    with pytest.raises(unirecord.TransformError, match="this one"):
        next(results)


def test_holes_go_through_processes_and_slots(path: Path) -> None:
    class Decode:
        dtype, shape, random = np.dtype(np.uint8), (2,), False

        def into(self, cell: Any, out: Any, key: int) -> None:
            out[:] = int(bytes(cell)) % 251

    ds = UniRecordDataset(path, shuffle=True, seed=3)
    order = ds.order.row_ids().tolist()
    ds.exclude([order[1], order[4], order[11], *order[12:16]])
    wanted = [[order[0], *order[2:4]], order[5:8], order[8:11], order[16:20]]
    in_place = ds.view().pipeline(cpus=1).map(Decode(), columns=["s"]).batch(4)
    assert [batch["s"][:, 0].tolist() for batch in in_place][:4] == wanted
    apart = ds.view().pipeline(cpus=2).map(plus, processes=1).batch(4)
    assert got(iter(apart))[:4] == wanted
