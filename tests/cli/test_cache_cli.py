"""Caches on the command line: rows fetched ahead, and caches listed, checked, pinned and cleared."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from cached_dataset import URL, epoch, expected, open_cached, root, server
from cached_rows import Rows, fetched, on_the_disk, ranges
from faults import count_only, fail_at, system
from objectstore import Server

from unirecord.cli import main
from unirecord.storage.cache import paths_of

__all__ = ["expected", "root", "server"]  # fixtures


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


def test_fetching_ends_where_the_disk_is_full(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whichever call meets it: the cache is named where it cannot be made, and else the rows that are left."""
    line = ["fetch", URL, "--cache-bytes", "1GB", "--cache"]
    with system(count_only) as calls:
        assert main([*line, str(tmp_path / "count")]) == 0
    said = {"cannot be made": 0, "takes no more": 0, "is not noticed": 0}
    for at in [*range(1, calls.count, 3)]:
        folder = str(tmp_path / f"full at {at}")
        capsys.readouterr()
        with system(fail_at(at, errno.ENOSPC, forever=True)):
            code = main([*line, folder])
        out, err = capsys.readouterr()
        if err:
            assert code == 1
            assert f"{folder}: " in err
            assert "for a cache; make room" in err
            said["cannot be made"] += 1
        elif code:
            assert "the disk takes no more" in out
            said["takes no more"] += 1
        else:
            assert "300 of 300 rows" in out
            said["is not noticed"] += 1
        assert main([*line, folder, "--json"]) == 0
        assert '"stopped": false' in capsys.readouterr().out
    assert said["cannot be made"]
    assert said["takes no more"]


def test_commands_that_read_rows_take_a_cache(
    root: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has been read once is not asked for again: cells by no command after `fetch`, statistics after `inspect`."""
    kept = ["--cache", str(tmp_path / "kept"), "--cache-bytes", "1GB"]
    for command in (
        ["fetch", URL],
        ["inspect", URL],
        ["inspect", URL, "--where", "n < 9", "--columns", "n"],
        ["export", URL, str(tmp_path / "rows.csv"), "--columns", "n"],
        ["bench", URL, "--seconds", "0.01", "--batch", "16"],
        ["trace", URL, "--seed", "1", "--batch", "16", "--step", "3"],
    ):
        for again in (False, True):
            before = len(server.requests)
            assert (
                main([*command, *kept, *(["--overwrite"] if again and command[0] == "export" else [])]) == 0
            )
            asked = [
                each.key for each in server.requests[before:] if each.method == "GET" and ".urec" in each.key
            ]
            assert not (again and asked), (command, asked)
            assert not asked or command[:2] in (["fetch", URL], ["inspect", URL])
    capsys.readouterr()


def test_a_cache_is_refused_with_a_sentence_where_it_cannot_be(
    root: Path, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = ["--cache", str(tmp_path / "kept"), "--cache-bytes", "1MB"]
    for wrong, said in (
        (["inspect", URL, *both[:2]], "belong together"),
        (["inspect", URL, *both[2:]], "belong together"),
        (["inspect", str(root / "bucket" / "rows"), *both], "nothing that is named is in one"),
        (["verify", URL, *both], "checks what the store has"),
        (["write", URL, str(tmp_path / "copy"), *both], "unirecord fetch"),
        (["log", URL, *both], "manifests alone"),
        (["fetch", str(root / "bucket" / "rows"), *both], "is on a disk"),
    ):
        assert main(wrong) == 2
        assert said in capsys.readouterr().err
    assert not (tmp_path / "kept").exists()


def test_a_cache_is_listed_checked_pinned_and_cleared(tmp_path: Path, capsys: Any) -> None:
    rows, folder = Rows(60_000), str(tmp_path)
    for name in ("a", "b"):
        parts = rows.parts(tmp_path, 10**9, f"s3://b/{name}")
        fetched(parts, ranges((0, 500), (9_000, 700)))
        parts.close()
    assert main(["cache", "ls", folder]) == 0
    assert re.findall(r"(s3://b/.)  .*2 ranges of 1 file", capsys.readouterr().out) == [
        "s3://b/a",
        "s3://b/b",
    ]
    assert main(["cache", "verify", folder]) == 0
    assert "4 ranges" in capsys.readouterr().out
    _, data = map(Path, paths_of(folder, "s3://b/a"))
    data.write_bytes(b"x" + data.read_bytes()[1:])
    assert main(["cache", "verify", folder]) == 1
    assert "1 entry was damaged" in capsys.readouterr().err
    assert main(["cache", "verify", folder]) == 0
    assert main(["cache", "pin", folder, "s3://b/b/"]) == 0
    assert "s3://b/b: `clear` leaves it" in capsys.readouterr().out
    assert main(["cache", "pin", folder, "s3://b/bb"]) == 2
    assert "did you mean 's3://b/" in capsys.readouterr().err
    assert main(["cache", "clear", folder]) == 0
    capsys.readouterr()
    assert main(["cache", "ls", folder, "--json"]) == 0
    assert [segment["url"] for segment in json.loads(capsys.readouterr().out)["segments"]] == ["s3://b/b"]
    assert main(["cache", "clear", folder, "s3://b/b"]) == 0
    assert sorted(os.listdir(folder)) == ["cache.key", "cache.lock"]
    for wrong in (
        ["ls", folder, "s3://b/a"],
        ["pin", folder],
        ["clear", folder, "s3://b/c"],
        ["ls", folder, "--off"],
    ):
        assert main(["cache", *wrong]) == 2
    assert main(["cache", "ls", str(tmp_path / "none")]) == 2
    assert not (tmp_path / "none").exists()
