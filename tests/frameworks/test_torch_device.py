"""On the way to a CUDA device that copies as late as it may: the order of streams, and how long memory lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from late_device import Device

from unirecord import UniRecordDataset, Writer
from unirecord.core import BatchPool
from unirecord.frameworks.torch import loader

N, BATCH, WIDTH = 960, 16, 500


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("device") / "set.urec"
    with Writer(
        path, {"x": {"type": "int64", "shape": [WIDTH]}, "label": "int64", "tokens": "bytes"}
    ) as writer:
        for start in range(0, N, 96):
            numbers = np.arange(start, start + 96)
            rows = np.repeat(numbers[:, None], WIDTH, axis=1)
            writer.write_batch({"x": rows, "label": numbers, "tokens": [b"t" * int(i % 9) for i in numbers]})
    return path


@pytest.fixture(params=[1, 5, 1000])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Device:
    device = Device(request.param)
    device.stand_in(monkeypatch)
    return device


def test_memory_is_not_filled_again_before_its_copy_has_ended(path: Path, device: Device) -> None:
    made = loader(
        UniRecordDataset(path, columns=["x", "label"]), BATCH, device="cuda", prefetch=1, num_threads=1
    )
    batches = list(made)
    assert not device.queue, "all copies have ended with the epoch"
    labels = [int(i) for batch in batches for i in batch["label"]]
    assert labels == list(range(N))
    for batch in batches:
        assert torch.equal(batch["x"], batch["label"][:, None].expand(-1, WIDTH))


def take_one(made: Any) -> Any:
    for batch in made:
        return batch
    return None


def test_leaving_an_epoch_early_waits_for_the_copies(path: Path, device: Device) -> None:
    made = loader(
        UniRecordDataset(path, columns=["x", "label"]), BATCH, device="cuda", prefetch=1, num_threads=1
    )
    first, second = (take_one(made) for _ in range(2))
    assert not device.queue
    for batch in (first, second):
        assert torch.equal(batch["x"], batch["label"][:, None].expand(-1, WIDTH))


def test_copies_run_on_a_side_stream_and_the_consumer_waits(path: Path, device: Device) -> None:
    made = loader(UniRecordDataset(path, columns=["x", "label"]), BATCH, device="cuda")
    iterator = iter(made)
    for number in range(N // BATCH):
        device.log.append(("step", str(number)))
        next(iterator)
    copies = [entry for entry in device.log if entry[0] == "copy"]
    assert copies == [("copy", "side")] * (2 * N // BATCH)
    one_batch = [("copy", "side"), ("copy", "side"), ("event", "side")]
    begin = [("step", "0"), *one_batch, *one_batch]
    assert device.log[: len(begin)] == begin, "two batches are on their way before the first is handed out"
    handed = [("wait", "main"), ("used", "main"), ("used", "main")]
    rest = device.log[len(begin) :]
    assert rest[: len(handed) + 3] == [*handed, *one_batch], "and the third while the step runs"
    assert rest[len(handed) + 3 : 2 * len(handed) + 4] == [("step", "1"), *handed]


@pytest.mark.parametrize("transform", [None, lambda sample: {"label": sample["label"]}])
def test_the_state_counts_batches_that_were_handed_out(path: Path, device: Device, transform: Any) -> None:
    ds = UniRecordDataset(path, columns=["label"], shuffle=True)
    made = loader(ds, BATCH, device="cuda", transform=transform)
    iterator = iter(made)
    assert made.state_dict()["position"] == 0
    for number in range(1, 5):
        next(iterator)
        assert made.state_dict()["position"] == ds.state_dict()["position"] == number * BATCH
    rest = [batch["label"] for batch in iterator]
    assert made.state_dict()["position"] == N
    assert len(rest) == N // BATCH - 4


def test_lists_and_ragged_columns_stay_on_the_host(path: Path, device: Device) -> None:
    batch = next(iter(loader(UniRecordDataset(path), BATCH, device="cuda")))
    assert bytes(batch["tokens"][3]) == b"ttt"


def test_tuples_and_named_tuples_are_moved(path: Path, device: Device) -> None:
    ds = UniRecordDataset(path, columns=["x", "label"], transform=lambda s: (s["x"], {"label": s["label"]}))
    x, rest = next(iter(loader(ds, BATCH, device="cuda")))
    device.run(0)
    assert x.shape == (BATCH, WIDTH)
    assert rest["label"].tolist() == list(range(BATCH))


def test_batches_lie_in_lent_memory_and_keep_it_alive(path: Path) -> None:
    """What the pinned ring stands on; the memory is an array that owns it, as pinned memory is."""
    freed: list[int] = []

    class Memory(np.ndarray[Any, Any]):
        def __del__(self) -> None:
            freed.append(1)

    raw = np.zeros(3 * (1 << 20) + 64, np.uint8)
    begin = -raw.ctypes.data % 64
    pieces = [raw[begin + i * (1 << 20) :][: 1 << 20].view(Memory) for i in range(3)]
    places = [(piece.ctypes.data, piece.ctypes.data + piece.nbytes) for piece in pieces]
    pool = BatchPool(0)
    for piece in pieces:
        pool.lend(piece)
    del piece, pieces
    ds = UniRecordDataset(path, columns=["x", "label"])
    plan = ds.read_cursor.plan
    [native] = plan.open_loaders(
        plan.order.run(0, 0),
        BATCH,
        pool=pool,
        drop_last=False,
        prefetch=1,
        threads=1,
        skip_corrupt=False,
    )
    kept, inside = [], 0
    while (batch := native.next()) is not None:
        at = batch.row_ids().ctypes.data
        inside += any(start <= at < end for start, end in places)
        assert batch.row_ids().tolist() == list(range(batch.number * BATCH, batch.number * BATCH + BATCH))
        if batch.number < 2:
            kept.append(batch)
    native.close()
    assert inside >= 2, "lent memory is used first"
    del native, pool, ds, plan
    assert not freed, "batches keep the memory"
    for number, batch in enumerate(kept):
        assert batch.row_ids().tolist() == list(range(number * BATCH, number * BATCH + BATCH))
    del batch, kept
    assert len(freed) == 3
    raw[:] = 1  # never unmapped


@pytest.mark.parametrize("size", [64, 4096 + 8])
def test_memory_that_cannot_hold_batches_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="cannot hold batches"):
        BatchPool(1).lend(np.zeros(size, np.uint8))
