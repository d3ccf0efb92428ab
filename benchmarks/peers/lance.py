"""Lance: `take` of a batch of row numbers, through io_uring."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from protocol import Gather
from workloads import Raw

lance = importlib.import_module("lance")
CHUNK_BYTES = 64 << 20
SCHEME = "file+uring://"  # rows taken at random come faster than through a plain path


def _type(raw: Raw) -> Any:
    return pa.binary(raw.row_bytes) if raw.row_bytes else pa.large_binary()


def _tables(raw: Raw, schema: Any) -> Iterator[Any]:
    rows = max(1, CHUNK_BYTES * raw.rows // raw.total_bytes)
    for start in range(0, raw.rows, rows):
        values = [raw.row(number).tobytes() for number in range(start, min(raw.rows, start + rows))]
        yield pa.record_batch([pa.array(values, schema.field("x").type)], schema=schema)


def write(raw: Raw, directory: Path) -> None:
    schema = pa.schema([("x", _type(raw))])
    lance.write_dataset(_tables(raw, schema), str(directory / "data.lance"), schema=schema)


class LanceReader(Gather):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        super().__init__(raw, threads)
        self.data = lance.dataset(f"{SCHEME}{(directory / 'data.lance').resolve()}")

    def fetch(self, ids: list[int]) -> Any:
        return self.data.take(ids, columns=["x"]).column("x")

    def first(self, batch: Any) -> bytes:
        return bytes(batch[0].as_py())


def open_reader(raw: Raw, directory: Path, threads: int) -> LanceReader:
    return LanceReader(raw, directory, threads)
