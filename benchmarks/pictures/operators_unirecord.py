"""`ds.pipeline()` with the five operators, left to `"auto"`."""

from __future__ import annotations

from collections.abc import Iterator

from pictures.operators import RESULT as RESULT
from pictures.operators import STAGES, alone
from pictures.stored import BATCH, Stored
from pictures.unirecord_pipeline import dataset


def batches(stored: Stored, threads: int) -> Iterator:
    alone()
    loader = dataset(stored).pipeline(cpus=threads)
    for stage in STAGES:
        loader = loader.map(stage, columns=["image"])
    loader = loader.batch(BATCH)
    while True:
        for batch in loader:
            yield batch["image"]
