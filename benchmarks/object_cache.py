"""A cache of an object store: a full one beside the same files on the disk, and what epochs fetch with a part of it.

python benchmarks/object_cache.py [--rows N] [--latency-ms T] [--rounds N] [--share S] [--quick]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from object_store import BATCH, ROW_BYTES, serving, write

from unirecord import UniRecordDataset

Figure = tuple[str, float, str]  # what, how much, its unit


def rate(ds: UniRecordDataset[Any], epoch: int) -> float:
    """Rows a second of a shuffled epoch, in batches, digests checked."""
    ds.set_epoch(epoch)
    began = time.perf_counter()
    rows = sum(len(batch["x"]) for batch in ds.batches(BATCH))
    return rows / (time.perf_counter() - began)


def full_beside_local(url: str, local: Path, cache: Path, rounds: int) -> list[Figure]:
    """Epochs of both in turn: the first after opening, which checks digests, and those after it; the best of each."""
    options = {"shuffle": True, "seed": 1}
    with UniRecordDataset(url, cache=cache, cache_bytes="1TB", **options) as ds:
        rate(ds, 0)
    found: dict[str, list[float]] = {}
    for _ in range(rounds):
        with (
            UniRecordDataset(url, cache=cache, cache_bytes="1TB", **options) as cached,
            UniRecordDataset(local, **options) as there,
        ):
            assert len(cached[0]) == len(there[0])  # the part is open
            for epoch in (1, 2, 3):
                turn = "first epoch" if epoch == 1 else "later epochs"
                found.setdefault(f"disk, {turn}", []).append(rate(there, epoch))
                found.setdefault(f"full cache, {turn}", []).append(rate(cached, epoch))
            assert cached.cache_stats().fetched_bytes == 0
    figures = [(name, max(rates), "rows/s") for name, rates in sorted(found.items())]
    for turn in ("first epoch", "later epochs"):
        ratio = max(found[f"full cache, {turn}"]) / max(found[f"disk, {turn}"])
        figures.append((f"full cache / disk, {turn}", ratio, "times"))
    return figures


def partly(url: str, cache: Path, data: int, share: float) -> list[Figure]:
    """Bytes that epochs fetch with a cache of this share of the data, and those of the cache's files."""
    limit, figures = int(data * share), []
    with UniRecordDataset(url, cache=cache, cache_bytes=limit, shuffle=True, seed=1) as ds:
        before = 0
        for epoch in range(3):
            rate(ds, epoch)
            fetched = ds.cache_stats().fetched_bytes
            name = f"cache of {share:.0%}, epoch {epoch}: fetched"
            figures.append((name, 100 * (fetched - before) / data, "% of the data"))
            before = fetched
        used = sum(file.stat().st_size for file in cache.iterdir())
        figures.append((f"cache of {share:.0%}: its files", 100 * used / limit, "% of its limit"))
    return figures


def measure(data: Path | None, rows: int, latency: float, rounds: int, share: float) -> list[Figure]:
    """All of it, in a temporary folder of ``data``; ``latency`` is the server's, in seconds a request."""
    with tempfile.TemporaryDirectory(dir=data) as folder:
        (bucket := Path(folder) / "bucket").mkdir()
        write(bucket / "a.urec", rows)
        with serving(Path(folder), latency) as server:
            url = f"{server}/bucket/a.urec"
            figures = full_beside_local(url, bucket / "a.urec", Path(folder) / "full", rounds)
            return figures + partly(url, Path(folder) / "part", rows * ROW_BYTES, share)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--latency-ms", type=float, default=25.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--quick", action="store_true", help="few rows: whether it runs, not how fast")
    parser.add_argument(
        "--data", type=Path, help="where to make data and caches; a temporary folder by default"
    )
    args = parser.parse_args()
    rows, rounds = (200, 1) if args.quick else (args.rows, args.rounds)
    for name, value, unit in measure(args.data, rows, args.latency_ms / 1_000, rounds, args.share):
        print(f"{name:36} {value:12,.2f} {unit}")


if __name__ == "__main__":
    main()
