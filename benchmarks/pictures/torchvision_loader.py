"""PyTorch's DataLoader over the memory-mapped JPEGs, with torchvision's decoder and transforms, a worker a thread."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pictures.stored import BATCH, SIDE, Stored


class Photographs:
    def __init__(self, stored: Stored) -> None:
        from torchvision.transforms import v2

        self.stored = stored
        crop = v2.RandomResizedCrop(SIDE, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), antialias=True)
        self.transform = v2.Compose([crop, v2.RandomHorizontalFlip(0.5)])

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, row: int):
        import torch
        from torchvision.io import ImageReadMode, decode_jpeg

        return self.transform(decode_jpeg(torch.from_numpy(np.array(self.stored[row])), ImageReadMode.RGB))


def batches(stored: Stored, threads: int) -> Iterator:
    import torch

    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        Photographs(stored), BATCH, shuffle=True, num_workers=threads, persistent_workers=True
    )
    while True:
        for batch in loader:
            yield batch.permute(0, 2, 3, 1)  # a view: torchvision's pictures are channels first
