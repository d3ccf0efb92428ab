"""The stock DataLoader of PyTorch over large rows: UniRecord, numpy.memmap, and what torch itself takes, in turns."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import answer
import torch
from peers.memmap_torch import MemmapDataset
from protocol import BATCH
from torch.utils.data import DataLoader, Dataset
from workloads import Raw

import unirecord

WORKERS, PASSES = 2, 7


class SameRow(Dataset):  # type: ignore[type-arg]
    """What default collating takes: the same tensor again, put into new shared memory and handed over."""

    def __init__(self, rows: int, row_bytes: int) -> None:
        self._rows = rows
        self._row = torch.zeros(row_bytes, dtype=torch.uint8)

    def __len__(self) -> int:
        return self._rows

    def __getitem__(self, number: int) -> Any:
        return self._row


class SameBatch(SameRow):
    """Less than that: views of one batch, which is in shared memory after the first; handing it over is left."""

    def __init__(self, rows: int, row_bytes: int) -> None:
        super().__init__(rows, row_bytes)
        self._batch = torch.zeros((BATCH, row_bytes), dtype=torch.uint8)

    def __getitems__(self, numbers: list[int]) -> Any:
        return self._batch[: len(numbers)]


def loaders(raw: Raw, part: Path) -> dict[str, DataLoader[Any]]:
    """All with two workers that live on, batches of 256."""

    def over(data: Any, shuffle: bool, **options: Any) -> DataLoader[Any]:
        return DataLoader(
            data, BATCH, shuffle=shuffle, num_workers=WORKERS, persistent_workers=True, **options
        )

    size = (raw.rows, raw.row_bytes)
    return {
        "UniRecordDataset": over(unirecord.UniRecordDataset(part, shuffle=True), False),
        "numpy memmap": over(MemmapDataset(raw.data_path, raw.row_bytes), True),
        "the same row, collated by PyTorch": over(SameRow(*size), False),
        "floor: the same batch, handed over": over(SameBatch(*size), False, collate_fn=_as_it_is),
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
    parser.add_argument(
        "--data", type=Path, required=True, help="folder of the workload, written for UniRecord"
    )
    arguments = parser.parse_args()
    raw = Raw.open(arguments.data / "raw")
    ready = loaders(raw, arguments.data / "unirecord" / "data.urec")
    for loader in ready.values():  # workers started, files in memory
        _rate(iter(loader))
    rates: dict[str, list[float]] = {name: [] for name in ready}
    for _ in range(PASSES):  # in turns
        for name, loader in ready.items():
            rates[name].append(_rate(iter(loader)))
    answer.answer(
        [
            answer.figure(raw.name, name, round(statistics.median(found), 1), "samples/s")
            for name, found in rates.items()
        ]
    )


if __name__ == "__main__":
    main()
