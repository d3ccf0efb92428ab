"""Rows a second written by one library, from rows already in memory until the file is closed."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import answer
import numpy as np
from caches import SPARE, have_memory
from workloads import Raw

CHUNK = 32_768  # rows of 512 B handed over at once: 16 MB
FIRST = 256  # rows written before the clock starts, so that no import is timed
REPEATS = 3
SETTLE = 1.5  # seconds in which the disk forgets what was removed before: else the next writer waits

Write = Callable[[Raw, Any, Path], None]  # the rows: bytes each, or one array [rows, row_bytes]


def _unirecord_batches(raw: Raw, rows: np.ndarray, path: Path) -> None:
    unirecord = importlib.import_module("unirecord")
    with unirecord.Writer(path / "data.urec", {"x": {"type": "uint8", "shape": [raw.row_bytes]}}) as writer:
        for start in range(0, len(rows), CHUNK):
            writer.write_batch({"x": rows[start : start + CHUNK]})


def _unirecord_rows(raw: Raw, rows: list[bytes], path: Path) -> None:
    unirecord = importlib.import_module("unirecord")
    with unirecord.Writer(path / "data.urec", {"x": "bytes"}) as writer:
        for row in rows:
            writer.write({"x": row})


def _flat(raw: Raw, rows: list[bytes], path: Path) -> None:
    with (path / "data.bin").open("wb") as out:
        for row in rows:
            out.write(row)
        out.flush()
        os.fsync(out.fileno())


def _bagz(raw: Raw, rows: list[bytes], path: Path) -> None:
    bagz = importlib.import_module("bagz")
    with bagz.Writer(path / "data.bag") as writer:
        for row in rows:
            writer.write(row)


def _arrayrecord(raw: Raw, rows: list[bytes], path: Path) -> None:
    module: Any = importlib.import_module("array_record.python.array_record_module")
    writer = module.ArrayRecordWriter(str(path / "data.array_record"), "group_size:1,uncompressed")
    for row in rows:
        writer.write(row)
    writer.close()


def _lmdb(raw: Raw, rows: list[bytes], path: Path) -> None:
    lmdb = importlib.import_module("lmdb")
    room = int(raw.total_bytes * 1.2) + raw.rows * 256 + (64 << 20)
    environment = lmdb.open(str(path / "data"), map_size=room, subdir=False)
    with environment, environment.begin(write=True) as transaction:
        for number, row in enumerate(rows):
            transaction.put(number.to_bytes(8, "big"), row, append=True)


WRITERS: dict[str, list[tuple[str, Write]]] = {
    "unirecord": [("UniRecord write_batch", _unirecord_batches), ("UniRecord write", _unirecord_rows)],
    "flat": [("flat file, fsync", _flat)],
    "bagz": [("Bagz writer", _bagz)],
    "arrayrecord": [("ArrayRecord writer", _arrayrecord)],
    "lmdb": [("LMDB, one transaction", _lmdb)],
}


def _sync(directory: Path) -> None:
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def _time(raw: Raw, rows: Any, write: Write, scratch: Path) -> tuple[float, float]:
    """Seconds until the file is closed and, for those who don't do so themselves, synced."""
    path = scratch / "written"
    path.mkdir()
    os.sync()
    time.sleep(SETTLE)
    have_memory(raw.total_bytes + SPARE)
    start = time.perf_counter()
    write(raw, rows, path)
    closed = time.perf_counter() - start
    _sync(path)
    synced = time.perf_counter() - start
    shutil.rmtree(path)
    return closed, synced


def _measure(raw: Raw, entrant: str, write: Write, scratch: Path, place: str) -> dict[str, Any]:
    """Rows a second, the median of some files one after the other."""
    rows = np.array(raw.matrix) if write is _unirecord_batches else list(raw)
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    _time(raw, rows[:FIRST], write, scratch)
    times = [_time(raw, rows, write, scratch) for _ in range(REPEATS)]
    closed, synced = (statistics.median(found) for found in zip(*times, strict=True))
    shutil.rmtree(scratch)
    more = {"bytes_per_s": raw.total_bytes / synced, "unsynced": len(rows) / closed}
    return answer.figure(f"{raw.name}, {place}", entrant, len(rows) / synced, "rows/s", **more)


def _places(data: Path) -> dict[str, Path]:
    """The disk, and a file system in memory where there is room: the writer's own work, without the disk."""
    places = {"disk": data / "scratch"}
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 3 << 30:
        places["memory"] = memory / f"writing-{os.getpid()}"
    return places


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--writer", required=True)
    parser.add_argument("--workload", nargs="*", choices=("rows", "blobs"), default=[])
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    measurements = []
    for name in arguments.workload:
        raw = Raw.open(arguments.data / name / "raw")
        for entrant, write in WRITERS[arguments.writer]:
            if write is not _unirecord_batches or raw.row_bytes:
                for place, scratch in _places(arguments.data).items():
                    measurements.append(_measure(raw, entrant, write, scratch, place))
    answer.answer(measurements)


if __name__ == "__main__":
    main()
