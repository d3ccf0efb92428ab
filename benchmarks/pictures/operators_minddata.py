"""MindData over MindRecord with the five operators, each a `map`, AutoTune."""

from __future__ import annotations

from collections.abc import Iterator

from pictures.minddata import EPOCHS, opened_record
from pictures.operators import RESULT as RESULT
from pictures.operators import STAGES, alone
from pictures.stored import BATCH, Stored


def batches(stored: Stored, threads: int) -> Iterator:
    alone()
    data = opened_record(stored, threads)
    for stage in STAGES:
        data = data.map(stage, "image")
    results = data.batch(BATCH).create_tuple_iterator(num_epochs=EPOCHS, output_numpy=True)
    for _ in range(EPOCHS):
        for (batch,) in results:
            yield batch
