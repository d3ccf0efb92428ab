"""Pipelines: what empty operators cost, how stages scale, large arrays between processes."""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answer
import numpy as np

import unirecord
from unirecord import Pipeline

LARGE = (3, 2000, 2000)  # 48 MB of float32
WAIT_S = 0.005


def _data(folder: Path) -> str:
    path = folder / "pipeline.urec"
    if not path.exists():
        with unirecord.Writer(path, {"x": {"type": "float32", "shape": [32]}, "i": "int64"}) as writer:
            for i in range(20_000):
                writer.write({"x": np.full(32, i, np.float32), "i": i})
    return str(path)


def _seconds(loader: Any, most: float = 1e9) -> tuple[int, float]:
    count, start = 0, time.perf_counter()
    for result in loader:
        del result
        count += 1
        if time.perf_counter() - start > most:
            break
    return count, time.perf_counter() - start


def _added(plain: Pipeline, more: Pipeline, count: int, rounds: int) -> tuple[float, float]:
    """Microseconds that a result costs more, in turns: of the clock, and of the processor; medians."""
    found: dict[Pipeline, list[tuple[float, float]]] = {plain: [], more: []}
    for _ in range(rounds):
        for pipeline, measured in found.items():
            results = iter(pipeline)
            for _ in range(count):  # what operators take is known by then
                next(results)
            start, cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                next(results)
            measured.append((time.perf_counter() - start, time.process_time() - cpu))
            results.close()  # type: ignore[attr-defined]
    pairs = zip(found[plain], found[more], strict=True)
    gained = [(b[0] - a[0], b[1] - a[1]) for a, b in pairs]
    clock, cpu = (statistics.median(values) * 1e6 / count for values in zip(*gained, strict=True))
    return clock, cpu


def overhead(path: str, rounds: int) -> Iterator[dict[str, Any]]:
    """What a map and a map_batch cost that return what they get, beside the same pipeline without them."""
    samples = unirecord.UniRecordDataset(path, columns=["x", "i"], shuffle=True).pipeline()
    batches = samples.batch(64)
    cases = (
        ("an empty map adds", samples, samples.map(_same), 5000, "a sample"),
        ("a map with random=True adds", samples, samples.map(_same_at_random, random=True), 5000, "a sample"),
        ("an empty map_batch adds", batches, batches.map_batch(_same), 100, "a batch"),
    )
    for name, plain, more, count, each in cases:
        clock, cpu = _added(plain, more, count, rounds)
        yield answer.figure("nothing done", name, clock, f"µs {each}")
        yield answer.figure("nothing done", f"{name}, of the processor", cpu, f"µs {each}")


def _same(value: Any) -> Any:
    return value


def _same_at_random(value: Any, rng: Any) -> Any:
    return value


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


def computing(path: str, rounds: int, seconds: float) -> Iterator[dict[str, Any]]:
    """A stage of 5 ms of Python, in turns; what processes give as a share of as many times the loop's rate."""
    samples = list(unirecord.UniRecordDataset(path, columns=["i"]).take(1000))
    ways: tuple[dict[str, int], ...] = ({}, {"threads": 2}, {"processes": 1}, {"processes": 2})
    shares: dict[int, list[float]] = {1: [], 2: []}
    for number in range(rounds):
        alone = 0.0
        for option in ways:
            results: Any = map(_spin, samples)
            if option:
                ds = unirecord.UniRecordDataset(path, columns=["i"])
                results = iter(ds.pipeline().map(_spin, **option))
                next(results)  # processes start
            count, took = _seconds(results, seconds)
            del results
            name = " ".join(f"{key}={value}" for key, value in option.items()) or "a loop"
            yield answer.figure("5 ms of Python", name, count / took, "samples/s", round=number)
            alone = alone or count / took
            if "processes" in option:
                shares[option["processes"]].append(count / took / alone / option["processes"])
    for processes, found in shares.items():
        share = statistics.median(found)
        yield answer.figure(
            "5 ms of Python", f"processes={processes} / {processes} times the loop", share, "ratio"
        )


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
    """Arrays of 48 MB from processes that make one in 20 ms each to a consumer that takes 50 ms."""
    pipelines = {
        "made in this process, when asked for": Pipeline.from_generators([_large]),
        "from_generators, 1 process": Pipeline.from_generators([_large], processes=1),
        "from_generators, 4 processes": Pipeline.from_generators([_large] * 4, processes=4),
    }
    for name, pipeline in pipelines.items():
        results = iter(pipeline)
        waits = _waits(results, count)
        results.close()
        yield answer.figure("48 MB arrays", name, 1e3 * waits, "ms waited")
    for processes in (1, 4):
        queue: Any = multiprocessing.Queue(4)
        made = [multiprocessing.Process(target=_put, args=(queue,), daemon=True) for _ in range(processes)]
        for process in made:
            process.start()
        waits = _waits((queue.get() for _ in range(count)), count)
        for process in made:
            process.kill()
        name = f"multiprocessing.Queue, {processes} process{'es' if processes > 1 else ''}"
        yield answer.figure("48 MB arrays", name, 1e3 * waits, "ms waited")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="*", default=["overhead", "waiting", "computing", "large"])
    arguments = parser.parse_args()
    arguments.data.mkdir(parents=True, exist_ok=True)
    path, small = _data(arguments.data), arguments.small
    parts = {
        "overhead": lambda: overhead(path, 3 if small else 21),
        "waiting": lambda: waiting(path, 0.5 if small else 3),
        "computing": lambda: computing(path, 1 if small else 5, 0.5 if small else 2),
        "large": lambda: large(6 if small else 40),
    }
    answer.answer([figure for name in arguments.only for figure in parts[name]()])


if __name__ == "__main__":
    main()
