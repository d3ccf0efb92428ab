"""Grain's read threads, with simplejpeg and OpenCV."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.stored import BATCH, Stored, opened


def batches(stored: Stored, threads: int) -> Iterator:
    import cv2
    import grain

    cv2.setNumThreads(0)

    def decode(row: int) -> np.ndarray:
        return opened(stored[row], np.random.default_rng(row))

    data = grain.MapDataset.source(range(len(stored))).shuffle(seed=1).repeat().map(decode)
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=BATCH)
    yield from data.to_iter_dataset(options).batch(BATCH)
