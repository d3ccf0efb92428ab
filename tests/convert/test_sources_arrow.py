"""Parquet, Arrow, Feather and Hugging Face data: every value, types, nulls; files that differ or are damaged."""

from __future__ import annotations

import base64
import datetime
import decimal
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pyarrow.parquet.encryption
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from sources import plain, refusals, rows_at, rows_of

from unirecord import UniRecordDataset, write_dataset
from unirecord.convert.sources import Options, open_input, open_source, parquet, source_type
from unirecord.convert.sources.parquet import ParquetFiles
from unirecord.errors import MissingError, SchemaError

pytestmark = pytest.mark.usefixtures("forked_readers")

ROWS = 240
DAY = 86_400_000_000  # microseconds


def table() -> pa.Table:
    """All kinds of columns that Arrow has."""
    n = ROWS
    return pa.table(
        {
            **{name: pa.array(range(n), name) for name in ("int16", "uint32", "int64", "float32", "float64")},
            "half": pa.array(np.arange(n, dtype=np.float16)),
            "bool": [i % 3 == 0 for i in range(n)],
            "string": [f"é{i}" for i in range(n)],
            "null_string": [None if i % 7 == 0 else f"n{i}" for i in range(n)],
            "null_int": pa.array([None if i % 5 == 0 else i for i in range(n)], pa.int16()),
            "null_float": pa.array([None if i % 4 == 0 else float("nan") if i % 4 == 1 else i / 2 for i in range(n)]),
            "null_bool": pa.array([None, True, False, True] * (n // 4)),
            "bytes": [bytes([i % 256]) * (i % 5) for i in range(n)],
            "fixed": pa.array([b"%04d" % i for i in range(n)], pa.binary(4)),
            "view": pa.array([f"v{i}" for i in range(n)], pa.string_view()),
            "category": pa.array(["a", "b"] * (n // 2)).dictionary_encode(),
            "vector": pa.array([[float(i)] * 4 for i in range(n)], pa.list_(pa.float32(), 4)),
            "list": [list(range(i % 3)) for i in range(n)],
            "matrix": [[[i, 2], [3, 4]] for i in range(n)],
            "ragged": [[[1], [2, 3]]] * n,
            "null_list": [None, [1]] * (n // 2),
            "words": [["a", "b"]] * n,
            "struct": [{"a": i, "b": ["x", None]} for i in range(n)],
            "time": pa.array([datetime.datetime(2020, 1, 1)] * n),
            "zoned": pa.array([datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)] * n),
            "date": [datetime.date(2020, 1, 1)] * n,
            "clock": [datetime.time(0, 0, 1)] * n,
            "span": pa.array([datetime.timedelta(seconds=1)] * n),
            "price": [decimal.Decimal("1.50")] * n,
            "nothing": pa.nulls(n),
        }
    )  # fmt: skip


SPECS: dict[str, Any] = {
    **{name: name for name in ("int16", "uint32", "int64", "float32", "float64", "bool", "string")},
    "half": "float16", "null_string": "string?", "null_int": "int16?", "null_float": "float64?", "null_bool": "bool?",
    "bytes": "bytes", "fixed": "bytes", "view": "string",
    "category": {"type": "string", "annotations": {"dictionary": "unordered"}},
    "vector": {"type": "float32", "shape": [4]}, "list": {"type": "int64", "shape": [-1]},
    "matrix": {"type": "int64", "shape": [-1, -1]},
    "words": {"type": "object", "logical": {"type": "nested", "of": "list<string>"}},
    "struct": {"type": "object", "logical": {"type": "nested", "of": "struct<a: int64, b: list<string>>"}},
    "null_list": {"type": "int64?", "shape": [-1]},
    "time": {"type": "int64", "logical": {"type": "timestamp", "unit": "us"}},
    "zoned": {"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": "UTC"}},
    "date": {"type": "int32", "logical": {"type": "date"}},
    "clock": {"type": "int64", "logical": {"type": "time", "unit": "us"}},
    "span": {"type": "int64", "logical": {"type": "duration", "unit": "us"}},
    "price": {"type": "int64", "logical": {"type": "decimal", "precision": 3, "scale": 2}},
    "nothing": "string?",
}  # fmt: skip


def wanted(row: dict[str, Any]) -> dict[str, Any]:
    """A row of `table` as it is written."""
    day = 18_262
    times = {"time": day * DAY, "zoned": day * DAY, "date": day, "clock": 1_000_000, "span": 1_000_000}
    return {**row, **times, "price": 150}


def written(path: Path, format: str) -> Path:
    whole = table().drop(["ragged"])
    if format == "parquet":
        pa.parquet.write_table(whole, path / "x.parquet", row_group_size=70, data_page_size=1000)
        return path / "x.parquet"
    if format == "feather":
        pa.feather.write_feather(whole, path / "x.feather", chunksize=70)
        return path / "x.feather"
    with pa.OSFile(str(path / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, whole.schema) as stream:
        for batch in whole.to_batches(70):
            stream.write_batch(batch)
    return path / "x.arrow"


@pytest.mark.parametrize("format", ["parquet", "feather", "stream"])
def test_every_value_equals_that_of_pyarrow(tmp_path: Path, format: str) -> None:
    path = written(tmp_path, format)
    source = open_source(str(path))
    assert source.schema.to_spec() == {name: SPECS[name] for name in source.schema.names}
    assert source.rows == ROWS
    rows = rows_at(path)
    assert str(rows) == str([wanted(row) for row in table().drop(["ragged"]).to_pylist()])
    (tmp_path / "without_a_suffix").write_bytes(path.read_bytes())
    if format != "stream":  # which has no mark of its own
        assert open_source(str(tmp_path / "without_a_suffix")).kind == source.kind


def test_types_can_be_replaced_and_what_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    like = table().schema
    count = parquet._SAMPLE_ROWS + 100  # lists begin to differ behind what is looked at
    ragged = [[[1], [2]]] * parquet._SAMPLE_ROWS + [[[1], [2, 3]]] * 100
    columns = {
        "int64": pa.array(range(count), like.field("int64").type),
        "ragged": pa.array(ragged, like.field("ragged").type),
        "list": pa.array([[0, 1]] * count, like.field("list").type),
    }
    pa.parquet.write_table(pa.table(columns), path, row_group_size=70)
    source = open_source(str(path))
    with pytest.raises(SchemaError, match=r"rows from \d+, column 'ragged': .*--schema ragged=object"):
        list(source.batches())
    spec = {"int64": "int16", "ragged": "object", "list": "object"}
    assert write_dataset(str(path), tmp_path / "d.urec", schema=spec) == count
    with UniRecordDataset(tmp_path / "d.urec") as ds:
        assert ds.schema.to_spec() == spec
        assert ds[count - 1] == {"int64": count - 1, "ragged": [[1], [2, 3]], "list": [0, 1]}
    with pytest.raises(SchemaError, match=r"x\.parquet, row group 1, row 58, column 'int64'"):
        write_dataset(str(path), tmp_path / "e.urec", schema={**spec, "int64": "int8"})
    assert not (tmp_path / "e.urec").exists()
    # Where they differ from the first rows on, this is seen.
    pa.parquet.write_table(pa.table({"ragged": columns["ragged"].slice(parquet._SAMPLE_ROWS - 9)}), path)
    assert str(open_source(str(path)).schema["ragged"]) == "object"


cell = st.none() | st.integers(-(1 << 63), (1 << 63) - 1)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(
    st.lists(st.tuples(cell, st.none() | st.floats(), st.none() | st.text(), st.binary()), min_size=1, max_size=30),
    st.integers(1, 9), st.integers(0, 5), st.booleans(),
)  # fmt: skip
def test_any_nulls_and_any_slices_come_through(
    tmp_path: Path, rows: list[Any], group: int, start: int, statistics: bool
) -> None:
    types = (pa.int64(), pa.float64(), pa.string(), pa.binary())
    whole = pa.table(
        {n: pa.array(list(v), t) for n, v, t in zip("ifsb", zip(*rows, strict=True), types, strict=True)}
    )
    pa.parquet.write_table(whole, tmp_path / "x.parquet", row_group_size=group, write_statistics=statistics)
    source = ParquetFiles(
        open_input(str(tmp_path / "x.parquet")), Options()
    )  # by no child, which costs a start each
    np.testing.assert_equal(rows_of(source), whole.to_pylist())
    part = whole.slice(start)
    if part.num_rows:
        (tmp_path / "d.urec").unlink(missing_ok=True)
        write_dataset(part, tmp_path / "d.urec", overwrite=True)
        with UniRecordDataset(tmp_path / "d.urec") as ds:
            found = [{name: plain(value) for name, value in row.items()} for row in ds]
        np.testing.assert_equal(found, part.to_pylist())


def test_files_of_a_folder_or_pattern_are_read_in_natural_order(tmp_path: Path) -> None:
    for i in (10, 9, 1):
        pa.parquet.write_table(pa.table({"i": [i]}), tmp_path / f"p{i}.parquet")
    (tmp_path / "_SUCCESS").write_bytes(b"")
    assert [row["i"] for row in rows_at(tmp_path)] == [1, 9, 10]
    assert [row["i"] for row in rows_at(tmp_path / "p1*.parquet")] == [1, 10]
    pa.parquet.write_table(pa.table({"i": ["x"]}), tmp_path / "p2.parquet")
    with pytest.raises(SchemaError, match=r"p2.parquet: column 'i' is string, but int64 in .*p1.parquet"):
        open_source(str(tmp_path))
    pa.parquet.write_table(pa.table({"j": [1]}), tmp_path / "p2.parquet")
    with pytest.raises(SchemaError, match=r"p2.parquet has the columns j, but .*p1.parquet has i"):
        open_source(str(tmp_path))
    for name in ("train-0.parquet", "test-0.parquet"):
        pa.parquet.write_table(pa.table({"i": [1]}), tmp_path / name)
    with pytest.raises(
        SchemaError, match=r"parts of a split \(train, test\)|parts of a split \(test, train\)"
    ):
        open_source(str(tmp_path / "t*.parquet"))


@pytest.mark.parametrize("format", ["parquet", "feather", "stream"])
def test_a_damaged_file_is_refused_by_name(tmp_path: Path, format: str) -> None:
    path = written(tmp_path, format)
    assert refusals(path, "parquet" if format == "parquet" else "arrow", cuts=10, flips=25) > 10
    path.write_bytes(b"")
    with pytest.raises(SchemaError, match=path.name):
        open_source(str(path))


def _struct_of_two() -> Any:
    return pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])


def _bad_text() -> Any:
    ends = pa.py_buffer(np.array([0, 1], np.int32))
    return pa.StringArray.from_buffers(1, ends, pa.py_buffer(b"\xff"))


FAR = 2**62
UNREADABLE: dict[str, Callable[[], Any]] = {
    "parts of days": lambda: pa.array([1], pa.date64()),
    "too many digits": lambda: pa.Array.from_buffers(
        pa.decimal128(3, 2), 1, [None, pa.py_buffer(np.array([1000, 0], np.int64))]
    ),
    "far times in unions": lambda: pa.UnionArray.from_sparse(
        pa.array([0], pa.int8()), [pa.array([FAR], pa.timestamp("us"))]
    ),
    "two fields of one name": _struct_of_two,
    "no UTF-8": _bad_text,
    "no UTF-8 in structs": lambda: pa.StructArray.from_arrays([_bad_text()], ["a"]),
    "months": lambda: pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
}


@pytest.mark.parametrize("what", UNREADABLE)
def test_what_pyarrow_cannot_give_is_refused_by_column(tmp_path: Path, what: str) -> None:
    pa.feather.write_feather(
        pa.table({"x": UNREADABLE[what]()}), str(tmp_path / "x.arrow"), compression="uncompressed"
    )
    with pytest.raises(SchemaError, match=r"x.arrow"):
        write_dataset(tmp_path / "x.arrow", tmp_path / "out.urec")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("codes", [[0, 1], [5, 7]])
@pytest.mark.parametrize("second", [False, True], ids=["a file", "the second of a folder"])
def test_a_union_whose_first_batch_is_empty_does_not_end_the_process(
    tmp_path: Path, kind: str, codes: list[int], second: bool
) -> None:
    parts = [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    ids = pa.array([codes[0], codes[1], codes[0]], pa.int8())
    union = (
        pa.UnionArray.from_dense(ids, pa.array([0, 0, 1], pa.int32()), parts, ["n", "s"], codes)
        if kind == "dense"
        else pa.UnionArray.from_sparse(ids, parts, ["n", "s"], codes)
    )
    batch = pa.record_batch([union], names=["u"])
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, batch.schema) as writer:
        writer.write_batch(batch.slice(0, 0))
        writer.write_batch(batch)
    if second:
        with (
            pa.OSFile(str(tmp_path / "a.arrow"), "wb") as file,
            pa.ipc.new_file(file, batch.schema) as writer,
        ):
            writer.write_batch(batch)
    try:
        rows: Any = rows_at(tmp_path if second else tmp_path / "x.arrow")
    except SchemaError as error:  # where the library dies of it
        rows = str(error)
    expected = [{"u": value} for value in union.to_pylist()]
    assert rows == expected * (1 + second) or re.search(
        rf"{tmp_path}(, at {tmp_path})?/x.arrow, record batch [01] cannot be read: its library dies of it",
        rows,
    )


class _Keys(pyarrow.parquet.encryption.KmsClient):  # type: ignore[misc]
    """Wraps nothing, which is enough to make a file."""

    def __init__(self, config: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, master: str) -> str:
        return base64.b64encode(key).decode()

    def unwrap_key(self, wrapped: str, master: str) -> bytes:
        return base64.b64decode(wrapped)


@pytest.mark.parametrize("plain_footer", [True, False])
@pytest.mark.parametrize("second", [False, True], ids=["a file", "the second of a folder"])
def test_an_encrypted_parquet_file_is_refused_by_name(
    tmp_path: Path, plain_footer: bool, second: bool
) -> None:
    encryption = pyarrow.parquet.encryption
    path, table = tmp_path / "x.parquet", pa.table({"secret": [1, 2], "open": [3, 4]})
    properties = encryption.CryptoFactory(_Keys).file_encryption_properties(
        encryption.KmsConnectionConfig(),
        encryption.EncryptionConfiguration(
            footer_key="f", column_keys={"c": ["secret"]}, plaintext_footer=plain_footer
        ),
    )
    with pyarrow.parquet.ParquetWriter(path, table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    if second:
        pa.parquet.write_table(table, tmp_path / "a.parquet")
    group = ", row group 0" if plain_footer else ""  # without its footer, nobody knows of row groups
    with pytest.raises(SchemaError, match=rf"{path}{group} cannot be read: .*(decrypt|encrypt)"):
        open_source(str(tmp_path if second else path))


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = open_input(str(path))
    with pytest.raises(MissingError, match=r"a Parquet file needs pyarrow.*: pip install pyarrow"):
        source_type(found)(found, Options())  # not by a child, which would have the module


def pictures() -> datasets.Dataset:
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=["cat", "dog", "owl"]),
            "box": datasets.Sequence(datasets.Value("float32"), length=4),
            "grid": datasets.Array2D((2, 3), "int32"),
            "text": datasets.Value("string"),
        }
    )
    rows = {
        "image": [Image.new("RGB", (4, 3), (i, 2 * i, 7)) for i in range(60)],
        "label": [i % 3 for i in range(60)],
        "box": [[i, 1.0, 2.0, 3.0] for i in range(60)],
        "grid": [np.full((2, 3), i) for i in range(60)],
        "text": [f"text {i}" for i in range(60)],
    }
    return datasets.Dataset.from_dict(rows, features=features)


HUGGING_FACE = {
    "image": {"type": "bytes", "logical": {"type": "media", "media": "image/*"}},
    "label": {"type": "int32", "logical": {"type": "class", "names": ["cat", "dog", "owl"]}},
    "box": {"type": "float32", "shape": [4]},
    "grid": {"type": "int32", "shape": [2, 3]}, "text": "string",
}  # fmt: skip


def check_pictures(path: Path, ds: datasets.Dataset, same_shape: bool = True) -> None:
    raw = ds.cast_column("image", datasets.Image(decode=False))
    with UniRecordDataset(path) as found:
        spec = found.schema.to_spec()
        assert {**spec, "grid": 0, "box": 0} == {**HUGGING_FACE, "grid": 0, "box": 0}
        assert not same_shape or spec == HUGGING_FACE
        assert found.metadata == {"classes": ["cat", "dog", "owl"]}
        assert len(found) == len(ds)
        for row, wanted in zip(found, raw, strict=True):
            assert bytes(row["image"]) == wanted["image"]["bytes"]
            for name in ("label", "box", "grid", "text"):
                assert plain(row[name]) == plain(wanted[name])


def test_a_hugging_face_dataset_is_written_with_its_classes_and_pictures(tmp_path: Path) -> None:
    ds = pictures()
    write_dataset(ds, tmp_path / "all.urec")
    check_pictures(tmp_path / "all.urec", ds)
    chosen = ds.shuffle(seed=1).filter(lambda row: row["label"] != 1)
    write_dataset(chosen, tmp_path / "some.urec")
    check_pictures(tmp_path / "some.urec", chosen)


def test_saved_hugging_face_datasets_are_read(tmp_path: Path) -> None:
    ds = pictures()
    ds.save_to_disk(tmp_path / "saved", num_shards=3)
    write_dataset(tmp_path / "saved", tmp_path / "saved.urec")
    check_pictures(tmp_path / "saved.urec", ds)
    ds.to_parquet(tmp_path / "x.parquet")
    write_dataset(tmp_path / "x.parquet", tmp_path / "parquet.urec")
    check_pictures(tmp_path / "parquet.urec", ds, same_shape=False)
    split = datasets.DatasetDict({"train": ds, "test": ds})
    split.save_to_disk(tmp_path / "split")
    with pytest.raises(
        SchemaError, match=r"holds the splits train, test; .*split/train train` and `unirecord write"
    ):
        open_source(str(tmp_path / "split"))
    (tmp_path / "saved" / "state.json").write_text('{"_data_files": [{"filename": "../split/x.arrow"}]}')
    with pytest.raises(SchemaError, match="which is no file of the folder"):
        open_source(str(tmp_path / "saved"))


def test_columns_with_points_in_their_names_are_null_where_they_have_nulls(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = pa.table({
        "a": pa.array([{"b": None, "c": [1, None]}, {"b": 2, "c": []}]), "a.b": [1, 2], "a.b.c": [None, 1.5],
        "m.n": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64())), "o.p": ["x", "y"],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "x.parquet")
    types = open_source(str(tmp_path / "x.parquet")).schema
    assert [types[name].nullable for name in ("a.b", "a.b.c", "o.p")] == [False, True, False]
    write_dataset(tmp_path / "x.parquet", tmp_path / "out", workers=1)
    found = UniRecordDataset(tmp_path / "out").to_arrow(table.column_names)
    assert all(found[name].to_pylist() == table[name].to_pylist() for name in table.column_names)
