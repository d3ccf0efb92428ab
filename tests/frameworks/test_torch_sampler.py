"""unirecord.torch.loader(batch_sampler=): batches that a sampler of PyTorch's kind names, exactly, and their states."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    WeightedRandomSampler,
)

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.torch import loader

N = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("sampled") / "set"
    schema = {"n": "int64", "text": "string", "tokens": {"type": "int32", "shape": [-1]}}
    with Writer(found, schema, max_part_bytes=1_000) as writer:
        for n in range(N):
            writer.write({"n": n, "text": f"row {n}", "tokens": np.full(n % 4, n, np.int32)})
    return found


@pytest.fixture(scope="module")
def ds(path: Path) -> UniRecordDataset:
    return UniRecordDataset(path)


def rows(batches: Any) -> list[list[int]]:
    return [batch["n"].tolist() for batch in batches]


class Seeded:
    """A batch sampler whose lists are a function of its epoch, as PyTorch's DistributedSampler."""

    def __init__(self, size: int = 8, asked: list[int] | None = None) -> None:
        self.epoch, self.size, self.asked = 0, size, asked

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-N // self.size)

    def __iter__(self) -> Iterator[list[int]]:
        order = np.random.default_rng(self.epoch).permutation(N).tolist()
        for number, first in enumerate(range(0, N, self.size)):
            if self.asked is not None:
                self.asked.append(number)
            yield order[first : first + self.size]


@settings(max_examples=60, deadline=None)
@given(
    lists=st.lists(st.lists(st.integers(-N, N - 1), min_size=1, max_size=9), max_size=40),
    prefetch=st.sampled_from([None, 1, 2, 7]),
    workers=st.sampled_from([0, 2]),
    taken=st.integers(0, 40),
)
def test_batches_are_the_lists_and_go_on_after_any_of_them(
    ds: UniRecordDataset, lists: list[list[int]], prefetch: int | None, workers: int, taken: int
) -> None:
    expected = [[n % N for n in batch] for batch in lists]

    def made() -> Any:
        transform = None if workers == 0 else (lambda sample: {"n": sample["n"]})
        return loader(ds, batch_sampler=lists, prefetch=prefetch, transform=transform, num_workers=workers)

    running = made()
    assert len(running) == len(lists)
    first = rows(itertools.islice(running, taken))
    state = json.loads(json.dumps(running.state_dict()))
    again = made()
    again.load_state_dict(state)
    assert len(again) == max(0, len(lists) - taken)
    assert first + rows(again) == expected
    assert rows(again) == expected, "the next epoch is whole"


@pytest.mark.parametrize(
    "sampler",
    [
        BatchSampler(range(N), 7, drop_last=True),
        BatchSampler(DistributedSampler(range(N), 3, 1, seed=5), 4, drop_last=False),  # type: ignore[arg-type]
        [torch.tensor([3, 1, 1]), np.array([49], np.int32), (0, -1)],
    ],
    ids=["BatchSampler", "DistributedSampler", "tensors and arrays"],
)
def test_it_gives_what_the_stock_loader_gives(path: Path, sampler: Any) -> None:
    ds = UniRecordDataset(path, columns=["n", "text"])
    stock = DataLoader(ds, batch_sampler=[[int(n) for n in batch] for batch in sampler])
    for ours, theirs in zip(loader(ds, batch_sampler=sampler), stock, strict=True):
        assert torch.equal(ours["n"], theirs["n"])
        assert ours["text"] == theirs["text"]


@pytest.mark.parametrize("sampler", [RandomSampler(range(N)), WeightedRandomSampler([1.0] * N, N)])
def test_a_random_sampler_of_torchs_is_asked_anew_and_its_state_proves_it(ds: Any, sampler: Any) -> None:
    ready = loader(ds, batch_sampler=BatchSampler(sampler, 8, drop_last=False))
    torch.manual_seed(1)
    first = rows(ready)
    running = iter(ready)
    assert rows([next(running), next(running)]) != first[:2]
    state = ready.state_dict()
    again = loader(ds, batch_sampler=BatchSampler(sampler, 8, drop_last=False))
    again.load_state_dict(state)
    with pytest.raises(ValueError, match="first 2 are others now: seed it"):
        list(again)


def test_the_epoch_of_a_sampler_is_its_owners_and_a_state_of_another_is_refused(ds: UniRecordDataset) -> None:
    sampler = Seeded()
    ready = loader(ds, batch_sampler=sampler)
    sampler.set_epoch(1)
    whole = rows(ready)
    assert whole == list(sampler)
    running = iter(ready)
    first = [next(running)["n"].tolist() for _ in range(3)]
    state = ready.state_dict()
    for epoch, size in ((0, 8), (1, 7), (1, 25)):
        other = Seeded(size)
        other.set_epoch(epoch)
        again = loader(ds, batch_sampler=other)
        again.load_state_dict(state)
        with pytest.raises(ValueError, match="are others now: seed it, and set its epoch"):
            next(iter(again))
    again = loader(ds, batch_sampler=sampler)
    again.load_state_dict(state)
    assert first + rows(again) == whole


def test_it_is_asked_no_further_ahead_than_two_loaders_read(ds: UniRecordDataset) -> None:
    asked: list[int] = []
    running = iter(loader(ds, batch_sampler=Seeded(1, asked), prefetch=3))
    assert asked == []
    next(running)
    assert len(asked) <= 2 * 3
    running.close()  # type: ignore[attr-defined]
    endless = itertools.cycle([[1, 2], [3]])

    class Endless:
        def __iter__(self) -> Iterator[list[int]]:
            return iter(lambda: next(endless), None)

    ready = loader(ds, batch_sampler=Endless())
    assert rows(itertools.islice(ready, 1000)) == [[1, 2], [3]] * 500
    with pytest.raises(TypeError, match="the batch sampler has no length"):
        len(ready)


def test_copies_stand_where_the_original_stood(ds: UniRecordDataset) -> None:
    ready = loader(ds, batch_sampler=Seeded(6))
    first = rows(itertools.islice(ready, 4))
    loaded = loader(ds, batch_sampler=Seeded(6))
    loaded.load_state_dict(ready.state_dict())
    for copied in (copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        again = copied(ready)
        assert again.state_dict() == ready.state_dict()
        assert rows(again) == list(Seeded(6)), "the next epoch, as that of the original"
        assert first + rows(copied(loaded)) == list(Seeded(6))


def test_rows_are_those_chosen_and_windows_are_samples(path: Path) -> None:
    chosen = UniRecordDataset(path, where="n % 2 == 1").skip(3)
    assert rows(loader(chosen, batch_sampler=[[0, 2], [-1]])) == [[7, 11], [49]]
    windows = unirecord.windows(UniRecordDataset(path), "tokens", length=5)
    found = [batch["tokens"] for batch in loader(windows, batch_sampler=[[4, 0], [2]])]
    assert [batch.tolist() for batch in found] == [
        [windows[i]["tokens"].tolist() for i in some] for some in ([4, 0], [2])
    ]


def test_a_sampler_that_fails_does_so_behind_the_batches_it_gave(ds: UniRecordDataset) -> None:
    class Failing:
        def __iter__(self) -> Iterator[list[int]]:
            yield [1]
            yield [2, 3]
            raise RuntimeError("no more")

    for sampler, error, message in (
        (Failing(), RuntimeError, "no more"),
        ([[1], [2, 3], [N]], IndexError, f"list 2 has {N}, and there are {N}"),
        ([[1], [2, 3], []], ValueError, "list 2 is empty"),
        ([[1], [2, 3], 4], TypeError, "gives lists of places, and this one gave 4"),
        ([[1], [2, 3], [0.5]], TypeError, "gives lists of places"),
        ([[1], [2, 3], [True, False]], TypeError, "gives lists of places"),
    ):
        found = []
        with pytest.raises(error, match=message):
            found.extend(batch["n"].tolist() for batch in loader(ds, batch_sampler=sampler))
        assert found == [[1], [2, 3]]


def test_what_contradicts_a_sampler_is_refused(path: Path, ds: UniRecordDataset, tmp_path: Path) -> None:
    lists = [[1, 2], [3]]
    loaded = UniRecordDataset(path)
    plain = loaded.batches(5)
    next(iter(plain))
    other = UniRecordDataset(path)
    other.load_state_dict(loaded.state_dict())
    for make, message in (
        (lambda: loader(ds, 8, batch_sampler=lists), "batch_size= and batch_sampler="),
        (lambda: loader(ds, batch_sampler=lists, drop_last=True), "drop_last= and batch_sampler="),
        (lambda: loader(ds, batch_sampler=lists, receipts=tmp_path), "receipts are of positions"),
        (lambda: loader(UniRecordDataset(path, 0, 2), batch_sampler=lists), "shard 0 of 2"),
        (
            lambda: loader(UniRecordDataset(path, shuffle=True), batch_sampler=lists),
            "is shuffled with a seed",
        ),
        (lambda: loader(unirecord.weighted(ds, np.ones(N)), batch_sampler=lists), "is weighted with a seed"),
        (
            lambda: loader(unirecord.bucketed(ds, "tokens", batch_size=4), batch_sampler=lists),
            "drawn already",
        ),
        (lambda: loader(other, batch_sampler=lists), "load one into this loader"),
        (lambda: loader(ds, batch_sampler=lists).replay(0), "it alone knows"),
        (
            lambda: loader(ds, batch_sampler=lists).load_state_dict(plain.state_dict()),
            "drawn is None in the state",
        ),
        (lambda: ds.batches(5).load_state_dict(loader(ds, batch_sampler=lists).state_dict()), "drawn is"),
    ):
        with pytest.raises(ValueError, match=message):
            make()
    for sampler, message in ((7, "iterable of lists"), (iter(lists), "can be gone through once")):
        with pytest.raises(TypeError, match=message):
            loader(ds, batch_sampler=sampler)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="give a batch_size, or a batch_sampler"):
        loader(ds)  # type: ignore[call-overload]


def test_a_transform_has_its_generator(ds: UniRecordDataset) -> None:
    def noisy(sample: dict[str, Any], rng: np.random.Generator) -> int:
        return int(rng.integers(1 << 40))

    whole = [int(n) for batch in ds.batches(8, transform=noisy, random=True) for n in batch]
    ready = loader(ds, batch_sampler=[[4, 2], [3]], transform=noisy, random=True)
    assert [batch.tolist() for batch in ready] == [[whole[4], whole[2]], [whole[3]]]
