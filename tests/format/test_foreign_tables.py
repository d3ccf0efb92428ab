"""DataFrames and tables of pandas, polars and pyarrow, their missing values, and points in time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord import SchemaError, UniRecordDataset, Writer
from unirecord.format.schema import Schema
from unirecord.format.values.batch import numbers_of
from unirecord.format.values.cell import counted

NAN = float("nan")


def written(path: Path, schema: Any, *batches: Any, one_by_one: bool = False) -> list[dict[str, Any]]:
    with Writer(path / "x.urec", schema, overwrite=True) as writer:
        for batch in batches:
            if one_by_one:
                for values in zip(*batch.values(), strict=True):
                    writer.write(dict(zip(batch, values, strict=True)))
            else:
                writer.write_batch(batch)
    with UniRecordDataset(path / "x.urec") as ds:
        return [
            {k: v.item() if isinstance(v, np.generic) else v for k, v in ds[i].items()}
            for i in range(len(ds))
        ]


def frame() -> pandas.DataFrame:
    columns = {
        "name": ["a", None, "c"],
        "n": pandas.array([1, None, 3], dtype="Int64"),
        "x": [0.5, NAN, 2.0],
        "ok": pandas.array([True, None, False], dtype="boolean"),
        "kind": pandas.Categorical(["u", "v", "u"]),
    }
    return pandas.DataFrame(columns, index=[7, 3, 7])


SCHEMA = {"name": "string?", "n": "int64?", "x": "float64", "ok": "bool?", "kind": "string"}


@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_a_pandas_frame_is_a_batch(tmp_path: Path, schema: Any) -> None:
    found = written(tmp_path, schema, frame(), frame())
    assert len(found) == 6
    assert repr(found[:3]) == repr(found[3:])  # NaN included
    assert [row["name"] for row in found[:3]] == ["a", None, "c"]
    assert [row["n"] for row in found[:3]] == [1, None, 3]
    assert [row["ok"] for row in found[:3]] == [True, None, False]
    assert [row["kind"] for row in found[:3]] == ["u", "v", "u"]
    np.testing.assert_equal([row["x"] for row in found[:3]], [0.5, NAN, 2.0])
    with UniRecordDataset(tmp_path / "x.urec") as ds:
        assert ds.schema.to_spec() == SCHEMA


@pytest.mark.parametrize("schema", [None, {"s": "string?", "f": "float64?", "i": "int64?"}])
def test_polars_and_arrow_tables_are_batches_and_their_nulls_are_null(tmp_path: Path, schema: Any) -> None:
    columns = {"s": ["a", None], "f": [None, 0.5], "i": [1, None]}
    rows = [{"s": "a", "f": None, "i": 1}, {"s": None, "f": 0.5, "i": None}]
    for table in (
        polars.DataFrame(columns),
        pyarrow.table(columns),
        pyarrow.RecordBatch.from_pydict(columns),
    ):
        assert written(tmp_path, schema, table) == rows


def test_large_integers_beside_a_null_keep_every_bit(tmp_path: Path) -> None:
    large = (1 << 62) + 1
    for column in (
        pandas.Series([large, None], dtype="Int64"),
        pandas.array([large, None], dtype="Int64"),
        polars.Series([large, None]),
        pyarrow.array([large, None]),
        pyarrow.chunked_array([[large], [None]]),
    ):
        for schema in (None, {"a": "int64?"}):
            assert written(tmp_path, schema, {"a": column}) == [{"a": large}, {"a": None}]


def test_columns_of_a_dict_are_taken_row_by_row_whatever_their_labels(tmp_path: Path) -> None:
    series = pandas.Series([1, 2, 3], index=["b", "a", "b"])
    assert written(tmp_path, None, {"x": series}) == [{"x": 1}, {"x": 2}, {"x": 3}]
    assert written(tmp_path, None, {"x": pandas.Series([1, 2], index=[1, 0])}) == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pandas.DataFrame({0: [1]}), "column 0 is not named by a str"),
        (pandas.DataFrame([[1, 2]], columns=["a", "a"]), "several columns called 'a'"),
        (pandas.Series([1, 2]), "a batch is a dict of columns or a DataFrame, got Series"),
        ([{"a": 1}], "a batch is a dict of columns or a DataFrame, got list"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, table: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        written(tmp_path, {"a": "int64"}, table)


MISSING = [None, NAN, np.float32("nan"), np.float64("nan"), pandas.NA, pandas.NaT]


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("value", MISSING)
@pytest.mark.parametrize(("spec", "other"), [("string", "x"), ("bool", True), ("int32", 5)])
def test_what_is_missing_is_null_where_it_may_be(
    tmp_path: Path, spec: str, other: Any, value: Any, one_by_one: bool
) -> None:
    batch = {"a": [other, value]}
    assert written(tmp_path, {"a": f"{spec}?"}, batch, one_by_one=one_by_one) == [{"a": other}, {"a": None}]
    with pytest.raises(SchemaError, match=rf'row 1, column .a.: .* the type "{spec}\?" takes it as null'):
        written(tmp_path, {"a": spec}, batch, one_by_one=one_by_one)


@pytest.mark.parametrize("one_by_one", [False, True])
def test_in_a_column_of_floats_nan_is_a_value(tmp_path: Path, one_by_one: bool) -> None:
    found = written(tmp_path, {"a": "float64?"}, {"a": [NAN, None, pandas.NA, 1.0]}, one_by_one=one_by_one)
    assert np.isnan(found[0]["a"])
    assert [row["a"] for row in found[1:]] == [None, None, 1.0]


@pytest.mark.parametrize("spec", ["bytes", "text", {"type": "int32", "shape": [-1]}])
def test_a_blob_without_a_value_names_the_nullable_type(tmp_path: Path, spec: Any) -> None:
    for one_by_one in (False, True):
        with pytest.raises(
            SchemaError, match=r"row 0, column 'a': .*; the type \"[^\"]+\?\" takes it as null"
        ):
            written(tmp_path, {"a": spec}, {"a": [None]}, one_by_one=one_by_one)


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        (["a", NAN], "string?"),
        ([NAN, "a"], "string?"),
        ([True, NAN], "bool?"),
        ([NAN, NAN], "float64"),
        ([NAN, None], "float64?"),
        ([1, NAN], "float64"),
        ([1, pandas.NA], "int64?"),
        (["a", pandas.NaT], "string?"),
    ],
)
def test_missing_values_are_inferred(tmp_path: Path, values: list[Any], spec: str) -> None:
    for one_by_one in (False, True):
        written(tmp_path, None, {"a": values}, one_by_one=one_by_one)
        with UniRecordDataset(tmp_path / "x.urec") as ds:
            assert ds.schema.to_spec() == {"a": spec}


def test_an_array_and_nan_conflict(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match=r"row 0 holds int64 array of shape .* and row 1 holds float64"):
        written(tmp_path, None, {"a": [np.arange(3), NAN]}, one_by_one=True)


MOMENT = 1_577_836_800_123_456_789


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "D"])
@pytest.mark.parametrize("one_by_one", [False, True])
def test_times_are_nanoseconds(tmp_path: Path, unit: str, one_by_one: bool) -> None:
    times = np.array([MOMENT, -1_000_000_000], "datetime64[ns]").astype(f"datetime64[{unit}]")
    expected = times.astype("datetime64[ns]").view(np.int64).tolist()
    found = written(tmp_path, {"t": "int64"}, {"t": times}, one_by_one=one_by_one)
    assert [row["t"] for row in found] == expected
    assert written(tmp_path, {"t": "int64"}, {"t": pandas.Series(times)})[0]["t"] == expected[0]
    deltas = np.array([5, 7], f"timedelta64[{unit}]")
    found = written(tmp_path, {"t": "int64"}, {"t": deltas}, one_by_one=one_by_one)
    assert [row["t"] for row in found] == deltas.astype("timedelta64[ns]").view(np.int64).tolist()


@pytest.mark.parametrize("one_by_one", [False, True])
def test_nat_is_null_or_refused(tmp_path: Path, one_by_one: bool) -> None:
    times = np.array(["2020-01-01", "NaT"], "datetime64[s]")
    found = written(tmp_path, {"t": "int64?"}, {"t": times}, one_by_one=one_by_one)
    assert [row["t"] for row in found] == [1_577_836_800 * 10**9, None]
    with pytest.raises(SchemaError, match=r'row 1, column .t.: .* the type "int64\?" takes it'):
        written(tmp_path, {"t": "int64"}, {"t": times}, one_by_one=one_by_one)


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize(
    "time", [np.datetime64("3000-01-01"), np.datetime64(1, "ps"), np.datetime64(-1, "fs")]
)
def test_times_that_are_no_nanoseconds_are_refused(tmp_path: Path, time: Any, one_by_one: bool) -> None:
    with pytest.raises(SchemaError, match=r"row 0, column 't': .* no whole number of nanoseconds"):
        written(tmp_path, {"t": "int64"}, {"t": np.array([time])}, one_by_one=one_by_one)


@given(
    st.lists(st.integers(-(1 << 63), (1 << 63) - 1)),
    st.sampled_from(["as", "ps", "ns", "us", "ms", "s", "m", "D", "W"]),
)
def test_nanoseconds_are_exact_or_said_not_to_be(counts: list[int], unit: str) -> None:
    size = {"as": 1, "ps": 10**6, "ns": 10**9, "us": 10**12, "ms": 10**15, "s": 10**18}
    size |= {"m": 60 * 10**18, "D": 86_400 * 10**18, "W": 604_800 * 10**18}
    found, exact = counted(np.array(counts, np.int64).view(f"datetime64[{unit}]"), "ns")
    for count, number, right in zip(counts, found.tolist(), exact.tolist(), strict=True):
        whole, rest = divmod(count * size[unit], 10**9)
        fits = not rest and abs(whole) < 1 << 63
        missing = count == -(1 << 63)
        assert right == (fits or missing)
        assert not right or missing or number == whole


@pytest.mark.parametrize("spec", ["int32", "float64", "string"])
def test_times_go_into_int64_alone(tmp_path: Path, spec: str) -> None:
    for one_by_one in (False, True):
        with pytest.raises(SchemaError, match="column 't'"):
            written(tmp_path, {"t": spec}, {"t": np.array(["2020"], "datetime64[D]")}, one_by_one=one_by_one)


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("uint16[-1]", {"type": "uint16", "shape": [-1]}),
        ("float32[-1, 4]", {"type": "float32", "shape": [-1, 4]}),
        ("bfloat16[3]", {"type": "bfloat16", "shape": [3]}),
        ("uint16[3]?", {"type": "uint16?", "shape": [3]}),
    ],
)
def test_the_short_form_of_arrays_is_a_type(text: str, spec: Any) -> None:
    assert Schema.parse({"a": text}).to_spec() == {"a": spec}
    assert Schema.parse({"a": str(Schema.parse({"a": spec})[0])}).to_spec() == {"a": spec}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("uint16[", "not of the form"),
        ("uint16[]", "not of the form"),
        ("uint16[3]x", "not of the form"),
        ("uint16[0]", "shape"),
        ("string[3]", "string takes no shape"),
        ("uint16[3]??", "not of the form"),
        ("uint17[3]", "did you mean 'uint16'"),
        ("datetime64[ns]", r'logical type over .*"int64".*"timestamp"'),
    ],
)
def test_a_wrong_short_form_is_refused(text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        Schema.parse({"a": text})


KINDS = [
    pyarrow.bool_(),
    pyarrow.float16(),
    pyarrow.float32(),
    pyarrow.float64(),
    *(getattr(pyarrow, f"{sign}int{bits}")() for sign in ("", "u") for bits in (8, 16, 32, 64)),
]


@given(
    st.sampled_from(KINDS),
    st.lists(st.none() | st.integers(0, 100), max_size=40),
    st.integers(0, 20),
    st.integers(0, 20),
)
def test_numbers_of_arrow_are_those_of_its_list(
    kind: Any, values: list[int | None], skipped: int, dropped: int
) -> None:
    given = [None if v is None else np.float16(v) if kind == pyarrow.float16() else v for v in values]
    if kind == pyarrow.bool_():
        given = [None if v is None else v % 2 == 1 for v in values]
    array = pyarrow.array(given, kind)[skipped : len(values) - dropped]
    found = numbers_of(array)
    assert found.dtype == kind.to_pandas_dtype()
    assert found.tolist() == array.to_pylist()
    assert np.ma.isMaskedArray(found) == bool(array.null_count)
    if array.null_count:
        assert not found.data[found.mask].any()


def test_numbers_of_arrow_are_read_in_its_memory_alone() -> None:
    assert numbers_of(pyarrow.array(["a"])) is None
    assert numbers_of(pyarrow.array([1], pyarrow.timestamp("ns"))) is None
    array = pyarrow.array([1.0, 2.0])
    address = array.buffers()[1].address
    assert numbers_of(array).ctypes.data == address
    assert not numbers_of(array).flags.writeable


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.parquet"])
def test_converting_a_table_imports_no_pandas(tmp_path: Path, name: str) -> None:
    columns = {"a": [1, 2], "b": [0.5, 1.5], "c": ["x", "y"], "d": [True, False]}
    if name == "x.parquet":
        pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / name)
    else:
        of = polars.DataFrame(columns)
        (of.write_csv if name == "x.csv" else of.write_ndjson)(tmp_path / name)
    program = (
        "import sys, unirecord.cli as c; assert not c.main(sys.argv[1:]); print('pandas' in sys.modules)"
    )
    words = ["write", str(tmp_path / name), str(tmp_path / "out")]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"


def test_no_table_library_is_imported() -> None:
    program = (
        "import sys, tempfile, unirecord\n"
        "with unirecord.Writer(tempfile.mkdtemp() + '/x.urec', {'a': 'string?'}) as w:\n"
        "    w.write_batch({'a': ['x', float('nan')]})\n"
        "print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("rows", [1 << 16, (1 << 16) + 5, 100_000])
def test_small_batches_that_fill_the_first_group_exactly_are_written(tmp_path: Path, rows: int) -> None:
    schema = {"name": "string", "v": {"type": "int64", "shape": [3]}}
    with Writer(tmp_path / "x.urec", schema) as writer:
        for start in range(0, rows, 1024):
            numbers = np.arange(start, min(start + 1024, rows))
            writer.write_batch({"name": ["a"] * len(numbers), "v": np.repeat(numbers, 3).reshape(-1, 3)})
    with UniRecordDataset(tmp_path / "x.urec") as ds:
        assert len(ds) == rows
        for row in (0, 1023, 65_535, rows - 1):
            assert ds[row]["v"].tolist() == [row] * 3
