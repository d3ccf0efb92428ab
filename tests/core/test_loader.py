"""ds.batches(): contents, order, lifetime of the arrays, transforms, stopping, fork, skipping, statistics."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.errors import TransformError

N = 1000
SCHEMA = {
    "x": {"type": "int32", "shape": [16]},
    "label": "int64",
    "name": "string?",
    "blob": "bytes",
    "tokens": {"type": "uint16", "shape": [-1]},
    "weight": "float32?",
}


def blob(i: int) -> bytes:
    return i.to_bytes(4, "little") * (i % 11)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("loader") / "set"
    with Writer(path, SCHEMA, max_part_bytes=60_000) as writer:
        for i in range(N):
            writer.write(
                {
                    "x": np.full(16, i, np.int32),
                    "label": i,
                    "name": None if i % 5 == 0 else f"n{i}",
                    "blob": blob(i),
                    "tokens": np.arange(i % 9, dtype=np.uint16),
                    "weight": None if i % 7 == 0 else i,
                }
            )
    assert len(list(path.glob("*.urec"))) > 1
    return path


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def threads_are_back_to(before: int) -> bool:
    """A thread that has been joined may stay listed for a moment; one that leaks stays for good."""
    deadline = time.monotonic() + HANG_SECONDS
    while threads() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    return threads() <= before


def check_batch(batch: dict[str, object], ids: list[int]) -> None:
    assert list(batch) == list(SCHEMA)
    assert batch["label"].tolist() == ids
    assert np.array_equal(batch["x"], np.repeat(np.array(ids, np.int32)[:, None], 16, axis=1))
    assert batch["name"] == [None if i % 5 == 0 else f"n{i}" for i in ids]
    assert batch["blob"].to_list() == [blob(i) for i in ids]
    assert [bytes(b) for b in batch["blob"]] == [blob(i) for i in ids]
    assert [t.tolist() for t in batch["tokens"]] == [list(range(i % 9)) for i in ids]
    assert batch["weight"].tolist() == [None if i % 7 == 0 else float(i) for i in ids]


@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
@pytest.mark.parametrize(("num_threads", "prefetch"), [(1, 1), (2, 4), (5, 2)])
def test_batches_are_the_samples_in_order(path: Path, io: str, num_threads: int, prefetch: int) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=7, io=io)
    ids = ds.order.row_ids().tolist()
    loader = ds.batches(64, num_threads=num_threads, prefetch=prefetch)
    batches = list(loader)
    assert len(batches) == len(loader) == 16
    for k, batch in enumerate(batches):
        check_batch(batch, ids[64 * k : 64 * k + 64])


def test_drop_last_and_lengths(path: Path) -> None:
    for drop_last, expected in ((False, 16), (True, 15)):
        loader = UniRecordDataset(path).batches(64, drop_last=drop_last)
        assert len(loader) == expected == len(list(loader))
    assert len(list(UniRecordDataset(path).batches(5000))) == 1
    assert list(UniRecordDataset(path).batches(5000, drop_last=True)) == []
    assert list(UniRecordDataset(path).take(0).batches(4)) == []


def test_shards_make_one_permutation_each_epoch(path: Path) -> None:
    loaders = [
        UniRecordDataset(path, r, 3, shuffle=True, seed=1, remainder="uneven").batches(32) for r in range(3)
    ]
    orders = []
    for _ in range(3):
        order = [int(i) for loader in loaders for batch in loader for i in batch["label"]]
        assert sorted(order) == list(range(N))
        orders.append(order)
    assert len({tuple(order) for order in orders}) == 3


def test_kept_batches_are_never_overwritten(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["label", "x", "blob"], shuffle=True)
    kept = list(ds.batches(8, prefetch=2))
    for batch in list(ds.batches(8)):
        assert np.array_equal(batch["x"][:, 0], batch["label"])
    ids = [int(i) for batch in kept for i in batch["label"]]
    assert sorted(ids) == list(range(N))
    for batch in kept:
        assert np.array_equal(batch["x"][:, 3], batch["label"])
        assert batch["blob"].to_list() == [blob(int(i)) for i in batch["label"]]


def test_arrays_outlive_the_loader_and_the_dataset(path: Path) -> None:
    def first() -> np.ndarray:
        ds = UniRecordDataset(path, columns=["x"])
        for batch in ds.batches(16):
            return batch["x"]
        raise AssertionError

    x = first()
    gc.collect()
    assert np.array_equal(x[:, 0], np.arange(16))
    x += 1  # writable


def test_dropped_batches_are_reused(path: Path) -> None:
    loader = UniRecordDataset(path, columns=["x", "label"]).batches(10, prefetch=2, num_threads=1)
    for _ in range(5):
        for batch in loader:
            del batch
    assert loader.stats().results == 500
    assert loader.stats().buffers <= 6


def fail_inside(ds: UniRecordDataset) -> None:
    for _batch in ds.batches(16, num_threads=3):
        raise RuntimeError("mine")


def test_leaving_early_leaves_no_thread(path: Path) -> None:
    before = threads()
    for _ in range(20):
        for _batch in UniRecordDataset(path).batches(16, num_threads=3):
            break
        with pytest.raises(RuntimeError, match="mine"):
            fail_inside(UniRecordDataset(path))
        iterator = iter(UniRecordDataset(path).batches(16, num_threads=3))
        next(iterator)
        del iterator
    gc.collect()
    assert threads_are_back_to(before)


def test_iterators_of_one_loader_are_independent(path: Path) -> None:
    loader = UniRecordDataset(path, shuffle=True, columns=["label"]).batches(100)
    first, second = iter(loader), iter(loader)
    a = [int(i) for batch in first for i in batch["label"]]
    b = [int(i) for batch in second for i in batch["label"]]
    assert sorted(a) == sorted(b) == list(range(N))
    assert a != b


def test_closing_the_dataset_ends_the_iteration_with_an_error(path: Path) -> None:
    ds = UniRecordDataset(path)
    iterator = iter(ds.batches(4, prefetch=1))
    next(iterator)
    ds.close()
    with pytest.raises(unirecord.ClosedError):
        for _ in iterator:
            pass


# ---- transforms ------------------------------------------------------------------------------------------


def test_sample_transforms_keep_the_order(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True, transform=lambda s: {"y": s["x"].sum(), "i": s["label"]})
    ids = ds.order.row_ids().tolist()
    got = [int(i) for batch in ds.batches(32, num_workers=4) for i in batch["i"]]
    assert got == ids
    batch = next(iter(ds.batches(32)))
    assert isinstance(batch["y"], np.ndarray)


def test_batch_transforms_and_collate(path: Path) -> None:
    ds = UniRecordDataset(path, columns=["label"])
    totals = list(ds.batches(100, batch_transform=lambda batch: int(batch["label"].sum())))
    assert sum(totals) == N * (N - 1) // 2
    ds = UniRecordDataset(path, columns=["label"], transform=lambda s: int(s["label"]))
    assert next(iter(ds.batches(3, collate_fn=tuple))) == (0, 1, 2)


def test_a_failing_transform_names_row_and_part(path: Path) -> None:
    def fail(sample: dict[str, object]) -> object:
        if sample["label"] == 777:
            raise KeyError("oops")
        return sample

    ds = UniRecordDataset(path, transform=fail, columns=["label"])
    before = threads()
    with pytest.raises(TransformError, match=r"row 777 .*part-.*oops") as caught:
        for _ in ds.batches(32, num_workers=3):
            pass
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.row == 777
    assert threads_are_back_to(before)


# ---- resume ----------------------------------------------------------------------------------------------


def test_state_counts_delivered_batches_alone(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True, seed=2, columns=["label"])
    ids = ds.order.row_ids().tolist()
    loader = ds.batches(30, prefetch=8)
    iterator = iter(loader)
    for _ in range(5):
        next(iterator)
    state = loader.state_dict()
    rest = [int(i) for batch in iterator for i in batch["label"]]
    assert rest == ids[150:]
    again = UniRecordDataset(path, shuffle=True, seed=2, columns=["label"]).batches(30)
    again.load_state_dict(state)
    assert len(again) == 29
    assert [int(i) for batch in again for i in batch["label"]] == rest
    assert len(again) == 34


# ---- corrupt rows, processes, statistics -----------------------------------------------------------------


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "d.urec"
    with Writer(path, {"blob": "bytes", "label": "int32"}) as writer:
        for i in range(40):
            writer.write({"blob": bytes([65 + i]) * 5000, "label": i})
    content = bytearray(path.read_bytes())
    content[content.index(bytes([65 + 17]) * 5000) + 10] ^= 1
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
def test_a_corrupt_row_is_an_error_that_names_it(damaged: Path, io: str) -> None:
    ds = UniRecordDataset(damaged, io=io)
    with pytest.raises(unirecord.CorruptionError, match=r"d\.urec") as caught:
        for _ in ds.batches(8):
            pass
    assert (caught.value.row, caught.value.column) == (17, "blob")


@pytest.mark.parametrize("io", ["mmap", "pread", "memory"])
def test_corrupt_rows_are_left_out_when_asked(
    damaged: Path, io: str, caplog: pytest.LogCaptureFixture
) -> None:
    loader = UniRecordDataset(damaged, io=io, on_corrupt="skip").batches(8)
    labels = [int(i) for batch in loader for i in batch["label"]]
    assert labels == [i for i in range(40) if i != 17]
    assert loader.stats().skipped == 1
    assert "row 17 of" in caplog.text


def test_a_forked_child_is_told_to_make_its_own_loader(path: Path) -> None:
    iterator = iter(UniRecordDataset(path).batches(16))
    next(iterator)
    pid = os.fork()
    if pid == 0:
        try:
            next(iterator)
        except Exception as error:
            fine = "fork" in str(error)
            fine = fine and len(list(UniRecordDataset(path).batches(100))) == 10
            del iterator
            gc.collect()
            os._exit(0 if fine else 3)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert len(list(iterator)) == 62


@pytest.mark.parametrize(
    "ending",
    [
        "pass",
        "sys.exit(0)",
        "raise SystemExit",
        "del it",
        "import threading; threading.Thread(target=next, args=(it,)).start()",
    ],
)
def test_interpreter_exit_with_reads_in_flight_does_not_hang(path: Path, ending: str) -> None:
    code = f"""
import sys, unirecord
ds = unirecord.UniRecordDataset({str(path)!r}, transform=lambda s: s)
it = iter(ds.batches(4, num_threads=3, prefetch=50))
next(it)
plain = iter(unirecord.UniRecordDataset({str(path)!r}).batches(4, num_threads=3, prefetch=50))
next(plain)
{ending}
"""
    done = subprocess.run(
        [sys.executable, "-c", code], timeout=HANG_SECONDS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # a thread that asks for more while the interpreter goes down is told so; nothing else is printed
    assert done.stderr == "" or (
        "Thread" in ending and re.search(r"after (interpreter )?shutdown", done.stderr)
    )


def test_statistics_add_up(path: Path) -> None:
    loader = UniRecordDataset(path, columns=["x", "label"]).batches(50)
    for _ in loader:
        pass
    stats = loader.stats()
    assert (stats.results, stats.samples, stats.bytes) == (20, N, N * (64 + 8))
    assert "samples/s" in str(stats)


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 0},
        {"batch_size": True},
        {"batch_size": None},
        {"batch_size": 1 << 63},
        {"batch_size": 4, "prefetch": 0},
        {"batch_size": 4, "prefetch": 4097},
        {"batch_size": 4, "num_threads": -1},
        {"batch_size": 4, "num_threads": 1 << 31},
        {"batch_size": 4, "num_workers": 1025},
    ],
)
def test_wrong_options_are_refused_by_name(path: Path, options: dict[str, Any]) -> None:
    name = list(options)[-1]
    with pytest.raises((TypeError, ValueError), match=name):
        UniRecordDataset(path).batches(**options)


def test_ragged_pad(path: Path) -> None:
    batch = next(iter(UniRecordDataset(path, columns=["tokens", "blob"]).batches(12)))
    padded = batch["tokens"].pad(9)
    assert padded.shape == (12, 8)
    assert padded[3].tolist() == [0, 1, 2, 9, 9, 9, 9, 9]
    assert batch["tokens"].pad(shape=(20,)).shape == (12, 20)
    with pytest.raises(ValueError, match="tokens"):
        batch["tokens"].pad(shape=(3,))
    assert batch["blob"].pad().dtype == np.uint8
