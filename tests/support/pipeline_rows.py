"""A dataset of several parts with columns of several kinds, as tests of pipelines read it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from unirecord import UniRecordDataset, Writer
from unirecord.pipeline.operators import SkipSample

ROWS = 400


def written(path: Path) -> Path:
    """Writes it."""
    schema = {
        "x": {"type": "float32", "shape": [4]},
        "i": "int64",
        "name": "string",
        "blob": "bytes",
        "weight": "float32?",
    }
    with Writer(path, schema, max_part_bytes=12_000) as writer:
        for i in range(ROWS):
            writer.write(
                {
                    "x": np.full(4, i, np.float32),
                    "i": i,
                    "name": f"n{i}",
                    "blob": bytes([i % 256]) * (i % 7),
                    "weight": None if i % 5 == 0 else i,
                }
            )
    assert len(list(path.glob("*.urec"))) > 1
    return path


def opened(path: Path, rank: int = 0, ranks: int = 1, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, rank, ranks, shuffle=True, seed=9, **options)


def number(sample: Any) -> int:
    return int(sample["i"])


def numbers(results: Any) -> list[int]:
    """The rows of samples, or of batches of them."""
    found: list[int] = []
    for result in results:
        values = result["i"] if isinstance(result, dict) else result
        found += [int(i) for i in values] if np.ndim(values) else [int(values)]
    return found


def later(sample: dict[str, Any]) -> dict[str, Any]:
    """Takes longer for some samples, so that threads overtake each other."""
    time.sleep(0.003 if number(sample) % 7 == 0 else 0)
    return sample


def plain(result: Any) -> Any:
    """A result with Python's values, to be compared."""
    if isinstance(result, (np.ma.MaskedArray, np.ndarray, np.generic)):
        return result.tolist()
    if isinstance(result, dict):
        return {name: plain(value) for name, value in result.items()}
    if hasattr(result, "to_list"):
        return [bytes(item) for item in result.to_list()]
    return [plain(item) for item in result] if isinstance(result, list) else result


class Twice:
    """Writes the stored bytes, repeated, into place; those of one sample in three are broken, by its first byte."""

    dtype = np.dtype(np.uint8)
    shape = (3, 2)
    random = True

    def __init__(self, skip: bool = False) -> None:
        self.skip = skip

    def into(self, cell: np.ndarray, out: np.ndarray, key: int) -> None:
        if len(cell) == 6 and self.skip:
            raise SkipSample("six bytes")
        out[:, 0] = cell[0] if len(cell) else 0
        out[:, 1] = key & 255
