"""Random schedules of faults of an object store: every epoch has exact values, each once, or ends with a clear error.

python tests/support/remote_fault_schedules.py [--schedules N] [--seed S]     `make remote-faults` runs 10,000
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from objectstore import Fault, Request, Server, serving

from unirecord import UniRecordDataset, UniRecordError, Writer

ROWS = 120
KINDS = ("status", "hang up", "cut", "flip", "pause")
ORDERS: tuple[dict[str, Any], ...] = (
    {"shuffle": True},
    {"shuffle": "block", "block_rows": 8, "window_blocks": 6},  # which are asked for ahead
    {"shuffle": False},
)
STATUSES = (400, 403, 404, 408, 412, 416, 429, 500, 502, 503, 504)


def write(bucket: Path) -> None:
    """A directory of parts, and one part: cells, strings, nulls."""
    bucket.mkdir()
    rng = random.Random(5)
    for name, part_bytes in (("many", "40kB"), ("one.urec", None)):
        with Writer(
            bucket / name, {"x": "bytes", "n": "int64", "s": "string?"}, max_part_bytes=part_bytes
        ) as w:
            for i in range(ROWS):
                w.write(
                    {"x": rng.randbytes(rng.randrange(2_000)), "n": i, "s": None if i % 5 == 0 else f"{i}"}
                )


def read(path: Any, seed: int, **options: Any) -> list[tuple[Any, ...]]:
    """Rows of an epoch in one of the orders, by batches, and of two lookups."""
    with UniRecordDataset(path, seed=seed, **ORDERS[seed % 3], **options) as ds:
        rows = [
            row
            for batch in ds.batches(16, num_threads=2)
            for row in zip(*(list(batch[name]) for name in ("x", "n", "s")), strict=True)
        ]
        return [*rows, *(tuple(ds[i][name] for name in ("x", "n", "s")) for i in (0, ROWS - 1))]


class Schedule:
    """What happens to each request, by its number: some kinds of faults, each as likely as it happens to be."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._likely = self._random.choice((0.01, 0.05, 0.2, 0.5, 1.0))
        self._kinds = self._random.sample(KINDS, self._random.randrange(1, len(KINDS) + 1))
        self.faults = 0

    def __call__(self, request: Request) -> Fault | None:
        draw = self._random
        if draw.random() >= self._likely:
            return None
        self.faults += 1
        kind = draw.choice(self._kinds)
        if kind == "status":
            return Fault(status=draw.choice(STATUSES))
        if kind == "hang up":
            return Fault(hang_up=True)
        if kind == "cut":
            return Fault(cut=draw.choice((0, 1, draw.randrange(5_000))))
        if kind == "flip":
            return Fault(flip=draw.randrange(1 << 20))
        return Fault(pause=draw.random() * 0.003)


def try_schedule(server: Server, seed: int, expected: dict[str, list[tuple[Any, ...]]]) -> str:
    """``"exact"``, or the name of the exception that the schedule ended with; AssertionError when neither is so."""
    name = ("many", "one.urec")[seed % 2]
    schedule = Schedule(seed)
    options = {"endpoint": server.url, "region": "r", "skip_signature": "true", "timeout": "20s"}
    retries = {"max_retries": seed % 5, "backoff": {"init_backoff": 0.0005, "max_backoff": 0.001}}
    server.fault = schedule
    failure: Exception | None = None
    found: list[tuple[Any, ...]] = []
    try:
        found = read(f"s3://bucket/{name}", seed % 9, storage_options={**options, "retry_config": retries})
    except (UniRecordError, OSError) as error:
        failure = error
    if failure is None:
        assert found == expected[f"{name} {seed % 9}"], f"seed {seed}: other rows"
        return "exact"
    assert schedule.faults, f"seed {seed}: {failure!r} without a fault"
    assert f"s3://bucket/{name}" in str(failure), f"seed {seed}: {failure!r} does not say where"
    return type(failure).__name__


def run(schedules: int, first: int, root: Path) -> Counter[str]:
    """How the schedules ended."""
    write(root / "bucket")
    expected = {
        f"{name} {seed}": read(root / "bucket" / name, seed)
        for name in ("many", "one.urec")
        for seed in range(9)
    }
    with serving(root) as server:
        return Counter(try_schedule(server, seed, expected) for seed in range(first, first + schedules))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = run(args.schedules, args.seed, Path(folder))
    print(
        f"{args.schedules} schedules from seed {args.seed}:",
        ", ".join(f"{n} {how}" for how, n in found.most_common()),
    )
    sys.exit(0 if found["exact"] else 1)


if __name__ == "__main__":
    main()
