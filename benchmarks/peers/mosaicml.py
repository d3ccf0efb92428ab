"""MosaicML Streaming: a local StreamingDataset, shuffled, batched by hand."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import BATCH, Reader, Unsuitable
from workloads import Raw

# Its vision part imports torchvision, whose wheels don't fit every build of torch and which these rows don't need.
sys.modules["streaming.vision"] = types.ModuleType("streaming.vision")
streaming = importlib.import_module("streaming")


def write(raw: Raw, directory: Path) -> None:
    with streaming.MDSWriter(
        out=str(directory / "data"), columns={"x": "bytes"}, size_limit="128mb"
    ) as writer:
        for row in raw:
            writer.write({"x": row})


class MosaicReader(Reader):
    def __init__(self, directory: Path, threads: int) -> None:
        if threads > 1:
            raise Unsuitable("one thread a process; more need a DataLoader's worker processes")
        self.data = streaming.StreamingDataset(
            local=str(directory / "data"),
            shuffle=True,
            shuffle_algo="py1br",
            batch_size=BATCH,
            num_canonical_nodes=1,
        )

    def epoch(self, number: int) -> Iterator[Any]:
        batch: list[bytes] = []
        for sample in self.data:
            batch.append(sample["x"])
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    def size(self, batch: Any) -> int:
        return len(batch)

    def first(self, batch: Any) -> bytes:
        return bytes(batch[0])


def open_reader(raw: Raw, directory: Path, threads: int) -> MosaicReader:
    return MosaicReader(directory, threads)
