"""Logical types: checked when given, stored in one form, kept by every change, compared where rows are joined."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from partgen import MadePart, value, write
from partgen_bytes import Col, Spec
from reference import Bad, read_part
from reference_directory import read_directory

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer
from unirecord.cli import main
from unirecord.format.logical import LOGICAL_TYPES, shown
from unirecord.format.meaning import as_stored
from unirecord.format.schema import Schema
from unirecord.inspect.repair import repair
from unirecord.inspect.verify import verify

TIMESTAMP = {"type": "timestamp", "unit": "us", "zone": "UTC"}
SCHEMA: dict[str, Any] = {
    "n": "int32",
    "timestamp": {"type": "int64?", "logical": TIMESTAMP},
    "wall": {"type": "int64", "logical": {"type": "timestamp", "unit": "ns"}},
    "frames": {"type": "int64", "shape": [-1], "logical": {"type": "timestamp", "unit": "ms", "zone": "+02:00"}},
    "date": {"type": "int32", "logical": {"type": "date"}},
    "time": {"type": "int32", "logical": {"type": "time", "unit": "ms"}},
    "fine": {"type": "int64", "logical": {"type": "time", "unit": "ns"}},
    "duration": {"type": "int64", "logical": {"type": "duration", "unit": "s"}},
    "price": {"type": "int64", "logical": {"type": "decimal", "precision": 18, "scale": 2}},
    "wide": {"type": "int64", "shape": [2], "logical": {"type": "decimal", "precision": 38, "scale": 0}},
    "class": {"type": "uint8", "logical": {"type": "class", "names": ["cat", "dög"]}, "annotations": {"unit": "1"}},
    "media": {"type": "bytes", "logical": {"type": "media", "media": "image/*"}, "codec": "zstd"},
    "boxes": {"type": "float32", "shape": [-1, 4], "logical": {"type": "boxes", "form": "xywh"}},
    "uuid": {"type": "uint8", "shape": [16], "logical": {"type": "uuid"}},
    "chat": {"type": "object", "logical": {"type": "nested", "of": 'list<struct<role: string, "a b": int8>>'}},
}  # fmt: skip
LOGICAL = {name: spec["logical"] for name, spec in SCHEMA.items() if isinstance(spec, dict)}


def row(n: int) -> dict[str, Any]:
    whole = dict.fromkeys(SCHEMA, n)
    return {
        **whole,
        "frames": np.arange(n % 3), "wide": np.array([n, -1]), "class": n % 2, "media": bytes(n),
        "boxes": np.full((n % 2, 4), n, np.float32), "uuid": np.full(16, n, np.uint8),
        "chat": [{"role": "user", "a b": n}] * (n % 3),
    }  # fmt: skip


def made(path: Path, first: int = 0, schema: Any = SCHEMA) -> Path:
    with Writer(path, schema) as writer:
        for n in range(first, first + 6):
            writer.write(row(n) if schema is SCHEMA else dict.fromkeys(schema, n))
    return path


def logical_of(path: Any) -> dict[str, Any]:
    with UniRecordDataset(path) as ds:
        return {column.name: column.logical for column in ds.schema if column.logical is not None}


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("timestamp[us]", {"type": "int64", "logical": {"type": "timestamp", "unit": "us"}}),
        ("timestamp[us, UTC]?", {"type": "int64?", "logical": TIMESTAMP}),
        ("date?", {"type": "int32?", "logical": {"type": "date"}}),
        ("time[ms]", SCHEMA["time"]),
        ("time[ns]", SCHEMA["fine"]),
        ("duration[s]", SCHEMA["duration"]),
        ("decimal[18,2]", SCHEMA["price"]),
        ("decimal[38, 0]", SCHEMA["wide"]),
        ("decimal(18, 2)", SCHEMA["price"]),
        ("timestamp(us, UTC)?", {"type": "int64?", "logical": TIMESTAMP}),
    ],
)
def test_short_texts_stand_for_them(text: str, spec: Any) -> None:
    assert Schema.parse({"x": text}) == Schema.parse({"x": spec})
    assert Schema.parse({"x": text})["x"].logical == Schema.parse({"x": spec})["x"].logical
    said = {"type": text, "annotations": {"description": "d"}}
    assert Schema.parse({"x": said})["x"].annotations == {"description": "d"}


def test_what_is_shown_of_times_and_decimals_can_be_given() -> None:
    short = [
        said
        for said in LOGICAL.values()
        if said["type"] in ("timestamp", "date", "time", "duration", "decimal")
    ]
    assert len(short) >= 5
    for said in short:
        assert Schema.parse({"x": shown(said)})["x"].logical == said
    assert shown(LOGICAL["boxes"]).startswith("boxes(form ")


def test_short_texts_of_arrays() -> None:
    assert Schema.parse({"x": {"type": "date", "shape": [-1]}})["x"].logical == {"type": "date"}
    assert Schema.parse({"x": {"type": "timestamp[us]?", "shape": [2]}})["x"].spec == {
        "type": "int64?",
        "shape": [2],
        "logical": {"type": "timestamp", "unit": "us"},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("timestamp[h]", "unit is one of s, ms, us, ns, got 'h'"),
        ("timestamp[us,UTC,x]", "'more' is none of its parameters"),
        ("timestamp[us,?]", "zone is a name such as"),
        ("decimal[39,2]", "precision is a number of digits from 1 to 38, got 39"),
        ("decimal[x,2]", "precision is a number of digits from 1 to 38, got 'x'"),
        ("decimal[5]", "its parameter 'scale' is missing"),
        ("decimal(,)", "it is a logical type over a stored one"),
        ("decimal[5, 2)", "it is a logical type over a stored one"),
        ("decimal[,]", "it is a logical type over a stored one"),
        ("time", "it is a logical type over a stored one"),
        ("decimal", "it is a logical type over a stored one"),
    ],
)
def test_short_texts_that_stand_for_none_are_refused(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'x': .*{re.escape(said)}"):
        Schema.parse({"x": text})


def test_the_table_has_each_of_them() -> None:
    assert {said["type"] for said in LOGICAL.values()} == set(LOGICAL_TYPES)


@pytest.mark.parametrize("name", ["a.urec", "set"])
def test_they_are_stored_and_come_back(tmp_path: Path, name: str) -> None:
    path = made(tmp_path / name)
    assert logical_of(path) == LOGICAL
    with UniRecordDataset(path) as ds:
        assert ds.schema.to_spec() == (SCHEMA if name == "a.urec" else Schema.parse(SCHEMA).plain().to_spec())
        assert Schema.parse(ds.schema.to_spec()).says_the_same_as(ds.schema)
        assert as_stored(ds[1]["timestamp"]) == 1
        assert "timestamp" in repr(ds.schema)
    assert verify(path).ok
    if name == "a.urec":
        assert read_part(path).rows[5]["price"] == 5
    else:
        assert len(read_directory(path)[0].rows) == 6


def test_a_name_alone_means_the_same() -> None:
    spelled = [
        {"type": "int32", "logical": "date"},
        {"type": "int32", "logical": {"type": "date"}},
    ]
    schemas = [Schema.parse({"a": spec}) for spec in spelled]
    assert all(schema.says_the_same_as(schemas[0]) for schema in schemas)
    zone = {"type": "timestamp", "unit": "s", "zone": None}  # no value: left out
    assert Schema.parse({"a": {"type": "int64", "logical": zone}})["a"].logical == {
        "type": "timestamp",
        "unit": "s",
    }


WRONG: list[tuple[Any, Any, str]] = [
    ("int64", "timestmp", "unknown logical type 'timestmp'.*timestamp"),
    ("int64", 3, "a logical type is a name"),
    ("int64", {"unit": "us"}, "a logical type is a name"),
    ("int64", {"type": "timestamp"}, "its parameter 'unit' is missing"),
    ("int64", {"type": "timestamp", "unit": "us", "tz": "UTC"}, "'tz' is none of its parameters"),
    ("int64", {"type": "timestamp", "unit": "min"}, "unit is one of"),
    ("int64", {"type": "timestamp", "unit": ["us"]}, "unit is one of"),
    ("int64", {"type": "timestamp", "unit": "us", "zone": "+25:00"}, "zone is a name"),
    ("int64", {"type": "timestamp", "unit": "us", "zone": ""}, "zone is a name"),
    ("int64", {"type": "timestamp", "unit": "us", "zone": 2}, "zone is a name"),
    ("int32", {"type": "timestamp", "unit": "us"}, "stored as int64, not int32"),
    ("float64", {"type": "duration", "unit": "s"}, "stored as int64"),
    ("int64", "date", "stored as int32"),
    ("int64", {"type": "time", "unit": "s"}, "stored as int32"),
    ("int32", {"type": "time", "unit": "ns"}, "stored as int64"),
    ("int64", {"type": "decimal", "precision": 0, "scale": 0}, "precision"),
    ("int64", {"type": "decimal", "precision": 39, "scale": 0}, "precision"),
    ("int64", {"type": "decimal", "precision": True, "scale": 0}, "precision"),
    ("int64", {"type": "decimal", "precision": 3, "scale": 4}, "scale"),
    ("int64", {"type": "decimal", "precision": 3, "scale": -1}, "scale"),
    ("int64", {"type": "decimal", "precision": 19, "scale": 0}, r"19 digits are stored as int64\[2\]"),
    ("int64[2]", {"type": "decimal", "precision": 18, "scale": 0}, "18 digits are stored as int64"),
    ("int64[3]", {"type": "decimal", "precision": 38, "scale": 0}, "38 digits"),
    ("int32", {"type": "class", "names": []}, "names is a list"),
    ("int32", {"type": "class", "names": "ab"}, "names is a list"),
    ("int32", {"type": "class", "names": ["a", 1]}, "names is a list"),
    ("int32", {"type": "class", "names": ["a", "a"]}, "'a' twice"),
    ("float32", {"type": "class", "names": ["a"]}, "stored as"),
    ("bytes", {"type": "media", "media": "jpeg"}, "media is a media type"),
    ("text", {"type": "media", "media": "image/jpeg"}, "stored as bytes"),
    ("float32[-1,4]", {"type": "boxes", "form": "yxyx"}, "form is one of"),
    ("float32[4,2]", {"type": "boxes", "form": "xyxy"}, "last dimension is 4"),
    ("float32", {"type": "boxes", "form": "xyxy"}, "last dimension is 4"),
    ("bool[4]", {"type": "boxes", "form": "xyxy"}, "arrays of numbers"),
    ("bytes", "uuid", r"stored as uint8\[16\]"),
]  # fmt: skip


@pytest.mark.parametrize(("stored", "given", "what"), WRONG)
def test_what_is_none_is_refused_when_it_is_given(stored: str, given: Any, what: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'a'.*{what}"):
        Schema.parse({"a": {"type": stored, "logical": given}})


@pytest.mark.parametrize("key", ["logical", "chunks"])
def test_it_stands_beside_the_type_and_not_among_the_annotations(key: str) -> None:
    said = {"logical": {"type": "media", "media": "image/*"}, "chunks": 10}
    with pytest.raises(SchemaError, match=f"column 'a'.*{key}.*beside the type"):
        Schema.parse({"a": {"type": "bytes", "annotations": {key: said[key]}}})
    column = Schema.parse({"a": {"type": "bytes", **said, "annotations": {"unit": "1"}}})["a"]
    assert (column.logical, column.chunks, column.annotations) == (said["logical"], (10,), {"unit": "1"})


def forged(path: Path, base: str, shape: list[int] | None, said: Any) -> MadePart:
    """A part whose files have this logical type, whatever it is."""
    import random

    columns = [Col("n", "int32"), Col("a", base, shape, annotations={"logical": said})]
    spec = Spec(b"m" * 16, columns, [], None, align=8)
    spec.groups = [2]
    if not spec.blobs or spec.row_bytes:
        spec.group_rows = 2
    part, r = MadePart(path, spec, []), random.Random(1)
    for _ in range(2):
        pairs = [value(r, column, 3) for column in columns]
        part.raw.append([stored for _, stored in pairs])
        part.rows.append({column.name: v for column, (v, _) in zip(columns, pairs, strict=True)})
    return write(part)


@pytest.mark.parametrize(
    ("stored", "given"),
    [(stored, given) for stored, given, what in WRONG if "unknown" not in what and "none of its" not in what],
)
def test_a_hostile_one_changes_no_value_and_is_reported(tmp_path: Path, stored: str, given: Any) -> None:
    column = Schema.parse({"a": stored})["a"]
    said = {"type": given} if isinstance(given, str) else given
    part = forged(tmp_path / "a.urec", column.type, list(column.shape) if column.shape else None, said)
    with UniRecordDataset(part.path) as ds:
        for found, row in zip(ds, part.rows, strict=True):
            assert np.asarray(found["a"]).tobytes() == np.asarray(row["a"]).tobytes()
        assert (ds.schema["a"].classes, ds.schema["a"].media_type) == (None, None)
    (problem,) = verify(part.path).problems
    assert "logical type is none" in problem.what
    assert problem.column == "a"
    assert main(["inspect", str(part.path)]) == 0
    with pytest.raises(Bad):
        read_part(part.path)


@pytest.mark.parametrize(
    "said",
    [{"type": "vector", "metric": "l2"}, {"type": "date", "calendar": "julian"}],
    ids=["name", "parameter"],
)
def test_one_of_a_later_version_is_kept_and_shown(
    tmp_path: Path, said: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    part = forged(tmp_path / "a.urec", "int32", None, said)
    other = forged(tmp_path / "b.urec", "int32", None, said)
    other.spec.id = b"o" * 16
    write(other)
    read_part(part.path)
    assert verify(part.path).ok
    assert logical_of(part.path) == {"a": said}
    unirecord.merge([part.path, other.path], tmp_path / "set")
    unirecord.compact(tmp_path / "set")
    assert logical_of(tmp_path / "set") == {"a": said}
    assert main(["inspect", str(tmp_path / "set")]) == 0
    assert said["type"] in capsys.readouterr().out


# What is done to a dataset keeps them.


def grown(path: Path) -> Path:
    made(path)
    with unirecord.append(path) as writer:
        for n in range(6, 12):
            writer.write(row(n))
    return path


def repaired(path: Path) -> None:
    for index in path.glob("*.idx"):
        index.unlink()
    (path / "manifest.json").unlink()
    repair(path)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "append": lambda path: None,
    "append by a table": lambda path: main(["write", "--append", str(made(path.parent / "more", 20)), str(path)]),
    "compact": unirecord.compact,
    "reshard": lambda path: unirecord.reshard(path, 3),
    "sort": lambda path: unirecord.sort(path, "n"),
    "delete and purge": lambda path: unirecord.purge(path, where="n < 3"),
    "delete and compact": lambda path: (unirecord.delete(path, where="n < 3"), unirecord.compact(path)),
    "add columns": lambda path: unirecord.add_columns(path, {"m": "int32"}, lambda b: {"m": b["n"]}, reads=["n"]),
    "rename and drop": lambda path: (unirecord.add_columns(path, {"m": "int8"}, lambda b: {"m": b["n"]}, reads=["n"]),
                                     unirecord.drop_columns(path, ["m"])),
    "repair of indexes and manifest": repaired,
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_keeps_them(tmp_path: Path, change: str) -> None:
    path = grown(tmp_path / "set")
    CHANGES[change](path)
    assert logical_of(path) == LOGICAL
    parts = [part for part in path.glob("part-*.urec") if "n" in UniRecordDataset(part).schema]
    assert parts
    assert all(logical_of(part) == LOGICAL for part in parts)


COPIES: dict[str, Callable[[Path, Path], Any]] = {
    "write": lambda path, to: main(["write", str(path), str(to)]),
    "merge": lambda path, to: unirecord.merge([path, made(path.parent / "other", 30)], to),
    "split": lambda path, to: main(["split", str(path), str(to), "all=0.9,rest=0.1"]),
    "parquet and back": lambda path, to: (main(["export", str(path), f"{to}.parquet"]),
                                          main(["write", f"{to}.parquet", str(to)])),
}  # fmt: skip


@pytest.mark.parametrize("copy", COPIES)
def test_every_copy_has_them(tmp_path: Path, copy: str) -> None:
    to = tmp_path / "copy"
    COPIES[copy](grown(tmp_path / "set"), to)
    assert logical_of(to / "all" if copy == "split" else to) == LOGICAL


def test_every_view_has_them(tmp_path: Path) -> None:
    with UniRecordDataset(grown(tmp_path / "set")) as ds:
        for view in (
            ds.view(columns=["n", "date"]),
            ds.view(where="n > 2"),
            ds.select(range(3)),
            ds.split([0.5, 0.5])[0],
        ):
            assert view.schema["date"].logical == {"type": "date"}


def test_inspect_and_the_manifest_say_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = grown(tmp_path / "set")
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert "timestamp: logical type timestamp[us, UTC]" in out
    assert "class: logical type class(names cat, dög)" in out
    assert main(["inspect", "--json", str(path)]) == 0
    columns = json.loads(capsys.readouterr().out)["columns"]
    assert (columns[1]["logical"], columns[1]["annotations"]) == (TIMESTAMP, {})
    schema = json.loads((path / "manifest.json").read_text())["schema"]
    assert schema[1][3]["logical"] == TIMESTAMP


# Where rows are joined, they are compared.


MILLISECONDS = {"t": {"type": "int64", "logical": {"type": "timestamp", "unit": "ms", "zone": "UTC"}}}
MICROSECONDS = {"t": {"type": "int64", "logical": TIMESTAMP}}
PLAIN = {"t": "int64"}
JOINS: dict[str, Callable[[Path, Path], Any]] = {
    "opened together": lambda one, other: UniRecordDataset([one, other]),
    "mix": lambda one, other: unirecord.mix({"one": UniRecordDataset(one), "other": UniRecordDataset(other)}),
    "merge": lambda one, other: unirecord.merge([one, other], one.parent / "merged"),
}


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("other", [MILLISECONDS, PLAIN], ids=["another", "none"])
def test_a_difference_is_an_error_that_names_both(tmp_path: Path, join: str, other: dict[str, Any]) -> None:
    one, two = made(tmp_path / "one", schema=MICROSECONDS), made(tmp_path / "two", schema=other)
    for pair in ((one, two), (two, one)):
        with pytest.raises(SchemaError) as error:
            JOINS[join](*pair)
        assert "'t'" in str(error.value)
        assert "us" in str(error.value)
        assert ("ms" if other is MILLISECONDS else "none" if join != "merge" else "{}") in str(error.value)


@pytest.mark.parametrize("join", ["opened together", "mix"])
@pytest.mark.parametrize("other", ["image/png", None])
def test_media_types_may_differ_since_a_file_says_what_it_is(
    tmp_path: Path, join: str, other: str | None
) -> None:
    paths = []
    for media in ("image/jpeg", other):
        schema = {"t": {"type": "bytes", "logical": media and {"type": "media", "media": media}}}
        paths.append(tmp_path / f"{media}".replace("/", "-"))
        with Writer(paths[-1], schema) as writer:
            writer.write({"t": b"x"})
    assert len(JOINS[join](*paths)) == 2


LABELS = {"t": {"type": "int64", "logical": {"type": "class", "names": ["cat", "dog"]}}}


def test_a_table_of_another_type_keeps_what_still_fits_it(tmp_path: Path) -> None:
    """Of what a source says of a column, a type that is asked for keeps its logical type where that is one of it."""
    path = made(tmp_path / "set", schema=LABELS)
    for asked, kept in (
        ("int8", LABELS["t"]["logical"]),
        ("float32", None),
        ({"type": "int8", "logical": None}, None),
    ):
        unirecord.write_dataset(path, tmp_path / "again", schema={"t": asked}, overwrite=True)
        assert UniRecordDataset(tmp_path / "again").schema["t"].logical == kept


def test_append_refuses_another_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = made(tmp_path / "set", schema=MICROSECONDS)
    with pytest.raises(SchemaError, match=r"us.*ms"), unirecord.append(path, MILLISECONDS) as writer:
        writer.write({"t": 1})
    more = made(tmp_path / "more", schema=MILLISECONDS)
    assert main(["write", "--append", str(more), str(path)]) == 2
    assert "timestamp[us, UTC] in the dataset, and timestamp[ms" in capsys.readouterr().err
    assert len(UniRecordDataset(path)) == 6
    with unirecord.append(path, PLAIN) as writer:  # says nothing of it
        writer.write({"t": 1})
    assert logical_of(path) == {"t": TIMESTAMP}


def test_replaced_values_keep_it_where_it_fits_and_say_so_where_not(tmp_path: Path) -> None:
    path = made(tmp_path / "set", schema={"n": "int32", **MICROSECONDS})
    unirecord.add_columns(path, PLAIN, lambda b: {"t": b["t"] + 1}, reads=["t"], replace=True)
    assert logical_of(path) == {"t": TIMESTAMP}
    with pytest.warns(UserWarning, match=r"timestamp\[ms.*had timestamp\[us"):
        unirecord.add_columns(path, MILLISECONDS, lambda b: {"t": b["t"] // 1000}, reads=["t"], replace=True)
    assert logical_of(path) == {"t": MILLISECONDS["t"]["logical"]}
    with pytest.warns(UserWarning, match="logical"):
        unirecord.add_columns(path, {"t": "int32"}, lambda b: {"t": b["n"]}, reads=["n"], replace=True)
    assert logical_of(path) == {}
