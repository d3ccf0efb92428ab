"""A transform that takes long when its loader is left: nobody waits for it, and what it works on stays as it is."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS
from heard_interrupts import interrupts_are_heard
from writing import write

import unirecord
import unirecord.torch
from unirecord import Pipeline, UniRecordDataset
from unirecord.core import left_at_work

ROWS, SIZE = 64, 8


@pytest.fixture(autouse=True)
def _heard() -> Iterator[None]:
    with interrupts_are_heard():
        yield


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = [{"i": i, "x": np.full(500, i, np.int32)} for i in range(ROWS)]
    write(tmp_path / "a.urec", {"i": "int64", "x": {"type": "int32", "shape": [500]}}, rows)
    return tmp_path / "a.urec"


class Slow:
    """A transform that does not go on before `go`, and then looks at its sample again."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Event(), threading.Semaphore(0)
        self.ended: list[bool] = []

    def __call__(self, sample: dict[str, Any]) -> int:
        before = sample["x"].copy()
        if sample["i"] >= SIZE:  # the first batch comes through
            self.begun.release()
            assert self.go.wait(HANG_SECONDS)
            self.ended.append(bool((sample["x"] == before).all() and (before == sample["i"]).all()))
        return int(sample["i"])

    def wait_for_all(self) -> None:
        """Until the threads that were left have ended."""
        self.go.set()
        for thread in list(left_at_work):
            thread.join(HANG_SECONDS)
            assert not thread.is_alive()


def kill_main() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)  # type: ignore[arg-type]


def interrupted_while_waiting(
    batches: Iterator[Any], slow: Slow, send: Callable[[], None] = kill_main
) -> None:
    """As by Ctrl-C, once the transform is at work on the batch that is waited for."""

    def interrupt() -> None:
        slow.begun.acquire()
        send()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        list(batches)


def closed(batches: Iterator[Any], slow: Slow) -> None:
    next(batches)
    slow.begun.acquire()
    batches.close()  # type: ignore[attr-defined]


def broken_off(batches: Iterator[Any], slow: Slow) -> None:
    with suppress(KeyboardInterrupt):
        for _ in batches:
            slow.begun.acquire()
            raise KeyboardInterrupt


LEAVING: list[Callable[[Iterator[Any], Slow], None]] = [interrupted_while_waiting, closed, broken_off]
LOADERS: dict[str, Callable[..., Any]] = {
    "batches": UniRecordDataset.batches,
    "torch": unirecord.torch.loader,
}


@pytest.mark.parametrize("close", [False, True], ids=["open", "dataset closed"])
@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("leave", LEAVING)
@pytest.mark.parametrize("loader", LOADERS)
def test_a_loader_is_left_while_its_transform_runs(
    path: Path, loader: str, leave: Callable[[Iterator[Any], Slow], None], workers: int, close: bool
) -> None:
    slow = Slow()
    ds = UniRecordDataset(path)
    batches = iter(LOADERS[loader](ds, SIZE, transform=slow, num_workers=workers))
    leave(batches, slow)
    del batches
    assert slow.ended == []  # else it has been waited for
    if close:
        ds.close()
    else:
        assert sum(len(batch["i"]) for batch in ds.batches(SIZE)) == ROWS  # in the memory that is free
    slow.wait_for_all()
    assert slow.ended
    assert all(slow.ended)
    assert len(slow.ended) <= workers * SIZE  # no batch was begun after that


def test_a_signal_that_does_not_end_the_wait_is_seen_all_the_same(path: Path) -> None:
    """One that comes just before the wait begins; this one only says that there was a signal."""
    slow = Slow()
    batches = iter(UniRecordDataset(path).batches(SIZE, transform=slow, num_workers=1))

    def note_a_signal() -> None:
        time.sleep(0.3)  # until the wait has begun
        _thread.interrupt_main()

    interrupted_while_waiting(batches, slow, note_a_signal)
    slow.wait_for_all()
    assert slow.ended


@pytest.mark.parametrize("workers", [1, 3])
def test_a_pipeline_is_left_while_an_operator_runs(path: Path, workers: int) -> None:
    slow = Slow()
    pipeline = UniRecordDataset(path).pipeline().map(slow, threads=workers).batch(SIZE)
    interrupted_while_waiting(iter(pipeline), slow)
    assert slow.ended == []
    slow.wait_for_all()
    assert slow.ended
    assert all(slow.ended)


def test_a_pipeline_is_left_while_a_generator_makes_its_next_element() -> None:
    slow = Slow()

    def make() -> Iterator[int]:
        for i in range(3):
            slow({"i": np.int64(SIZE + i), "x": np.full(1, SIZE + i)})
            yield i

    interrupted_while_waiting(iter(Pipeline.from_generators([make]).map(abs, threads=1)), slow)
    assert slow.ended == []
    slow.wait_for_all()
    assert slow.ended == [True]


SCRIPT = """
import os, signal, sys, threading
import unirecord
begun = threading.Event()
def slow(sample):
    begun.set()
    threading.Event().wait()
def interrupt():
    begun.wait()
    os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Thread(target=interrupt).start()
for batch in unirecord.UniRecordDataset(sys.argv[1], transform=slow).batches(8, num_workers=2):
    pass
"""


def test_a_script_ends_by_ctrl_c_whatever_its_transform_does(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(path)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode in (-signal.SIGINT, 130)
    assert done.stderr.rstrip().endswith("KeyboardInterrupt")
    assert "ignored" not in done.stderr


def test_verify_is_left_while_it_checks(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    def check(*_: object) -> list[Any]:
        os.kill(os.getpid(), signal.SIGINT)
        assert go.wait(HANG_SECONDS)
        return []

    monkeypatch.setitem(unirecord.verify.__globals__, "check_group", check)
    with pytest.raises(KeyboardInterrupt):
        unirecord.verify(path)
    assert [thread for thread in left_at_work if thread.is_alive()]
    go.set()
    for thread in list(left_at_work):
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
