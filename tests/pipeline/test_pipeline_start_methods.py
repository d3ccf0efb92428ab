"""Operators and generators in processes that are not forked: what multiprocessing starts by default in Python 3.14."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import is_running

from unirecord import Pipeline, UniRecordDataset, Writer
from unirecord.errors import TransformError

ROWS = 60


def noisy(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"i": int(sample["i"]), "noise": float(rng.random())}


def is_even(sample: dict[str, Any]) -> bool:
    return bool(sample["i"] % 2 == 0)


def twice(sample: dict[str, Any]) -> list[dict[str, Any]]:
    return [sample] * 2


def negative(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "i": -batch["i"]}


def fail(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["i"] == 7:
        raise KeyError("here")
    return sample


def drawing(sample: dict[str, Any]) -> list[float]:
    """Draws of global generators."""
    return [float(np.random.random()), random.random()]


def ten_draws() -> Iterator[list[float]]:
    for _ in range(10):
        yield drawing({})


def die(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["i"] == 7:
        os._exit(5)
    return sample


def slow(sample: dict[str, Any]) -> dict[str, Any]:
    time.sleep(0.05)
    return sample


def numbers() -> Iterator[int]:
    yield from range(5)


def opened(path: str) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True, seed=4)


def everything(path: str, processes: int) -> dict[str, Any]:
    """What all operators make of the rows, and what is said of those that fail."""

    def said(fn: Callable[..., Any]) -> list[Any]:
        try:
            list(opened(path).pipeline().map(fn, processes=processes))
        except TransformError as error:
            return [str(error), error.row, error.path]
        return []

    pipeline = opened(path).pipeline()
    found: dict[str, Any] = {
        "map": list(pipeline.map(noisy, random=True, processes=processes)),
        "filter": [int(s["i"]) for s in pipeline.filter(is_even, processes=processes)],
        "flat_map": [int(s["i"]) for s in pipeline.flat_map(twice, processes=processes)],
        "map_batch": [b["i"].tolist() for b in pipeline.batch(7).map_batch(negative, processes=processes)],
        "generators": list(Pipeline.from_generators([numbers] * 2, processes=2 if processes else 0)),
    }
    failed = said(fail)
    found["failed"] = [failed[0].replace(f", processes={processes}", ""), *failed[1:]]
    if processes:
        found["died"] = said(die)
    return found


def main(task: str, method: str, path: str) -> None:
    if task == "everything":
        processes = 0 if method == "threads" else 1
        if processes:
            multiprocessing.set_start_method(method)
        print(json.dumps(everything(path, processes)))
        return
    multiprocessing.set_start_method(method)
    if task == "draws":
        pipeline = opened(path).pipeline().map(drawing, processes=2)
        generated = Pipeline.from_generators([ten_draws] * 2, processes=2)
        again = Pipeline.from_generators([ten_draws] * 2, processes=2)
        print(json.dumps([[*pipeline, *pipeline], [*generated, *generated], [*again]]))
        return
    for number, _ in enumerate(opened(path).pipeline().map(slow, processes=2)):
        if number == 2:
            print(*[child.pid for child in multiprocessing.active_children()], flush=True)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("methods") / "a.urec"
    with Writer(path, {"i": "int64"}) as writer:
        for i in range(ROWS):
            writer.write({"i": i})
    return path


def command(*arguments: object) -> list[str]:
    return [sys.executable, __file__, *map(str, arguments)]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_draw_numbers_of_their_own_by_seed_and_epoch(path: Path, method: str) -> None:
    run = subprocess.run(command("draws", method, path), capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    mapped, generated, again = json.loads(run.stdout)
    for draws in (mapped, generated):
        assert all(len(set(numbers)) == len(draws) for numbers in zip(*draws, strict=True))
    assert again == generated[:20]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_are_not_forked_do_what_threads_do(path: Path, method: str) -> None:
    expected, found = (
        json.loads(
            subprocess.run(command("everything", way, path), stdout=subprocess.PIPE, check=True).stdout
        )
        for way in ("threads", method)
    )
    message, row, part = found.pop("died")
    assert "ended with exit code 5 while it worked on row" in message
    assert (row, part) == (7, str(path))
    assert found == expected
    assert "failed on row 7 (row 7 of" in found["failed"][0]


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_no_orphan_stays_of_processes_that_are_not_forked(path: Path, method: str) -> None:
    job = subprocess.Popen(
        command("orphans", method, path), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert job.stdout is not None
    workers = [int(pid) for pid in job.stdout.readline().split()]
    assert len(workers) == 2
    job.send_signal(signal.SIGKILL)
    job.wait(20)
    deadline = time.monotonic() + 20
    while any(map(is_running, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(is_running, workers))
    job.stdout.close()


def in_a_daemon(path: str, told: Any) -> None:
    try:
        list(opened(path).pipeline().map(slow, processes=1))
    except ValueError as error:
        told.send(str(error))


def test_a_process_that_may_start_none_says_what_to_give(path: Path) -> None:
    mine, its = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=in_a_daemon, args=(str(path), its), daemon=True
    )
    process.start()
    assert mine.poll(60)
    assert "give threads=" in mine.recv()
    process.join()


if __name__ == "__main__":
    main(*sys.argv[1:])
