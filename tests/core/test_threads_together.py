"""Threads that use one thing at the same time: nothing is lost, torn, closed twice or waited for in vain.

Without Python's lock (`make free-threaded`) they run at once; with it they take turns as often as they can.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.core import LeavablePool, leave_at_work, left_at_work
from unirecord.dataset.position import Position
from unirecord.errors import ClosedError
from unirecord.storage.system import Descriptor

THREADS = 8
ROWS = 64
SCHEMA = {"label": "int64", "x": {"type": "int32", "shape": [4]}, "name": "string?", "blob": "bytes"}


@pytest.fixture(autouse=True)
def _turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def together(works: Sequence[Callable[[], Any]]) -> list[Any]:
    """What each returns, of a thread each, all begun at one time; the first error is raised."""
    begin = threading.Barrier(len(works), timeout=HANG_SECONDS)
    returned: list[Any] = [None] * len(works)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            begin.wait()
            returned[number] = works[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return returned


def row(i: int) -> dict[str, Any]:
    return {
        "label": i,
        "x": np.full(4, i, np.int32),
        "name": None if i % 5 == 0 else f"n{i % 97}",
        "blob": i.to_bytes(4, "little") * (i % 9),
    }


def add(writer: Writer, first: int, count: int) -> None:
    for i in range(first, first + count):
        writer.write(row(i))


def label_of(sample: dict[str, Any]) -> int:
    """A sample's label, from which all else of it follows."""
    label = int(sample["label"])
    expected = row(label)
    assert sample["x"].tolist() == expected["x"].tolist()
    assert (sample["name"], sample["blob"]) == (expected["name"], expected["blob"])
    return label


def labels_of(batch: dict[str, Any]) -> list[int]:
    labels: list[int] = batch["label"].tolist()
    assert np.array_equal(batch["x"], np.repeat(np.array(labels, np.int32)[:, None], 4, axis=1))
    assert batch["name"] == [row(i)["name"] for i in labels]
    assert batch["blob"].to_list() == [row(i)["blob"] for i in labels]
    return labels


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Writer(tmp_path / "set", SCHEMA, max_part_bytes=4_000) as writer:
        add(writer, 0, ROWS)
    return tmp_path / "set"


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has its lock for good"
)
def test_nothing_that_is_imported_switches_the_lock_on_again() -> None:
    code = (
        "import sys, numpy, msgpack, unirecord.core; print(sys._is_gil_enabled(), unirecord.core.has_jpeg())"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[0] == "False"


# ---- passes --------------------------------------------------------------------------------------------------------


def test_passes_that_begin_at_once_are_of_epochs_of_their_own(path: Path) -> None:
    ds = UniRecordDataset(path, shuffle=True)
    rounds = 40
    found = [
        order
        for _ in range(rounds)
        for order in together([lambda: tuple(label_of(sample) for sample in ds)] * THREADS)
    ]
    ds.set_epoch(0)
    assert sorted(found) == sorted(tuple(map(label_of, ds)) for _ in range(rounds * THREADS))


def test_a_state_is_of_one_pass_however_many_begin(path: Path) -> None:
    """The place of an older pass is never taken for one of the latest."""
    ds = UniRecordDataset(path, shuffle=True)
    latest: list[int] = []

    def read_some() -> None:
        loader = ds.batches(16)
        for _ in range(20):
            for _batch in loader:
                break  # the others have come further, or nowhere

    def look() -> None:
        for _ in range(400):
            state = ds.state_dict()
            assert state["position"] in (0, 16)
            latest.append(state["epoch"])

    together([*[read_some] * (THREADS - 1), look])
    assert latest == sorted(latest)


def test_statistics_count_each_batch_of_each_thread(path: Path) -> None:
    ds = UniRecordDataset(path)
    loader = ds.batches(4, transform=lambda sample: sample)
    passes = 10

    def read() -> None:
        for _ in range(passes):
            for _batch in loader:
                pass

    together([read] * THREADS)
    stats = loader.stats()
    assert (stats.samples, stats.results) == (THREADS * passes * ROWS, THREADS * passes * ROWS // 4)


WAYS: dict[str, Callable[[UniRecordDataset], list[int]]] = {
    "samples": lambda ds: [label_of(sample) for sample in ds],
    "batches": lambda ds: [label for batch in ds.batches(16) for label in labels_of(batch)],
    "pipeline": lambda ds: [label_of(sample) for sample in ds.pipeline()],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_refresh_while_a_pass_begins_leaves_it_what_it_was(
    path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ds = UniRecordDataset(path, io="memory")
    assert list(map(label_of, ds)) == list(range(ROWS))  # all of it is open
    with Writer(path, SCHEMA, overwrite=True) as writer:
        add(writer, 32, 32)
    begin = Position.begin

    def begin_and_refresh(self: Position, order: Any) -> Any:
        run = begin(self, order)
        ds.refresh()  # as another thread may
        return run

    monkeypatch.setattr(Position, "begin", begin_and_refresh)
    assert WAYS[way](ds) == list(range(ROWS))
    assert WAYS[way](ds) == list(range(32, ROWS))


def test_threads_read_iterate_refresh_and_close_at_once(path: Path) -> None:
    for io in ("mmap", "pread", "uring", "memory"):
        ds = UniRecordDataset(path, io=io)
        stop = threading.Event()
        rows = len(ds)

        def until_closed(work: Callable[[], None], stop: threading.Event = stop) -> Callable[[], int]:
            def run() -> int:
                turns = 0
                with suppress(ClosedError):
                    while not stop.is_set() or turns == 0:
                        work()
                        turns += 1
                return turns

            return run

        def read_one(ds: UniRecordDataset = ds, rows: int = rows) -> None:
            for i in range(0, rows, 7):
                assert label_of(ds[i]) == i

        def read_many(ds: UniRecordDataset = ds) -> None:
            samples = ds[5:60]
            assert [label_of(sample) for sample in samples] == list(range(5, 60))

        def iterate(ds: UniRecordDataset = ds) -> None:
            labels = [label_of(sample) for sample in ds]
            assert labels == list(range(len(labels)))

        def batches(ds: UniRecordDataset = ds) -> None:
            labels = [label for batch in ds.batches(8, num_threads=2) for label in labels_of(batch)]
            assert labels == list(range(len(labels)))

        def work_on(ds: UniRecordDataset = ds) -> None:
            labels = list(ds.pipeline().map(label_of, threads=2))
            assert labels == list(range(len(labels)))

        def query(ds: UniRecordDataset = ds) -> None:
            assert len(ds.view(where="label < 40")) == 40

        def publish(ds: UniRecordDataset = ds, stop: threading.Event = stop) -> int:
            count = len(ds)
            try:
                for _ in range(6):
                    with unirecord.append(path, max_part_bytes=2_000) as writer:
                        add(writer, count, 10)
                    count += 10
                    ds.refresh()
            finally:
                stop.set()
            return count

        works = [read_one, read_many, iterate, batches, work_on, query]
        *turns, count = together([*map(until_closed, works), publish])
        assert all(turns)
        assert count == len(ds)
        stop.clear()
        closing = threading.Barrier(3, timeout=HANG_SECONDS)

        def close(ds: UniRecordDataset = ds, closing: threading.Barrier = closing) -> None:
            closing.wait()
            ds.close()

        together([*map(until_closed, works), *[close] * 3])
        with pytest.raises(ClosedError):
            ds[0]


# ---- what they share below -----------------------------------------------------------------------------------------


def test_what_is_asked_of_a_pool_while_it_is_left_is_done_or_given_up() -> None:
    name = "unirecord-together"
    for _ in range(300):
        pool = LeavablePool(2, name)
        asked = together([*[lambda pool=pool: pool.submit(int)] * THREADS, pool.leave])[:-1]  # type: ignore[misc]
        for future in asked:
            with suppress(CancelledError):
                assert future.result(HANG_SECONDS) == 0
    for thread in threading.enumerate():
        if thread.name == name:
            thread.join(HANG_SECONDS)
            assert not thread.is_alive(), "it waits for work that nobody can ask for"


def test_a_pool_has_no_more_threads_than_it_may() -> None:
    name = "unirecord-few"
    for _ in range(100):
        pool = LeavablePool(2, name)
        done = threading.Event()
        asked = together([lambda pool=pool, done=done: pool.submit(done.wait, HANG_SECONDS)] * 6)  # type: ignore[misc]
        assert sum(thread.name == name for thread in threading.enumerate()) <= 2
        done.set()
        for future in asked:
            future.result(HANG_SECONDS)
        pool.leave()


def test_no_thread_that_is_left_is_forgotten() -> None:
    for _ in range(50):
        done = threading.Event()
        threads = [threading.Thread(target=done.wait) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        together([lambda thread=thread: leave_at_work([thread]) for thread in threads])  # type: ignore[misc]
        assert set(threads) <= set(left_at_work)
        done.set()
        for thread in threads:
            thread.join()
    leave_at_work(())
    assert not left_at_work


def test_a_file_is_closed_once_however_many_close_it(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for _ in range(500):
        file = Descriptor(str(tmp_path / "a"), os.O_RDONLY)
        together([file.close] * 4)  # a second time would be EBADF, or the file of somebody else
