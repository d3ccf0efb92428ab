"""ArrayRecord: batched reads by index (`__getitems__` of its data source)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from array_record.python import array_record_module
from array_record.python.array_record_data_source import ArrayRecordDataSource
from protocol import Gather
from workloads import Raw


def write(raw: Raw, directory: Path) -> None:
    # group_size:1 is what its own documents advise for random access.
    writer = array_record_module.ArrayRecordWriter(
        str(directory / "data.array_record"), "group_size:1,uncompressed"
    )
    for row in raw:
        writer.write(row)
    writer.close()


class ArrayRecordReader(Gather):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        super().__init__(raw, threads)
        self.source = ArrayRecordDataSource([str(directory / "data.array_record")])

    def fetch(self, ids: list[int]) -> Any:
        return self.source.__getitems__(ids)


def open_reader(raw: Raw, directory: Path, threads: int) -> ArrayRecordReader:
    return ArrayRecordReader(raw, directory, threads)
