"""Receipts of pipelines: what the last operator hands out, against counting, over kills and samples left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import SkipSample, UniRecordDataset

ROWS = 31


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit") / "data"
    with unirecord.Writer(folder, {"i": "int64", "x": "bytes"}, max_part_bytes=4096) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "x": bytes([65 + i]) * 40})
    return folder


def plus(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "i": sample["i"] + 0}


BUILDS = {
    "batches": lambda p, size: p.select(["i"]).batch(size),
    "mapped": lambda p, size: p.map(plus).batch(size).map_batch(dict),
    "samples": lambda p, size: p.map(plus),
}


@settings(max_examples=25, deadline=None)
@given(
    build=st.sampled_from(sorted(BUILDS)),
    size=st.integers(1, 4),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    launches=st.lists(st.tuples(st.integers(1, 3), st.integers(0, 6), st.integers(0, 3)), max_size=2),
    excluded=st.sets(st.integers(0, ROWS - 1), max_size=ROWS // 2),
    fill=st.booleans(),
)
def test_a_job_of_pipelines_is_proven_exact(
    path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    build: str,
    size: int,
    remainder: str,
    launches: list[tuple[int, int, int]],
    excluded: set[int],
    fill: bool,
) -> None:
    """Each launch: ranks, steps to the checkpoint that the next one loads, further steps that its kill undoes."""
    folder = tmp_path_factory.mktemp("receipts")
    state: dict[str, Any] | None = None
    for ranks, steps, lost in [*launches, (2, 1 << 30, 0)]:
        pipelines, datasets = [], []
        for rank in range(ranks):
            ds = UniRecordDataset(path, rank, ranks, shuffle=True, seed=3, remainder=remainder)
            pipelines.append(BUILDS[build](ds.pipeline(cpus=1, receipts=folder), size))
            datasets.append(ds)
            if state is not None:
                pipelines[-1].load_state_dict(state)
        state = pipelines[0].state_dict() if state is None else state
        passes = [iter(pipeline) for pipeline in pipelines]
        for step in range(steps + lost):
            got = [next(own, None) for own in passes]
            if step + 1 == steps:
                state = pipelines[0].state_dict()
            if all(one is None for one in got):
                break
            if step == 1 and steps == 1 << 30 and excluded:
                for ds in datasets:
                    ds.exclude(sorted(excluded), fill=fill)
        for own in passes:
            own.close()
    base = UniRecordDataset(path, shuffle=True, seed=3, remainder=remainder)
    report = unirecord.audit(folder, base)
    assert report.ok, report
    (epoch,) = report.orders[0].epochs
    assert epoch.finished
    assert epoch.delivered + sum(r.count for ranges in epoch.left_out.values() for r in ranges) == ROWS


def test_what_is_delivered_left_out_and_skipped_is_counted(path: Path, tmp_path: Path) -> None:
    def refuse(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["i"] % 7 == 3:
            raise SkipSample("not this one")
        return sample

    ds = UniRecordDataset(path, shuffle=True, seed=3)
    pipeline = ds.pipeline(cpus=1, receipts=tmp_path / "r").map(refuse).batch(4)
    ds.exclude([5, 6])
    got = Counter(i for batch in pipeline for i in batch["i"].tolist())
    assert got == Counter(i for i in range(ROWS) if i % 7 != 3 and i not in (5, 6))
    report = unirecord.audit(tmp_path / "r", ds)
    assert report.ok, report
    (epoch,) = report.orders[0].epochs
    order = UniRecordDataset(path, shuffle=True, seed=3).order.row_ids().tolist()
    left_out = {
        why: {order[p] for r in ranges for p in range(r.first, r.stop)}
        for why, ranges in epoch.left_out.items()
    }
    assert left_out == {"excluded": {5, 6}, "skipped": {3, 10, 17, 24}}
    assert epoch.delivered == len(got)


def test_a_receipt_is_there_before_its_result_and_a_file_serves_all_epochs(
    path: Path, tmp_path: Path
) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    pipeline = ds.pipeline(cpus=1, receipts=tmp_path).map(plus).batch(4, drop_last=True)
    reading = iter(pipeline)
    for number in range(1, 4):
        next(reading)
        (epoch,) = unirecord.audit(tmp_path).orders[0].epochs
        assert epoch.positions == 4 * number  # and no more, whatever has been made ahead
    pipeline.load_state_dict(pipeline.state_dict())
    assert len(list(pipeline)) == 4
    assert len(list(pipeline)) == 7
    report = unirecord.audit(tmp_path, ds)
    assert report.ok, report
    assert report.files == 1
    assert [epoch.left_out["drop_last"][0].count for epoch in report.orders[0].epochs] == [3, 3]


def test_results_on_their_way_to_a_device_have_receipts(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    ds = UniRecordDataset(path, shuffle=True, seed=3)
    assert (
        len(list(ds.pipeline(cpus=1, receipts=tmp_path).select(["i"]).batch(4).to_torch(pin_memory=True)))
        == 8
    )
    assert unirecord.audit(tmp_path, ds).ok


def test_operators_that_decide_how_many_samples_there_are_refuse(path: Path, tmp_path: Path) -> None:
    pipeline = UniRecordDataset(path).pipeline(cpus=1, receipts=tmp_path / "none")
    for build in (
        lambda: pipeline.filter("i < 4"),
        lambda: pipeline.flat_map(lambda sample: [sample]),
        lambda: pipeline.batch(2).unbatch(),
    ):
        with pytest.raises(ValueError, match="receipts are of positions: choose rows with where="):
            build()
    with pytest.raises(ValueError, match="a folder on a disk"):
        UniRecordDataset(path).pipeline(receipts="s3://bucket/receipts")
    assert not (tmp_path / "none").exists()
