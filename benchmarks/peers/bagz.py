"""Bagz: `read_indices` of a batch."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from protocol import Gather
from workloads import Raw

bagz = importlib.import_module("bagz")


def write(raw: Raw, directory: Path) -> None:
    with bagz.Writer(directory / "data.bag") as writer:
        for row in raw:
            writer.write(row)


class BagzReader(Gather):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        super().__init__(raw, threads)
        self.reader = bagz.Reader(str(directory / "data.bag"))

    def fetch(self, ids: list[int]) -> Any:
        return self.reader.read_indices(ids)


def open_reader(raw: Raw, directory: Path, threads: int) -> BagzReader:
    return BagzReader(raw, directory, threads)
