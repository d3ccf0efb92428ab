"""rows_of and steps_of against loaders that are iterated, every rank and epoch; and at sizes no loader reaches."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord.order.spec import JobSteps, Sharding

ROWS = 23


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("steps") / "data"
    with unirecord.Writer(folder, {"i": "int32", "label": "int8"}, max_part_bytes=4096) as writer:
        for i in range(ROWS):
            writer.write({"i": i, "label": i % 3})
    with unirecord.append(folder) as writer:
        for i in range(ROWS, ROWS + 9):
            writer.write({"i": i, "label": i % 3})
    return folder


def delivered(ds: unirecord.UniRecordDataset, ranks: int, batch: int, epoch: int, **options: object) -> list:
    """[rank][step] → rows, from loaders."""
    found = []
    for rank in range(ranks):
        own = ds.view(shard_id=rank, num_shards=ranks)
        own.set_epoch(epoch)
        found.append([b["i"].tolist() for b in own.batches(batch, num_threads=1, **options)])
    return found


SELECTIONS = {
    "all": lambda ds: ds,
    "where": lambda ds: ds.view(where="label != 1"),
    "range": lambda ds: ds.select(range(29, 2, -3)),
    "picked": lambda ds: ds.select([5, 1, 30, 5, 17, 2, 9, 9]),
}


@settings(max_examples=60, deadline=None)
@given(
    mode=st.sampled_from([False, True, "block", "parts", "within-parts"]),
    chosen=st.sampled_from(sorted(SELECTIONS)),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    ranks=st.integers(1, 5),
    batch=st.integers(1, 9),
    drop_last=st.booleans(),
    epoch=st.integers(0, 3),
)
def test_steps_are_what_loaders_deliver(
    path: Path, mode: object, chosen: str, remainder: str, ranks: int, batch: int, drop_last: bool, epoch: int
) -> None:
    blocks = {"block_rows": 3, "window_blocks": 2} if mode == "block" else {}
    with unirecord.UniRecordDataset(path, shuffle=mode, seed=5, remainder=remainder, **blocks) as whole:
        ds = SELECTIONS[chosen](whole)
        expected = delivered(ds, ranks, batch, epoch, drop_last=drop_last)
        asked = {"num_shards": ranks, "drop_last": drop_last}
        steps = max(map(len, expected))
        entries = set()
        for step in range(steps):
            per_rank = [own[step] if step < len(own) else [] for own in expected]
            for rank, rows in enumerate(per_rank):
                assert ds.order.rows_of(step, batch, epoch=epoch, rank=rank, **asked).tolist() == rows
                entries |= {(row, step, rank, slot) for slot, row in enumerate(rows)}
            together = [rows[slot] for slot in range(batch) for rows in per_rank if slot < len(rows)]
            assert ds.order.rows_of(step, batch, epoch=epoch, **asked).tolist() == together
            assert ds.order.rows_of(epoch * steps + step, batch, **asked).tolist() == together
        with pytest.raises(IndexError):
            ds.order.rows_of(steps, batch, epoch=epoch, **asked)
        found = ds.order.steps_of(range(ROWS + 9), batch, epochs=[epoch], **asked)
        table = set(zip(*(found[name].tolist() for name in ("row", "step", "rank", "slot")), strict=True))
        never = set(range(ROWS + 9)) - {row for row, *_ in entries}
        assert table == entries | {(row, -1, -1, -1) for row in never}
        assert len(found["row"]) == len(table)
        assert set(found["epoch"].tolist()) == {epoch}


@pytest.mark.parametrize("ranks", [2, 3])
def test_steps_of_an_epoch_that_was_taken_up_are_those_of_the_resumed_job(path: Path, ranks: int) -> None:
    before = unirecord.UniRecordDataset(path, 0, 4, shuffle=True, seed=2)
    batches = before.batches(2)
    next(iter(batches))
    state = batches.state_dict()
    for rank in range(ranks):
        ds = unirecord.UniRecordDataset(path, rank, ranks, shuffle=True, seed=2)
        ds.load_state_dict(state)
        for step, batch in enumerate(ds.batches(3)):
            assert (
                ds.order.rows_of(step, 3, epoch=0, rank=rank, start=state["position"]).tolist()
                == batch["i"].tolist()
            )
            found = ds.order.steps_of(batch["i"], 3, epochs=[0], start=state["position"])
            mine = found["rank"] == rank
            assert set(found["step"][mine].tolist()) == {step}


def test_rows_are_read_on_request(path: Path) -> None:
    ds = unirecord.UniRecordDataset(path, shuffle=True, seed=1, columns=["label"])
    batch = ds.order.rows_of(2, 4, read=True)
    assert list(batch) == ["label"]
    assert (batch["label"] == ds.order.rows_of(2, 4) % 3).all()


def test_questions_without_an_answer_are_refused(path: Path) -> None:
    ds = unirecord.UniRecordDataset(path, shuffle=True)
    with pytest.raises(IndexError, match=r"no row 32"):
        ds.order.steps_of([1, 32], 4)
    with pytest.raises(TypeError, match="integers"):
        ds.order.steps_of([1.5], 4)
    with pytest.raises(ValueError, match="rank"):
        ds.order.rows_of(0, 4, rank=1)
    with pytest.raises(ValueError, match="epoch"):
        ds.order.rows_of(0, 4, start=8)
    with pytest.raises(ValueError, match="batch_size"):
        ds.order.rows_of(0, 0)
    with pytest.raises(IndexError, match="no full batch"):
        ds.order.rows_of(0, 64, drop_last=True)
    with pytest.raises(IndexError, match="no samples"):
        ds.take(0).order.rows_of(0, 4)


@settings(max_examples=100, deadline=None)
@given(
    rows=st.integers(1, 10**12),
    ranks=st.integers(1, 4096),
    batch=st.integers(1, 512),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    drop_last=st.booleans(),
    begun=st.integers(0, 10**12),
    data=st.data(),
)
def test_positions_and_steps_are_inverse_at_any_size(
    rows: int, ranks: int, batch: int, remainder: str, drop_last: bool, begun: int, data: st.DataObject
) -> None:
    ranks = min(ranks, rows)
    steps = JobSteps(Sharding(rows, 0, ranks, remainder, begun % rows), batch, drop_last)
    if len(steps) == 0:
        return
    step = data.draw(st.sampled_from([0, len(steps) - 1, len(steps) // 2]))
    rank = data.draw(st.integers(0, ranks - 1))
    positions = steps.positions(step, rank)
    which, at_step, at_rank, slot = steps.places(positions)
    mine = (at_step == step) & (at_rank == rank)
    assert which[mine].tolist() == slot[mine].tolist() == list(range(len(positions)))
    assert len(which) <= 2 * len(positions)
