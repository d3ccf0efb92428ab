"""UniRecord: `ds.batches(256)`, shuffled."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from protocol import BATCH, Reader, marker
from workloads import Raw

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))  # in an environment of a framework's own, the package is not installed
unirecord = importlib.import_module("unirecord")
CHUNK_BYTES = 32 << 20


def schema_of(raw: Raw) -> dict[str, Any]:
    return {"x": {"type": "uint8", "shape": [raw.row_bytes]} if raw.row_bytes else "bytes"}


def write(raw: Raw, directory: Path) -> None:
    chunk = max(1, CHUNK_BYTES * raw.rows // raw.total_bytes)
    with unirecord.Writer(directory / "data.urec", schema_of(raw)) as writer:
        for start in range(0, raw.rows, chunk):
            stop = min(raw.rows, start + chunk)
            rows: Any = (
                raw.matrix[start:stop]
                if raw.row_bytes
                else [raw.row(i).tobytes() for i in range(start, stop)]
            )
            writer.write_batch({"x": rows})


def link(raw: Raw, directory: Path) -> None:
    """The same part again, for another driver of it: the same files where they are there."""
    made = raw.directory.parent / "unirecord"
    if not marker(made).exists():
        write(raw, directory)
        return
    for path in made.glob("data.urec*"):
        os.link(path, directory / path.name)


class UniRecordReader(Reader):
    def __init__(self, raw: Raw, directory: Path, threads: int, **options: str) -> None:
        self.data = unirecord.UniRecordDataset(directory / "data.urec", shuffle=True, **options)
        self.loader = self.data.batches(BATCH, num_threads=threads)

    def epoch(self, number: int) -> Iterator[Any]:
        self.data.set_epoch(number)
        return iter(self.loader)

    def size(self, batch: Any) -> int:
        return len(batch["x"])

    def first(self, batch: Any) -> bytes:
        return bytes(np.ascontiguousarray(batch["x"][0]))

    def close(self) -> None:
        self.data.close()


def open_reader(raw: Raw, directory: Path, threads: int, **options: str) -> UniRecordReader:
    return UniRecordReader(raw, directory, threads, **options)
