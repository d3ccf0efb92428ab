"""UniRecord in TensorFlow: `unirecord.tf.dataset(ds, 256)`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
from protocol import BATCH, Reader
from workloads import Raw

import unirecord
from peers.unirecord import link


def write(raw: Raw, directory: Path) -> None:
    link(raw, directory)


class TfReader(Reader):
    def __init__(self, directory: Path) -> None:
        data = unirecord.UniRecordDataset(directory / "data.urec", shuffle=True)
        self.batches = unirecord.tf.dataset(data, BATCH)

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.batches)

    def size(self, batch: Any) -> int:
        return int(batch["x"].shape[0])

    def first(self, batch: Any) -> bytes:
        return bytes(batch["x"][0].numpy())


def open_reader(raw: Raw, directory: Path, threads: int) -> TfReader:
    return TfReader(directory)
