"""Costs that must not creep back, counted: system calls, page faults, buffers and bytes read per batch."""

from __future__ import annotations

import gc
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from process_counts import counters, minor_faults

from unirecord import UniRecordDataset, Writer

BATCH = 64
ROWS = 64 * 200
ROW_BYTES = 512
BLOB_BYTES = 100_000
BLOBS = 256


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("costs") / "rows.urec"
    with Writer(path, {"x": {"type": "uint8", "shape": [ROW_BYTES]}, "label": "int32"}) as writer:
        writer.write_batch(
            {"x": np.zeros((ROWS, ROW_BYTES), np.uint8), "label": np.arange(ROWS, dtype=np.int32)}
        )
    return path


@pytest.fixture(scope="module")
def blobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("costs") / "blobs.urec"
    with Writer(path, {"x": "bytes"}) as writer:
        writer.write_batch({"x": [bytes([n]) * (BLOB_BYTES + n) for n in range(BLOBS)]})
    return path


def test_a_warm_batch_costs_no_buffer_and_no_page_fault(rows: Path) -> None:
    with UniRecordDataset(rows, shuffle=True, io="mmap") as ds:
        loader = ds.batches(BATCH, num_threads=1)
        for _ in range(3):
            for number, batch in enumerate(loader):
                if number < 2:
                    time.sleep(0.2)  # the ring fills up: from here on every buffer that can be in use exists
                del batch
        buffers, faults, batches = loader.stats().buffers, minor_faults(), 0
        for batch in loader:
            batches += 1
            del batch
        assert batches == ROWS // BATCH
        assert loader.stats().buffers == buffers
        assert minor_faults() - faults < batches / 4  # a thread's stack, Python's own objects


def test_a_kept_batch_costs_one_buffer(rows: Path) -> None:
    with UniRecordDataset(rows, io="mmap") as ds:
        loader = ds.batches(BATCH, num_threads=1, prefetch=2)
        kept = list(loader)
        assert len({batch["x"].ctypes.data for batch in kept}) == len(kept)
        assert len(kept) <= loader.stats().buffers <= len(kept) + 4


def test_records_leave_nothing_to_the_garbage_collector(tmp_path: Path) -> None:
    row = bytes(ROW_BYTES)
    with Writer(tmp_path / "x.urec", {"x": "bytes", "label": "int32"}) as writer:
        before = gc.get_stats()[0]["collections"]
        for number in range(ROWS):
            writer.write({"x": row, "label": number})
        assert gc.get_stats()[0]["collections"] - before < ROWS // 1_000


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux's /proc/self/io")
def test_mapped_batches_make_no_read_call(rows: Path) -> None:
    with UniRecordDataset(rows, shuffle=True, io="mmap") as ds:
        loader = ds.batches(BATCH, num_threads=1)
        for batch in loader:
            del batch
        before = counters()["syscr"]
        for batch in loader:
            del batch
        assert counters()["syscr"] - before <= 8  # /proc/self/io itself is read, and not a call a batch


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs Linux's /proc/self/io")
def test_a_cold_batch_reads_its_own_bytes_and_the_ends_of_blocks(blobs: Path) -> None:
    with UniRecordDataset(blobs, shuffle=True, io="uring-direct", verify="never") as ds:
        first = ds[0]
        if "io uring-direct" not in repr(ds):
            pytest.skip("no io_uring or no O_DIRECT here")
        del first
        before = counters()["read_bytes"]
        for batch in ds.batches(32, num_threads=1):
            del batch
        fetched = counters()["read_bytes"] - before
    assert BLOBS * BLOB_BYTES <= fetched <= BLOBS * (BLOB_BYTES + 256 + 2 * 4096) + (1 << 20)


LOOP = """
import sys
from unirecord import UniRecordDataset
with UniRecordDataset(sys.argv[1], shuffle=True, io="mmap") as ds:
    loader = ds.batches(64, num_threads=1)
    for _ in range(int(sys.argv[2])):
        for batch in loader:
            del batch
"""


def traced_calls(path: Path, epochs: int, out: Path) -> dict[str, int]:
    """System calls of a process that reads so many epochs, by name."""
    command = ["strace", "-f", "-c", "-o", str(out), sys.executable, "-c", LOOP, str(path), str(epochs)]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("strace may not trace here")
    lines = re.findall(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+)(?: +\d+)? +(\w+)$", out.read_text(), re.MULTILINE)
    return {name: int(calls) for calls, name in lines if name != "total"}


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_a_mapped_batch_makes_few_system_calls(rows: Path, tmp_path: Path) -> None:
    one, three = (traced_calls(rows, epochs, tmp_path / "calls") for epochs in (1, 3))
    batches = 2 * ROWS // BATCH
    extra = {name: three[name] - one.get(name, 0) for name in three}
    assert extra.get("fstat", 0) + extra.get("newfstatat", 0) <= 2.2 * batches  # of data and index
    # Who waits yields at each 16th of 200 looks (csrc/loader/loader.c), and then sleeps; each side waits once a batch.
    assert extra.get("sched_yield", 0) <= 2 * (200 // 16) * batches
    waiting = ("futex", "sched_yield")
    assert sum(count for name, count in extra.items() if name not in waiting) <= 6 * batches
    assert extra.get("mmap", 0) + extra.get("munmap", 0) < batches / 4
