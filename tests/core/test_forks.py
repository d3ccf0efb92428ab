"""Forks beside threads and signals: a child waits for no lock of its parent's threads, and no interrupt is lost."""

from __future__ import annotations

import faulthandler
import gc
import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS
from writing import write

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.core import Range, WeakObjects, cached_property
from unirecord.snapshot.prefetch import Fetcher
from unirecord.storage import claim, requests
from unirecord.storage.system import Descriptor

ROWS = 300
LOCKS = (type(threading.Lock()), type(threading.RLock()))
OURS = ("unirecord", "threading", "concurrent.futures", "queue", "functools")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write(tmp_path / "set", {"n": "int64", "b": "bytes"}, [{"n": i, "b": bytes(20)} for i in range(ROWS)])
    return tmp_path / "set"


def in_child(work: Callable[[], object]) -> int:
    """How a forked child ends that does this; where it hangs, its stack is shown."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            faulthandler.dump_traceback_later(60, exit=True)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def locks_in(roots: list[Any]) -> list[Any]:
    """The locks that are reached from there by what this package, and the modules that it has locks from, refer to."""
    found, seen, left = [], set(), list(roots)
    while left:
        thing = left.pop()
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        if isinstance(thing, LOCKS):
            found.append(thing)
        elif isinstance(thing, (ModuleType, FunctionType)):
            continue
        elif isinstance(thing, (dict, list, tuple, set, frozenset)) or is_ours(thing):
            left += gc.get_referents(thing)
    return found


def is_ours(thing: Any) -> bool:
    name = thing.__module__ if isinstance(thing, type) else type(thing).__module__
    return isinstance(name, str) and name.startswith(OURS)


class Holding:
    """Another thread that holds these locks."""

    def __init__(self, locks: list[Any]) -> None:
        self.held, self._holds, self._end = 0, threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=(locks,))

    def _run(self, locks: list[Any]) -> None:
        held = [lock for lock in locks if lock.acquire(blocking=False)]
        self.held = len(held)
        self._holds.set()
        self._end.wait()
        for lock in held:
            lock.release()

    def __enter__(self) -> Holding:
        self._thread.start()
        self._holds.wait()
        return self

    def __exit__(self, *exception: object) -> None:
        self._end.set()
        self._thread.join()


def test_a_child_waits_for_no_lock_that_a_thread_of_its_parent_holds(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True)
    batches = ds.batches(8)
    under_way = iter(batches)
    assert len(next(under_way)["n"]) == 8
    chosen = UniRecordDataset(path, where="n >= 10")
    pipeline = ds.view().pipeline().map(lambda sample: sample["n"]).batch(4)
    assert len(list(pipeline)) == ROWS // 4
    file = Descriptor(str(path), os.O_RDONLY)

    def use_all() -> None:
        with UniRecordDataset(path, shuffle=True) as other:
            assert len(other[7]["b"]) == 20
            assert other.schema.names == ("n", "b")
            assert unirecord.describe(path).rows == ROWS
        assert len(ds[7]["b"]) == 20
        assert (len(ds), len(chosen), chosen.schema.names) == (ROWS, ROWS - 10, ("n", "b"))
        ds.set_epoch(3)
        assert sum(len(batch["n"]) for batch in ds.view().batches(8)) == ROWS
        assert sorted(sample["n"] for sample in ds.select([1, 2])) == [1, 2]
        assert len(UniRecordDataset(path, where="n < 10")) == 10
        ds.batches(8).stats()
        batches.stats()
        ds.state_dict()
        with Writer(path.with_name("own"), {"n": "int64"}) as writer:
            writer.write({"n": 1})
        file.close()
        gc.collect()
        ds.close()
        chosen.close()

    modules = [vars(module) for name, module in sys.modules.items() if name.partition(".")[0] == "unirecord"]
    with Holding(locks_in([*modules, ds, batches, under_way, chosen, pipeline, file])) as holding:
        assert holding.held > 5
        assert in_child(use_all) == 0
    assert file.number >= 0
    file.close()
    under_way.close()


class Slow:
    """Has a property that takes until another thread lets it end."""

    def __init__(self) -> None:
        self.begun, self.may_end = threading.Event(), threading.Event()

    @cached_property
    def value(self) -> object:
        """A new one each time."""
        self.begun.set()
        self.may_end.wait()
        return object()


def test_a_child_computes_a_property_that_a_thread_of_its_parent_is_computing() -> None:
    slow, other = Slow(), Slow()
    other.may_end.set()
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(slow.value))
    thread.start()
    slow.begun.wait()
    assert in_child(lambda: other.value) == 0
    slow.may_end.set()
    value = slow.value
    thread.join()
    assert found == [value]
    assert slow.value is value


def test_a_child_does_not_wait_for_what_its_parent_has_asked_a_store_for(path: Path) -> None:
    with pytest.raises(unirecord.UniRecordError, match="does not survive"):
        requests._awaited(Future(), process=-1)

    class Location:
        def read_ranges(self, wanted: list[Any], checked: bool) -> list[bytes]:
            return [bytes(size) for _, _, size in wanted]

    sizes = np.full((1, 2), 1 << 20)
    fetcher = Fetcher(Location(), checked=True, paths=["a"], sizes=sizes)  # type: ignore[arg-type]
    fetcher._heads[0] = []
    wanted = Range(0, True, 65536, 100)
    fetcher._coming[wanted] = Future()  # another thread's

    def ask() -> None:
        assert fetcher._of_index([wanted]) == [bytes(100)]

    assert in_child(ask) == 0


# A hook of a module that was there before, and one of the user's: logging's is such a one up to Python 3.12.
HOOKS = """
import os, signal, sys
finished, handled = [], []
def hook(name):
    os.kill(os.getpid(), signal.SIGALRM)
    sum(range(1000))
    finished.append(name)
def handle(number, frame):
    handled.append(number)
    raise TimeoutError("in the user's handler")
signal.signal(signal.SIGALRM, handle)
os.register_at_fork(
    before=lambda: hook("before"),
    after_in_parent=lambda: hook("parent"),
    after_in_child=lambda: hook("child") if sys.argv[2] == "child" else None,
)
import unirecord
ds = unirecord.UniRecordDataset(sys.argv[1], shuffle=True)
pid, seen = None, 0
try:
    pid = os.fork()
except TimeoutError:
    seen = 1
if "child" in finished:
    ds.set_epoch(2)
    os._exit(0 if (seen, finished, len(handled)) == (1, ["before", "child"], 1) and ds.epoch == 2 else 1)
if finished == ["before"]:
    os._exit(0 if pid == 0 and not handled else 1)
assert (seen, finished) == (1, ["before", "parent"]), (seen, finished)
assert signal.getsignal(signal.SIGALRM) is handle
assert os.waitpid(-1, 0)[1] == 0
assert len(handled) == 1
try:
    os.kill(os.getpid(), signal.SIGALRM)
except TimeoutError:
    print("the handler is back")
"""


@pytest.mark.parametrize("begun", ["at a terminal", "in the background"])
@pytest.mark.parametrize("side", ["parent", "child"])
def test_a_signal_in_a_hook_of_a_fork_is_raised_when_all_hooks_have_ended(
    path: Path, side: str, begun: str
) -> None:
    # A shell begins what runs in the background with Ctrl-C ignored.
    trap = "trap '' INT" if begun == "in the background" else "trap - INT"
    done = subprocess.run(
        ["bash", "-c", f'{trap}; exec "$@"', "bash", sys.executable, "-c", HOOKS, str(path), side],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "the handler is back\n", "")


INTERRUPTED = """
import os, signal, sys, time
import unirecord
ds = unirecord.UniRecordDataset(sys.argv[1], shuffle=True)
views = [ds.view(shuffle=True, seed=i) for i in range(1000)]
signal.signal(signal.SIGALRM, signal.default_int_handler)
seen = 0
for attempt in range(12):
    read, write = os.pipe()
    pid = 0
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0003 * (attempt + 1))
        pid = os.fork()
        if pid == 0:
            signal.setitimer(signal.ITIMER_REAL, 0)
            os.close(write)
            os.read(read, 1)
            os._exit(sum(view.epoch != 7 + attempt for view in views))
        time.sleep(60)
    except KeyboardInterrupt:
        seen += 1
    for view in views:
        view.set_epoch(7 + attempt)
    os.close(write)
    assert os.waitpid(-1, 0)[1] == 0
    os.close(read)
print(seen)
"""


def test_no_interrupt_beside_a_fork_is_lost_and_children_follow_their_parent(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(path)], capture_output=True, text=True, timeout=HANG_SECONDS
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "12\n", "")


def test_a_file_is_closed_in_a_child_and_its_number_is_not_the_childs_next_file(path: Path) -> None:
    file = Descriptor(str(path), os.O_RDONLY)
    number, inode = file.number, os.fstat(file.number).st_ino

    def look() -> None:
        # What other modules do in a forked child, as gRPC, may open another file, which has this number then.
        with suppress(OSError):
            assert os.fstat(number).st_ino != inode
        assert file.number == -1
        os.dup2(os.open(path, os.O_RDONLY), number)
        file.close()
        del globals()["kept"]
        os.fstat(number)

    globals()["kept"] = file
    assert in_child(look) == 0
    file.close()
    assert in_child(lambda: Descriptor(str(path), os.O_RDONLY)) == 0


class Thing:
    """Something that a claim may be held by."""

    place = claim.ClaimPlace()
    given_up = False

    def holds(self, file: os.stat_result) -> bool:
        """Never this file."""
        return False

    def discard(self) -> None:
        """Nothing to end."""


def things() -> Iterator[Thing]:
    while True:
        yield Thing()


def test_holders_are_looked_through_while_threads_add_and_drop_them() -> None:
    known: WeakObjects[Thing] = WeakObjects()
    kept = [Thing() for _ in range(50)]
    for thing in kept:
        known.add(thing)
    ended, errors = threading.Event(), []

    def add() -> None:
        try:
            for thing in things():
                known.add(thing)
                if ended.is_set():
                    return
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=add) for _ in range(3)]
    before, switch = sys.getswitchinterval(), sys.setswitchinterval
    switch(1e-6)
    for thread in threads:
        thread.start()
    try:
        for _ in range(3000):
            assert set(kept) <= set(known)
    finally:
        ended.set()
        for thread in threads:
            thread.join()
        switch(before)
    assert errors == []
    gc.collect()
    assert len(known) == len(kept) == len(list(known))
    del kept[:], thing
    gc.collect()
    assert len(known) == 0
