"""What opening datasets in an object store asks for: requests counted, and what comes together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Server, serving

from unirecord import UniRecordDataset, Writer
from unirecord.storage import object_store
from unirecord.storage.pacing import Durations

PARTS, ROWS = 20, 9_000  # whose index is longer than what comes with its head


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one bucket, in which there is a directory of parts."""
    root = tmp_path_factory.mktemp("store")
    (root / "bucket" / "parts").mkdir(parents=True)
    x = np.empty(ROWS, object)
    x[:] = [b"row %d" % i for i in range(ROWS)]
    for part in range(PARTS):
        with Writer(root / "bucket" / "parts" / f"{part:02}.urec", {"n": "int64", "x": "bytes"}) as writer:
            writer.write_batch({"n": np.arange(ROWS * part, ROWS * (part + 1)), "x": x})
    return root


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store, "_stores", {})
    monkeypatch.setattr(
        Durations, "long", lambda *_: 3_600.0
    )  # requests are counted: none is made twice for being late
    with serving(root) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        yield server


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The objects of each call for ranges."""
    calls: list[list[str]] = []
    read = object_store.ObjectStore.read_ranges

    def noted(self: Any, wanted: Any, **options: Any) -> Any:
        calls.append([path for path, _, _ in wanted])
        return read(self, wanted, **options)

    monkeypatch.setattr(object_store.ObjectStore, "read_ranges", noted)
    return calls


def test_heads_indexes_and_rows_of_many_parts_come_by_a_call_each(
    server: Server, asked: list[list[str]]
) -> None:
    paths = [f"s3://bucket/parts/{part:02}.urec" for part in range(PARTS)]
    with UniRecordDataset(paths) as ds:
        assert len(ds) == PARTS * ROWS
        asked.clear()
        rows = range(ROWS // 2, PARTS * ROWS, ROWS)
        assert [row["n"] for row in ds[rows]] == list(rows)
        assert all(row["x"] == b"row %d" % (ROWS // 2) for row in ds[rows])
    of_indexes = [call for call in asked if any(path.endswith(".idx") for path in call)]
    assert [len(set(call)) for call in of_indexes] == [PARTS]
    assert len([call for call in asked if call]) == 3  # and the rows, twice
