"""Small rows out of memory: the file is read front to back before the first batch, where the pass needs most of it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from unirecord import UniRecordDataset, Writer

ROWS, WIDTH = 24_000, 512
LARGE_ROWS, LARGE_WIDTH = 300, 40_000


def _write(path: Path, rows: int, width: int) -> Path:
    values = np.random.default_rng(1).integers(0, 256, (rows, width), dtype=np.uint8)
    schema = {"x": {"type": "uint8", "shape": [width]}, "n": "int32"}
    with Writer(path, schema, index=["n"]) as writer:
        writer.write_batch({"x": values, "n": np.arange(rows, dtype=np.int32)})
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("small") / "a.urec", ROWS, WIDTH)


def _drop(path: Path) -> None:
    """Takes the file out of the page cache; skips the test where files do not leave memory."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        if os.preadv(fd, [bytearray(1)], 8 << 20, os.RWF_NOWAIT) == 1:
            pytest.skip("files do not leave memory here")
    except BlockingIOError:
        pass
    finally:
        os.close(fd)


def _read_by_calls() -> int:
    """Bytes that this process has read by system calls; what it reads through a map is not among them."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])


def _brought(path: Path, *, cold: bool = True, threads: int = 1, **options: object) -> float:
    """The share of the data file that one pass reads by system calls."""
    with UniRecordDataset(path, io="mmap", **options) as data:
        loader = data.batches(256, num_threads=threads)
        if cold:
            _drop(path)
        before = _read_by_calls()
        for batch in loader:
            assert len(batch["x"])
        return (_read_by_calls() - before) / path.stat().st_size


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("verify", ["first", "never"])
def test_a_cold_shuffled_pass_reads_the_file_once_in_its_order(
    small: Path, threads: int, verify: str
) -> None:
    assert 1 <= _brought(small, shuffle=True, threads=threads, verify=verify) < 1.2


def test_what_is_in_memory_is_not_read_again(small: Path) -> None:
    small.read_bytes()
    assert _brought(small, cold=False, shuffle=True) < 0.2


def test_a_pass_that_needs_little_of_the_file_does_not_bring_it(small: Path) -> None:
    assert _brought(small, shuffle=True, num_shards=64, shard_id=1) < 0.2
    assert 1 <= _brought(small, shuffle=True, num_shards=2, shard_id=1) < 1.2


def test_chosen_rows_do_not_bring_the_others(small: Path) -> None:
    assert _brought(small, shuffle=True, where=f"n < {ROWS // 100}") < 0.2


def test_rows_in_their_own_order_are_left_to_the_kernel(small: Path) -> None:
    assert _brought(small) < 0.2


def test_large_rows_are_read_one_by_one(tmp_path: Path) -> None:
    assert _brought(_write(tmp_path / "b.urec", LARGE_ROWS, LARGE_WIDTH), shuffle=True) < 0.2


def test_every_row_comes_right_and_once(small: Path) -> None:
    with UniRecordDataset(small, io="mmap", shuffle=True) as data:
        _drop(small)
        numbers = np.concatenate([batch["n"].copy() for batch in data.batches(256, num_threads=2)])
    assert np.array_equal(np.sort(numbers), np.arange(ROWS))


def test_a_pass_that_is_left_at_once_ends_its_threads(small: Path) -> None:
    before = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        _drop(small)
        with UniRecordDataset(small, io="mmap", shuffle=True) as data:
            batches = iter(data.batches(256, num_threads=3))
            assert len(next(batches)["x"]) == 256
            del batches
        assert len(os.listdir("/proc/self/task")) <= before
