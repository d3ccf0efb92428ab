"""Writes small datasets and compares what the reference reads with what was written, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import reference
import reference_directory

from unirecord.writing.writer import Writer

SIX = [
    {
        "file_name": f"{i:03}.jpg",
        "label": n,
        "data": bytes([i]) * n,
        "boxes": np.arange(4 * i, dtype=np.float32).reshape(-1, 4),
        "tokens": np.arange(3, dtype=np.int64) * i,
    }
    for i, n in enumerate([3, 21, 31, 82, 49, 12])
]
SIX_SCHEMA = {
    "file_name": "string",
    "label": "int32",
    "data": "bytes",
    "boxes": {"type": "float32", "shape": [-1, 4]},
    "tokens": {"type": "int64", "shape": [3]},
}


def write(path: Any, schema: Any, rows: Sequence[Mapping[str, Any]] = (), **options: Any) -> None:
    with Writer(path, schema, **options) as writer:
        for row in rows:
            writer.write(row)


def write_numbered(path: Path, rows: int = 40) -> Path:
    """A number, one of five strings, and as many bytes as the number says."""
    with Writer(path, {"i": "int32", "s": "string", "b": "bytes"}, index=["i"]) as writer:
        for i in range(rows):
            writer.write({"i": i, "s": f"abc{i % 5}", "b": b"x" * i})
    return path


def read(path: Any) -> list[dict[str, Any]]:
    """All rows, by the reference alone."""
    if Path(path).is_dir():
        return [row for part in reference_directory.read_directory(path) for row in part.rows]
    return reference.read_part(path).rows


def bits(value: Any) -> Any:
    """A form of a value that is equal only to the same bits of the same type."""
    if isinstance(value, np.ndarray):
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, np.generic):
        return ("scalar", value.dtype.str, value.tobytes())
    return value


def same(found: Sequence[Mapping[str, Any]], expected: Sequence[Mapping[str, Any]]) -> None:
    """Asserts that rows are equal, bit by bit; Python numbers are taken in the type that was found."""
    assert len(found) == len(expected)
    for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        assert list(mine) == list(theirs), number
        for name, value in theirs.items():
            if isinstance(mine[name], np.generic):
                value = mine[name].dtype.type(value)
            assert bits(mine[name]) == bits(value), (number, name, mine[name], value)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
