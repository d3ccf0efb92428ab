"""Values that are corrected: rows named by a key or a condition get new ones, all else stays, new rows are appended."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from objectstore import Server
from reference_directory import read_directory
from written_store import URL, served

import unirecord
from unirecord import QueryError, SchemaError, UniRecordDataset, UniRecordError, Writer
from unirecord.__main__ import main
from unirecord.convert import update
from unirecord.snapshot.versions import files_of, read_newest
from unirecord.writing.directory_change import DirectoryChange

server = pytest.fixture(served)
SCHEMA = {
    "path": "string",
    "n": "int64",
    "label": {"type": "int16", "logical": {"type": "class", "names": ["cat", "dog", "owl"]}},
    "score": "float32?",
    "note": "string?",
    "text": "text?",
    "blob": "bytes",
    "box": {"type": "float32", "shape": [4]},
    "tags": "object",
    "mask": {"type": "uint8", "shape": [-1, 2]},
}


def row(n: int, salt: int = 0) -> dict[str, Any]:
    k = n + 31 * salt
    return {
        "path": f"img_{n}.jpg",
        "n": n,
        "label": k % 3,
        "score": None if k % 4 == 0 else k / 8,
        "note": None if k % 5 == 0 else "ä" * (k % 7),
        "text": None if k % 6 == 0 else f"text {k}",
        "blob": bytes([k % 251]) * (k % 9),
        "box": np.full(4, k, np.float32),
        "tags": {"k": k},
        "mask": np.full((k % 3, 2), k % 200, np.uint8),
    }


def write(path: str, *numbers: int, append: bool = False, **options: Any) -> None:
    with unirecord.append(path) if append else Writer(path, SCHEMA, index=["n", "path"], **options) as writer:
        for n in numbers:
            writer.write(row(n))


@pytest.fixture
def made(tmp_path: Path) -> str:
    """Three parts of ten rows."""
    path = str(tmp_path / "d")
    write(path, *range(10))
    write(path, *range(10, 20), append=True)
    write(path, *range(20, 30), append=True)
    return path


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value


def rows_of(path: str, **options: Any) -> list[dict[str, Any]]:
    with UniRecordDataset(path, shuffle=False, **options) as ds:
        return [{name: plain(value) for name, value in one.items()} for one in ds]


def model(numbers: Any) -> dict[int, dict[str, Any]]:
    return {n: {name: plain(value) for name, value in row(n).items()} for n in numbers}


def parts_of(path: str) -> dict[str, bytes]:
    return {name: Path(path, name).read_bytes() for name in os.listdir(path) if name.startswith("part-")}


def told_by_reference(path: str) -> list[tuple[int, str | None, bytes]]:
    """Some columns of all rows as the second reader has them."""
    places = [list(SCHEMA).index(name) for name in ("n", "note", "blob")]
    found = [[row[place] for place in places] for part in read_directory(path) for row in part.raw]
    return [
        (int.from_bytes(n, "little"), None if note is None else note.decode(), blob)
        for n, note, blob in found
    ]


# ---- the law: what is named gets its value, and all else stays


@pytest.mark.parametrize("seed", range(12))
def test_any_rows_and_columns_get_the_values_of_the_table_and_all_else_stays(made: str, seed: int) -> None:
    rng, expected, before = random.Random(seed), model(range(30)), parts_of(made)
    for turn in range(3):
        numbers = rng.sample(range(30), rng.randint(1, 12))
        columns = rng.sample([name for name in SCHEMA if name not in ("n", "path")], rng.randint(1, 4))
        new = {n: row(n, salt=1 + turn) for n in numbers}
        key = rng.choice(["n", "path"])
        table = [{key: row(n)[key], **{name: new[n][name] for name in columns}} for n in numbers]
        nulls = rng.random() < 0.5
        found = unirecord.update(made, table, key, nulls=nulls)
        for n in numbers:
            for name in columns:
                if new[n][name] is not None or nulls:
                    expected[n][name] = plain(new[n][name])
        assert found.version == 4 + turn
        assert rows_of(made) == list(expected.values())
        assert told_by_reference(made) == [(one["n"], one["note"], one["blob"]) for one in expected.values()]
    assert unirecord.verify(made).ok
    for n in rng.sample(range(30), 5):  # conditions, sorted rows and zones know the new values
        with UniRecordDataset(made, where=f"label == {expected[n]['label']}", shuffle=False) as ds:
            assert [int(one["n"]) for one in ds] == [
                m for m, one in expected.items() if one["label"] == expected[n]["label"]
            ]
    assert {name: content for name, content in parts_of(made).items() if name in before} == before
    unirecord.compact(made)
    assert rows_of(made) == list(expected.values())
    assert unirecord.verify(made).ok


def test_parts_that_have_no_such_row_stay_without_column_parts(made: str) -> None:
    found = unirecord.update(made, {"n": [10, 19], "label": [2, 2], "note": ["x", "y"]}, "n")
    assert (found.rows, found.parts, found.columns) == (2, 1, ("label", "note"))
    assert [part.columns is None for part in read_newest(made).parts] == [True, False, True]


def test_values_that_are_corrected_again_leave_one_column_part(made: str) -> None:
    for label in (1, 2, 0):
        unirecord.update(made, {"n": [12], "label": [label]}, "n")
    assert [row["label"] for row in rows_of(made)][12] == 0
    assert len(files_of(read_newest(made))) == 4
    unirecord.update(made, {"n": [13], "note": ["x"]}, "n")
    assert len(files_of(read_newest(made))) == 5


def test_an_indexed_column_is_looked_up_by_its_new_values(made: str) -> None:
    unirecord.update(made, {"n": [3], "path": ["new.jpg"]}, "n")
    with UniRecordDataset(made, where="path == 'new.jpg'", shuffle=False) as ds:
        assert [int(one["n"]) for one in ds] == [3]
        assert int(ds.get("path", "new.jpg")["n"]) == 3
    with UniRecordDataset(made, where="path == 'img_3.jpg'") as ds:
        assert len(ds) == 0


def test_compressed_columns_stay_compressed(tmp_path: Path) -> None:
    path = str(tmp_path / "d")
    with Writer(path, {"n": "int64", "text": {"type": "text", "codec": "zstd"}}) as writer:
        for n in range(2_000):
            writer.write({"n": n, "text": f"the same words again and again {n}" * 20})
    found = unirecord.update(path, {"n": [5], "text": ["short"]}, "n")
    assert found.bytes < 2_000 * 600 / 4
    assert rows_of(path)[5]["text"] == "short"


def test_a_state_made_before_goes_on_with_the_new_values(made: str) -> None:
    with UniRecordDataset(made, seed=1) as ds:
        order = ds.order.row_ids().tolist()
        batches = iter(ds.batches(5))
        next(batches)
        state = ds.state_dict()
    unirecord.set_values(made, "n >= 0", {"label": 2})
    with UniRecordDataset(made, seed=1) as ds:
        ds.load_state_dict(state)
        rest = list(ds.batches(5))
    assert [int(n) for batch in rest for n in batch["n"]] == order[5:]
    assert {int(label) for batch in rest for label in batch["label"]} == {2}


def test_deleted_rows_are_not_there_to_be_corrected(made: str) -> None:
    unirecord.delete(made, where="n == 12")
    with pytest.raises(SchemaError, match=r"1 key is in no row of the dataset: 12; nothing was changed"):
        unirecord.update(made, {"n": [12], "label": [2]}, "n")
    found = unirecord.set_values(made, "n in (12, 13)", {"label": 0, "text": "new"})
    assert found.rows == 1
    assert [one["n"] for one in rows_of(made) if one["text"] == "new"] == [13]
    assert unirecord.verify(made).ok


# ---- empty cells


def test_an_empty_cell_leaves_the_value_unless_nulls_are_asked_for(made: str, tmp_path: Path) -> None:
    table = tmp_path / "fixes.csv"
    table.write_text("path,score,note\nimg_1.jpg,,\nimg_2.jpg,9.5,\n")
    before = model(range(30))
    assert unirecord.update(made, table, "path").rows == 1
    after = rows_of(made)
    assert (after[1], after[2]) == (before[1], {**before[2], "score": 9.5})
    assert unirecord.update(made, table, "path", nulls=True).rows == 2
    after = rows_of(made)
    assert [(one["score"], one["note"]) for one in after[1:3]] == [(None, None), (9.5, None)]


def test_nulls_for_a_column_that_cannot_be_null_are_refused(made: str, tmp_path: Path) -> None:
    table = tmp_path / "fixes.csv"
    table.write_text("n,label\n1,2\n2,\n")
    with pytest.raises(
        SchemaError, match=r"row 1 has no value of column 'label' .* cannot be null; without nulls"
    ):
        unirecord.update(made, table, "n", nulls=True)
    assert unirecord.update(made, table, "n").rows == 1


# ---- keys


def test_keys_that_are_in_no_row_are_named(made: str) -> None:
    table = {"n": [1, *range(100, 107)], "label": [2] * 8}
    with pytest.raises(SchemaError, match=r"7 keys are in no row of the dataset: 100, 101, 102, 103, 104, …"):
        unirecord.update(made, table, "n")
    assert read_newest(made).generation == 3
    found = unirecord.update(made, table, "n", missing="ignore")
    assert (found.rows, found.missing, found.version) == (1, 7, 4)
    with pytest.raises(ValueError, match='expected "error" or "ignore"'):
        unirecord.update(made, table, "n", missing="append")  # type: ignore[arg-type]


def test_a_key_of_several_rows_or_of_several_rows_of_the_table_is_refused(made: str) -> None:
    with pytest.raises(
        SchemaError, match=r"3 keys are in several rows of the dataset: 0 in rows 0, 3, 1 in rows"
    ):
        unirecord.update(made, {"label": [0, 1, 2], "note": ["x"] * 3}, "label")
    with pytest.raises(SchemaError, match="rows 0 and 1 have the same key 3"):
        unirecord.update(made, {"n": [3, 3], "note": ["x", "y"]}, "n")
    assert read_newest(made).generation == 3
    unirecord.set_values(made, "n == 24", {"path": "img_3.jpg"})
    with pytest.raises(
        SchemaError, match=r"1 key is in several rows of the dataset: 'img_3.jpg' in rows 3, 24;"
    ):
        unirecord.update(made, {"path": ["img_3.jpg"], "note": ["x"]}, "path")


def test_several_columns_may_be_the_key(made: str) -> None:
    table = {"label": [0, 1], "n": [3, 4], "note": ["three", "four"]}
    assert unirecord.update(made, table, ["label", "n"]).rows == 2
    assert [one["note"] for one in rows_of(made)[3:5]] == ["three", "four"]
    with pytest.raises(SchemaError, match=r"2 keys are in no row"):
        unirecord.update(made, {"label": [1, 0], "n": [3, 4], "note": ["a", "b"]}, ["label", "n"])


@pytest.mark.parametrize("kind", ["int64", "uint8", "string", "bytes"])
def test_keys_may_be_arrays_of_numpy(tmp_path: Path, kind: str) -> None:
    path, keys = (
        str(tmp_path / "d"),
        np.array([1, 2, 3]).astype({"string": "str", "bytes": "S"}.get(kind, kind)),
    )
    with Writer(path, {"key": kind, "k": "int8?"}) as writer:
        for key in keys.tolist():
            writer.write({"key": key, "k": 0})
    unirecord.update(path, {"key": keys, "k": np.array([5, 6, 7])}, "key")
    unirecord.upsert(path, {"key": keys[::-1], "k": [8, None, 9]}, "key")
    with UniRecordDataset(path) as ds:
        assert ds.scalars(["k"])["k"].tolist() == [9, 6, 8]


def test_a_key_may_be_any_text(tmp_path: Path) -> None:
    path = str(tmp_path / "d")
    keys = [
        "",
        "'",
        '"',
        "`",
        "\\",
        "C:\\dir\\",
        "\\x41",
        "\\'",
        "a\0b",
        "\n",
        "\u2028",
        "\u202e",
        "%",
        "null",
        "é",
        "A",
    ]
    with Writer(path, {"s": "string", "k": "int8"}) as writer:
        writer.write_batch({"s": keys, "k": [0] * len(keys)})
    for n, key in enumerate(keys):
        assert unirecord.update(path, {"s": [key], "k": [n]}, "s").rows == 1
    done = unirecord.upsert(path, {"s": keys[::-1], "k": list(range(len(keys)))[::-1]}, "s")
    assert (done.rows, done.appended) == (len(keys), 0)
    with UniRecordDataset(path) as ds:
        assert ds.scalars(["k"])["k"].tolist() == list(range(len(keys)))
    with pytest.raises(SchemaError):
        unirecord.update(path, {"s": ["\ud800"], "k": [1]}, "s")


def test_a_column_that_is_named_twice_is_taken_once(tmp_path: Path) -> None:
    path, count = str(tmp_path / "d"), 20_000
    with Writer(path, {"n": "int64", "k": "int64"}) as writer:
        writer.write_batch({"n": np.arange(count), "k": np.zeros(count, np.int64)})
    table = [{"n": n, "k": 2 * n} for n in range(count)]
    assert unirecord.update(path, table, ["n", "n"], columns=["k", "k"]).rows == count
    with UniRecordDataset(path) as ds:
        assert (ds.scalars(["k"])["k"] == 2 * np.arange(count)).all()


@pytest.mark.parametrize("index", [[], ["n", "s"]])
def test_many_keys_are_found_like_few(tmp_path: Path, index: list[str]) -> None:
    path, count = str(tmp_path / "d"), 3_000
    with Writer(path, {"n": "int64", "s": "string", "b": "bytes", "k": "int8"}, index=index) as writer:
        for n in range(count):
            writer.write({"n": n, "s": f"it's {n}", "b": str(n).encode(), "k": 0})
    for turn, (key, keys) in enumerate(
        [
            ("n", list(range(count))),
            ("s", [f"it's {n}" for n in range(0, count, 2)]),
            ("s", ["it's 5", "it's 7"]),
            ("b", [b"5", b"7"]),
        ],
        1,
    ):
        assert unirecord.update(path, {key: keys, "k": [turn] * len(keys)}, key).rows == len(keys)
    unirecord.delete(path, where="s == 'it''s 7'")
    with pytest.raises(SchemaError, match=r"1 key is in no row of the dataset: \"it's 7\""):
        unirecord.update(path, {"s": ["it's 7"], "k": [9]}, "s")
    with UniRecordDataset(path, shuffle=False) as ds:
        assert ds.scalars(["k"])["k"][:9].tolist() == [2, 1, 2, 1, 2, 4, 2, 2, 1]


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ({"n": [1], "colour": ["red"]}, "n", "the dataset has no column 'colour'; it has path, n"),
        ({"n": [1]}, "n", "no column beside the key"),
        ({"n": [1], "label": [2]}, "path", "no column 'path'"),
        ({"n": [1], "label": [70_000]}, "n", "label"),
        ({"n": [None], "label": [1]}, "n", "column 'n' has the value None, which cannot be a key"),
        ({"score": [0.5], "label": [1]}, "score", "cannot be a key"),
    ],
)
def test_what_does_not_fit_is_refused(made: str, table: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        unirecord.update(made, table, key)
    assert read_newest(made).generation == 3


# ---- conditions


def test_rows_that_meet_a_condition_get_the_values(made: str) -> None:
    found = unirecord.set_values(
        made, "label == 0 and n > 12", {"label": "owl", "score": None, "tags": {"a": 1}}
    )
    expected = model(range(30))
    for n in range(15, 30, 3):
        expected[n].update(label=2, score=None, tags={"a": 1})
    assert rows_of(made) == list(expected.values())
    assert (found.rows, found.parts) == (5, 2)
    found = unirecord.set_values(made, "n > 99", {"label": 1})
    assert (found.rows, found.version) == (0, 4)


def test_rows_are_set_by_their_numbers(made: str, capsys: pytest.CaptureFixture[str]) -> None:
    unirecord.delete(made, rows=[3])
    found = unirecord.set_values(made, rows=np.array([25, 4, 25]), values={"note": "x"})
    assert (found.rows, found.version) == (2, 5)
    assert unirecord.set_values(made, values={"note": "x"}, rows=5).rows == 1
    assert [one["n"] for one in rows_of(made) if one["note"] == "x"] == [4, 5, 25]
    for rows, said in (([3], "row 3 has been deleted already"), ([30], "30"), ([-31], "-31")):
        with pytest.raises(IndexError, match=said):
            unirecord.set_values(made, rows=rows, values={"note": "y"})
    assert read_newest(made).generation == 6
    for call in ({}, {"where": "n == 1", "rows": [1]}):
        with pytest.raises(ValueError, match="give either where, a condition, or rows"):
            unirecord.set_values(made, values={"note": "y"}, **call)
    assert main(["set", made, "--rows", "6,8-9", "note=z"]) == 0
    assert "3 rows got new values in note" in capsys.readouterr().out
    assert [one["n"] for one in rows_of(made) if one["note"] == "z"] == [6, 8, 9]
    assert main(["set", made, "--rows", "3", "note=z"]) == 2
    assert "row 3 has been deleted already" in capsys.readouterr().err


def test_rows_that_have_other_numbers_meanwhile_are_not_set(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    once, publish = iter([True]), update._Correction.publish

    def after_another(self: Any, *arguments: Any) -> Any:
        if next(once, False):
            unirecord.sort(made, "n", descending=True)
        return publish(self, *arguments)

    monkeypatch.setattr(update._Correction, "publish", after_another)
    with pytest.raises(unirecord.StaleError, match="other numbers meanwhile, by version 4"):
        unirecord.set_values(made, rows=[1], values={"note": "x"})
    assert not [one for one in rows_of(made) if one["note"] == "x"]


def test_what_cannot_be_set_is_refused(made: str) -> None:
    with pytest.raises(SchemaError, match="label"):
        unirecord.set_values(made, "n == 1", {"label": None})
    with pytest.raises(SchemaError, match="'colour'"):
        unirecord.set_values(made, "n == 1", {"colour": 1})
    with pytest.raises(QueryError, match="colour"):
        unirecord.set_values(made, "colour == 1", {"label": 1})
    with pytest.raises(ValueError, match="names no column"):
        unirecord.set_values(made, "n == 1", {})
    part = str(Path(made, read_newest(made).parts[0].name))
    with pytest.raises(UniRecordError, match="only of those can values be changed"):
        unirecord.set_values(part, "n == 1", {"label": 1})


def test_times_and_decimals_are_set_as_conditions_name_them(tmp_path: Path) -> None:
    path = str(tmp_path / "d")
    schema = {
        "n": "int64",
        "ts": {"type": "int64?", "logical": {"type": "timestamp", "unit": "ms", "zone": "UTC"}},
        "price": {"type": "int64", "logical": {"type": "decimal", "precision": 9, "scale": 2}},
    }
    with Writer(path, schema) as writer:
        for n in range(4):
            writer.write({"n": n, "ts": n, "price": n})
    unirecord.set_values(path, "n == 1", {"ts": "2026-05-05 12:00", "price": "7.5"})
    assert (
        main(["set", path, "--where", "ts == '2026-05-05 12:00' or n == 2", "ts=2026-05-06", "price=0.25"])
        == 0
    )
    moment = np.datetime64("2026-05-06", "ms")
    assert [(np.datetime64(one["ts"], "ms"), one["price"]) for one in rows_of(path)] == [
        (np.datetime64(0, "ms"), 0),
        (moment, 25),
        (moment, 25),
        (np.datetime64(3, "ms"), 3),
    ]
    for wrong in ({"price": "0.255"}, {"ts": "yesterday"}, {"price": "1 or true"}):
        with pytest.raises(SchemaError):
            unirecord.set_values(path, "n == 1", wrong)


# ---- new rows


def test_upsert_changes_what_is_there_and_appends_what_is_new_in_one_version(made: str) -> None:
    table = [row(5, salt=1), row(40), row(41)]
    found = unirecord.upsert(made, table, "n")
    assert (found.rows, found.appended, found.version, found.parts) == (1, 2, 4, 1)
    expected = model(range(30)) | model([40, 41])
    expected[5].update({k: plain(v) for k, v in row(5, salt=1).items() if v is not None})
    assert rows_of(made) == list(expected.values())
    assert unirecord.verify(made).ok
    assert unirecord.upsert(made, table, "n").appended == 0


def test_a_new_row_needs_a_value_where_there_can_be_no_null(made: str) -> None:
    with pytest.raises(SchemaError, match=r"row 1 is new, and has no value of column 'path'"):
        unirecord.upsert(made, {"n": [5, 40], "label": [1, 1]}, "n")
    whole = {name: [value] for name, value in row(41).items() if name not in ("score", "note", "text")}
    assert unirecord.upsert(made, whole, "n").appended == 1
    assert [rows_of(made)[-1][name] for name in ("score", "note", "text")] == [None, None, None]


def test_a_key_that_is_appended_meanwhile_is_appended_once(
    made: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, waiting = DirectoryChange.publish, [40]

    def publish(self: Any, after: Any) -> None:
        if waiting:
            write(made, waiting.pop(), append=True)
        whole(self, after)

    monkeypatch.setattr(DirectoryChange, "publish", publish)
    found = unirecord.upsert(made, [{**row(40), "note": "both"}], "n")
    assert (found.rows, found.appended, found.version) == (1, 0, 5)
    assert [one["note"] for one in rows_of(made) if one["n"] == 40] == ["both"]


def test_a_correction_killed_at_any_call_is_done_or_not(tmp_path: Path) -> None:
    whole, at, alive, outcomes = str(tmp_path / "0"), 0, True, set()
    write(whole, *range(3))
    write(whole, *range(3, 6), append=True)
    while alive:
        at += 1
        path = shutil.copytree(whole, str(tmp_path / "at"))
        alive = faults.killed(lambda path=path: unirecord.upsert(path, TWO, "n"), at, torn=at % 2 == 0)  # type: ignore[misc]
        there = read_newest(path).generation
        outcomes.add(there)
        assert [one["n"] for one in rows_of(path)] == [*range(6), *([9] if there == 3 else [])], at
        assert rows_of(path)[4]["tags"] == {"k": 35 if there == 3 else 4}, at
        with faults.unsynced():
            assert unirecord.upsert(path, TWO, "n").rows == (1 if there == 2 else 2)
            unirecord.gc(path, keep=1)
        assert len(rows_of(path)) == 7, at
        assert unirecord.verify(path).ok, at
        named = files_of(read_newest(path))
        assert {
            name.removesuffix(".idx") for name in os.listdir(path) if name.startswith("part-")
        } == named, at
        assert [name for name in os.listdir(path) if name.endswith((".tmp", ".new"))] == [], at
        shutil.rmtree(path)
    assert outcomes == {2, 3}


TWO = [row(4, salt=1), row(9)]


def test_what_was_corrected_and_purged_is_in_no_file(made: str) -> None:
    old, new = b"the old secret of nobody else", b"the new secret of nobody else"
    unirecord.set_values(made, "n == 12", {"blob": old})
    unirecord.set_values(made, "n == 12", {"blob": new})
    unirecord.purge(made, where="n == 12")
    assert [name for name, content in parts_of(made).items() if old in content or new in content] == []
    assert len(rows_of(made)) == 29


def test_a_reader_takes_the_new_values_in_when_it_refreshes(made: str) -> None:
    with UniRecordDataset(made, shuffle=False) as ds:
        unirecord.set_values(made, "n == 3", {"note": "new"})
        assert plain(ds[3]["note"]) == row(3)["note"]
        assert ds.refresh()
        assert ds[3]["note"] == "new"


# ---- trying it, and where it is


def test_a_dry_run_changes_nothing(made: str) -> None:
    there = sorted(os.listdir(made))
    calls: list[Callable[[], unirecord.Updated]] = [
        lambda: unirecord.update(made, {"n": [1], "label": [2]}, "n", dry_run=True),
        lambda: unirecord.upsert(made, [row(2), row(50)], "n", dry_run=True),
        lambda: unirecord.set_values(made, "n < 15", {"label": 2}, dry_run=True),
    ]
    assert [(one.rows, one.appended, one.parts, one.version) for one in (call() for call in calls)] == [
        (1, 0, 1, 4), (1, 1, 1, 4), (15, 0, 2, 4),
    ]  # fmt: skip
    assert sorted(os.listdir(made)) == there


def test_in_an_object_store_it_is_as_on_a_disk(server: Server) -> None:
    write(URL, *range(10))
    write(URL, *range(10, 20), append=True)
    assert unirecord.update(URL, {"n": [3], "note": ["new"]}, "n").version == 3
    assert unirecord.upsert(URL, [row(4, salt=1), row(30)], "path").version == 4
    assert unirecord.set_values(URL, "n == 12", {"label": 1}).version == 5
    found = rows_of(URL)
    assert (found[3]["note"], found[4]["tags"], found[20]["n"], found[12]["label"]) == (
        "new",
        {"k": 35},
        30,
        1,
    )
    assert unirecord.verify(URL).ok


def test_progress_goes_to_the_end(made: str) -> None:
    seen: list[tuple[int, int]] = []
    unirecord.set_values(
        made, "n in (1, 25)", {"label": 1}, progress=lambda done, total: seen.append((done, total))
    )
    assert seen[-1] == (20, 20)


# ---- the command line


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str]:
    code = main(list(args))
    out = capsys.readouterr()
    return code, out.out + out.err


def test_the_command_line(made: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "fixes.csv"
    table.write_text("path,label\nimg_1.jpg,2\nimg_99.jpg,1\n")
    code, text = run(capsys, "update", made, "--from", str(table), "--key", "path")
    assert code == 1
    assert "1 key is in no row of the dataset: 'img_99.jpg'" in text
    code, text = run(
        capsys, "update", made, "--from", str(table), "--key", "path", "--missing", "ignore", "--dry-run"
    )
    assert code == 0
    assert re.fullmatch(
        re.escape(made) + r": 1 row would get new values in label \(about [0-9.]+ K?B written\)\n"
        "1 row of the table left out: their keys are in no row of the dataset\n",
        text,
    )
    code, text = run(capsys, "update", made, "--from", str(table), "--key", "path", "--missing", "ignore")
    assert code == 0
    assert "1 row got new values in label (version 4, " in text
    code, text = run(capsys, "set", made, "--where", "n == 3", "label=dog", 'tags={"a": 1}', "score=null")
    assert code == 0
    assert "1 row got new values in label, score, tags (version 5, " in text
    found = rows_of(made)
    assert (found[1]["label"], found[3]["label"], found[3]["score"], found[3]["tags"]) == (
        2,
        1,
        None,
        {"a": 1},
    )
    code, text = run(capsys, "set", made, "--where", "n == 300", "label=1")
    assert (code, text) == (0, f"{made}: no row gets another value; nothing was published\n")
    table.write_text('path,label,n,blob,box,tags,mask\nnew.jpg,1,77,b,"[1,2,3,4]",{},"[[1,2]]"\n')
    code, text = run(capsys, "upsert", made, "--from", str(table), "--key", "path", "--json")
    assert code == 0
    assert json.loads(text)["appended"] == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["label=x"], "column 'label': 'x' is no int16"),
        (["label="], "column 'label': '' is no int16"),
        (["label=1", "label=2"], "gets two values"),
        ([], "COLUMN=VALUE"),
        (["label"], "says no value"),
        (["colour=1"], "'colour'"),
        (["label=null"], "'null' is no int16"),
    ],
)
def test_wrong_calls_of_set(
    made: str, args: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code, text = run(capsys, "set", made, "--where", "n == 3", *args)
    except SystemExit as end:
        code, text = int(str(end.code)), capsys.readouterr().err
    assert code == 2
    assert message in text
    assert read_newest(made).generation == 3
