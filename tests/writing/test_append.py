"""Appending adds parts to a directory, all at once, and changes nothing that was there."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from writing import SIX, SIX_SCHEMA, files, read, same, write

import unirecord
from unirecord import UniRecordDataset, Writer
from unirecord.errors import CorruptionError, MissingError, SchemaError
from unirecord.writing.writer import append


def manifest(path: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((path / "manifest.json").read_text())
    return found


def test_appended_rows_follow_those_there(tmp_path: Path) -> None:
    path = tmp_path / "d"
    write(path, SIX_SCHEMA, SIX[:3], index=["label"], metadata="kept", max_part_bytes=1_000)
    before = {name: (path / name).read_bytes() for name in files(path) if name != "manifest.json"}
    old = manifest(path)
    with append(path) as writer:
        assert writer.schema is not None
        assert list(writer.schema.names) == list(SIX_SCHEMA)
        for row in SIX[3:]:
            writer.write(row)
    same(read(path), SIX)
    assert {name: (path / name).read_bytes() for name in before} == before
    new = manifest(path)
    assert (new["id"], new["generation"], new["metadata"]) == (old["id"], 2, old["metadata"])


def test_the_dataset_reads_what_was_appended(tmp_path: Path) -> None:
    path = tmp_path / "d"
    write(path, SIX_SCHEMA, SIX[:2])
    with append(path, SIX_SCHEMA, index=[]) as writer:
        writer.write(SIX[2])
    with unirecord.UniRecordDataset(path) as dataset:
        assert len(dataset) == 3
        assert list(dataset.schema.names) == list(SIX_SCHEMA)
        same(list(dataset), SIX[:3])


def test_a_relative_path_and_several_rounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("d", {"x": "int32"}, [{"x": 0}])
    for i in range(1, 5):
        with append("d") as writer:
            writer.write_batch({"x": np.array([i], np.int32)})
    same(read(tmp_path / "d"), [{"x": i} for i in range(5)])
    assert manifest(tmp_path / "d")["next_part"] == 5


def test_appending_nothing_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "d", {"x": "int32"}, [{"x": 0}])
    before = (tmp_path / "d" / "manifest.json").read_bytes()
    append(tmp_path / "d").close()
    assert (tmp_path / "d" / "manifest.json").read_bytes() == before


def test_part_numbers_are_never_used_again(tmp_path: Path) -> None:
    path = tmp_path / "d"
    seen: set[str] = set()
    for round_ in range(4):
        write(
            path,
            {"x": "bytes"},
            [{"x": bytes(9_000)}] * 3,
            overwrite=True,
            max_part_bytes=10_000,
            id=b"i" * 16,
        )
        names = {name for name in files(path) if name.endswith(".urec")}
        assert not names & seen
        seen |= names
        assert manifest(path)["next_part"] == 3 * (round_ + 1)
        assert manifest(path)["generation"] == round_ + 1


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"x": "int32"}, "lacks column 'y'"),
        ({"x": "int64", "y": "bytes"}, "'x' is int32 in the dataset and int64 here"),
        ({"x": "int32", "y": "bytes", "z": "bool"}, "no column 'z'"),
        ({"y": "bytes", "x": "int32"}, "another order"),
    ],
)
def test_another_schema_is_refused_by_name(tmp_path: Path, schema: dict[str, str], said: str) -> None:
    write(tmp_path / "d", {"x": "int32", "y": "bytes"}, [])
    with pytest.raises(SchemaError, match=said):
        append(tmp_path / "d", schema)
    append(tmp_path / "d").close()  # the refused one holds no lock


def test_other_index_columns_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "d", {"x": "int32"}, [], index=["x"])
    with pytest.raises(SchemaError, match=r"index columns are \['x'\], got \[\]"):
        append(tmp_path / "d", index=[])


def test_a_single_part_is_never_appended_to(tmp_path: Path) -> None:
    write(tmp_path / "x.urec", {"x": "int32"}, [])
    with pytest.raises(SchemaError, match="to another part or to a directory"):
        append(tmp_path / "x.urec")


def test_what_is_not_there_cannot_be_appended_to(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("none", "empty"):
        with pytest.raises(MissingError, match="use Writer"):
            append(tmp_path / name)


def test_a_damaged_manifest_stops_an_append_and_not_an_overwrite(tmp_path: Path) -> None:
    path = tmp_path / "d"
    write(path, {"x": "int32"}, [{"x": 1}])
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"generation":1', '"generation":7'))
    with pytest.raises(CorruptionError, match="edited or damaged"):
        append(path)
    assert len(files(path)) == 3
    write(path, {"x": "int32"}, [{"x": 2}], overwrite=True)
    same(read(path), [{"x": 2}])
    assert manifest(path)["next_part"] == 2
    assert len(files(path)) == 3


def test_two_appends_at_once_both_publish(tmp_path: Path) -> None:
    write(tmp_path / "d", {"x": "int32"}, [])
    first, second = append(tmp_path / "d"), append(tmp_path / "d")
    first.write({"x": 1})
    second.write({"x": 2})
    second.close()
    first.close()
    same(read(tmp_path / "d"), [{"x": 2}, {"x": 1}])


def test_an_aborted_append_leaves_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "d"
    write(path, {"x": "bytes"}, [{"x": b""}])
    before = files(path)
    writer = append(path, max_part_bytes=5_000)
    for _ in range(5):
        writer.write({"x": bytes(4_000)})
    writer.abort()
    assert files(path) == before


def test_columns_that_can_be_null_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with Writer(path, {"a": "int64"}) as writer:
        writer.write({"a": 0})
    unirecord.add_columns(
        path, {"note": "string?", "x": "float32?"}, lambda rows: {"note": ["n"], "x": [1.5]}
    )
    with unirecord.append(path) as writer:
        writer.write({"a": 1})
        writer.write({"a": 2, "x": 2.5})
        writer.write_batch({"a": [3, 4], "note": ["m", None]})
        with pytest.raises(SchemaError, match="row 4: column 'a' is missing; it has 'note'"):
            writer.write({"note": "x"})
        with pytest.raises(SchemaError, match="batch at row 4: column 'a' is missing"):
            writer.write_batch({"note": ["x"]})
        with pytest.raises(SchemaError, match="field 'note_' is not a column; did you mean 'note'"):
            writer.write({"a": 5, "note_": "x"})
        writer.write({"a": 5, "note": "y", "x": None})
    with UniRecordDataset(path) as ds:
        assert [tuple(ds[i].values()) for i in range(6)] == [
            (0, "n", 1.5), (1, None, None), (2, None, 2.5), (3, "m", None), (4, None, None), (5, "y", None),
        ]  # fmt: skip
    with (
        pytest.raises(SchemaError, match="column 'note' is missing"),
        Writer(tmp_path / "new", {"a": "int8", "note": "string?"}) as new,
    ):
        new.write({"a": 1})
