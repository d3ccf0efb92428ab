"""ds.scalars(), to_arrow(), to_pandas(): scalar columns of the selected rows, from the index alone."""

from __future__ import annotations

from pathlib import Path

import duckdb
import numpy as np
import polars
import pytest

import unirecord
from unirecord import UniRecordDataset, Writer

N = 500


@pytest.fixture(scope="module", params=["part", "directory"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scalars") / ("one.urec" if request.param == "part" else "many")
    schema = {
        "label": "int32",
        "name": "string",
        "rare": "string?",
        "score": "float64?",
        "flag": "bool",
        "blob": "bytes",
    }
    with Writer(path, schema, max_part_bytes=None if path.suffix else 10_000, index=["label"]) as writer:
        for i in range(N):
            writer.write(
                {
                    "label": i % 7,
                    "name": f"name {i}",
                    "rare": None if i % 3 else "é",
                    "score": None if i % 5 == 0 else i / 2,
                    "flag": i % 2 == 0,
                    "blob": bytes(40),
                }
            )
    return path


def expected(i: int) -> dict[str, object]:
    return {
        "label": i % 7,
        "name": f"name {i}",
        "rare": None if i % 3 else "é",
        "score": None if i % 5 == 0 else i / 2,
        "flag": i % 2 == 0,
    }


SELECTIONS = {
    "all": (lambda ds: ds, list(range(N))),
    "where": (None, [i for i in range(N) if i % 7 == 3]),
    "take": (lambda ds: ds.take(123), list(range(123))),
    "backwards": (lambda ds: ds.select(slice(None, None, -3)), list(range(N))[::-3]),
    "chosen": (lambda ds: ds.select([400, 3, 3, 77]), [400, 3, 3, 77]),
    "none": (lambda ds: ds.take(0), []),
}


@pytest.mark.parametrize("name", SELECTIONS)
def test_scalars_of_a_selection(path: Path, name: str) -> None:
    narrow, rows = SELECTIONS[name]
    ds = UniRecordDataset(path, where="label == 3") if narrow is None else narrow(UniRecordDataset(path))
    columns = ds.scalars()
    assert list(columns) == ["label", "name", "rare", "score", "flag"]
    for column, values in columns.items():
        assert values.tolist() == [expected(i)[column] for i in rows], column
    table = ds.to_arrow()
    assert table.to_pylist() == [expected(i) for i in rows]


def test_one_whole_part_is_a_view(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"x": "int64"}) as writer:
        writer.write_batch({"x": np.arange(1000)})
    x = UniRecordDataset(tmp_path / "a.urec").scalars(["x"])["x"]
    assert not x.flags.owndata
    assert not x.flags.writeable
    assert x.sum() == 499_500


def test_sharding_and_shuffling_do_not_matter(path: Path) -> None:
    ds = UniRecordDataset(path, 1, 3, shuffle=True)
    assert ds.scalars(["label"])["label"].tolist() == [i % 7 for i in range(N)]


def test_blob_columns_and_unknown_ones_are_refused_by_name(path: Path) -> None:
    ds = UniRecordDataset(path)
    with pytest.raises(unirecord.SchemaError, match=r"blob.*not scalar"):
        ds.scalars(["blob"])
    with pytest.raises(unirecord.SchemaError, match="label"):
        ds.to_arrow(["labl"])


def test_duckdb_polars_and_pandas_take_the_table(path: Path) -> None:
    numbers = UniRecordDataset(path).to_arrow()
    (count,) = duckdb.sql("select count(*) from numbers where label = 3 and score > 10").fetchall()[0]
    right = sum(1 for i in range(N) if i % 7 == 3 and i % 5 and i / 2 > 10)
    assert count == right
    frame = polars.from_arrow(numbers)
    assert frame.filter((polars.col("label") == 3) & (polars.col("score") > 10)).height == right
    pandas = UniRecordDataset(path).to_pandas(["label", "rare"])
    assert list(pandas.columns) == ["label", "rare"]
    assert pandas["label"].tolist() == [i % 7 for i in range(N)]
