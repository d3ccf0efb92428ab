"""A job is killed, its dataset is changed, and it goes on: the same samples in the same order, or it is told how to."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import faults
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from receipt_jobs import Job
from writing import write

import unirecord
from unirecord import StaleError, UniRecordDataset

SCHEMA = {"i": "int64"}
BY_PARTS = ("parts", "within-parts")
MODES = [False, True, "block", *BY_PARTS]
PARTS, EACH = 3, 7
ROWS = list(range(PARTS * EACH))
GONE = [2, 11, 12]


def add(path: Path, *numbers: int) -> None:
    with unirecord.append(path) as writer:
        for i in numbers:
            writer.write({"i": i})


def make(path: Path) -> int:
    """The version that a job opens."""
    write(path, SCHEMA, [{"i": i} for i in ROWS[:EACH]])
    for part in range(1, PARTS):
        add(path, *ROWS[part * EACH : (part + 1) * EACH])
    return PARTS


def restored(path: Path) -> None:
    unirecord.delete(path, rows=GONE)
    add(path, 99)
    unirecord.restore(path, PARTS)


def compacted_after_deleting(path: Path) -> None:
    unirecord.delete(path, rows=GONE)
    unirecord.compact(path, drop_deleted=True)


LEFT = [i for i in ROWS if i not in GONE]
# what is done to the directory, the rows after it, and whether orders of rows and orders of parts stay what they were
CHANGES: dict[str, tuple[Callable[[Path], object], list[int], bool, bool]] = {
    "append": (lambda path: add(path, 98, 99), [*ROWS, 98, 99], False, False),
    "delete": (lambda path: unirecord.delete(path, rows=GONE), LEFT, False, False),
    "compact": (lambda path: unirecord.compact(path), ROWS, True, False),
    "reshard": (lambda path: unirecord.reshard(path, 2), ROWS, True, False),
    "compact, of deleted rows": (compacted_after_deleting, LEFT, False, False),
    "sort": (lambda path: unirecord.sort(path, "i", descending=True), ROWS, False, False),
    "evict": (lambda path: unirecord.evict(path, "2KB"), ROWS[-EACH:], False, False),
    "restore": (restored, ROWS, True, True),
    "gc": (lambda path: unirecord.gc(path, keep=1), ROWS, True, True),
    "purge": (lambda path: unirecord.purge(path, rows=GONE), LEFT, False, False),
}


def all_of(dataset: UniRecordDataset, state: dict | None = None) -> list[int]:
    if state is not None:
        dataset.load_state_dict(state)
    return [int(sample["i"]) for sample in dataset]


@settings(max_examples=25, deadline=None)
@given(
    change=st.sampled_from(sorted(CHANGES)),
    mode=st.sampled_from(MODES),
    ranks=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    batch=st.integers(1, 4),
    steps=st.integers(0, 9),
    seed=st.integers(0, 3),
)
def test_a_job_goes_on_after_any_change_as_the_page_says(
    change: str, mode: bool | str, ranks: tuple[int, int], batch: int, steps: int, seed: int
) -> None:
    work, rows, rows_stay, parts_stay = CHANGES[change]
    options = {"shuffle": mode, "seed": seed, "remainder": "uneven"}
    with tempfile.TemporaryDirectory() as folder, faults.unsynced():
        path = Path(folder) / "data"
        version = make(path)
        with UniRecordDataset(path, **options) as before:
            job = Job(before, Path(folder) / "receipts", batch)
            job.launch(ranks[0], steps, lost=1, epochs=1)
            state = json.loads(json.dumps(job.state))
            rest = all_of(before.view(), state)
        work(path)
        first = version
        with UniRecordDataset(path, **options) as after:
            if parts_stay if mode in BY_PARTS else rows_stay:
                assert all_of(after.view(), state) == rest
                first = None
            else:
                with pytest.raises(StaleError, match="before it changed") as refused:
                    after.load_state_dict(state)
                names_it = f"open {path}@{version}, which it was taken of" in str(refused.value)
                assert names_it == (change != "purge")
        if change == "purge":
            return  # nothing is left of that version
        with UniRecordDataset(path, version=first, **options) as dataset:
            assert all_of(dataset.view(), state) == rest
            job.base = dataset
            job.launch(ranks[1], epochs=1)
        assert job.rows == Counter({(0, i): 1 for i in ROWS})
        with UniRecordDataset(path, **options) as newest:  # and the next epoch has what is there now
            newest.set_epoch(1)
            job.base, job.state = newest, None
            job.launch(ranks[1], epochs=1)
        assert job.rows == Counter({**{(0, i): 1 for i in ROWS}, **{(1, i): 1 for i in rows}})
        report = unirecord.audit(job.folder)
        assert report.problems == ()
        assert [epoch.epoch for order in report.orders for epoch in order.epochs] == [0, 1]
        assert all(epoch.exact and epoch.finished for order in report.orders for epoch in order.epochs)


@settings(max_examples=10, deadline=None)
@given(
    mode=st.sampled_from(MODES),
    gone=st.sets(st.sampled_from(ROWS), min_size=1, max_size=len(ROWS) - 3),
    ranks=st.integers(1, 3),
    steps=st.integers(0, 4),
    compacts=st.booleans(),
)
def test_rows_that_are_deleted_under_a_job_are_holes_that_the_audit_knows(
    mode: bool | str, gone: set[int], ranks: int, steps: int, compacts: bool
) -> None:
    """The job leaves them out from the step at which it goes on, in its epoch; the next epoch has no place for them."""
    options = {"shuffle": mode, "seed": 1, "remainder": "uneven"}
    with tempfile.TemporaryDirectory() as folder, faults.unsynced():
        path = Path(folder) / "data"
        version = make(path)
        with UniRecordDataset(path, **options) as before:
            job = Job(before, Path(folder) / "receipts", 2)
            job.launch(ranks, steps, epochs=1)
            order = all_of(before.view())
        unirecord.delete(path, rows=sorted(gone))
        if compacts:
            unirecord.compact(path, drop_deleted=True)
        assert job.state is not None
        position = job.state["position"]
        with UniRecordDataset(path, version=version, **options) as dataset:
            dataset.load_state_dict(job.state)
            dataset.exclude(sorted(gone))
            job.base, job.state = dataset, dataset.state_dict()
            job.launch(
                1, epochs=1
            )  # of several, one whose batch is all skipped slots would get a row in the first
        came = [*order[:position], *(i for i in order[position:] if i not in gone)]
        assert job.rows == Counter((0, i) for i in came)
        with UniRecordDataset(path, **options) as newest:
            newest.set_epoch(1)
            job.base, job.state = newest, None
            job.launch(ranks, epochs=1)
        assert {i for epoch, i in job.rows if epoch == 1} == set(ROWS) - gone
        report = unirecord.audit(job.folder)
        assert report.ok
        first, second = (epoch for found in report.orders for epoch in found.epochs)
        ranges, skipped = first.left_out.get("excluded", ()), [at for at, i in enumerate(order) if i in gone]
        skipped = [at for at in skipped if at >= position]
        assert sum(one.count for one in ranges) == len(skipped)
        assert all(any(one.first <= at < one.stop for one in ranges) for at in skipped)
        assert (first.positions, first.delivered) == (len(ROWS), len(came))
        assert (second.positions, second.delivered) == (len(ROWS) - len(gone), len(ROWS) - len(gone))
        assert not second.left_out
