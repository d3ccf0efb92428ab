"""SPDL's pipeline of threads, with simplejpeg and OpenCV."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.stored import BATCH, Stored, opened


def batches(stored: Stored, threads: int) -> Iterator:
    import cv2
    from spdl.pipeline import PipelineBuilder

    cv2.setNumThreads(0)
    rng = np.random.default_rng(0)

    def rows() -> Iterator[int]:
        while True:
            yield from rng.permutation(len(stored)).tolist()

    def decode(row: int) -> np.ndarray:
        return opened(stored[row], np.random.default_rng(row))

    builder = (
        PipelineBuilder()
        .add_source(rows())
        .pipe(decode, concurrency=threads)
        .aggregate(BATCH)
        .pipe(np.stack)
        .add_sink(2)
    )
    pipeline = builder.build(num_threads=threads)
    with pipeline.auto_stop():
        yield from pipeline
