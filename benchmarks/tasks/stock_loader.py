"""The stock DataLoader of PyTorch over rows of 150,000 bytes: UniRecord, numpy.memmap, and what torch itself takes.

python benchmarks/tasks/stock_loader.py --data FOLDER
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answer
import numpy as np
import torch
from peers.memmap_torch import MemmapDataset
from protocol import BATCH
from torch.utils.data import DataLoader, Dataset

import unirecord

ROWS, FEW, ROW_BYTES, WORKERS, PASSES = 8192, 1024, 150_000, 2, 7


class SameRow(Dataset):  # type: ignore[type-arg]
    """What default collating takes: the same tensor again, put into new shared memory and handed over."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._row = torch.zeros(ROW_BYTES, dtype=torch.uint8)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> Any:
        return self._row


class SameBatch(SameRow):
    """Less than that: views of one batch, which is in shared memory after the first; handing it over is left."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self._batch = torch.zeros((BATCH, ROW_BYTES), dtype=torch.uint8)

    def __getitems__(self, numbers: list[int]) -> Any:
        return self._batch[: len(numbers)]


def make(folder: Path, rows: int) -> None:
    """The same rows as UniRecord's file and as one flat file."""
    if (folder / "data.bin").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(0)
    schema = {"x": {"type": "uint8", "shape": [ROW_BYTES]}}
    with (
        unirecord.Writer(folder / "data.urec", schema, overwrite=True) as writer,
        (folder / "part.bin").open("wb") as flat,
    ):
        for _ in range(rows):
            row = generator.integers(0, 256, ROW_BYTES, np.uint8)
            writer.write({"x": row})
            flat.write(row.tobytes())
    (folder / "part.bin").rename(folder / "data.bin")


def loaders(folder: Path, rows: int) -> dict[str, DataLoader[Any]]:
    """All with two workers that live on, batches of 256."""

    def over(data: Any, shuffle: bool, **options: Any) -> DataLoader[Any]:
        return DataLoader(
            data, BATCH, shuffle=shuffle, num_workers=WORKERS, persistent_workers=True, **options
        )

    return {
        "UniRecordDataset": over(unirecord.UniRecordDataset(folder / "data.urec", shuffle=True), False),
        "numpy memmap": over(MemmapDataset(folder / "data.bin", ROW_BYTES), True),
        "the same row, collated": over(SameRow(rows), False),
        "floor: the same batch, handed over": over(SameBatch(rows), False, collate_fn=_as_it_is),
    }


def _as_it_is(batch: Any) -> Any:
    return batch


def _rate(batches: Iterator[Any]) -> float:
    start, count = time.perf_counter(), 0
    for batch in batches:
        count += len(batch["x"] if isinstance(batch, dict) else batch)
    return count / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--small", action="store_true")
    arguments = parser.parse_args()
    rows = FEW if arguments.small else ROWS
    folder = arguments.data / ("stock-small" if arguments.small else "stock")
    make(folder, rows)
    ready = loaders(folder, rows)
    for loader in ready.values():  # workers started, files in memory
        _rate(iter(loader))
    rates: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(PASSES):  # in turns
        for name, loader in ready.items():
            rates[name].append(_rate(iter(loader)))
    peer = statistics.median(rates["numpy memmap"])
    answer.answer(
        [
            answer.figure("arrays", name, median, "samples/s", of_memmap=round(median / peer, 3))
            for name, found in rates.items()
            for median in [statistics.median(found)]
        ]
    )


if __name__ == "__main__":
    main()
