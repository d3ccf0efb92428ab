"""Pipelines: what empty operators cost, how stages scale, large arrays between processes, what is chosen."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import answer
import numpy as np

import unirecord
from unirecord import Pipeline, PipelinePlan

LARGE = (3, 2000, 2000)  # 48 MB of float32
WAIT_S = 0.005


def _data(folder: Path) -> str:
    path = folder / "pipeline.urec"
    if not path.exists():
        with unirecord.Writer(
            path, {"x": {"type": "float32", "shape": [32]}, "i": "int64", "z": "bytes"}
        ) as writer:
            noise = np.random.default_rng(0).integers(0, 4, 60_000, np.uint8).tobytes()
            packed = zlib.compress(noise)
            for i in range(20_000):
                writer.write({"x": np.full(32, i, np.float32), "i": i, "z": packed if i < 1500 else b""})
    return str(path)


def _seconds(loader: Any, most: float = 1e9) -> tuple[int, float]:
    count, start = 0, time.perf_counter()
    for result in loader:
        del result
        count += 1
        if time.perf_counter() - start > most:
            break
    return count, time.perf_counter() - start


def _best(make: Callable[[], Any], rounds: int) -> float:
    """Seconds a result, the best of some rounds."""
    found = []
    for _ in range(rounds):
        count, seconds = _seconds(make())
        found.append(seconds / count)
    return min(found)


def overhead(path: str, rounds: int) -> Iterator[dict[str, Any]]:
    """What a map and a map_batch cost that return what they get, beside the same pipeline without them."""

    def opened() -> Pipeline:
        return unirecord.UniRecordDataset(path, columns=["x", "i"], shuffle=True).pipeline()

    def same(value: Any) -> Any:
        return value

    plain = _best(opened, rounds)
    yield answer.figure("nothing done", "samples", 1e6 * plain, "µs")
    with_map = _best(lambda: opened().map(same), rounds)
    yield answer.figure("nothing done", "an empty map adds", 1e6 * (with_map - plain), "µs a sample")
    with_random = _best(lambda: opened().map(lambda s, rng: s, random=True), rounds)
    yield answer.figure("nothing done", "with random=True", 1e6 * (with_random - plain), "µs a sample")
    batches = _best(lambda: opened().batch(64), rounds)
    yield answer.figure("nothing done", "batches of 64", 1e6 * batches, "µs")
    with_batch = _best(lambda: opened().batch(64).map_batch(same), rounds)
    yield answer.figure("nothing done", "an empty map_batch adds", 1e6 * (with_batch - batches), "µs a batch")


def waiting(path: str, seconds: float) -> Iterator[dict[str, Any]]:
    """A stage that waits 5 ms, on more and more threads."""

    def wait(sample: Any) -> Any:
        time.sleep(WAIT_S)
        return sample

    for threads in (1, 2, 4, 8, 16, 32, "auto"):
        loader = unirecord.UniRecordDataset(path, columns=["i"]).pipeline().map(wait, threads=threads)
        if threads == "auto":
            _seconds(loader, 5)
        count, took = _seconds(loader, seconds)
        yield answer.figure("waits 5 ms", f"threads={threads}", count / took, "samples/s")


def _spin(sample: Any) -> Any:
    end = time.thread_time() + 0.005
    number = 0
    while time.thread_time() < end:
        number += 1
    return sample


def computing(path: str, seconds: float) -> Iterator[dict[str, Any]]:
    """A stage of 5 ms of Python."""
    samples = list(unirecord.UniRecordDataset(path, columns=["i"]).take(100))
    start = time.perf_counter()
    for sample in samples:
        _spin(sample)
    alone = len(samples) / (time.perf_counter() - start)
    yield answer.figure("5 ms of Python", "a loop", alone, "samples/s")
    for option in ({"threads": 1}, {"threads": 2}, {"processes": 1}, {"processes": 2}):
        loader = unirecord.UniRecordDataset(path, columns=["i"]).pipeline().map(_spin, **option)
        results = iter(loader)
        next(results)  # processes start
        count, took = _seconds(results, seconds)
        (name, number), *_ = option.items()
        yield answer.figure("5 ms of Python", f"{name}={number}", count / took, "samples/s")


def _large() -> Iterator[Any]:
    array = np.ones(LARGE, np.float32)
    while True:
        time.sleep(0.02)
        yield array


def _put(queue: Any) -> None:
    for array in _large():
        queue.put(array)


def _waits(results: Iterator[Any], count: int) -> float:
    """Seconds that a consumer that works for 50 ms waits for each."""
    waits = []
    for _ in range(count):
        start = time.perf_counter()
        array = next(results)
        waits.append(time.perf_counter() - start)
        float(np.asarray(array)[0, 0, 0])
        del array
        time.sleep(0.05)
    return statistics.median(waits[3:])


def large(count: int) -> Iterator[dict[str, Any]]:
    """Arrays of 48 MB from a process that makes one in 20 ms to a consumer that takes 50 ms."""
    waits = _waits(iter(Pipeline.from_generators([_large])), count)
    yield answer.figure("48 MB arrays", "made in this process, when asked for", 1e3 * waits, "ms waited")
    waits = _waits(iter(Pipeline.from_generators([_large], processes=1)), count)
    yield answer.figure("48 MB arrays", "from_generators, 1 process", 1e3 * waits, "ms waited")
    queue: Any = multiprocessing.Queue(4)
    process = multiprocessing.Process(target=_put, args=(queue,), daemon=True)
    process.start()
    waits = _waits((queue.get() for _ in range(count)), count)
    process.terminate()
    yield answer.figure("48 MB arrays", "multiprocessing.Queue", 1e3 * waits, "ms waited")


SHAPES: dict[str, Callable[[Pipeline, Any], Pipeline]] = {
    "bound by decoding": lambda p, n: (
        p.map(lambda z: np.frombuffer(zlib.decompress(z), np.uint8), columns=["z"], threads=n)
        .map(lambda z: z[:1000], columns=["z"], threads=n)
        .batch(32)
    ),
    "bound by augmenting": lambda p, n: (
        p.map(lambda z: np.ones(60_000, np.float32), columns=["z"], threads=n)
        .map(lambda z: np.sort(np.sin(z))[:100], columns=["z"], threads=n)
        .batch(32)
    ),
    "one slow stage": lambda p, n: (
        p.map(lambda z: len(z), columns=["z"], threads=n)
        .map(lambda z: (time.sleep(0.004), z)[1], columns=["z"], threads=n)
        .batch(32)
    ),
}


def chosen(path: str, seconds: float) -> Iterator[dict[str, Any]]:
    """What "auto" gives after ten seconds at most, beside the best number found by hand."""
    for name, build in SHAPES.items():

        def loader(plan: PipelinePlan | None = None, build: Any = build) -> Pipeline:
            ds = unirecord.UniRecordDataset(path, columns=["z"]).take(1500)
            return build(ds.pipeline(plan=plan), "auto")

        best = 0.0
        for workers in (1, 2, 3, 4, 8, 16, 32, 64):
            fixed = loader(PipelinePlan(workers))
            _seconds(fixed, seconds / 4)
            count, took = _repeated(fixed, seconds)
            best = max(best, count / took)
            yield answer.figure(name, f"{workers} threads", 32 * count / took, "samples/s")
        tuned = loader()
        _repeated(tuned, 5)
        count, took = _repeated(tuned, seconds)
        yield answer.figure(name, f"auto: {tuned.plan().workers} threads", 32 * count / took, "samples/s")
        yield answer.figure(name, "auto / best", count / took / best, "ratio")


def _repeated(loader: Any, seconds: float) -> tuple[int, float]:
    """Results over epochs until the time is over."""
    count, took = 0, 0.0
    while took < seconds:
        more, spent = _seconds(loader, seconds - took)
        count, took = count + more, took + spent
    return count, took


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", default=["overhead", "waiting", "computing", "large", "chosen"])
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    path, small = _data(arguments.data), arguments.small
    parts = {
        "overhead": lambda: overhead(path, 2 if small else 7),
        "waiting": lambda: waiting(path, 0.5 if small else 3),
        "computing": lambda: computing(path, 0.5 if small else 4),
        "large": lambda: large(6 if small else 40),
        "chosen": lambda: chosen(path, 0.3 if small else 3),
    }
    answer.answer([figure for name in arguments.only for figure in parts[name]()])


if __name__ == "__main__":
    main()
