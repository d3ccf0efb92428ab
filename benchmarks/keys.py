"""Times `ds.get(column, key)` of a part on a disk, and counts its requests where the part is in an object store.

    python benchmarks/keys.py [--rows 1000000] [--keys 20000] [--rounds 5]

Keys are integers and paths, drawn at random of rows in random order, all in the page cache. Times are of the
processor, the least of some rounds; the store is that of the tests, on the loopback.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unirecord import UniRecordDataset, Writer

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from objectstore import serving

COLUMNS: dict[str, Callable[[int], Any]] = {"n": int, "path": "images/{:09}.jpg".format}
COUNTED = 6  # keys whose requests are counted


def write(path: Path, rows: int) -> None:
    """A part of so many rows: a number, a path, and some bytes."""
    order = np.random.default_rng(1).permutation(rows)
    with Writer(path, {"n": "int64", "path": "string", "x": "bytes"}, index=list(COLUMNS)) as writer:
        for start in range(0, rows, 1 << 17):
            some = order[start : start + (1 << 17)]
            x = np.empty(len(some), object)
            x[:] = [b"%d" % number for number in some]
            writer.write_batch({"n": some, "path": [COLUMNS["path"](number) for number in some], "x": x})


def least(call: Callable[[Any], object], keys: Sequence[Any], rounds: int) -> float:
    """Microseconds of the processor that a call takes."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        for key in keys:
            call(key)
        found.append((time.process_time() - start) / len(keys) * 1e6)
    return min(found)


def main() -> None:
    """Prints what has been measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    drawn = np.random.default_rng(2).integers(0, options.rows, options.keys).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bucket", "rows.urec")
        path.parent.mkdir()
        write(path, options.rows)
        print(f"{options.rows:,} rows, {os.path.getsize(f'{path}.idx') / 1e6:.1f} MB of index")
        with UniRecordDataset(path) as ds:
            print(f"ds[i]: {least(ds.__getitem__, drawn, options.rounds):.1f} µs")
            for name, of in COLUMNS.items():
                taken = least(
                    lambda key, name=name: ds.get(name, key), [of(i) for i in drawn], options.rounds
                )
                print(f"ds.get({name!r}, key): {taken:.1f} µs")
        with serving(Path(folder)) as server:
            os.environ |= {
                "AWS_ENDPOINT_URL": server.url, "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1",
            }  # fmt: skip
            for name, of in COLUMNS.items():
                with UniRecordDataset("s3://bucket/rows.urec") as ds:
                    counts = []
                    for key in drawn[:COUNTED]:
                        before = len(server.requests)
                        ds.get(name, of(key))
                        counts.append(len(server.requests) - before)
                print(f"ds.get({name!r}, key) in a store: {counts} requests, key after key")


if __name__ == "__main__":
    main()
