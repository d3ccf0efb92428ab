"""Files cut, written over or replaced under a live reader: right values or an exception, never wrong values."""

from __future__ import annotations

import faulthandler
import os
import resource
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from unirecord import UniRecordDataset, Writer
from unirecord.errors import CorruptionError, StaleError

WAYS = ["mmap", "pread", "uring", "uring-direct", "memory"]
ROWS = 40_000  # so that the index is too large to be read into memory at once
RIGHT, STALE, BUS, WRONG = "right", "an exception", "SIGBUS", "wrong values"


def write(path: Path, factor: int) -> Path:
    with Writer(path, {"label": "int64", "x": {"type": "int64", "shape": [8]}}) as writer:
        labels = np.arange(ROWS, dtype=np.int64) * factor
        writer.write_batch({"label": labels, "x": np.repeat(labels[:, None], 8, axis=1)})
    assert Path(f"{path}.idx").stat().st_size > 65_536
    return path


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("live")
    write(folder / "good.urec", 1)
    write(folder / "other.urec", 3)
    return folder


@pytest.fixture
def path(originals: Path, tmp_path: Path) -> Path:
    for suffix in ("", ".idx"):
        shutil.copy(originals / f"good.urec{suffix}", tmp_path / f"good.urec{suffix}")
        shutil.copy(originals / f"other.urec{suffix}", tmp_path / f"other.urec{suffix}")
    return tmp_path / "good.urec"


def cut(size: float) -> Callable[[Path], None]:
    return lambda file: os.truncate(file, int(file.stat().st_size * size))


def grow(file: Path) -> None:
    with open(file, "ab") as opened:
        opened.write(b"more")


def write_over(file: Path) -> None:
    """Another part's bytes in the same file, as `cp` and `rsync --inplace` do it."""
    content = file.with_name(file.name.replace("good", "other")).read_bytes()
    with open(file, "r+b") as opened:
        opened.write(content)


def replace(file: Path) -> None:
    os.rename(file.with_name(file.name.replace("good", "other")), file)


CHANGES: dict[str, tuple[Callable[[Path], None], set[str]]] = {
    "cut to nothing": (cut(0), {STALE}),
    "cut in half": (cut(0.5), {STALE}),
    "grown": (grow, {STALE}),
    "written over": (write_over, {STALE}),
    "replaced": (replace, {RIGHT}),
    "removed": (os.unlink, {RIGHT}),
}


def in_child(
    path: Path, io: str, verify: str, meanwhile: Callable[[], None], read: Callable[..., str]
) -> str:
    """What a child process that has opened and read the part finds after ``meanwhile`` has happened."""
    tell, told = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 9
        faulthandler.disable()  # SIGBUS is one of the answers
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            ds = UniRecordDataset(path, io=io, verify=verify)
            if look(ds) == RIGHT:
                os.write(tell[1], b"o")
                os.read(told[0], 1)
                code = [RIGHT, STALE, BUS, WRONG].index(read(ds))
        finally:
            os._exit(code)
    os.close(tell[1])
    os.close(told[0])
    opened = os.read(tell[0], 1)
    meanwhile()
    if opened:
        os.write(told[1], b"g")
    os.close(tell[0])
    os.close(told[1])
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status == -signal.SIGBUS:
        return BUS
    assert 0 <= status < 4, status
    return [RIGHT, STALE, BUS, WRONG][status]


def look(ds: UniRecordDataset) -> str:
    """All rows, in three ways."""
    try:
        batch = ds.read_rows(np.arange(ROWS))
        one = ds[ROWS - 1]
        many = [b["x"][:, 0] for b in ds.batches(1000)]
    except (StaleError, CorruptionError):
        return STALE
    expected = np.arange(ROWS)
    good = np.array_equal(batch["label"], expected) and np.array_equal(batch["x"][:, 7], expected)
    good = good and one["label"] == ROWS - 1 and np.array_equal(np.concatenate(many), expected)
    return RIGHT if good else WRONG


@pytest.mark.parametrize("io", WAYS)
@pytest.mark.parametrize("suffix", ["", ".idx"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_two_reads_is_seen_or_has_no_effect(
    path: Path, io: str, suffix: str, change: str
) -> None:
    happen, expected = CHANGES[change]
    time.sleep(0.02)  # a file system's clock ticks every few milliseconds
    found = in_child(path, io, "first", lambda: happen(Path(f"{path}{suffix}")), look)
    assert found in ({RIGHT} if io == "memory" else expected), found


def keep_reading(ds: UniRecordDataset) -> str:
    found, last = RIGHT, False
    while found == RIGHT and not last:
        last = Path(f"{ds.path}.changed").exists()
        found = look(ds)
    return found


@pytest.mark.parametrize("io", WAYS)
@pytest.mark.parametrize("change", ["cut to nothing", "cut in half", "written over"])
def test_a_change_in_the_middle_of_reading_gives_no_wrong_value(path: Path, io: str, change: str) -> None:
    changers = []

    def meanwhile() -> None:  # the child, which has opened the files, goes on while this happens
        pid = os.fork()
        if pid == 0:
            time.sleep(0.1)
            CHANGES[change][0](path)
            Path(f"{path}.changed").touch()
            os._exit(0)
        changers.append(pid)

    found = in_child(path, io, "always", meanwhile, keep_reading)
    assert os.waitstatus_to_exitcode(os.waitpid(changers[0], 0)[1]) == 0
    allowed = {RIGHT} if io == "memory" else {STALE, BUS} if io == "mmap" else {STALE}
    assert found in allowed, found
