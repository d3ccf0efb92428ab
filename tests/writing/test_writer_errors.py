"""What a writer refuses, when, and in which words; and that it goes on after a refused record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import faults
import numpy as np
import pytest
from writing import SIX, SIX_SCHEMA, files, read, same, write

import unirecord
from unirecord import UniRecordDataset
from unirecord.errors import ClosedError, ExistsError, SchemaError
from unirecord.writing.writer import Writer


@pytest.mark.parametrize("target", ["x.urec", "x"])
def test_an_existing_dataset_is_refused_unless_told(tmp_path: Path, target: str) -> None:
    write(tmp_path / target, {"x": "int32"}, [{"x": 1}])
    with pytest.raises(ExistsError, match="overwrite=True"):
        Writer(tmp_path / target, {"x": "int32"})
    write(tmp_path / target, {"x": "int32"}, [{"x": 2}], overwrite=True)
    same(read(tmp_path / target), [{"x": 2}])


@pytest.mark.parametrize("missing", ["", "x.urec", "x.urec.idx", "both"])
def test_overwriting_works_with_either_file_missing(tmp_path: Path, missing: str) -> None:
    path = tmp_path / "x.urec"
    write(path, {"x": "int32"}, [{"x": 1}])
    for name in ("x.urec", "x.urec.idx"):
        if missing in (name, "both"):
            (tmp_path / name).unlink()
    if missing != "both":
        with pytest.raises(ExistsError):
            Writer(path, {"x": "int32"})
    write(path, {"x": "int32"}, [{"x": 2}], overwrite=True)
    same(read(path), [{"x": 2}])
    assert files(tmp_path) == ["x.urec", "x.urec.idx"]


def test_a_missing_folder_is_reported_at_once(tmp_path: Path) -> None:
    for target in ("no/x.urec", "no/x"):
        with pytest.raises(FileNotFoundError, match="make it first"):
            Writer(tmp_path / target, {"x": "int32"})
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        Writer(tmp_path / "file" / "x.urec", {"x": "int32"})


@pytest.mark.parametrize("target", ["x.urec", "x", "made"])
def test_a_read_only_folder_is_reported_at_once(tmp_path: Path, target: str) -> None:
    (tmp_path / "made").mkdir()

    def read_only(number: int, name: str) -> None:
        if name == "mkdir" or (name == "open" and number > (1 if target == "made" else 0)):
            raise OSError(30, "Read-only file system")

    with faults.system(read_only), pytest.raises(OSError, match="Read-only"):
        Writer(tmp_path / target, {"x": "int32"})
    assert files(tmp_path) == ["made"]


@pytest.mark.parametrize("path", ["", "x.urec/", ".", "/", "a\0b.urec", ".urec"])
def test_paths_that_name_nothing_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"path|name|slash"):
        Writer(path, {"x": "int32"})


def test_a_space_in_the_name_is_fine(tmp_path: Path) -> None:
    for name in ("a b.urec", "a b", "ends "):
        write(tmp_path / name, {"x": "int32"}, [{"x": 1}])
        same(read(tmp_path / name), [{"x": 1}])


def test_a_directory_in_the_way_of_a_file_and_the_reverse(tmp_path: Path) -> None:
    (tmp_path / "x.urec").mkdir()
    (tmp_path / "x").write_text("mine")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    for target, said in [
        ("x.urec", "directory is in the way"),
        ("x", "file is in the way"),
        ("full", "notes.txt"),
    ]:
        for overwrite in (False, True):
            with pytest.raises(ExistsError, match=said):
                Writer(tmp_path / target, {"x": "int32"}, overwrite=overwrite)
    assert (tmp_path / "full" / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"overwrite": 1}, TypeError, "overwrite"),
        ({"extra": "drop"}, ValueError, "extra"),
        ({"max_part_bytes": 0}, ValueError, "max_part_bytes"),
        ({"max_part_bytes": "many"}, ValueError, "many"),
        ({"max_part_bytes": "1GB"}, ValueError, "is to be one part"),
        ({"id": b"short"}, ValueError, "16 bytes"),
        ({"index": "x"}, TypeError, "index"),
        ({"index": ["z"]}, SchemaError, "no column 'z'"),
        ({"index": ["x", "x"]}, SchemaError, "twice"),
        ({"index": ["b"]}, SchemaError, "only scalar and string"),
        ({"metadata": {1, 2}}, SchemaError, "metadata"),
        ({"metadata": bytes(20_000_000)}, SchemaError, "at most"),
    ],
)
def test_wrong_arguments_are_refused_by_name(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        Writer(tmp_path / "x.urec", {"x": "int32", "b": "bytes"}, **options)
    assert files(tmp_path) == []


BAD: list[tuple[dict[str, Any], str]] = [
    ({"labl": 1}, "label"),
    ({"label": "3"}, "label"),
    ({"file_name": 7}, "file_name"),
    ({"data": "text"}, "data"),
    ({"boxes": [[1, 2, 3, "4"]]}, "boxes"),
    ({"boxes": np.zeros((2, 4), np.float64)}, "boxes"),
    ({"boxes": np.zeros((2, 3), np.float32)}, "boxes"),
    ({"tokens": np.zeros(4, np.int64)}, "tokens"),
    ({"label": 2**31}, "label"),
    ({"label": None}, "label"),
    ({"more": 1}, "more"),
]


@pytest.mark.parametrize(("change", "column"), BAD)
def test_one_bad_record_among_good_ones_is_named_and_takes_no_row(
    tmp_path: Path, change: dict[str, Any], column: str
) -> None:
    with Writer(tmp_path / "x.urec", SIX_SCHEMA) as writer:
        for row in SIX[:3]:
            writer.write(row)
        bad = {**SIX[3], **change}
        if "labl" in change:
            del bad["label"]
        with pytest.raises(SchemaError, match=column) as caught:
            writer.write(bad)
        assert "row 3" in str(caught.value)
        assert writer.rows == 3
        for row in SIX[3:]:
            writer.write(row)
    same(read(tmp_path / "x.urec"), SIX)


def test_a_batch_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.urec", {"x": "int8", "y": "bytes"}) as writer:
        writer.write({"x": 1, "y": b""})
        with pytest.raises(SchemaError, match=r"row 3.*'x'"):
            writer.write_batch({"x": [2, 3, 400, 5], "y": [b""] * 4})
        with pytest.raises(SchemaError, match="'y'"):
            writer.write_batch({"x": [2, 3], "y": [b""]})
        with pytest.raises(SchemaError, match="'y'"):
            writer.write_batch({"x": [2, 3]})
        writer.write_batch({"x": [2, 3], "y": [b"", b""]})
    assert [int(row["x"]) for row in read(tmp_path / "x.urec")] == [1, 2, 3]


def test_writing_after_close_is_refused(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "x.urec", {"x": "int32"})
    writer.close()
    writer.close()
    for call in (lambda: writer.write({"x": 1}), lambda: writer.write_batch({"x": [1]}), writer.__enter__):
        with pytest.raises(ClosedError, match="closed"):
            call()
    assert read(tmp_path / "x.urec") == []


def test_nothing_at_all_without_a_schema_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="pass schema="), Writer(tmp_path / "x.urec"):
        pass
    assert files(tmp_path) == []


def test_index_columns_are_checked_when_the_schema_is_inferred(tmp_path: Path) -> None:
    with (
        pytest.raises(SchemaError, match="no column 'z'"),
        Writer(tmp_path / "x.urec", index=["z"]) as writer,
    ):
        writer.write({"x": 1})
    assert files(tmp_path) == []


def test_a_schema_too_large_for_a_head_is_refused_at_once(tmp_path: Path) -> None:
    schema = {f"{'n' * 240}{i}": "int8" for i in range(60_000)}
    with pytest.raises(SchemaError, match="use fewer columns"):
        Writer(tmp_path / "x.urec", schema)
    assert files(tmp_path) == []


@pytest.mark.parametrize("name", ["a.urec", "set"])
def test_metadata_of_63_levels_is_stored_and_of_64_refused(tmp_path: Path, name: str) -> None:
    """What `open` would refuse must not be found out when the last row has been written."""
    deepest = json.loads('{"a":' * 62 + "[]" + "}" * 62)
    with Writer(tmp_path / name, {"x": "int8"}, metadata=deepest) as writer:
        writer.write({"x": 1})
    assert UniRecordDataset(tmp_path / name).metadata == deepest
    assert unirecord.verify(tmp_path / name).ok
    with pytest.raises(SchemaError, match="nested more than 64 deep"):
        Writer(tmp_path / "other", {"x": "int8"}, metadata=[deepest])
