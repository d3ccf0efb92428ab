"""A reference to the C core: given up once, after all finalizers, before what it borrows; no signal is lost in it."""

from __future__ import annotations

import copy
import gc
import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS

from unirecord import Writer
from unirecord.core import BatchPool, Digesting, Order, wide_digests
from unirecord.core.library import Handle, ffi, lib
from unirecord.order.spec import OrderSpec


class Borrowed:
    """Something that can be watched."""


class Owner:
    """Holds a handle, in a cycle, and has a finalizer."""

    def __init__(self, handle: Handle, said: list[str]) -> None:
        self.handle, self.said, self.me = handle, said, self

    def __del__(self) -> None:
        self.said.append("finalizer")
        assert self.handle.pointer is not None


def watched(said: list[str]) -> Handle:
    borrowed = Borrowed()
    weakref.finalize(borrowed, said.append, "borrowed")
    return Handle(ffi.cast("ur_pool *", 0), lambda _: said.append("released"), borrowed)


def test_what_is_borrowed_goes_after_the_reference() -> None:
    said: list[str] = []
    handle = watched(said)
    assert said == []
    del handle
    assert said == ["released", "borrowed"]


def test_in_a_cycle_the_reference_goes_after_all_finalizers() -> None:
    said: list[str] = []
    handle = watched(said)
    owners = [Owner(handle, said) for _ in range(5)]
    for owner, other in zip(owners, owners[1:] + owners[:1], strict=True):
        owner.me = other
    del handle, owner, other, owners
    assert said == []
    gc.collect()
    assert said == ["finalizer"] * 5 + ["released", "borrowed"]


def test_who_comes_back_from_a_cycle_has_its_reference_still() -> None:
    said: list[str] = []
    kept: list[Any] = []

    class Lazarus(Owner):
        def __del__(self) -> None:
            kept.append(self)

    Lazarus(watched(said), said)
    gc.collect()
    assert len(kept) == 1
    assert said == []
    kept[0].me = None
    kept.clear()
    assert said == ["released", "borrowed"]


def test_references_are_neither_copied_nor_pickled() -> None:
    order = Order(10, OrderSpec.parse(True, 1, 0, 1, 1))
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="C core"):
            attempt(order.handle)  # type: ignore[operator]
    twin = copy.copy(order)
    del order
    assert sorted(twin.at(range(10)).tolist()) == list(range(10))


def test_lent_memory_stays_as_long_as_the_pool() -> None:
    memory = np.empty(1 << 16, np.uint8)
    gone = weakref.ref(memory)
    start = -memory.ctypes.data % 64
    pool = BatchPool(1)
    pool.lend(memory[start : start + (1 << 15)])
    del memory
    release = pool.releaser()
    assert gone() is not None
    del pool
    assert gone() is not None, "a batch is still there"
    del release
    assert gone() is None


def test_functions_that_release_run_no_bytecode() -> None:
    """So a signal that comes while C works is raised by the caller, not printed and lost by a destructor."""
    order = Order(10, OrderSpec.parse(True, 1, 0, 1, 1))
    calls: list[str] = []
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        del order
    finally:
        sys.setprofile(None)
    assert calls == []


def test_an_interrupt_while_digests_are_waited_for_is_raised() -> None:
    data = np.zeros(64 << 20, np.uint8)
    starts = np.arange(16, dtype=np.uint64) * np.uint64(4 << 20)
    lengths = np.full(16, 4 << 20, np.uint64)
    expected = wide_digests(data, starts, lengths, 1, 2)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for delay in range(1, 30):
            raised, digesting = False, None
            try:
                signal.setitimer(signal.ITIMER_REAL, delay / 2000)
                digesting = Digesting.of_ranges(data, starts, lengths, 1, 2)
                digesting.digests()
                threading.Event().wait(20)
            except KeyboardInterrupt:
                raised = True
            assert raised, "the interrupt was swallowed"
            if digesting is not None:
                assert all(map(np.array_equal, digesting.digests(), expected))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_forked_child_ends_digests_without_the_thread_that_computes_them() -> None:
    data = np.arange(1 << 20, dtype=np.uint64).view(np.uint8)
    starts, lengths = np.zeros(1, np.uint64), np.full(1, len(data), np.uint64)
    expected = wide_digests(data, starts, lengths, 3, 0)
    digesting = Digesting.of_ranges(data, starts, lengths, 3, 0)
    pid = os.fork()
    if pid == 0:
        signal.alarm(HANG_SECONDS)
        os._exit(0 if all(map(np.array_equal, digesting.digests(), expected)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert all(map(np.array_equal, digesting.digests(), expected))


def test_interpreters_end_with_handles_everywhere() -> None:
    code = """
import builtins, sys, threading
import numpy as np
from unirecord.core import BatchPool, Order
from unirecord.order.spec import OrderSpec
def order(): return Order(10, OrderSpec.parse(True, 1, 0, 1, 1))
class Late:
    def __init__(self): self.order, self.me = order(), self
    def __del__(self): assert sorted(self.order.at(range(10)).tolist()) == list(range(10))
here = order(); builtins.there = Late(); sys.modules["here"] = order(); late = Late(); BatchPool.left = BatchPool(2)
local = threading.local(); local.order = order(); Late()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_null_reference_is_given_up_as_well() -> None:
    del_me = Handle(ffi.cast("ur_digesting *", 0), lib.ur_digesting_end)
    del del_me


SUBINTERPRETER = """
import sys, warnings
try:
    import _xxsubinterpreters as interpreters
    run = interpreters.run_string
except ImportError:
    import _interpreters as interpreters
    run = interpreters.exec
try:
    made = interpreters.create(isolated=False)
except TypeError:
    made = interpreters.create()
run(made, '''
import warnings
warnings.simplefilter("ignore")
import unirecord
for name in ("UniRecordDataset", "Writer", "verify", "UniRecordDataset"):
    try:
        kept = getattr(unirecord, name)(PATH)
    except unirecord.UniRecordError as error:
        print(name, error, flush=True)
'''.replace("PATH", repr(sys.argv[1])))
"""


@pytest.mark.skipif(
    not importlib.util.find_spec("_xxsubinterpreters") and not importlib.util.find_spec("_interpreters"),
    reason="this Python has no subinterpreters that Python can start",
)
def test_subinterpreters_are_refused_and_the_process_ends(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"x": "int64"}) as writer:
        writer.write({"x": 1})
    done = subprocess.run(
        [sys.executable, "-c", SUBINTERPRETER, str(tmp_path / "a.urec")],
        capture_output=True,
        text=True,
        check=False,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert [line.split()[0] for line in said] == ["UniRecordDataset", "Writer", "verify", "UniRecordDataset"]
    assert all("this is a subinterpreter" in line for line in said)
