"""What opening datasets in an object store asks for: requests counted, and what comes together."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Fault, Link, Server, serving

from unirecord import CorruptionError, MissingError, UniRecordDataset, Writer
from unirecord.inspect.describe import describe
from unirecord.storage import object_store
from unirecord.storage.pacing import Durations

PARTS, ROWS = 20, 20_000  # whose index is longer than what comes with its head


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
        server.set_environment(monkeypatch)
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
    assert [len(set(call)) for call in of_indexes] == [2 * PARTS, PARTS]  # ends of both files, and blocks
    assert len([call for call in asked if call]) == 4  # and the rows, twice


@pytest.fixture
def names(root: Path) -> Path:
    """A bucket with a part under two names, its end page wrong under a third, and many other objects."""
    folder = root / "names"
    if not folder.exists():
        folder.mkdir()
        for name in ("one.urec", "one.ur", "worn.urec"):
            shutil.copy(root / "bucket" / "parts" / "00.urec", folder / name)
            shutil.copy(root / "bucket" / "parts" / "00.urec.idx", folder / f"{name}.idx")
        worn = bytearray((folder / "worn.urec").read_bytes())
        worn[-20] ^= 1
        (folder / "worn.urec").write_bytes(worn)
        for i in range(50):
            (folder / f"one-{i}.txt").write_bytes(b"text")
    return folder


@pytest.mark.parametrize(
    ("name", "opening", "first_row"), [("one.urec", 2, 5), ("one.ur", 3, 5), ("on*.urec", 3, 5)]
)
def test_a_part_is_opened_by_the_heads_of_its_files(
    server: Server, names: Path, name: str, opening: int, first_row: int
) -> None:
    with UniRecordDataset(f"s3://names/{name}") as ds:
        assert len(ds) == ROWS
        assert [request.method for request in server.requests] == ["GET"] * opening
        assert ds[ROWS // 2]["x"] == b"row %d" % (ROWS // 2)
        assert len(server.requests) <= opening + first_row  # two ends, blocks of the index, and the row
        assert not any(request.method == "HEAD" for request in server.requests)


def test_the_end_of_a_part_is_compared_when_a_row_of_it_is_first_read(server: Server, names: Path) -> None:
    with UniRecordDataset("s3://names/worn.urec") as ds:
        assert len(ds) == ROWS
        for _ in range(2):
            with pytest.raises(CorruptionError, match=r"worn\.urec"):
                ds[0]


def test_what_is_not_there_is_explained_by_few_requests(server: Server, names: Path) -> None:
    for name in ("two.urec", "none", "one.txt"):
        server.requests.clear()
        with pytest.raises(MissingError, match="there is no such file or directory"):
            UniRecordDataset(f"s3://names/{name}")
        assert len(server.requests) <= 30  # of 16 names it is asked whether they are datasets
    server.requests.clear()
    with pytest.raises(MissingError, match=r"did you mean 's3://names/one\.urec'"):
        UniRecordDataset("s3://names/one")
    server.requests.clear()
    with pytest.raises(MissingError, match="matches this pattern"):
        UniRecordDataset("s3://names/*.urec.id?")
    assert len(server.requests) == 1


def test_what_is_not_there_is_named_when_the_store_does_not_say_what_lies_near(
    server: Server, names: Path
) -> None:
    server.fault = lambda request: None if "absent" in request.key else Fault(status=416)
    with pytest.raises(MissingError, match=r"s3://names/absent\.urec: there is no such file or directory"):
        UniRecordDataset("s3://names/absent.urec")


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
