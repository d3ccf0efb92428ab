"""`ds.batches(256, transform=…)` with simplejpeg and OpenCV."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.stored import BATCH, Stored, opened
from pictures.unirecord_pipeline import dataset


def batches(stored: Stored, threads: int) -> Iterator:
    rng = np.random.default_rng(0)
    loader = dataset(stored).batches(
        BATCH, transform=lambda s: opened(np.frombuffer(s["image"], np.uint8), rng), num_workers=threads
    )
    while True:
        yield from loader
