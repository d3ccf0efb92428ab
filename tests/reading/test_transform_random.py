"""batches(random=True): a sample's generator is that of the pipeline, on any threads and ranks, after any resume."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unirecord
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


def pairs(loader: Any) -> list[tuple[int, int]]:
    """(row, its noise) of each sample of the next epoch of a loader, in order."""
    return [
        (int(n), int(noise)) for batch in loader for n, noise in zip(batch["n"], batch["noise"], strict=True)
    ]


def by_row(row: int, epoch: int, seed: int = 3) -> int:
    """The noise that is a row's own in an epoch, by the formula of docs/spec/order.md."""
    every = (1 << 64) - 1

    def mixed(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & every
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & every
        return x ^ (x >> 31)

    golden = 0x9E3779B97F4A7C15
    base = mixed((mixed((seed + golden) & every) ^ epoch) + golden & every)
    key = mixed((row * golden + base) & every)
    return int(np.random.Generator(np.random.Philox(key=np.array([key, 1], np.uint64))).integers(1 << 40))


PICKED = [*range(0, 40, 2), *range(0, 40, 2), 7, 7, 7, 41]


def mixed(ds: UniRecordDataset[Any], **options: Any) -> UniRecordDataset[Any]:
    sources = {"a": ds.take(50).view(shuffle=False), "b": ds.skip(52).view(shuffle=False)}
    return unirecord.mix(sources, source_column=None, **options)


# Datasets in which a row may come more often than once in an epoch, and others in which none does.
AGAIN = {
    "weighted": lambda ds: unirecord.weighted(ds, 1 + 9 * (np.arange(N) < 5), samples=90),
    "picked": lambda ds: ds.select(PICKED),
    "picked, in order": lambda ds: ds.view(shuffle=False).select(PICKED),
    "one row": lambda ds: ds.select([4] * 30),
    "mixture": lambda ds: mixed(ds, weights={"a": 1, "b": 1}, stop="all", seed=3),
    "mixture over its ends": lambda ds: mixed(ds, weights={"a": 1, "b": 1}, seed=3, samples=60),
    "once by weight, of picked": lambda ds: unirecord.weighted(
        ds.select(PICKED), np.ones(44), replacement=False
    ),
}
ONCE = {
    "all": lambda ds: ds,
    "in order": lambda ds: ds.view(shuffle=False),
    "where": lambda ds: ds.view(where="n % 3 == 1"),
    "backwards": lambda ds: ds.select(range(59, 3, -2)),
    "chosen": lambda ds: ds.select(np.random.default_rng(0).permutation(N)[:33]),
    "once by weight": lambda ds: unirecord.weighted(ds, np.arange(N), replacement=False),
}


@pytest.mark.parametrize("kind", [*AGAIN, *ONCE])
def test_each_sample_has_noise_of_its_own_also_of_a_row_that_comes_again(path: Path, kind: str) -> None:
    """In every reader, on any ranks, after any resume, and when it is replayed; a row's own where it comes once."""
    make = {**AGAIN, **ONCE}[kind]

    def opened_as(*shard: int) -> UniRecordDataset[Any]:
        return make(opened(path, *shard))

    loader = opened_as().batches(7, transform=noisy, random=True)
    found = [pairs(loader), pairs(loader)]
    every = [noise for epoch in found for _, noise in epoch]
    assert len(set(every)) == len(every)
    rows = [[row for row, _ in epoch] for epoch in found]
    assert any(len(set(epoch)) < len(epoch) for epoch in rows) == (kind in AGAIN)
    if kind in ONCE:
        seed = loader.state_dict()["seed"]
        assert found == [[(row, by_row(row, epoch, seed)) for row in rows[epoch]] for epoch in range(2)]
    pipeline = opened_as().pipeline(cpus=2).map(noisy, random=True).batch(5)
    assert [pairs(pipeline), pairs(pipeline)] == found
    conditioned = opened_as().pipeline(cpus=2).filter("n >= 4").map(noisy, random=True).batch(5)
    assert pairs(conditioned) == [(row, noise) for row, noise in found[0] if row >= 4]
    assert pairs([loader.replay(2, epoch=0)]) == found[0][14:21]
    assert pairs([pipeline.replay(3, epoch=0)]) == found[0][15:20]
    went: list[tuple[int, int]] = []
    state = None
    for ranks, steps in ((2, 2), (3, 1), (1, None)):
        loaders = [opened_as(rank, ranks).batches(2, transform=noisy, random=True) for rank in range(ranks)]
        for one in loaders:
            if state is not None:
                one.load_state_dict(state)
            went += pairs(itertools.islice(one, steps))
        state = loaders[0].state_dict()
    assert sorted(went) == sorted(found[0])


DRAWN = {
    "balanced": (
        lambda ds: unirecord.balanced(ds.view(where="n < 9"), "n", classes=4, per_class=3, batches=8),
        True,
    ),
    "bucketed": (lambda ds: unirecord.bucketed(ds, "tokens", batch_size=6), False),
    "bucketed, of picked": (lambda ds: unirecord.bucketed(ds.select(PICKED), "tokens", batch_size=4), True),
}


@pytest.mark.parametrize("kind", DRAWN)
def test_each_sample_of_drawn_batches_has_noise_of_its_own(path: Path, kind: str) -> None:
    make, again = DRAWN[kind]

    def loader(*shard: int) -> Any:
        return make(opened(path, *shard)).batches(transform=noisy, random=True)

    first = loader()
    found = [pairs(first), pairs(first)]
    every = [noise for epoch in found for _, noise in epoch]
    assert len(set(every)) == len(every)
    assert (len({row for row, _ in found[0]}) < len(found[0])) == again
    assert again or found[1] == [(row, by_row(row, 1)) for row, _ in found[1]]
    again_given = pairs(first.replay(step, epoch=0) for step in range(3))
    assert again_given == found[0][: len(again_given)]
    assert sorted(row for rank in range(3) for row in pairs(loader(rank, 3))) == sorted(found[0])
    ahead = loader()
    went = pairs(itertools.islice(ahead, 2))
    rest = loader()
    rest.load_state_dict(ahead.state_dict())
    assert went + pairs(rest) == found[0]


@pytest.mark.packages
def test_a_batch_sampler_that_names_a_row_again_gives_it_other_noise(path: Path) -> None:
    lists = [[1, 2, 1], [2, 2, 5], [1]]
    plain = opened(path).view(shuffle=False)

    def made() -> Any:
        return unirecord.torch.loader(plain.view(), batch_sampler=lists, transform=noisy, random=True)

    found = pairs(made())
    assert [row for row, _ in found] == [1, 2, 1, 2, 2, 5, 1]
    assert len({noise for _, noise in found}) == 7
    first = (0, 1, 5)
    assert [found[place][1] for place in first] == [by_row(found[place][0], 0) for place in first]
    begun, rest = made(), made()
    next(iter(begun))
    rest.load_state_dict(begun.state_dict())
    assert pairs(rest) == found[3:]


def test_a_row_that_fills_a_hole_has_other_noise_there_than_in_its_own_place(path: Path) -> None:
    ways = (
        lambda ds: ds.batches(7, transform=noisy, random=True),
        lambda ds: ds.pipeline(cpus=1).map(noisy, random=True).batch(7),
        lambda ds: ds.pipeline(cpus=1).batch(7).unbatch().map(noisy, random=True).batch(7),
    )
    got = []
    for make in ways:
        ds = opened(path)
        ds.exclude(range(10), fill=True)
        got.append(pairs(make(ds)))
    found = got[0]
    assert got[1:] == [found, found]
    assert len(found) == N
    assert len({row for row, _ in found}) == N - 10
    assert len({noise for _, noise in found}) == N
    assert sum(noise == by_row(row, 0) for row, noise in found) == N - 10


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


@pytest.mark.packages
@pytest.mark.parametrize(
    "make",
    [
        lambda ds: unirecord.torch.loader(ds, 8, transform=noisy, random=True),
        lambda ds: unirecord.bucketed(ds, "tokens", batch_size=6).batches(transform=noisy, random=True),
        lambda ds: unirecord.torch.loader(
            unirecord.bucketed(ds, "tokens", batch_size=6), transform=noisy, random=True
        ),
    ],
    ids=["torch", "drawn", "drawn, torch"],
)
def test_every_loader_that_calls_a_transform_gives_it(path: Path, make: Any) -> None:
    assert drawn(make(opened(path))) == of_pipeline(path)


@pytest.mark.parametrize("rank", [0, 1])
def test_every_step_of_drawn_batches_is_replayed_as_it_was(path: Path, rank: int) -> None:
    drawn = unirecord.bucketed(opened(path, rank, 2, remainder="drop"), "tokens", batch_size=7)
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
