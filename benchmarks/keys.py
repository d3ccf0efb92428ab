"""Times `ds.get(column, key)` of a part on a disk, and counts its requests where it is in an object store.

    python benchmarks/keys.py [--rows 1000000] [--parts 10] [--keys 20000] [--rounds 5]

Keys are integers and paths, drawn at random of rows in random order, all in the page cache. Times are of the
processor, the least of some rounds; the store is that of the tests, on the loopback, and has the rows in one part
and in several.
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
import numpy.typing as npt

from unirecord import UniRecordDataset, Writer, append

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
from objectstore import serving

COLUMNS: dict[str, Callable[[int], Any]] = {"n": int, "path": "images/{:09}.jpg".format}
COUNTED = 6  # keys whose requests are counted


def write(path: Path, order: npt.NDArray[np.int64]) -> None:
    """A part, or one more of a directory, with these numbers, a path of each, and some bytes."""
    schema = {"n": "int64", "path": "string", "x": "bytes"}
    with append(path) if path.is_dir() else Writer(path, schema, index=list(COLUMNS)) as writer:
        for start in range(0, len(order), 1 << 17):
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
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    drawn = np.random.default_rng(2).integers(0, options.rows, options.keys).tolist()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "bucket", "rows.urec")
        path.parent.mkdir()
        order = np.random.default_rng(1).permutation(options.rows)
        write(path, order)
        for some in np.array_split(order, options.parts):
            write(path.parent / "parts", some)
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
            for where, what in (("rows.urec", "one part"), ("parts", f"{options.parts} parts")):
                for name, of in COLUMNS.items():
                    with UniRecordDataset(f"s3://bucket/{where}") as ds:
                        counts, server.bytes = [], 0
                        for key in [*drawn[:COUNTED], options.rows]:
                            before = len(server.requests)
                            ds.get(name, of(key), None)
                            counts.append(len(server.requests) - before)
                    print(
                        f"ds.get({name!r}, key) in {what} in a store: {counts[:-1]} requests, key after key, "
                        f"{counts[-1]} where there is none; {server.bytes / 1e6:.1f} MB in all"
                    )


if __name__ == "__main__":
    main()
