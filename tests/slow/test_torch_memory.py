"""Worker processes hold nothing for each row: eight of them over 10^7 rows, an epoch without growth."""

from __future__ import annotations

import gc
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch.utils.data import DataLoader

from unirecord import UniRecordDataset, Writer

ROWS, WORKERS, BATCH = 10_000_000, 8, 8192
MIB = 1 << 20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("memory") / "set.urec"
    with Writer(path, {"label": "int32"}) as writer:
        for start in range(0, ROWS, 1_000_000):
            writer.write_batch({"label": np.arange(start, start + 1_000_000, dtype=np.int32)})
    return path


def resident_bytes() -> int:
    """Memory without a file behind it that this process has touched; with fork, what it began with is part of it."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def measured(samples: list[dict[str, Any]]) -> tuple[int, int, int, int, int]:
    """Instead of a batch: who made it, its size and sum, and what the process holds meanwhile."""
    total = sum(int(sample["label"]) for sample in samples[::512])
    return os.getpid(), len(samples), total, sys.getallocatedblocks() - 2 * len(samples), resident_bytes()


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux's account of memory")
def test_eight_workers_over_ten_million_rows_hold_no_objects_for_them(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True)
    gc.collect()  # what earlier tests have left would be collected in the workers, one after the other
    loader = DataLoader(
        ds, batch_size=BATCH, num_workers=WORKERS, collate_fn=measured, multiprocessing_context="fork"
    )
    seen = 0
    workers: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for pid, count, _, blocks, resident in loader:
        seen += count
        workers[pid].append((blocks, resident))
    assert seen == ROWS
    assert len(workers) == WORKERS
    for steps in workers.values():
        assert len(steps) > 100
        begin, end = steps[len(steps) // 10], steps[-2]  # the last one may be a smaller batch
        assert abs(end[0] - begin[0]) < 4 * BATCH, "Python objects grow with the rows read"
        assert end[1] - begin[1] < 4 * MIB, "memory grows over the epoch"
        # A list of the rows would be 80 MB, an array of their numbers as much.
        assert max(resident for _, resident in steps) - steps[0][1] < 16 * MIB
