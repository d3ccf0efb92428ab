"""A dataset to draw from: labels of which some are rare, lengths, and tokens; and the frozen draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import unirecord

ROWS = 300
LABELS = np.minimum(np.random.default_rng(0).geometric(0.3, ROWS), 9) - 1  # 9 classes, rare ones of few rows
LENGTHS = np.random.default_rng(1).integers(0, 90, ROWS)
VECTORS = json.loads((Path(__file__).parents[1] / "data" / "drawing_vectors.json").read_text())


def dataset(path: Path) -> unirecord.UniRecordDataset:
    tokens = {"type": "uint16", "shape": [-1]}
    schema = {
        "i": "int32",
        "label": "int16",
        "name": "string",
        "tokens": tokens,
        "size": "int32",
        "x": "float32",
    }
    with unirecord.Writer(path, schema) as writer:
        for i, (label, length) in enumerate(zip(LABELS.tolist(), LENGTHS.tolist(), strict=True)):
            row = {"i": i, "label": label, "name": f"class {label}", "size": length, "x": 0.5}
            writer.write(row | {"tokens": np.full(length, i, np.uint16)})
    return unirecord.UniRecordDataset(path, shuffle=True, seed=11)


def ids(batches: Any) -> list[list[int]]:
    """The rows of each batch."""
    return [batch["i"].tolist() for batch in batches]


def joined(batches: list[list[int]]) -> list[int]:
    """The rows of all batches."""
    return [i for batch in batches for i in batch]
