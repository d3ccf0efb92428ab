"""Several datasets as one, and one as several: no row is lost, changed or moved, and what was there stays."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from objectstore import Server
from reference_directory import read_directory
from writing import files, same, write
from written_store import served, spooled

import unirecord
from unirecord import ExistsError, SchemaError, StaleError, UniRecordDataset
from unirecord.cli import main
from unirecord.writing import rewrite

MEMORY = Path("/dev/shm")
ROOM = MEMORY if os.access(MEMORY, os.W_OK) else None
SCHEMA = {"n": "int64", "s": "string", "b": "bytes"}
server = pytest.fixture(served)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one."""
    with tempfile.TemporaryDirectory(dir=ROOM) as folder:
        yield Path(folder)


def rows(first: int, stop: int) -> list[dict[str, Any]]:
    return [{"n": n, "s": f"s{n % 3}", "b": bytes([n]) * n} for n in range(first, stop)]


def make(path: Path, *bounds: int, **options: Any) -> Path:
    """A directory of a part for each two neighbouring bounds."""
    with faults.unsynced():
        write(path, SCHEMA, rows(*bounds[:2]), **{"index": ["n"], "metadata": {"m": 1}, **options})
        for first, stop in pairwise(bounds[1:]):
            with unirecord.append(path) as writer:
                for one in rows(first, stop):
                    writer.write(one)
    return path


def links(path: Path) -> list[int]:
    """Of the files of parts; those of deleted rows, which are small, are written anew."""
    return [(path / name).stat().st_nlink for name in files(path) if name.endswith((".urec", ".idx"))]


@pytest.mark.parametrize("link", [True, False])
def test_datasets_are_merged(tmp_path: Path, link: bool) -> None:
    one, two = make(tmp_path / "one", 0, 5, 9), make(tmp_path / "two", 9, 20)
    unirecord.delete(one, rows=[0, 8])
    made = unirecord.merge([one, two], tmp_path / "all", link=link)
    assert (made.rows, made.parts, made.linked) == (20, 3, 3 * link)
    assert set(links(tmp_path / "all")) == {1 + link}
    with UniRecordDataset(tmp_path / "all") as ds:
        same(list(ds), rows(1, 8) + rows(9, 20))
        assert ds.order.row_ids().tolist() == [*range(1, 8), *range(9, 20)]
        assert ds.metadata == {"m": 1}
        assert len(ds.view(where="n == 10")) == 1
    assert unirecord.verify(tmp_path / "all").ok
    assert [len(part.raw) for part in read_directory(tmp_path / "all")] == [5, 4, 11]
    unirecord.compact(one)
    unirecord.gc(one, keep=1)
    shutil.rmtree(two)
    with unirecord.append(tmp_path / "all") as writer:
        writer.write(rows(20, 21)[0])
    assert unirecord.delete(tmp_path / "all", rows=[1]).rows == 1
    assert [int(x["n"]) for x in UniRecordDataset(tmp_path / "all")] == [*range(2, 8), *range(9, 21)]
    assert [int(x["n"]) for x in UniRecordDataset(one)] == list(range(1, 8))
    commands = [version.command for version in unirecord.versions(tmp_path / "all")]
    assert commands == ["merge", "append", "delete"]


def test_versions_and_single_parts_are_merged(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one", 0, 5, 9), tmp_path / "two.urec"
    write(two, SCHEMA, rows(9, 12), index=["n"], metadata={"m": 1})
    os.symlink(two, tmp_path / "three.urec")
    os.symlink(f"{two}.idx", tmp_path / "three.urec.idx")
    unirecord.merge([f"{one}@1", tmp_path / "three.urec"], tmp_path / "all")
    os.unlink(two)
    same(list(UniRecordDataset(tmp_path / "all")), rows(0, 5) + rows(9, 12))
    read_directory(tmp_path / "all")


def test_where_no_link_can_be_made_parts_are_copied(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one", 0, 5), make(tmp_path / "two", 5, 9)

    def refuse(number: int, name: str) -> None:
        if name == "link":
            raise OSError(errno.EXDEV, "another file system")

    with faults.system(refuse):
        made = unirecord.merge([one, two], tmp_path / "all")
    assert (made.linked, set(links(tmp_path / "all"))) == (0, {1})
    same(list(UniRecordDataset(tmp_path / "all")), rows(0, 9))


def test_what_differs_is_named(tmp_path: Path) -> None:
    one = make(tmp_path / "one", 0, 5)
    write(tmp_path / "kind", {**SCHEMA, "s": "text"}, [], index=["n"], metadata={"m": 1})
    write(tmp_path / "more", {**SCHEMA, "z": "int8"}, [], index=["n"], metadata={"m": 1})
    annotated = {**SCHEMA, "n": {"type": "int64", "annotations": {"unit": "m"}}}
    write(tmp_path / "annotated", annotated, [], index=["n"], metadata={"m": 1})
    make(tmp_path / "index", 5, 6, index=[])
    make(tmp_path / "metadata", 5, 6, metadata={"m": 2})
    whys = {
        "kind": "column 's'",
        "more": "4 columns, the other 3",
        "annotated": "annotations of column 'n'",
        "index": r"index columns \[\]",
        "metadata": "metadata differ",
    }
    for name, why in whys.items():
        with pytest.raises(SchemaError, match=why):
            unirecord.merge([one, tmp_path / name], tmp_path / "all")
        assert not (tmp_path / "all").exists()


def put(server: Server, path: Path) -> str:
    """The dataset at ``path``, in the bucket."""
    shutil.copytree(path, server.root / "bucket" / path.name)
    return f"s3://bucket/{path.name}"


def test_datasets_are_merged_from_and_to_an_object_store(server: Server, tmp_path: Path) -> None:
    """Deleted rows stay so, and columns beside the parts come along; parts are the same bytes."""
    one, two = make(tmp_path / "one", 0, 5, 9), make(tmp_path / "two", 9, 20)
    for path in (one, two):
        unirecord.add_columns(path, {"m": "int64"}, lambda batch: {"m": batch["n"] * 2})
    unirecord.delete(one, rows=[0, 8])
    local = unirecord.merge([one, two], tmp_path / "all")
    stored = [put(server, one), put(server, two)]
    wanted = list(UniRecordDataset(tmp_path / "all"))
    for paths, to in (
        (stored, "s3://bucket/all"),
        ([one, two], "s3://bucket/up"),
        (stored, tmp_path / "down"),
    ):
        planned = unirecord.merge(paths, to, dry_run=True)
        assert unirecord.merge(paths, to) == planned == replace(local, linked=0)
        with UniRecordDataset(to, shuffle=False) as found:
            same(list(found), wanted)
        assert unirecord.verify(to).ok
    assert spooled(server) == []
    with unirecord.append("s3://bucket/all") as writer:
        writer.write({**rows(20, 21)[0], "m": 40})
    with UniRecordDataset("s3://bucket/all") as found:
        assert len(found) == len(wanted) + 1
    with pytest.raises(ExistsError, match="merge replaces nothing"):
        unirecord.merge(stored, "s3://bucket/all")


def test_of_two_merges_to_one_place_in_a_store_one_is_told_and_deletes_nothing_of_the_other(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the same parts, whose ids name them."""
    path = make(tmp_path / "one", 0, 5, 9)
    whole, waiting = rewrite._given_again, [1]

    def copied(*arguments: Any, **options: Any) -> bool:
        if waiting:
            waiting.pop()
            unirecord.merge([path], "s3://bucket/all")
        return whole(*arguments, **options)

    monkeypatch.setattr(rewrite, "_given_again", copied)
    with pytest.raises(StaleError, match="another writer"):
        unirecord.merge([path], "s3://bucket/all")
    with UniRecordDataset("s3://bucket/all") as found:
        same(list(found), rows(0, 9))
    there = [name for name in os.listdir(server.root / "bucket" / "all") if name.startswith("part-")]
    assert len(there) == 4


def test_what_cannot_be_merged_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, two = make(tmp_path / "one", 0, 5), make(tmp_path / "two", 5, 9)
    with pytest.raises(ExistsError, match="are the same part"):
        unirecord.merge([one, two, one], tmp_path / "all")
    with pytest.raises(ExistsError, match="a dataset is there already; merge replaces nothing"):
        unirecord.merge([one], two)
    with pytest.raises(ExistsError, match="a dataset is there already; merge replaces nothing"):
        unirecord.merge([one], two, dry_run=True)
    for paths in ([], "one"):
        with pytest.raises(ValueError, match="list of one dataset"):
            unirecord.merge(paths, tmp_path / "all")
    with pytest.raises(ValueError, match=r"without \.urec"):
        unirecord.merge([one], tmp_path / "all.urec")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]
    assert main(["merge", str(tmp_path / "all"), str(one), str(two), "--dry-run"]) == 0
    assert "9 rows in 2 parts (not made)" in capsys.readouterr().out
    assert not (tmp_path / "all").exists()
    assert main(["merge", str(tmp_path / "all"), str(one), str(two)]) == 0
    assert "9 rows in 2 parts (2 linked, 0 copied)" in capsys.readouterr().out


def merged(folder: Path) -> None:
    unirecord.merge([folder / "one", folder / "two"], folder / "all", link=False)


def check_whole(folder: Path, at: int) -> bool:
    there = (folder / "all").exists()
    if not there:
        with faults.unsynced():
            unirecord.merge([folder / "one", folder / "two"], folder / "all")
    same(list(UniRecordDataset(folder / "all")), rows(1, 9))
    assert sorted(path.name for path in folder.iterdir()) == ["all", "one", "two"], at
    return there


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """Two small datasets in a folder "0"."""
    (tmp_path / "0").mkdir()
    unirecord.delete(make(tmp_path / "0" / "one", 0, 5), rows=[0])
    make(tmp_path / "0" / "two", 5, 9)
    return tmp_path


def test_a_merge_killed_at_any_call_is_done_or_not(two: Path) -> None:
    at, alive, outcomes = 0, True, set()
    while alive:
        at += 1
        folder = Path(shutil.copytree(two / "0", two / str(at)))
        alive = faults.killed(lambda folder=folder: merged(folder), at, torn=at % 2 == 0)  # type: ignore[misc]
        outcomes.add(check_whole(folder, at))
        shutil.rmtree(folder)
    assert at > 15
    assert outcomes == {True, False}


def test_a_call_that_fails_in_a_merge_leaves_nothing_behind(two: Path) -> None:
    counted = Path(shutil.copytree(two / "0", two / "count"))
    with faults.system(faults.count_only) as watched:
        merged(counted)
    for at in range(1, watched.count + 1):
        folder = Path(shutil.copytree(two / "0", two / str(at)))
        with suppress(OSError), faults.system(faults.fail_at(at)):
            merged(folder)
        check_whole(folder, at)
        shutil.rmtree(folder)


def test_a_dataset_is_split_as_its_shares_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "x", 0, 60, 100)
    unirecord.delete(path, rows=[7])
    shares = {"train": 0.7, "val": 0.3}
    assert unirecord.split(path, tmp_path / "shares", shares) == 99
    with UniRecordDataset(path) as ds:
        expected = {name: list(share) for name, share in ds.split(shares).items()}
    for name, share in expected.items():
        same(list(UniRecordDataset(tmp_path / "shares" / name)), share)
    assert unirecord.describe(tmp_path / "shares" / "val").index == ["n"]
    assert main(["split", str(path), str(tmp_path / "again"), "train=0.7,val=0.3"]) == 0
    capsys.readouterr()
    same(list(UniRecordDataset(tmp_path / "again" / "val")), expected["val"])
    assert unirecord.split(path, tmp_path / "values", by="s") == 99
    assert np.unique(UniRecordDataset(tmp_path / "values" / "s1").scalars(["s"])["s"]).tolist() == ["s1"]
    assert main(["split", str(path), str(tmp_path / "shares"), "train=0.7,val=0.3"]) == 2
