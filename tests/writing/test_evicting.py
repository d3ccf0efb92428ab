"""The oldest parts go until a directory is small enough, whoever reads, kills or fails."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import faults
import pytest
from writing import files, write

import unirecord
from unirecord import MissingError, UniRecordDataset, UniRecordError
from unirecord.cli import main

MEMORY = Path("/dev/shm")
ROOM = MEMORY if os.access(MEMORY, os.W_OK) else None


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=ROOM) as folder:
        yield Path(folder)


def make(path: Path, parts: int = 4) -> Path:
    """Ten rows a part."""
    with faults.unsynced():
        write(path, {"n": "int64"}, [{"n": n} for n in range(10)])
        for first in range(10, 10 * parts, 10):
            with unirecord.append(path) as writer:
                for n in range(first, first + 10):
                    writer.write({"n": n})
    return path


def seen(path: Path, **options: int) -> list[int]:
    with UniRecordDataset(path, **options) as ds:
        return [int(one["n"]) for one in ds]


def size(path: Path, parts: int) -> int:
    """Of the last so many parts."""
    listing = unirecord.snapshot.versions.read_newest(str(path))
    return sum(part.bytes + part.index_bytes for part in listing.parts[-parts:])


def test_the_oldest_parts_go_until_the_rest_is_within_the_limit(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    limit = size(path, 2)
    planned = unirecord.evict(path, limit, dry_run=True)
    assert seen(path) == list(range(40))
    done = unirecord.evict(path, limit)
    assert done == planned
    assert (done.version, done.parts, done.rows, done.left, done.kept_by) == (5, 2, 20, limit, (1, 2, 3, 4))
    assert seen(path) == list(range(20, 40))
    assert seen(path, version=4) == list(range(40))
    assert unirecord.evict(path, limit).parts == 0
    assert unirecord.evict(path, limit - 1).parts == 1
    with pytest.raises(UniRecordError, match="one part always stays"):
        unirecord.evict(path, 100)
    assert unirecord.restore(path, 4) == 7
    assert seen(path) == list(range(40))
    unirecord.delete(path, rows=[0, 39])
    assert unirecord.evict(path, size(path, 1) + 200, collect=True).collected is not None
    assert seen(path) == list(range(30, 39))
    assert len(files(path)) == 4


def test_what_a_reader_has_open_stays(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    with UniRecordDataset(path) as running:
        done = unirecord.evict(path, size(path, 1), collect=True)
        assert done.collected is not None
        assert done.collected.in_use == (4,)
        assert [int(one["n"]) for one in running] == list(range(40))
        running.refresh()
        assert [int(one["n"]) for one in running] == list(range(30, 40))


def test_the_command_says_what_stays_on_disk(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "d")
    limit = str(size(path, 3))
    assert main(["evict", str(path), "--max-bytes", limit, "--dry-run"]) == 0
    assert "1 part with 10 rows" in capsys.readouterr().out
    assert main(["evict", str(path), "--max-bytes", limit]) == 0
    assert "the bytes stay on disk for 4 earlier versions" in capsys.readouterr().out
    assert main(["gc", str(path), "--keep", "1"]) == 0
    assert "versions 1, 2, 3, 4 removed" in capsys.readouterr().out
    assert main(["evict", str(path), "--max-bytes", "1TB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == 0
    assert main(["evict", str(path), "--max-bytes", "1"]) == 1
    with pytest.raises(MissingError):
        unirecord.evict(tmp_path / "y", 10)
    with pytest.raises(ValueError, match="size"):
        unirecord.evict(path, "many")


def test_it_is_done_or_not_wherever_it_is_killed_or_fails(tmp_path: Path) -> None:
    make(tmp_path / "0", 2)
    limit, at, alive, outcomes = size(tmp_path / "0", 1), 0, True, set()
    while alive:
        at += 2
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        alive = faults.killed(lambda path=path: unirecord.evict(path, limit), at, torn=at % 4 == 0)  # type: ignore[misc]
        found = seen(path)
        assert found in (list(range(20)), list(range(10, 20))), at
        assert seen(path, version=2) == list(range(20)), at
        outcomes.add(len(found))
        other = Path(shutil.copytree(tmp_path / "0", tmp_path / f"{at}-failed"))
        with suppress(OSError), faults.system(faults.fail_at(at)):
            unirecord.evict(other, limit)
        assert seen(other) in (list(range(20)), list(range(10, 20))), at
    assert outcomes == {10, 20}
