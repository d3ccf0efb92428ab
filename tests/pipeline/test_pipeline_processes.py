"""Operators in processes: the same results, arrays in shared memory, deaths, and nothing left."""

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from processes import is_running

from unirecord import Pipeline, UniRecordDataset, Writer
from unirecord.errors import TransformError
from unirecord.pipeline.chunk import Chunk
from unirecord.pipeline.operators import Operator, SkipSample
from unirecord.pipeline.scheduler import StageQueue, Task
from unirecord.pipeline.stage import Stage
from unirecord.pipeline.workers import Channel

ROWS = 120


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processes") / "a.urec"
    with Writer(path, {"x": {"type": "float32", "shape": [50]}, "i": "int64", "blob": "bytes"}) as writer:
        for i in range(ROWS):
            writer.write({"x": np.full(50, i, np.float32), "i": i, "blob": bytes([i]) * (i % 9)})
    return path


def opened(path: Path) -> UniRecordDataset:
    return UniRecordDataset(path, shuffle=True, seed=3)


def children() -> set[int]:
    while True:
        with suppress(FileNotFoundError, ProcessLookupError):  # a thread may end meanwhile
            tasks = Path("/proc/self/task").iterdir()
            return {int(pid) for task in tasks for pid in (task / "children").read_text().split()}


def grown(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["i"] % 5 == 0:
        time.sleep(0.002)
    return {**sample, "x": np.repeat(sample["x"], 40), "process": os.getpid()}


def noisy(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {"i": sample["i"], "noise": rng.random(3)}


def drawing(sample: dict[str, Any]) -> dict[str, Any]:
    return dict(zip("npt", global_draws(), strict=True))


def drawing_again(batch: dict[str, Any]) -> list[Any]:
    return [*zip(*(batch[name].tolist() for name in "npt"), strict=True), global_draws()]


def global_draws() -> tuple[float, float, float]:
    """One number of each of the global generators."""
    return float(np.random.random()), random.random(), float(torch.rand((), dtype=torch.float64))


def ten_draws() -> Iterator[tuple[float, float, float]]:
    for _ in range(10):
        yield global_draws()


def each_once(draws: list[Any]) -> bool:
    return all(len(set(numbers)) == len(draws) for numbers in zip(*draws, strict=True))


def test_no_process_draws_the_numbers_of_another_from_global_generators(path: Path) -> None:
    """Of any stage, rank or epoch, nor behind a resume those that were drawn before it."""
    before = np.random.get_state()[1].tolist(), random.getstate(), torch.get_rng_state().tolist()
    found: list[Any] = []
    for rank in range(2):
        ds = opened(path).view(shard_id=rank, num_shards=2)
        pipeline = ds.pipeline().map(drawing, processes=2).batch(5).map_batch(drawing_again, processes=2)
        for _ in range(2):
            found += [draws for batch in pipeline for draws in batch]
        results = iter(pipeline)
        found += next(results)
        ds.exclude([int(ds.order.row_ids()[-1])])  # what has been made ahead is made anew
        found += next(results)
        results.close()
        again = opened(path).view(shard_id=rank, num_shards=2)
        again = again.pipeline().map(drawing, processes=2).batch(5).map_batch(drawing_again, processes=2)
        again.load_state_dict(pipeline.state_dict())
        found += [draws for batch in again for draws in batch]
    assert len(found) > 300
    assert each_once(found)
    assert before == (np.random.get_state()[1].tolist(), random.getstate(), torch.get_rng_state().tolist())


def test_processes_of_generators_draw_numbers_of_their_own_which_a_resume_draws_again(path: Path) -> None:
    def made(seed: int = 0) -> Pipeline:
        return Pipeline.from_generators([ten_draws] * 3, processes=3, seed=seed)

    pipeline = made()
    epochs = [list(pipeline), list(pipeline), list(made(seed=1))]
    assert each_once([draws for epoch in epochs for draws in epoch])
    begun, rest = made(), made()
    results = iter(begun)
    first = [next(results) for _ in range(7)]
    rest.load_state_dict(begun.state_dict())
    assert first + list(rest) == epochs[0]


def test_processes_give_the_same_in_the_same_order(path: Path) -> None:
    ds = opened(path)
    before = children()
    found = list(ds.pipeline().map(grown, processes=2))
    assert [int(sample["i"]) for sample in found] == ds.order.row_ids().tolist()
    assert {sample["process"] for sample in found} & {os.getpid()} == set()
    assert len({sample["process"] for sample in found}) == 2
    for sample in found:
        assert np.array_equal(sample["x"], np.full(2000, sample["i"], np.float32))
        assert sample["blob"] == bytes([int(sample["i"])]) * (int(sample["i"]) % 9)
    assert children() == before


def test_other_operators_run_in_processes_too(path: Path) -> None:
    ds = opened(path)
    pipeline = (
        ds.pipeline()
        .filter(lambda sample: sample["i"] % 3 > 0, processes=1)
        .flat_map(lambda sample: [sample, sample], processes=1)
        .map(lambda x: x * 2, columns=["x"], processes=1)
        .batch(7)
        .map_batch(lambda batch: {**batch, "sum": batch["x"].sum(axis=1)}, processes=1)
    )
    expected = [row for row in ds.order.row_ids().tolist() if row % 3 for _ in range(2)]
    batches = list(pipeline)
    assert [int(i) for batch in batches for i in batch["i"]] == expected
    assert [float(x) for batch in batches for x in batch["sum"]] == [2.0 * 50 * row for row in expected]


def test_random_operators_give_the_same_in_processes(path: Path) -> None:
    on_threads = list(opened(path).pipeline().map(noisy, random=True))
    in_processes = list(opened(path).pipeline().map(noisy, random=True, processes=2))
    for a, b in zip(on_threads, in_processes, strict=True):
        assert a["i"] == b["i"]
        assert np.array_equal(a["noise"], b["noise"])


def test_a_state_goes_on_with_another_number_of_processes(path: Path) -> None:
    def build(processes: int) -> Pipeline:
        return opened(path).pipeline().flat_map(lambda s: [s] * 3, processes=processes).batch(8)

    full = [batch["i"].tolist() for batch in build(0)]
    loader = build(1)
    results = iter(loader)
    for _ in range(5):
        next(results)
    state = loader.state_dict()
    results.close()
    again = build(2)
    again.load_state_dict(state)
    assert [batch["i"].tolist() for batch in again] == full[5:]


def test_errors_and_samples_left_out_come_from_processes(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["i"] == 44:
            raise SkipSample("no use")
        if sample["i"] == 55:
            raise ZeroDivisionError("here")
        return sample

    ds = UniRecordDataset(path)
    found = []
    with pytest.raises(TransformError, match="row 55") as caught:
        found.extend(int(sample["i"]) for sample in ds.pipeline().map(fail, processes=2))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert caught.value.row == 55
    assert found == [i for i in range(55) if i != 44]
    assert "no use" in caplog.text


class Unpicklable(Exception):
    def __init__(self, a: int, b: int) -> None:
        super().__init__("both")


def test_errors_that_cannot_be_pickled_still_say_what_they_are(path: Path) -> None:
    def fail(sample: Any) -> Any:
        raise Unpicklable(1, 2)

    with pytest.raises(TransformError, match="Unpicklable"):
        list(opened(path).pipeline().map(fail, processes=1))
    with pytest.raises(Exception, match="pickle"):
        list(opened(path).pipeline().map(lambda sample: {"f": lambda: 0}, processes=1))


@pytest.mark.parametrize(
    ("end", "said"),
    [(lambda: os._exit(7), "exit code 7"), (lambda: os.kill(os.getpid(), signal.SIGKILL), "SIGKILL")],
)
def test_a_process_that_dies_is_an_error_with_its_exit_code_and_row(path: Path, end: Any, said: str) -> None:
    def die(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["i"] == 77:
            end()
        return sample

    before = children()
    found = []
    with pytest.raises(TransformError, match=rf"{said}.*row 77 \(row 77 of .*a.urec\)") as caught:
        found.extend(int(s["i"]) for s in UniRecordDataset(path).pipeline().map(die, processes=2))
    assert caught.value.row == 77
    assert found == list(range(len(found)))
    assert children() == before


@pytest.mark.parametrize(("workers", "together"), [({"processes": 2}, 4), ({"threads": 2}, 1)])
def test_processes_get_samples_of_milliseconds_several_at_a_time(
    workers: dict[str, int], together: int
) -> None:
    operator = Operator("map", "f", grown, **workers)  # type: ignore[arg-type]
    stage_queue = StageQueue(Stage((operator,)), lambda chunk, slots: chunk, None)
    task = Task(Chunk([0], (0,), (1,), (0,), ()))
    stage_queue.finish(task, [task.chunk], 5_000_000, 100)
    assert stage_queue.per_task == together


def shared_pieces() -> int:
    """Pieces of shared memory that this process has mapped."""
    return Path("/proc/self/maps").read_text().count("memfd:unirecord-pipeline")


def test_nothing_is_left_behind_however_an_iterator_ends(path: Path) -> None:
    gc.collect()  # what other tests have left
    pipeline = opened(path).pipeline().map(grown, processes=2)
    before, files, threads = children(), [], set(threading.enumerate())
    for how in ("close", "drop", "break", "throw") * 3:
        results = iter(pipeline)
        next(results)
        assert len(children() - before) == 2
        if how == "close":
            results.close()
        elif how == "throw":
            with pytest.raises(KeyboardInterrupt):
                results.throw(KeyboardInterrupt)
        elif how == "break":
            for sample in results:
                del sample
                break
        del results
        gc.collect()
        assert children() == before, how
        files.append(len(os.listdir("/proc/self/fd")))
    assert set(threading.enumerate()) <= threads
    assert files[-1] <= files[0] + 1, files
    assert shared_pieces() == 0


def test_results_stay_good_after_the_iterator_and_its_processes_are_gone(path: Path) -> None:
    kept = list(opened(path).pipeline().map(grown, processes=2).batch(10))
    again = list(opened(path).pipeline().map(grown, processes=2).batch(10))
    gc.collect()
    for batch in kept + again:
        assert np.array_equal(batch["x"][:, 7], batch["i"])


def test_memory_is_used_again_and_arrays_are_not_pickled(path: Path) -> None:
    def large(sample: dict[str, Any]) -> np.ndarray:
        return np.full(1 << 18, sample["i"], np.float32)

    rows = opened(path).order.row_ids().tolist()
    most = 0
    for row, array in zip(rows, opened(path).pipeline(cpus=1).map(large, processes=1), strict=True):
        assert array[0] == row
        assert array[-1] == row
        assert array.flags.writeable
        most = max(most, shared_pieces())
        del array
    assert 0 < most <= 14  # none where arrays are pickled, one for each row where memory is not used again


def test_arrays_cross_a_channel_without_a_copy_on_the_other_side() -> None:
    import socket

    a, b = (Channel(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET))
    values = {
        "x": np.arange(1 << 20),
        "y": [np.ones((3, 5), np.float16), "text", None],
        "f": np.asfortranarray(np.eye(4)),
    }
    for _ in range(20):
        a.send(values)
        found = b.receive()
        assert np.array_equal(found["x"], values["x"])
        assert found["y"][1:] == ["text", None]
        assert found["x"].base is not None
        assert not found["x"].flags.owndata
        del found
        b.send("seen")
        assert a.receive() == "seen"
    assert a.allocations <= 2
    kept = []
    for number in range(5):
        a.send(np.full(1000, number))
        kept.append(b.receive())
    assert [int(array[500]) for array in kept] == list(range(5))
    a.close()
    b.close()


KILLED = """
import os, signal, sys, time
import numpy as np
from unirecord import UniRecordDataset

def slow(sample):
    time.sleep(0.05)
    return sample

for number, sample in enumerate(UniRecordDataset(sys.argv[1]).pipeline().map(slow, processes=2)):
    if number == 2:
        print(*[pid for task in os.listdir("/proc/self/task")
                for pid in open(f"/proc/self/task/{task}/children").read().split()], flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_orphan_stays_when_the_parent_is_ended(path: Path, tmp_path: Path, number: signal.Signals) -> None:
    script = tmp_path / "job.py"
    script.write_text(textwrap.dedent(KILLED))
    reset = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import runpy, sys; "
    reset += "sys.argv.pop(0); runpy.run_path(sys.argv[0], run_name='__main__')"
    job = subprocess.Popen(
        [sys.executable, "-c", reset, str(script), str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert job.stdout is not None
    workers = [int(pid) for pid in job.stdout.readline().split()]
    assert len(workers) == 2
    job.send_signal(number)
    job.wait(20)
    deadline = time.monotonic() + 10
    while any(is_running(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(is_running(pid) for pid in workers)


@pytest.mark.parametrize("where", ["generators", "operator"])
def test_what_processes_make_ahead_stays_within_the_memory(path: Path, tmp_path: Path, where: str) -> None:
    made, size = tmp_path / "made", 1 << 20
    made.touch()

    def large(sample: Any = None) -> Any:
        with made.open("a") as file:
            file.write("x")
        return np.zeros(size, np.uint8)

    def make() -> Iterator[Any]:
        for _ in range(15):
            yield large()

    pipeline = Pipeline.from_generators([make] * 2, processes=2, prefetch=8, memory=4 * size)
    if where == "operator":
        pipeline = opened(path).take(30).pipeline(memory=4 * size).map(large, processes=2).prefetch(30)
    most = 0
    for taken, _ in enumerate(pipeline):
        time.sleep(0.005)
        most = max(most, made.stat().st_size - taken - 1)
    assert made.stat().st_size == 30
    assert most <= (4 if where == "operator" else 8), "4 here, and one made and one in the making by each"


def test_without_a_gil_threads_do_what_processes_would(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    loader = opened(path).pipeline().map(grown, processes=2)
    assert {sample["process"] for sample in loader} == {os.getpid()}
    assert loader.stats().stages[1].limit == "2"
