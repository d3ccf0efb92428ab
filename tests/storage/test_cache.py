"""Datasets read through a cache: what is in it is not fetched, and what has been written anew is not taken for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cached_dataset import ROWS, SIZE, URL, epoch, expected, open_cached, root, server
from cached_rows import on_the_disk
from objectstore import Fault, Server

from unirecord import CorruptionError, FormatError, StaleError, UniRecordDataset, Writer
from unirecord.storage.pacing import Durations

__all__ = ["expected", "root", "server"]  # fixtures


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


def test_a_dataset_that_is_all_in_the_cache_is_opened_and_read_by_one_request(
    server: Server, tmp_path: Path, expected: dict[int, bytes]
) -> None:
    """That for the manifest, which says what is there now."""
    for where in (None, "n % 3 == 0"):
        with open_cached(tmp_path, where=where) as ds:
            assert epoch(ds, 0, expected) == len(ds)
        before = len(server.requests)
        with open_cached(tmp_path, where=where) as ds:  # another process, as it were
            assert epoch(ds, 2, expected) == len(ds)
            assert ds.cache_stats().fetched_bytes == 0
        assert [request.key for request in server.requests[before:]] == ["bucket/rows/manifest.json"]


def test_heads_that_came_damaged_into_the_cache_are_fetched_again(
    server: Server, tmp_path: Path, expected: dict[int, bytes]
) -> None:
    """What opening a part needs is kept before it has been checked: it is forgotten when it is wrong."""
    for at in (0, 30, 90, 250, 400):
        server.fault = lambda request, at=at: Fault(flip=at) if ".urec" in request.key else None  # type: ignore[misc]
        with open_cached(tmp_path / str(at)) as ds, pytest.raises((CorruptionError, StaleError, FormatError)):
            epoch(ds, 0, expected)
        server.fault = lambda request: None
        with open_cached(tmp_path / str(at)) as ds:
            assert epoch(ds, 0, expected) == ROWS
        with open_cached(tmp_path / str(at)) as ds:
            assert epoch(ds, 1, expected) == ROWS
            assert ds.cache_stats().fetched_bytes == 0


def test_after_the_first_epoch_what_the_limit_leaves_out_is_fetched(
    root: Path, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(1 - limit / data) of the data in each epoch, to a hundredth of it: no replacement of entries does better."""
    monkeypatch.setattr(Durations, "long", lambda *_: 3_600.0)  # no request is made twice for being late
    # what the cache keeps beside the rows takes up to 80 KB of the limit
    rows, size = 200, 160_000
    with Writer(root / "bucket" / "large.urec", {"x": f"uint8[{size}]"}) as writer:
        for n in range(rows):
            writer.write({"x": np.full(size, n, np.uint8)})
    for share in (0.25, 0.75):
        folder, limit = tmp_path / str(share), int(share * rows * size)
        options: dict[str, Any] = {"cache": folder, "cache_bytes": limit, "shuffle": True}
        with UniRecordDataset("s3://bucket/large.urec", **options) as ds:
            for number in range(3):
                sent, fetched = server.bytes, ds.cache_stats().fetched_bytes
                ds.set_epoch(number)
                values = [int(x) for batch in ds.batches(8) for x in batch["x"][:, 0]]
                assert sorted(values) == sorted(n % 256 for n in range(rows))
                assert on_the_disk(folder) <= limit
                if number > 0:
                    assert abs(server.bytes - sent - (1 - share) * rows * size) < 0.01 * rows * size
                    assert ds.cache_stats().fetched_bytes - fetched == server.bytes - sent
            assert ds.cache_stats().full


def test_a_rewritten_dataset_is_not_read_from_the_cache(root: Path, server: Server, tmp_path: Path) -> None:
    for value in (1, 2):
        with Writer(root / "bucket" / "again.urec", {"x": "uint8[2000]"}, overwrite=value > 1) as writer:
            for _ in range(5):
                writer.write({"x": np.full(2_000, value, np.uint8)})
        with UniRecordDataset("s3://bucket/again.urec", cache=tmp_path, cache_bytes="1MB") as ds:
            assert all((row["x"] == value).all() for _ in range(2) for row in ds)


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


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "a": row["a"].tolist()}


@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_rows_of_every_kind_come_from_the_cache_as_they_are(
    root: Path, server: Server, tmp_path: Path, verify: Any
) -> None:
    """Many rows to a digest, cells of their own length, compressed ones: checked at first, or each time."""
    path = root / "bucket" / "kinds"
    schema: Any = {"a": "uint8[60]", "b": "bytes", "c": {"type": "text", "codec": "zstd"}}
    if not path.exists():
        with Writer(path, schema, max_part_bytes="20kB") as writer:
            for n in range(600):
                writer.write(
                    {
                        "a": np.full(60, n % 251, np.uint8),
                        "b": b"%d" % n * (n % 7),
                        "c": f"row {n} " * (n % 5),
                    }
                )
    with (
        UniRecordDataset("s3://bucket/kinds", cache=tmp_path, cache_bytes="1GB", verify=verify) as ds,
        UniRecordDataset(path) as there,
    ):
        for number in range(3):
            sent = server.bytes
            rows = np.random.default_rng(number).permutation(len(there))
            for first in range(0, len(rows), 50):
                chosen = rows[first : first + 50].tolist()
                assert list(map(plain, ds[chosen])) == list(map(plain, there[chosen]))
            assert number == 0 or server.bytes == sent
        assert ds.cache_stats().damaged == 0


def test_what_is_damaged_while_it_is_in_use_is_not_taken_with_digests_always(
    server: Server, tmp_path: Path, expected: dict[int, bytes]
) -> None:
    with open_cached(tmp_path, verify="always") as ds:
        epoch(ds, 0, expected)
        epoch(ds, 1, expected)
        [kept] = tmp_path.glob("*.bytes")
        with kept.open("r+b") as file:
            file.seek(kept.stat().st_size // 2)
            middle = file.read(10_000)
            file.seek(kept.stat().st_size // 2)
            file.write(bytes(255 - byte for byte in middle))
        assert epoch(ds, 2, expected) == ROWS
        assert ds.cache_stats().damaged >= 1
        assert epoch(ds, 3, expected) == ROWS
