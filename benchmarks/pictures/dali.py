"""DALI on the CPU: `decoders.image_random_crop`, resize, flip."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.stored import BATCH, SIDE, Stored


def batches(stored: Stored, threads: int) -> Iterator:
    from nvidia.dali import fn, pipeline_def, types

    def jpegs() -> Iterator[list[np.ndarray]]:
        rng = np.random.default_rng(0)
        while True:
            rows = rng.permutation(len(stored))
            for start in range(0, len(rows) - BATCH + 1, BATCH):
                yield [np.asarray(stored[row]) for row in rows[start : start + BATCH]]

    @pipeline_def(batch_size=BATCH, num_threads=threads, device_id=None, seed=1, prefetch_queue_depth=2)
    def graph():
        pictures = fn.decoders.image_random_crop(
            fn.external_source(source=jpegs(), dtype=types.UINT8, ndim=1),
            random_area=[0.08, 1.0],
            random_aspect_ratio=[3 / 4, 4 / 3],
            num_attempts=10,
        )
        resized = fn.resize(pictures, size=(SIDE, SIDE), antialias=True)
        return fn.flip(resized, horizontal=fn.random.coin_flip(probability=0.5))

    pipeline = graph()
    pipeline.build()
    while True:
        (made,) = pipeline.run()
        yield np.asarray(made.as_tensor())
