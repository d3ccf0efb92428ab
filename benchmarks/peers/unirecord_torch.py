"""UniRecord in PyTorch: `unirecord.torch.loader`, or the stock DataLoader with worker processes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import BATCH, Reader
from workloads import Raw

from peers.unirecord import link

unirecord = importlib.import_module("unirecord")


def write(raw: Raw, directory: Path) -> None:
    link(raw, directory)


class TorchReader(Reader):
    """Batches are dicts of tensors."""

    def __init__(self, directory: Path, threads: int, loop: str) -> None:
        self.data = unirecord.UniRecordDataset(directory / "data.urec", shuffle=True)
        if loop == "native":
            native = importlib.import_module("unirecord.torch")
            self.loader = native.loader(self.data, BATCH, num_threads=threads)
        else:
            torch_data = importlib.import_module("torch.utils.data")
            self.loader = torch_data.DataLoader(
                self.data, batch_size=BATCH, num_workers=threads, persistent_workers=True
            )

    def epoch(self, number: int) -> Iterator[Any]:
        self.data.set_epoch(number)
        return iter(self.loader)

    def size(self, batch: Any) -> int:
        return len(batch["x"])

    def first(self, batch: Any) -> bytes:
        return bytes(batch["x"][0].numpy())


def open_reader(raw: Raw, directory: Path, threads: int, loop: str = "native") -> TorchReader:
    return TorchReader(directory, threads, loop)
