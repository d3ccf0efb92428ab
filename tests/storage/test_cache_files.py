"""The files of a cache: right bytes or none whatever becomes of them, never a byte over the limit."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import random
from pathlib import Path

import numpy as np
import pytest
from cached_rows import Rows, fetched, on_the_disk, ranges
from faults import count_only, fail_at, killed, system

from unirecord.storage.cache import CacheDirectory, paths_of


def test_pieces_of_a_range_come_from_several_entries(tmp_path: Path) -> None:
    rows, rng = Rows(), random.Random(7)
    parts = rows.parts(tmp_path, 10**9)
    there = np.zeros(len(rows.data), bool)
    for _ in range(300):
        offset, size = rng.randrange(len(rows.data) - 3_000), rng.randrange(1, 3_000)
        assert rows.has(parts, offset, size) == there[offset : offset + size].all()
        if rng.random() < 0.5:
            fetched(parts, ranges((offset, size)))
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
    fetched(parts, ranges((1_000, 4 << 20)))
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
                fetched(of, ranges((offset, size)))
        assert limit - 25_000 < on_the_disk(folder) <= limit
        assert all(of.stats().full for of in parts)


def test_a_cache_without_room_for_a_segment_is_read_past(tmp_path: Path) -> None:
    rows = Rows()
    parts = rows.parts(tmp_path, 0)
    assert fetched(parts, ranges((5, 100)))[0] == rows.data[5:105]
    assert parts.stats() == parts.stats().__class__(fetched_bytes=100, full=True)
    parts.close()


def test_a_kill_at_every_call_leaves_a_right_cache_within_its_limit(tmp_path: Path) -> None:
    rows, limit = Rows(), 50_000

    def work(folder: Path) -> None:
        parts = rows.parts(folder, limit)
        for i in range(4):
            fetched(parts, ranges((i * 20_000, 3_000), (i * 20_000 + 5_000, 2_000)))
        parts.close()

    for torn in (False, True):
        at = 1
        while killed(lambda: work(folder), at, torn) if (folder := tmp_path / f"{torn}{at}") else False:
            assert on_the_disk(folder) <= limit if folder.exists() else True
            parts = rows.parts(folder, limit)
            before = sum(rows.has(parts, i * 20_000, 3_000) for i in range(4))
            assert parts.stats().damaged == 0
            for i in range(4):
                fetched(parts, ranges((i * 20_000, 3_000)))
            assert on_the_disk(folder) <= limit
            after = sum(rows.has(parts, i * 20_000, 3_000) for i in range(4))
            assert after == 4 >= before
            parts.close()
            at += 1
        assert at > 15


def test_a_full_disk_is_read_past_and_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = Rows()
    with system(count_only) as calls:
        fetched(rows.parts(tmp_path / "count", 10**9), ranges((0, 5_000)))
    for at in range(1, calls.count + 1):
        caplog.clear()
        folder = tmp_path / str(at)
        with caplog.at_level(logging.WARNING), system(fail_at(at, errno.ENOSPC, forever=True)):
            try:
                parts = rows.parts(folder, 10**9)
            except OSError:  # a directory that cannot be made
                continue
            for i in range(4):
                [found] = fetched(parts, ranges((i * 5_000, 5_000)))
                assert found == rows.data[i * 5_000 : i * 5_000 + 5_000]
            assert not rows.has(parts, 15_000, 5_000)
        assert len([record for record in caplog.records if "reading goes on without" in record.message]) == 1


def test_every_flipped_bit_is_found_and_what_it_hit_fetched_again(tmp_path: Path) -> None:
    rows = Rows(60_000)
    wanted = ranges((0, 500), (9_000, 700), (30_000, 300))
    first = rows.parts(tmp_path, 10**9)
    fetched(first, wanted)
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
            fetched(parts, wanted)
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
    fetched(rows.parts(tmp_path, 10**9), wanted)
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
    fetched(old.parts(tmp_path, 10**9), ranges((100, 500)))
    parts = new.parts(tmp_path, 10**9, version=2)
    assert not new.has(parts, 100, 500)
    fetched(parts, ranges((100, 500)))
    assert new.has(parts, 100, 500)
    assert old.has(old.parts(tmp_path, 10**9), 100, 500)


def fill(path: str, seed: int, limit: int) -> None:
    rows, rng = Rows(), random.Random(seed)
    parts = rows.parts(Path(path), limit)
    for _ in range(200):
        offset = rng.randrange(99) * 4_000
        if not rows.has(parts, offset, 4_000):
            fetched(parts, ranges((offset, 4_000)))
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


def test_a_segment_in_use_is_not_cleared(tmp_path: Path) -> None:
    rows = Rows()
    parts = rows.parts(tmp_path, 10**9)
    fetched(parts, ranges((0, 100)))
    directory = CacheDirectory(str(tmp_path), 0)
    assert directory.clear([]) == ["s3://b/a"]
    assert rows.has(parts, 0, 100)
    parts.close()
    del parts
    assert directory.clear([]) == []
    assert not rows.has(rows.parts(tmp_path, 10**9), 0, 100)
