"""Opening a dataset and reading its first row, from 10^3 to 10^8 rows, each in a fresh process."""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

import answer
import numpy as np

import unirecord

COUNTS = (10**3, 10**5, 10**7, 10**8)
CHUNK = 10**6
WARM = 25 * 10**6  # 100 MB: enough that io="auto" looks for the process's control group, which it does once
PROBES = 7


def _make(path: Path, rows: int) -> None:
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with unirecord.Writer(path, {"x": "int32"}) as writer:
        for start in range(0, rows, CHUNK):
            writer.write_batch({"x": np.arange(start, min(rows, start + CHUNK), dtype=np.int32)})


PROBE = """
import json, sys, time
import unirecord
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096
def touch(path):
    start = time.perf_counter()
    ds = unirecord.UniRecordDataset(path, shuffle=True)
    ds[0]
    return ds, time.perf_counter() - start
kept = touch(sys.argv[1])  # what a process pays once, imports for one, is not what is measured
before = resident()
ds, seconds = touch(sys.argv[2])
print(json.dumps({"seconds": seconds, "resident": resident() - before}))
"""


def _probe(warm: Path, path: Path) -> dict[str, float]:
    """Seconds and bytes that opening `path` takes in a fresh process."""
    command = [sys.executable, "-c", PROBE, str(warm), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def median(probes: list[dict[str, float]], name: str) -> float:
    return statistics.median(probe[name] for probe in probes)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    directory = arguments.data / "opening"
    warm = directory / "warm-large.urec"
    _make(warm, 1000 if arguments.small else WARM)
    measurements = []
    for rows in COUNTS[:2] if arguments.small else COUNTS:
        path = directory / f"{rows}.urec"
        _make(path, rows)
        probes = [_probe(warm, path) for _ in range(PROBES + 1)][1:]  # the first one finds the files uncached
        name = f"{rows:.0e}".replace("e+0", "e")
        measurements.append(answer.figure(name, "open and first row", 1e6 * median(probes, "seconds"), "µs"))
        measurements.append(answer.figure(name, "resident growth", median(probes, "resident") / 1e6, "MB"))
    answer.answer(measurements)


if __name__ == "__main__":
    main()
