"""Datasets in an object store: the same values as on a disk, in few requests; faults are said, never read as values."""

from __future__ import annotations

import os
import random
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from objectstore import Fault, Request, Server, serving

import unirecord
from unirecord import UniRecordDataset, UniRecordError, Writer
from unirecord.cli import main
from unirecord.storage import object_store
from unirecord.storage.pacing import Durations
from unirecord.storage.requests import Requests
from unirecord.storage.schemes import location_of

SCHEMA = {
    "x": "bytes",
    "n": "int64",
    "s": "string?",
    "t": {"type": "text", "codec": "zstd"},
    "a": "float32[-1,3]?",
    "f": "uint8[64]",
}
ROWS = 400


def record(i: int, rng: random.Random) -> dict[str, Any]:
    return {
        "x": rng.randbytes(rng.randrange(0, 4_000)),
        "n": i,
        "s": None if i % 7 == 0 else f"s{i % 31}",
        "t": f"row {i} " * (i % 50),
        "a": None if i % 5 == 0 else np.full((i % 4, 3), i, np.float32),
        "f": np.full(64, i % 256, np.uint8),
    }


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one bucket, in which there are a directory of parts and one part."""
    root = tmp_path_factory.mktemp("store")
    (root / "bucket").mkdir()
    rng = random.Random(1)
    for name, part_bytes in (("many", "300kB"), ("one.urec", None)):
        with Writer(root / "bucket" / name, SCHEMA, index=["n"], max_part_bytes=part_bytes) as writer:
            for i in range(ROWS):
                writer.write(record(i, rng))
    return root


@pytest.fixture
def server(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(object_store, "_stores", {})
    monkeypatch.setattr(
        Durations, "long", lambda *_: 3_600.0
    )  # requests are counted: none is made twice for being late
    monkeypatch.setattr(object_store, "RETRIES", {"max_retries": 2, "backoff": {"init_backoff": _moment()}})
    with serving(root) as server:
        server.set_environment(monkeypatch)
        yield server


def _moment() -> Any:
    from datetime import timedelta

    return timedelta(milliseconds=1)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.dtype == b.dtype and np.array_equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def rows_of_batches(ds: UniRecordDataset[Any], **options: Any) -> list[tuple[Any, ...]]:
    found = []
    for batch in ds.batches(32, **options):
        columns = [list(batch[name]) for name in ds.schema.names]
        found += list(zip(*columns, strict=True))
    return found


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/many",
        "s3://bucket/one.urec",
        "s3://bucket/many/part-*.urec",
        "http://bucket/many",
        "http://bucket/one.urec",
    ],
)
def test_every_value_is_that_of_the_files(root: Path, server: Server, url: str) -> None:
    name = url.partition("bucket/")[2]
    url = url.replace("http:/", server.url)
    order = {"shuffle": True, "seed": 3}
    with UniRecordDataset(url, **order) as there, UniRecordDataset(root / "bucket" / name, **order) as here:
        assert len(there) == len(here) == ROWS
        assert there.io == "fetch"
        assert all(same(there[i], here[i]) for i in (0, 7, ROWS - 1))
        for a, b in zip(rows_of_batches(there), rows_of_batches(here), strict=True):
            assert all(same(x, y) for x, y in zip(a, b, strict=True))
    where = {"where": "n >= 100 and n < 130 and s is not null", "columns": ["n", "s"]}
    with UniRecordDataset(url, **where) as there, UniRecordDataset(root / "bucket" / name, **where) as here:
        assert len(there) == len(here) > 20
        assert [there[i] for i in range(len(there))] == [here[i] for i in range(len(here))]


def test_windows_and_packed_rows_are_those_of_the_files(root: Path, server: Server) -> None:
    rng = np.random.default_rng(5)
    with Writer(root / "bucket" / "tokens", {"t": "uint16[-1]"}, max_part_bytes="20kB") as writer:
        for _ in range(60):
            writer.write({"t": rng.integers(0, 60_000, rng.integers(1, 700)).astype(np.uint16)})
    order = {"shuffle": True, "seed": 2}
    with (
        UniRecordDataset("s3://bucket/tokens", **order) as there,
        UniRecordDataset(root / "bucket" / "tokens", **order) as here,
    ):
        for a, b in (
            (
                unirecord.windows(there, "t", length=129, stride=128),
                unirecord.windows(here, "t", length=129, stride=128),
            ),
            (unirecord.packed(there, "t", 700), unirecord.packed(here, "t", 700)),
        ):
            pairs = list(zip(a.batches(16), b.batches(16), strict=True))
            assert len(pairs) > 1
            assert all(np.array_equal(x["t"], y["t"]) for x, y in pairs)


def test_opening_and_an_epoch_take_few_requests(server: Server) -> None:
    with UniRecordDataset("s3://bucket/many", columns=["x"], shuffle=False) as ds:
        parts = len(list((server.root / "bucket" / "many").glob("*.urec")))
        assert parts > 2
        assert [request.method for request in server.requests] == ["GET"]
        before, sent = len(server.requests), server.bytes
        assert sum(len(batch["x"]) for batch in ds.batches(64)) == ROWS
        asked = server.requests[before:]
        # a part: heads and ends of both files, and blocks of the index; a batch: runs of neighbours
        assert len(asked) <= parts * 8 + ROWS // 64 * 3
        size = sum(path.stat().st_size for path in (server.root / "bucket" / "many").iterdir())
        assert server.bytes - sent < size * 1.3


@pytest.mark.parametrize("rows", [300, 60_000])
def test_opening_takes_three_requests_and_the_first_row_three_more(
    root: Path, server: Server, rows: int
) -> None:
    """Whatever the number of rows, and each kind in rounds that follow each other."""
    schema = {"n": "int64", "m": "int64", "x": "bytes"}
    for name in ("opening.urec", "opening"):
        with Writer(root / "bucket" / name, schema, overwrite=True) as writer:
            for i in range(rows):
                writer.write({"n": i, "m": i, "x": b"row %d" % i * 9})
    for name, opening in (("opening.urec", 4), ("opening", 1)):
        server.requests.clear()
        with UniRecordDataset(f"s3://bucket/{name}") as ds:
            # a part: the beginnings of both files, then the ends of both; a directory: its manifest
            assert len(server.requests) <= opening
            assert ds[rows // 2]["n"] == rows // 2
        # the heads of a directory's part by one round, the blocks of the index by another, and the row
        assert len(server.requests) <= opening + (4 if name == "opening" else 0) + 8


def test_parts_are_looked_up_and_opened_many_at_once(root: Path, server: Server) -> None:
    (root / "bucket" / "several").mkdir()
    for part in range(24):
        with Writer(root / "bucket" / "several" / f"{part:02}.urec", {"n": "int64", "x": "bytes"}) as writer:
            for i in range(300):
                writer.write({"n": 300 * part + i, "x": bytes(100)})
    paths = [f"s3://bucket/several/{part:02}.urec" for part in range(24)]
    server.fault = lambda request: Fault(pause=0.02)
    with UniRecordDataset(paths) as ds:
        assert server.most_in_flight >= 16
        server.most_in_flight = 0
        assert [row["n"] for row in ds[range(150, 7_200, 300)]] == list(range(150, 7_200, 300))
        assert server.most_in_flight >= 16
    with UniRecordDataset("s3://bucket/many") as ds, UniRecordDataset(root / "bucket" / "many") as here:
        server.most_in_flight = 0
        rows = range(5, ROWS, 20)
        assert all(same(a, b) for a, b in zip(ds[rows], here[rows], strict=True))
        assert server.most_in_flight >= 3 * 3


def test_many_requests_are_in_flight_at_once(server: Server) -> None:
    server.latency = 0.02
    with UniRecordDataset("s3://bucket/one.urec", columns=["x"], shuffle=True) as ds:
        rows = sum(len(batch["x"]) for batch in ds.batches(8))
    assert rows == ROWS
    assert server.most_in_flight >= 16


def test_a_pipeline_reads_as_far_ahead_as_batches_do(server: Server) -> None:
    server.latency = 0.1
    with UniRecordDataset("s3://bucket/one.urec", columns=["x"], shuffle=True) as ds:
        assert sum(len(batch["x"]) for batch in ds.pipeline().batch(8)) == ROWS
        assert server.most_in_flight > 4 * 8  # of each thread that reads a disk, a batch


def test_what_many_threads_want_of_an_index_comes_once(root: Path, server: Server) -> None:
    rows = 60_000
    with Writer(root / "bucket" / "long.urec", {"n": "int64", "m": "int64"}) as writer:
        writer.write_batch({"n": np.arange(rows), "m": np.arange(rows)})
    with UniRecordDataset("s3://bucket/long.urec", columns=["n"], shuffle=True) as ds:
        server.requests.clear()
        for _ in range(2):
            assert sum(int(batch["n"].sum()) for batch in ds.batches(512)) == rows * (rows - 1) // 2
    asked = [(r.start, r.stop) for r in server.requests if r.key.endswith(".idx")]
    assert len(asked) == len(set(asked)) <= 2 + rows * 8 // 65_536 + 2
    # the other column is not read
    assert sum(stop - start for start, stop in asked if stop is not None) < rows * 8 + 4 * 65_536


@pytest.mark.parametrize(
    "fault",
    [
        Fault(status=403),
        Fault(status=404),
        Fault(status=500),
        Fault(hang_up=True),
        Fault(cut=40),
        Fault(cut=0),
        Fault(flip=17),
        Fault(flip=-1),
    ],
    ids=str,
)
def test_every_request_failing_in_turn_gives_right_values_or_an_error(
    root: Path, server: Server, fault: Fault
) -> None:
    """The same request fails for good, tried again or not."""
    with UniRecordDataset(root / "bucket" / "one.urec") as here:
        expected = here[3], rows_of_batches(here, num_threads=1)

    def read() -> Any:
        with UniRecordDataset("s3://bucket/one.urec") as there:
            return there[3], rows_of_batches(there, num_threads=1)

    server.requests.clear()
    assert same_all(read(), expected)
    places = {(r.method, r.key, r.start, r.stop) for r in server.requests}
    errors, unnamed = 0, []
    for method, key, start, stop in sorted(places, key=str):

        def fail(request: Request, place: Any = (method, key, start, stop)) -> Fault | None:
            return fault if (request.method, request.key, request.start, request.stop) == place else None

        server.fault = fail
        try:
            assert same_all(read(), expected)
        except (UniRecordError, OSError) as error:
            errors += 1
            if "bucket/one.urec" not in str(error):
                unnamed.append(error)
    assert not unnamed
    # what has been cut, the client asks for again from there on
    assert errors >= len(places) // 2 or fault.flip is not None or fault.cut


def same_all(found: Any, expected: Any) -> bool:
    return same(found[0], expected[0]) and all(
        same(x, y) for a, b in zip(found[1], expected[1], strict=True) for x, y in zip(a, b, strict=True)
    )


def test_requests_that_fail_once_are_made_again(server: Server) -> None:
    failed: set[Any] = set()

    def once(request: Request) -> Fault | None:
        place = (request.method, request.key, request.start, request.stop)
        if place in failed:
            return None
        failed.add(place)
        return Fault(status=503)

    server.fault = once
    with UniRecordDataset("s3://bucket/many", columns=["n"]) as ds:
        assert sorted(n for batch in ds.batches(64) for n in batch["n"]) == list(range(ROWS))
    assert failed


def test_a_dataset_that_is_replaced_meanwhile_is_stale(root: Path, server: Server) -> None:
    path = root / "bucket" / "changing.urec"
    rng = random.Random(2)
    for turn in range(2):
        with Writer(path, SCHEMA, overwrite=turn > 0) as writer:
            for i in range(50):
                writer.write(record(i, rng))
        if turn == 0:
            ds = UniRecordDataset("s3://bucket/changing.urec", columns=["x"])
    with pytest.raises(unirecord.StaleError, match="another dataset has been published"):
        ds[3]
    ds.close()


def test_names_that_are_not_there_are_said(server: Server) -> None:
    with pytest.raises(unirecord.MissingError, match=r"s3://bucket/none: .*no such"):
        UniRecordDataset("s3://bucket/none")
    with pytest.raises(unirecord.MissingError, match=r"none\.urec"):
        UniRecordDataset(f"{server.url}/bucket/none.urec")
    with pytest.raises(unirecord.MissingError, match=r"bucket/none: there is no such file or directory$"):
        UniRecordDataset(f"{server.url}/bucket/none")  # a web server does not say whether "bucket" is there
    with pytest.raises(NotADirectoryError, match="name the dataset, or its parts"):
        UniRecordDataset(f"{server.url}/bucket/*.urec")
    with pytest.raises(unirecord.MissingError, match=r"did you mean 's3://bucket/one.urec'"):
        UniRecordDataset("s3://bucket/onne.urec")


def test_a_part_without_its_index_is_said(root: Path, server: Server) -> None:
    shutil.copy(root / "bucket" / "one.urec", root / "bucket" / "alone.urec")
    with pytest.raises(unirecord.MissingError, match=r"alone\.urec\.idx"):
        UniRecordDataset("s3://bucket/alone.urec")
    shutil.copy(root / "bucket" / "one.urec.idx", root / "bucket" / "alone.urec.idx.new")
    with UniRecordDataset("s3://bucket/alone.urec") as ds:
        assert ds[1]["n"] == 1


def test_options_for_files_are_refused(root: Path, server: Server) -> None:
    with pytest.raises(ValueError, match="a way of reading files"):
        UniRecordDataset("s3://bucket/one.urec", io="mmap")
    with pytest.raises(ValueError, match="one kind of storage"):
        UniRecordDataset([root / "bucket" / "one.urec", "s3://bucket/one.urec"])


@pytest.mark.parametrize("command", ["repair", "export"])
def test_what_is_written_to_a_disk_only_is_said(
    root: Path, server: Server, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.csv").write_text("a\n1\n")
    line = {
        "repair": ["s3://bucket/one.urec"],
        "export": [str(root / "bucket" / "one.urec"), "s3://bucket/new.csv", "--to", "csv"],
    }[command]
    assert main([command, *line]) != 0
    assert "to a disk only" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["in.csv"]


def test_the_commands_that_read_take_urls(server: Server, tmp_path: Path, capsys: Any) -> None:
    assert main(["inspect", "s3://bucket/many", "--where", "n < 3"]) == 0
    assert "3 rows" in capsys.readouterr().out
    assert main(["inspect", "s3://bucket/many"]) == 0
    assert main(["verify", "s3://bucket/many"]) == 0
    assert "every byte is as written" in capsys.readouterr().out
    target = tmp_path / "out.csv"
    assert main(["export", "s3://bucket/many", str(target), "--to", "csv", "--columns", "n,s"]) == 0
    assert len(target.read_text().splitlines()) == ROWS + 1
    assert main(["bench", "s3://bucket/many", "--seconds", "0.1"]) == 0


@pytest.mark.parametrize("sizes", [[100_000], [64 << 10], [1, 70_000, 3_000_000], [1 << 20, 12_345, 9 << 20]])
def test_an_object_that_is_read_on_comes_ahead_and_is_the_same(
    root: Path, server: Server, sizes: list[int]
) -> None:
    """Read on in pieces of any sizes, with gaps and steps back: its bytes, and the next ones are asked for before."""
    content = np.random.default_rng(0).bytes(24 << 20)
    (root / "bucket" / "long").write_bytes(content)
    with location_of("s3://bucket/long").open("s3://bucket/long") as file:
        offset, turn = 0, 0
        while offset < len(content):
            size = sizes[turn % len(sizes)]
            assert file.read_at(offset, size) == content[offset : offset + size]
            turn += 1
            if turn % 7 == 6:
                assert file.read_at(offset // 3, 10) == content[offset // 3 : offset // 3 + 10]
            offset += size + (turn % 5 == 4) * 1_000
        if len(sizes) == 1:
            for offset in range(0, 16 << 20, size):
                assert file.read_at(offset, size) == content[offset : offset + size]
            file._next()  # what was asked for before anybody wanted it
            asked, stop = len(server.requests), file._start + len(file._bytes)
            assert file.read_at(stop, size) == content[stop : stop + size]
            if file._next is not None:
                file._next()
            assert len(server.requests) <= asked + 1


def test_requests_that_come_when_the_process_ends_are_given_up() -> None:
    import asyncio

    requests, begun, outcome = Requests(), threading.Event(), []

    async def request() -> None:
        begun.set()
        await asyncio.sleep(3_600)

    def wait() -> None:
        try:
            requests.all([request])
        except OSError as error:
            outcome.append(type(error))

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(60)
    requests.stop()
    thread.join()
    assert outcome == [ConnectionAbortedError]
    with pytest.raises(ConnectionAbortedError):
        requests.all([lambda: asyncio.sleep(0)])
    requests.stop()


def test_the_example_of_the_page_runs(root: Path, server: Server) -> None:
    page = (Path(__file__).parents[2] / "docs" / "storage.md").read_text(encoding="utf-8")
    [block] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    shutil.copytree(root / "bucket" / "many", root / "bucket" / "train")
    names: dict[str, Any] = {}
    exec(compile(block, "docs/storage.md", "exec"), names)
    assert len(names["ds"]) == ROWS
    assert len(names["batch"]["n"]) == ROWS % 256


def test_a_loader_names_the_parts_that_it_has_read_there(server: Server) -> None:
    with UniRecordDataset("s3://bucket/many") as ds:
        loader = ds.batches(ROWS)
        assert len(list(loader)) == 1
        stats = loader.stats()
        assert {part.path for part in stats.parts} == {ds.locate(row)[0] for row in range(ROWS)}
        assert sum(part.bytes for part in stats.parts) == stats.bytes
        assert stats.parts_timed == len(stats.parts) > 1
        assert 0 < stats.parts_s <= stats.stages[0].busy_s
