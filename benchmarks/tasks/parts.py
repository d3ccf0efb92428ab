"""Batches out of one part and out of many: a shuffled batch of a set of many parts has a few rows in each."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import answer
import caches
from workloads import Raw

import unirecord

BATCH = 256
COUNTS = (1, 16, 128)
ROWS = {"rows": 256_000, "blobs": 4_000}
SECONDS = 1.0


def _make(path: Path, raw: Raw, parts: int, rows: int) -> None:
    """The first rows of a workload, in so many parts."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    cell = {"type": "uint8", "shape": [raw.row_bytes]} if raw.row_bytes else "bytes"
    for number in range(parts):
        chosen = range(number * rows // parts, (number + 1) * rows // parts)
        write = unirecord.append if number else unirecord.Writer
        with write(path, {"x": cell}) as writer:
            for row in chosen:
                writer.write({"x": raw.row(row) if raw.row_bytes else raw.row(row).tobytes()})


def _rate(path: Path, io: str) -> float:
    """Samples a second on one thread, after a first epoch or a second of it."""
    data = unirecord.UniRecordDataset(path, shuffle=True, verify="never", io=io)
    for warm in (True, False):
        begun, samples = time.perf_counter(), 0
        while samples == 0 or time.perf_counter() - begun < SECONDS:
            for batch in data.batches(BATCH, num_threads=1):
                samples += len(batch["x"])
                del batch
                if time.perf_counter() - begun > SECONDS:
                    break
            if warm:
                break
        rate = samples / (time.perf_counter() - begun)
    return rate


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    raw = Raw.open(arguments.data / arguments.workload / "raw")
    rows = min(ROWS[arguments.workload], raw.rows)
    measurements = []
    for parts in COUNTS[:2] if arguments.small else COUNTS:
        path = arguments.data / "parts" / f"{arguments.workload}-{parts}"
        _make(path, raw, parts, rows)
        caches.fill(path)
        for io, what in (("mmap", "cached"), ("uring-direct", "io=uring-direct")):
            name = f"{parts} part{'s' * (parts > 1)}, {what}"
            measurements.append(answer.figure(arguments.workload, name, _rate(path, io), "samples/s"))
    answer.answer(measurements)


if __name__ == "__main__":
    main()
