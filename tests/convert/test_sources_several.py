"""CSV and JSON Lines over several files: one dataset in natural order, by types that fit all, packed or not."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
import zstandard
from sources import rows_at

from unirecord.convert.sources import open_source
from unirecord.errors import SchemaError


def test_csv_files_are_read_in_natural_order_by_types_that_fit_all(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "part10.csv").write_bytes(b"a,b\n7,z\n")
    (tmp_path / "x" / "part2.csv.gz").write_bytes(gzip.compress(b"a,b\n1,\n2,y\n"))
    (tmp_path / "x" / "part3.csv.zst").write_bytes(zstandard.compress(b"a;b\n2.5;y\n"))
    (tmp_path / "x" / "part4.csv").write_bytes(b"a,b\n")
    for source in (str(tmp_path / "x"), f"{tmp_path}/x/*"):
        found = open_source(source)
        assert (found.kind, found.rows) == ("csv", 4)
        assert found.schema.to_spec() == {"a": "float64", "b": "string?"}
        assert rows_at(source) == [
            {"a": 1, "b": None}, {"a": 2, "b": "y"}, {"a": 2.5, "b": "y"}, {"a": 7, "b": "z"},
        ]  # fmt: skip


def test_json_lines_files_may_have_differing_keys(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"a": 1}\n{"a": 2, "b": [1]}\n')
    (tmp_path / "2.ndjson").write_text('{"b": [2, 3], "a": 3}')
    (tmp_path / "3.jsonl").write_text("")
    source = open_source(str(tmp_path))
    assert (source.kind, source.rows) == ("jsonl", 3)
    assert source.schema.to_spec()["a"] == "int64"
    assert [row["a"] for row in rows_at(tmp_path)] == [1, 2, 3]
    assert rows_at(tmp_path)[2]["b"] == [2, 3]


def test_what_does_not_fit_is_named_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    (tmp_path / "2.csv").write_text("a,c\n1,2\n")
    with pytest.raises(SchemaError, match=r"2.csv has the columns a, c, but .*1.csv has a, b"):
        open_source(str(tmp_path))
    (tmp_path / "2.csv").write_text("a,b\n1,2\n1\n")
    with pytest.raises(SchemaError, match=r"2.csv, line 3: 1 value"):
        open_source(f"{tmp_path}/?.csv")
    (tmp_path / "1.jsonl").write_text('{"a": 1}\n')
    (tmp_path / "2.jsonl").write_text('{"a": 2}\n{')
    with pytest.raises(SchemaError, match=r"2.jsonl, line 2: not valid JSON"):
        open_source(f"{tmp_path}/*.jsonl")


def test_parts_of_a_split_and_folders_of_other_files_are_not_mixed(tmp_path: Path) -> None:
    for name in ("train-1.csv", "test-1.csv"):
        (tmp_path / name).write_text("a\n1\n")
    with pytest.raises(SchemaError, match=r"unirecord write '.*/train\*' train"):
        open_source(str(tmp_path))
    (tmp_path / "test-1.csv").rename(tmp_path / "notes.bin")
    with pytest.raises(SchemaError, match="holds no pictures"):
        open_source(str(tmp_path))
    assert open_source(str(tmp_path), "csv").rows == 1
