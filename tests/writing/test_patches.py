"""Values that are corrected by patches: small, in the manifest, and whatever reads the dataset has them."""

from __future__ import annotations

import base64
import json
import operator
import os
import random
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reseal
from objectstore import Server
from reference_directory import read_directory
from written_store import URL, served

import unirecord
from unirecord import UniRecordDataset, UniRecordError, Writer
from unirecord.convert import update
from unirecord.core import NativeSet
from unirecord.core.parts import PartRefs
from unirecord.errors import CorruptionError, FormatError
from unirecord.format.patch import PatchTable, decode_patch, encode_patch, merged
from unirecord.inspect.describe import describe
from unirecord.snapshot import part_list
from unirecord.snapshot.part_set import resolve
from unirecord.snapshot.versions import read_newest

server = pytest.fixture(served)
NUMBERS = {
    "b": "bool", "i8": "int8?", "u8": "uint8", "i16": "int16", "u16": "uint16?", "i32": "int32", "u32": "uint32",
    "i64": "int64?", "u64": "uint64", "f16": "float16", "f32": "float32?", "f64": "float64",
}  # fmt: skip
SCHEMA = {"n": "int64", **NUMBERS, "word": "string?", "key": "string", "blob": "bytes"}
WORDS = ["", "a", "cat", "dog", "ä" * 40, None]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few rows a part has, a correction is a patch where the index has room."""
    monkeypatch.setattr(update, "_PATCHED_SHARE", 0)


def value(rng: random.Random, name: str) -> Any:
    """One of a few, from one end of the type to the other or near each other, as the column goes."""
    if name == "word":
        return rng.choice(WORDS)
    if name == "key":
        return f"key {rng.randrange(10**6)}"
    if name == "blob":
        return rng.randbytes(rng.randrange(9))
    if SCHEMA[name].endswith("?") and rng.random() < 0.2:
        return None
    dtype = np.dtype(SCHEMA[name].rstrip("?"))
    if dtype.kind == "b":
        return rng.random() < 0.5
    if dtype.kind == "f":
        return float(
            dtype.type(rng.choice([0.0, -0.0, 1.5, -2.25, float("inf"), float("nan"), rng.random()]))
        )
    info = np.iinfo(dtype)
    return rng.choice([info.min, info.max]) if name in ("u8", "i64", "u64") else rng.randrange(100)


def rows_made(rng: random.Random, first: int, count: int) -> list[dict[str, Any]]:
    return [
        {"n": n, **{name: value(rng, name) for name in list(SCHEMA)[1:]}} for n in range(first, first + count)
    ]


def plain(one: Any) -> Any:
    found = one.item() if isinstance(one, np.generic) else one
    return repr(found) if isinstance(found, float) else found


def written(
    path: Path, rows: list[dict[str, Any]], index: tuple[str, ...] = ("n",), per_part: int = 17
) -> str:
    for first in range(0, len(rows), per_part):
        with unirecord.append(path) if first else Writer(path, SCHEMA, index=list(index)) as writer:
            for row in rows[first : first + per_part]:
                writer.write(row)
    return str(path)


def patches_of(path: str | Path) -> list[bytes]:
    return [
        b"" if part.columns is None else part.columns.patch for part in read_newest(os.fspath(path)).parts
    ]


def read(path: str | Path, **options: Any) -> list[dict[str, Any]]:
    with UniRecordDataset(path, shuffle=False, **options) as ds:
        return [{name: plain(one) for name, one in row.items()} for row in ds]


def batched(path: str) -> list[dict[str, Any]]:
    """The rows as batches have them, without blobs."""
    with UniRecordDataset(path, shuffle=False) as ds:
        names, found = [name for name in ds.column_names if name != "blob"], []
        for batch in ds.batches(13):
            columns = [list(batch[name]) for name in names]
            found += [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [{name: None if one is np.ma.masked else plain(one) for name, one in row.items()} for row in found]


def by_reference(path: str, name: str, names: list[str]) -> list[bytes | None]:
    place = names.index(name)
    gone = [set(part.deleted or ()) for part in read_directory(path)]
    parts = zip(read_directory(path), gone, strict=True)
    return [row[place] for part, out in parts for number, row in enumerate(part.raw) if number not in out]


def bytes_of(name: str, one: Any) -> bytes | None:
    if one is None or isinstance(one, bytes):
        return one
    return one.encode() if isinstance(one, str) else np.array(one, SCHEMA[name].rstrip("?")).tobytes()


def literal(one: Any) -> str:
    return f"'{one}'" if isinstance(one, str) else str(one).lower() if isinstance(one, bool) else repr(one)


COMPARED = {"==": operator.eq, "!=": operator.ne, ">": operator.gt, "<=": operator.le}


def as_ordered(one: Any) -> Any:
    return one.encode() if isinstance(one, str) else one


def check(path: str, expected: list[dict[str, Any]], rng: random.Random) -> None:
    names = list(expected[0])
    shown = [{name: plain(one) for name, one in row.items()} for row in expected]
    assert read(path) == shown
    for name in names:
        assert by_reference(path, name, names) == [bytes_of(name, row[name]) for row in expected], name
    for name in rng.sample([name for name in names if name not in ("n", "blob")], 4):
        wanted = rng.choice(expected)[name]
        if wanted is None:
            meets = [row["n"] for row in expected if row[name] is None]
            condition = f"{name} is null"
        elif wanted != wanted or wanted in (float("inf"), float("-inf")):
            continue
        else:
            sign = rng.choice(["==", "!="] if isinstance(wanted, bool) else list(COMPARED))
            condition, compared = f"{name} {sign} {literal(wanted)}", COMPARED[sign]
            there = [row for row in expected if row[name] is not None]
            meets = [row["n"] for row in there if compared(as_ordered(row[name]), as_ordered(wanted))]
        assert [row["n"] for row in read(path, where=condition, columns=["n"])] == meets, condition
    assert batched(path) == [{name: one for name, one in row.items() if name != "blob"} for row in shown]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.usefixtures("always")
def test_any_changes_leave_what_a_model_of_them_has(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    expected = rows_made(rng, 0, rng.choice([20, 60]))
    path = written(tmp_path / "d", expected)
    versions: dict[int, list[dict[str, Any]]] = {}
    patched = 0
    for _ in range(9):
        change = rng.choice(
            ["set", "set", "set", "update", "delete", "append", "compact", "columns", "restore"]
        )
        names = [name for name in expected[0] if name not in ("n", "blob")]
        if change == "set":
            chosen = sorted(rng.sample([row["n"] for row in expected], rng.randint(1, 4)))
            name = rng.choice(names)
            new = rng.choice([rng.choice(expected)[name], value(rng, name)])
            unirecord.set_values(path, f"n in ({', '.join(map(str, chosen))})", {name: new})
            expected = [{**row, name: new} if row["n"] in chosen else row for row in expected]
        elif change == "update":
            chosen = sorted(rng.sample([row["n"] for row in expected], rng.randint(1, 6)))
            some = rng.sample(names, 3)
            table = {n: {name: rng.choice(expected)[name] for name in some} for n in chosen}
            unirecord.update(
                path, [{"n": n, **row} for n, row in table.items()], "n", nulls=True, columns=some
            )
            expected = [{**row, **table.get(row["n"], {})} for row in expected]
        elif change == "delete" and len(expected) > 8:
            out = rng.sample([row["n"] for row in expected], 2)
            unirecord.delete(path, where=f"n in ({', '.join(map(str, out))})")
            expected = [row for row in expected if row["n"] not in out]
        elif change == "append":
            more = [
                {name: row[name] for name in expected[0]}
                for row in rows_made(rng, max(row["n"] for row in expected) + 1, 5)
            ]
            with unirecord.append(path) as writer:
                for row in more:
                    writer.write(row)
            expected = expected + more
        elif change == "compact":
            unirecord.compact(path, join_columns=rng.random() < 0.5, rows_per_part=rng.choice([None, 25]))
        elif change == "columns" and len(names) > 8:
            gone = rng.choice(names)
            unirecord.drop_columns(path, [gone])
            expected = [{name: one for name, one in row.items() if name != gone} for row in expected]
        elif change == "restore" and len(versions) > 1:
            version = rng.choice([number for number in versions if number < read_newest(path).generation])
            expected = versions[version]
            unirecord.restore(path, version)
        patched += any(patches_of(path))
        newest = read_newest(path).generation
        check(path, expected, rng)
        versions = {number: rows for number, rows in versions.items() if number != newest}
        versions[newest] = expected
        assert unirecord.verify(path).ok
    assert patched
    for version, rows in rng.sample(
        sorted(versions.items(), key=lambda each: each[0]), min(3, len(versions))
    ):
        names = list(rows[0])
        assert [row["n"] for row in read(f"{path}@{version}")] == [row["n"] for row in rows]
        assert read(f"{path}@{version}") == [{name: plain(row[name]) for name in names} for row in rows]
    unirecord.compact(path, join_columns=True)
    assert not any(patches_of(path))
    check(path, expected, rng)


# ---- what becomes a patch


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows by the zone, of columns of each form that an index has."""
    path, n = tmp_path_factory.mktemp("large") / "d", 70_000
    rng = np.random.default_rng(1)
    columns = {
        "n": np.arange(n), "label": rng.integers(0, 10, n), "many": rng.integers(-(2**60), 2**60, n),
        "step": np.arange(n) // 1_000, "score": rng.random(n), "price": rng.choice([1.5, 2.25, -0.0], n),
        "kind": np.array(["cat", "dog", "owl"], object)[rng.integers(0, 3, n)],
        "text": np.array([f"text {i}" for i in range(n)], object),
    }  # fmt: skip
    kinds = {"score": "float64", "price": "float32", "kind": "string", "text": "string"}
    schema = {name: kinds.get(name, "int64") for name in columns} | {"label": "int64?"}
    with Writer(path, schema, index=["n", "step"]) as writer:
        writer.write_batch(columns)
    return path


@pytest.fixture
def dataset(large: Path, tmp_path: Path) -> str:
    return str(unirecord_copy(large, tmp_path / "d"))


def unirecord_copy(source: Path, target: Path) -> Path:
    target.mkdir()
    for name in os.listdir(source):
        (target / name).write_bytes((source / name).read_bytes())
    return target


@pytest.mark.parametrize(
    ("values", "patch"),
    [
        ({"label": 7}, True),  # packed
        ({"label": None}, True),
        ({"label": 15}, True),  # in as many bits
        ({"label": 16}, False),  # not in as many
        ({"label": -1}, False),
        ({"many": 5}, True),
        ({"score": 77.5}, True),
        ({"price": 2.25}, True),
        ({"price": 3.0}, False),  # no entry of the dictionary
        ({"price": 0.0}, False),  # another one than -0.0
        ({"kind": "owl"}, True),
        ({"kind": "cow"}, False),
        ({"text": "text 1"}, False),  # strings without a dictionary
        ({"step": 1}, False),  # a column that is indexed
        ({"label": 7, "kind": "cow"}, False),
    ],
)
def test_a_few_values_are_a_patch_where_the_index_has_room(
    dataset: str, values: dict[str, Any], patch: bool
) -> None:
    files = sorted(os.listdir(dataset))
    where = "n in (3, 9000, 69999)"
    planned = unirecord.set_values(dataset, where, values, dry_run=True)
    found = unirecord.set_values(dataset, where, values)
    assert (found.rows, found.parts) == (3, 0 if patch else 1) == (planned.rows, planned.parts)
    if patch:
        assert found.bytes == planned.bytes < 200
        assert sorted({*os.listdir(dataset)} - {*files}) == ["manifest-000001"]
    assert bool(patches_of(dataset)[0]) == patch
    rows = read(dataset, where=where)
    assert [{name: row[name] for name in values} for row in rows] == [
        {name: plain(value) for name, value in values.items()}
    ] * 3
    assert unirecord.verify(dataset).ok


def test_zones_that_had_no_such_value_have_it(dataset: str) -> None:
    unirecord.set_values(dataset, "n == 20000", {"score": 5.0, "many": 2**59 + 1, "label": None})
    unirecord.set_values(dataset, "n == 20001", {"score": float("nan")})
    for condition in (
        "score == 5.0",
        "score > 2",
        "score between 4 and 6",
        "label is null",
        "many == 576460752303423489",
    ):
        assert [row["n"] for row in read(dataset, where=condition, columns=["n"])] == [20_000]
    with UniRecordDataset(dataset, where="not score >= 0") as ds:
        assert len(ds) == 1
    with UniRecordDataset(dataset, where="score < 2") as ds:
        assert len(ds) == 69_998


def test_a_correction_again_stands_in_the_patch_once(dataset: str) -> None:
    sizes = set()
    for label in (1, 2, 3):
        unirecord.set_values(dataset, "n in (5, 6)", {"label": label})
        sizes.add(len(patches_of(dataset)[0]))
    assert sizes == {16 + 2 * 17}
    unirecord.set_values(dataset, "n == 7", {"label": 3})
    assert [row["label"] for row in read(dataset, where="n in (5, 6, 7)")] == [3, 3, 3]


def test_many_rows_or_a_patch_that_has_grown_large_become_a_column_part(
    dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    unirecord.set_values(dataset, "n == 5", {"label": 1, "kind": "owl"})
    assert unirecord.set_values(dataset, "n < 1000", {"label": 2}).parts == 1
    assert set(decode_patch(patches_of(dataset)[0])) == {
        (0, 6)
    }  # the kind stays, the label is in the column part
    assert [(row["label"], row["kind"]) for row in read(dataset, where="n == 5")] == [(2, "owl")]
    assert unirecord.set_values(dataset, "n == 6", {"label": 3}).parts == 0  # a patch of the column part
    assert set(decode_patch(patches_of(dataset)[0])) == {(0, 6), (1, 0)}
    assert [row["label"] for row in read(dataset, where="n == 6")] == [3]
    monkeypatch.setattr(update, "_PATCH_BYTES", 100)
    assert unirecord.set_values(dataset, "n in (7, 8, 9)", {"label": 3}).parts == 1
    assert [row["label"] for row in read(dataset, where="n in (5, 6, 7)")] == [2, 3, 3]
    monkeypatch.setattr(update, "_PATCHES_BYTES", 50)
    assert unirecord.set_values(dataset, "n == 7", {"kind": "owl"}).parts == 1
    assert not patches_of(dataset)[0]
    assert [row["kind"] for row in read(dataset, where="n in (5, 7)")] == ["owl", "owl"]
    assert unirecord.verify(dataset).ok


# ---- who else reads it


def test_descriptions_counts_and_differences_have_the_new_values(dataset: str) -> None:
    unirecord.set_values(dataset, "n == 5", {"score": 99.5, "label": None})
    columns = {column.name: column for column in describe(dataset).columns}
    assert (columns["score"].max, columns["label"].nulls, columns["label"].distinct) == (99.5, 1, 10)
    assert resolve(dataset).identity != resolve(f"{dataset}@1").identity
    found = unirecord.diff(f"{dataset}@1", dataset)
    assert (found.changed, dict(found.changed_columns)) == (1, {"score": 1, "label": 1})
    unirecord.merge([dataset], f"{dataset}-merged")
    assert read(f"{dataset}-merged", where="score > 2", columns=["n", "label"]) == [{"n": 5, "label": None}]
    assert unirecord.verify(f"{dataset}-merged").ok


@pytest.mark.parametrize("io", ["auto", "mmap", "pread", "memory"])
@pytest.mark.parametrize("verify", ["first", "always", "never"])
def test_every_way_of_reading_has_them(dataset: str, io: Any, verify: Any) -> None:
    unirecord.set_values(dataset, "n in (5, 6)", {"score": 99.5, "kind": "owl"})
    with UniRecordDataset(dataset, io=io, verify=verify, shuffle=True, seed=3) as ds:
        found = {
            int(n): float(s)
            for batch in ds.batches(1000)
            for n, s in zip(batch["n"], batch["score"], strict=True)
        }
        assert (found[5], found[6], len(found)) == (99.5, 99.5, 70_000)
    with UniRecordDataset(dataset, io=io, verify=verify, shuffle=False) as ds:
        assert ds[5]["kind"] == ds[6]["kind"] == "owl"


def test_an_order_and_a_state_stay(dataset: str) -> None:
    with UniRecordDataset(dataset, seed=1, columns=["n", "label"]) as ds:
        order = ds.order.row_ids().tolist()
        batches = iter(ds.batches(100))
        next(batches)
        state = ds.state_dict()
    unirecord.set_values(dataset, f"n == {order[150]}", {"label": None})
    with UniRecordDataset(dataset, seed=1, columns=["n", "label"]) as ds:
        ds.load_state_dict(state)
        batch = next(iter(ds.batches(100)))
    assert batch["n"].tolist() == order[100:200]
    assert np.flatnonzero(np.ma.getmaskarray(batch["label"])).tolist() == [50]


def test_a_reader_that_is_open_keeps_what_it_had(dataset: str) -> None:
    unirecord.set_values(dataset, "n == 5", {"label": 1})
    with UniRecordDataset(dataset, columns=["n", "label"]) as ds:
        before = ds[5]["label"]
        unirecord.set_values(dataset, "n == 5", {"label": None})
        assert ds[5]["label"] == before
        ds.refresh()
        assert ds[5]["label"] is None


@pytest.mark.usefixtures("always")
def test_in_an_object_store_it_is_as_on_a_disk(server: Server) -> None:
    rows = rows_made(random.Random(1), 0, 60)
    with Writer(URL, SCHEMA, index=["n"]) as writer:
        for row in rows:
            writer.write({**row, "i32": row["n"] % 50, "word": "cat" if row["n"] % 2 else "dog"})
    found = unirecord.set_values(URL, "n in (5, 40)", {"i32": 7, "word": "cat"})
    assert (found.rows, found.parts) == (2, 0)
    assert [(row["i32"], row["word"]) for row in read(URL, where="n in (5, 40, 41)")] == [
        (7, "cat"),
        (7, "cat"),
        (41, "cat"),
    ]
    assert [row["n"] for row in read(URL, where="i32 == 7", columns=["n"])] == [5, 7, 40, 57]


@pytest.mark.usefixtures("always")
def test_parts_in_pieces_keep_their_patches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_list, "MOST_IN_PIECE", 4)
    monkeypatch.setattr(part_list, "MOST_IN_TEXT", 1)
    rows = rows_made(random.Random(1), 0, 60)
    path = written(tmp_path / "d", rows, per_part=6)
    assert unirecord.set_values(path, "n in (1, 30, 59)", {"b": True}).parts == 0
    listed = json.loads((tmp_path / "d" / "manifest.json").read_text())
    assert len(listed["pieces"]) >= 2
    assert [bool(patch) for patch in patches_of(path)] == [i in (0, 5, 9) for i in range(10)]
    check(path, [{**row, "b": True} if row["n"] in (1, 30, 59) else row for row in rows], random.Random(2))


def test_two_corrections_at_once_are_both_there(dataset: str, monkeypatch: pytest.MonkeyPatch) -> None:
    once = iter([True])
    publish = update._Correction.publish

    def after_another(self: Any, *arguments: Any) -> Any:
        if next(once, False):
            unirecord.set_values(dataset, "n == 6", {"label": 2})
        return publish(self, *arguments)

    monkeypatch.setattr(update._Correction, "publish", after_another)
    unirecord.set_values(dataset, "n in (5, 7)", {"label": 1})
    assert [row["label"] for row in read(dataset, where="n in (5, 6, 7)")] == [1, 2, 1]


def test_a_compaction_during_a_correction_folds_it_in(dataset: str) -> None:
    corrected = False

    def correct(done: int, total: int) -> None:
        nonlocal corrected
        if not corrected:
            corrected = True
            unirecord.set_values(dataset, "n == 6", {"label": 2})

    unirecord.compact(dataset, rows_per_part=20_000, progress=correct)
    assert corrected
    assert not any(patches_of(dataset))
    assert [row["label"] for row in read(dataset, where="n == 6")] == [2]


def test_a_lost_manifest_is_not_made_anew_without_its_patches(dataset: str) -> None:
    unirecord.set_values(dataset, "n == 5", {"label": None})
    (Path(dataset) / "manifest.json").unlink()
    with pytest.raises(UniRecordError, match=r"corrected values.*copy.*manifest-000001"):
        unirecord.repair(dataset)
    os.rename(f"{dataset}/manifest-000001", f"{dataset}/manifest.json")
    assert unirecord.verify(dataset).ok


def test_a_lost_index_is_rebuilt_under_a_patch(dataset: str) -> None:
    unirecord.set_values(dataset, "n == 5", {"label": None, "score": 99.5, "kind": "owl"})
    (index,) = Path(dataset).glob("*.idx")
    index.unlink()
    assert unirecord.repair(dataset).parts[0].kept == 70_000
    (row,) = read(dataset, where="score > 2")
    assert (row["n"], row["label"], row["kind"]) == (5, None, "owl")


# ---- hostile patches


def with_patch(path: Path, patch: bytes | str | None, **said: Any) -> None:
    content = json.loads((path / "manifest.json").read_text())
    entry = content["parts"][0]
    if patch is None:
        del entry["patch"]
    else:
        entry["patch"] = patch if isinstance(patch, str) else base64.b64encode(patch).decode()
    (path / "manifest.json").write_bytes(reseal.sealed({**content, **said}))


def tables(**changed: Any) -> bytes:
    """A table of two labels, with some of it changed."""
    given = {
        "place": (0, 1),
        "count": None,
        "width": 8,
        "rows": [5, 9],
        "valid": [1, 1],
        "cells": [1, 2],
        **changed,
    }
    head = struct.pack(
        "<4I",
        *given["place"],
        len(given["rows"]) if given["count"] is None else given["count"],
        given["width"],
    )
    cells = b"".join(struct.pack("<q", cell) for cell in given["cells"])
    return head + np.array(given["rows"], "<u8").tobytes() + bytes(given["valid"]) + cells


WRONG: dict[str, tuple[bytes | str | None, str]] = {
    "no base64": ("*", "not base64"),
    "empty": ("", "1 to 65,536"),
    "too long": (tables() * 2_000, "1 to 65,536"),
    "cut off": (tables()[:-1], "cut off"),
    "half a head": (tables() + b"\0\0\0", "cut off|unpack"),
    "no rows": (tables(rows=[], valid=[], cells=[]), "without rows"),
    "more rows than bytes": (tables(count=2**32 - 1), "cut off"),
    "twice": (tables() + tables(), "not in order"),
    "not in order": (tables(place=(0, 3)) + tables(), "not in order"),
    "unsorted": (tables(rows=[9, 5]), "do not ascend"),
    "one row twice": (tables(rows=[5, 5]), "do not ascend"),
    "a row of no part": (tables(rows=[5, 70_000]), "row 70000 of a part of 70,000 rows"),
    "a row beyond all": (tables(rows=[5, 2**64 - 1]), "row 18446744073709551615"),
    "a flag": (tables(valid=[1, 2]), "neither 0 nor 1"),
    "a null with a value": (tables(valid=[1, 0]), "null with a value"),
    "a null that cannot be": (tables(place=(0, 2), valid=[1, 0], cells=[1, 0]), "cannot be null"),
    "a column of no file": (tables(place=(0, 8)), "no column's place"),
    "a file that is not there": (tables(place=(1, 0)), "no column's place"),
    "another width": (tables(place=(0, 5)), "of 8 bytes for column 'price'"),
    "not required": (None, "do not agree"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_patch_that_is_none_is_an_error_that_names_the_manifest(dataset: str, what: str) -> None:
    unirecord.set_values(dataset, "n == 5", {"label": 1})
    with_patch(Path(dataset), WRONG[what][0])
    with pytest.raises(FormatError, match=rf"manifest\.json: .*({WRONG[what][1]})"):
        UniRecordDataset(dataset)
    report = unirecord.verify(dataset)
    assert not report.ok


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        (tables(cells=[1, 16]), "no room"),
        (tables(cells=[1, -1]), "no room"),
        (tables(place=(0, 0)), "cannot have one"),
        (tables(place=(0, 3)), "cannot have one"),
    ],
    ids=["too large", "negative", "indexed", "indexed too"],
)
def test_a_patch_that_the_index_has_no_room_for_is_an_error(dataset: str, patch: bytes, said: str) -> None:
    unirecord.set_values(dataset, "n == 5", {"label": 1})
    with_patch(Path(dataset), patch)
    with pytest.raises(CorruptionError, match=f"patch.*{said}.*restore"), UniRecordDataset(dataset) as ds:
        ds[0]
    assert not unirecord.verify(dataset).ok


def hostile(rng: random.Random, content: bytes) -> bytes:
    found = bytearray(content)
    for _ in range(rng.choice([1, 1, 3])):
        at, width = rng.randrange(len(found)), rng.choice([1, 1, 4, 8])
        value = rng.choice([0, 1, 2, 5, 7, 9, 255, 69_999, 70_000, 2**31, 2**32 - 1, 2**63, 2**64 - 1])
        found[at : at + width] = struct.pack("<Q", value)[: len(found[at : at + width])]
    return bytes(found[: rng.randrange(len(found) + 1)] if rng.random() < 0.2 else found)


def opened(dataset: str, patch: bytes, file: int) -> Iterator[str]:
    """What the C core makes of a patch that nobody has looked at before it."""
    ref = resolve(dataset).parts[0]
    refs = PartRefs.of([(ref.path, ref.id, ref.rows, ref.content)])._replace(patches={0: (file, patch)})
    parts = NativeSet(refs, "mmap", "first")
    try:
        parts.part(0)
        yield ""
    except CorruptionError as error:
        yield str(error)
    finally:
        parts.close()


def test_the_core_by_itself_takes_no_patch_that_is_none(dataset: str) -> None:
    rng, good = random.Random(4), tables() + tables(place=(0, 2)) + tables(place=(0, 4))
    (fine,) = opened(dataset, good, 0)
    assert fine == ""
    taken = 0
    for _ in range(3_000):
        (said,) = opened(dataset, hostile(rng, good), rng.choice([0, 0, 0, 1]))
        taken += said == ""
        assert said == "" or "patch" in said, said
    assert 100 < taken < 2_500
    for what, (patch, _) in WRONG.items():
        if isinstance(patch, bytes) and what not in (
            "too long",
            "a file that is not there",
            "a null with a value",
        ):
            (said,) = opened(dataset, patch, 0)
            assert said, what


def test_patches_are_read_as_they_are_written() -> None:
    rng = random.Random(3)
    for _ in range(300):
        patch = {}
        for place in {(rng.randrange(3), rng.randrange(9)) for _ in range(rng.randrange(4))}:
            width = rng.choice([0, 1, 2, 4, 8])
            cells = {
                rng.randrange(10**9): None if rng.random() < 0.2 else rng.randbytes(width or rng.randrange(9))
                for _ in range(rng.randint(1, 5))
            }
            patch[place] = PatchTable(width, cells)
        found = decode_patch(encode_patch(patch))
        assert {place: (t.width, dict(t.cells)) for place, t in found.items()} == {
            place: (t.width, dict(t.cells)) for place, t in patch.items()
        }
        assert merged(found, found) == found
