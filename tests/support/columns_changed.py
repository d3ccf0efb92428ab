"""Datasets whose columns change, and what their columns are to hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faults
import numpy as np

import unirecord
from unirecord import UniRecordDataset

__all__ = ["IOS", "NEW", "SCHEMA", "add", "captions", "column", "make", "numbers", "row"]

SCHEMA = {"name": "string", "n": "int64", "x": "float32[3]", "t": "text"}
IOS = ["auto", "mmap", "pread", "uring", "memory"]


def row(n: int) -> dict[str, Any]:
    return {"name": f"k{n}", "n": n, "x": np.full(3, n, np.float32), "t": f"text {n}" * (n % 5)}


def make(path: Path, rows: int = 60, parts: int = 3, **options: Any) -> Path:
    """Rows of n = 0, 1, … in so many parts, a version each."""
    each = rows // parts
    with faults.unsynced():
        with unirecord.Writer(path, SCHEMA, **options) as writer:
            for n in range(each):
                writer.write(row(n))
        for part in range(1, parts):
            with unirecord.append(path) as writer:
                for n in range(part * each, (part + 1) * each):
                    writer.write(row(n))
    return path


def captions(batch: dict[str, Any]) -> dict[str, Any]:
    """Made of what it is given."""
    return {
        "caption": [f"{name} of {n}" for name, n in zip(batch["name"], batch["n"], strict=True)],
        "square": batch["n"] ** 2,
    }


def numbers(batch: dict[str, Any]) -> dict[str, Any]:
    return {"m": batch["n"] + 1}


NEW = {"caption": "text", "square": "int64"}


def column(path: Any, name: str, **options: Any) -> list[Any]:
    with UniRecordDataset(path, columns=[name], **options) as ds:
        return [sample[name] for sample in ds]


def add(path: Path, **options: Any) -> unirecord.ColumnsAdded:
    with faults.unsynced():
        return unirecord.add_columns(path, NEW, captions, **options)
