"""Parts made to be read, and the ways of reading them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unirecord import Writer
from unirecord.snapshot.part_set import ColumnResult, PartSet, resolve

WAYS = ["auto", "mmap", "pread", "uring", "uring-direct", "memory"]


def stored(result: ColumnResult, i: int) -> bytes | None:
    """Value i as its bytes."""
    if result.valid is not None and not result.valid[i]:
        return None
    if result.offsets is None:
        return result.data[i].tobytes()
    return result.data[result.offsets[i] : result.offsets[i + 1]].tobytes()


def part(folder: Path, name: str = "a.urec", rows: int = 100, more: int = 0) -> Path:
    path = folder / name
    schema = {"x": "int32", "name": "string?", "image": "bytes", "v": {"type": "float32", "shape": [4]}}
    with Writer(path, schema) as writer:
        for i in range(rows):
            writer.write(
                {
                    "x": i,
                    "name": None if i % 7 == 3 else f"n{i % 5}",
                    "image": bytes([i % 256]) * (i + more),
                    "v": np.full(4, i, np.float32),
                }
            )
    return path


def many_parts(folder: Path, rows: int) -> Path:
    with Writer(folder, {"x": "int64", "blob": "bytes"}, max_part_bytes="20KB") as writer:
        for i in range(rows):
            writer.write({"x": i, "blob": bytes(1000)})
    return folder


def read_all(path: Path, io: str = "mmap") -> list[ColumnResult]:
    source = resolve(path)
    return PartSet(source, io).read(np.arange(source.rows), range(len(source.schema)))
