"""loader.replay(step): the very batch again, in any order of asking, without moving anything."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import UniRecordDataset


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("replay") / "a.urec"
    with unirecord.Writer(file, {"i": "int32"}) as writer:
        for i in range(23):
            writer.write({"i": i})
    return file


@settings(max_examples=15, deadline=None)
@given(
    mode=st.sampled_from([False, True, "block"]),
    remainder=st.sampled_from(["pad", "drop", "uneven"]),
    ranks=st.integers(1, 4),
    batch=st.integers(1, 6),
    drop_last=st.booleans(),
    start=st.sampled_from([0, 5]),
)
def test_replayed_batches_are_those_that_were_handed_out(
    path: Path, mode: object, remainder: str, ranks: int, batch: int, drop_last: bool, start: int
) -> None:
    for rank in range(ranks):
        ds = UniRecordDataset(path, rank, ranks, shuffle=mode, seed=3, remainder=remainder)
        ds.set_epoch(2)
        ds.load_state_dict({**ds.state_dict(), "position": start})
        loader = ds.batches(
            batch,
            drop_last=drop_last,
            transform=lambda sample: -int(sample["i"]),
            collate_fn=list,
            num_workers=0,
        )
        given = list(loader)
        state = loader.state_dict()
        found = [loader.replay(step, epoch=2, start=start) for step in reversed(range(len(given)))]
        assert found[::-1] == given
        assert loader.state_dict() == state
        with pytest.raises(IndexError, match=r"there is no step|has no batch"):
            loader.replay(len(given), epoch=2, start=start)


def test_steps_over_all_epochs_and_corrupt_batches(tmp_path: Path) -> None:
    file = tmp_path / "a.urec"
    with unirecord.Writer(file, {"x": "bytes"}) as writer:
        for i in range(6):
            writer.write({"x": bytes([65 + i]) * 5000})
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"C" * 5000)] ^= 1
    file.write_bytes(raw)
    loader = UniRecordDataset(file, on_corrupt="skip").batches(1)
    assert bytes(loader.replay(6 + 3)["x"][0])[:1] == b"D"
    with pytest.raises(IndexError, match="rank 0 has no batch in step 2 of epoch 0"):
        loader.replay(2)
