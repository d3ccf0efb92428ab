"""Rows of every type that exports are tried with, and what JSON and a table have of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from unirecord import Writer

N = 120

SCHEMA = {
    "flag": "bool",
    "small": "int8",
    "big": "int64",
    "huge": "uint64?",
    "half": "float16",
    "single": "float32?",
    "double": "float64",
    "name": "string",
    "rare": "string?",
    "blob": "bytes",
    "note": "text",
    "fixed": {"type": "float32", "shape": [2, 3]},
    "ragged": {"type": "int16", "shape": [-1]},
    "boxes": {"type": "float64", "shape": [-1, 4]},
    "grid": {"type": "uint8", "shape": [2, -1, -1]},
    "bits": {"type": "bool", "shape": [3]},
    "brain": {"type": "bfloat16", "shape": [2]},
    "wave": {"type": "complex64", "shape": [-1]},
    "thing": "object",
}


def row(i: int) -> dict[str, Any]:
    rng = np.random.default_rng(i)
    return {
        "flag": i % 2 == 0,
        "small": i - 60,
        "big": (-1) ** i * (2**62 + i),
        "huge": None if i % 3 == 0 else 2**63 - 1 - i,
        "half": np.float16(i / 10),
        "single": None if i % 4 == 0 else [np.nan, np.inf, np.float32(0.1), np.float32(i / 3)][i % 4],
        "double": i / 7,
        "name": ["", "plain", "with, comma", 'say "hi"', "two\nlines", " blank ", "é☃"][i % 7],
        "rare": [None, "", "x"][i % 3],
        "blob": bytes(range(i % 50)),
        "note": "text " * (i % 4),
        "fixed": rng.random((2, 3), np.float32),
        "ragged": np.arange(i % 5, dtype=np.int16) - 2,
        "boxes": rng.random((i % 3, 4)),
        "grid": rng.integers(0, 255, (2, i % 3, i % 2 + 1), np.uint8),
        "bits": np.array([i % 2, 1, 0], bool),
        "brain": np.array([0x3F80, 0x4000 + i], np.uint16),
        "wave": (rng.random(i % 3) + 1j).astype(np.complex64),
        "thing": {"a": [i, None, b"\x00\xff"], "b": float("nan")},
    }


ROWS = [row(i) for i in range(N)]


def write_rows(path: Path) -> Path:
    """A dataset of ``ROWS``, in several parts."""
    with Writer(path, SCHEMA, max_part_bytes=20_000) as writer:
        for record in ROWS:
            writer.write(record)
    return path


def floats(values: Any) -> list[float]:
    """Numbers that brain floats of these bits are."""
    return (np.asarray(values, np.uint32) << 16).view(np.float32).tolist()  # type: ignore[no-any-return]


def as_json(record: dict[str, Any]) -> dict[str, Any]:
    """What docs/exporting.md says that JSON has of a row."""
    import base64

    wave = record["wave"]
    return {
        **{name: record[name] for name in ("flag", "small", "big", "huge", "double", "name", "rare", "note")},
        "half": float(str(record["half"])),
        "single": None if record["single"] is None else float(str(np.float32(record["single"]))),
        "blob": base64.b64encode(record["blob"]).decode(),
        "fixed": [[float(str(x)) for x in line] for line in record["fixed"]],
        **{name: record[name].tolist() for name in ("ragged", "boxes", "grid", "bits")},
        "brain": [float(str(np.float32(x))) for x in floats(record["brain"])],
        "wave": [[float(str(x.real)), float(str(x.imag))] for x in wave],
        "thing": {"a": [record["thing"]["a"][0], None, "AP8="], "b": "nan"},
    }


def same(a: Any, b: Any) -> bool:
    return repr(a) == repr(b)  # NaN is NaN, 1 is not 1.0


def check_table(table: pyarrow.Table) -> None:
    found = table.to_pylist()
    for record, one in zip(ROWS, found, strict=True):
        for name in ("flag", "small", "big", "huge", "double", "name", "rare", "blob", "note"):
            assert same(one[name], record[name]), name
        assert one["half"] == record["half"]
        assert same(one["single"], None if record["single"] is None else float(np.float32(record["single"])))
        for name in ("fixed", "ragged", "boxes", "grid", "bits", "brain"):
            assert one[name] == record[name].tolist(), name
        assert one["wave"] == [[x.real, x.imag] for x in record["wave"]]
        assert same(json.loads(one["thing"]), as_json(record)["thing"])


def tree(root: Path) -> dict[str, bytes]:
    return {
        p.relative_to(root).as_posix(): p.read_bytes()
        for p in root.rglob("*")
        if p.is_file() and p.name not in ("metadata.jsonl", ".unirecord.json")
    }
