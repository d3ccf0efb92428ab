"""The first epoch of a fresh process under one `verify`, or later epochs under each in turns, cached."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import answer
import caches

import unirecord

BATCH = 256
SECONDS = 1.0
BATCHES_BYTES = 1 << 30  # of memory at hand for the batches of a first epoch


def _rate(loader: Iterable[Mapping[str, Any]]) -> float:
    """Samples a second of one epoch."""
    begun, samples = time.perf_counter(), 0
    for batch in loader:
        samples += len(batch["x"])
        del batch
    return samples / (time.perf_counter() - begun)


def _later(loaders: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, float]:
    """Medians of epochs that take turns: what slows the machine for a moment slows them all."""
    for loader in loaders.values():
        _rate(loader)
    rates: dict[str, list[float]] = {verify: [] for verify in loaders}
    begun = time.perf_counter()
    while time.perf_counter() - begun < SECONDS * len(loaders):
        for verify, loader in loaders.items():
            rates[verify].append(_rate(loader))
    return {verify: statistics.median(found) for verify, found in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--workload", required=True)
    parser.add_argument(
        "--verify", nargs="+", required=True, help="one: its first epoch; several: later ones"
    )
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    path = arguments.data / arguments.workload / "unirecord" / "data.urec"
    caches.fill(path.parent)
    caches.have_memory(BATCHES_BYTES)
    loaders = {
        verify: unirecord.UniRecordDataset(path, shuffle=True, verify=verify).batches(BATCH, num_threads=1)
        for verify in arguments.verify
    }
    if len(loaders) == 1:
        rates, what = {verify: _rate(loader) for verify, loader in loaders.items()}, "first epoch"
    else:
        rates, what = _later(loaders), "later epochs"
    answer.answer(
        [
            answer.figure(arguments.workload, f"verify={verify}, {what}", rate, "samples/s")
            for verify, rate in rates.items()
        ]
    )


if __name__ == "__main__":
    main()
