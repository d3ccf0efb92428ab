"""PyTorch's DataLoader over the memory-mapped JPEGs, with simplejpeg and OpenCV, a worker for each thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from pictures.stored import BATCH, Stored, opened


class Photographs:
    """What ``made`` makes of each picture, as tensors."""

    def __init__(self, stored: Stored, made: Callable[[Any], Any]) -> None:
        self.stored, self.made = stored, made

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, row: int):
        import torch

        return torch.from_numpy(self.made(self.stored[row]))


def endless(stored: Stored, threads: int, made: Callable[[Any], Any]) -> Iterator:
    """Shuffled batches of a DataLoader with so many workers, epoch after epoch."""
    import torch

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        Photographs(stored, made), BATCH, shuffle=True, num_workers=threads, persistent_workers=True
    )
    while True:
        yield from loader


def decoded(jpeg: Any) -> np.ndarray:
    return np.ascontiguousarray(opened(jpeg, np.random.default_rng()))


def batches(stored: Stored, threads: int) -> Iterator:
    import cv2

    cv2.setNumThreads(0)
    return endless(stored, threads, decoded)
