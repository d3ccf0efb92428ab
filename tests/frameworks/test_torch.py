"""UniRecord in PyTorch: stock DataLoader under every start method, samplers, resume, unirecord.torch.loader."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from process_counts import POOLS, assert_nothing_more, held
from torch.utils.data import ConcatDataset, DataLoader, DistributedSampler, Subset

import unirecord
from unirecord import UniRecordDataset, Writer

N = 200


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("torch") / "set"
    schema = {
        "x": {"type": "float32", "shape": [3, 2]},
        "label": "int64",
        "name": "string",
        "half": {"type": "bfloat16", "shape": [2]},
        "maybe": "float32?",
        "tokens": {"type": "int32", "shape": [-1]},
    }
    with Writer(path, schema, max_part_bytes=8_000) as writer:
        for i in range(N):
            writer.write(
                {
                    "x": np.full((3, 2), i, np.float32),
                    "label": i,
                    "name": f"n{i}",
                    "half": torch.tensor([i, -i], dtype=torch.bfloat16).view(torch.uint16).numpy(),
                    "maybe": None if i % 4 == 0 else i,
                    "tokens": np.arange(i % 5, dtype=np.int32),
                }
            )
    return path


def labels(loader: object) -> list[int]:
    return [int(i) for batch in loader for i in batch["label"]]  # type: ignore[attr-defined]


COLLATED = ["x", "label", "name"]


# ---- the stock DataLoader -------------------------------------------------------------------------------


def test_default_collate_gives_tensors_without_warnings(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ds = UniRecordDataset(path, columns=COLLATED)
        next(iter(DataLoader(ConcatDataset([ds]), batch_size=4)))  # sample by sample
        batch = next(iter(DataLoader(ds, batch_size=4)))
    assert batch["x"].shape == (4, 3, 2)
    assert batch["x"].dtype == torch.float32
    assert batch["label"].tolist() == [0, 1, 2, 3]
    assert batch["label"].dtype == torch.int64
    assert batch["name"] == ["n0", "n1", "n2", "n3"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_every_start_method(path: Path, method: str) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=3, columns=COLLATED)
    loader = DataLoader(
        ds, batch_size=16, num_workers=2, multiprocessing_context=method, persistent_workers=True
    )
    epochs = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        expected = ds.order.row_ids().tolist()
        assert labels(loader) == expected, "set_epoch in the parent must reach persistent workers"
        epochs.append(expected)
    assert len({tuple(epoch) for epoch in epochs}) == 3


def test_torch_shuffles_subsets_and_concatenations(path: Path) -> None:
    ds = UniRecordDataset(path, columns=COLLATED)
    assert sorted(labels(DataLoader(ds, batch_size=7, shuffle=True))) == list(range(N))
    assert labels(DataLoader(Subset(ds, [5, 3, 199]), batch_size=2)) == [5, 3, 199]
    assert len(labels(DataLoader(ConcatDataset([ds, ds]), batch_size=32, num_workers=2))) == 2 * N


def test_pin_memory_is_accepted(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that there is nothing to pin for without an accelerator
        assert (
            len(labels(DataLoader(UniRecordDataset(path, columns=COLLATED), batch_size=50, pin_memory=True)))
            == N
        )


def test_an_injected_distributed_sampler_shares_the_rows_out(path: Path) -> None:
    ds = UniRecordDataset(path, columns=COLLATED)
    seen = []
    for rank in range(2):
        sampler = DistributedSampler(ds, num_replicas=2, rank=rank, shuffle=True)
        seen += labels(DataLoader(ds, batch_size=8, sampler=sampler))
    assert sorted(seen) == list(range(N))


def test_sharding_twice_is_warned_of(path: Path) -> None:
    def read(ds: UniRecordDataset, ranks: int) -> None:
        sampler = DistributedSampler(ds, num_replicas=ranks, rank=0, shuffle=False)
        next(iter(DataLoader(ds, batch_size=8, sampler=sampler)))

    with pytest.warns(UserWarning, match=r"shard.*twice"):
        read(UniRecordDataset(path, 0, 2, columns=COLLATED), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read(UniRecordDataset(path, 0, 2, columns=COLLATED), 1)
        read(UniRecordDataset(path, columns=COLLATED), 2)


def test_stateful_dataloader_resumes_exactly(path: Path) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def make() -> StatefulDataLoader:
        return StatefulDataLoader(
            UniRecordDataset(path, shuffle=True, columns=COLLATED), batch_size=8, num_workers=2
        )

    loader = make()
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
    state = loader.state_dict()
    rest = labels(iterator)
    again = make()
    again.load_state_dict(state)
    assert labels(again) == rest
    assert len(rest) == N - 40


# ---- unirecord.torch.loader -----------------------------------------------------------------------------


def test_loader_gives_tensors_that_share_the_memory_read_into(path: Path) -> None:
    from unirecord.frameworks.torch import loader

    batches = list(loader(UniRecordDataset(path), 64))
    assert labels(batches) == list(range(N))
    first = batches[0]
    assert first["x"].shape == (64, 3, 2)
    assert torch.equal(first["x"][:, 0, 0], torch.arange(64, dtype=torch.float32))
    assert first["half"].dtype == torch.bfloat16
    assert first["half"][5].tolist() == [5.0, -5.0]
    assert first["maybe_valid"].tolist()[:5] == [False, True, True, True, False]
    assert torch.isnan(first["maybe"][0])
    assert first["maybe"][1] == 1.0
    assert first["name"][:2] == ["n0", "n1"]
    assert first["tokens"].pad().shape == (64, 4)
    first["x"] += 1  # writable


def test_loader_runs_transforms_and_collates_like_torch(path: Path) -> None:
    from unirecord.frameworks.torch import loader

    def transform(sample: dict[str, object]) -> tuple[torch.Tensor, int]:
        return torch.from_numpy(sample["x"]) * 2, int(sample["label"])  # type: ignore[arg-type, call-overload, operator]

    ds = UniRecordDataset(path, shuffle=True, columns=COLLATED)
    ids = ds.order.row_ids().tolist()
    made = loader(ds, 32, transform=transform, drop_last=True, num_workers=3)
    assert len(made) == 6
    got = list(made)
    assert [int(i) for _, label in got for i in label] == ids[:192]
    assert torch.equal(got[0][0][:, 0, 0], torch.tensor(ids[:32]) * 2.0)
    counted = loader(ds, 50, collate_fn=len)
    assert list(counted) == [50, 50, 50, 50]


def test_loader_epochs_and_state(path: Path) -> None:
    from unirecord.frameworks.torch import loader

    made = loader(UniRecordDataset(path, shuffle=True, columns=["label"]), 16)
    first, second = labels(made), labels(made)
    assert sorted(first) == sorted(second)
    assert first != second
    made.set_epoch(0)
    iterator = iter(made)
    head = [int(i) for _ in range(3) for i in next(iterator)["label"]]
    state = made.state_dict()
    assert head == first[:48]
    again = loader(UniRecordDataset(path, shuffle=True, columns=["label"]), 16)
    again.load_state_dict(state)
    assert labels(again) == first[48:]


def test_loader_moves_batches_to_a_device(path: Path) -> None:
    batches = list(unirecord.torch.loader(UniRecordDataset(path), 100, device="cpu"))
    assert batches[0]["x"].device.type == "cpu"
    meta = next(iter(unirecord.torch.loader(UniRecordDataset(path, columns=["x"]), 10, device="meta")))
    assert meta["x"].device.type == "meta"


def test_loader_leaves_no_threads(path: Path) -> None:
    def left_early() -> None:
        for _batch in unirecord.torch.loader(UniRecordDataset(path), 8, transform=lambda s: s["label"]):
            break

    # PyTorch's own pools come with the first pass
    left_early()
    before = held()
    left_early()
    assert_nothing_more(before, POOLS)


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_dataloader_resumes_in_a_later_epoch(path: Path, workers: int) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def make() -> tuple[UniRecordDataset, StatefulDataLoader]:
        ds = UniRecordDataset(path, shuffle=True, seed=4, columns=COLLATED)
        return ds, StatefulDataLoader(ds, batch_size=8, num_workers=workers)

    ds, loader = make()
    whole = []
    for epoch in range(3):
        ds.set_epoch(epoch)
        whole.append(labels(loader))
        assert whole[-1] == ds.order.row_ids().tolist()
    ds.set_epoch(1)
    iterator = iter(loader)
    head = [int(i) for _ in range(7) for i in next(iterator)["label"]]
    state = loader.state_dict()
    del iterator

    ds, again = make()
    ds.set_epoch(1)
    again.load_state_dict(state)
    assert head + labels(again) == whole[1]
    ds.set_epoch(2)
    assert labels(again) == whole[2]


def test_a_loader_made_anew_with_a_sampler_as_lightning_does(path: Path) -> None:
    """The trainer takes a user's DataLoader apart and makes it again, its sampler replaced."""
    given = DataLoader(UniRecordDataset(path, columns=COLLATED), batch_size=8, num_workers=1, shuffle=True)
    seen = []
    for rank in range(3):
        sampler = DistributedSampler(given.dataset, num_replicas=3, rank=rank, shuffle=True, drop_last=True)
        made = DataLoader(
            given.dataset,
            batch_size=given.batch_size,
            sampler=sampler,
            num_workers=given.num_workers,
            collate_fn=given.collate_fn,
            worker_init_fn=given.worker_init_fn,
        )
        epochs = []
        for epoch in range(2):
            sampler.set_epoch(epoch)
            epochs.append(labels(made))
        assert epochs[0] != epochs[1]
        seen += epochs[0]
    assert len(set(seen)) == len(seen) == N // 3 * 3


class Stream(torch.utils.data.IterableDataset):  # type: ignore[type-arg]
    """A user's stream over ours: each worker process takes its share of the rank's."""

    def __init__(self, path: Path, rank: int, ranks: int) -> None:
        self.path, self.rank, self.ranks = path, rank, ranks

    def __iter__(self) -> object:  # type: ignore[override]
        worker = torch.utils.data.get_worker_info()
        number, count = (worker.id, worker.num_workers) if worker else (0, 1)
        return iter(
            UniRecordDataset(
                self.path,
                self.rank * count + number,
                self.ranks * count,
                columns=COLLATED,
                shuffle=True,
                remainder="uneven",
            )
        )


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_streams_in_worker_processes_share_the_rows_out(path: Path, workers: int) -> None:
    seen = [
        i
        for rank in range(2)
        for i in labels(DataLoader(Stream(path, rank, 2), batch_size=7, num_workers=workers))
    ]
    assert sorted(seen) == list(range(N))


def test_random_samplers_and_workers_that_stay(path: Path) -> None:
    ds = UniRecordDataset(path, columns=COLLATED)
    loader = DataLoader(
        ds, batch_size=16, shuffle=True, num_workers=2, persistent_workers=True, prefetch_factor=4
    )
    first, second = labels(loader), labels(loader)
    assert sorted(first) == sorted(second) == list(range(N))
    assert first != second
    weights = torch.utils.data.WeightedRandomSampler([1.0] * N, 50)
    assert len(labels(DataLoader(ds, batch_size=16, sampler=weights))) == 50
    single = next(iter(DataLoader(ds, batch_size=None)))
    assert single["x"].shape == (3, 2)
