"""PyTorch's own DataLoader: which epoch a pass reads, what a state says, and samplers that do not fit."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, Subset, WeightedRandomSampler

import unirecord.torch
from unirecord import UniRecordDataset, Writer

ROWS = 100
WORKERS = [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "persistent_workers": True},
    {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": "spawn"},
]
FORKED = WORKERS[:3]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stock") / "a.urec"
    with Writer(path, {"i": "int64"}) as writer:
        writer.write_batch({"i": list(range(ROWS))})
    return path


def opened(path: Path, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, **{"shuffle": True, "seed": 3, **options})


def orders(path: Path, count: int) -> list[list[int]]:
    ds = opened(path)
    found = []
    for epoch in range(count):
        ds.set_epoch(epoch)
        found.append(ds.row_ids().tolist())
    return found


def values(loader: Any) -> list[int]:
    return [int(i) for batch in loader for i in batch["i"]]


@pytest.mark.parametrize("workers", WORKERS, ids=str)
def test_every_pass_is_the_next_epoch(path: Path, workers: dict[str, Any]) -> None:
    ds = opened(path)
    loader = DataLoader(ds, batch_size=8, **workers)
    expected = orders(path, 6)
    assert [values(loader) for _ in range(3)] == expected[:3]
    ds.set_epoch(5)
    assert values(loader) == expected[5]
    ds.set_epoch(1)
    assert [values(loader) for _ in range(2)] == expected[1:3]


@pytest.mark.parametrize("workers", WORKERS, ids=str)
def test_a_pass_stays_in_its_epoch_whatever_becomes_of_the_dataset(
    path: Path, workers: dict[str, Any]
) -> None:
    ds = opened(path)
    loader = DataLoader(ds, batch_size=8, **workers)
    expected = orders(path, 12)
    for epoch in range(2):
        seen: list[int] = []
        for number, batch in enumerate(loader):
            seen += batch["i"].tolist()
            if number == 2:
                for _ in range(2):
                    values(unirecord.torch.loader(ds, 50))
                ds.set_epoch(7)
        assert seen == expected[7 * epoch]


def test_two_loaders_over_one_dataset_each_stay_in_their_epoch(path: Path) -> None:
    ds = opened(path)
    pairs = list(zip(DataLoader(ds, batch_size=10), DataLoader(ds, batch_size=10), strict=True))
    expected = orders(path, 2)
    assert [int(i) for one, _ in pairs for i in one["i"]] == expected[0]
    assert [int(i) for _, two in pairs for i in two["i"]] == expected[1]


def test_passes_over_a_subset_advance_as_well(path: Path) -> None:
    loader = DataLoader(Subset(opened(path), range(50)), batch_size=8)
    assert [values(loader) for _ in range(2)] == [order[:50] for order in orders(path, 2)]


# ---- states ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", FORKED, ids=str)
def test_a_state_that_nobody_here_counts_is_refused(path: Path, workers: dict[str, Any]) -> None:
    ds = opened(path)
    for sampler in (None, DistributedSampler(ds, 2, 0, shuffle=False)):
        batches = iter(DataLoader(ds, batch_size=8, sampler=sampler, **workers))
        next(batches)
        with pytest.raises(ValueError, match=r"unirecord\.torch\.loader"):
            ds.state_dict()
        assert sum(len(batch["i"]) for batch in batches) == (92 if sampler is None else 42)
        ds.set_epoch(4)
        assert (ds.state_dict()["epoch"], ds.state_dict()["position"]) == (4, 0)


@pytest.mark.parametrize("workers", FORKED, ids=str)
def test_a_loaded_position_is_not_ignored(path: Path, workers: dict[str, Any]) -> None:
    other = opened(path)
    next(iter(other.batches(8)))
    ds = opened(path)
    ds.load_state_dict(other.state_dict())
    for sampler in (None, DistributedSampler(other, 2, 0, shuffle=False)):
        with pytest.raises(ValueError, match="a DataLoader begins at its front"):
            values(DataLoader(ds, batch_size=8, sampler=sampler, **workers))
    assert len(values(ds.batches(8))) == ROWS - 8


# ---- samplers ----------------------------------------------------------------------------------------------


def test_a_second_pass_in_the_same_order_is_named(path: Path) -> None:
    """Where the sampler is a foreign one, a worker that stays cannot know whether another epoch is meant."""
    sampler = DistributedSampler(opened(path), 1, 0, shuffle=False)
    ds = opened(path, transform=caught)
    loader = DataLoader(ds, batch_size=8, sampler=sampler, num_workers=1, persistent_workers=True)
    first, second = (list(loader) for _ in range(2))
    assert not any(text for batch in first for text in batch["warned"])
    assert "call ds.set_epoch(epoch)" in second[-1]["warned"][-1]
    ds.set_epoch(1)
    third = list(loader)
    assert [batch["i"].tolist() for batch in third] != [batch["i"].tolist() for batch in second]


_heard: list[str] = []


def caught(sample: dict[str, Any]) -> dict[str, Any]:
    """Hands out what this process has been warned of."""
    if not hasattr(warnings, "_heard_here"):
        warnings._heard_here = True  # type: ignore[attr-defined]
        warnings.showwarning = lambda message, *rest: _heard.append(str(message))
        warnings.simplefilter("always")
    return {"i": sample["i"], "warned": " ".join(_heard)}


def test_a_shuffle_over_the_shuffle_is_named(path: Path) -> None:
    with pytest.warns(UserWarning, match=r"DataLoader\(shuffle=True\).*shuffle=False"):
        DataLoader(opened(path), batch_size=8, shuffle=True)
    with pytest.warns(UserWarning, match="order"):
        RandomSampler(opened(path))


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_weighted_sampler_over_a_shuffled_dataset_is_named(path: Path, batch_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    sampler = WeightedRandomSampler(torch.ones(ROWS), 60, generator=generator)
    with pytest.warns(UserWarning, match=r'scalars\(order="samples"\)') as warned:
        values(DataLoader(opened(path), batch_size=batch_size, sampler=sampler))
    assert len(warned) == 1


@pytest.mark.parametrize("ranks", [1, 3, 7])
@pytest.mark.parametrize("shuffle", [False, True])
def test_samplers_that_fit_are_met_in_silence(path: Path, ranks: int, shuffle: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = opened(path, shuffle=shuffle)
        for rank in range(ranks):
            ds.set_epoch(rank)
            values(DataLoader(ds, batch_size=8, sampler=DistributedSampler(ds, ranks, rank, shuffle=False)))
        plain = opened(path, shuffle=False)
        values(DataLoader(plain, batch_size=8, shuffle=True))
        for _ in range(3):
            values(DataLoader(plain, batch_size=8))
            values(DataLoader(ds, batch_size=8))


def test_weights_in_the_order_of_samples_are_those_of_the_samples(tmp_path: Path) -> None:
    path = tmp_path / "classes.urec"
    with Writer(path, {"i": "int64", "label": "int32"}) as writer:
        writer.write_batch({"i": list(range(1000)), "label": [int(i >= 950) for i in range(1000)]})
    for where in (None, "i >= 100"):
        ds = UniRecordDataset(path, shuffle=True, seed=1, where=where)
        labels = ds.scalars(["label"], order="samples")["label"]
        assert labels.tolist() == ds["label"].tolist() == [int(sample["label"]) for sample in ds]
        ds.set_epoch(0)
        weights = 1 / torch.bincount(torch.as_tensor(labels.astype("int64")))[labels.astype("int64")]
        sampler = WeightedRandomSampler(weights, 1000, generator=torch.Generator().manual_seed(0))
        with pytest.warns(UserWarning, match="order"):
            drawn = Counter(int(i) for batch in DataLoader(ds, 50, sampler=sampler) for i in batch["label"])
        assert 430 < drawn[1] < 570


# ---- values ------------------------------------------------------------------------------------------------


def test_bfloat16_is_bfloat16_in_every_loader(tmp_path: Path) -> None:
    import numpy as np

    path = tmp_path / "half.urec"
    with Writer(path, {"h": {"type": "bfloat16", "shape": [2]}}) as writer:
        for _ in range(6):
            writer.write({"h": np.array([0x3F80, 0x4000], np.uint16)})
    ds = UniRecordDataset(path)
    subset = Subset(ds, [3, 1, 2])
    loaders = [unirecord.torch.loader(ds, 3), DataLoader(ds, 3), DataLoader(ds, 3, num_workers=1)]
    for loader in [*loaders, DataLoader(subset, 2), DataLoader(ds, 3, sampler=[5, 0, 0])]:
        for batch in loader:
            assert batch["h"].dtype == torch.bfloat16
            assert batch["h"].tolist() == [[1.0, 2.0]] * len(batch["h"])


def as_it_is(sample: Any) -> Any:
    return sample


def test_after_a_transform_and_in_a_collate_function_both_loaders_show_the_same(tmp_path: Path) -> None:
    """numpy has no bfloat16: a sample shows its bits."""
    import numpy as np

    path = tmp_path / "half.urec"
    with Writer(path, {"h": {"type": "bfloat16", "shape": [2]}}) as writer:
        for _ in range(4):
            writer.write({"h": np.array([0x3F80, 0x4000], np.uint16)})
    plain, changed = UniRecordDataset(path), UniRecordDataset(path, transform=as_it_is)
    for ours, stock in (
        (unirecord.torch.loader(changed, 4), DataLoader(changed, 4)),
        (unirecord.torch.loader(plain, 4, transform=as_it_is), DataLoader(changed, 4)),
        (
            unirecord.torch.loader(plain, 4, collate_fn=torch.utils.data.default_collate),
            DataLoader(
                plain, 4, collate_fn=lambda samples: torch.utils.data.default_collate([*map(dict, samples)])
            ),
        ),
    ):
        (mine,), (theirs,) = list(ours), list(stock)
        assert mine["h"].dtype == theirs["h"].dtype == torch.uint16
        assert mine["h"].tolist() == theirs["h"].tolist() == [[0x3F80, 0x4000]] * 4
