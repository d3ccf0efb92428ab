"""Memory that workers of a DataLoader lend: nobody's batch changes under them, and what is let go of is used again."""

from __future__ import annotations

import copy
import os
import pickle
import re
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, default_collate

from unirecord import UniRecordDataset, Writer
from unirecord.frameworks import torch_collate

ROWS, WIDTH, SIZE = 96, 300_000, 4


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lending") / "big.urec"
    with Writer(path, {"big": {"type": "uint8", "shape": [WIDTH]}, "i": "int64"}) as writer:
        for i in range(ROWS):
            writer.write({"big": np.full(WIDTH, i, np.uint8), "i": i})
    return path


@pytest.fixture(autouse=True)
def _a_ring_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_collate, "_rings", [])


def expected(number: int) -> list[int]:
    return list(range(number * SIZE, number * SIZE + SIZE))


def assert_is_batch(big: torch.Tensor, number: int) -> None:
    assert big.shape == (SIZE, WIDTH)
    for row, value in zip(big, expected(number), strict=True):
        assert int(row[0]) == int(row[-1]) == int(row.max()) == int(row.min()) == value


def lies_in(tensor: torch.Tensor) -> str:
    """The file that a tensor's memory is mapped from: its number, "" where it is none of ours."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(end, 16) for end in re.match(r"(\w+)-(\w+)", line).groups())  # type: ignore[union-attr]
        if first <= tensor.data_ptr() < last:
            return line.split()[4] if "memfd:unirecord-batch" in line else ""
    raise AssertionError("not in any mapping")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_batches_that_are_kept_do_not_change(path: Path, method: str) -> None:
    """Every second batch is kept, of another one a row, and the rest are let go of at once."""
    loader = DataLoader(UniRecordDataset(path), SIZE, num_workers=1, multiprocessing_context=method)
    kept: dict[int, Any] = {}
    rows: dict[int, Any] = {}
    files = []
    for number, batch in enumerate(loader):
        files.append(lies_in(batch["big"]))
        if number % 2 == 0:
            kept[number] = batch["big"]
        elif number % 4 == 1:
            rows[number] = batch["big"][1]
    del batch
    for number, big in kept.items():
        assert_is_batch(big, number)
    for number, row in rows.items():
        assert row.unique().tolist() == [expected(number)[1]]
    assert files[-1], "memory is lent by then"


def test_memory_that_is_let_go_of_is_used_again(path: Path) -> None:
    files = set()
    for number, batch in enumerate(DataLoader(UniRecordDataset(path), SIZE, num_workers=1)):
        assert_is_batch(batch["big"], number)
        files.add(lies_in(batch["big"]))
        batch["big"].fill_(255)  # who gets a batch may write in it
        del batch
    # Two ahead, one here, one being made, one on its way, and what comes before anything is lent.
    assert len(files - {""}) <= 5 < ROWS / SIZE


def in_a_tuple(samples: list[Any]) -> Any:
    batch = default_collate(samples)
    return batch["big"], batch["i"]


def halved(samples: list[Any]) -> Any:
    """Changes the tensor every second time, and keeps one of each in the worker."""
    batch = default_collate(samples)
    if int(batch["i"][0]) % (2 * SIZE):
        batch["big"] = batch["big"] // 2 * 2
    batch["first"] = batch["big"][:1]
    return batch


def test_collating_of_ones_own_is_right_whatever_it_does(path: Path) -> None:
    ds = UniRecordDataset(path)
    for number, (big, i) in enumerate(DataLoader(ds, SIZE, num_workers=1, collate_fn=in_a_tuple)):
        assert_is_batch(big, number)
        assert i.tolist() == expected(number)
    for number, batch in enumerate(DataLoader(ds, SIZE, num_workers=1, collate_fn=halved)):
        by = 2 if number % 2 else 1
        assert batch["big"][:, 7].tolist() == [i // by * by for i in expected(number)]
        assert batch["first"][0, -1] == batch["big"][0, -1]


def test_nothing_is_left_of_loaders_that_are_left_half_way(path: Path) -> None:
    def held() -> list[str]:
        maps = Path("/proc/self/maps").read_text().splitlines()
        files = [
            os.readlink(f"/proc/self/fd/{fd}")
            for fd in os.listdir("/proc/self/fd")
            if Path(f"/proc/self/fd/{fd}").exists()
        ]
        return [line for line in maps + files if "memfd:unirecord-batch" in line]

    ds = UniRecordDataset(path)
    for _ in range(2):
        loader = iter(DataLoader(ds, SIZE, num_workers=1))
        for _ in range(6):
            batch = next(loader)
        assert lies_in(batch["big"])
        del batch, loader
    assert held() == []


def filled(size: int, value: int) -> tuple[torch_collate.Use, torch.Tensor]:
    use = torch_collate.take(torch, size)
    assert use is not None
    tensor = torch.from_numpy(np.asarray(use))
    return use, tensor.fill_(value)


def sent(use: torch_collate.Use, tensor: torch.Tensor) -> torch.Tensor:
    """As another process gets it."""
    loan = torch_collate.Loan(use, tensor)
    found: torch.Tensor = pickle.loads(ForkingPickler.dumps(loan))
    return found


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3), st.integers(0, 2), st.randoms()), max_size=24)
)
def test_whatever_is_kept_stays_as_it_was_sent(steps: list[tuple[int, int, int, Any]]) -> None:
    """Reads of several sizes, each sent so often, of which so many are dropped, on either side, in any order."""
    torch_collate._rings.clear()
    alive: list[tuple[int, torch.Tensor]] = []
    for value, (times, pages, dropped, random) in enumerate(steps):
        use, tensor = filled(pages * 4096 - 7, value)
        alive += [(value, sent(use, tensor)) for _ in range(times)] + [(value, tensor[3:])]
        del use, tensor
        random.shuffle(alive)
        del alive[:dropped]
        assert all(bool((tensor == was).all()) for was, tensor in alive)


def test_memory_is_not_taken_again_before_all_are_gone() -> None:
    use, tensor = filled(5000, 1)
    here = use.address
    first, second = sent(use, tensor), sent(use, tensor)
    del use, tensor, first
    assert filled(5000, 2)[0].address != here
    assert second.unique().tolist() == [1]
    del second
    torch_collate._ring()._blocks.sort(key=lambda block: block.address != here, reverse=True)
    assert filled(5000, 3)[0].address == here


def test_what_a_forked_process_looks_into_is_never_used_again() -> None:
    use, tensor = filled(5000, 1)
    there = sent(use, tensor)
    ring = torch_collate._ring()
    del use, tensor
    child = os.fork()
    if child == 0:
        os._exit(0 if there.sum() == 5000 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch_collate._ring() is not ring, "the worker's side forgets what it has lent as well"
    (block,) = ring._blocks
    del there
    assert block.never_comes_back()
    assert not block.is_free()


def test_many_at_once_and_memory_that_lies_idle_are_forgotten() -> None:
    kept = [filled(5000, i % 200) for i in range(40)]
    assert len(torch_collate._ring()._blocks) == torch_collate._MOST
    assert all(bool((tensor == i % 200).all()) for i, (_, tensor) in enumerate(kept))
    del kept
    for _ in range(torch_collate._IDLE + 2):
        filled(9000, 1)
    assert len(torch_collate._ring()._blocks) == 1


@pytest.fixture
def made() -> torch_collate.Collated:
    use, tensor = filled(1 << 21, 7)
    batch = torch_collate.Collated({"big": tensor, "small": torch.arange(3)})
    batch.placed = {"big": (tensor, use)}
    return batch


def test_copies_and_pickles_have_memory_of_their_own(made: torch_collate.Collated) -> None:
    for found in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert type(found) is dict
        assert found["big"].unique().tolist() == [7]
        assert found["small"].tolist() == [0, 1, 2]
    assert pickle.loads(pickle.dumps(made))["big"].data_ptr() != made["big"].data_ptr()


def test_a_tensor_sent_more_often_than_can_be_answered_is_sent_as_any_other(
    made: torch_collate.Collated, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = made.placed["big"][1]
    assert use is not None
    monkeypatch.setattr(use.block, "lend", lambda: None)
    found = pickle.loads(ForkingPickler.dumps(made))
    assert found["big"].unique().tolist() == [7]


def test_other_ways_of_sharing_are_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.multiprocessing, "get_sharing_strategy", lambda: "file_system")
    assert torch_collate.take(torch, 5000) is None


def test_without_descriptors_nothing_is_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(name: str) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "memfd_create", none_left)
    assert torch_collate.take(torch, 5000) is None
