"""A thousand times the same, failures included, and no descriptor, map, thread or memory more than before.

`python tests/test_leaks.py CYCLE FOLDER` runs one kind of cycle and prints what /proc/self says before and after.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hang import HANG_SECONDS

from unirecord import UniRecordDataset, Writer
from unirecord.core import left_at_work
from unirecord.errors import TransformError, UniRecordError

CYCLES = 1000
ROWS = 200
GROWTH = 2 << 20  # what an allocator may keep without a leak; a leaked page in each cycle would be twice that


def prepare(folder: Path) -> None:
    """A good part and a directory, a part with a corrupt row, and files that cannot be opened."""
    schema = {"label": "int64", "x": {"type": "uint8", "shape": [100]}, "name": "string?", "blob": "bytes"}
    for name in ("good.urec", "corrupt.urec", "cut.urec", "noindex.urec", "many"):
        with Writer(folder / name, schema, max_part_bytes=10_000 if name == "many" else None) as writer:
            for i in range(ROWS):
                x = np.full(100, i, np.uint8)
                writer.write({"label": i, "x": x, "name": None if i % 3 else f"n{i}", "blob": bytes([i]) * i})
    corrupt = bytearray((folder / "corrupt.urec").read_bytes())
    corrupt[corrupt.index(bytes([77]) * 100) + 50] ^= 1
    (folder / "corrupt.urec").write_bytes(corrupt)
    os.truncate(folder / "cut.urec", 700)
    os.unlink(folder / "noindex.urec.idx")
    (folder / "foreign.urec").write_bytes(b"something else" * 100)


def open_and_read(folder: Path) -> None:
    with UniRecordDataset(folder / "good.urec") as ds:
        assert ds[5]["label"] == 5
        assert len(ds.__getitems__(range(20))) == 20


def every_way(folder: Path) -> None:
    for io in ("mmap", "pread", "uring", "uring-direct", "memory"):
        with UniRecordDataset(folder / "many", io=io) as ds:
            assert ds[150]["label"] == 150


def epochs(folder: Path) -> None:
    ds = UniRecordDataset(folder / "many", shuffle=True)
    assert sum(len(batch["label"]) for batch in ds.batches(64, num_threads=2)) == ROWS


def leave_early(folder: Path) -> None:
    for number, _ in enumerate(UniRecordDataset(folder / "good.urec").batches(8, num_threads=2)):
        if number == 3:
            break
    iterator = iter(UniRecordDataset(folder / "good.urec").batches(8))
    next(iterator)
    del iterator


def fail_to_open(folder: Path) -> None:
    for name in ("cut.urec", "noindex.urec", "foreign.urec", "absent.urec", "absent"):
        with contextlib.suppress(UniRecordError):
            UniRecordDataset(folder / name)[0]
            raise AssertionError(name)


def meet_corrupt_rows(folder: Path) -> None:
    with contextlib.suppress(UniRecordError):
        UniRecordDataset(folder / "corrupt.urec")[77]
        raise AssertionError
    with contextlib.suppress(UniRecordError):
        list(UniRecordDataset(folder / "corrupt.urec", io="pread").batches(16, num_threads=2))
        raise AssertionError


def fail_in_transforms(folder: Path) -> None:
    ds = UniRecordDataset(folder / "good.urec", transform=lambda sample: 1 // int(sample["label"] - 40))
    with contextlib.suppress(TransformError):
        list(ds.batches(16, num_workers=2))
        raise AssertionError


def query(folder: Path) -> None:
    ds = UniRecordDataset(folder / "many", where="label >= 100 and name like 'n1%'")
    assert len(ds) > 0
    assert len(ds.scalars()["label"]) == len(ds)


def fail_to_write(folder: Path) -> None:
    with contextlib.suppress(ZeroDivisionError), Writer(folder / "never", {"x": "int32"}) as writer:
        writer.write({"x": 1})
        raise ZeroDivisionError
    with contextlib.suppress(UniRecordError):
        Writer(folder / "good.urec", {"x": "int32"})
        raise AssertionError


ALL: list[tuple[Callable[[Path], None], int]] = [
    (open_and_read, CYCLES),
    (every_way, CYCLES // 2),
    (epochs, CYCLES),
    (leave_early, CYCLES),
    (fail_to_open, CYCLES),
    (meet_corrupt_rows, CYCLES),
    (fail_in_transforms, CYCLES),
    (query, CYCLES // 4),
    (fail_to_write, CYCLES // 4),
]


def thread_names() -> list[str]:
    """Names of this process's threads. The kernel runs slow io_uring reads on threads of its own, "iou-…", which end by
    themselves some seconds after the ring was last used."""
    names = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # it has just ended
            names.append((task / "comm").read_text())
    return names


def held() -> dict[str, int]:
    gc.collect()
    for thread in list(left_at_work):  # nobody has waited for transforms that were at work
        thread.join(HANG_SECONDS)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": sum(not name.startswith("iou-") for name in thread_names()),
        "maps": len(Path("/proc/self/maps").read_text().splitlines()),
        "bytes": pages * os.sysconf("SC_PAGESIZE"),
    }


def measure(
    cycle: Callable[[Path], None], folder: Path, cycles: int
) -> tuple[dict[str, int], dict[str, int]]:
    for _ in range(cycles // 5):  # caches and the allocator fill up first
        cycle(folder)
    before = held()
    for _ in range(cycles):
        cycle(folder)
    return before, held()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaks")
    prepare(folder)
    return folder


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("cycle", [cycle.__name__ for cycle, _ in ALL])
def test_nothing_is_left_behind(folder: Path, cycle: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__, cycle, str(folder)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "support")},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    before, after = json.loads(done.stdout)
    assert after["descriptors"] == before["descriptors"]
    assert after["threads"] == before["threads"]
    assert after["maps"] <= before["maps"] + 4, (before, after)  # the allocator's own
    assert after["bytes"] <= before["bytes"] + GROWTH, (before, after)


if __name__ == "__main__":
    chosen, count = next((cycle, count) for cycle, count in ALL if cycle.__name__ == sys.argv[1])
    print(json.dumps(measure(chosen, Path(sys.argv[2]), count)))
