"""Processes that use an object store: forks of them are told what to do, at once, and they end as Python does."""

from __future__ import annotations

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Server, serving
from store_exits import with_a_store

from unirecord import UniRecordDataset, UniRecordError, Writer
from unirecord.storage import object_store, requests

ROWS = 40
SECONDS = 60  # after which a child that hangs is ended


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store, "_stores", {})
    (tmp_path / "bucket").mkdir()
    with Writer(tmp_path / "bucket" / "a.urec", {"n": "int64", "x": "uint8[2000]"}) as writer:
        writer.write_batch({"n": np.arange(ROWS), "x": np.zeros((ROWS, 2000), np.uint8)})
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        yield server


def said_by_a_fork(use: Callable[[], object]) -> str:
    """The error that ``use`` ends with in a forked child; "" for none. A child that hangs is ended by SIGALRM."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS)
        said = ""
        try:
            use()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as pipe:
        said = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return said


USES: dict[str, Callable[[UniRecordDataset[Any]], object]] = {
    "a row": lambda ds: ds[ROWS - 1],
    "batches": lambda ds: [len(batch["n"]) for batch in ds.batches(8)],
    "a pickled dataset": lambda ds: pickle.loads(pickle.dumps(ds))[0],
    "a dataset opened anew": lambda ds: UniRecordDataset("s3://bucket/a.urec"),
    "a store of its own": lambda ds: UniRecordDataset(
        "s3://bucket/a.urec", storage_options={"region": "eu-west-1"}
    ),
    "a writer": lambda ds: Writer("s3://bucket/new", {"n": "int64"}),
}


@pytest.mark.parametrize("use", USES)
def test_a_forked_child_is_told_to_be_spawned(server: Server, use: str) -> None:
    with UniRecordDataset("s3://bucket/a.urec") as ds:
        assert ds[0]["n"] == 0
        said = said_by_a_fork(lambda: USES[use](ds))
        assert said.startswith("UniRecordError: ")
        assert 'by "spawn" or "forkserver"' in said
        assert ds[ROWS - 1]["n"] == ROWS - 1  # the parent's is as it was


def test_a_data_loader_that_forks_gives_the_message(server: Server) -> None:
    data = pytest.importorskip("torch.utils.data")
    with UniRecordDataset("s3://bucket/a.urec") as ds:
        loader = data.DataLoader(
            ds, batch_size=8, num_workers=1, multiprocessing_context="fork", timeout=SECONDS
        )
        with pytest.raises(UniRecordError, match='by "spawn" or "forkserver"'):
            list(loader)


def test_requests_that_the_end_of_the_process_would_not_stop_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As where Ctrl-C comes when the first request of a process is made."""
    made: list[requests.Requests] = []

    def interrupted(stop: Any) -> None:
        made.append(stop.__self__)
        raise KeyboardInterrupt

    monkeypatch.setattr(requests, "_made", [])
    monkeypatch.setattr(requests.atexit, "register", interrupted)
    with pytest.raises(KeyboardInterrupt):
        requests.requests()
    made[0].stop()
    assert requests._made == []


def test_the_clients_threads_are_done_with_python_when_requests_have_stopped(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is not aborts the process when the interpreter ends; stopped with requests in flight."""
    made = requests.Requests()
    monkeypatch.setattr(requests, "_made", [made])
    with UniRecordDataset("s3://bucket/a.urec", shuffle=True) as ds, ThreadPoolExecutor() as threads:
        server.latency = 0.2
        rows = [threads.submit(ds.__getitem__, i) for i in range(ROWS)]
        while not made._loop.held:
            time.sleep(0.001)
        made.stop()
        assert not made._loop.held
        ends = {str(row.exception(SECONDS)).partition(": ")[2] for row in rows if row.exception(SECONDS)}
        assert ends
        assert all("because the process ends" in end for end in ends)


def test_interpreters_end_while_a_store_is_used(capfd: pytest.CaptureFixture[str]) -> None:
    status = with_a_store(1)
    assert (status, capfd.readouterr().out) == (0, "3 processes ended, 0 of them wrongly\n")
