"""Rows left out from now on: loaders against a plain model of the rule, over modes, ranks, resumes and fills."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from order_reference import MASK64, derive

import unirecord
from unirecord import UniRecordDataset

ROWS = 23
DOMAIN = 9


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exclude") / "data"
    with unirecord.Writer(folder, {"i": "int32", "label": "int8"}, max_part_bytes=4096) as writer:
        for i in range(ROWS - 7):
            writer.write({"i": i, "label": i % 3})
    with unirecord.append(folder) as writer:
        for i in range(ROWS - 7, ROWS):
            writer.write({"i": i, "label": i % 3})
    return folder


class Model:
    """Rule O-12 of docs/spec/order.md in plain Python; ``order(epoch)`` lists the rows of an epoch."""

    def __init__(self, base: UniRecordDataset, seed: int) -> None:
        self.seed, self.orders, self.base = seed, {}, base
        self.excluded: list[tuple[tuple[int, int], set[int], bool]] = []

    def order(self, epoch: int) -> list[int]:
        if epoch not in self.orders:
            self.base.set_epoch(epoch)
            self.orders[epoch] = self.base.order.row_ids().tolist()
        return self.orders[epoch]

    def entries(self, epoch: int, position: int, row: int) -> list[bool]:
        return [fill for since, rows, fill in self.excluded if row in rows and (epoch, position) >= since]

    def draw(self, epoch: int, position: int) -> int:
        order, state = self.order(epoch), derive(self.seed, epoch, DOMAIN, position, 0)
        while True:
            state = (state + 0x9E3779B97F4A7C15) & MASK64
            z = state
            z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & MASK64
            z = ((z ^ z >> 27) * 0x94D049BB133111EB) & MASK64
            row = order[(z ^ z >> 31) * len(order) >> 64]
            if not self.entries(epoch, position, row):
                return row

    def step(self, epoch: int, start: int, k: int, batch: int, lengths: list[int]) -> list[list[int]]:
        """The rows of each rank in step k; none of any: it is passed over."""
        order, ranks, given = self.order(epoch), len(lengths), []
        fronts: dict[int, int] = {}
        for r, length in enumerate(lengths):
            given.append([])
            for i in range(k * batch, min((k + 1) * batch, length)):
                p = start + r + i * ranks
                fronts.setdefault(r, p)
                why = self.entries(epoch, p, order[p % len(order)])
                if not why:
                    given[-1].append(order[p % len(order)])
                elif any(why):
                    given[-1].append(self.draw(epoch, p))
        if any(given):
            for r, p in fronts.items():
                given[r] = given[r] or [self.draw(epoch, p)]
        return given


def lengths_of(n: int, start: int, ranks: int, remainder: str, batch: int, drop_last: bool) -> list[int]:
    left = max(n - start, 0)
    each = {
        "pad": lambda r: -(-left // ranks),
        "drop": lambda r: left // ranks,
        "uneven": lambda r: max(-(-(left - r) // ranks), 0),
    }[remainder]
    return [each(r) // batch * batch if drop_last else each(r) for r in range(ranks)]


NAMED = st.one_of(
    st.tuples(st.just("rows"), st.sets(st.integers(0, ROWS - 1), max_size=12).map(sorted)),
    st.tuples(st.just("where"), st.sampled_from(["label == 1", "i > 30", "i in (3, 4, 5, 9)"])),
    st.tuples(st.just("steps"), st.integers(0, 9)),  # counted from where the job stands
)
EVENTS = st.tuples(st.integers(0, 9), NAMED, st.booleans(), st.one_of(st.none(), st.integers(1, 4)))

SELECTIONS = {
    "all": lambda ds: ds,
    "where": lambda ds: ds.view(where="label != 1"),
    "picked": lambda ds: ds.select([5, 1, 22, 17, 2, 9, 8]),
    "weighted": lambda ds: unirecord.weighted(ds, "i", samples=17),
}


@settings(max_examples=25, deadline=None)
@given(
    mode=st.sampled_from([False, True, "block", "parts", "within-parts"]),
    chosen=st.sampled_from(sorted(SELECTIONS)),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    ranks=st.integers(1, 4),
    batch=st.integers(1, 5),
    drop_last=st.booleans(),
    events=st.lists(EVENTS, max_size=3),
)
@example(True, "all", "pad", 2, 2, False, [(0, ("steps", 2), False, None)])
@example(
    False, "all", "uneven", 3, 1, False, [(1, ("steps", 1), False, None), (1, ("rows", [7, 8]), True, None)]
)
def test_a_job_gets_what_the_rule_says(
    path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    mode: Any,
    chosen: str,
    remainder: str,
    ranks: int,
    batch: int,
    drop_last: bool,
    events: list[tuple[int, tuple[str, Any], bool, int | None]],
) -> None:
    """Each event: after so many further steps of the epoch rows are left out, and perhaps the job goes on elsewhere."""
    base = SELECTIONS[chosen](UniRecordDataset(path, shuffle=mode, seed=7, remainder=remainder))
    model = Model(base.view(shard_id=0, num_shards=1), 7)
    folder = tmp_path_factory.mktemp("receipts")
    options = {"drop_last": drop_last, "num_threads": 1, "prefetch": 2, "receipts": folder}

    def launch(state: dict | None) -> list[unirecord.BatchLoader]:
        loaders = [base.view(shard_id=r, num_shards=ranks).batches(batch, **options) for r in range(ranks)]
        for loader in loaders if state else ():
            loader.load_state_dict(json.loads(json.dumps(state)))
        return loaders

    loaders, start, waiting = launch(None), 0, list(events)
    n = len(model.order(0))
    ranks = min(ranks, n)
    for epoch in range(2):
        passes, steps, k, done = None, 0, 0, 0
        while True:
            lengths = lengths_of(n, start, ranks, remainder, batch, drop_last)
            if passes is None:
                passes, k, steps = [iter(loader) for loader in loaders], 0, -(-lengths[0] // batch)
                ahead = [model.step(epoch, start, j, batch, lengths) for j in range(steps)]
                expected = [sum(bool(step[r]) for step in ahead) for r in range(ranks)]
                assert [len(loader) for loader in loaders] == expected
            if k == steps:
                break
            wanted = model.step(epoch, start, k, batch, lengths)
            for r, (own, rows) in enumerate(zip(passes, wanted, strict=True)):
                ds = loaders[r].dataset
                if rows:
                    assert next(own)["i"].tolist() == rows
                asked = {"batch_size": batch, "epoch": epoch, "drop_last": drop_last, "start": start}
                assert ds.order.rows_of(k, rank=r, **asked).tolist() == rows
                if rows and k in (0, steps - 1):
                    assert loaders[r].replay(k, epoch=epoch, start=start)["i"].tolist() == rows
                for row in rows[:1]:
                    found = ds.order.steps_of(
                        row, batch, epochs=[epoch], num_shards=ranks, drop_last=drop_last, start=start
                    )
                    assert (k, r) in list(zip(found["step"].tolist(), found["rank"].tolist(), strict=True))
            k += 1
            done += any(map(bool, wanted))
            if waiting and done > waiting[0][0] and any(map(bool, wanted)):
                _, (how, what), fill, other = waiting.pop(0)
                position = start + k * batch * ranks
                if remainder == "uneven" and k == steps:
                    continue  # ranks that had no sample stand elsewhere
                if how == "steps":
                    what = min(k + what % 3, steps - 1)
                    step_of = {"epoch": epoch, "start": start}
                    rows = {
                        model.order(epoch)[(start + r + i * ranks) % n]
                        for r in range(ranks)
                        for i in range(what * batch, min((what + 1) * batch, lengths[r]))
                    }
                else:
                    step_of = {}
                    rows = (
                        set(what)
                        if how == "rows"
                        else set(base.view(where=what).order.row_ids().tolist())
                        if chosen != "weighted"
                        else set()
                    )
                if how == "where" and chosen == "weighted":
                    continue
                left = [
                    row
                    for row in set(
                        base.view(shard_id=0, num_shards=1).read_cursor.plan.order.selection.every().tolist()
                    )
                    if row not in rows and not any(row in gone for _, gone, _ in model.excluded)
                ]
                for loader in loaders:
                    if not left:
                        with pytest.raises(ValueError, match="no row would be left"):
                            loader.exclude(**{how: what}, fill=fill, **step_of)
                    else:
                        loader.exclude(**{how: what}, fill=fill, **step_of)
                if left:
                    taken = min(k * batch, lengths[0])
                    model.excluded.append(((epoch, start + taken * ranks), rows, fill))
                states = [loader.state_dict() for loader in loaders]
                assert all(state == states[0] for state in states)
                if other is not None:
                    ranks, start = min(other, n), states[0]["position"]
                    assert start == min(position, start)
                    loaders, passes = launch(states[0]), None
        for own in passes:
            assert next(own, None) is None
        start = 0
    report = unirecord.audit(folder, base)
    assert report.ok, report


def test_frozen_vectors_of_holes(tmp_path: Path) -> None:
    """What a second implementation has to give; the rows are their own numbers."""
    for case in json.loads((Path(__file__).parents[1] / "data" / "exclusion_vectors.json").read_text()):
        file = tmp_path / f"{case['samples']}.urec"
        if not file.exists():
            with unirecord.Writer(file, {"i": "int32"}) as writer:
                for i in range(case["samples"]):
                    writer.write({"i": i})
        ds = UniRecordDataset(file, shuffle=True, seed=case["seed"])
        ds.load_state_dict({**ds.state_dict(), "excluded": case["excluded"]})
        for epoch, steps in enumerate(case["steps"]):
            for step, ranks in enumerate(steps):
                for rank, rows in enumerate(ranks):
                    asked = {"epoch": epoch, "rank": rank, "num_shards": len(ranks)}
                    assert ds.order.rows_of(step, case["batch_size"], **asked).tolist() == rows


@pytest.fixture
def ten(tmp_path: Path) -> UniRecordDataset:
    with unirecord.Writer(tmp_path / "ten.urec", {"i": "int32", "x": "bytes"}) as writer:
        for i in range(10):
            writer.write({"i": i, "x": bytes([i]) * 5000})
    return UniRecordDataset(tmp_path / "ten.urec", on_corrupt="skip")


def test_samples_leave_out_what_is_excluded_meanwhile(ten: UniRecordDataset) -> None:
    """Also of what has been read ahead of the loop."""
    for transform in (None, lambda sample: sample):
        ds = ten.view(transform=transform, shard_id=1, num_shards=2)
        got = []
        for sample in ds:
            got.append(int(sample["i"]))
            if len(got) == 2:
                ds.exclude([5, 7, 3])
        assert got == [1, 3, 9]
        assert ds.state_dict()["position"] == 10
        assert [int(sample["i"]) for sample in ds] == [1, 9]
        with pytest.raises(IndexError, match=r"sample 1 is left out: row 3 has been excluded.*fill=True"):
            ds[1]
        assert int(ds[0]["i"]) == 1
        assert ds.excluded_rows == 3


def test_corrupt_and_excluded_rows_are_told_apart(ten: UniRecordDataset, tmp_path: Path) -> None:
    raw = bytearray((tmp_path / "ten.urec").read_bytes())
    for row in (4, 8):
        raw[raw.index(bytes([row]) * 5000)] ^= 1
    (tmp_path / "ten.urec").write_bytes(raw)
    loader = ten.batches(3, receipts=tmp_path / "receipts")
    loader.exclude(rows=[2, 3, 4, 9])
    assert [batch["i"].tolist() for batch in loader] == [[0, 1], [5], [6, 7]]
    report = unirecord.audit(tmp_path / "receipts", ten)
    assert report.ok
    left_out = report.orders[0].epochs[0].left_out
    assert {why: [str(r) for r in ranges] for why, ranges in left_out.items()} == {
        "excluded": ["2 … 4", "9"],
        "corrupt": ["8"],
    }


def test_what_is_not_obeyed_is_refused(ten: UniRecordDataset) -> None:
    for wrong in ({}, {"rows": [1], "where": "i == 1"}):
        with pytest.raises(ValueError, match="either rows"):
            ten.exclude(**wrong)
    with pytest.raises(IndexError, match="there is no row 10"):
        ten.exclude([10])
    with pytest.raises(TypeError, match="rows are integers"):
        ten.exclude([1.5])
    with pytest.raises(TypeError, match=r"not 'i == 1'; ds\.view\(where=…\)\.order\.row_ids\(\)"):
        ten.exclude("i == 1")
    with pytest.raises(ValueError, match="no row would be left"):
        ten.exclude(where="i >= 0")
    with pytest.raises(TypeError, match="fill must be"):
        ten.exclude([1], fill=1)
    with pytest.raises(ValueError, match="one of steps, rows and where"):
        ten.batches(2).exclude(3, rows=[1])
    with pytest.raises(ValueError, match="give the epoch"):
        ten.batches(2).exclude(1, start=4)
    with pytest.raises(ValueError, match="one epoch at a time"):
        ten.batches(2).exclude(range(4, 6))
    assert not ten.excluded_rows
    ten.exclude([1])
    for made in (
        lambda: unirecord.bucketed(ten, "x", batch_size=2),
        lambda: unirecord.mix({"a": ten}),
        lambda: told(ten.batches(2)),
    ):
        with pytest.raises(ValueError, match="rows have been excluded"):
            made()
    drawn = ten.view().select(range(10))
    assert [int(sample["i"]) for sample in drawn] == [0, *range(2, 10)]


def told(loader: unirecord.BatchLoader) -> None:
    loader.whole_for("TensorFlow")
    next(iter(loader))


def test_a_state_that_knows_nothing_of_it_says_so(ten: UniRecordDataset) -> None:
    before = ten.state_dict()
    ten.exclude([3])
    with pytest.warns(UserWarning, match=r"does not know of 1 row\(s\)"):
        ten.load_state_dict(before)
    assert "excluded" not in ten.state_dict()
    for wrong in (
        3,
        [3],
        [{}],
        [{"since": [0, 0], "fill": True, "rows": [[3, 11]]}],
        [{"since": [0], "rows": []}],
    ):
        with pytest.raises(ValueError, match=r"excluded|rows is 11"):
            ten.load_state_dict({**before, "excluded": wrong})


def test_the_stock_loader_gets_smaller_batches(ten: UniRecordDataset) -> None:
    from torch.utils.data import DataLoader

    ten.exclude([1, 4, 5])
    got = [batch["i"].tolist() for batch in DataLoader(ten, batch_size=2, collate_fn=_columns)]
    assert [len(rows) for rows in got] == [1, 2, 1, 2, 2]
    assert got[:2] == [[0], [2, 3]]
    assert got[2][0] not in (1, 4, 5)


def _columns(samples: list[dict[str, Any]]) -> dict[str, Any]:
    import numpy as np

    return {"i": np.array([sample["i"] for sample in samples])}


@pytest.mark.parametrize("drop_last", [False, True])
def test_lightning_counts_the_steps_of_a_whole_epoch(ten: UniRecordDataset, drop_last: bool) -> None:
    """It takes off what it has done."""
    from unirecord import lightning

    ten.exclude(rows=[*ten.order.row_ids()[4:8]])
    loader = lightning.loader(ten, 4, drop_last=drop_last)
    steps = 1 if drop_last else 2
    assert len(loader) == len(list(loader)) == steps
    iteration = iter(loader)
    next(iteration)
    state = loader.state_dict()
    iteration.close()
    loader.load_state_dict(state)
    assert len(loader) == steps
    assert len(list(loader)) == steps - 1


def test_data_that_have_grown_leave_the_same_rows_out(path: Path, tmp_path: Path) -> None:
    with unirecord.Writer(tmp_path / "d", {"i": "int32"}, max_part_bytes=4096) as writer:
        for i in range(10):
            writer.write({"i": i})
    ds = UniRecordDataset(tmp_path / "d", shuffle=True, seed=1)
    loader = ds.batches(3)
    rows = ds.order.rows_of(1, 3, epoch=0).tolist()
    loader.exclude(1)
    with unirecord.append(tmp_path / "d") as writer:
        writer.write({"i": 10})
    assert ds.refresh()
    ds.set_epoch(1)
    assert sorted(i for batch in loader for i in batch["i"].tolist()) == sorted(set(range(11)) - set(rows))
