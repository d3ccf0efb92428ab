"""batches(random=True): a sample's generator is that of the pipeline, on any threads and ranks, after any resume."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord.torch
from unirecord import TransformError, UniRecordDataset, Writer

N = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("random") / "a.urec"
    with Writer(found, {"n": "int64", "tokens": {"type": "int32", "shape": [-1]}}) as writer:
        for n in range(N):
            writer.write({"n": n, "tokens": np.zeros(1 + n % 7, np.int32)})
    return found


def noisy(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"n": sample["n"], "noise": rng.integers(1 << 40)}


def drawn(loader: Any) -> dict[int, int]:
    """The noise of each row of the next epoch of a loader."""
    return {
        int(n): int(noise) for batch in loader for n, noise in zip(batch["n"], batch["noise"], strict=True)
    }


def opened(path: Path, *shard: int, **options: Any) -> UniRecordDataset[Any]:
    return UniRecordDataset(path, *shard, shuffle=True, **{"seed": 3, "remainder": "uneven", **options})


def of_pipeline(path: Path, epoch: int = 0, seed: int = 3) -> dict[int, int]:
    ds = opened(path, seed=seed)
    ds.set_epoch(epoch)
    return drawn(ds.pipeline().map(noisy, random=True).batch(7))


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("size", [1, 8, N])
def test_the_noise_is_that_of_the_pipeline_and_each_samples_own(path: Path, workers: int, size: int) -> None:
    loader = opened(path).batches(size, transform=noisy, random=True, num_workers=workers)
    first, second = drawn(loader), drawn(loader)
    assert first == of_pipeline(path)
    assert second == of_pipeline(path, 1)
    assert len({*first.values(), *second.values()}) == 2 * N, "every sample has its own in every epoch"
    assert (
        drawn(opened(path, seed=4).batches(8, transform=noisy, random=True))
        == of_pipeline(path, 0, 4)
        != first
    )


def test_ranks_a_resume_on_others_and_a_replay_give_it_again(path: Path) -> None:
    expected = of_pipeline(path)
    found: dict[int, int] = {}
    for rank in range(2):
        loader = opened(path, rank, 2, transform=noisy).batches(4, random=True)
        found |= drawn(itertools.islice(loader, 3))
    state = loader.state_dict()
    again = loader.replay(1)
    assert drawn([again]).items() <= expected.items()
    for rank in range(3):
        loader = opened(path, rank, 3).batches(5, transform=noisy, random=True)
        loader.load_state_dict(state)
        found |= drawn(loader)
    assert found == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda ds: unirecord.torch.loader(ds, 8, transform=noisy, random=True),
        lambda ds: ds.bucketed("tokens", batch_size=6).batches(transform=noisy, random=True),
        lambda ds: unirecord.torch.loader(ds.bucketed("tokens", batch_size=6), transform=noisy, random=True),
    ],
    ids=["torch", "drawn", "drawn, torch"],
)
def test_every_loader_that_calls_a_transform_gives_it(path: Path, make: Any) -> None:
    assert drawn(make(opened(path))) == of_pipeline(path)


@pytest.mark.parametrize("rank", [0, 1])
def test_every_step_of_drawn_batches_is_replayed_as_it_was(path: Path, rank: int) -> None:
    drawn = opened(path, rank, 2, remainder="drop").bucketed("tokens", batch_size=7)
    loader = drawn.batches(transform=noisy, random=True)
    given = [[list(map(int, batch[name])) for name in ("n", "noise")] for batch in loader]
    assert len(given) > 2
    for step, batch in reversed(list(enumerate(given))):
        again = loader.replay(step, epoch=0)
        assert [list(map(int, again[name])) for name in ("n", "noise")] == batch
    with pytest.raises(IndexError, match="there is no step"):
        loader.replay(len(given), epoch=0)


def test_rows_that_are_left_out_take_no_noise_with_them(path: Path, tmp_path: Path) -> None:
    corrupt, file = (5, 33), tmp_path / "a.urec"
    with Writer(file, {"n": "int64", "x": "bytes"}) as writer:
        for n in range(N):
            writer.write({"n": n, "x": bytes([65 + n]) * 3000})
    cells = bytearray(file.read_bytes())
    for n in corrupt:
        cells[cells.index(bytes([65 + n]) * 3000)] ^= 1
    file.write_bytes(cells)
    found = drawn(opened(file, on_corrupt="skip").batches(8, transform=noisy, random=True))
    assert found == {n: noise for n, noise in of_pipeline(path).items() if n not in corrupt}


def test_what_it_contradicts_is_refused_and_failures_are_named(path: Path) -> None:
    ds = opened(path)
    with pytest.raises(ValueError, match="there is none: give transform="):
        ds.batches(8, random=True)
    with pytest.raises(TypeError, match="random must be True or False, got 3"):
        ds.batches(8, transform=noisy, random=3)  # type: ignore[arg-type]
    with pytest.raises(TransformError, match="positional argument"):
        list(ds.batches(8, transform=noisy))
