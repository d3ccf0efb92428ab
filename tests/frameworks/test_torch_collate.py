"""What default_collate makes of our samples is what it would make of plain dicts, whatever was done to them before."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._pytree import tree_map
from torch.utils.data import DataLoader, Dataset, Subset, default_collate

from unirecord import UniRecordDataset, Writer

N = 40
SCALARS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"]
FLOATS = ["float16", "float32", "float64"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("collate") / "set.urec"
    schema: dict[str, Any] = {f"s_{name}": name for name in [*SCALARS, *FLOATS]}
    schema |= {f"a_{name}": {"type": name, "shape": [2, 3]} for name in ["bool", "uint8", "int64", "float32"]}
    schema |= {
        "name": "string",
        "raw": "bytes",
        "text": "text",
        "maybe": "int32?",
        "big": {"type": "uint8", "shape": [100_000]},
    }
    rng = np.random.default_rng(1)
    with Writer(path, schema) as writer:
        for i in range(N):
            record = {
                f"s_{name}": np.dtype(name).type(i % 2 if name == "bool" else i)
                for name in [*SCALARS, *FLOATS]
            }
            record |= {
                f"a_{name}": rng.integers(0, 2, (2, 3)).astype(name)
                for name in ["bool", "uint8", "int64", "float32"]
            }
            record |= {"name": f"n{i}", "raw": b"r", "text": "t", "maybe": i}
            writer.write(record | {"big": np.full(100_000, i, np.uint8)})
    return path


def plain(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same values in dicts and arrays that nothing is known of."""
    return [
        {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in sample.items()} for sample in samples
    ]


def assert_same(found: Any, expected: Any) -> None:
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert type(found[name]) is type(value), name
        if isinstance(value, torch.Tensor):
            assert found[name].dtype == value.dtype, name
            assert torch.equal(found[name], value), name
            assert found[name].is_contiguous()
        else:
            assert found[name] == value


def test_every_type_is_collated_as_from_plain_dicts(path: Path) -> None:
    samples = UniRecordDataset(path, shuffle=True).__getitems__(list(range(20)))
    expected = default_collate(plain(samples))
    found = default_collate(samples)
    assert type(found) is dict
    assert_same(found, expected)


def test_arrays_of_a_whole_read_are_not_copied(path: Path) -> None:
    samples = UniRecordDataset(path, columns=["big"]).__getitems__([3, 1, 2])
    batch = default_collate(samples)
    assert np.shares_memory(batch["big"].numpy(), samples[1]["big"])
    batch["big"] += 1  # and can be written


def add_key(samples: list[Any]) -> list[Any]:
    for i, sample in enumerate(samples):
        sample["new"] = i
    return samples


def drop_key(samples: list[Any]) -> list[Any]:
    for sample in samples:
        del sample["name"]
    return samples


def swap_key(samples: list[Any]) -> list[Any]:
    for sample in samples:
        sample["other"] = sample.pop("name")
    return samples


def replace_one(samples: list[Any]) -> list[Any]:
    samples[7]["a_float32"] = np.full((2, 3), 5, np.float32)
    return samples


def edit_in_place(samples: list[Any]) -> list[Any]:
    samples[7]["a_float32"] *= 2
    return samples


def replace_scalar(samples: list[Any]) -> list[Any]:
    samples[0]["s_int64"] = np.int64(-1)
    return samples


CHANGES: list[Callable[[list[Any]], list[Any]]] = [
    add_key,
    drop_key,
    swap_key,
    replace_one,
    edit_in_place,
    replace_scalar,
    lambda samples: samples[::-1],
    lambda samples: samples[1:],
    lambda samples: samples[:-1],
    lambda samples: samples[:1],
    lambda samples: [samples[0], samples[2], samples[1], *samples[3:]],
    lambda samples: [*samples[:5], samples[4], *samples[6:]],
    lambda samples: [*samples[:5], dict(samples[5]), *samples[6:]],
    lambda samples: samples + samples,
    lambda samples: [dict(sample) for sample in samples],
    lambda samples: [copy.deepcopy(sample) for sample in samples],
    lambda samples: tuple(samples),  # type: ignore[return-value, arg-type]
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_what_was_done_to_samples_shows_in_the_batch(path: Path, number: int) -> None:
    samples = CHANGES[number](UniRecordDataset(path).__getitems__(list(range(12))))
    assert_same(default_collate(samples), default_collate(plain(list(samples))))


def test_what_torch_cannot_collate_is_named_with_a_way_out(tmp_path: Path) -> None:
    schema = {"maybe": "int32?", "tokens": {"type": "int32", "shape": [-1]}, "meta": "object"}
    with Writer(tmp_path / "n.urec", schema) as writer:
        for i in (1, None, 3):
            writer.write({"maybe": i, "tokens": np.arange(i or 0, dtype=np.int32), "meta": i})
    for name in schema:
        ds = UniRecordDataset(tmp_path / "n.urec", columns=[name])
        with pytest.raises(TypeError, match=f"column '{name}'.*collate_fn"):
            default_collate(ds.__getitems__([0, 1]))
        with pytest.raises(TypeError, match=f"column '{name}'.*collate_fn"):
            next(iter(DataLoader(ds, batch_size=2, num_workers=1)))
    whole = default_collate(UniRecordDataset(tmp_path / "n.urec").__getitems__([0, 0]))
    assert whole["maybe"].tolist() == [1, 1]
    assert torch.stack(list(whole["tokens"])).tolist() == [[0], [0]]


def test_uint64_which_torch_cannot_collate_works(tmp_path: Path) -> None:
    with Writer(tmp_path / "u.urec", {"x": "uint64"}) as writer:
        writer.write({"x": 2**64 - 1})
    assert (
        default_collate(UniRecordDataset(tmp_path / "u.urec").__getitems__([0]))["x"][0].item() == 2**64 - 1
    )


def test_samples_are_dicts_to_everyone_else(path: Path) -> None:
    sample = UniRecordDataset(path, columns=["s_int64", "name"]).__getitems__([4, 5])[0]
    assert sample == {"s_int64": 4, "name": "n4"}
    assert isinstance(sample, dict)
    for copied in (copy.copy(sample), copy.deepcopy(sample), pickle.loads(pickle.dumps(sample)), {**sample}):
        assert type(copied) is dict
        assert copied == sample
    assert tree_map(lambda value: str(value), sample) == {"s_int64": "4", "name": "n4"}
    assert repr(sample) == repr(dict(sample))
    assert [type(sample) for sample in UniRecordDataset(path)[3:5]] == [dict, dict]


class Changing(Dataset[Any]):
    """A user's dataset over ours."""

    def __init__(self, ds: UniRecordDataset) -> None:
        self.ds = ds

    def __len__(self) -> int:
        return len(self.ds)

    def __getitem__(self, index: int) -> Any:
        sample = self.ds[index]
        sample["a_float32"] = sample["a_float32"] * 3
        return sample


def keep_samples(samples: list[Any]) -> list[Any]:
    return samples


def doubled(samples: list[Any]) -> Any:
    batch = default_collate(samples)
    batch["s_int64"] = batch["s_int64"] * 2
    batch["extra"] = torch.zeros(3, requires_grad=False)[::2]
    batch["none"] = torch.zeros(0)
    batch["number"] = torch.tensor(3.5)
    return batch


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_from_workers_are_those_of_the_main_process(path: Path, workers: int) -> None:
    """Small tensors come through the pipe, large ones in shared memory from the second batch on."""
    ds = UniRecordDataset(path, shuffle=True, seed=2)
    loader = DataLoader(ds, batch_size=12, num_workers=workers)
    batches = list(loader)
    assert len(batches) == 4
    for start, batch in zip(range(0, N, 12), batches, strict=True):
        assert type(batch) is dict
        assert_same(batch, default_collate(plain(ds[start : start + 12])))
        batch["big"] += 1
        batch["a_float32"] += 1
    expected = default_collate(plain(ds[:12]))
    assert torch.equal(batches[0]["a_float32"], expected["a_float32"] + 1), "batches have memory of their own"


@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_every_way_of_sharing_memory(path: Path, strategy: str) -> None:
    before = torch.multiprocessing.get_sharing_strategy()
    torch.multiprocessing.set_sharing_strategy(strategy)
    try:
        batches = list(DataLoader(UniRecordDataset(path, columns=["big"]), batch_size=20, num_workers=1))
    finally:
        torch.multiprocessing.set_sharing_strategy(before)
    assert [batch["big"][:, 0].tolist() for batch in batches] == [list(range(20)), list(range(20, 40))]


def every_kind(samples: list[Any]) -> Any:
    """Tensors of every kind that may stand in a batch on its way from a worker."""
    batch = default_collate(samples)
    real = torch.arange(6, dtype=torch.float32)
    for dtype in (
        torch.bfloat16,
        torch.float16,
        torch.float64,
        torch.bool,
        torch.uint16,
        torch.int8,
        torch.complex64,
    ):
        batch[str(dtype)] = real.to(dtype)
    batch["scalar"], batch["empty"], batch["strided"] = real[3], real[:0], real[::2]
    batch["sparse"] = torch.eye(3).to_sparse()
    batch["learnt"] = torch.nn.Parameter(real)
    batch["large"] = [torch.full((300_000,), float(i)) for i in range(3)]
    for i, large in enumerate(batch.pop("large")):
        batch[f"large_{i}"] = large
    return batch


def test_tensors_of_every_kind_come_from_workers(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["s_int64"])
    (found,) = DataLoader(ds, batch_size=N, num_workers=1, collate_fn=every_kind)
    expected = every_kind(ds.__getitems__(list(range(N))))
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name].to_dense(), value.to_dense()), name
    assert isinstance(found["learnt"], torch.nn.Parameter)


def test_functions_of_users_in_workers(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["s_int64", "a_float32"])
    samples = next(iter(DataLoader(ds, batch_size=4, num_workers=1, collate_fn=keep_samples)))
    assert [type(sample) for sample in samples] == [dict] * 4
    assert [int(sample["s_int64"]) for sample in samples] == [0, 1, 2, 3]
    batch = next(iter(DataLoader(ds, batch_size=4, num_workers=1, collate_fn=doubled)))
    assert batch["s_int64"].tolist() == [0, 2, 4, 6]
    assert batch["extra"].tolist() == [0, 0]
    assert batch["none"].shape == (0,)
    assert batch["number"] == 3.5
    changed = next(iter(DataLoader(Changing(ds), batch_size=4, num_workers=1)))
    assert torch.equal(
        changed["a_float32"], torch.stack([torch.from_numpy(ds[i]["a_float32"]) * 3 for i in range(4)])
    )
    subset = next(iter(DataLoader(Subset(ds, [9, 8, 7]), batch_size=3, num_workers=1)))
    assert subset["s_int64"].tolist() == [9, 8, 7]


def test_a_transform_gets_plain_dicts(path: Path) -> None:
    ds = UniRecordDataset(
        path, columns=["s_int64"], transform=lambda sample: (type(sample) is dict, sample["s_int64"])
    )
    plain_dicts, labels = next(iter(DataLoader(ds, batch_size=4)))
    assert plain_dicts.tolist() == [True] * 4
    assert labels.tolist() == [0, 1, 2, 3]


def test_full_shared_memory_is_no_reason_to_fail_before_torch_does(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unirecord.frameworks import torch_collate

    def full(size: int) -> None:
        raise RuntimeError("unable to allocate shared memory")

    monkeypatch.setattr(torch_collate, "_collated", True)
    monkeypatch.setattr(torch.utils.data, "get_worker_info", lambda: "in a worker")
    monkeypatch.setattr(torch.UntypedStorage, "_new_shared", full)
    samples = UniRecordDataset(path, columns=["big"]).__getitems__(list(range(20)))
    assert samples[19]["big"][0] == 19
