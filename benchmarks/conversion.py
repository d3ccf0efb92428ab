"""Conversions to UniRecord beside reading and writing the same bytes, parsers alone, and other formats' writers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import environments
from caches import fill
from compare import Measurement, Plan
from entrants import HERE, Entrant, Field, call
from workloads import WORKLOADS, generate, quick

SMALL = 20  # times fewer rows
FLAT = "floor: files read and written as one, in Python"
DIGESTED = "the same digested, and synced by 32 MB"
MINE = "UniRecord"


@dataclass(frozen=True)
class Way:
    """A line of the table: a way of tasks/conversion.py, in its environment."""

    name: str
    way: str
    environment: str = ""
    options: tuple[str, ...] = ()
    workers: tuple[int, ...] = (1, 2)


@dataclass(frozen=True)
class Case:
    """What is converted: made by conversion_inputs.py, or of blobs by a peer where one is named."""

    title: str
    kind: str
    rows: int
    beside: tuple[Way, ...]
    peer: Entrant | None = None
    options: tuple[str, ...] = ()


READ_AND_WRITTEN = Way(FLAT, "flat")
SEQUENTIAL = (Way(FLAT, "flat", workers=(1,)), Way(DIGESTED, "digested", workers=(1,)))
RESIZED = ("--resize", "256", "--reencode", "jpeg:90")
CASES = (
    Case("CSV", "csv", 6_000_000, (Way("pyarrow.csv, parsing alone", "pyarrow-csv", workers=(1,)),)),
    Case("JSON Lines", "jsonl", 6_000_000, ()),
    Case("JSON Lines, chats", "chats", 100_000, (Way("pyarrow, to Parquet", "pyarrow-json", workers=(1,)),)),
    Case("Parquet, 10 M rows of scalars", "parquet", 10_000_000,
         (Way("pyarrow.parquet, reading alone", "pyarrow-parquet", workers=(1,)),)),
    Case("Parquet, 200 columns", "wide", 400_000, (Way("pyarrow, copied", "pyarrow-copy", workers=(1,)),)),
    Case("JPEG files", "pictures", 20_000, (READ_AND_WRITTEN, SEQUENTIAL[1])),
    Case("TFRecord", "", 0, SEQUENTIAL, Entrant("TFRecord", "tfrecord", "tensorflow")),
    Case("WebDataset", "", 0, SEQUENTIAL, Entrant("WebDataset", "webdataset", "webdataset")),
    Case("MDS", "", 0, SEQUENTIAL, Entrant("MDS", "mosaicml", "mosaicml")),
    Case("MindRecord", "", 0,
         (*SEQUENTIAL, Way("MindSpore FileReader, reading alone", "mindspore", "mindspore", workers=(1,))),
         Entrant("MindRecord", "mindrecord", "mindspore")),
    Case("JPEG, resized to 256, quality 90", "photographs", 6000,
         (Way("FFCV DatasetWriter", "ffcv", "ffcv"), Way("LitData optimize", "litdata", "litdata"),
          Way("Pillow, one file a picture", "pillow", "photographs")), options=RESIZED),
)  # fmt: skip


def make(field: Field, plan: Plan, case: Case) -> tuple[Path, int, str]:
    """What is to be converted, how many rows it has, and "" or the reason it can't be made."""
    if case.peer is not None:
        workload = WORKLOADS["blobs"]
        raw = generate(quick(workload) if plan.small else workload, field.data / workload.name / "raw")
        reason = field.ready(case.peer)
        outcome = {} if reason else field.write(case.peer, raw)
        return _content(field.directory(case.peer, raw)), raw.rows, reason or str(outcome.get("failed", ""))
    rows = case.rows // SMALL if plan.small else case.rows
    folder = field.data / "conversion" / f"{case.kind}-{rows}"
    python = sys.executable
    if case.kind == "photographs":
        reason = environments.ensure(field.cache, "photographs")
        if reason:
            return folder, rows, reason
        python = field.python("photographs")
    made = call([python, str(HERE / "conversion_inputs.py"), case.kind, str(folder), str(rows)])
    return _content(folder), rows, str(made.get("failed", ""))


def _content(folder: Path) -> Path:
    """The one file or folder in a folder; the folder itself where there are several."""
    found = [path for path in folder.glob("*") if not path.name.startswith(".") and path.suffix != ".db"]
    return found[0] if len(found) == 1 else folder


def measure(field: Field, plan: Plan) -> Iterator[Measurement]:
    """Rows a second, from files in memory to what is on the disk; in a new order each round."""
    for case in CASES:
        wanted = [part.lower() for part in plan.only if part.lower() not in MINE.lower()]
        if wanted and not any(part in case.title.lower() for part in wanted):
            continue
        source, rows, reason = make(field, plan, case)
        place = {"suite": "conversion", "workload": case.title, "cache": "hot"}
        if reason:
            yield {**place, "entrant": "", "absent": reason}
            continue
        fill(source)
        ways = [Way(MINE, "unirecord", options=case.options), *case.beside]
        for workers in plan.threads:
            taking = [way for way in ways if workers in way.workers]
            Random(plan.round).shuffle(taking)
            for way in taking:
                measured = run(field, way, source, rows, workers)
                yield {**place, "entrant": way.name, "threads": workers, **measured}


def run(field: Field, way: Way, source: Path, rows: int, workers: int) -> Measurement:
    """One timed run, or {"absent": why}."""
    reason = environments.ensure(field.cache, way.environment) if way.environment else ""
    if reason:
        return {"absent": reason}
    words = ["--rows", str(rows), "--data", str(field.data), "--workers", str(workers)]
    words += [f"--option={option}" for option in way.options]
    task = str(HERE / "tasks" / "conversion.py")
    measured = call([field.python(way.environment), task, way.way, str(source), *words])
    return {"absent": measured["failed"]} if "failed" in measured else measured
