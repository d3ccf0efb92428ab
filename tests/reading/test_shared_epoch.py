"""The epoch in other processes: shared by every fork and spawn, in a page for thousands, without a word after."""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from writing import write

from unirecord import UniRecordDataset
from unirecord.dataset.position import SharedEpoch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "a.urec", {"x": "int64"}, [{"x": i} for i in range(50)])
    return tmp_path / "a.urec"


def descriptors() -> int:
    """Of this process: garbage of other tests holds some as well, which go at any time."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_derived_datasets_hold_no_descriptors(path: Path) -> None:
    ds = UniRecordDataset(path)
    assert ds[0]
    before = descriptors()
    kept = [ds.select([i % 50]) for i in range(2000)]
    kept += [half for _ in range(500) for half in ds.split([0.5, 0.5])]
    assert descriptors() <= before + 2  # of a page of epochs, where the one before has become full
    assert [len(one) for one in kept[:3]] == [1, 1, 1]


def answer(epochs: list[SharedEpoch], pipe: Connection) -> None:
    """Says what the epochs are whenever asked, and sets the last one when told to."""
    while (asked := pipe.recv()) is not None:
        if asked >= 0:
            epochs[-1].set(asked)
        pipe.send([epoch.get() for epoch in epochs])


@contextlib.contextmanager
def process(method: str, epochs: list[SharedEpoch]) -> Iterator[Connection]:
    """A process that has been given the epochs; the end of a pipe to it."""
    context: Any = multiprocessing.get_context(method)
    mine, its = context.Pipe()
    worker = context.Process(target=answer, args=(epochs, its))
    worker.start()
    yield mine
    mine.send(None)
    worker.join()
    assert worker.exitcode == 0


def ask(pipe: Connection, value: int = -1) -> list[int]:
    pipe.send(value)
    found: list[int] = pipe.recv()
    return found


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_is_set_reaches_every_process(method: str) -> None:
    epochs = [SharedEpoch(k) for k in range(3)]
    with process(method, epochs) as worker:
        assert ask(worker) == [0, 1, 2]
        epochs[1].set(7)
        assert ask(worker) == [0, 7, 2]
        assert ask(worker, 9) == [0, 7, 9]
        assert [epoch.get() for epoch in epochs] == [0, 7, 9]


def test_forked_and_spawned_processes_share_the_same_epoch() -> None:
    early, late = SharedEpoch(1), None
    with process("fork", [early]) as first:
        late = SharedEpoch(2)
        with process("spawn", [early, late]) as second, process("fork", [early, late]) as third:
            early.set(5)
            late.set(6)
            assert (ask(first), ask(second), ask(third)) == ([5], [5, 6], [5, 6])


def test_epochs_of_one_page_reach_a_spawned_process_together() -> None:
    epochs = [SharedEpoch(k) for k in range(2)]
    with process("fork", epochs) as first, process("spawn", epochs) as second:
        epochs[1].set(4)
        assert (ask(first), ask(second)) == ([0, 4], [0, 4])


def test_a_child_shares_its_own_epochs_with_its_children_alone() -> None:
    epoch = SharedEpoch(3)
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            own = SharedEpoch(8)
            with process("fork", [epoch, own]) as worker:
                own.set(9)
                os.write(write, bytes(ask(worker)))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(read, 10) == bytes([3, 9])
    assert epoch.get() == 3
    os.close(read)
    os.close(write)


def test_pickled_for_anything_but_a_process_it_is_a_copy() -> None:
    epoch = SharedEpoch(4)
    copy = pickle.loads(pickle.dumps(epoch))
    epoch.set(5)
    assert copy.get() == 4


def fork_once() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def test_descriptors_are_given_back_with_the_last_epoch_of_a_fork() -> None:
    fork_once()
    first = SharedEpoch(0)
    before = descriptors()
    epochs = [SharedEpoch(k) for k in range(100)]
    assert descriptors() <= before
    fork_once()
    epochs += [SharedEpoch(k) for k in range(100)]
    assert (
        descriptors() == before + 2
    )  # none of them lies where a child has its own; a map has a copy of each
    del epochs
    fork_once()
    first = SharedEpoch(first.get())
    assert descriptors() <= before


def test_no_two_epochs_of_a_fork_have_a_cell_in_common() -> None:
    kept = SharedEpoch(1)
    read, write = os.pipe()
    pid = os.fork()
    mine = [SharedEpoch(10), SharedEpoch(11)]
    if pid == 0:
        mine[1].set(99)
        kept.set(5)
        os.write(write, bytes(epoch.get() for epoch in mine))
        os._exit(0)
    os.waitpid(pid, 0)
    assert ([epoch.get() for epoch in mine], kept.get(), os.read(read, 9)) == ([10, 11], 5, bytes([10, 99]))
    os.close(read)
    os.close(write)


def test_without_a_free_descriptor_a_fork_shares_and_a_spawn_is_refused() -> None:
    # In a process of its own: at a fork without descriptors, libraries that other tests have loaded abort the child.
    code = """
import multiprocessing, os, resource
from unirecord.dataset.position import SharedEpoch
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
epoch = SharedEpoch(1)
pid = os.fork()
if pid == 0:
    epoch.set(6)
    os._exit(0)
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
assert os.waitpid(pid, 0)[1] == 0
assert epoch.get() == 6
try:
    multiprocessing.get_context("spawn").Process(target=print, args=(epoch,)).start()
except OSError as error:
    print(error, flush=True)
# As it advises: opened again under the higher limit.
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=print, args=(SharedEpoch(1),))
    child.start()
    child.join()
    assert child.exitcode == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "open the dataset again, or raise the limit on open files (ulimit -n)" in done.stdout
    assert "SharedEpoch object" in done.stdout


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(0)", "ds.me = ds", "import os; os.fork() or os._exit(0)"]
)
def test_a_script_ends_without_a_word(path: Path, ending: str) -> None:
    code = f"""
import unirecord, builtins
ds = unirecord.UniRecordDataset({str(path)!r}, shuffle=True)
part = ds.take(10)
builtins.kept = ds.select([1, 2])
for epoch in range(2):
    ds.set_epoch(epoch)
    for batch in ds.batches(8): pass
{ending}
"""
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
