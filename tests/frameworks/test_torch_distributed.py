"""Ranks that gloo joins, as torchrun starts them: every sample accounted for, and resume on other ranks."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hang import HANG_SECONDS

from unirecord import Writer

JOB = Path(__file__).parents[1] / "support" / "distributed_job.py"
N, EPOCHS = 61, 3


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("distributed") / "set.urec"
    with Writer(path, {"label": "int64"}) as writer:
        writer.write_batch({"label": list(range(N))})
    return path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def ranks(count: int, data: Path, folder: Path, **options: Any) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes with the environment that torchrun gives them."""
    port = free_port()
    started = []
    for rank in range(count):
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(JOB), str(data), str(folder), json.dumps(options)]
        started.append(subprocess.Popen(command, env=environment))
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def run(count: int, data: Path, folder: Path, **options: Any) -> None:
    with ranks(count, data, folder, **options) as started:
        assert [process.wait(timeout=HANG_SECONDS) for process in started] == [0] * count


def seen(folder: Path, count: int) -> list[list[tuple[int, list[int]]]]:
    """What each rank noted: (epoch, labels of a batch)."""
    notes = [(folder / f"seen-{rank}-of-{count}.jsonl").read_text() for rank in range(count)]
    return [[(epoch, labels) for epoch, labels in map(json.loads, note.splitlines())] for note in notes]


def of_epoch(notes: list[tuple[int, list[int]]], epoch: int) -> list[int]:
    return [label for noted, labels in notes if noted == epoch for label in labels]


@pytest.mark.parametrize(("remainder", "loop"), [("pad", "stock"), ("drop", "native"), ("uneven", "native")])
def test_every_sample_of_three_epochs_on_two_ranks(
    data: Path, tmp_path: Path, remainder: str, loop: str
) -> None:
    run(2, data, tmp_path, remainder=remainder, epochs=EPOCHS, loop=loop)
    first, second = seen(tmp_path, 2)
    orders = []
    for epoch in range(EPOCHS):
        shares = [of_epoch(first, epoch), of_epoch(second, epoch)]
        counts = Counter(shares[0] + shares[1])
        assert set(counts) <= set(range(N))
        if remainder == "pad":
            assert [len(share) for share in shares] == [31, 31]
            assert sorted(counts.values()) == [1] * (N - 1) + [2]
        elif remainder == "drop":
            assert [len(share) for share in shares] == [30, 30]
            assert sorted(counts.values()) == [1] * (N - 1)
        else:
            assert [len(share) for share in shares] == [31, 30]
            assert sorted(counts.values()) == [1] * N
        orders.append(shares)
    assert len({str(shares) for shares in orders}) == 3


def test_a_killed_job_goes_on_with_three_ranks(data: Path, tmp_path: Path) -> None:
    """Killed after the third batch of the second epoch; the three ranks then see what is left of it, and the third."""
    with ranks(
        2, data, tmp_path, remainder="uneven", epochs=EPOCHS, loop="native", stop_at=[1, 2]
    ) as started:
        end = time.monotonic() + HANG_SECONDS
        while not (tmp_path / "saved").exists():
            assert time.monotonic() < end
            assert all(process.poll() is None for process in started)
            time.sleep(0.05)
        started[1].send_signal(signal.SIGKILL)
        started[1].wait()
        assert started[1].returncode == -signal.SIGKILL
    before = [of_epoch(notes, 1) for notes in seen(tmp_path, 2)]
    assert [len(share) for share in before] == [18, 18]

    run(3, data, tmp_path, remainder="uneven", epochs=EPOCHS, loop="native", resume=True)
    after = seen(tmp_path, 3)
    left = [label for notes in after for label in of_epoch(notes, 1)]
    assert sorted(before[0] + before[1] + left) == list(range(N)), "nothing twice, nothing left out"
    assert sorted(label for notes in after for label in of_epoch(notes, 2)) == list(range(N))
    assert not any(of_epoch(notes, 0) for notes in after)


def test_torchrun_itself(data: Path, tmp_path: Path) -> None:
    options = json.dumps({"remainder": "uneven", "epochs": 1, "loop": "stock"})
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--master-addr=127.0.0.1"]
    command += [f"--master-port={free_port()}", str(JOB), str(data), str(tmp_path), options]
    environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert sorted(label for notes in seen(tmp_path, 2) for label in of_epoch(notes, 0)) == list(range(N))
