"""Resuming a dataset: before and after a stop are one epoch, on any ranks; what does not fit is refused by name."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from order_datasets import MODES, PARTS, Make, maker, values

import unirecord
from unirecord import StaleError, UniRecordDataset


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    return maker(tmp_path_factory)


def test_resuming_leaves_what_has_not_been_delivered(make: Make) -> None:
    """D13: 123 of 233 rows; 13 steps on 8 ranks; and as the exact suffix, in the first epoch and the second."""
    path = make([233])
    ds = UniRecordDataset(path, shuffle=True)
    epochs = [values(ds) for _ in range(3)]
    for stop in (0, 123, 233, 300):
        ds = UniRecordDataset(path, shuffle=True)
        taken: list[int] = []
        while len(taken) < stop:
            for sample in ds:
                taken.append(int(sample["i"]))
                if len(taken) == stop:
                    break
        state = json.loads(json.dumps(ds.state_dict()))
        resumed = UniRecordDataset(path, shuffle=True)
        resumed.load_state_dict(state)
        assert taken + values(resumed) == (epochs[0] + epochs[1])[: 233 if stop <= 233 else 466]
        assert values(resumed) == epochs[1 if stop <= 233 else 2]
    for rank in range(8):
        ds = UniRecordDataset(path, rank, 8, shuffle=True)
        samples = iter(ds)
        for _ in range(13):
            next(samples)
        resumed = UniRecordDataset(path, rank, 8, shuffle=True)
        resumed.load_state_dict(ds.state_dict())
        assert len(resumed.batches(1)) == 17
        assert values(resumed) == [int(sample["i"]) for sample in samples]


def run(ds: UniRecordDataset, batch: int, steps: int, by_batches: bool) -> list[int]:
    """What a rank delivers in so many steps of a training loop, read ahead or not."""
    taken: list[int] = []
    if by_batches:
        for step, columns in enumerate(ds.batches(batch, prefetch=3, num_threads=1), 1):
            taken += [int(i) for i in columns["i"]]
            if step == steps:
                break
        return taken
    for sample in ds:
        taken.append(int(sample["i"]))
        if len(taken) == steps * batch:
            break
    return taken


@given(
    st.sampled_from([[1], [10], PARTS, [23]]),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from(MODES),
    st.sampled_from(["pad", "drop", "uneven"]),
    st.integers(1, 7),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([None, "odd"]),
)
def test_before_and_after_a_stop_are_one_epoch(
    make: Make,
    parts: list[int],
    before: int,
    after: int,
    mode: Any,
    remainder: str,
    batch: int,
    steps: int,
    by_batches: bool,
    where: str | None,
) -> None:
    rows = sum(parts) if where is None else sum(parts) // 2
    if rows == 0:
        return
    before, after = min(before, rows), min(after, rows)
    options = {"shuffle": mode, "remainder": remainder, "where": where, "seed": 11}

    def ranks(count: int) -> list[UniRecordDataset]:
        found = [UniRecordDataset(make(parts), rank, count, **options) for rank in range(count)]
        for ds in found:
            ds.set_epoch(2)
        return found

    jobs = ranks(before)
    first = [run(ds, batch, steps, by_batches) for ds in jobs]
    states = [json.loads(json.dumps(ds.state_dict())) for ds in jobs]

    def go_on(count: int, state: dict[str, Any]) -> list[list[int]]:
        resumed = ranks(count)
        for ds in resumed:
            ds.load_state_dict(state)
        return [run(ds, batch, 1000, by_batches) for ds in resumed]

    whole = [values(ds) for ds in ranks(before)]
    assert [a + b for a, b in zip(first, go_on(before, states[0]), strict=True)] == whole
    every = Counter(row for shard in first + go_on(after, states[0]) for row in shard)
    if remainder == "uneven":
        assert sorted(every.elements()) == sorted(values(UniRecordDataset(make(parts), where=where)))
    elif remainder == "pad":
        assert len(every) == rows
        assert sum(every.values()) - rows < max(before, after)
    else:
        assert max(every.values(), default=1) == 1
        assert rows - len(every) < after


def test_only_what_has_been_handed_out_counts(make: Make) -> None:
    ds = UniRecordDataset(make([50]), shuffle=True)
    batches = iter(ds.batches(5, prefetch=8))
    assert ds.state_dict()["position"] == 0
    first = [int(i) for _ in range(2) for i in next(batches)["i"]]
    assert ds.state_dict()["position"] == 10
    resumed = UniRecordDataset(make([50]), shuffle=True)
    resumed.load_state_dict(ds.state_dict())
    assert sorted(first + values(resumed)) == list(range(50))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"seed": 1}, "seed is 0 in the state and 1 here"),
        (
            {"shuffle": False, "block_rows": None, "window_blocks": None},
            "shuffle is 'block' in the state and 'sequential' here",
        ),
        ({"where": "odd"}, "where is None in the state and 'odd' here"),
        ({"remainder": "drop"}, "remainder is 'pad' in the state and 'drop' here"),
        ({"block_rows": 9}, "block_rows is 4 in the state and 9 here"),
        ({"window_blocks": 9}, "window_blocks is 3 in the state and 9 here"),
    ],
)
def test_a_state_of_other_options_is_refused(make: Make, change: dict[str, Any], text: str) -> None:
    options: dict[str, Any] = {"shuffle": "block", "block_rows": 4, "window_blocks": 3}
    state = UniRecordDataset(make([50]), **options).state_dict()
    with pytest.raises(ValueError, match=text):
        UniRecordDataset(make([50]), **{**options, **change}).load_state_dict(state)


def test_a_state_of_another_dataset_or_selection_is_refused(make: Make) -> None:
    ds = UniRecordDataset(make([50]), shuffle=True)
    with pytest.raises(
        StaleError, match=r"identity is .* in the state and .* rows is 50 in the state and 10 here"
    ):
        UniRecordDataset(make([10]), shuffle=True).load_state_dict(ds.state_dict())
    with pytest.raises(ValueError, match="selection is"):
        ds.take(49).load_state_dict(ds.state_dict())
    ds.take(49).load_state_dict(ds.take(49).state_dict())


@pytest.mark.parametrize("drawn", [False, True], ids=["rows", "mixture"])
def test_the_rows_of_a_state_decide_and_not_how_their_condition_is_spelled(make: Make, drawn: bool) -> None:
    def opened(where: str | None) -> UniRecordDataset[Any]:
        ds = UniRecordDataset(make([50]), where=where, shuffle=True)
        return unirecord.mix({"a": ds}, samples=20) if drawn else ds

    first = opened("i >= 10")
    samples = iter(first)
    before = [int(next(samples)["i"]) for _ in range(5)]
    state = json.loads(json.dumps(first.state_dict()))
    for where in ("i > 9", "not i < 10 and i >= 0"):
        resumed = opened(where)
        resumed.load_state_dict(state)
        assert before + values(resumed) == values(opened("i >= 10"))
    with pytest.raises(ValueError, match="selection"):
        opened("i > 10").load_state_dict(state)


def test_the_state_is_small(make: Make) -> None:
    assert len(json.dumps(UniRecordDataset(make([233]), where="i > 3").state_dict())) < 600


def test_a_refused_state_changes_nothing(make: Make) -> None:
    ds = UniRecordDataset(make([10]), shuffle=True)
    state = {**ds.state_dict(), "seed": 9, "epoch": 5, "position": 3}
    with pytest.raises(ValueError, match="seed"):
        ds.load_state_dict(state)
    assert (ds.epoch, len(values(ds))) == (0, 10)
