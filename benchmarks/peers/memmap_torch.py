"""torch DataLoader over numpy.memmap, default collate, as many worker processes as threads asked for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from protocol import BATCH, Reader, Unsuitable
from torch.utils.data import DataLoader, Dataset
from workloads import Raw


class MemmapDataset(Dataset):  # type: ignore[type-arg]
    """What people write by hand."""

    def __init__(self, path: Path, row_bytes: int) -> None:
        self.data = np.memmap(path, np.uint8, "r").reshape(-1, row_bytes)

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, number: int) -> Any:
        return torch.from_numpy(self.data[number].copy())


def write(raw: Raw, directory: Path) -> None:
    if not raw.row_bytes:
        raise Unsuitable("an array of one width only")
    os.link(raw.data_path, directory / "data.bin")


class MemmapReader(Reader):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        data = MemmapDataset(directory / "data.bin", raw.row_bytes)
        self.loader: DataLoader[Any] = DataLoader(
            data, batch_size=BATCH, shuffle=True, num_workers=threads, persistent_workers=True
        )

    def epoch(self, number: int) -> Iterator[Any]:
        return iter(self.loader)

    def size(self, batch: Any) -> int:
        return len(batch)

    def first(self, batch: Any) -> bytes:
        return bytes(batch[0].numpy())


def open_reader(raw: Raw, directory: Path, threads: int) -> MemmapReader:
    return MemmapReader(raw, directory, threads)
