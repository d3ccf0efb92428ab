"""A dict of columns as a source: what each kind of column becomes, and what is refused."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from sources import plain

from unirecord import SchemaError, UniRecordDataset, Writer, write_dataset
from unirecord.convert.write_dataset import source_of
from unirecord.format.schema import Schema


def rows_of(path: Path) -> list[dict[str, Any]]:
    with UniRecordDataset(path) as ds:
        return [{name: plain(value) for name, value in row.items()} for row in ds]


def written(table: Any, folder: Path, **options: Any) -> list[dict[str, Any]]:
    write_dataset(table, folder / "out.urec", overwrite=True, **options)
    return rows_of(folder / "out.urec")


NAT = np.datetime64("NaT")
COLUMNS: dict[str, tuple[Any, Any, list[Any]]] = {
    "an array": (np.array([1, 2, 3], np.int16), "int16", [1, 2, 3]),
    "bools": (np.array([True, False, True]), "bool", [True, False, True]),
    "a masked array": (np.ma.MaskedArray([1.5, 2, 3], [0, 1, 0]), "float64?", [1.5, None, 3]),
    "an array of two dimensions": (
        np.arange(6, dtype=np.uint8).reshape(3, 2),
        {"type": "uint8", "shape": [2]},
        [[0, 1], [2, 3], [4, 5]],
    ),
    "one of which a row is masked": (
        np.ma.MaskedArray(np.ones((3, 2)), [[0, 0], [1, 1], [0, 0]]),
        {"type": "float64?", "shape": [2]},
        [[1, 1], None, [1, 1]],
    ),
    "a column without elements": (
        np.zeros((3, 0), np.int32), {"type": "int32", "shape": [-1]}, [[], [], []],
    ),
    "a tensor": (torch.tensor([[1.0], [2], [3]]), {"type": "float32", "shape": [1]}, [[1], [2], [3]]),
    "a tensor of bfloat16": (
        torch.ones((3, 1), dtype=torch.bfloat16),
        {"type": "bfloat16", "shape": [1]},
        [[0x3F80]] * 3,
    ),
    "times": (
        np.array(["2025-06-01", NAT, "2025-06-03"], "datetime64[ms]"),
        {"type": "int64?", "logical": {"type": "timestamp", "unit": "ms"}},
        [np.datetime64("2025-06-01", "ms"), None, np.datetime64("2025-06-03", "ms")],
    ),
    "a list": ([1, 2, 3], "int64", [1, 2, 3]),
    "a tuple": ((1, 2, 3), "int64", [1, 2, 3]),
    "a range": (range(3), "int64", [0, 1, 2]),
    "great integers": ([1, 2**63, 3], "uint64", [1, 2**63, 3]),
    "numbers of both kinds": ([1, 2.5, 3], "float64", [1, 2.5, 3]),
    "a list with null": (["x", None, "z"], "string?", ["x", None, "z"]),
    "a list of pandas' nulls": (["x", float("nan"), "z"], "string?", ["x", None, "z"]),
    "an array of objects": (np.array(["x", None, "z"], object), "string?", ["x", None, "z"]),
    "an array of text": (np.array(["x", "yy", "z"]), "string", ["x", "yy", "z"]),
    "long text": (["x", "y" * 5_000, "z"], "text", ["x", "y" * 5_000, "z"]),
    "an array of long text": (np.array(["x", "y" * 5_000, "z"]), "text", ["x", "y" * 5_000, "z"]),
    "bytes": ([b"x", b"", b"z"], "bytes", [b"x", b"", b"z"]),
    "decimals": (
        [Decimal("1.5"), Decimal("2.25"), None],
        {"type": "int64?", "logical": {"type": "decimal", "precision": 18, "scale": 2}},
        [150, 225, None],
    ),
    "a list of arrays": (
        [np.zeros((1, 2)), np.ones((2, 2)), np.ones((0, 2))],
        {"type": "float64", "shape": [-1, 2]},
        [[[0, 0]], [[1, 1], [1, 1]], []],
    ),
    "a list of lists": ([[1], [2, 3], []], {"type": "int64", "shape": [-1]}, [[1], [2, 3], []]),
    "a list of dicts": (
        [{"a": 1}, {"a": None}, {"a": 3}],
        {"type": "object", "logical": {"type": "nested", "of": "struct<a: int64>"}},
        [{"a": 1}, {"a": None}, {"a": 3}],
    ),
    "a Series": (
        pandas.Series([1, 2, 3], index=[7, 8, 9], dtype="Int16"), "int16", [1, 2, 3],
    ),
    "categories": (
        pandas.Series(["x", "y", None], dtype="category"),
        {"type": "string?", "annotations": {"dictionary": "unordered"}},
        ["x", "y", None],
    ),
    "an index of times with a zone": (
        pandas.DatetimeIndex(["2025-06-01"] * 3, tz="Europe/Paris").as_unit("us"),
        {"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": "Europe/Paris"}},
        [np.datetime64("2025-05-31T22:00", "us")] * 3,
    ),
    "a Series of Polars": (polars.Series([1, None, 3], dtype=polars.Int8), "int8?", [1, None, 3]),
    "an array of Arrow": (pa.array([1, 2, 3], pa.int32()), "int32", [1, 2, 3]),
    "a chunked array of Arrow": (pa.chunked_array([["x"], ["y", "z"]]), "string", ["x", "y", "z"]),
}  # fmt: skip


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_has_the_type_that_all_its_values_have(name: str, tmp_path: Path) -> None:
    values, spec, wanted = COLUMNS[name]
    columns = {"n": np.arange(3), "it": values}
    found = written(columns, tmp_path)
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert ds.schema.to_spec()["it"] == Schema.parse({"it": spec}).to_spec()["it"]
    assert found == [{"n": i, "it": value} for i, value in enumerate(wanted)]


def test_columns_of_all_kinds_are_chosen_renamed_and_ordered_as_of_any_source(tmp_path: Path) -> None:
    columns = {name: values for name, (values, _, _) in COLUMNS.items()}
    wanted = [{name: found[i] for name, (_, _, found) in COLUMNS.items()} for i in range(3)]
    assert written(columns, tmp_path) == wanted
    some = {"an array": "n", "a list of lists": "lists"}
    found = written(
        {**columns, "no type has it": [object()] * 3}, tmp_path,
        columns=list(some), rename=some, where="`an array` > 1", sort="n",
    )  # fmt: skip
    assert found == [{"n": 2, "lists": [2, 3]}, {"n": 3, "lists": []}]
    again = pickle.loads(pickle.dumps(source_of({"a": [1], "b": pa.array([2])})))
    assert [batch.columns["a"] for batch in again.batches()] == [[1]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=3), st.floats()), min_size=1))
def test_a_dict_of_columns_is_what_a_writer_makes_of_its_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, float]]
) -> None:
    folder = tmp_path_factory.mktemp("columns")
    columns = dict(zip(("a", "b", "c"), map(list, zip(*rows, strict=True)), strict=True))
    write_dataset(columns, folder / "out.urec", id=b"i" * 16)
    with Writer(folder / "rows.urec", id=b"i" * 16) as writer:
        for row in rows:
            writer.write(dict(zip(columns, row, strict=True)))
    assert (folder / "out.urec").read_bytes() == (folder / "rows.urec").read_bytes()


IDS = [uuid.UUID(int=i << 100) for i in range(3)]


def _as_arrow() -> Any:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([one.bytes for one in IDS], pa.binary(16)))


def _as_parquet(folder: Path) -> str:
    pq.write_table(pa.table({"id": _as_arrow()}), folder / "ids.parquet")
    return str(folder / "ids.parquet")


WITH_IDS: dict[str, Callable[[Path], Any]] = {
    "rows": lambda folder: [{"id": one} for one in IDS],
    "a column": lambda folder: {"id": IDS},
    "an array of objects": lambda folder: {"id": np.array(IDS, object)},
    "pandas": lambda folder: pandas.DataFrame({"id": IDS}),
    "Arrow": lambda folder: pa.table({"id": _as_arrow()}),
    "Parquet": _as_parquet,
}


@pytest.mark.parametrize("kind", WITH_IDS)
def test_uuids_are_strings_or_their_bytes_where_that_is_asked_for(kind: str, tmp_path: Path) -> None:
    table = WITH_IDS[kind](tmp_path)
    assert written(table, tmp_path, index=["id"]) == [{"id": str(one)} for one in IDS]
    with UniRecordDataset(tmp_path / "out.urec", where=f"id == '{IDS[1]}'") as ds:
        assert (len(ds), ds.get("id", str(IDS[1]))["id"]) == (1, str(IDS[1]))
    assert written(table, tmp_path, schema={"id": "uuid?"}) == [{"id": list(one.bytes)} for one in IDS]
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert [ds.schema["id"].shown(row["id"]) for row in ds] == list(map(str, IDS))


def test_uuids_of_duckdb_and_text_are_read_too(tmp_path: Path) -> None:
    found = written(duckdb.sql(f"select '{IDS[1]}'::uuid as id"), tmp_path)
    assert found == [{"id": str(IDS[1])}]
    (tmp_path / "x.csv").write_text(f"id\n{IDS[1]}\n")
    assert written(tmp_path / "x.csv", tmp_path, schema={"id": "uuid"}) == [{"id": list(IDS[1].bytes)}]
    (tmp_path / "x.csv").write_text("id\nx\n")
    with pytest.raises(SchemaError, match=r"line 2, column 'id': 'x' is no uint8\[16\]: badly formed"):
        written(tmp_path / "x.csv", tmp_path, schema={"id": "uuid"})


def test_objects_of_polars_are_refused_and_taken_as_a_list(tmp_path: Path) -> None:
    frame = polars.DataFrame({"id": polars.Series(IDS, dtype=polars.Object)})
    with pytest.raises(SchemaError, match=r"give series\.to_list\(\) in a dict of columns"):
        written(frame, tmp_path)
    assert written({"id": frame["id"].to_list()}, tmp_path) == [{"id": str(one)} for one in IDS]


def test_rows_of_many_bytes_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    pictures = np.zeros((40, 1_000_000), np.uint8)
    source = source_of({"picture": pictures, "n": pa.array(range(40))})
    assert [unit.rows for unit in source.units] == [8] * 5
    assert [batch.columns["n"].tolist() for batch in source.batches()] == [
        list(range(start, start + 8)) for start in range(0, 40, 8)
    ]
    assert (
        write_dataset({"n": range(100_000), "m": np.arange(100_000)}, tmp_path / "out", workers=2) == 100_000
    )
    assert UniRecordDataset(tmp_path / "out").scalars(["m"])["m"].tolist() == list(range(100_000))


def test_none_and_no_rows(tmp_path: Path) -> None:
    assert written({"a": np.zeros((0, 3), np.float32), "b": pa.array([], pa.int8())}, tmp_path) == []
    schema = UniRecordDataset(tmp_path / "out.urec").schema
    assert schema.to_spec() == {"a": {"type": "float32", "shape": [3]}, "b": "int8"}
    assert written({"a": []}, tmp_path, schema={"a": "string"}) == []
    assert written({"a": [None, None]}, tmp_path, schema={"a": "int8?"}) == [{"a": None}] * 2


def test_rows_are_appended_with_the_types_that_are_there(tmp_path: Path) -> None:
    write_dataset({"a": np.array([1], np.int8), "b": [[1, 2]]}, tmp_path / "out")
    write_dataset({"a": [2], "b": [[3]]}, tmp_path / "out", append=True)
    with pytest.raises(SchemaError, match="column 'a'"):
        write_dataset({"a": [200], "b": [[3]]}, tmp_path / "out", append=True)
    assert rows_of(tmp_path / "out") == [{"a": 1, "b": [1, 2]}, {"a": 2, "b": [3]}]


def test_columns_are_appended_by_name_in_whatever_order_they_come(tmp_path: Path) -> None:
    write_dataset({"a": [1], "b": ["x"]}, tmp_path / "out", schema={"a": "int64?"})
    write_dataset({"b": ["y"], "a": [2]}, tmp_path / "out", append=True)
    write_dataset(pandas.DataFrame({"b": ["z"], "a": [3]}), tmp_path / "out", append=True)
    (tmp_path / "x.csv").write_text("b,a\n7,4\n")
    write_dataset(tmp_path / "x.csv", tmp_path / "out", append=True, sort="b")
    write_dataset([{"b": "w"}], tmp_path / "out", append=True)
    ds = UniRecordDataset(tmp_path / "out")
    assert ds.schema.names == ("a", "b")
    assert rows_of(tmp_path / "out") == [
        {"a": a, "b": b} for a, b in [(1, "x"), (2, "y"), (3, "z"), (4, "7"), (None, "w")]
    ]


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({}, "the dict has no columns"),
        ({"a": [1, 2], "b": [1], "c": [3, 4]}, "of one length, but 'b' has 1 and 'a', 'c' 2 rows"),
        ({"a": "text"}, "'a' is of type str"),
        ({"a": (i for i in range(3))}, "'a' is of type generator"),
        ({"a": np.array(3)}, "column 'a': a batch holds one value per row"),
        ({3: [1]}, "the column 3 is not named by a str"),
        ({"a": [None]}, "holds only None"),
        ({"a": [1, "x"]}, "row 0 holds int64 and row 1 holds string"),
        ({"train": polars.DataFrame({"a": [1]})}, "each table is a dataset"),
        ({"train": pa.table({"a": [1]})}, "each table is a dataset"),
    ],
)
def test_what_are_no_columns_is_refused(columns: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=text):
        write_dataset(columns, tmp_path / "out")
    assert not (tmp_path / "out").exists()
