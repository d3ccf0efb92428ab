"""Columns that change while calls fail or the process is killed; wrong layouts; any sequence of changes."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from columns_changed import column, make
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from reseal import sealed
from writing import files

import unirecord
from unirecord import UniRecordDataset, UniRecordError
from unirecord.convert import update
from unirecord.snapshot.manifest import read


def change(path: Path) -> None:
    """A column more and one less, in two publications."""
    unirecord.add_columns(path, {"m": "int64"}, lambda batch: {"m": batch["n"] + 1}, reads=["n"])
    unirecord.drop_columns(path, "x")


def check_whole(path: Path, at: int) -> int:
    """Each version that is there is whole, and what is done again succeeds and leaves nothing else."""
    there = unirecord.versions(path)[-1].number
    assert column(path, "n", version=2) == list(range(4)), at
    if there > 2:
        assert column(path, "m", version=3) == [1, 2, 3, 4], at
    with faults.unsynced():
        if there == 2:
            change(path)
        elif there == 3:
            unirecord.drop_columns(path, "x")
    assert tuple(UniRecordDataset(path).schema.names) == ("name", "n", "t", "m"), at
    assert unirecord.verify(path).ok, at
    with faults.unsynced():
        unirecord.gc(path, keep=1)
    listing = read(str(path / "manifest.json"))
    named = {part.name for part in listing.parts}
    named |= {file.name for part in listing.parts if part.columns is not None for file in part.columns.files}
    assert {name.removesuffix(".idx") for name in files(path) if name.startswith("part-")} == named, at
    left = [name for name in files(path) if name.endswith((".tmp", ".new"))]
    for name in left:  # the plan of what was published, for who asks to go on with it
        assert name.startswith(".append-"), at
        assert [one.name for one in (path / name).iterdir() if one.name.startswith("part-")] == [], at
    return there


def test_a_change_of_columns_killed_at_any_call_is_done_or_not(tmp_path: Path) -> None:
    make(tmp_path / "0", 4, 2)
    at, alive, outcomes = 0, True, set()
    while alive:
        at += 1
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / "at"))
        alive = faults.killed(lambda path=path: change(path), at, torn=at % 2 == 0)  # type: ignore[misc]
        outcomes.add(check_whole(path, at))
        shutil.rmtree(path)
    assert at > 40
    assert outcomes == {2, 3, 4}


def test_a_call_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    make(tmp_path / "0", 4, 2)
    counted = Path(shutil.copytree(tmp_path / "0", tmp_path / "count"))
    with faults.system(faults.count_only) as watched:
        change(counted)
    outcomes = set()
    for at in range(1, watched.count + 1):
        path = Path(shutil.copytree(tmp_path / "0", tmp_path / "at"))
        with suppress(OSError), faults.system(faults.fail_at(at)):
            change(path)
        outcomes.add(check_whole(path, at))
        shutil.rmtree(path)
    assert outcomes == {2, 3, 4}


def layered(path: Path) -> tuple[Path, dict[str, Any]]:
    """A dataset with a layout of two files and a part without, and its manifest."""
    make(path, 4, 2)
    with faults.unsynced():
        unirecord.add_columns(path, {"m": "int64", "w": "string"}, lambda b: {"m": b["n"], "w": b["name"]})
        with unirecord.append(path) as writer:
            row = {"name": "k", "n": 4, "x": np.zeros(3, np.float32), "t": "", "m": 4, "w": "k"}
            writer.write(row)
    return path, json.loads((path / "manifest.json").read_bytes())


def _part(content: dict[str, Any]) -> dict[str, Any]:
    return content["parts"][0]  # type: ignore[no-any-return]


WRONG: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("no layouts", lambda c: c.pop("layouts")),
    ("layouts that are no list", lambda c: c.update(layouts={})),
    ("no layout in the list", lambda c: c.update(layouts=[])),
    ("not required", lambda c: c.pop("required")),
    ("a layout with a key more", lambda c: c["layouts"][0].update(more=1)),
    ("a layout without files", lambda c: c["layouts"][0].update(files=[])),
    ("files that are no schemas", lambda c: c["layouts"][0].update(files=[[["a"]], [["b"]]])),
    ("a column fewer", lambda c: c["layouts"][0]["columns"].pop()),
    ("a column that is no pair", lambda c: c["layouts"][0]["columns"].__setitem__(0, 0)),
    ("a file that is not there", lambda c: c["layouts"][0]["columns"].__setitem__(0, [2, 0])),
    ("a place that is not there", lambda c: c["layouts"][0]["columns"].__setitem__(5, [1, 2])),
    ("a place below zero", lambda c: c["layouts"][0]["columns"].__setitem__(0, [0, -1])),
    ("a place of another type", lambda c: c["layouts"][0]["columns"].__setitem__(0, [0, True])),
    ("two columns in one place", lambda c: c["layouts"][0]["columns"].__setitem__(4, [0, 1])),
    ("a column of another type", lambda c: c["layouts"][0]["columns"].reverse()),
    ("another layout", lambda c: _part(c).update(layout=1)),
    ("a layout that is no number", lambda c: _part(c).update(layout="0")),
    ("no layout in a part", lambda c: _part(c).pop("layout")),
    ("no column parts", lambda c: _part(c).pop("column_files")),
    ("too few column parts", lambda c: _part(c).update(column_files=[])),
    ("too many column parts", lambda c: _part(c)["column_files"].append(_part(c)["column_files"][0])),
    ("a column part with a key more", lambda c: _part(c)["column_files"][0].update(rows=1)),
    ("a column part of another name", lambda c: _part(c)["column_files"][0].update(name="../x.urec")),
    ("a column part of another id", lambda c: _part(c)["column_files"][0].update(id="0" * 32)),
    ("a column part twice", lambda c: _part(c).update(column_files=c["parts"][1]["column_files"])),
    ("a size below zero", lambda c: _part(c)["column_files"][0].update(bytes=-1)),
    ("a size beyond", lambda c: _part(c)["column_files"][0].update(bytes=1 << 63)),
    ("a content that is no digest", lambda c: _part(c)["column_files"][0].update(content="x")),
    ("another schema", lambda c: _part(c).update(schema="0" * 32)),
]


@pytest.mark.parametrize("change", [w[1] for w in WRONG], ids=[w[0] for w in WRONG])
def test_wrong_layouts_are_refused(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path, content = layered(tmp_path / "x")
    change(content)
    (path / "manifest.json").write_bytes(sealed(content))
    for use in (UniRecordDataset, unirecord.describe, unirecord.append, unirecord.compact):
        with pytest.raises(unirecord.FormatError, match=r"manifest\.json"):
            use(path)  # type: ignore[operator]


LIES: list[tuple[str, Callable[[dict[str, Any]], object]]] = [
    ("another content", lambda c: _part(c)["column_files"][0].update(content="1" * 32)),
    (
        "columns under each other's names",
        lambda c: c["layouts"][0]["columns"].__setitem__(slice(4, 6), [[1, 1], [1, 0]]),
    ),
    (
        "a column that the file has otherwise",
        lambda c: c["layouts"][0]["files"][1][0].__setitem__(1, "int32"),
    ),
]


@pytest.mark.parametrize("change", [w[1] for w in LIES], ids=[w[0] for w in LIES])
def test_layouts_that_are_not_those_of_the_files_give_no_wrong_value(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    path, content = layered(tmp_path / "x")
    change(content)
    (path / "manifest.json").write_bytes(sealed(content))
    try:
        with UniRecordDataset(path) as ds:
            found = [(int(row["n"]), int(row["m"]), row["w"]) for row in ds]
    except UniRecordError:
        return
    assert found == [
        (n, n, "k" if n == 4 else f"k{n}") for n, _, _ in found
    ]  # what was swapped are whole parts
    assert not unirecord.verify(path).ok


@contextmanager
def correcting(*, by_patches: bool) -> Iterator[None]:
    """Unsynced; corrections are patches where the index has room, or column parts."""
    with faults.unsynced(), pytest.MonkeyPatch.context() as patched:
        patched.setattr(update, "_PATCHED_SHARE", 0 if by_patches else 1 << 40)
        yield


class Changing(RuleBasedStateMachine):
    """A directory beside a list of rows, each a dict, and the names of its columns."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x"
        self.columns = ["n"]
        self.rows: list[dict[str, int]] = [{"n": n} for n in range(5)]
        self.next, self.named = 5, 0
        self.kept: dict[int, tuple[list[str], list[dict[str, int]]]] = {}
        with faults.unsynced(), unirecord.Writer(self.path, {"n": "int64"}) as writer:
            writer.write_batch({"n": np.arange(5)})
        self.publish()

    def publish(self) -> None:
        version = unirecord.versions(self.path)[-1].number
        self.kept[version] = (list(self.columns), [dict(row) for row in self.rows])

    @rule(factor=st.integers(-3, 3), data=st.data())
    def add(self, factor: int, data: Any) -> None:
        given = data.draw(st.sampled_from(self.columns))
        taken = [name for name in self.columns if name != "n"]
        again = data.draw(st.booleans()) and bool(taken)
        name = data.draw(st.sampled_from(taken)) if again else f"c{self.named}"
        self.named += not again

        def made(batch: dict[str, Any]) -> dict[str, Any]:
            return {name: batch[given] * factor}

        with faults.unsynced():
            unirecord.add_columns(
                self.path, {name: "int64"}, made, reads=[given], replace=again, batch_size=3
            )
        values = [row[given] * factor for row in self.rows]
        for row, value in zip(self.rows, values, strict=True):
            row[name] = value
        self.columns += [] if again else [name]
        self.publish()

    @precondition(lambda self: self.rows)
    @rule(offset=st.integers(0, 9))
    def join(self, offset: int) -> None:
        name = f"c{self.named}"
        self.named += 1
        keys = sorted({row["n"] for row in self.rows}, reverse=True)
        with faults.unsynced():
            unirecord.add_columns(self.path, None, {"n": keys, name: [key + offset for key in keys]}, key="n")
        for row in self.rows:
            row[name] = row["n"] + offset
        self.columns.append(name)
        self.publish()

    @precondition(lambda self: self.rows and len(self.columns) > 1)
    @rule(data=st.data(), value=st.integers(-9, 9), by_patches=st.booleans())
    def correct(self, data: Any, value: int, by_patches: bool) -> None:
        name = data.draw(st.sampled_from(self.columns[1:]))
        keys = data.draw(st.sets(st.sampled_from([row["n"] for row in self.rows]), min_size=1, max_size=4))
        with correcting(by_patches=by_patches):
            unirecord.update(self.path, {"n": sorted(keys), name: [key * value for key in sorted(keys)]}, "n")
        for row in self.rows:
            if row["n"] in keys:
                row[name] = row["n"] * value
        self.publish()

    @precondition(lambda self: self.rows and len(self.columns) > 1)
    @rule(data=st.data(), value=st.integers(-9, 9), by_patches=st.booleans())
    def set_values(self, data: Any, value: int, by_patches: bool) -> None:
        name, other = (data.draw(st.sampled_from(self.columns[1:])) for _ in range(2))
        with correcting(by_patches=by_patches):
            found = unirecord.set_values(self.path, f"{other} > {value}", {name: value})
        meeting = [row for row in self.rows if row[other] > value]
        for row in meeting:
            row[name] = value
        assert found.rows == len(meeting)
        if meeting:
            self.publish()

    @rule(data=st.data(), value=st.integers(-9, 9))
    def upsert(self, data: Any, value: int) -> None:
        there = [row["n"] for row in self.rows]
        keys = data.draw(st.sets(st.sampled_from(there), max_size=2)) if there else set()
        new = {**dict.fromkeys(self.columns, value), "n": self.next}
        table = [new, *({**dict.fromkeys(self.columns, value), "n": key} for key in sorted(keys))]
        if len(self.columns) == 1:
            return
        self.next += 1
        with faults.unsynced():
            assert unirecord.upsert(self.path, table, "n").appended == 1
        for row in self.rows:
            if row["n"] in keys:
                row.update(dict.fromkeys(self.columns[1:], value))
        self.rows.append(new)
        self.publish()

    @precondition(lambda self: len(self.columns) > 1)
    @rule(data=st.data())
    def drop(self, data: Any) -> None:
        name = data.draw(st.sampled_from(self.columns[1:]))
        with faults.unsynced():
            unirecord.drop_columns(self.path, name)
        self.columns.remove(name)
        for row in self.rows:
            del row[name]
        self.publish()

    @precondition(lambda self: len(self.columns) > 2)
    @rule()
    def swap_names(self) -> None:
        a, b = self.columns[1:3]
        with faults.unsynced():
            unirecord.rename_columns(self.path, {a: b, b: a})
        self.columns[1:3] = [b, a]
        for row in self.rows:
            row[a], row[b] = row[b], row[a]
        self.publish()

    @rule(count=st.integers(1, 9))
    def append(self, count: int) -> None:
        new = [dict.fromkeys(self.columns, self.next + i) for i in range(count)]
        self.next += count
        with faults.unsynced(), unirecord.append(self.path) as writer:
            for row in new:
                writer.write(row)
        self.rows += new
        self.publish()

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        least = data.draw(st.sampled_from([row["n"] for row in self.rows]))
        with faults.unsynced():
            unirecord.delete(self.path, where=f"n == {least}")
        self.rows = [row for row in self.rows if row["n"] != least]
        self.publish()

    @rule(
        options=st.sampled_from(
            [{}, {"join_columns": True, "part_bytes": 1}, {"rows_per_part": 4}, {"drop_deleted": True}]
        )
    )
    def compact(self, options: Any) -> None:
        with faults.unsynced():
            if unirecord.compact(self.path, **options).written:
                self.publish()

    @rule()
    def sort(self) -> None:
        with faults.unsynced():
            done = unirecord.sort(self.path, self.columns[-1])
        self.rows.sort(key=lambda row: row[self.columns[-1]])
        if done.written:
            self.publish()

    @rule(data=st.data())
    def restore(self, data: Any) -> None:
        newest = max(self.kept)
        version = data.draw(st.sampled_from(sorted(self.kept)))
        if version != newest:
            with faults.unsynced():
                unirecord.restore(self.path, version)
            columns, rows = self.kept[version]
            self.columns, self.rows = list(columns), [dict(row) for row in rows]
            self.publish()

    @rule(keep=st.integers(1, 3))
    def gc(self, keep: int) -> None:
        with faults.unsynced():
            for version in unirecord.gc(self.path, keep=keep).removed:
                del self.kept[version]

    @invariant()
    def what_is_read_is_what_there_is(self) -> None:
        with UniRecordDataset(self.path) as ds:
            assert list(ds.schema.names) == self.columns
            assert [{name: int(row[name]) for name in self.columns} for row in ds] == self.rows
            last, some = self.columns[-1], 3
            with ds.view(where=f"{last} > {some}") as chosen:
                assert [int(row[last]) for row in chosen] == [r[last] for r in self.rows if r[last] > some]
        version = min(self.kept)
        columns, rows = self.kept[version]
        with UniRecordDataset(self.path, version=version) as ds:
            assert [{name: int(row[name]) for name in columns} for row in ds] == rows

    def teardown(self) -> None:
        assert unirecord.verify(self.path).ok
        self.folder.cleanup()


TestChanging = Changing.TestCase
TestChanging.settings = settings(
    max_examples=int(os.environ.get("UNIRECORD_STEPS", "180")) // 15,
    stateful_step_count=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
