"""LitData: an optimized local dataset, shuffled, through its StreamingDataLoader without workers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from protocol import BATCH, Reader, Unsuitable
from workloads import Raw

litdata = importlib.import_module("litdata")


def _row(directory: Path, number: int) -> dict[str, bytes]:
    return {"x": _raw(directory).row(number).tobytes()}


def _raw(directory: Path, opened: dict[Path, Raw] = {}) -> Raw:  # noqa: B006  (one open file per worker process)
    if directory not in opened:
        opened[directory] = Raw.open(directory)
    return opened[directory]


def write(raw: Raw, directory: Path) -> None:
    litdata.optimize(
        fn=partial(_row, raw.directory),
        inputs=list(range(raw.rows)),
        output_dir=str(directory / "data"),
        num_workers=1,
        chunk_bytes="64MB",
    )


class LitDataReader(Reader):
    def __init__(self, directory: Path, threads: int) -> None:
        if threads > 1:
            raise Unsuitable("one thread a process; more need worker processes")
        data = litdata.StreamingDataset(str(directory / "data"), shuffle=True)
        self.loader = litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=0, collate_fn=list)

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.loader)

    def size(self, batch: Any) -> int:
        return len(batch)

    def first(self, batch: Any) -> bytes:
        return bytes(batch[0]["x"])


def open_reader(raw: Raw, directory: Path, threads: int) -> LitDataReader:
    return LitDataReader(directory, threads)
