"""WebDataset: tar shards read through, shuffled in a buffer."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from protocol import BATCH, Reader, Unsuitable
from workloads import Raw

wds = importlib.import_module("webdataset")
BUFFER = 1000
SHARD_BYTES = 128 << 20


def write(raw: Raw, directory: Path) -> None:
    pattern = str(directory / "data-%06d.tar")
    with wds.ShardWriter(pattern, maxsize=SHARD_BYTES, maxcount=10**9, verbose=0) as sink:
        for number, row in enumerate(raw):
            sink.write({"__key__": f"{number:08d}", "bin": row})


class WebDatasetReader(Reader):
    def __init__(self, directory: Path, threads: int) -> None:
        if threads > 1:
            raise Unsuitable("one thread a process; more need a DataLoader's worker processes")
        self.shards = sorted(str(path) for path in directory.glob("*.tar"))

    def epoch(self, number: int) -> Iterator[Any]:
        stream = wds.WebDataset(self.shards, shardshuffle=len(self.shards), empty_check=False, seed=number)
        return iter(
            stream.shuffle(BUFFER)
            .to_tuple("bin")
            .batched(BATCH, collation_fn=lambda rows: [row[0] for row in rows])
        )

    def size(self, batch: Any) -> int:
        return len(batch)

    def first(self, batch: Any) -> bytes:
        return bytes(batch[0])


def open_reader(raw: Raw, directory: Path, threads: int) -> WebDatasetReader:
    return WebDatasetReader(directory, threads)
