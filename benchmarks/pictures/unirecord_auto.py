"""The same, left to `"auto"`."""

from __future__ import annotations

from collections.abc import Iterator

from pictures.stored import BATCH, SIDE, Stored
from pictures.unirecord_pipeline import dataset


def batches(stored: Stored, threads: int) -> Iterator:
    from unirecord.images import Decode

    loader = dataset(stored).pipeline(cpus=threads)
    loader = loader.map(Decode(SIDE, "random-resized", flip=0.5), columns=["image"]).batch(BATCH)
    while True:
        for batch in loader:
            yield batch["image"]
