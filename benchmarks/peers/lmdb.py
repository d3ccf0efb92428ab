"""LMDB: one key per row, a loop of `get`."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from protocol import Gather
from workloads import Raw

lmdb = importlib.import_module("lmdb")


def _key(number: int) -> bytes:
    return number.to_bytes(8, "big")


def write(raw: Raw, directory: Path) -> None:
    # A map a little over the data: warming a far larger sparse file would evict what it is to warm.
    room = int(raw.total_bytes * 1.2) + raw.rows * 256 + (64 << 20)
    environment = lmdb.open(str(directory / "data"), map_size=room, subdir=False, lock=False, sync=False)
    with environment.begin(write=True) as transaction:
        for number, row in enumerate(raw):
            transaction.put(_key(number), row, append=True)
    environment.sync(True)
    environment.close()


class LmdbReader(Gather):
    def __init__(self, raw: Raw, directory: Path, threads: int) -> None:
        super().__init__(raw, threads)
        self.environment = lmdb.open(
            str(directory / "data"), subdir=False, readonly=True, lock=False, readahead=False
        )
        self.keys = [_key(number) for number in range(raw.rows)]

    def fetch(self, ids: list[int]) -> Any:
        keys = self.keys
        with self.environment.begin() as transaction:
            get = transaction.get
            return [get(keys[number]) for number in ids]


def open_reader(raw: Raw, directory: Path, threads: int) -> LmdbReader:
    return LmdbReader(raw, directory, threads)
