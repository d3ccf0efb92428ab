"""PyTorch's DataLoader with the five operators, a worker for each thread."""

from __future__ import annotations

from collections.abc import Iterator

from pictures.operators import RESULT as RESULT
from pictures.operators import STAGES, alone
from pictures.stored import BATCH, Stored


class Photographs:
    def __init__(self, stored: Stored) -> None:
        self.stored = stored

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, row: int):
        import torch

        value = self.stored[row]
        for stage in STAGES:
            value = stage(value)
        return torch.from_numpy(value)


def batches(stored: Stored, threads: int) -> Iterator:
    import torch

    alone()
    torch.set_num_threads(1)
    loader = torch.utils.data.DataLoader(
        Photographs(stored), BATCH, shuffle=True, num_workers=threads, persistent_workers=True
    )
    while True:
        yield from loader
