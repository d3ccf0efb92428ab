"""A writer that dies or is failed by the system leaves what was last published, and nothing that the next one minds."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from writer_workloads import (
    NEW,
    OLD,
    SCHEMA,
    WORKLOADS,
    clean,
    names,
    numbers,
    prepare,
)
from writing import files, read, write

from unirecord.errors import BusyError, ClosedError
from unirecord.storage import system as store
from unirecord.writing.writer import Writer, append


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of small files are made here."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as folder:
        yield Path(folder)


def calls_of(tmp_path: Path, workload: str) -> list[str]:
    work, *_ = prepare(tmp_path / "count", workload)
    with faults.system(faults.count_only) as watched:
        work()
    return watched.names


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_writer_killed_at_any_call_leaves_the_last_dataset(
    tmp_path: Path, workload: str, torn: bool
) -> None:
    calls = calls_of(tmp_path, workload)
    assert len(calls) > 15
    for at, name in enumerate(calls, 1):
        if torn and name != "writev":
            continue
        work, path, before, after = prepare(tmp_path / f"{at}", workload)
        assert faults.killed(work, at, torn), at
        assert numbers(path) in (before, after), at
        clean(path, workload)


@pytest.mark.parametrize(("code", "forever"), [(errno.EIO, False), (errno.EIO, True), (errno.ENOSPC, False)])
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_call_that_fails_is_an_exception_and_loses_nothing(
    tmp_path: Path, workload: str, forever: bool, code: int
) -> None:
    for at in range(1, len(calls_of(tmp_path, workload)) + 1):
        work, path, before, after = prepare(tmp_path / f"{at}", workload)
        with faults.system(faults.fail_at(at, code, forever)):
            failed = error_of(work)
        seen = numbers(path)
        assert seen in (before, after), at
        assert (failed is None and seen == after) or failed == code, at
        assert left_open(tmp_path) == [], at
        clean(path, workload)


def error_of(work: Callable[[], None]) -> int | None:
    try:
        work()
    except OSError as error:
        return error.errno
    return None


def left_open(folder: Path) -> list[str]:
    """Files under ``folder`` that the process still has open."""
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue
        if name.startswith(f"{folder.resolve()}/"):
            found.append(name)
    return found


@pytest.mark.parametrize("workload", WORKLOADS)
def test_interrupted_calls_are_tried_again(tmp_path: Path, workload: str) -> None:
    work, path, _, after = prepare(tmp_path / "x", workload)
    seen: dict[str, int] = {}

    def fault(number: int, name: str) -> None:
        seen[name] = seen.get(name, 0) + 1
        if name in ("writev", "pwrite", "fsync", "flock") and seen[name] % 2:
            raise InterruptedError(errno.EINTR, "interrupted")

    with faults.system(fault):
        work()
    assert numbers(path) == after


def test_a_write_that_takes_only_some_bytes_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Short(store.OsCalls):
        def writev(self, fd: int, buffers: Any) -> int:
            return os.write(fd, next(memoryview(b).cast("B")[:7] for b in buffers if memoryview(b).nbytes))

        def pwrite(self, fd: int, buffer: Any, offset: int) -> int:
            return os.pwrite(fd, memoryview(buffer)[:5], offset)

    monkeypatch.setattr(store, "os_calls", Short())
    write(tmp_path / "x.urec", SCHEMA, NEW[:3])
    monkeypatch.undo()
    assert numbers(tmp_path / "x.urec") == names(NEW[:3])


def test_a_full_disk_is_an_exception_at_the_call_that_met_it(tmp_path: Path) -> None:
    schema = {"x": {"type": "uint8", "shape": [4096]}}
    writer = Writer(tmp_path / "x.urec", schema)
    batch = {"x": np.zeros((3_000, 4_096), np.uint8)}
    with faults.system(lambda n, name: _full() if name == "writev" else None):
        with pytest.raises(OSError, match="No space left") as caught:
            writer.write_batch(batch)
        assert caught.value.errno == errno.ENOSPC
        assert ".x.urec.tmp" in str(caught.value)
        with pytest.raises(ClosedError, match="has failed before"):
            writer.write_batch(batch)
        with pytest.raises(ClosedError, match="has failed before"):
            writer.close()
    assert files(tmp_path) == []


def _full() -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_exception_in_the_block_publishes_nothing(tmp_path: Path) -> None:
    for target in ("x.urec", "x"):
        with suppress(KeyError), Writer(tmp_path / target, SCHEMA) as writer:
            writer.write(NEW[0])
            raise KeyError
        assert files(tmp_path) == []


def test_nothing_is_visible_before_close(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.urec", {"x": "bytes"})
    for _ in range(5):
        writer.write({"x": bytes(5_000_000)})
    assert not (tmp_path / "x.urec").exists()
    writer.close()
    assert len(read(tmp_path / "x.urec")) == 5


@pytest.mark.parametrize("target", ["x.urec", "x"])
def test_the_old_dataset_stays_whole_until_the_new_one_is_complete(tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    write(path, SCHEMA, OLD)
    writer = Writer(path, SCHEMA, overwrite=True, max_part_bytes=None if path.suffix else 4_000)
    for row in NEW:
        writer.write(row)
    assert numbers(path) == names(OLD)
    writer.close()
    assert numbers(path) == names(NEW)


@pytest.mark.parametrize("target", ["x.urec", "x"])
def test_a_dropped_writer_cleans_up_and_says_so(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = Writer(tmp_path / target, SCHEMA)
    writer.write(NEW[0])
    del writer
    said = f"unirecord: {tmp_path / target}: a Writer with 1 row was dropped without close(): nothing was published"
    assert capsys.readouterr().err.startswith(said)
    assert files(tmp_path) == []


START = """
import ctypes, os, sys, multiprocessing
from unirecord import Writer
if sys.argv[2] == "late":  # something keeps the script's names until other modules have lost theirs, as PyTorch does
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(sys.modules["__main__"]))
def begin():
    writer = Writer(sys.argv[1], {"n": "int64"})
    writer.write({"n": 1})
    writer.write({"n": 2})
    return writer
def left_open():
    global kept
    kept = begin()
"""
DROPPED, ALIVE = "was dropped", "was alive when its process ended"
ENDS = {
    "alive at exit": ("kept = begin()", ALIVE),
    "sys.exit": ("kept = begin(); sys.exit(0)", ALIVE),
    "in a cycle": ("kept = []; kept += [kept, begin()]; del kept", ALIVE),
    "after a caught exception": ("def f():\n w = begin(); 1 / 0\ntry: f()\nexcept ArithmeticError: pass", DROPPED),
    "in a worker": ("p = multiprocessing.get_context('fork').Process(target=left_open); p.start(); p.join()", ALIVE),
    "closed": ("kept = begin(); kept.close()", None),
    "aborted": ("kept = begin(); kept.abort()", None),
    "left by an exception": ("with begin(): 1 / 0", None),
    "ended by an exception that is shown": ("kept = begin(); 1 / 0", None),
    "in a forked child": ("kept = begin()\nif os.fork() == 0: sys.exit(0)\nos.wait(); kept.close()", None),
}  # fmt: skip


@pytest.mark.parametrize("names_go", ["early", "late"])
@pytest.mark.parametrize("end", ENDS)
def test_rows_that_were_never_published_are_said_once(tmp_path: Path, end: str, names_go: str) -> None:
    code, how = ENDS[end]
    path = tmp_path / "x.urec"
    done = subprocess.run(
        [sys.executable, "-c", START + code, str(path), names_go], capture_output=True, text=True, check=False
    )
    assert "ignored" not in done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("unirecord:")]
    expected = f"unirecord: {path}: a Writer with 2 rows {how} without close(): nothing was published; use"
    assert [line[: len(expected)] for line in said] == ([expected] if how else []), done.stderr
    assert files(tmp_path) == (["x.urec", "x.urec.idx"] if path.exists() else [])
    assert path.exists() == (end in ("closed", "in a forked child"))


@pytest.mark.parametrize("target", ["x.urec", "x"])
def test_a_second_writer_is_told_that_the_first_is_alive(tmp_path: Path, target: str) -> None:
    first = Writer(tmp_path / target, SCHEMA)
    with pytest.raises(BusyError, match=target):
        Writer(tmp_path / target, SCHEMA)
    first.write(NEW[0])
    first.close()
    assert numbers(tmp_path / target) == names(NEW[:1])
    write(tmp_path / target, SCHEMA, OLD, overwrite=True)
    assert numbers(tmp_path / target) == names(OLD)


HOLDS = """
import sys, time
from unirecord import Writer
writer = Writer(sys.argv[1], {"x": "bytes"}, overwrite=True)
for i in range(4):
    writer.write_batch({"x": [bytes(9_000_000)]})
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("target", ["x.urec", "x"])
def test_a_writer_killed_by_a_signal_holds_no_lock(tmp_path: Path, target: str) -> None:
    path = tmp_path / target
    write(path, SCHEMA, OLD)
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with pytest.raises(BusyError):
            Writer(path, SCHEMA, overwrite=True)
        process.kill()
        process.wait()
    assert numbers(path) == names(OLD)
    clean(path, target)


def test_the_child_of_a_fork_leaves_the_writer_alone(tmp_path: Path) -> None:
    for target in ("x.urec", "x"):
        writer = Writer(tmp_path / target, SCHEMA)
        writer.write(NEW[0])
        child = os.fork()
        if child == 0:
            try:
                writer.write(NEW[1])  # only takes it into its own memory
                writer.close()
            except ClosedError:
                writer.abort()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        writer.close()
        assert numbers(tmp_path / target) == names(NEW[:1])


def test_files_that_are_not_ours_are_never_touched(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, SCHEMA, OLD)
    mine = ["notes.txt", "part-000000.urec", ".other.tmp", "part-1-12345678.urec", "x.urec"]
    for name in mine:
        (path / name).write_text("mine")
    write(path, SCHEMA, NEW, overwrite=True)
    with append(path) as writer:
        writer.write(NEW[0])
    assert [name for name in mine if (path / name).read_text() != "mine"] == []
    assert numbers(path) == names(NEW) + names(NEW[:1])


def test_what_a_dead_writer_left_in_a_directory_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, SCHEMA, OLD)
    for name in (".part-000009-0a0b0c0d.urec.tmp", ".manifest.json.tmp", "part-000009-0a0b0c0d.urec"):
        (path / name).write_text("torn")
    with append(path) as writer:
        writer.write(NEW[0])
    assert len(files(path)) == 6  # two parts of two files, the manifest, and that of version 1
    assert numbers(path) == names(OLD) + names(NEW[:1])
