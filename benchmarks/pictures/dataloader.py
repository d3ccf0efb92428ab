"""PyTorch's DataLoader over the memory-mapped JPEGs, with simplejpeg and OpenCV, a worker for each thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.stored import BATCH, Stored, opened


class Photographs:
    def __init__(self, stored: Stored) -> None:
        self.stored = stored

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, row: int):
        import torch

        return torch.from_numpy(np.ascontiguousarray(opened(self.stored[row], np.random.default_rng())))


def batches(stored: Stored, threads: int) -> Iterator:
    import cv2
    import torch

    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        Photographs(stored), BATCH, shuffle=True, num_workers=threads, persistent_workers=True
    )
    while True:
        yield from loader
