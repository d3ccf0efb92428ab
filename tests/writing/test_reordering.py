"""Rows brought into the order of a column: the same rows as those of a sorted list, published whole or not at all."""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from changed_datasets import SCHEMAS, make, named_by, parts_of, row, seen, seen_versions
from hypothesis import given, settings
from hypothesis import strategies as st
from writing import files, same, write

import unirecord
from unirecord import CorruptionError, MissingError, SchemaError, UniRecordDataset, UniRecordError
from unirecord.cli import main
from unirecord.snapshot import manifest

BACK = list(range(100, -1, -1))
GONE = [0, 62, 63, 100]


@pytest.mark.parametrize("kind", SCHEMAS)
def test_rows_are_the_same_in_another_order(tmp_path: Path, kind: str) -> None:
    path, schema = make(tmp_path / "x", kind), SCHEMAS[kind]
    with faults.unsynced():
        unirecord.compact(path, rows_per_part=40, drop_deleted=True)
        unirecord.delete(path, rows=GONE)
        told: list[tuple[int, int]] = []
        done = unirecord.sort(
            path, "n", descending=True, progress=lambda done, total: told.append((done, total))
        )
    left = [n for n in BACK if n not in GONE]
    assert (done.parts_before, done.parts_after, done.written, done.rows) == (3, 1, 1, 97)
    assert told == sorted(told)
    assert told
    with UniRecordDataset(path) as ds:
        same(list(ds), [row(schema, n) for n in left])
        assert ds.order.row_ids().tolist() == list(range(97))
        assert ds.metadata == {"m": 1}
        assert manifest.read(str(path / "manifest.json")).index == ("n",)
        assert len(ds.view(where="n == 40")) == 1
    assert unirecord.verify(path).ok
    assert [one.command for one in unirecord.versions(path)][-1] == "sort"
    assert seen(path, version=done.version - 1) == left[::-1]
    assert unirecord.sort(path, "n", descending=True).written == 0
    with faults.unsynced():
        unirecord.restore(path, done.version - 1)
        assert seen(path) == left[::-1]
        unirecord.gc(path, keep=1)
        unirecord.compact(path)
    assert seen(path) == left[::-1]


def test_cells_are_compressed_as_they_were(tmp_path: Path) -> None:
    path = make(tmp_path / "x", "compressed")
    unirecord.sort(path, "n", descending=True, part_bytes=9_000)
    assert len(parts_of(path)) > 1
    assert seen(path) == BACK
    with UniRecordDataset(path) as ds:
        described = unirecord.describe(path)
        assert len(ds) == described.rows == 101
    codecs = {column.name: str(column.codec) for column in stored(path)}
    other = make(tmp_path / "y", "compressed")
    assert codecs == {column.name: str(column.codec) for column in stored(other)}


def stored(path: Path) -> Any:
    from unirecord.snapshot.part_set import PartSet, resolve

    parts = PartSet(resolve(str(path)))
    try:
        return list(parts.part(0).stored_schema)
    finally:
        parts.close()


KEYS: dict[str, Any] = {
    "int64?": st.one_of(st.none(), st.integers(-3, 3)),
    "float64?": st.one_of(st.none(), st.sampled_from([math.nan, -0.0, 0.0, math.inf, -math.inf, 1.5])),
    "float32": st.sampled_from([math.nan, 2.0, -1.0]),
    "string?": st.one_of(st.none(), st.sampled_from(["", "a", "b", "é", "\U0001f600"])),
    "bool?": st.sampled_from([None, True, False]),
    "uint64": st.sampled_from([0, 1, 2**63, 2**64 - 1]),
}


def expected(keys: list[Any], rows: list[int], way: str) -> list[int]:
    """By a list of rows in memory."""
    nan = [i for i in rows if keys[i] is not None and keys[i] != keys[i]]
    null = [i for i in rows if keys[i] is None]
    proper = [i for i in rows if i not in nan and i not in null]
    if way == "cluster":
        groups: dict[Any, list[int]] = {}
        for i in rows:
            groups.setdefault("nan" if i in nan else ("value", keys[i]), []).append(i)
        return [i for group in groups.values() for i in group]
    return [*sorted(proper, key=lambda i: keys[i], reverse=way == "descending"), *nan, *null]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), kind=st.sampled_from(sorted(KEYS)))
def test_any_rows_by_any_column_are_as_a_list_in_memory(data: Any, kind: str) -> None:
    keys = data.draw(st.lists(KEYS[kind], min_size=1, max_size=25))
    cut = data.draw(st.integers(0, len(keys)))
    gone = data.draw(st.sets(st.integers(0, len(keys) - 1), max_size=4))
    way = data.draw(st.sampled_from(["ascending", "descending", "cluster"]))
    with tempfile.TemporaryDirectory() as folder, faults.unsynced():
        path = Path(folder) / "x"
        rows = [{"k": key, "n": n} for n, key in enumerate(keys)]
        write(path, {"k": kind, "n": "int64"}, rows[:cut])
        with unirecord.append(path) as writer:
            for one in rows[cut:]:
                writer.write(one)
        if gone:
            unirecord.delete(path, rows=sorted(gone))
        unirecord.sort(path, "k", **({} if way == "ascending" else {way: True}))
        there = [n for n in range(len(keys)) if n not in gone]
        assert seen(path) == expected(keys, there, way)


def test_damage_is_said_and_not_carried_over(tmp_path: Path) -> None:
    path = tmp_path / "x"
    write(path, {"n": "int64", "b": "bytes"}, [{"n": -n, "b": bytes([n]) * 5_000} for n in range(8)])
    (part,) = manifest.read(str(path / "manifest.json")).parts
    whole = bytearray((path / part.name).read_bytes())
    whole[whole.index(bytes([5]) * 5_000) + 100] ^= 1
    (path / part.name).write_bytes(whole)
    there = files(path)
    with pytest.raises(CorruptionError, match=part.name) as caught:
        unirecord.sort(path, "n")
    assert caught.value.row == 5
    assert files(path) == there
    other = make(tmp_path / "y", "numbers", (5, 9))
    one, two = (p.name for p in manifest.read(str(other / "manifest.json")).parts)
    shutil.copy(other / one, other / two)
    with pytest.raises((CorruptionError, UniRecordError)):
        unirecord.sort(other, "n", descending=True)


def test_what_is_asked_wrongly_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "x", "variable", (5, 9))
    for options in ({"part_bytes": 0}, {"part_bytes": "x"}, {"descending": True, "cluster": True}):
        with pytest.raises(ValueError, match=r"part_bytes|no size|exclude"):
            unirecord.sort(path, "n", **options)
    for name in ("t", "missing"):
        with pytest.raises(SchemaError, match=name):
            unirecord.sort(path, name)
    with pytest.raises(MissingError, match="no such file or directory"):
        unirecord.sort(tmp_path / "y", "n")
    other = unirecord.Writer(path, {"n": "int64"}, overwrite=True)
    with pytest.raises(unirecord.BusyError):
        unirecord.sort(path, "n", descending=True)
    other.abort()
    assert main(["sort", str(path), "--by", "t"]) != 0
    assert "'t' is not scalar" in capsys.readouterr().err
    assert seen_versions(path) == [1, 2]


def test_the_command_says_what_it_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = make(tmp_path / "x", "numbers", (5, 9))
    there = files(path)
    assert main(["sort", str(path), "--by", "n", "--descending", "--dry-run"]) == 0
    assert "version 3 would have 1 part in place of 2" in capsys.readouterr().out
    assert files(path) == there
    assert main(["sort", str(path), "--by", "n"]) == 0
    assert "nothing was published" in capsys.readouterr().out
    assert main(["sort", str(path), "--by", "n", "--descending", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["version"] == 3
    assert main(["sort", str(path), "--by", "n", "--cluster"]) == 0
    assert "nothing was published" in capsys.readouterr().out
    assert seen(path) == list(range(13, -1, -1))


def test_a_dataset_of_deleted_rows_becomes_empty(tmp_path: Path) -> None:
    path = make(tmp_path / "x", "variable", (5, 9))
    unirecord.delete(path, rows=range(14))
    assert unirecord.sort(path, "n").rows == 0
    assert seen(path) == []
    assert unirecord.verify(path).ok
    with unirecord.append(path) as writer:
        writer.write(row(SCHEMAS["variable"], 3))
    assert seen(path) == [3]
    assert unirecord.sort(path, "n").written == 0


def small(path: Path) -> Path:
    make(path, "variable", (5, 9))
    with faults.unsynced():
        unirecord.delete(path, rows=[3])
    return path


def check_whole(path: Path, at: int) -> bool:
    left = [n for n in range(14) if n != 3]
    found = seen(path)
    assert found in (left, left[::-1]), at
    with faults.unsynced():
        unirecord.delete(path, rows=[0])
    named = {name for n in seen_versions(path) for name in named_by(path, n)}
    assert {name for name in files(path) if ".urec" in name and not name.endswith(".idx")} == named, at
    return found == left


def change(path: Path) -> None:
    unirecord.sort(path, "n", descending=True)


def test_killed_at_any_call_it_is_done_or_not(tmp_path: Path) -> None:
    small(tmp_path / "0")
    at, alive, outcomes = 0, True, set()
    while alive:
        at += 1
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        alive = faults.killed(lambda path=path: change(path), at, torn=at % 2 == 0)  # type: ignore[misc]
        outcomes.add(check_whole(path, at))
        shutil.rmtree(path)
    assert at > 20
    assert outcomes == {True, False}


def test_a_call_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    small(tmp_path / "0")
    counted = Path(shutil.copytree(tmp_path / "0", tmp_path / "count"))
    with faults.system(faults.count_only) as watched:
        change(counted)
    for at in range(1, watched.count + 1):
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / str(at)))
        there = files(path)
        with suppress(OSError), faults.system(faults.fail_at(at)):
            change(path)
        if len(parts_of(path)) == 2:
            assert {name for name in files(path) if ".urec" in name} <= set(there) or at < 4, at
        check_whole(path, at)
        shutil.rmtree(path)


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    path = small(tmp_path / "x")
    there = files(path)

    def interrupt(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        unirecord.sort(path, "n", descending=True, progress=interrupt)
    assert files(path) == there
    assert np.array_equal(seen(path), [n for n in range(14) if n != 3])
