"""Random rows from an object store on the loopback, beside bare ranged reads by the same client from the same server.

python benchmarks/object_store.py [--rows N] [--latency-ms T] [--rounds N] [--quick]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from unirecord import UniRecordDataset, Writer
from unirecord.parts.part_set import resolve

ROW_BYTES = 100_000
BATCH = 64
SERVER = """
import sys, time
from pathlib import Path
from objectstore import serving
with serving(Path(sys.argv[1]), float(sys.argv[2])) as server:
    print(server.url, flush=True)
    sys.stdin.read()
"""


@contextmanager
def serving(root: Path, latency: float) -> Iterator[str]:
    """The URL of a server in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "tests")}
    command = [sys.executable, "-c", SERVER, str(root), str(latency)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate()


def write(path: Path, rows: int) -> None:
    """Rows of one size, in one part."""
    rng = np.random.default_rng(0)
    with Writer(path, {"x": f"uint8[{ROW_BYTES}]"}) as writer:
        for _ in range(rows):
            writer.write({"x": rng.integers(0, 256, ROW_BYTES, np.uint8)})


def bare(url: str, rows: int, size: int, depth: int) -> float:
    """Rows a second that the client alone gets, so many requests in flight, anywhere in the object."""
    import obstore
    from obstore.store import from_url

    store = from_url(url.rsplit("/", 1)[0], client_options={"allow_http": True})
    name = url.rsplit("/", 1)[1]
    places = [random.randrange(size - ROW_BYTES) for _ in range(rows)]

    async def run() -> None:
        waiting = iter(places)

        async def worker() -> None:
            for start in waiting:
                await obstore.get_range_async(store, name, start=start, length=ROW_BYTES)

        await asyncio.gather(*(worker() for _ in range(depth)))

    began = time.perf_counter()
    asyncio.run(run())
    return rows / (time.perf_counter() - began)


def ours(url: str, epoch: int) -> float:
    """Rows a second of a shuffled epoch, in batches, digests checked."""
    with UniRecordDataset(url, shuffle=True, seed=epoch) as ds:
        began = time.perf_counter()
        rows = sum(len(batch["x"]) for batch in ds.batches(BATCH))
        return rows / (time.perf_counter() - began)


def opening(url: str) -> float:
    """Seconds until a dataset is open and its first row is there."""
    began = time.perf_counter()
    with UniRecordDataset(url) as ds:
        _ = ds[len(ds) // 2]
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--latency-ms", type=float, default=25.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few rows: whether it runs, not how fast")
    parser.add_argument("--data", type=Path, help="where to make the data; a temporary folder by default")
    args = parser.parse_args()
    rows = 200 if args.quick else args.rows
    with tempfile.TemporaryDirectory(dir=args.data) as folder:
        (bucket := Path(folder) / "bucket").mkdir()
        write(bucket / "a.urec", rows)
        size = resolve(bucket / "a.urec").parts[0].bytes
        with serving(Path(folder), args.latency_ms / 1_000) as server:
            url = f"{server}/bucket/a.urec"
            entrants: list[tuple[str, Callable[[int], float]]] = [
                (f"bare, {depth} in flight", lambda _, depth=depth: bare(url, rows, size, depth))  # type: ignore[misc]
                for depth in (64, 128, 256)
            ]
            entrants.append(("UniRecord", lambda turn: ours(url, turn)))
            found: dict[str, list[float]] = {name: [] for name, _ in entrants}
            for turn in range(1 if args.quick else args.rounds):
                for name, measure in entrants:
                    found[name].append(measure(turn))
            for name, rates in found.items():
                print(f"{name:22} {max(rates):9,.0f} rows/s best, {min(rates):9,.0f} worst of {len(rates)}")
            print(f"{'open and first row':22} {min(opening(url) for _ in range(3)) * 1e3:9,.1f} ms")


if __name__ == "__main__":
    main()
