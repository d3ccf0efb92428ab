"""PyTorch's own DataLoader: which epoch a pass reads, what a state says, and samplers that do not fit."""

from __future__ import annotations

import itertools
import pickle
import sys
import threading
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    DistributedSampler,
    SequentialSampler,
    Subset,
    WeightedRandomSampler,
    random_split,
)
from torchdata.stateful_dataloader import StatefulDataLoader

import unirecord.torch
from unirecord import UniRecordDataset, Writer
from unirecord.torch import EpochSampler

ROWS = 100
WORKERS = [
    {},
    {"num_workers": 2},
    {"num_workers": 2, "persistent_workers": True},
    # One, as each imports PyTorch anew.
    {"num_workers": 1, "persistent_workers": True, "multiprocessing_context": "spawn"},
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
        found.append(ds.order.row_ids().tolist())
    return found


def values(loader: Any) -> list[int]:
    """The rows of a pass, of batches or of samples."""
    return [int(i) for batch in loader for i in (batch["i"].ravel() if batch["i"].ndim else [batch["i"]])]


def stock(ds: UniRecordDataset, batch_size: int | None = 8, **options: Any) -> DataLoader[Any]:
    return DataLoader(ds, batch_size=batch_size, sampler=EpochSampler(ds), **options)


@pytest.mark.parametrize(
    ("workers", "batch_size"),
    [*((workers, 8) for workers in WORKERS), ({}, 1), *((each, None) for each in FORKED)],
)
def test_every_pass_is_the_next_epoch(path: Path, workers: dict[str, Any], batch_size: int | None) -> None:
    ds = opened(path)
    loader = stock(ds, batch_size, **workers)
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
    loader = stock(ds, **workers)
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
    pairs = list(zip(stock(ds, 10), stock(ds, 10), strict=True))
    expected = orders(path, 2)
    assert [int(i) for one, _ in pairs for i in one["i"]] == expected[0]
    assert [int(i) for _, two in pairs for i in two["i"]] == expected[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_pass_that_is_broken_off_is_followed_by_the_next_epoch(path: Path, workers: int) -> None:
    loader = stock(opened(path), num_workers=workers)
    expected = orders(path, 3)
    for epoch in range(2):
        assert values(itertools.islice(loader, 2)) == expected[epoch][:16]
    assert values(loader) == expected[2]


@pytest.mark.parametrize("workers", [0, 2])
def test_threads_share_out_epochs_each_whole(path: Path, workers: int) -> None:
    ds, found = opened(path), []

    def work() -> None:
        loader = stock(ds, num_workers=workers)
        found.extend(values(loader) for _ in range(2))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(orders(path, 4))


@pytest.mark.parametrize(
    "ask", [len, lambda ds: list(SequentialSampler(ds)), lambda ds: DistributedSampler(ds, 2, 0)]
)
def test_who_asks_for_a_length_moves_nothing(path: Path, ask: Any) -> None:
    """Under any name, from any function."""

    class FancySampler:
        def __iter__(self) -> Any:
            return iter([ask(ds)])

    ds = opened(path)
    before = ds.state_dict()
    for _ in range(3):
        ask(ds), list(FancySampler())
    assert ds.state_dict() == before
    assert values(ds.batches(8)) == orders(path, 1)[0]


@pytest.mark.parametrize("workers", FORKED, ids=str)
def test_plain_numbers_are_read_in_the_epoch_that_is_named(path: Path, workers: dict[str, Any]) -> None:
    ds = opened(path)
    for batch_size in (8, None):
        loader = DataLoader(ds, batch_size=batch_size, **workers)
        for epoch in (0, 1, 2, 5):
            ds.set_epoch(epoch)
            assert values(loader) == orders(path, 6)[epoch]


def test_ranks_share_out_what_a_state_of_others_leaves(path: Path) -> None:
    delivered = []
    for rank in range(2):
        ds = UniRecordDataset(path, rank, 2, shuffle=True, seed=3)
        delivered += values(itertools.islice(stock(ds, 7), 3))
        state = ds.state_dict()
    for rank in range(4):
        ds = UniRecordDataset(path, rank, 4, shuffle=True, seed=3, remainder="uneven")
        state["remainder"] = "uneven"
        ds.load_state_dict(state)
        delivered += values(stock(ds, 7))
    assert sorted(delivered) == list(range(ROWS))


def test_an_epoch_and_a_position_name_a_sample(path: Path) -> None:
    ds = UniRecordDataset(path, 1, 3, shuffle=True, seed=3)
    expected = orders(path, 3)
    assert [[int(ds[epoch, i]["i"]) for i in range(ROWS)] for epoch in range(3)] == expected
    assert [int(s["i"]) for s in ds.__getitems__([(2, 5), (0, 1), (0, 99), (1, 100)])] == [
        expected[2][5],
        expected[0][1],
        expected[0][99],
        expected[1][0],
    ]
    assert ds.epoch == 0
    for wrong, error in (
        ((0, 200), IndexError),
        ((0, -1), IndexError),
        ((-1, 0), ValueError),
        ((0, 1.5), TypeError),
    ):
        with pytest.raises(error):
            ds[wrong]
    with pytest.raises(TypeError, match="epoch, position"):
        ds[(1, 2, 3)]
    with pytest.raises(TypeError, match="takes a UniRecordDataset"):
        EpochSampler([1, 2])  # type: ignore[arg-type]


# ---- states ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", FORKED, ids=str)
def test_a_state_that_nobody_here_counts_is_refused(
    path: Path, workers: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torchdata.stateful_dataloader")
    ds = opened(path)
    for sampler in (None, DistributedSampler(ds, 2, 0, shuffle=False)):
        batches = iter(DataLoader(ds, batch_size=8, sampler=sampler, **workers))
        next(batches)
        with pytest.raises(ValueError, match=r"unirecord\.torch\.loader"):
            ds.state_dict()
        assert sum(len(batch["i"]) for batch in batches) == (92 if sampler is None else 42)
        ds.set_epoch(4)
        assert (ds.state_dict()["epoch"], ds.state_dict()["position"]) == (4, 0)


def test_a_dataset_whose_sampler_is_asked_here_has_an_exact_state(path: Path) -> None:
    ds, found = opened(path), []
    for count in (3, 2):
        found += values(itertools.islice(stock(ds), count))
        state = ds.state_dict()
        ds = opened(path)
        ds.load_state_dict(state)
    loader = stock(ds)
    assert len(loader) == 8  # what is left of 13 batches
    found += values(loader)
    assert [found, values(loader), values(loader)] == orders(path, 3)


def test_where_torchdata_may_ask_a_state_of_plain_numbers_is_the_front_and_says_so(path: Path) -> None:
    ds = opened(path)
    ds.set_epoch(2)
    next(iter(DataLoader(ds, batch_size=8)))
    with pytest.warns(UserWarning, match="this state is the front of epoch 2") as warned:
        states = [ds.state_dict() for _ in range(2)]
    assert [(state["epoch"], state["position"]) for state in states] == [(2, 0)] * 2
    assert len(warned) == 1


def test_a_sampler_that_is_asked_ahead_has_none(path: Path) -> None:
    ds = opened(path)
    batches = iter(stock(ds, num_workers=2))
    next(batches)
    with pytest.raises(ValueError, match="it alone knows how far it has come"):
        ds.state_dict()


@pytest.mark.parametrize("batch_size", [8, None])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("steps", [(1, 1), (3, 0), (2, 4), (12, 1), (13, 0)], ids=str)
def test_a_stateful_loader_is_resumed_twice_and_goes_on(
    path: Path, batch_size: int | None, workers: int, steps: tuple[int, int]
) -> None:
    def made(ds: UniRecordDataset) -> Any:
        return StatefulDataLoader(ds, batch_size=batch_size, sampler=EpochSampler(ds), num_workers=workers)

    ds = opened(path)
    loader, found = made(ds), []
    ds.set_epoch(1)
    for count in steps:
        batches = iter(loader)
        found += values(itertools.islice(batches, count if batch_size else min(8 * count, ROWS - len(found))))
        state = pickle.loads(pickle.dumps(loader.state_dict()))
        loader = made(opened(path))
        loader.load_state_dict(state)
    found += values(loader)
    assert [found, values(loader), values(loader)] == orders(path, 4)[1:]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_is_resumed_between_epochs(path: Path, workers: int) -> None:
    """torchdata's state of a finished pass is that of the next."""
    loader, found = None, []
    for _ in range(3):
        ds = opened(path)
        again = StatefulDataLoader(ds, batch_size=8, sampler=EpochSampler(ds), num_workers=workers)
        if loader is not None:
            again.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
        loader = again
        found.append(values(loader))
    assert [*found, values(loader), values(loader)] == orders(path, 5)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_stateful_loader_without_a_sampler_stays_in_its_epoch(path: Path, workers: int) -> None:
    found: list[int] = []
    state = None
    for _ in range(5):
        ds = opened(path)
        ds.set_epoch(2)
        loader = StatefulDataLoader(ds, batch_size=8, num_workers=workers)
        if state is not None:
            loader.load_state_dict(state)
        batches = iter(loader)
        found += values(itertools.islice(batches, 3))
        state = pickle.loads(pickle.dumps(loader.state_dict()))
    assert found == orders(path, 3)[2]


@pytest.mark.parametrize("workers", FORKED, ids=str)
def test_a_loaded_position_is_not_ignored(path: Path, workers: dict[str, Any]) -> None:
    other = opened(path)
    next(iter(other.batches(8)))
    ds = opened(path)
    ds.load_state_dict(other.state_dict())
    for sampler in (None, DistributedSampler(other, 2, 0, shuffle=False)):
        with pytest.raises(ValueError, match=r"a DataLoader begins at its front.*EpochSampler"):
            values(DataLoader(ds, batch_size=8, sampler=sampler, **workers))
    assert len(values(ds.batches(8))) == ROWS - 8


# ---- samplers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_size", [8, None])
def test_a_second_pass_in_the_same_order_is_named_once(path: Path, batch_size: int | None) -> None:
    ds = opened(path)
    loader = DataLoader(ds, batch_size=batch_size)
    first = values(loader)
    with pytest.warns(UserWarning, match=r"sampler=unirecord\.torch\.EpochSampler\(ds\)") as warned:
        assert [values(loader) for _ in range(2)] == [first, first]
    assert len(warned) == 1


def test_a_second_pass_is_named_in_a_worker(path: Path) -> None:
    """Also where each pass has processes of its own."""
    for options in ({"persistent_workers": True}, {}):
        sampler = DistributedSampler(opened(path), 1, 0, shuffle=False)
        ds = opened(path, transform=caught)
        loader = DataLoader(ds, batch_size=8, sampler=sampler, num_workers=1, worker_init_fn=hear, **options)
        first, second = (list(loader) for _ in range(2))
        assert not any(text for batch in first for text in batch["warned"])
        assert "EpochSampler" in second[-1]["warned"][-1]
        ds.set_epoch(1)
        third = list(loader)
        assert [batch["i"].tolist() for batch in third] != [batch["i"].tolist() for batch in second]


def test_a_pass_that_another_tears_is_named(path: Path) -> None:
    ds = opened(path)
    batches = iter(DataLoader(ds, batch_size=8))
    next(batches)
    ds.set_epoch(3)
    with pytest.warns(UserWarning, match="began in epoch 0 .* and goes on in epoch 3"):
        next(batches)


def test_an_epoch_that_is_undone_unread_is_named(path: Path) -> None:
    """As where a loader counts epochs by itself, and sets its own."""
    ds = opened(path)
    ds.set_epoch(5)
    with pytest.warns(UserWarning, match=r"set_epoch\(0\) undoes set_epoch\(5\)"):
        EpochSampler(ds).set_epoch(0)
    ds.set_epoch(3)
    next(iter(ds.batches(8)))
    state, other = ds.state_dict(), opened(path)
    other.load_state_dict(state)
    with pytest.warns(UserWarning, match="a state that has been loaded, at position 8 of epoch 3"):
        other.set_epoch(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in (0, 1, 2, 7, 4):
            ds.set_epoch(epoch)
            values(stock(ds, num_workers=epoch % 2))
        ds.load_state_dict(state)
        ds.set_epoch(4)  # the rest of the epoch is passed over on purpose


def test_a_subset_of_a_shuffled_dataset_is_named(path: Path) -> None:
    for make in (
        lambda ds: Subset(ds, range(80)),
        lambda ds: random_split(ds, [0.8, 0.2], torch.Generator().manual_seed(0))[0],
    ):
        part = make(opened(path))
        with pytest.warns(UserWarning, match=r"Subset .*ds\.split\(\[0\.8, 0\.2\]\)"):
            values(DataLoader(part, batch_size=8))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            values(DataLoader(make(opened(path, shuffle=False)), batch_size=8))
            values(DataLoader(opened(path).split([0.8, 0.2])[0], batch_size=8))


_heard: list[str] = []


def caught(sample: dict[str, Any]) -> dict[str, Any]:
    """Hands out what this process has been warned of."""
    return {"i": sample["i"], "warned": " ".join(_heard)}


def hear(worker: int) -> None:
    warnings.showwarning = lambda message, *rest: _heard.append(str(message))
    warnings.simplefilter("always")


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
            values(stock(ds))


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


READS: dict[str, Any] = {
    "loader": lambda ds: unirecord.torch.loader(ds, 8),
    "batches": lambda ds: ds.batches(8),
    "samples": lambda ds: ds,
    "stock": lambda ds: DataLoader(ds, 8),
    "sampler": stock,
    "distributed": lambda ds: DataLoader(ds, 8, sampler=DistributedSampler(ds, 2, 1, shuffle=False)),
}


@pytest.mark.parametrize(
    ("read", "environment", "shard", "warned"),
    [
        ("loader", {"RANK": "1", "WORLD_SIZE": "2"}, (), 1),
        ("batches", {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"}, (), 1),
        ("samples", {"RANK": "1", "WORLD_SIZE": "2"}, (), 1),
        ("stock", {"RANK": "1", "WORLD_SIZE": "2"}, (), 1),
        ("sampler", {"RANK": "1", "WORLD_SIZE": "2"}, (), 1),
        ("distributed", {"RANK": "1", "WORLD_SIZE": "2"}, (), 0),
        ("loader", {"RANK": "1", "WORLD_SIZE": "2"}, (0, 1), 0),
        ("loader", {"RANK": "1", "WORLD_SIZE": "2"}, (1, 2), 0),
        ("loader", {"RANK": "0", "WORLD_SIZE": "1"}, (), 0),
    ],
)
def test_a_rank_that_reads_everything_unasked_is_told_once(
    path: Path,
    read: str,
    environment: dict[str, str],
    shard: tuple[int, ...],
    warned: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("unirecord.dataset.cursor._told_of_ranks", False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        ds = UniRecordDataset(path, *shard, shuffle=True)
        for epoch in range(2):
            ds.set_epoch(epoch)
            list(READS[read](ds))
    assert sum("UniRecordDataset.distributed(path)" in str(one.message) for one in told) == warned


def test_times_of_samples_become_tensors_of_the_integers_that_are_stored(tmp_path: Path) -> None:
    schema: dict[str, Any] = {
        "t": {"type": "int64", "logical": {"type": "timestamp", "unit": "ms"}},
        "d": {"type": "int32", "logical": "date"},
        "s": {"type": "int64", "logical": {"type": "duration", "unit": "s"}},
    }
    numbers = {"t": np.arange(20) * 1000, "d": np.arange(20, dtype=np.int32), "s": -np.arange(20)}
    for half in (0, 1):
        with Writer(tmp_path / f"{half}.urec", schema) as writer:
            writer.write_batch({name: values[10 * half : 10 * half + 10] for name, values in numbers.items()})
    sets = [UniRecordDataset(tmp_path / f"{half}.urec") for half in (0, 1)]
    assert {name: str(value.dtype) for name, value in sets[0][3].items()} == {
        "t": "datetime64[ms]", "d": "datetime64[D]", "s": "timedelta64[s]",
    }  # fmt: skip
    loaders: list[Any] = [
        DataLoader(sets[0], 5),
        DataLoader(sets[0], 5, num_workers=1),
        DataLoader(ConcatDataset(sets), 5),
        unirecord.torch.loader(sets[0], 5),
        unirecord.torch.loader(sets[0], 5, transform=lambda sample: sample),
    ]
    for loader in loaders:
        batches = list(loader)
        for name, values in numbers.items():
            found = torch.cat([batch[name] for batch in batches])
            assert found.tolist() == values[: len(found)].tolist()


def test_times_are_masked_where_they_are_null_and_written_so(tmp_path: Path) -> None:
    times = np.ma.MaskedArray(
        np.array(["2025-06-01", "1970-01-01", "2025-06-03"], "M8[s]"), [False, True, False]
    )
    schema: Any = {"t": {"type": "int64?", "logical": {"type": "timestamp", "unit": "s"}}}
    with Writer(tmp_path / "x.urec", schema) as writer:
        writer.write_batch({"t": times})
        writer.write({"t": None})
        writer.write({"t": np.iinfo(np.int64).min})
    ds = UniRecordDataset(tmp_path / "x.urec")
    (batch,) = ds.batches(5)
    assert batch["t"].dtype == "M8[s]"
    assert np.ma.getmaskarray(batch["t"]).tolist() == [False, True, False, True, False]
    assert batch["t"][0] == np.datetime64("2025-06-01", "s")
    assert np.isnat(batch["t"].data[4])
    assert ds[1] == {"t": None}
    scalars = ds.scalars(["t"])["t"]
    assert scalars.dtype == "M8[s]"
    assert np.ma.getmaskarray(scalars).tolist() == [False, True, False, True, False]


def test_times_are_stored_integers_in_samples_and_in_batches(tmp_path: Path) -> None:
    schema = {
        "ts": "timestamp[us, UTC]", "day": "date", "took": "duration[ms]?", "at": "time[ms]", "price": "decimal[9, 2]",
        "x": "float32", "name": "string", "flag": "bool",
    }  # fmt: skip
    with Writer(tmp_path / "t.urec", schema) as writer:
        for i in range(1, 7):
            numbers = dict.fromkeys(("ts", "day", "at", "price"), i)
            took = None if i == 6 else i
            writer.write({**numbers, "took": took, "x": i, "name": f"n{i}", "flag": i == 1})
    ds = UniRecordDataset(tmp_path / "t.urec")
    stored = {
        "ts": torch.int64,
        "day": torch.int32,
        "took": torch.int64,
        "at": torch.int32,
        "price": torch.int64,
    }
    for options in WORKERS[:2]:
        loader = DataLoader(ds, batch_size=None, collate_fn=unirecord.torch.to_tensors, **options)
        found = list(loader)
        for name, dtype in stored.items():
            assert all(sample[name].dtype == dtype and sample[name].ndim == 0 for sample in found[:5])
            assert [int(sample[name]) for sample in found[:5]] == [1, 2, 3, 4, 5]
        assert (found[5]["took"], found[0]["name"], found[0]["x"].dtype) == (None, "n1", torch.float32)
        assert [bool(sample["flag"]) for sample in found] == [True, *[False] * 5]
        (batch, *_) = DataLoader(ds.select(range(5)), batch_size=5, **options)
        assert {name: (batch[name].dtype, batch[name].tolist()) for name in stored} == {
            name: (dtype, [1, 2, 3, 4, 5]) for name, dtype in stored.items()
        }
