"""A cache of what an object store sent: right values whatever becomes of its files, its limit and its figures exact."""

from __future__ import annotations

import errno
import json
import logging
import multiprocessing
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faults import count_only, fail_at, killed, system
from objectstore import Fault, Server, serving

from unirecord import CorruptionError, UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.core import Range
from unirecord.parts.cached import CachedFile, CachedParts, CacheOptions
from unirecord.storage import object_store
from unirecord.storage.cache_directory import CacheDirectory, on_disk
from unirecord.storage.cache_shelf import paths_of

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
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
        monkeypatch.setenv("AWS_REGION", "us-east-1")
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


def on_the_disk(path: Path) -> int:
    return sum(on_disk(file.stat().st_size) for file in path.iterdir()) + on_disk(path.stat().st_size)


def test_a_second_epoch_asks_the_store_for_nothing(
    server: Server, tmp_path: Path, expected: dict[int, bytes]
) -> None:
    with open_cached(tmp_path) as ds:
        assert epoch(ds, 0, expected) == ROWS
        sent = server.bytes
        assert epoch(ds, 1, expected) == ROWS
        assert server.bytes == sent
        stats = ds.cache_stats()
        assert stats.hit_bytes >= ROWS * SIZE
        assert ROWS * SIZE <= stats.kept_bytes <= stats.fetched_bytes
        assert (stats.damaged, stats.full) == (0, False)
    with open_cached(tmp_path) as ds:  # and another process, as it were: the heads of parts come anew
        sent = server.bytes
        assert epoch(ds, 2, expected) == ROWS
        assert server.bytes - sent < 0.2 * ROWS * SIZE
        assert ds.cache_stats().fetched_bytes == 0


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_after_the_first_epoch_what_is_kept_is_not_fetched(
    server: Server, tmp_path: Path, expected: dict[int, bytes], share: float
) -> None:
    """No replacement of entries does better than those that came first."""
    data, limit = ROWS * SIZE, int(share * ROWS * SIZE)
    with open_cached(tmp_path, limit, verify="never") as ds:
        assert epoch(ds, 0, expected) == ROWS
        assert on_the_disk(tmp_path) <= limit
        kept, fetched = ds.cache_stats().kept_bytes, ds.cache_stats().fetched_bytes
        assert kept > limit - 40_000  # less pages, records, and the row that did not fit
        assert ds.cache_stats().full
        for number in (1, 2):
            assert epoch(ds, number, expected) == ROWS
            more, fetched = ds.cache_stats().fetched_bytes - fetched, ds.cache_stats().fetched_bytes
            assert abs(more - (data - kept)) < 0.02 * data
        assert ds.cache_stats().kept_bytes == kept


class Rows:
    """An object of which every byte follows from its place, and what brings its ranges."""

    def __init__(self, size: int = 400_000) -> None:
        self.data = random.Random(size).randbytes(size)
        self.asked = 0

    def fetch(self, ranges: Any) -> list[bytes]:
        self.asked += sum(wanted.size for wanted in ranges)
        return [self.data[wanted.offset : wanted.offset + wanted.size] for wanted in ranges]

    def parts(self, path: Path, limit: int, url: str = "s3://b/a", version: int = 1) -> CachedParts:
        files = [CachedFile(url, (version, i), len(self.data)) for i in range(2)]
        return CachedParts(CacheOptions(str(path), limit), files, self.fetch)

    def has(self, parts: CachedParts, offset: int, size: int) -> bool:
        """Whether the cache gives these bytes; they are right if it does."""
        found = parts.table.read(0, offset, size)
        assert found is None or found == self.data[offset : offset + size]
        return found is not None


def ranges(*pairs: tuple[int, int]) -> list[Range]:
    return [Range(0, False, offset, size, True) for offset, size in pairs]


def test_pieces_of_a_range_come_from_several_entries(tmp_path: Path) -> None:
    rows, rng = Rows(), random.Random(7)
    parts = rows.parts(tmp_path, 10**9)
    there = np.zeros(len(rows.data), bool)
    for _ in range(300):
        offset, size = rng.randrange(len(rows.data) - 3_000), rng.randrange(1, 3_000)
        assert rows.has(parts, offset, size) == there[offset : offset + size].all()
        if rng.random() < 0.5:
            parts.fetch(ranges((offset, size)))
            there[offset : offset + size] = True
    assert parts.stats().kept_bytes == there.sum()
    parts.close()
    again = rows.parts(tmp_path, 10**9)
    for _ in range(300):
        offset, size = rng.randrange(len(rows.data) - 3_000), rng.randrange(1, 3_000)
        assert rows.has(again, offset, size) == there[offset : offset + size].all()


def test_a_long_range_lies_in_pieces(tmp_path: Path) -> None:
    rows = Rows(5 << 20)
    parts = rows.parts(tmp_path, 10**9)
    parts.fetch(ranges((1_000, 4 << 20)))
    assert rows.has(parts, 1_000, 4 << 20)
    assert rows.has(parts, (1 << 20) - 5, 10)
    assert not rows.has(parts, 999, 10)


def test_the_limit_is_never_exceeded_at_any_call(tmp_path: Path) -> None:
    limit = 60_000
    for seed in range(3):
        folder, rng, rows = tmp_path / str(seed), random.Random(seed), Rows()

        def look(number: int, name: str, folder: Path = folder) -> None:
            assert not folder.exists() or on_the_disk(folder) <= limit

        with system(look):
            parts = [rows.parts(folder, limit, f"s3://b/{i}") for i in range(3)]
            for _ in range(60):
                of = rng.choice(parts)
                offset, size = rng.randrange(390_000), rng.choice([10, 300, 5_000, 10_000])
                of.fetch(ranges((offset, size)))
        assert limit - 25_000 < on_the_disk(folder) <= limit
        assert all(of.stats().full for of in parts)


def test_a_cache_without_room_for_a_shelf_is_read_past(tmp_path: Path) -> None:
    rows = Rows()
    parts = rows.parts(tmp_path, 0)
    assert bytes(parts.fetch(ranges((5, 100)))[0]) == rows.data[5:105]
    assert parts.stats() == parts.stats().__class__(fetched_bytes=100, full=True)
    parts.close()


def test_a_kill_at_every_call_leaves_a_right_cache_within_its_limit(tmp_path: Path) -> None:
    rows, limit = Rows(), 50_000

    def work(folder: Path) -> None:
        parts = rows.parts(folder, limit)
        for i in range(4):
            parts.fetch(ranges((i * 20_000, 3_000), (i * 20_000 + 5_000, 2_000)))
        parts.close()

    for torn in (False, True):
        at = 1
        while killed(lambda: work(folder), at, torn) if (folder := tmp_path / f"{torn}{at}") else False:
            assert on_the_disk(folder) <= limit if folder.exists() else True
            parts = rows.parts(folder, limit)
            before = sum(rows.has(parts, i * 20_000, 3_000) for i in range(4))
            assert parts.stats().damaged == 0
            for i in range(4):
                parts.fetch(ranges((i * 20_000, 3_000)))
            assert on_the_disk(folder) <= limit
            after = sum(rows.has(parts, i * 20_000, 3_000) for i in range(4))
            assert after == 4 >= before
            parts.close()
            at += 1
        assert at > 15


def test_a_full_disk_is_read_past_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows()
    with system(count_only) as calls:
        rows.parts(tmp_path / "count", 10**9).fetch(ranges((0, 5_000)))
    for at in range(1, calls.count + 1):
        caplog.clear()
        folder = tmp_path / str(at)
        with caplog.at_level(logging.WARNING), system(fail_at(at, errno.ENOSPC, forever=True)):
            try:
                parts = rows.parts(folder, 10**9)
            except OSError:  # a directory that cannot be made
                continue
            for i in range(4):
                assert (
                    bytes(parts.fetch(ranges((i * 5_000, 5_000)))[0])
                    == rows.data[i * 5_000 : i * 5_000 + 5_000]
                )
            assert not rows.has(parts, 15_000, 5_000)
        assert len([record for record in caplog.records if "reading goes on without" in record.message]) == 1


def test_every_flipped_bit_is_found_and_what_it_hit_fetched_again(tmp_path: Path) -> None:
    rows = Rows(60_000)
    wanted = ranges((0, 500), (9_000, 700), (30_000, 300))
    first = rows.parts(tmp_path, 10**9)
    first.fetch(wanted)
    first.close()
    log, data = map(Path, paths_of(str(tmp_path), "s3://b/a"))
    for path, step in ((log, 1), (data, 37)):
        whole = path.read_bytes()
        for at in range(0, len(whole), step):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << at % 8)]) + whole[at + 1 :])
            other = {name: name.read_bytes() for name in (log, data)}
            parts = rows.parts(tmp_path, 10**9)
            there = [rows.has(parts, of.offset, of.size) for of in wanted]
            if path == data:
                assert sum(there) == 2
                assert parts.stats().damaged == 1
            parts.fetch(wanted)
            assert all(rows.has(parts, of.offset, of.size) for of in wanted)
            parts.close()
            again = rows.parts(tmp_path, 10**9)
            assert all(rows.has(again, of.offset, of.size) for of in wanted)
            again.close()
            for name, content in {**other, path: whole}.items():
                name.write_bytes(content)


def test_files_that_were_cut_give_nothing_wrong(tmp_path: Path) -> None:
    rows = Rows(60_000)
    wanted = ranges((0, 500), (9_000, 700))
    rows.parts(tmp_path, 10**9).fetch(wanted)
    for path in map(Path, paths_of(str(tmp_path), "s3://b/a")):
        whole = path.read_bytes()
        for length in range(0, len(whole), max(len(whole) // 40, 1)):
            path.write_bytes(whole[:length])
            parts = rows.parts(tmp_path, 10**9)
            for of in wanted:
                rows.has(parts, of.offset, of.size)
            parts.close()
            del parts
            path.write_bytes(whole)


def test_another_version_of_an_object_is_not_taken_for_it(tmp_path: Path) -> None:
    old, new = Rows(50_000), Rows(50_001)
    old.parts(tmp_path, 10**9).fetch(ranges((100, 500)))
    parts = new.parts(tmp_path, 10**9, version=2)
    assert not new.has(parts, 100, 500)
    parts.fetch(ranges((100, 500)))
    assert new.has(parts, 100, 500)
    assert old.has(old.parts(tmp_path, 10**9), 100, 500)


def test_a_rewritten_dataset_is_not_read_from_the_cache(root: Path, server: Server, tmp_path: Path) -> None:
    for value in (1, 2):
        with Writer(root / "bucket" / "again.urec", {"x": "uint8[2000]"}, overwrite=value > 1) as writer:
            for _ in range(5):
                writer.write({"x": np.full(2_000, value, np.uint8)})
        with UniRecordDataset("s3://bucket/again.urec", cache=tmp_path, cache_bytes="1MB") as ds:
            assert all((row["x"] == value).all() for _ in range(2) for row in ds)


def fill(path: str, seed: int, limit: int) -> None:
    rows, rng = Rows(), random.Random(seed)
    parts = rows.parts(Path(path), limit)
    for _ in range(200):
        offset = rng.randrange(99) * 4_000
        if not rows.has(parts, offset, 4_000):
            parts.fetch(ranges((offset, 4_000)))
    parts.close()
    raise SystemExit(0 if parts.stats().damaged == 0 else 1)


@pytest.mark.parametrize("limit", [150_000, 10**7])
def test_processes_fill_one_cache_together(tmp_path: Path, limit: int) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=fill, args=(str(tmp_path), seed, limit)) for seed in range(3)]
    for child in children:
        child.start()
    most = 0
    while any(child.is_alive() for child in children):
        most = max(most, on_the_disk(tmp_path))
        children[0].join(0.01)
    assert [child.exitcode for child in children] == [0, 0, 0]
    assert max(most, on_the_disk(tmp_path)) <= limit
    rows = Rows()
    parts = rows.parts(tmp_path, limit)
    kept = sum(rows.has(parts, i * 4_000, 4_000) for i in range(99))
    _, data = paths_of(str(tmp_path), "s3://b/a")
    assert os.path.getsize(data) == kept * 4_000  # nothing twice
    assert kept > 90 if limit > 10**6 else kept > 25


def test_entries_that_the_digests_of_the_part_refuse_are_dropped(
    root: Path, server: Server, tmp_path: Path, expected: dict[int, bytes]
) -> None:
    """What came damaged over the network is an error once, and never comes from the cache."""
    with open_cached(tmp_path, columns=["x", "n"]) as ds:
        epoch(ds.view(where="n % 100 == 0"), 0, expected)  # opens the parts
        wrong = iter(range(10**9))
        server.fault = lambda request: (
            Fault(flip=10) if request.key.endswith(".urec") and next(wrong) == 0 else None
        )
        with pytest.raises(CorruptionError):
            ds[list(range(ROWS))]
        server.fault = lambda request: None
        assert epoch(ds, 0, expected) == ROWS
        assert ds.cache_stats().damaged >= 1
    with open_cached(tmp_path, verify="always") as ds:
        assert epoch(ds, 0, expected) == ROWS


def test_a_cache_is_refused_where_it_cannot_be(root: Path, server: Server, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is on a disk"):
        UniRecordDataset(root / "bucket" / "rows", cache=tmp_path, cache_bytes="1MB")
    for options in ({"cache": tmp_path}, {"cache_bytes": "1MB"}):
        with pytest.raises(ValueError, match="belong together"):
            UniRecordDataset(URL, **options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="is no size"):
        UniRecordDataset(URL, cache=tmp_path, cache_bytes="many")


def test_a_shelf_in_use_is_not_cleared(tmp_path: Path) -> None:
    rows = Rows()
    parts = rows.parts(tmp_path, 10**9)
    parts.fetch(ranges((0, 100)))
    directory = CacheDirectory(str(tmp_path), 0)
    assert directory.clear([]) == ["s3://b/a"]
    assert rows.has(parts, 0, 100)
    parts.close()
    del parts
    assert directory.clear([]) == []
    assert not rows.has(rows.parts(tmp_path, 10**9), 0, 100)


def test_rows_are_fetched_ahead(
    server: Server, tmp_path: Path, expected: dict[int, bytes], capsys: Any
) -> None:
    line = ["fetch", URL, "--cache", str(tmp_path), "--where", "n < 100"]
    assert main([*line, "--cache-bytes", "1GB"]) == 0
    assert "100 of 100 rows" in capsys.readouterr().out
    with open_cached(tmp_path, where="n < 100") as ds:
        assert epoch(ds, 0, expected) == 100
        assert ds.cache_stats().fetched_bytes == 0
    assert main([*line, "--cache-bytes", "1GB", "--columns", "x", "--json"]) == 0
    assert '"fetched_bytes": 0' in capsys.readouterr().out
    assert main(["fetch", URL, "--cache", str(tmp_path / "small"), "--cache-bytes", "200kB"]) == 0
    assert "the cache is full" in capsys.readouterr().out
    assert on_the_disk(tmp_path / "small") <= 200_000


def test_a_cache_is_listed_checked_pinned_and_cleared(tmp_path: Path, capsys: Any) -> None:
    rows, folder = Rows(60_000), str(tmp_path)
    for name in ("a", "b"):
        parts = rows.parts(tmp_path, 10**9, f"s3://b/{name}")
        parts.fetch(ranges((0, 500), (9_000, 700)))
        parts.close()
    assert main(["cache", "ls", folder]) == 0
    assert re.findall(r"(s3://b/.)  .*2 ranges of 1 files", capsys.readouterr().out) == [
        "s3://b/a",
        "s3://b/b",
    ]
    assert main(["cache", "verify", folder]) == 0
    assert "4 ranges" in capsys.readouterr().out
    _, data = map(Path, paths_of(folder, "s3://b/a"))
    data.write_bytes(b"x" + data.read_bytes()[1:])
    assert main(["cache", "verify", folder]) == 1
    assert "1 entries were damaged" in capsys.readouterr().err
    assert main(["cache", "verify", folder]) == 0
    assert main(["cache", "pin", folder, "s3://b/b"]) == 0
    assert main(["cache", "clear", folder]) == 0
    capsys.readouterr()
    assert main(["cache", "ls", folder, "--json"]) == 0
    assert [shelf["url"] for shelf in json.loads(capsys.readouterr().out)["shelves"]] == ["s3://b/b"]
    assert main(["cache", "clear", folder, "s3://b/b"]) == 0
    assert sorted(os.listdir(folder)) == ["cache.lock"]
    for wrong in (
        ["ls", folder, "s3://b/a"],
        ["pin", folder],
        ["clear", folder, "s3://b/c"],
        ["ls", folder, "--off"],
    ):
        assert main(["cache", *wrong]) == 2
    assert main(["cache", "ls", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()
