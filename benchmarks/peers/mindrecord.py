"""MindRecord through MindSpore: MindDataset with shuffle, then batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mindspore.dataset as dataset
import numpy as np
from mindspore.mindrecord import FileWriter
from protocol import BATCH, Reader
from workloads import Raw

CHUNK = 500


def write(raw: Raw, directory: Path) -> None:
    writer = FileWriter(str(directory / "data.mindrecord"), shard_num=1, overwrite=True)
    schema = {"label": {"type": "int32"}, "data": {"type": "bytes"}}
    writer.add_schema(schema, "rows")
    chunk: list[dict[str, Any]] = []
    for number, row in enumerate(raw):
        chunk.append({"label": number % 1000, "data": row})
        if len(chunk) == CHUNK:
            writer.write_raw_data(chunk)
            chunk = []
    if chunk:
        writer.write_raw_data(chunk)
    writer.commit()


class MindRecordReader(Reader):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        self.data = dataset.MindDataset(
            str(directory / "data.mindrecord"),
            columns_list=["data"],
            shuffle=True,
            num_parallel_workers=threads,
        )
        self.fixed = bool(raw.row_bytes)
        if self.fixed:
            self.data = self.data.batch(BATCH)
        self.passes = self.data.create_tuple_iterator(num_epochs=-1, output_numpy=True)

    def epoch(self, number: int) -> Iterator[Any]:
        rows = (row[0] for row in self.passes)
        # Rows of different lengths can't be one array, so they come one by one.
        return rows if self.fixed else _lists(rows)

    def size(self, batch: Any) -> int:
        return len(batch)

    def first(self, batch: Any) -> bytes:
        return np.asarray(batch[0]).tobytes()


def _lists(rows: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def open_reader(raw: Raw, directory: Path, threads: int) -> MindRecordReader:
    return MindRecordReader(raw, directory, threads)
