"""A pipeline's batches on their way to a CUDA device, which is a stand-in: where they lie, and how long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from late_device import Device, PinnedMemory

from unirecord import UniRecordDataset, Writer

torch = pytest.importorskip("torch")

N, BATCH, WIDTH = 480, 16, 500


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("device") / "set.urec"
    with Writer(path, {"x": {"type": "int64", "shape": [WIDTH]}, "i": "int64"}) as writer:
        numbers = np.arange(N)
        writer.write_batch({"x": np.repeat(numbers[:, None], WIDTH, axis=1), "i": numbers})
    return path


@pytest.fixture(params=[1, 5, 1000])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device(request.param)
    device.stand_in(monkeypatch)
    return device


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> PinnedMemory:
    memory = PinnedMemory()
    memory.stand_in(monkeypatch)
    return memory


class Filled:
    """Writes into its slot, as images.Decode does."""

    shape, dtype, random = (WIDTH,), np.dtype(np.int64), False

    def into(self, stored: Any, out: np.ndarray, key: int) -> None:
        out[:] = np.frombuffer(stored, np.int64) if len(stored) == 8 else -1


def right(batches: list[Any]) -> None:
    assert [int(i) for batch in batches for i in batch["i"]] == list(range(N))
    for batch in batches:
        assert torch.equal(batch["x"], batch["i"][:, None].expand(-1, WIDTH))


def test_batches_are_read_into_pinned_memory_and_never_filled_before_their_copy(
    path: Path, device: Device, pinned: PinnedMemory
) -> None:
    loader = UniRecordDataset(path).pipeline().batch(BATCH).prefetch(2).to_torch("cuda")
    for _ in range(2):
        batches = list(loader)
        assert not device.queue, "all copies have ended with the epoch"
        right(batches)
    if device.lag == 1:  # else more batches are on their way than there is pinned memory for
        assert pinned.copies == 0
        assert len(pinned.pieces) < 2 * N // BATCH / 2, "the memory is used again, by the next epoch too"


def test_operators_write_into_pinned_slots_that_are_used_again(
    tmp_path: Path, device: Device, pinned: PinnedMemory
) -> None:
    with Writer(tmp_path / "b.urec", {"x": "bytes", "i": "int64"}) as writer:
        for i in range(N):
            writer.write({"x": np.int64(i).tobytes(), "i": i})
    ds = UniRecordDataset(tmp_path / "b.urec")
    loader = ds.pipeline(cpus=1).map(Filled(), columns=["x"]).batch(BATCH).to_torch("cuda")
    epochs = 3
    for _ in range(epochs):
        batches = list(loader)
        assert not device.queue
        right(batches)
    slots = [end - start for start, end in pinned.pieces if end - start == BATCH * WIDTH * 8]
    assert pinned.copies == epochs * N // BATCH, "of the numbers alone, which lie elsewhere"
    if device.lag == 1:  # some lie ready when they have been made faster than they are taken
        assert len(slots) < epochs * N // BATCH / 2


def test_what_operators_have_made_is_copied_to_pinned_memory(
    path: Path, device: Device, pinned: PinnedMemory
) -> None:
    loader = UniRecordDataset(path).pipeline().batch(BATCH)
    loader = loader.map_batch(lambda batch: {**batch, "x": batch["x"] + 0}).to_torch("cuda")
    right(list(loader))
    assert pinned.copies >= N // BATCH


def test_leaving_an_epoch_early_waits_for_the_copies(
    path: Path, device: Device, pinned: PinnedMemory
) -> None:
    loader = UniRecordDataset(path).pipeline().batch(BATCH).to_torch("cuda")
    results = iter(loader)
    kept = [next(results) for _ in range(3)]
    results.close()
    assert not device.queue
    for number, batch in enumerate(kept):
        assert batch["i"].tolist() == list(range(number * BATCH, number * BATCH + BATCH))


def test_copies_run_beside_the_step_and_the_consumer_waits_for_its_own(path: Path, device: Device) -> None:
    results = iter(UniRecordDataset(path).pipeline().batch(BATCH).to_torch("cuda"))
    next(results)
    assert [stream for what, stream in device.log if what == "copy"] == ["side"] * 6, "two ahead of the first"
    assert device.log.index(("wait", "main")) < device.log.index(("used", "main"))
    results.close()


def test_memory_is_pinned_for_users_who_copy_themselves(path: Path, pinned: PinnedMemory) -> None:
    for batch in UniRecordDataset(path).pipeline().batch(BATCH).to_torch(pin_memory=True):
        assert pinned.holds(batch["x"])
    assert pinned.copies <= 2 * N // BATCH


def test_without_cuda_nothing_is_pinned(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pytest.fail("there is no device"))
    right(list(UniRecordDataset(path).pipeline().batch(BATCH).to_torch("cpu", pin_memory=True)))
