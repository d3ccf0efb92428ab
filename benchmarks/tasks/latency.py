"""One row by `ds[i]`, and 256 rows by `__getitems__`, cached, in random order."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import answer
import numpy as np

import unirecord

BATCH = 256
CALLS = 50_000


def _seconds_a_call(call: Callable[[int], object], count: int, chunks: int = 50) -> float:
    """The median of many chunks of calls."""
    each = max(1, count // chunks)
    times = []
    for chunk in range(chunks):
        start = time.perf_counter()
        for number in range(chunk * each, (chunk + 1) * each):
            call(number)
        times.append((time.perf_counter() - start) / each)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    measurements = []
    for verify in ("first", "never"):
        data = unirecord.UniRecordDataset(arguments.data / "rows/unirecord/data.urec", verify=verify)
        ids = np.random.default_rng(0).integers(0, len(data), CALLS).tolist()
        lists = [ids[start : start + BATCH] for start in range(0, CALLS - BATCH, BATCH)]
        for batch in data.batches(4096):  # page tables filled, digests checked
            del batch
        item, many = data.__getitem__, data.__getitems__
        single = _seconds_a_call(lambda n: item(ids[n]), CALLS)  # noqa: B023  (called before the next turn)
        several = _seconds_a_call(lambda n: many(lists[n]), len(lists)) / BATCH  # noqa: B023
        measurements.append(answer.figure("rows", f"ds[i], verify={verify}", 1e6 * single, "µs"))
        measurements.append(
            answer.figure("rows", f"ds.__getitems__(256), verify={verify}", 1e6 * several, "µs a row")
        )
    answer.answer(measurements)


if __name__ == "__main__":
    main()
