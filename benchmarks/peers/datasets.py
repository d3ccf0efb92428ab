"""HF datasets: an Arrow table on disk, `data[ids]` of shuffled row numbers in its default format."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import Gather
from workloads import Raw

datasets = importlib.import_module("datasets")


def write(raw: Raw, directory: Path) -> None:
    features = datasets.Features({"x": datasets.Value("large_binary")})

    def rows() -> Iterator[dict[str, bytes]]:
        for row in raw:
            yield {"x": row}

    cache = str(directory / "cache")
    made = datasets.Dataset.from_generator(rows, features=features, cache_dir=cache, writer_batch_size=500)
    made.save_to_disk(str(directory / "data"), num_shards=1)
    shutil.rmtree(cache)


class DatasetsReader(Gather):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        super().__init__(raw, threads)
        self.data = datasets.load_from_disk(str(directory / "data"))

    def fetch(self, ids: list[int]) -> Any:
        return self.data[ids]["x"]


def open_reader(raw: Raw, directory: Path, threads: int) -> DatasetsReader:
    return DatasetsReader(raw, directory, threads)
