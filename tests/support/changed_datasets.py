"""Datasets that are compacted, changed and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import numpy as np
from writing import write

import unirecord
from unirecord import UniRecordDataset
from unirecord.snapshot import manifest

SCHEMAS: dict[str, dict[str, Any]] = {
    "numbers": {"n": "int64"},
    "strings": {"n": "int64", "s": "string?"},
    "fixed": {
        "n": "int64",
        "a": {"type": "float32", "shape": [3, 5]},
        "f": {"type": "uint8?", "shape": [7]},
    },
    "variable": {
        "n": "int64",
        "t": "text",
        "o": "object?",
        "r": {"type": "int16", "shape": [-1, 3]},
        "b": "bytes?",
    },
    "compressed": {
        "n": "int64",
        "t": {"type": "text", "codec": "zstd"},
        "a": {"type": "float32", "shape": [3, 5], "codec": "shuffle+zstd"},
        "o": {"type": "object?", "codec": "zstd"},
    },
}
VALUES: dict[str, Callable[[int], Any]] = {
    "n": lambda n: n,
    "s": lambda n: None if n % 3 == 0 else f"s{n * 7}",
    "a": lambda n: np.full((3, 5), n, np.float32),
    "f": lambda n: None if n % 4 == 1 else np.full(7, n % 200, np.uint8),
    "t": lambda n: "a word and another " * (n % 40),
    "o": lambda n: None if n % 4 == 0 else {"k": n},
    "r": lambda n: np.full((n % 4, 3), n, np.int16),
    "b": lambda n: None if n % 5 == 0 else bytes([n % 251]) * (n % 50),
}


def row(schema: dict[str, Any], n: int) -> dict[str, Any]:
    return {name: VALUES[name](n) for name in schema}


def make(path: Path, kind: str = "variable", counts: tuple[int, ...] = (3, 0, 60, 1, 37)) -> Path:
    """A directory of parts of so many rows."""
    schema, first = SCHEMAS[kind], 0
    with faults.unsynced():
        write(path, schema, [row(schema, n) for n in range(counts[0])], index=["n"], metadata={"m": 1})
        for count in counts[1:]:
            first = unirecord.describe(path).rows
            with unirecord.append(path) as writer:
                for n in range(first, first + count):
                    writer.write(row(schema, n))
    return path


def seen(path: Any, **options: Any) -> list[int]:
    with UniRecordDataset(path, **options) as dataset:
        return [int(one["n"]) for one in dataset]


def parts_of(path: Path) -> list[int]:
    return [part.rows for part in manifest.read(str(path / "manifest.json")).parts]


def seen_versions(path: Path) -> list[int]:
    return [version.number for version in unirecord.versions(path)]


def named_by(path: Path, number: int) -> set[str]:
    listing = unirecord.snapshot.versions.read_version(str(path), number)
    return unirecord.snapshot.versions.files_of(listing)


SECRET = b"what nobody may read any more 0123456789"


def found_in(path: Path) -> list[str]:
    return [file.name for file in path.iterdir() if SECRET in file.read_bytes()]
