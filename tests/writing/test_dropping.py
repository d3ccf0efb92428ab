"""Deleted rows leave no bytes behind where that is asked for, and all others are what they were."""

from __future__ import annotations

import shutil
from pathlib import Path

import faults
import numpy as np
import pytest
from changed_datasets import SCHEMAS, SECRET, found_in, make, row, seen
from reference_directory import read_directory
from writing import same

import unirecord
from unirecord import CorruptionError, UniRecordDataset
from unirecord.cli import main
from unirecord.snapshot import manifest
from unirecord.snapshot.data_file import DataFile


@pytest.mark.parametrize("kind", SCHEMAS)
def test_deleted_rows_are_blank_and_the_others_as_they_were(tmp_path: Path, kind: str) -> None:
    path = make(tmp_path / "data", kind)
    unirecord.delete(path, rows=[0, 1, 2, 5, 62, 63, 100])
    live = seen(path)
    with UniRecordDataset(path, shuffle=True, seed=3) as before:
        order, state = before.order.row_ids().tolist(), before.state_dict()
    with faults.unsynced():
        unirecord.compact(path, drop_deleted=True)
    assert seen(path) == live
    with UniRecordDataset(path, shuffle=True, seed=3) as after:
        after.load_state_dict(state)
        assert after.order.row_ids().tolist() == order
        for one in after:
            same([one], [row(SCHEMAS[kind], int(one["n"]))])
    (part,) = read_directory(path)
    assert sorted(part.deleted) == [0, 1, 2, 5, 62, 63, 100]
    assert {bytes(part.raw[n][0] or b"") for n in part.deleted} == {bytes(8)}
    assert main(["verify", str(path)]) == 0
    name = str(path / manifest.read(str(path / "manifest.json")).parts[0].name)
    with UniRecordDataset(name) as whole:  # has all of its rows, and each can be read
        assert [int(one["n"]) for one in whole].count(0) == 7


@pytest.mark.parametrize("codec", [None, "zstd"])
def test_no_file_has_their_bytes_once_earlier_versions_are_gone(tmp_path: Path, codec: str | None) -> None:
    schema = {"n": "int64", "s": "string", "b": {"type": "bytes", **({"codec": codec} if codec else {})}}
    path = tmp_path / "data"
    with unirecord.Writer(path, schema, index=["n", "s"]) as writer:
        for n in range(40):
            text = SECRET if n == 7 else b"%d of a thing that is long enough to be said " % n
            writer.write({"n": n, "s": text.decode(), "b": np.random.default_rng(n).bytes(50) + text})
    assert found_in(path)
    unirecord.delete(path, rows=[7])
    unirecord.compact(path)
    assert found_in(path)
    unirecord.compact(path, drop_deleted=True)
    unirecord.gc(path, keep=1)
    assert found_in(path) == []
    assert len(seen(path)) == 39


def test_what_has_been_dropped_is_not_written_again(tmp_path: Path) -> None:
    path = make(tmp_path / "data", "strings", (30, 20))
    unirecord.delete(path, rows=[3])
    assert unirecord.compact(path, part_bytes=1, drop_deleted=True, dry_run=True).written == 1
    first = unirecord.compact(path, part_bytes=1, drop_deleted=True)
    assert (first.written, first.parts_after) == (1, 2)
    assert unirecord.compact(path, part_bytes=1, drop_deleted=True).written == 0
    assert unirecord.compact(path).written == 1
    assert unirecord.compact(path, drop_deleted=True).written == 0
    unirecord.delete(path, rows=[40])
    assert main(["compact", str(path), "--drop-deleted"]) == 0
    assert unirecord.compact(path, drop_deleted=True).written == 0
    assert seen(path) == [n for n in range(50) if n not in (3, 40)]


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_that_are_cut_leave_them_behind_too(tmp_path: Path, parts: int) -> None:
    path = make(tmp_path / "data", "strings", (30, 20))
    unirecord.delete(path, rows=[0, 3, 17, 29, 30, 49])
    live = seen(path)
    assert main(["reshard", str(path), str(parts), "--drop-deleted"]) == 0
    assert seen(path) == live
    assert len(manifest.read(str(path / "manifest.json")).parts) == parts
    assert unirecord.compact(path, part_bytes=1, drop_deleted=True).written == 0  # nothing was left of them
    assert {bytes(part.raw[n][0] or b"") for part in read_directory(path) for n in part.deleted} == {bytes(8)}
    assert main(["verify", str(path)]) == 0


def test_a_part_of_nothing_else_and_what_is_damaged(tmp_path: Path) -> None:
    path = make(tmp_path / "data", "variable", (4, 30))
    unirecord.delete(path, rows=[0, 1, 2, 3])
    unirecord.compact(path, part_bytes=1, drop_deleted=True)
    assert seen(path) == list(range(4, 34))
    unirecord.delete(path, rows=[20])
    name = path / manifest.read(str(path / "manifest.json")).parts[1].name
    content = bytearray(name.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    name.write_bytes(content)
    before = (path / "manifest.json").read_bytes()
    with pytest.raises(CorruptionError):
        unirecord.compact(path, part_bytes=1, drop_deleted=True)
    assert (path / "manifest.json").read_bytes() == before


def test_no_dictionary_is_kept_that_was_trained_on_them(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with unirecord.Writer(path, {"n": "int64", "o": {"type": "object", "codec": "zstd"}}) as writer:
        for n in range(4000):
            writer.write(
                {"n": n, "o": {"name": f"somebody {n}", "kind": ["one", "two"][n % 2], "place": n * 7}}
            )
    assert dictionaries_of(path) == 1
    unirecord.delete(path, rows=[7])
    unirecord.compact(path, drop_deleted=True)
    assert dictionaries_of(path) == 0
    with UniRecordDataset(path) as dataset:
        assert [one["o"]["place"] // 7 for one in dataset] == [n for n in range(4000) if n != 7]


def dictionaries_of(path: Path) -> int:
    (part,) = manifest.read(str(path / "manifest.json")).parts
    with DataFile(str(path / part.name)) as data:
        return len(list(data.dictionaries(data.head())))


def test_dropping_killed_at_any_call_is_done_or_not(tmp_path: Path) -> None:
    schema = {"n": "int64", "b": "bytes"}
    whole = tmp_path / "whole"
    with unirecord.Writer(whole, schema) as writer:
        for n in range(5):
            writer.write({"n": n, "b": SECRET if n == 2 else b"x"})
    unirecord.delete(whole, rows=[2])
    at, alive = 0, True
    while alive:
        at += 1
        path = Path(shutil.copytree(whole, tmp_path / str(at)))
        alive = faults.killed(
            lambda path=path: unirecord.compact(path, drop_deleted=True), at, torn=at % 2 == 0
        )  # type: ignore[misc]
        assert seen(path) == [0, 1, 3, 4]
        with faults.unsynced():
            unirecord.compact(path, drop_deleted=True)
            unirecord.gc(path, keep=1)
        assert found_in(path) == []
        shutil.rmtree(path)
    assert at > 20


@pytest.mark.parametrize("rows", [[2], [0, 1, 2, 3, 4]])
def test_a_damaged_row_that_was_deleted_is_in_nobodys_way(tmp_path: Path, rows: list[int]) -> None:
    path = tmp_path / "data"
    with unirecord.Writer(
        path, {"n": "int64", "b": "bytes", "r": {"type": "int16", "shape": [-1, -1]}}
    ) as writer:
        for n in range(5):
            writer.write(
                {"n": n, "b": (SECRET if n == 2 else b"x") * 3000, "r": np.full((n, 2), n, np.int16)}
            )
    name = path / manifest.read(str(path / "manifest.json")).parts[0].name
    name.write_bytes(name.read_bytes().replace(SECRET, SECRET.upper()))
    unirecord.delete(path, rows=rows)
    with pytest.raises(CorruptionError):
        unirecord.reshard(path, 2)
    unirecord.compact(path, drop_deleted=True)
    assert main(["verify", str(path)]) == 0
    assert seen(path) == [n for n in range(5) if n not in rows]
    whole = path / manifest.read(str(path / "manifest.json")).parts[0].name
    with UniRecordDataset(whole) as blank:
        assert [one["r"].shape for one in blank] == [(0, 0) if n in rows else (n, 2) for n in range(5)]
