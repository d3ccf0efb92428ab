"""The first epoch and later ones of a fresh process under one `verify`, cached."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import answer
import caches

import unirecord

BATCH = 256
SECONDS = 1.0


def _epoch(loader: Iterable[dict[str, Any]]) -> int:
    samples = 0
    for batch in loader:
        samples += len(batch["x"])
        del batch
    return samples


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument("--verify", required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    path = arguments.data / arguments.workload / "unirecord" / "data.urec"
    caches.fill(path.parent)
    data = unirecord.UniRecordDataset(path, shuffle=True, verify=arguments.verify)
    loader = data.batches(BATCH, num_threads=1)
    start = time.perf_counter()
    first = _epoch(loader) / (time.perf_counter() - start)
    begun, samples = time.perf_counter(), 0
    while time.perf_counter() - begun < SECONDS:
        samples += _epoch(loader)
    later = samples / (time.perf_counter() - begun)
    name = f"verify={arguments.verify}"
    answer.answer(
        [
            answer.figure(arguments.workload, f"{name}, first epoch", first, "samples/s"),
            answer.figure(arguments.workload, f"{name}, later epochs", later, "samples/s"),
        ]
    )


if __name__ == "__main__":
    main()
