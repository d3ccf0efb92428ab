"""A dataset in a test server's bucket, and what reads it through a cache: fixtures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Server, serving

from unirecord import UniRecordDataset, Writer
from unirecord.storage import object_store

__all__ = ["ROWS", "SIZE", "URL", "epoch", "expected", "open_cached", "root", "server"]

ROWS, SIZE = 300, 3_000
URL = "s3://bucket/rows"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bucket with a dataset of three parts, and one part by itself."""
    root = tmp_path_factory.mktemp("store")
    (root / "bucket").mkdir()
    rng = np.random.default_rng(4)
    for name, rows, most in (("rows", ROWS, "350kB"), ("one.urec", 40, None)):
        with Writer(
            root / "bucket" / name, {"x": f"uint8[{SIZE}]", "n": "int64"}, max_part_bytes=most
        ) as writer:
            for n in range(rows):
                writer.write({"x": rng.integers(0, 256, SIZE, np.uint8), "n": n})
    return root


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store, "_stores", {})
    with serving(root) as server:
        server.set_environment(monkeypatch)
        yield server


@pytest.fixture(scope="module")
def expected(root: Path) -> dict[int, bytes]:
    with UniRecordDataset(root / "bucket" / "rows") as ds:
        return {int(row["n"]): bytes(row["x"]) for row in ds}


def open_cached(path: Path, limit: int | str = "1GB", **options: Any) -> UniRecordDataset[Any]:
    return UniRecordDataset(URL, cache=path, cache_bytes=limit, shuffle=True, seed=1, **options)


def epoch(ds: UniRecordDataset[Any], number: int, expected: dict[int, bytes]) -> int:
    """Reads an epoch, all of whose values are right; returns how many rows there were."""
    ds.set_epoch(number)
    rows = 0
    for batch in ds.batches(16):
        for n, x in zip(batch["n"].tolist(), batch["x"], strict=True):
            assert x.tobytes() == expected[n]
            rows += 1
    return rows
