"""Ctrl-C anywhere in writing, publishing, aborting: the old dataset or the new one is whole, the next writer works.

Every 97th tick (see interrupts.py) is interrupted, of the two longest changes every 293rd; every 41st in `make
sweeps`, every one with `UNIRECORD_INTERRUPTS=1`. Kills and failing system calls: test_writer_crash.py.
"""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sweeps import stride
from writer_workloads import WORKLOADS, clean, numbers, prepare
from writing import write

import unirecord
from unirecord.storage import system

SUPPORT = Path(__file__).parents[1] / "support"
EVERY = bool(os.environ.get("UNIRECORD_INTERRUPTS"))
STEP = 1 if EVERY else stride(41, 97)
# Of changes of which there are the most ticks, each run of which takes the longest.
LONG_STEP = 1 if EVERY else stride(41, 293)
LONG = ("purge", "add columns")


Runs = Callable[..., tuple[int, int]]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    """Of a workload, a step and one for what follows an interrupt: how many runs, and how many had two interrupts."""
    program = [sys.executable, str(SUPPORT / "interrupts_at_work.py")]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def run(workload: str, step: int, again: int = 0) -> tuple[int, int]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps([workload, step, again]) + "\n")
            process.stdin.flush()
            runs, twice, wrong = json.loads(process.stdout.readline())
            assert not wrong, wrong
            return runs, twice

        yield run


@pytest.mark.parametrize("workload", WORKLOADS)
def test_an_interrupt_anywhere_leaves_the_old_or_the_new_dataset(runs: Runs, workload: str) -> None:
    assert runs(workload, STEP)[0] > 1_000 // STEP


@pytest.mark.parametrize("work", ["lost index", "lost manifest", "wrong sizes", "refresh"])
def test_an_interrupt_anywhere_in_repair_and_refresh_loses_nothing(runs: Runs, work: str) -> None:
    assert runs(work, STEP)[0] > 50 // STEP


@pytest.mark.parametrize(
    "change",
    ["restore", "gc", "delete", "evict", "purge", "sort", "add columns", "rename columns", "set"],
)
def test_an_interrupt_anywhere_in_a_change_leaves_whole_versions(runs: Runs, change: str) -> None:
    step = LONG_STEP if change in LONG else STEP
    assert runs(change, step)[0] > 300 // step


@pytest.mark.parametrize(
    ("workload", "strides"),
    [("overwritten part", (163, 41)), ("append", (329, 81)), ("lost manifest", (41, 7))],
)
def test_a_second_interrupt_while_the_first_is_handled_loses_nothing(
    runs: Runs, workload: str, strides: tuple[int, int]
) -> None:
    assert runs(workload, *(strides if STEP > 1 else (1, 1)))[1] > 10


class After(system.OsCalls):
    """Does the `at`-th call of a kind, and then raises."""

    def __init__(self, kind: str, at: int, error: BaseException) -> None:
        self.kind, self.left, self.error = kind, at, error

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or name in ("kind", "left", "error", "fsync") or name != self.kind:
            return (lambda fd: None) if name == "fsync" else found

        def call(*arguments: Any) -> Any:
            result = found(*arguments)
            self.left -= 1
            if self.left == 0:
                raise self.error
            return result

        return call


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.EIO, "i/o error")], ids=["interrupt", "error"]
)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_rename_that_took_effect_and_raises_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workload: str, error: BaseException
) -> None:
    outcomes = []
    for at in range(1, 20):
        work, path, before, after = prepare(tmp_path / f"{at}", workload)
        calls = After("rename", at, error)
        monkeypatch.setattr(system, "os_calls", calls)
        with suppress(type(error)):
            work()
        monkeypatch.undo()
        seen = numbers(path)
        assert seen in (before, after)
        if seen is not None:
            assert unirecord.verify(path).problems == []
        outcomes.append(seen == after)
        clean(path, workload)
        if calls.left > 0:
            break
    assert len(outcomes) > 3
    assert outcomes[-1]
    if isinstance(error, OSError):
        assert all(outcomes)  # the new name stands: it was no error


def test_a_failed_sync_after_publication_says_that_the_new_dataset_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoSync(system.OsCalls):
        renamed = False

        def rename(self, source: str, target: str) -> None:
            super().rename(source, target)
            self.renamed = self.renamed or target.endswith("/x")

        def fsync(self, fd: int) -> None:
            if self.renamed:
                raise OSError(errno.EIO, "i/o error")

    monkeypatch.setattr(system, "os_calls", NoSync())
    writer = unirecord.Writer(tmp_path / "x", {"s": "string"})
    writer.write({"s": "a"})
    with pytest.raises(OSError, match="the new file has this name, but its folder could not be synced"):
        writer.close()
    with pytest.raises(unirecord.ClosedError, match="failed before, after it had published"):
        writer.close()
    monkeypatch.undo()
    assert numbers(tmp_path / "x") == ["a"]


def test_an_abort_removes_no_part_that_a_manifest_names(tmp_path: Path) -> None:
    """Whatever the writer believes of itself."""
    write(tmp_path / "x", {"s": "string"}, [{"s": "a"}])
    writer = unirecord.append(tmp_path / "x")
    target: Any = writer._target
    target._parts.named += [path.name for path in (tmp_path / "x").glob("part-*.urec")]
    writer.abort()
    assert numbers(tmp_path / "x") == ["a"]


def test_a_block_that_is_interrupted_where_it_ends_leaves_no_writer_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: unirecord.Writer) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(unirecord.Writer, "close", interrupted)
    with pytest.raises(KeyboardInterrupt), unirecord.Writer(tmp_path / "x", {"s": "string"}) as writer:
        writer.write({"s": "a"})
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []
    write(tmp_path / "x", {"s": "string"}, [{"s": "b"}])
    assert numbers(tmp_path / "x") == ["b"]
    writer.abort()
    assert numbers(tmp_path / "x") == ["b"]
