"""loader.replay(step): the very batch again, in any order of asking, without moving anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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


def test_a_dataset_replays_what_any_rank_got_with_its_random_numbers(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=3)

    def noisy(sample: dict, generator: np.random.Generator) -> tuple[int, int]:
        return int(sample["i"]), int(generator.integers(1 << 60))

    made = {"transform": noisy, "collate_fn": list, "random": True}
    for ranks in (1, 3):
        for rank in range(ranks):
            loader = ds.view(shard_id=rank, num_shards=ranks).batches(4, num_workers=0, **made)
            loader.set_epoch(1)
            for step, batch in enumerate(loader):
                asked = {"epoch": 1, "rank": rank, "num_shards": ranks}
                assert ds.order.replay(step, 4, **asked, **made) == batch
    assert ds.epoch == 0
    with pytest.raises(IndexError, match="there is no step 6"):
        ds.order.replay(6, 4, epoch=0)


def odd(sample: dict) -> bool:
    return int(sample["i"]) % 2 == 1


def twice(sample: dict) -> list[dict]:
    return [sample] * (1 + int(sample["i"]) % 2)


def noised(sample: dict, generator: np.random.Generator) -> dict:
    return {**sample, "noise": generator.integers(1 << 60)}


PIPELINES = {
    "samples": lambda p: p.map(noised, random=True),
    "batches": lambda p: p.map(noised, random=True).batch(4),
    "plain": lambda p: p.batch(4),
    "dropping": lambda p: p.map(noised, random=True).batch(4, drop_last=True),
    "filtered": lambda p: p.filter(odd).map(noised, random=True).batch(3),
    "where": lambda p: p.filter("i > 7").map(noised, random=True).batch(3),
    "several": lambda p: p.flat_map(twice).map(noised, random=True).batch(3),
    "unbatched": lambda p: p.batch(5).unbatch().map(noised, random=True),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_a_pipeline_replays_what_it_gave(path: Path, name: str) -> None:
    """On each rank, of a whole epoch and of one that was taken up."""
    for rank, start in ((0, 0), (1, 6)):
        ds = UniRecordDataset(path, rank, 3, shuffle=True, seed=3)
        pipeline = PIPELINES[name](ds.pipeline(cpus=1))
        ds.load_state_dict({**ds.state_dict(), "epoch": 2, "position": start})
        given = list(pipeline)
        state = pipeline.state_dict()
        again = PIPELINES[name](UniRecordDataset(path, rank, 3, shuffle=True, seed=3).pipeline(cpus=1))
        for step in (len(given) - 1, 0, len(given) // 2):
            np.testing.assert_equal(again.replay(step, epoch=2, start=start), given[step])
            np.testing.assert_equal(pipeline.replay(step, epoch=2, start=start), given[step])
        assert pipeline.state_dict() == state
        with pytest.raises(IndexError, match="no step"):
            pipeline.replay(len(given), epoch=2, start=start)
        if name in ("samples", "batches", "plain", "dropping"):
            whole = len(UniRecordDataset(path, rank, 3, shuffle=True, seed=3)) if name == "samples" else None
            if whole is not None and not start:
                np.testing.assert_equal(pipeline.replay(2 * whole), given[0])
        else:
            with pytest.raises(ValueError, match="give the epoch"):
                pipeline.replay(0)
