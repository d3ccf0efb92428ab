"""PyTorch's DataLoader with the five operators, a worker for each thread."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pictures.dataloader import endless
from pictures.operators import RESULT as RESULT
from pictures.operators import STAGES, alone
from pictures.stored import Stored


def changed(value: Any) -> Any:
    for stage in STAGES:
        value = stage(value)
    return value


def batches(stored: Stored, threads: int) -> Iterator:
    alone()
    return endless(stored, threads, changed)
