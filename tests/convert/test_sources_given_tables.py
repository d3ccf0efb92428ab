"""Tables that a program holds, or gives one after the other: every value, what is lost of it, or a refusal."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasets
import pandas
import polars
import pyarrow as pa
import pytest
from sources import plain

from unirecord import LeftOutWarning, SchemaError, UniRecordDataset, write_dataset

BATCHES = [pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3]})]


def written(given: Any, folder: Path, **options: Any) -> list[dict[str, Any]]:
    write_dataset(given, folder / "out.urec", **options)
    with UniRecordDataset(folder / "out.urec") as ds:
        return [{name: plain(value) for name, value in row.items()} for row in ds]


def _ours(folder: Path) -> Any:
    write_dataset(pa.table({"a": [1, 2, 3]}), folder / "ours.urec")
    return UniRecordDataset(folder / "ours.urec").to_batches()


def _chunks(folder: Path) -> Any:
    pandas.DataFrame({"a": [1, 2, 3]}).to_csv(folder / "x.csv", index=False)
    return pandas.read_csv(folder / "x.csv", chunksize=2)


@pytest.mark.parametrize(
    "given",
    [
        lambda _: pa.RecordBatchReader.from_batches(BATCHES[0].schema, iter(BATCHES)),
        _chunks,
        _ours,
        lambda _: BATCHES,
        lambda _: (polars.DataFrame({"a": [n]}) for n in (1, 2, 3)),
        lambda _: lambda: iter(BATCHES),
    ],
)
def test_tables_one_after_the_other_give_their_rows(given: Callable[[Path], Any], tmp_path: Path) -> None:
    assert written(given(tmp_path), tmp_path) == [{"a": 1}, {"a": 2}, {"a": 3}]


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (pandas.DataFrame({"a": [0.5]}), "table 1, column 'a', which is int64 in the first table"),
        (pandas.DataFrame({"b": [1]}), "table 1 has the columns b, but the first a"),
        ({"a": 1}, "table 1: it is a dict, and the first is a table"),
    ],
)
def test_a_later_table_that_the_first_does_not_hold_is_refused(
    second: Any, said: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaError, match=said):
        write_dataset([pandas.DataFrame({"a": [1]}), second], tmp_path / "out.urec")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (lambda: pa.table([pa.array([1]), pa.array([2])], names=["a", "a"]), "several columns called 'a'"),
        (lambda: pandas.DataFrame({"a": [2**70]}), "column 'a': its values have no common type"),
        (
            lambda: pandas.DataFrame({"a": [2**60 + 1, 0.5]}, dtype=object),
            "column 'a': its values have no common",
        ),
        (
            lambda: polars.DataFrame({"a": polars.Series([1], dtype=polars.Int128)}),
            "column 'a': Arrow has no Int128",
        ),
        (
            lambda: pa.table(
                {
                    "a": pa.UnionArray.from_sparse(
                        pa.array([0], pa.int8()), [pa.array([2**62], pa.timestamp("us"))]
                    )
                }
            ),
            "column 'a'",
        ),
    ],
)
def test_what_a_table_holds_and_we_do_not_is_refused_by_column(
    given: Callable[[], Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(SchemaError, match=said):
        write_dataset(given(), tmp_path / "out.urec")


NOON = datetime.datetime(2020, 1, 1)
SECONDS = 1_577_836_800


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([{"t": NOON, "x": 1}], None, [{"t": SECONDS * 10**6, "x": 1}]),
        ([{"t": NOON, "x": 1}, None], None, [{"t": SECONDS * 10**6, "x": 1}, None]),
        ([[NOON.date(), None]], pa.list_(pa.date32()), [[SECONDS // 86_400, None]]),
        ([[NOON, None], []], pa.large_list(pa.timestamp("ms", "UTC")), [[SECONDS * 1000, None], []]),
        ([{"d": Decimal("1.10")}], pa.struct([("d", pa.decimal128(5, 2))]), [{"d": "1.10"}]),
        ([{"l": [{"t": datetime.time(0, 0, 1)}]}], None, [{"l": [{"t": 10**6}]}]),
        ([[("k", datetime.timedelta(seconds=1))]], pa.map_(pa.string(), pa.duration("s")), [[["k", 1]]]),
    ],
)
def test_times_and_decimals_inside_values_are_integers_of_their_unit_and_text(
    values: list[Any], kind: Any, expected: list[Any], tmp_path: Path
) -> None:
    assert [row["a"] for row in written(pa.table({"a": pa.array(values, kind)}), tmp_path)] == expected


def test_lists_whose_inner_lists_differ_are_objects(tmp_path: Path) -> None:
    ragged = [[[1, 2], [3]], [[4]]]
    kind = pa.list_(pa.list_(pa.int32()))
    assert [row["a"] for row in written(pa.table({"a": pa.array(ragged, kind)}), tmp_path)] == ragged
    even = [[[1, 2], [3, 4]], [[5]], []]
    found = written(pa.table({"a": pa.array(even, kind)}), tmp_path, overwrite=True)
    assert [row["a"] for row in found] == even
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert str(ds.schema["a"]) == "int32[-1, -1]"


@pytest.mark.parametrize(
    ("series", "said", "expected"),
    [
        (
            pandas.period_range("2024-01", periods=2, freq="M"),
            r"period\[M\] is written as text",
            ["2024-01", "2024-02"],
        ),
        (pandas.interval_range(0, 1), "the closed side is left out", [{"left": 0, "right": 1}]),
    ],
)
def test_what_is_reduced_of_a_column_of_pandas_is_said(
    series: Any, said: str, expected: list[Any], tmp_path: Path
) -> None:
    with pytest.warns(LeftOutWarning, match=f"column 'a': .*{said}"):
        assert [row["a"] for row in written(pandas.DataFrame({"a": series}), tmp_path)] == expected


def test_a_zone_that_the_format_has_no_name_for_is_utc_and_said(tmp_path: Path) -> None:
    given = pa.table({"a": pa.array([NOON], pa.timestamp("s", "UTC+01:00"))})
    with pytest.warns(LeftOutWarning, match="column 'a': of timestamp.*UTC.* the time zone is UTC here"):
        written(given, tmp_path)
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert ds.scalars(["a"])["a"].view("int64").tolist() == [SECONDS]
        assert ds.to_arrow().schema.field("a").type == pa.timestamp("s", "UTC")


def test_sparse_columns_are_read(tmp_path: Path) -> None:
    given = pandas.DataFrame({"a": pandas.arrays.SparseArray([0, 1])})
    assert written(given, tmp_path) == [{"a": 0}, {"a": 1}]


class _Query:
    """What gives Arrow's columns and nothing else, as a query of DuckDB does."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return pa.table({"a": [1, 2]}).__arrow_c_stream__(requested_schema)


def test_what_gives_arrow_columns_is_a_table(tmp_path: Path) -> None:
    assert written(_Query(), tmp_path) == [{"a": 1}, {"a": 2}]


def test_the_format_of_a_hugging_face_dataset_is_obeyed(tmp_path: Path) -> None:
    found = datasets.Dataset.from_dict({"a": [1, 2], "b": ["x", "y"]})
    assert written(found.with_format("numpy", columns=["b"]), tmp_path) == [{"b": "x"}, {"b": "y"}]
    changed = found.with_transform(lambda batch: {"c": [10 * value for value in batch["a"]]})
    assert written(changed, tmp_path, overwrite=True) == [{"c": 10}, {"c": 20}]
