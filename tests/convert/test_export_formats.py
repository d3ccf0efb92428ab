"""Exports to MDS, MindRecord, ArrayRecord and Lance: the bytes of the real writers, or what the real readers read.

tests/data/mds was written by MosaicML's MDSWriter (streaming 0.13.0) of `mds_rows`; `make exports` has the libraries
that are too large for every run read back what is written here.
"""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from exported_rows import ROWS, SCHEMA, N, as_json, check_table, same, write_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from image_folders import folder, picture

import unirecord
from unirecord import SchemaError, UniRecordDataset, Writer
from unirecord.convert.sinks import mds, mindrecord
from unirecord.convert.sinks.mindrecord import _packed
from unirecord.convert.sinks.tf_example import ARRAY_RECORD
from unirecord.convert.sources.mindrecord import _unpacked

MDS_SCHEMA = {
    "thing": "object", "data": "bytes", "text": "text", "label": "int64", "half": "float16",
    "fixed": {"type": "float32", "shape": [2, 3]}, "ragged": {"type": "int16", "shape": [-1]},
}  # fmt: skip


SMALL, LARGE = st.integers(-200, 200), st.integers(-(2**63), 2**63 - 1)


def mds_row(i: int) -> dict[str, Any]:
    return {
        "data": bytes(range(i)), "text": "é" * (i % 4), "label": i - 20, "half": np.float16(i / 4),
        "fixed": np.arange(6, dtype=np.float32).reshape(2, 3) * i,
        "ragged": np.arange(1 + i % 3 * 200, dtype=np.int16), "thing": {"a": [i, None]},
    }  # fmt: skip


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("formats") / "data")


def written(folder: Path, schema: dict[str, Any], rows: list[dict[str, Any]]) -> Path:
    with Writer(folder / "rows.urec", schema) as writer:
        for one in rows:
            writer.write(one)
    return folder / "rows.urec"


def test_mds_is_what_its_own_writer_writes(tmp_path: Path) -> None:
    data = written(tmp_path, MDS_SCHEMA, [mds_row(i) for i in range(40)])
    done = unirecord.export(data, tmp_path / "out", "mds")
    real = Path(__file__).parents[1] / "data" / "mds"
    assert done.files == 2
    for name in ("index.json", "shard.00000.mds"):
        assert (tmp_path / "out" / name).read_bytes() == (real / name).read_bytes(), name


def test_mds_begins_a_shard_where_the_next_row_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mds, "_SHARD_BYTES", 4_000)
    data = written(tmp_path, {"data": "bytes"}, [{"data": bytes(1_000)}] * 5 + [{"data": bytes(9_000)}])
    unirecord.export(data, tmp_path / "out", "mds")
    shards = json.loads((tmp_path / "out" / "index.json").read_text())["shards"]
    assert [shard["samples"] for shard in shards] == [3, 2, 1]
    for shard in shards:
        file = shard["raw_data"]
        assert (tmp_path / "out" / file["basename"]).stat().st_size == file["bytes"]


@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        ("mds", {"x": "bytes?"}),
        ("mds", {"x": {"type": "int8?", "shape": [-1]}}),
        ("mindrecord", {"x": "int32?"}),
    ],
)
def test_a_null_is_refused_where_there_is_none_in_the_format(
    kind: str, schema: dict[str, Any], tmp_path: Path
) -> None:
    value = b"x" if schema["x"] == "bytes?" else 3 if kind == "mindrecord" else np.ones(2, np.int8)
    data = written(tmp_path, schema, [{"x": value}, {"x": None}])
    with pytest.raises(SchemaError, match=r"row 1: 'x' is null.*x is not null"):
        unirecord.export(data, tmp_path / "out", kind)
    assert unirecord.export(data, tmp_path / "out", kind, where="x is not null").rows == 1


def test_mindrecord_is_read_back_by_the_source(path: Path, tmp_path: Path) -> None:
    names = [n for n in SCHEMA if n not in ("wave", "grid", "huge", "single", "rare")]
    for parts in (None, 3):
        target = tmp_path / f"{parts}"
        unirecord.export(path, target, "mindrecord", columns=names, parts=parts)
        unirecord.write_dataset(target, tmp_path / f"back{parts}")
        for one, record in zip(UniRecordDataset(tmp_path / f"back{parts}"), ROWS, strict=True):
            for name in ("big", "name", "note", "blob", "small", "double"):
                assert one[name] == record[name], name
            for name in ("ragged", "boxes", "fixed", "bits"):
                assert np.array_equal(one[name], record[name]), name
            assert (one["flag"], one["half"]) == (record["flag"], record["half"])
            assert same(json.loads(one["thing"]), as_json(record)["thing"])


def test_the_index_of_mindrecord_says_where_each_row_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mindrecord, "_HEADER_BYTES", 1 << 14)  # the least that MindRecord has
    monkeypatch.setattr(mindrecord, "_PAGE_BYTES", 1 << 15)
    rows = [{"b": bytes([i % 256]) * (i * 7 % 3000), "n": i} for i in range(200)]
    unirecord.export(written(tmp_path, {"b": "bytes", "n": "int64"}, rows), tmp_path / "out", "mindrecord")
    data = (tmp_path / "out" / "data.mindrecord").read_bytes()
    with sqlite3.connect(tmp_path / "out" / "data.mindrecord.db") as index:
        found = index.execute("SELECT * FROM INDEXES ORDER BY ROW_ID").fetchall()
        assert index.execute("SELECT NAME FROM SHARD_NAME").fetchall() == [("data.mindrecord",)]
    index.close()
    assert {entry[5] for entry in found} == {0, 2, 3, 4, 5}  # page 1 is of scalars
    for number, entry in enumerate(found):
        start, stop = (((1 << 14) + entry[5] * (1 << 15)) + entry[at] for at in (6, 7))
        assert (entry[0], entry[-1], data[start + 8 : stop]) == (number, number, rows[number]["b"])
    unirecord.write_dataset(tmp_path / "out", tmp_path / "back")
    assert [one["b"] for one in UniRecordDataset(tmp_path / "back")] == [one["b"] for one in rows]


@settings(max_examples=100, deadline=None)
@given(arrays.arrays(np.int64, st.integers(0, 40), elements=st.one_of(SMALL, LARGE)))
def test_packed_integers_are_unpacked_to_the_same(numbers: np.ndarray[Any, Any]) -> None:
    assert np.array_equal(_unpacked(memoryview(_packed(numbers)), np.dtype(np.int64)), numbers)


@pytest.mark.parametrize(
    ("kind", "schema", "says"),
    [
        ("mindrecord", {"x": {"type": "complex64", "shape": [-1]}}, "no complex numbers"),
        ("mindrecord", {"a b": "int8"}, "letters of ASCII"),
        ("mindrecord", {"3d": "int8"}, "begin with no digit"),
        ("mindrecord", {"x": {"type": "int8", "shape": [-1, -1]}}, "one free dimension"),
        ("mindrecord", {"Aa": "int8", "aA": "int8"}, "case alone"),
        ("lance", {"x": {"type": "int8", "shape": [2, -1]}}, "fixed size"),
        ("arrayrecord", {"x": {"type": "complex64", "shape": [-1]}}, "complex"),
    ],
)
def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(
    kind: str, schema: dict[str, Any], says: str, tmp_path: Path
) -> None:
    pytest.importorskip("lance" if kind == "lance" else "array_record" if kind == "arrayrecord" else "json")
    data = written(tmp_path, schema, [])
    before = sorted(os.listdir(tmp_path))
    with pytest.raises(SchemaError, match=says):
        unirecord.export(data, tmp_path / "out", kind)
    assert sorted(os.listdir(tmp_path)) == before


def test_arrayrecord_is_read_back_by_its_own_reader(path: Path, tmp_path: Path) -> None:
    module = pytest.importorskip("array_record.python.array_record_module")
    names = [name for name in SCHEMA if name != "wave"]
    for name in ("a", "b"):
        unirecord.export(path, tmp_path / f"{name}.arrayrecord", columns=names)
    reader = module.ArrayRecordReader(str(tmp_path / "a.arrayrecord"))
    unirecord.export(path, tmp_path / "x.tfrecord", columns=names)
    assert reader.num_records() == N
    size, records = (tmp_path / "x.tfrecord").read_bytes(), reader.read_all()
    assert all(
        record in size for record in records
    )  # the same tf.train.Examples, which test_export.py checks
    assert (tmp_path / "a.arrayrecord").read_bytes() == (tmp_path / "b.arrayrecord").read_bytes()


def test_a_time_that_parquet_has_no_unit_for_is_refused(tmp_path: Path) -> None:
    schema = {"t": {"type": "int64", "logical": {"type": "timestamp", "unit": "s"}}}
    with Writer(tmp_path / "x.urec", schema) as writer:
        writer.write({"t": -(1 << 63)})
    with pytest.raises(SchemaError, match=r"Parquet cannot hold a value .*timestamp\[s\] to timestamp\[ms\]"):
        unirecord.export(tmp_path / "x.urec", tmp_path / "x.parquet")
    assert not (tmp_path / "x.parquet").exists()


def test_a_failure_of_the_library_names_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("array_record")
    write = ARRAY_RECORD.write_path
    assert write is not None
    with UniRecordDataset(path, columns=["blob"]) as rows, pytest.raises(OSError, match="No space left"):
        write(rows, "/dev/full", lambda more: None)


def test_lance_is_read_back_by_its_own_reader(path: Path, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance")
    names = [name for name in SCHEMA if name != "grid"]
    unirecord.export(path, tmp_path / "x.lance", columns=names)
    table = lance.dataset(str(tmp_path / "x.lance")).to_table()
    check_table(table.append_column("grid", [[record["grid"].tolist() for record in ROWS]]))


def test_pictures_are_read_back_by_hugging_face(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    small = [picture(4 + i, 3) for i in range(6)]
    folder(tmp_path / "in", {f"{['cat', 'red panda'][i % 2]}/p{i}.png": data for i, data in enumerate(small)})
    unirecord.write_dataset(tmp_path / "in", tmp_path / "p")
    unirecord.export(tmp_path / "p", tmp_path / "out", "images")
    found = datasets.load_dataset(
        "imagefolder", data_dir=str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache")
    )
    with UniRecordDataset(tmp_path / "p") as ds:
        wanted = sorted((row["width"], row["height"], row["class"], row["label"]) for row in ds)
    assert sorted((*one["image"].size, one["class"], one["label"]) for one in found) == wanted
