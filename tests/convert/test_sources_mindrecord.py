"""MindRecord files, made by MindSpore 2.10: every value, sets of files, and files that are damaged."""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources import DATA, refusals, rows_at, rows_of

from unirecord import UniRecordDataset
from unirecord.cli import main
from unirecord.convert.sources import open_source
from unirecord.convert.sources.mindrecord import DecodeError, blob_cells, decoder
from unirecord.errors import SchemaError
from unirecord.format.schema import Schema

FOLDER = DATA / "mindrecord"
DIGITS = json.loads((FOLDER / "digits.expected.json").read_text())["digits"]
EDGES = [0, 1, -1, 127, -128, 128, -129, 255, 256, 32767, -32768, 32768, 2147483647, -2147483648]


def known(row: dict[str, Any]) -> list[Any]:
    return [row["file_name"], row["label"], row["score"], hashlib.sha256(row["data"]).hexdigest()]


def test_every_value_of_one_file_is_read() -> None:
    source = open_source(str(FOLDER / "digits.mindrecord"))
    assert source.kind == "mindrecord"
    assert source.rows == 300
    assert source.schema.to_spec() == {
        "data": "bytes",
        "file_name": "string",
        "label": "int32",
        "score": "float64",
    }
    assert [known(row) for row in rows_of(source)] == DIGITS
    assert list(source.indexed) == ["file_name", "label"]


def test_one_file_of_a_set_stands_for_all(tmp_path: Path) -> None:
    for i in range(4):
        found = [known(row) for row in rows_at(FOLDER / f"digits4.mindrecord{i}")]
        assert sorted(found) == DIGITS
    assert found == [known(row) for row in rows_at(FOLDER / "digits4.mindrecord?")]
    only = rows_at(FOLDER / "digits4.mindrecord[02]")
    assert 0 < len(only) < 300
    for i in range(3):
        shutil.copy(FOLDER / f"digits4.mindrecord{i}", tmp_path)
    with pytest.raises(SchemaError, match=r"digits4.mindrecord3 is missing, which belongs to the set"):
        open_source(str(tmp_path / "digits4.mindrecord0"))
    assert len(rows_at(tmp_path)) == len(rows_at(tmp_path / "*.mindrecord*")) < 300  # a folder: what is there


def test_neither_an_index_nor_the_name_is_needed(tmp_path: Path) -> None:
    shutil.copy(FOLDER / "digits4.mindrecord1", tmp_path / "renamed")
    shutil.copy(
        FOLDER / "digits.mindrecord", tmp_path / "digits4.mindrecord0"
    )  # another of the names in the set
    source = open_source(str(tmp_path / "renamed"))
    assert source.kind == "mindrecord"
    assert "'digits4.mindrecord1' and renamed; it alone is read" in source.notes[0]
    assert 0 < len(rows_of(source)) < 300


def test_arrays_of_edge_values_and_empty_bytes_are_exact() -> None:
    rows = rows_at(FOLDER / "mixed.mindrecord")
    pictures = rows_at(DATA / "webdataset" / "digits-0000.tar")
    assert len(rows) == 60
    for i, row in enumerate(rows):
        assert row["label"] == i << 33
        assert row["wide"] == [[(1 << 40) + i, -(1 << 62), i]]
        assert row["tokens"] == EDGES[: i % 15]
        assert row["more"] == (b"" if i % 3 == 0 else f"caption {i}".encode())
        assert hashlib.sha256(row["data"]).hexdigest() == DIGITS[i][3]
        assert row["pixels"] == pictures[i]["pixels.npy"]


@pytest.mark.parametrize("version", ["2.0", "2.1"])
def test_an_older_version_keeps_integers_as_they_are(tmp_path: Path, version: str) -> None:
    column = Schema.parse({"x": {"type": "int32", "shape": [-1, 2]}})[0]
    values = np.array([[1, -2], [300, -(1 << 31)]], np.int32)
    assert decoder(column, "2.0")(memoryview(values.tobytes())).tolist() == values.tolist()
    whole = (
        (FOLDER / "digits.mindrecord")
        .read_bytes()
        .replace(b'"version":"3.0"', f'"version":"{version}"'.encode())
    )
    (tmp_path / "digits.mindrecord").write_bytes(whole)
    if version == "2.0":
        assert [known(row) for row in rows_at(tmp_path / "digits.mindrecord")] == DIGITS
    else:
        with pytest.raises(SchemaError, match=r"version '2.1' is not known"):
            open_source(str(tmp_path / "digits.mindrecord"))


def compressed(values: list[int]) -> bytes:
    """What MindSpore makes of integers: a count, codes of two bits, and as many bytes as each value needs."""
    widths = [next(w for w in range(4) if -(1 << (8 << w) - 1) <= v < 1 << (8 << w) - 1) for v in values]
    codes = bytearray(-(-len(values) // 4))
    for i, width in enumerate(widths):
        codes[i // 4] |= width << 6 - 2 * (i % 4)
    cells = [v.to_bytes(1 << w, "little", signed=True) for v, w in zip(values, widths, strict=True)]
    return struct.pack(">I", len(values)) + bytes(codes) + b"".join(cells)


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.sampled_from(EDGES)))
def test_any_integers_are_unpacked(values: list[int]) -> None:
    decode = decoder(Schema.parse({"x": {"type": "int64", "shape": [-1]}})[0], "3.0")
    assert decode(memoryview(compressed(values))).tolist() == values


@given(st.binary(max_size=60), st.integers(0, 4))
def test_any_bytes_are_values_or_an_error(data: bytes, fields: int) -> None:
    decode = decoder(Schema.parse({"x": {"type": "int32", "shape": [-1]}})[0], "3.0")
    with suppress(DecodeError):
        decode(memoryview(data))
    with suppress(DecodeError):
        assert len(blob_cells(memoryview(data), fields)) == fields


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    whole = (FOLDER / "mixed.mindrecord").read_bytes()
    place = tmp_path / "mixed.mindrecord"
    place.write_bytes(whole)
    assert refusals(place, "mindrecord", cuts=30, flips=150) > 60
    for data in (b"", whole[:5], bytes(16384), b"hello, world" * 10):
        place.write_bytes(data)
        with pytest.raises(SchemaError, match=r"it has no header|its header is damaged"):
            rows_at(place)
    place.write_bytes(whole[:60_000])
    with pytest.raises(SchemaError, match="the file is cut off by 23,352 bytes"):
        rows_at(place)


@pytest.mark.parametrize("name", ["../other.mindrecord", "/etc/passwd", "a/b", ""])
def test_a_header_cannot_name_files_elsewhere(tmp_path: Path, name: str) -> None:
    whole = (FOLDER / "mixed.mindrecord").read_bytes()
    head = json.loads(whole[8 : 8 + struct.unpack("<Q", whole[:8])[0]])
    head["shard_addresses"] = ["mixed.mindrecord", name]
    text = json.dumps(head).encode()
    (tmp_path / "mixed.mindrecord").write_bytes(
        (struct.pack("<Q", len(text)) + text).ljust(16384, b"\0") + whole[16384:]
    )
    with pytest.raises(SchemaError, match="the list of files of the set is damaged"):
        open_source(str(tmp_path / "mixed.mindrecord"))


def test_files_of_another_schema_are_refused() -> None:
    with pytest.raises(SchemaError, match=r"mixed.mindrecord: its schema is"):
        open_source(str(FOLDER / "*.mindrecord"))


def test_the_index_that_it_had_is_named_where_none_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for argv, said in (
        ([], "its index was on file_name, label: --index file_name,label\n"),
        (["--columns", "data,label", "--rename", "label=y"], "its index was on y: --index y\n"),
        (["--columns", "data"], None),
        (["--index", "label"], None),
    ):
        assert main(["write", str(FOLDER / "digits.mindrecord"), "d.urec", "--overwrite", *argv]) == 0
        out = capsys.readouterr().out
        assert ("its index was on" in out) == (said is not None)
        assert said is None or said in out


def test_a_type_can_be_replaced_and_columns_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["--schema", "label=int8", "--columns", "label,data", "--index", "label"]
    assert main(["write", str(FOLDER / "digits.mindrecord"), "d.urec", *argv]) == 0
    with UniRecordDataset("d.urec") as ds:
        assert str(ds.schema["label"]) == "int8"
        assert [int(row["label"]) for row in ds] == [digit[1] for digit in DIGITS]
