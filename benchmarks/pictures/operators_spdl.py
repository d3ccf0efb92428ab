"""SPDL's pipeline with the five operators, each a stage."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.operators import RESULT as RESULT
from pictures.operators import STAGES, alone
from pictures.stored import BATCH, Stored


def batches(stored: Stored, threads: int) -> Iterator:
    from spdl.pipeline import PipelineBuilder

    alone()
    rng = np.random.default_rng(0)

    def jpegs() -> Iterator[np.ndarray]:
        while True:
            for row in rng.permutation(len(stored)).tolist():
                yield stored[row]

    builder = PipelineBuilder().add_source(jpegs())
    for stage in STAGES:
        builder = builder.pipe(stage, concurrency=threads)
    pipeline = builder.aggregate(BATCH).pipe(np.stack).add_sink(2).build(num_threads=threads)
    with pipeline.auto_stop():
        yield from pipeline
