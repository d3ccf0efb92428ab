"""Reading from an object store on the loopback: beside bare requests of the same client, and beside peers.

python benchmarks/object_store.py [--rows N] [--latency-ms T] [--late SHARE SECONDS] [--rounds N] [--only NAME ...]
    [--quick]
`python benchmarks/run.py --suite store` measures the same, with its data and environments kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import environments
import numpy as np
from caches import fill
from compare import Measurement, Plan
from entrants import HERE, Entrant, Field, call
from workloads import Raw, Workload, generate

from unirecord import UniRecordDataset, Writer

ROW_BYTES = 100_000
BATCH = 64
ROWS, QUICK_ROWS = 16_000, 200  # of which opening, 0.17 s, is a thirtieth
LATENCY = 0.025  # seconds a request
LINK, LINKED_ROWS = (
    200e6,
    16_000,
)  # bytes a second of a link that server and client of two cores fill with ease
OPENED_ROWS, QUICK_OPENED_ROWS = 10**8, 10**5
SERVER = """
import random, sys
from pathlib import Path
from objectstore import Fault, serving
root, *numbers = sys.argv[1:]
latency, bandwidth, share, pause = map(float, numbers)
with serving(Path(root), latency, bandwidth) as server:
    server.fault = lambda request: Fault(pause=pause) if random.random() < share else None
    print(server.url, flush=True)
    for line in sys.stdin:
        print(len(server.requests), server.bytes, flush=True)
"""


class Serving:
    """A server in a process of its own; as text it is its URL."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = self._line()

    def __str__(self) -> str:
        return self.url

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def counts(self) -> tuple[int, int]:
        """Requests so far, and the bytes of all answers."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        requests, sent = self._line().split()
        return int(requests), int(sent)


@contextmanager
def serving(
    root: Path, latency: float, bandwidth: float = 0.0, late: Sequence[float] = (0.0, 0.0)
) -> Iterator[Serving]:
    """A server over the folder of buckets ``root``; its answers share ``bandwidth`` bytes a second; 0: no limit.

    ``late``: a share of the requests, and seconds that they take more.
    """
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent / "tests" / "support")}
    command = [sys.executable, "-c", SERVER, str(root), *map(str, (latency, bandwidth, *late))]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        yield Serving(process)
    finally:
        process.communicate()


def write(path: Path, rows: int) -> None:
    """Rows of one size, in one part."""
    rng = np.random.default_rng(0)
    with Writer(path, {"x": f"uint8[{ROW_BYTES}]"}) as writer:
        for _ in range(rows):
            writer.write({"x": rng.integers(0, 256, ROW_BYTES, np.uint8)})


@dataclass(frozen=True)
class Reading:
    """A line of the table: who reads, from whose files, in which order."""

    name: str
    reader: str
    peer: str  # that writes the files
    environment: str = ""
    order: str = "exact"

    @property
    def linked(self) -> bool:
        """Whether it is read through a link as well: the bare client, and what users get by default."""
        return self.peer == "unirecord" and self.order not in ("runs", "floor")


READINGS = (
    Reading("bare ranges of the rows' size, random", "bare-random", "unirecord"),
    Reading("UniRecord, exact shuffle", "unirecord", "unirecord"),
    Reading("bare download, in order", "bare-download", "unirecord"),
    Reading("bare download, copied once and digested", "bare-batches", "unirecord", order="floor"),
    Reading("the same into 600 MB of new memory", "bare-windows", "unirecord", order="floor"),
    Reading('UniRecord, shuffle="block"', "unirecord", "unirecord", order="block"),
    Reading('UniRecord, shuffle="block", 4 blocks a batch', "unirecord", "unirecord", order="runs"),
    Reading("UniRecord, in order", "unirecord", "unirecord", order="in order"),
    Reading("Lance, take, exact shuffle", "lance", "lance", "lance"),
    Reading("MosaicML Streaming, exact shuffle (py1s)", "mosaicml", "mosaicml", "mosaicml"),
    Reading("LitData, chunks shuffled", "litdata", "litdata", "litdata"),
    Reading("WebDataset, buffer of 1,000", "webdataset", "webdataset", "webdataset"),
)


def _key(reading: Reading, folder: Path) -> str:
    """What the reader is told, below the bucket."""
    if reading.peer == "unirecord":
        [part] = sorted(folder.glob("*.urec"))
        return f"{reading.peer}/{part.name}"
    if reading.peer == "webdataset":
        return ",".join(f"{reading.peer}/{shard.name}" for shard in sorted(folder.glob("*.tar")))
    return f"{reading.peer}/" + ("data.lance" if reading.peer == "lance" else "data")


def _read(field: Field, raw: Raw, server: Serving, reading: Reading, number: int) -> dict[str, Any]:
    """An epoch in a process of its own; with the requests and bytes that the server counts."""
    bucket = raw.directory.parent
    scratch = bucket / "scratch"
    scratch.mkdir(exist_ok=True)
    command = [field.python(reading.environment), str(HERE / "tasks" / "stored.py"), reading.reader]
    told = {
        "endpoint": server.url,
        "bucket": bucket.name,
        "key": _key(reading, bucket / reading.peer),
        "rows": raw.rows,
        "row-bytes": raw.row_bytes,
        "order": reading.order,
        "seed": number,
        "scratch": scratch,
    }
    for name, value in told.items():
        command += [f"--{name}", str(value)]
    before = server.counts()
    found = call(command)
    requests, sent = np.subtract(server.counts(), before).tolist()
    return {**found, "requests": requests, "bytes": sent}


def epochs(
    field: Field,
    plan: Plan,
    rows: int,
    latency: float,
    bandwidth: float = 0.0,
    late: Sequence[float] = (0.0, 0.0),
) -> Iterator[Measurement]:
    """Epochs of all in turns."""
    workload = Workload("store", "100 KB rows", rows, ROW_BYTES)
    title = f"store, a link of {bandwidth / 1e6:.0f} MB/s" if bandwidth else workload.name
    raw = generate(workload, field.data / workload.name / "raw")
    ready: list[Reading] = []
    for reading in READINGS:
        if bandwidth and not reading.linked:
            continue
        if plan.only and not any(name.lower() in reading.name.lower() for name in plan.only):
            continue
        writer = Entrant(reading.name, reading.peer, reading.environment)
        reason = field.ready(writer) or field.write(writer, raw).get("failed")
        if reason:
            yield {"suite": "store", "workload": title, "entrant": reading.name, "absent": reason}
        else:
            ready.append(reading)
    with serving(field.data, latency, bandwidth, late) as server:
        for reading in ready:
            fill(
                raw.directory.parent / reading.peer
            )  # else the first to read a file has the server wait for a disk
            found = _read(field, raw, server, reading, plan.round)
            line = {"suite": "store", "workload": title, "entrant": reading.name}
            if "failed" in found:
                yield {**line, "absent": found["failed"]}
                continue
            rate = found["samples"] / found["seconds"]
            share = found["bytes"] / raw.total_bytes
            yield {
                **line,
                "value": rate,
                "unit": "rows/s",
                "requests": found["requests"],
                "bytes_of_data": share,
                "processor_us": 1e6 * found["processor_s"] / found["samples"],
            }


def _make_long(folder: Path, rows: int) -> None:
    if not folder.exists():
        with Writer(folder, {"x": "int8"}) as writer:
            for start in range(0, rows, 10**7):
                numbers = np.arange(start, min(rows, start + 10**7))
                writer.write_batch({"x": (numbers % 100).astype(np.int8)})


def opening(field: Field, plan: Plan, rows: int, latency: float) -> Iterator[Measurement]:
    """Requests and time until a long dataset is open, and until its first row is there."""
    folder = field.data / "store" / f"long-{rows}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    _make_long(folder, rows)
    [part] = folder.glob("*.urec")
    with serving(field.data, latency) as server:
        for name, key in (("directory", folder.name), ("part by its name", f"{folder.name}/{part.name}")):
            url = f"{server}/store/{key}"
            UniRecordDataset(url).close()  # what a process pays once is not what is measured
            before, began = server.counts(), time.perf_counter()
            with UniRecordDataset(url, shuffle=True) as ds:
                opened, then = time.perf_counter() - began, server.counts()
                assert len(ds) == rows
                assert 0 <= ds[rows // 3]["x"] < 100
                first = time.perf_counter() - began
            figures = {
                "open": (1e3 * opened, "ms"),
                "open, requests": (then[0] - before[0], "requests"),
                "open and a row": (1e3 * first, "ms"),
                "open and a row, requests": (server.counts()[0] - before[0], "requests"),
            }
            for what, (value, unit) in figures.items():
                yield {
                    "suite": "store",
                    "workload": f"{rows:.0e} rows, {name}".replace("e+0", "e"),
                    "entrant": what,
                    "value": value,
                    "unit": unit,
                }


def measure(field: Field, plan: Plan) -> Iterator[Measurement]:
    """The suite of `make bench`."""
    yield from epochs(field, plan, QUICK_ROWS if plan.small else ROWS, LATENCY)
    yield from epochs(field, plan, QUICK_ROWS if plan.small else ROWS, LATENCY, LINK)
    yield from opening(field, plan, QUICK_OPENED_ROWS if plan.small else OPENED_ROWS, LATENCY)


def _show(measurements: Sequence[Measurement]) -> None:
    lines: dict[tuple[str, str], list[Measurement]] = {}
    for one in measurements:
        if "absent" in one:
            print(f"{one['entrant']}: {one['absent']}")
        else:
            lines.setdefault((one["workload"], one["entrant"]), []).append(one)
    for (workload, entrant), found in lines.items():
        values = [one["value"] for one in found]
        print(f"{workload:28} {entrant:42} {median(values):9,.1f} {found[0]['unit']} {_more(found)}")


def _more(found: Sequence[Measurement]) -> str:
    """The best of several rounds, and what the server counted, in the middle of them."""
    if "requests" not in found[0]:
        return ""
    names = ("requests", "bytes_of_data", "processor_us")
    requests, share, processor = (median(one[name] for one in found) for name in names)
    most = max(one["value"] for one in found)
    return (
        f"(at most {most:,.1f}), {requests:,.0f} requests, {share:.3f} of the data, {processor:.0f} us a row"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--opened-rows", type=int, default=OPENED_ROWS)
    parser.add_argument("--latency-ms", type=float, default=1e3 * LATENCY)
    parser.add_argument(
        "--bandwidth-mb", type=float, default=0.0, help="MB a second of all answers; 0: no limit"
    )
    parser.add_argument(
        "--late",
        nargs=2,
        type=float,
        default=(0.0, 0.0),
        metavar=("SHARE", "SECONDS"),
        help="of the requests, a share takes so much longer",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--only", nargs="*", default=[], metavar="NAME", help="readers whose name contains NAME"
    )
    parser.add_argument("--quick", action="store_true", help="few rows: whether it runs, not how fast")
    parser.add_argument("--data", type=Path, help="where to make the data; a temporary folder by default")
    parser.add_argument("--cache", type=Path, default=environments.DEFAULT_CACHE, help="of environments")
    args = parser.parse_args()
    if args.quick:
        args.rows, args.opened_rows, args.rounds = QUICK_ROWS, QUICK_OPENED_ROWS, 1
    with tempfile.TemporaryDirectory(dir=args.data) as folder:
        field, latency = Field(args.cache.resolve(), Path(folder)), args.latency_ms / 1e3
        found: list[Measurement] = []
        for number in range(args.rounds):
            plan = Plan([], [], [], number, 0.0, args.only, args.quick)
            found += epochs(field, plan, args.rows, latency, 1e6 * args.bandwidth_mb, args.late)
            if not args.only:
                found += opening(field, plan, args.opened_rows, latency)
        _show(found)


if __name__ == "__main__":
    main()
