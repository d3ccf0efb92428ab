"""What opening datasets in an object store asks for: requests counted, and what comes together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Link, Server, serving

from unirecord import UniRecordDataset, Writer
from unirecord.inspection.describe import describe
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
    read = object_store.ObjectStore._read

    def noted(self: Any, wanted: Any, *options: Any) -> Any:
        calls.append([path for path, _, _ in wanted])
        return read(self, wanted, *options)

    monkeypatch.setattr(object_store.ObjectStore, "_read", noted)
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


def test_what_a_dataset_is_asks_for_no_sizes_that_its_indexes_say(server: Server, root: Path) -> None:
    with Writer(root / "bucket" / "whole", {"n": "int64", "x": "bytes"}, max_part_bytes=4_096) as writer:
        for i in range(500):
            writer.write({"n": i, "x": b"row %d" % i})
    for name, kind in (("whole", "directory"), ("parts/00.urec", "part"), ("parts/0*.urec", "parts")):
        server.requests.clear()
        found, local = describe(f"s3://bucket/{name}"), describe(root / "bucket" / name)
        assert found.kind == local.kind == kind
        assert (found.parts, found.index_bytes) == (local.parts, local.index_bytes)
        assert sum(part.index_bytes for part in found.parts) == found.index_bytes
        if kind != "parts":
            assert not any(request.method == "HEAD" for request in server.requests)


def test_the_servers_link_sends_no_more_than_its_bandwidth(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Link(1_000.0)
    assert link.wait(0.0, 500) == 0.5
    assert link.wait(0.1, 1_000) == 1.4  # behind the first
    assert link.wait(9.0, 100) == pytest.approx(0.1)  # it has been idle
    sent: list[int] = []

    def noted(self: Link, now: float, size: int) -> float:
        sent.append(size)
        return 0.0

    monkeypatch.setattr(Link, "wait", noted)
    server.link = Link(1e9)
    with UniRecordDataset("s3://bucket/parts/00.urec") as ds:
        assert [row["n"] for row in ds[range(0, ROWS, 100)]] == list(range(0, ROWS, 100))
    assert sum(sent) > server.bytes > 0  # heads of answers too: all went over the link
    assert len(sent) > len(server.requests)  # a long answer goes in pieces
    assert max(sent) <= 64 << 10
