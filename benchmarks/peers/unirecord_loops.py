"""UniRecord in the loops of JAX, Grain, Hugging Face, Lightning and MindSpore."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from protocol import BATCH, Reader
from workloads import Raw

from peers.unirecord import link

unirecord = importlib.import_module("unirecord")


def write(raw: Raw, directory: Path) -> None:
    link(raw, directory)


class LoopReader(Reader):
    """Batches as each loop has them: JAX's arrays, numpy's, or Arrow's tables."""

    def __init__(self, directory: Path, threads: int, loop: str) -> None:
        self.data = unirecord.UniRecordDataset(directory / "data.urec", shuffle=True)
        self.loop = loop
        if loop == "hf":
            self.batches = unirecord.hf.dataset(self.data).with_format("arrow")
        elif loop == "jax":
            self.batches = importlib.import_module("unirecord.jax").loader(
                self.data, BATCH, num_threads=threads
            )

        elif loop == "lightning":
            made = importlib.import_module("unirecord.lightning").loader(
                self.data, BATCH, num_threads=threads
            )
            combined = importlib.import_module("lightning.pytorch.utilities").CombinedLoader
            self.batches = combined({"x": made})  # what a Trainer's loop goes through
        elif loop == "mindspore":
            data = unirecord.mindspore.dataset(self.data, BATCH, num_threads=threads)
            # One iterator for all epochs, as in training: to make one takes MindSpore milliseconds, as a batch does.
            self.batches = data.create_dict_iterator(num_epochs=-1, output_numpy=True)

    def epoch(self, number: int) -> Iterator[Any]:
        if self.loop == "hf":
            self.batches.set_epoch(number)
            return iter(self.batches.iter(BATCH))
        if self.loop == "mindspore":  # each pass is the next epoch
            return iter(self.batches)
        self.data.set_epoch(number)
        if self.loop == "grain":
            return iter(importlib.import_module("unirecord.grain").batches(self.data, BATCH))
        if self.loop == "lightning":
            return (batches["x"] for batches, _, _ in self.batches)
        return iter(self.batches)

    def size(self, batch: Any) -> int:
        return len(batch["x"])

    def first(self, batch: Any) -> bytes:
        value = batch["x"][0]
        value = value.as_py() if self.loop == "hf" else value
        return value if isinstance(value, bytes) else bytes(np.asarray(value, np.uint8))


def open_reader(raw: Raw, directory: Path, threads: int, loop: str) -> LoopReader:
    return LoopReader(directory, threads, loop)
