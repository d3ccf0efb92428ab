"""The bytes every format is written from: three workloads, the same for every peer."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

SEED = 7


@dataclass(frozen=True)
class Workload:
    """What a workload's rows look like; `row_bytes` 0 means lognormal sizes around `mean_bytes`."""

    name: str
    title: str
    rows: int
    row_bytes: int
    mean_bytes: int = 0


WORKLOADS = {
    "rows": Workload("rows", "512 B rows", 1_000_000, 512),
    "arrays": Workload("arrays", "150 KB arrays", 6_000, 150_528),
    "blobs": Workload("blobs", "~110 KB blobs", 8_000, 0, 110_000),
}


def quick(workload: Workload) -> Workload:
    """The same in small, for a run that shows that everything works."""
    return Workload(
        workload.name, workload.title, workload.rows // 10, workload.row_bytes, workload.mean_bytes
    )


@dataclass(frozen=True)
class Raw:
    """The generated rows of one workload: `data.bin`, row after row, and `offsets.bin`, int64[rows + 1]."""

    directory: Path
    name: str
    rows: int
    row_bytes: int

    @property
    def data_path(self) -> Path:
        return self.directory / "data.bin"

    @property
    def offsets_path(self) -> Path:
        return self.directory / "offsets.bin"

    @cached_property
    def data(self) -> np.ndarray:
        return np.memmap(self.data_path, np.uint8, "r")

    @cached_property
    def offsets(self) -> np.ndarray:
        return np.fromfile(self.offsets_path, np.int64)

    @cached_property
    def matrix(self) -> np.ndarray:
        """uint8[rows, row_bytes] of a workload of fixed width."""
        return self.data.reshape(self.rows, self.row_bytes)

    def row(self, number: int) -> np.ndarray:
        return self.data[self.offsets[number] : self.offsets[number + 1]]

    def __iter__(self) -> Iterator[bytes]:
        for number in range(self.rows):
            yield self.row(number).tobytes()

    @property
    def total_bytes(self) -> int:
        return int(self.offsets[-1])

    @staticmethod
    def open(directory: Path) -> Raw:
        return Raw(directory, **json.loads((directory / "raw.json").read_text()))


def _sizes(workload: Workload) -> np.ndarray:
    if workload.row_bytes:
        return np.full(workload.rows, workload.row_bytes, np.int64)
    sigma = 0.5
    mu = math.log(workload.mean_bytes) - sigma * sigma / 2
    sizes = np.random.default_rng(SEED).lognormal(mu, sigma, workload.rows)
    return np.maximum(sizes, 64).astype(np.int64)


def _fill(path: Path, offsets: np.ndarray) -> None:
    """Random bytes; the first 8 of each row are its number, so that a reader's answer can be checked."""
    generator = np.random.default_rng(SEED + 1)
    total, step = int(offsets[-1]), 64 << 20
    with path.open("wb") as out:
        for start in range(0, total, step):
            out.write(generator.bytes(min(step, total - start)))
    data = np.memmap(path, np.uint8, "r+")
    numbers = np.arange(len(offsets) - 1, dtype="<i8").view(np.uint8).reshape(-1, 8)
    data[offsets[:-1, None] + np.arange(8)] = numbers
    data.flush()


def generate(workload: Workload, directory: Path) -> Raw:
    """Writes the workload's rows under `directory` unless they are there already."""
    directory.mkdir(parents=True, exist_ok=True)
    done = directory / "raw.json"
    raw = Raw(directory, workload.name, workload.rows, workload.row_bytes)
    if not done.exists():
        offsets = np.concatenate([[0], np.cumsum(_sizes(workload))]).astype(np.int64)
        offsets.tofile(raw.offsets_path)
        _fill(raw.data_path, offsets)
        done.write_text(json.dumps({"name": raw.name, "rows": raw.rows, "row_bytes": raw.row_bytes}))
    return raw
