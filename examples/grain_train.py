"""Grain: a classifier of handwritten digits over a MapDataset, with a checkpoint of Grain's own.

python examples/grain_train.py [FOLDER]
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import digits
import grain
import numpy as np

import unirecord.grain
from unirecord import UniRecordDataset

EPOCHS, BATCH, RATE = 10, 20, 0.1


def pipeline(path: Path) -> Any:
    """Batches of ten epochs, each in an order of its own, read and decoded by Grain's threads."""
    samples = unirecord.grain.dataset(UniRecordDataset(path, shuffle=True, seed=1)).repeat(EPOCHS)
    return samples.map(digits.decode).batch(BATCH).to_iter_dataset(grain.ReadOptions(2, 8))


def step(weights: np.ndarray, pixels: np.ndarray, labels: np.ndarray) -> np.ndarray:
    scores = np.exp(pixels @ weights)
    wrong = scores / scores.sum(axis=1, keepdims=True) - np.eye(digits.CLASSES)[labels]
    return weights - RATE * pixels.T @ wrong / len(labels)


def main() -> None:
    train, test = digits.write(Path(sys.argv[1] if len(sys.argv) > 1 else "out/grain"))
    weights = np.zeros((digits.SIDE * digits.SIDE, digits.CLASSES))
    batches = iter(pipeline(train))
    for _ in range(17):
        weights = step(weights, *next(batches))
    saved = json.dumps(batches.get_state())

    batches = iter(pipeline(train))
    batches.set_state(json.loads(saved))
    for pixels, labels in batches:
        weights = step(weights, pixels, labels)
    pixels, labels = map(np.stack, zip(*map(digits.decode, UniRecordDataset(test)), strict=True))
    print(f"epoch {EPOCHS}: accuracy {(np.argmax(pixels @ weights, axis=1) == labels).mean():.1%}")


if __name__ == "__main__":
    main()
