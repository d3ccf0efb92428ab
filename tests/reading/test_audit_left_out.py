"""Audits of jobs that leave many samples out: what of it is held in memory, and by how many records it is said."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import PositionRange, UniRecordDataset
from unirecord.dataset import receipts
from unirecord.dataset.receipts import BATCH
from unirecord.inspect import receipts as receipts_module
from unirecord.inspect.receipts import LeftOutSamples, Placed, ranges_left_out, read_receipts, records_of

NUMBERS = st.one_of(
    st.sets(st.integers(0, 300)),
    st.sets(st.integers(0, 1 << 40)),
    st.integers(0, 70_000).map(lambda first: set(range(first, first + 70_000))),
    st.just(set(range(0, 200_000, 7))),
)


def left_out(numbers: set[int]) -> LeftOutSamples:
    found = LeftOutSamples()
    for number in sorted(numbers):
        found.add(number)
    return found


def spelled(ranges: list[PositionRange]) -> set[int]:
    assert all(r.stride == 1 for r in ranges)
    assert all(a.stop < b.first for a, b in pairwise(ranges))  # runs as long as they are
    return {p for r in ranges for p in range(r.first, r.stop)}


@settings(max_examples=12, deadline=None)
@given(
    ranks=st.lists(st.tuples(NUMBERS, st.integers(0, 9), st.integers(1, 9)), max_size=3),
    stop=st.sampled_from([0, 5, 100_000, 1 << 50]),
    but=st.lists(st.tuples(st.integers(0, 90), st.integers(1, 90), st.integers(0, 3)), max_size=2),
    at_once=st.sampled_from([1, 1 << 20]),
)
def test_positions_that_are_left_out_are_those_of_all_ranks_together(
    ranks: list[tuple[set[int], int, int]], stop: int, but: list[tuple[int, int, int]], at_once: int
) -> None:
    placed = [Placed(left_out(numbers), first, stride, stop) for numbers, first, stride in ranks]
    ranges = [PositionRange(first, first + length, stride, 1) for first, length, stride in but]
    expected = {first + number * stride for numbers, first, stride in ranks for number in numbers}
    for first, length, stride in but:
        expected -= set(range(first, first + length, stride or 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(receipts_module, "_RANGES_AT_ONCE", at_once)
        patch.setattr(receipts_module, "_MOST_LISTED", 1 << 20)
        assert spelled(ranges_left_out(placed, ranges)) == {p for p in expected if p < stop}


def test_many_runs_are_said_as_one_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(receipts_module, "_MOST_LISTED", 3)
    found = left_out({1, 2, 3, 5, 7, 9})
    assert ranges_left_out([Placed(found, 10, 1, 100)], []) == [PositionRange(11, 20, 0, 6)]
    assert len(ranges_left_out([Placed(found, 10, 1, 19)], [])) == 3


def test_a_sample_left_out_takes_two_bytes_at_most_and_all_of_them_one_bit_each() -> None:
    few, all_of_them = left_out(set(range(0, 1 << 20, 1000))), left_out(set(range(1 << 18)))
    assert few.nbytes <= 2 * len(few)
    assert all_of_them.nbytes <= len(all_of_them) // 8 + (1 << 17)  # and a block that is not closed


@pytest.mark.parametrize("ranks", [1, 2])
def test_no_record_speaks_of_more_empty_batches_than_an_audit_looks_at_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int
) -> None:
    monkeypatch.setattr(receipts, "_MOST_AT_ONCE", 20)
    with unirecord.Writer(tmp_path / "a.urec", {"i": "int32"}) as writer:
        writer.write_batch({"i": np.arange(400, dtype=np.int32)})
    ds = UniRecordDataset(tmp_path / "a.urec")
    for rank in range(ranks):
        loader = ds.view(shard_id=rank, num_shards=ranks).batches(5, receipts=tmp_path / "receipts")
        loader.exclude(rows=[*range(10, 300), *range(350, 400)])
        assert sum(len(batch["i"]) for batch in loader) == 60 // ranks
    report = unirecord.audit(tmp_path / "receipts", ds)
    (epoch,) = report.orders[0].epochs
    assert report.ok, report
    assert epoch.left_out == {
        "excluded": (PositionRange(10, 300, 1, 290), PositionRange(350, 400, 1, 50)),
    }
    for path in (tmp_path / "receipts").iterdir():
        file = read_receipts(str(path))
        counts = [record.samples for _, record in records_of(file) if record.kind == BATCH]
        assert max(counts) == 20
        assert sum(counts) == 400 // ranks
