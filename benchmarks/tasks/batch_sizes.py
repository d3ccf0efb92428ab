"""512 B rows, cached, in batches of different sizes, on one and two threads, and what Python adds to a batch."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import answer

import unirecord

SIZES = (16, 64, 256, 1024, 4096)
SECONDS = 1.0
READY, TURNS = 400, 8


def rate(data: Any, size: int, threads: int, seconds: float) -> float:
    """Samples a second, after a pass or as many seconds of it."""
    loader = data.batches(size, num_threads=threads)
    found = 0.0
    for _ in ("warm-up", "timed"):
        begun, samples = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            for batch in loader:
                samples += len(batch["x"])
                del batch
                if time.perf_counter() - begun > seconds:
                    break
        found = samples / (time.perf_counter() - begun)
    return found


def added(data: Any, size: int, turns: int) -> float:
    """Microseconds of the calling thread's processor time for a batch that is ready: the least of some turns."""
    least = float("inf")
    for _ in range(turns):
        batches = iter(data.batches(size, num_threads=2, prefetch=READY + 16))
        next(batches)
        time.sleep(0.05 + READY * size / 2e6)  # until all that it keeps ready is ready
        begun = time.thread_time()
        for _ in range(READY):
            next(batches)
        least = min(least, (time.thread_time() - begun) / READY)
        batches.close()
    return 1e6 * least


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    seconds, turns = (0.05, 1) if arguments.small else (SECONDS, TURNS)
    data = unirecord.UniRecordDataset(
        arguments.data / "rows/unirecord/data.urec", shuffle=True, verify="never"
    )
    found = []
    for size in SIZES:
        for threads in (1, 2):
            measured = rate(data, size, threads, seconds)
            found.append({**answer.figure(str(size), "UniRecord", measured, "samples/s"), "threads": threads})
        if size <= 256:  # of larger ones as many as are to be ready take gigabytes
            found.append(answer.figure(str(size), "added by Python", added(data, size, turns), "µs a batch"))
    answer.answer(found)


if __name__ == "__main__":
    main()
