"""Batch sizes beside the floor on one and two threads, and what that says of machines with more cores."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from caches import fill
from compare import Measurement, Plan
from entrants import DEPTH, HERE, Entrant, Field, call
from medians import Medians, rate, ratio, table, times
from workloads import generate

SUITE = "batch_sizes"
SIZES = (16, 64, 256, 1024, 4096)  # as tasks/batch_sizes.py has them
CORES = (2, 4, 8, 16)
UNIRECORD, FLOOR, PYTHON = "UniRecord", "floor: memcpy", "added by Python"


def measure(field: Field, plan: Plan) -> Iterator[Measurement]:
    """512 B rows alone: larger ones reach the floor in batches of any size."""
    for workload in plan.workloads:
        if workload.name != "rows":
            continue
        raw = generate(workload, field.data / workload.name / "raw")
        field.write(Entrant(UNIRECORD, "unirecord"), raw)
        task = [sys.executable, str(HERE / "tasks" / "batch_sizes.py"), "--data", str(field.data)]
        result = call([*task, "--small"] if plan.small else task)
        if "failed" in result:
            yield {"suite": SUITE, "workload": "", "entrant": UNIRECORD, "absent": result["failed"]}
        for measurement in result.get("measurements", ()):
            yield {"suite": SUITE, **measurement}
        reason = field.build_floor()
        fill(raw.directory)
        for size in SIZES:
            for threads in (1, 2):
                words = [raw.data_path, "-", raw.rows, raw.row_bytes, threads, plan.seconds, size, DEPTH]
                found = {"failed": reason} if reason else call([str(field.floor), "memcpy", *map(str, words)])
                line = {"suite": SUITE, "workload": str(size), "entrant": FLOOR, "threads": threads}
                absent = {"absent": found["failed"]} if "failed" in found else {}
                yield {**line, "value": found.get("samples_per_s", 0.0), "unit": "samples/s", **absent}


def _figure(medians: Medians, size: int, entrant: str, threads: int = 0) -> float | None:
    return medians.figure((SUITE, str(size), "", threads, entrant), "value")


def measured(medians: Medians) -> str:
    """A line a batch size: both rates and their ratio on one and two threads, and what Python adds."""
    rows = []
    for size in SIZES:
        cells = []
        for threads in (1, 2):
            floor, mine = (_figure(medians, size, name, threads) for name in (FLOOR, UNIRECORD))
            cells += [rate(floor), rate(mine), times(ratio(mine, floor))]
        added = _figure(medians, size, PYTHON)
        rows.append([str(size), *cells, "–" if added is None else f"{added:.2g}"])
    one = ("floor", "UniRecord", "ratio")
    head = [f"{name}, {count}" for count in ("1 thread", "2 threads") for name in one]
    return table(["batch", *head, "added by Python, µs a batch"], rows)


def share(cores: int, size: int, row: float, floor_row: float, batch: float) -> float:
    """What part of the floor so many cores are to reach.

    A row takes ``row`` seconds of a core that reads, the floor's ``floor_row``; a batch takes ``batch`` seconds of
    the one thread that runs Python. All cores are busy, or that thread is; memory gives each core what it gives one.
    """
    samples = min(cores / (row + batch / size), size / batch)
    return samples * floor_row / cores


def modelled(medians: Medians) -> str:
    """The shares of the floor by number of cores: on two as measured, else from what rows and batches cost."""
    best = max((_figure(medians, size, UNIRECORD, 1) or 0.0 for size in SIZES), default=0.0)
    added = [one for one in (_figure(medians, size, PYTHON) for size in SIZES) if one]
    rows = []
    for size in SIZES:
        floor = _figure(medians, size, FLOOR, 1)
        on_two = ratio(_figure(medians, size, UNIRECORD, 2), _figure(medians, size, FLOOR, 2))
        shares = ["–"] * len(CORES)
        if floor and best and added:
            # The greatest of what was measured: it is about the same for batches of any size.
            batch = 1e-6 * max(added)
            shares = [times(share(cores, size, 1 / best, 1 / floor, batch)) for cores in CORES]
        rows.append([str(size), times(on_two), *shares])
    return table(["batch", "2 cores, measured", *(f"{cores} cores, modelled" for cores in CORES)], rows)
