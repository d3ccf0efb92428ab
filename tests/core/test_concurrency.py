"""Readers beside writers, writers beside writers, workers of every kind: no row torn, missing or wrong.

`UNIRECORD_SOAK=60 pytest tests/core/test_concurrency.py` lets readers and a writer run for so many seconds at least.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hang import HANG_SECONDS

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.errors import BusyError, ClosedError, ExistsError

SOAK = float(os.environ.get("UNIRECORD_SOAK", "0"))
APPENDS = 25  # at least
READERS = 8
WORKERS = 8
ROWS = 100_000
SCHEMA = {"label": "int64", "x": {"type": "int32", "shape": [4]}, "name": "string?", "blob": "bytes"}


def row(i: int) -> dict[str, Any]:
    name = None if i % 5 == 0 else f"n{i % 97}"
    return {
        "label": i,
        "x": np.full(4, i % 2**31, np.int32),
        "name": name,
        "blob": i.to_bytes(4, "little") * (i % 9),
    }


def add(writer: Writer, first: int, count: int) -> None:
    for i in range(first, first + count):
        writer.write(row(i))


def check(batch: dict[str, Any]) -> None:
    """Every value of every row, from its label alone."""
    labels = batch["label"].tolist()
    assert np.array_equal(batch["x"], np.repeat(np.array(labels, np.int32)[:, None], 4, axis=1))
    assert batch["name"] == [None if i % 5 == 0 else f"n{i % 97}" for i in labels]
    assert batch["blob"].to_list() == [i.to_bytes(4, "little") * (i % 9) for i in labels]


def child(run: Callable[..., None], *arguments: Any) -> int:
    """Runs a function in a forked child, which ends with 0 if it returns."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        run(*arguments)
        code = 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(code)


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# ---- readers beside an appending writer ----------------------------------------------------------------------------


def append_often(path: Path, beside: Path) -> None:
    r, rows = random.Random(1), len(UniRecordDataset(path))
    while len(list(beside.glob("reader-*"))) < READERS:
        time.sleep(0.01)
    end, appends = time.monotonic() + SOAK, 0
    while appends < APPENDS or time.monotonic() < end:
        count = r.randint(1, 300)
        with unirecord.append(path, max_part_bytes=8_000) as writer:
            add(writer, rows, count)
        rows, appends = rows + count, appends + 1
    (beside / "all").touch()


def read_until_all(path: Path, beside: Path, number: int, io: str) -> None:
    ds = UniRecordDataset(path, shuffle=True, io=io)
    (beside / f"reader-{number}").touch()
    rows, refreshed, last = len(ds), 0, False
    while not last:
        last = (beside / "all").exists()
        refreshed += ds.refresh()
        assert len(ds) >= rows, "rows are missing"
        rows = len(ds)
        seen = []
        for batch in ds.batches(512, num_threads=2):
            check(batch)
            seen += batch["label"].tolist()
        assert sorted(seen) == list(range(rows)), "rows are missing, or twice"
    assert refreshed > 0, "nothing new was ever seen"


def test_readers_that_refresh_beside_an_appending_writer_see_whole_appends(tmp_path: Path) -> None:
    path = tmp_path / "set"
    with Writer(path, SCHEMA) as writer:
        add(writer, 0, 10)
    beside = tmp_path / "beside"
    beside.mkdir()
    ways = ["mmap", "pread", "uring", "memory"]
    readers = [child(read_until_all, path, beside, k, ways[k % 4]) for k in range(READERS)]
    writer_pid = child(append_often, path, beside)
    assert [ended(pid) for pid in (*readers, writer_pid)] == [0] * (READERS + 1)
    ds = UniRecordDataset(path)
    for batch in ds.batches(1000):
        check(batch)
    print(f"{len(ds)} rows in {len(list(path.glob('*.urec')))} parts")


# ---- two writers ---------------------------------------------------------------------------------------------------


def append_slowly(path: Path, first: int) -> None:
    with unirecord.append(path, max_part_bytes=2_000) as writer:
        for i in range(first, first + 400):
            writer.write(row(i))
            if i % 20 == 0:
                time.sleep(0.001)


def wait_for_a_writer(path: Path, pid: int) -> None:
    """Until the child has begun to write, or has ended."""
    while not any(path.glob(".*")) and os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        time.sleep(0.0005)


def test_a_writer_killed_at_any_moment_leaves_the_dataset_to_the_next(tmp_path: Path) -> None:
    path, r, published = tmp_path / "set", random.Random(3), 0
    with Writer(path, SCHEMA) as writer:
        add(writer, 0, 10)
    for turn in range(25):
        before = len(UniRecordDataset(path))
        pid = child(append_slowly, path, before)
        if turn % 5 == 0:
            wait_for_a_writer(path, pid)
        time.sleep(r.uniform(0, 0.06) if turn % 5 else 0)
        unirecord.append(path).abort()  # beside the other one
        os.kill(pid, signal.SIGKILL)
        ended(pid)
        after = len(UniRecordDataset(path))
        assert after in (before, before + 400), "an append was published in part"
        published += after != before
        with unirecord.append(path) as writer:  # a dead writer holds no lock
            add(writer, after, 5)
        ds = UniRecordDataset(path)
        assert len(ds) == after + 5
        batch = ds.read_rows(np.arange(len(ds)))
        check(batch)
        assert batch["label"].tolist() == list(range(len(ds)))
        named = {ds.locate(i)[0] for i in range(len(ds))}
        left = {str(file) for file in path.iterdir() if not file.name.startswith("manifest")}
        assert left == named | {f"{name}.idx" for name in named}, "something of the dead writer is left"


def test_of_writers_that_start_at_once_one_wins_and_the_others_are_told(tmp_path: Path) -> None:
    for round_ in range(16):
        path = tmp_path / (f"{round_}.urec" if round_ % 2 else str(round_))
        outcomes = tmp_path / f"outcomes-{round_}"
        outcomes.mkdir()

        def write(me: int, path: Path = path, outcomes: Path = outcomes) -> None:
            outcome = "published"
            try:
                with Writer(path, SCHEMA) as writer:
                    add(writer, me * 1000, 50)
                    time.sleep(0.02)
            except (BusyError, ExistsError) as error:
                outcome = type(error).__name__
            (outcomes / str(me)).write_text(outcome)

        writers = [child(write, k) for k in range(6)]
        assert [ended(pid) for pid in writers] == [0] * 6
        won = [file.name for file in outcomes.iterdir() if file.read_text() == "published"]
        assert len(won) == 1
        assert UniRecordDataset(path).read_rows(np.arange(50))["label"].tolist() == [
            int(won[0]) * 1000 + i for i in range(50)
        ]


# ---- workers -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("concurrency") / "large"
    with Writer(
        path, {"label": "int64", "x": {"type": "int32", "shape": [4]}}, max_part_bytes="1MB"
    ) as writer:
        labels = np.arange(ROWS)
        writer.write_batch({"label": labels, "x": np.repeat(labels.astype(np.int32)[:, None], 4, axis=1)})
    assert len(list(path.glob("*.urec"))) > 1
    return path


def pass_is_right(ds: UniRecordDataset) -> bool:
    """Reads every row once, by batches."""
    right = 0
    for batch in ds.batches(500, num_threads=2):
        right += int((batch["x"][:, 3] == batch["label"]).sum())
    return right == ROWS


def samples_are_right(given: tuple[UniRecordDataset, int]) -> bool:
    """Reads some by lists of rows."""
    ds, seed = given
    order = np.random.default_rng(seed).permutation(ROWS)[:2000]
    return all(
        [s["label"] for s in ds.__getitems__(chunk.tolist())] == ds.order.row_ids()[chunk].tolist()
        for chunk in np.split(order, 20)
    )


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver", "threads"])
def test_workers_of_every_kind_read_every_row(large: Path, method: str) -> None:
    ds = UniRecordDataset(large, shuffle=True)
    assert ds[0]["x"].tolist() == [ds[0]["label"]] * 4  # opened before any fork
    pool = ThreadPool(WORKERS) if method == "threads" else multiprocessing.get_context(method).Pool(WORKERS)
    with pool:
        assert all(pool.map(pass_is_right, [ds] * WORKERS, chunksize=1))
        # Threads have one dataset, which each pass moves to an epoch of its own: no pass is under way now.
        assert all(pool.map(samples_are_right, [(ds, k) for k in range(WORKERS)], chunksize=1))


def test_a_fork_in_the_middle_of_reading_disturbs_neither_side(large: Path) -> None:
    ds = UniRecordDataset(large, shuffle=True, io="uring")
    stop = threading.Event()

    def read_on() -> None:
        while not stop.is_set():
            for batch in ds.batches(100, num_threads=2):
                assert (batch["x"][:, 0] == batch["label"]).all()
                if stop.is_set():
                    break

    threads = [threading.Thread(target=read_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(15):
            pid = child(lambda: check_some(ds))
            assert ended(pid) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def check_some(ds: UniRecordDataset) -> None:
    signal.alarm(HANG_SECONDS)  # a lock that a thread of the parent held would never be free here
    for n, batch in enumerate(ds.batches(100, num_threads=2)):
        assert (batch["x"][:, 0] == batch["label"]).all()
        if n == 20:
            break
    assert len({int(s["label"]) for s in ds.__getitems__(range(300))}) == 300


@pytest.mark.parametrize("io", ["mmap", "pread", "uring", "memory"])
def test_closing_during_reads_ends_them_with_closed_errors(large: Path, io: str) -> None:
    for round_ in range(10):
        ds = UniRecordDataset(large, shuffle=True, io=io)
        started, closed = threading.Semaphore(0), []

        def read(ds: UniRecordDataset = ds, started: Any = started, closed: list[int] = closed) -> None:
            try:
                for n in range(10**9):
                    samples = ds.__getitems__(range(n % 1000, n % 1000 + 64))
                    assert all((s["x"] == s["label"]).all() for s in samples)
                    started.release()
            except ClosedError:
                closed.append(1)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(4 + round_):
            started.acquire()
        ds.close()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert len(closed) == 4


def test_the_interpreter_ends_while_threads_read(large: Path) -> None:
    code = f"""
import threading, unirecord
ds = unirecord.UniRecordDataset({str(large)!r}, shuffle=True, io="uring")
go = threading.Semaphore(0)
def read():
    while True:
        for batch in ds.batches(64, num_threads=2):
            go.release()
        ds.__getitems__(range(100))
for _ in range(4):
    threading.Thread(target=read, daemon=True).start()
for _ in range(40):
    go.acquire()
"""
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", code], timeout=HANG_SECONDS, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
