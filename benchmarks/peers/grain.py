"""Grain over ArrayRecord: MapDataset.shuffle, read threads, batches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from array_record.python.array_record_data_source import ArrayRecordDataSource
from protocol import BATCH, Reader
from workloads import Raw

from peers import arrayrecord

grain = importlib.import_module("grain")


def write(raw: Raw, directory: Path) -> None:
    arrayrecord.write(raw, directory)


class GrainReader(Reader):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        self.source = ArrayRecordDataSource([str(directory / "data.array_record")])
        self.threads = threads
        self.fixed = bool(raw.row_bytes)

    def epoch(self, number: int) -> Iterator[Any]:
        dataset = grain.MapDataset.source(self.source).shuffle(seed=number)
        if self.fixed:
            dataset = dataset.map(lambda row: np.frombuffer(row, np.uint8))
        options = grain.ReadOptions(num_threads=self.threads, prefetch_buffer_size=500)
        stream = dataset.to_iter_dataset(options)
        return iter(stream.batch(BATCH) if self.fixed else stream.batch(BATCH, batch_fn=list))

    def size(self, batch: Any) -> int:
        return len(batch)

    def first(self, batch: Any) -> bytes:
        return bytes(batch[0])


def open_reader(raw: Raw, directory: Path, threads: int) -> GrainReader:
    return GrainReader(raw, directory, threads)
