"""Objects in cycles, dropped at every moment, by threads, forks and the interpreter's end: no crash, hang or word.

`python tests/core/test_lifetimes.py CASE FOLDER COLLECTING` runs one case.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS

from unirecord import ClosedError, UniRecordDataset, Writer
from unirecord.core import BatchPool, NativeLoader, Order
from unirecord.order.spec import OrderSpec
from unirecord.pipeline.scheduler import WorkerPool
from unirecord.snapshot.part_set import PartSet, resolve

ROWS = 600
SCHEMA = {"label": "int64", "x": {"type": "uint8", "shape": [40]}, "name": "string?", "blob": "bytes"}


def prepare(folder: Path) -> None:
    with Writer(folder / "many", SCHEMA, max_part_bytes=10_000) as writer:
        for i in range(ROWS):
            x = np.full(40, i % 256, np.uint8)
            writer.write(
                {"label": i, "x": x, "name": None if i % 3 else f"n{i}", "blob": bytes([i % 256]) * (i % 90)}
            )


def opened(folder: Path, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(folder / "many", **{"shuffle": True, **options})


def is_right(sample: Any) -> bool:
    label = int(sample["label"])
    return (
        (sample["x"] == label % 256).all()
        and sample["name"] == (None if label % 3 else f"n{label}")
        and sample["blob"] == bytes([label % 256]) * (label % 90)
    )


def are_right(batch: Any) -> bool:
    samples = (dict(zip(batch, values, strict=True)) for values in zip(*batch.values(), strict=True))
    return all(is_right({**sample, "blob": bytes(sample["blob"])}) for sample in samples)


class Cycle:
    """Refers to itself and to what it is given, which its finalizer uses."""

    def __init__(self, use: Callable[[], object], *held: object) -> None:
        self.use, self.held, self.me = use, held, self

    def __del__(self) -> None:
        self.use()


# ---- cases: everyday forms -----------------------------------------------------------------------------------------


def an_error_is_kept_by_the_trainer(folder: Path) -> None:
    class Trainer:
        def fit(self, ds: UniRecordDataset, **options: Any) -> None:
            batches = iter(ds.batches(16, **options))
            try:
                for step, _ in enumerate(batches):
                    if step == 3:
                        raise ValueError("the loss is NaN")
            except ValueError as error:
                self.error = error

    ds = opened(folder)
    for _ in range(60):
        Trainer().fit(ds)
        Trainer().fit(ds, num_threads=1, batch_transform=lambda batch: batch, num_workers=2)


def iterators_are_left_in_cycles(folder: Path) -> None:
    for number in range(80):
        iterator = iter(opened(folder, shuffle=number % 2 > 0).batches(32))
        for _ in range(number % 5):
            next(iterator)
        Cycle(lambda: None, iterator)


def a_dataset_is_open_in_a_generator(folder: Path) -> None:
    def samples() -> Iterator[Any]:
        with UniRecordDataset(folder / "many") as ds:
            yield from (ds[i] for i in range(len(ds)))

    for _ in range(150):
        iterator = samples()
        assert is_right(next(iterator))
        Cycle(lambda: None, iterator)


def finalizers_read(folder: Path) -> None:
    right: list[bool] = []
    for _ in range(60):
        ds = opened(folder)
        Cycle(lambda ds=ds: right.append(is_right(ds[3])), ds)
        batch = next(iter(ds.batches(8)))
        Cycle(lambda batch=batch: right.append(are_right(batch)), batch)
        iterator = iter(ds.batches(8))  # which the collector may end first
        Cycle(lambda iterator=iterator: right.extend(map(are_right, iterator)), iterator)
        del ds, batch, iterator
    gc.collect()
    assert len(right) >= 120
    assert all(right)


def finalizers_draw_while_threads_are_given_work(folder: Path) -> None:
    """At every line at which the collector could run them: of a hand-over, of the start of a thread, of waiting."""
    ds = opened(folder)
    seen: set[tuple[str, int]] = set()

    def batches() -> Iterator[int]:
        return iter(ds.batches(100, batch_transform=lambda batch: len(batch["label"]), num_workers=2))

    def at_a_line(frame: Any, event: str, _: object) -> Any:
        place = frame.f_code.co_filename, frame.f_lineno
        if event == "line" and place not in seen:
            seen.add(place)
            assert next(batches()) == 100
        return at_a_line

    def at_a_call(frame: Any, *_: object) -> Any:
        name = frame.f_code.co_filename
        return at_a_line if name.endswith("scheduler.py") else None

    sys.settrace(at_a_call)
    for _ in range(3):
        assert sum(batches()) == ROWS
    sys.settrace(None)
    assert len(seen) > 20


# ---- cases: every object -------------------------------------------------------------------------------------------


def uses(folder: Path) -> dict[str, Callable[[], object]]:
    """For every public object something that uses all of it; what it closes over is the object alone."""
    ds, derived, loader = opened(folder), opened(folder).select(range(0, ROWS, 7)), opened(folder).batches(50)
    samples, batches = iter(opened(folder)), iter(opened(folder).batches(64, num_threads=2))
    transformed = iter(opened(folder, transform=lambda sample: sample["label"]).batches(16, num_workers=2))
    scalars, table = opened(folder).scalars(), opened(folder).read_rows(np.arange(50))
    found = opened(folder, where="label >= 100 and name like 'n1%'")
    next(samples), next(batches), next(transformed)
    return {
        "dataset": lambda: [is_right(ds[i]) for i in range(20)] + list(ds.batches(100)),
        "derived": lambda: derived.__getitems__(range(10)) + list(derived),
        "loader": lambda: (list(loader), loader.stats()),
        "samples": lambda: [is_right(sample) for sample in samples],
        "batches": lambda: [are_right(batch) for batch in batches],
        "transformed": lambda: list(transformed),
        "scalars": lambda: int(scalars["label"].sum()),
        "table": lambda: are_right(table),
        "found": lambda: (found.scalars(["name"]), found[0], found.state_dict(), repr(found)),
        "closed": ds.close,
    }


def every_object_is_used_by_finalizers(folder: Path) -> None:
    """In one cycle, so that they come in any order, and some after the dataset has been closed."""
    for turn in range(6):
        actions = list(uses(folder).values())
        actions = actions[turn:] + actions[:turn]

        def use(actions: list[Callable[[], object]] = actions) -> None:
            for action in actions:
                with contextlib.suppress(ClosedError):
                    action()

        Cycle(use, actions)
        for action in actions:
            Cycle(lambda action=action: suppressed(action), actions)
        del actions, use, action
        gc.collect()


def suppressed(action: Callable[[], object]) -> None:
    with contextlib.suppress(ClosedError):
        action()


def loaders_are_dropped_at_every_moment(folder: Path) -> None:
    for options in ({}, {"batch_transform": len, "num_workers": 2}):
        for count in range(30):
            iterator = iter(
                opened(folder).select(np.arange(ROWS)[::-1]).batches(20, num_threads=3, **options)
            )
            for _ in range(count):
                next(iterator)
            del iterator


def a_loader_is_dropped_without_close(folder: Path) -> None:
    """Its threads read the selection and the order, which nobody else holds."""
    parts = PartSet(resolve(folder / "many"))
    for _ in range(100):
        native = parts.open_loader(
            order=Order(ROWS, OrderSpec.parse(True, 1, 0, 1, 1)), selection=np.random.default_rng(1).permutation(ROWS),
            selection_start=0, selection_step=1, first=0, stride=1, samples=ROWS, columns=[0, 1], pool=BatchPool(2),
            batch_size=7, drop_last=False, prefetch=8, threads=3, skip_corrupt=False,
        )  # fmt: skip
        assert native.next() is not None
        Cycle(lambda native=native: native.next(), native)
        del native


def arrays_outlive_everything(folder: Path) -> None:
    kept = []
    for k in range(40):
        ds = opened(folder)
        kept.append(list(ds.batches(50))[k % 12])
        kept.append(ds.read_rows(np.arange(k, k + 20)))
        kept.append({"label": ds.scalars()["label"]})
        ds.close()
        del ds
        gc.collect()
    assert all(are_right(batch) for batch in kept if "x" in batch)
    assert all(batch["label"].sum() == ROWS * (ROWS - 1) // 2 for batch in kept if "x" not in batch)


# ---- cases: threads, interrupts, forks, the end --------------------------------------------------------------------


def threads_leave_cycles(folder: Path) -> None:
    shared = opened(folder)

    def work(seed: int) -> None:
        for turn in range(12):
            iterator = iter(shared.batches(16, num_threads=2, batch_transform=len if turn % 2 else None))
            next(iterator)
            mine = opened(folder, seed=seed)
            drawn = iter(mine.batches(16, num_threads=2))
            Cycle(lambda mine=mine, drawn=drawn: (mine[1], next(drawn, None)), iterator, mine)
            del iterator, mine, drawn

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def the_collector_runs_in_a_transforming_thread(folder: Path) -> None:
    """It takes the iteration that the thread works for, whose end would wait for the thread itself."""
    waiting, go = threading.Event(), threading.Event()

    def transform(batch: Any) -> Any:
        if threading.current_thread() is not threading.main_thread() and not waiting.is_set():
            waiting.set()
            go.wait()
            gc.collect()
        return batch

    def leave() -> None:
        iterator = iter(opened(folder).batches(16, batch_transform=transform, num_workers=1))
        starter = threading.Thread(target=lambda: suppressed(lambda: next(iterator)), daemon=True)
        cycle: list[Any] = [iterator]
        cycle.append(cycle)
        del starter
        # the first batch is in work; this thread stops waiting for it as a Ctrl-C would make it
        signal.signal(signal.SIGALRM, interrupted)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with contextlib.suppress(KeyboardInterrupt):
            next(iterator)

    def interrupted(*_: object) -> None:
        if not waiting.is_set():  # the machine is busy, and the batch not in work yet
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            return
        go.set()
        raise KeyboardInterrupt

    leave()
    gc.collect()
    assert waiting.is_set()


def an_interrupt_comes_while_threads_are_waited_for(folder: Path) -> None:
    """The threads of C have ended all the same."""

    wait, begin = WorkerPool.leave, NativeLoader.__init__
    made: list[NativeLoader] = []

    def begin_and_keep(native: NativeLoader, *args: Any, **options: Any) -> None:
        begin(native, *args, **options)
        made.append(native)

    def leave(worker_pool: WorkerPool) -> bool:
        wait(worker_pool)
        raise KeyboardInterrupt

    WorkerPool.leave = leave  # type: ignore[method-assign]
    NativeLoader.__init__ = begin_and_keep  # type: ignore[method-assign]
    for _ in range(10):
        iterator: Any = iter(opened(folder).batches(16, num_threads=3, batch_transform=len))
        next(iterator)
        kept = made.pop()
        with contextlib.suppress(KeyboardInterrupt):
            iterator.close()
            raise AssertionError
        with contextlib.suppress(ClosedError):
            kept.next()
            raise AssertionError


def children_inherit_iterators(folder: Path) -> None:
    ds = opened(folder)
    for number in range(6):
        plain, transformed = iter(ds.batches(16)), iter(ds.batches(16, batch_transform=len, num_workers=2))
        own = iter(ds)
        next(plain), next(transformed), next(own)
        pid = os.fork()
        if pid == 0:
            signal.alarm(HANG_SECONDS)
            for foreign in (plain, transformed):
                if number % 3 == 0:
                    with contextlib.suppress(ValueError):
                        next(foreign)
                        raise AssertionError("a loader of the parent was used")
            if number % 2:
                Cycle(lambda: None, plain, transformed)
            del plain, transformed, foreign
            gc.collect()
            assert all(map(is_right, own))
            assert sum(len(batch["label"]) for batch in ds.batches(50)) == ROWS
            sys.exit(0)  # as a script ends, not as multiprocessing does
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert all(map(are_right, plain))
        assert len(list(transformed)) == -(-ROWS // 16) - 1


def children_inherit_iterators_in_use(folder: Path) -> None:
    """Other threads are in the middle of them."""
    ds, stop = opened(folder), threading.Event()

    def read() -> None:
        while not stop.is_set():
            for batch in ds.batches(16, num_threads=2):
                assert are_right(batch)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(6):
        pid = os.fork()
        if pid == 0:
            signal.alarm(HANG_SECONDS)
            gc.collect()
            ok = sum(len(batch["label"]) for batch in ds.batches(50)) == ROWS
            os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    stop.set()
    for thread in threads:
        thread.join()


def the_interpreter_ends_with_everything_alive(folder: Path) -> None:
    import atexit
    import builtins

    kept = uses(folder)
    builtins.kept = kept  # type: ignore[attr-defined]
    sys.modules["kept"] = kept["batches"]  # type: ignore[assignment]
    iterator = iter(opened(folder).batches(8, num_threads=2))
    next(iterator)
    atexit.register(lambda: next(iterator))
    Cycle(lambda: None, iterator, kept).me = None
    later = Cycle(lambda: None, *kept.values())
    globals()["later"] = later
    threading.Thread(
        target=lambda: [list(opened(folder).batches(9)) for _ in range(10**6)], daemon=True
    ).start()


ALL = [
    an_error_is_kept_by_the_trainer,
    iterators_are_left_in_cycles,
    a_dataset_is_open_in_a_generator,
    finalizers_read,
    finalizers_draw_while_threads_are_given_work,
    every_object_is_used_by_finalizers,
    loaders_are_dropped_at_every_moment,
    a_loader_is_dropped_without_close,
    arrays_outlive_everything,
    threads_leave_cycles,
    the_collector_runs_in_a_transforming_thread,
    an_interrupt_comes_while_threads_are_waited_for,
    children_inherit_iterators,
    children_inherit_iterators_in_use,
    the_interpreter_ends_with_everything_alive,
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lifetimes")
    prepare(folder)
    return folder


@pytest.mark.parametrize("collecting", ["at every step", "now and then"])
@pytest.mark.parametrize("case", [case.__name__ for case in ALL])
def test_nothing_crashes_hangs_or_complains(folder: Path, case: str, collecting: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__, case, str(folder), collecting],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


if __name__ == "__main__":
    if sys.argv[3] == "at every step":
        gc.set_threshold(1, 1, 1)
    next(case for case in ALL if case.__name__ == sys.argv[1])(Path(sys.argv[2]))
    gc.collect()


COLLECTED = """
import gc, os, sys
import numpy as np

from unirecord.core import append, codec, foreign, output, pictures, strings
memory = bytearray(b"some text, 4;" * 4000)
ends = np.arange(0, 4001, 13, np.int64)
empty = os.open(os.devnull, os.O_WRONLY)
calls = {
    "xxh3_64": lambda view: output.xxh3_64(view),
    "crc32c": lambda view: output.crc32c(view),
    "digest_ranges": lambda view: output.digest_ranges(view, ends[:2], ends[:2], 0, 1),
    "digests of cells": lambda view: output.Digesting.of_cells([view, view], 0, 1).digests(),
    "append": lambda view: append(empty, [view, view]),
    "dictionary": lambda view: codec.train_dictionary(2, 1, [view[:1000]] * 50, 4096),
    "find_records": lambda view: foreign.find_records(view),
    "csv": lambda view: foreign.look_through_csv(view, ",", 2),
    "strings": lambda view: strings.extreme_strings(view, ends, None),
    "picture": lambda view: pictures.read_jpeg_header(view),
}
def broken_off(call, at):
    view = memoryview(memory)[10:]
    seen = 0
    def profile(frame, event, function):
        nonlocal seen
        if event == "c_call" and function is not sys.setprofile:
            seen += 1
            if seen == at:
                raise KeyboardInterrupt
    sys.setprofile(profile)
    try:
        call(view)
        return True
    except KeyboardInterrupt as interrupt:
        kept = interrupt  # the frames refer to the exception, and it to the frames
        return False
    except Exception:
        return True
    finally:
        sys.setprofile(None)
for name, call in calls.items():
    at = 1
    while not broken_off(call, at):
        gc.collect()
        at += 1
    print(name, at > 1)
"""


def test_memory_in_a_call_that_is_broken_off_may_be_collected() -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTED], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.rpartition(" ")[2] for line in done.stdout.splitlines()] == ["True"] * 10
