"""ds.scalars(), to_arrow(), to_pandas(): scalar columns of the selected rows, from the index alone."""

from __future__ import annotations

import pickle
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


WAYS = {
    **{name: narrow for name, (narrow, _) in SELECTIONS.items() if narrow is not None},
    "where": lambda ds: ds.view(where="label == 3"),
    "skip": lambda ds: ds.skip(5),
    "split": lambda ds: ds.split(0.5)[1],
    "shuffled": lambda ds: ds.view(shuffle=True),
    "shard": lambda ds: ds.view(shard_id=1, num_shards=3),
    "all of it": lambda ds: ds.view(where="label >= 3", shuffle=True, shard_id=1, num_shards=2),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", ["rows", "samples"])
def test_row_numbers_index_a_column_of_all_rows_and_are_refused_by_any_other(
    path: Path, way: str, order: str
) -> None:
    whole = UniRecordDataset(path)
    ds = WAYS[way](whole)
    ids = ds.order.row_ids()
    rows = (
        ids if order == "samples" else ds.view(shuffle=False, shard_id=0, num_shards=1).order.row_ids()
    ).tolist()
    for name, values in ds.scalars(order=order).items():
        of_all = whole.scalars([name])[name]
        right = [expected(i)[name] for i in ids.tolist()]
        assert of_all[ids].tolist() == right  # the whole data's columns take them
        if order == "samples":
            assert values.tolist() == right
        if rows == list(range(len(rows))):
            assert values[ids].tolist() == right  # value i is that of row i
            continue
        for wrong in (ids, ids[:1], ids[ids >= 0]):
            for index in (values.__getitem__, values.take):
                with pytest.raises(IndexError, match=r'scalars\(order="samples"\)'):
                    index(wrong)
        places = np.argsort(ids)  # no row numbers
        if order == "samples":
            assert values[places].tolist() == [expected(i)[name] for i in sorted(ids.tolist())]


def test_columns_and_row_numbers_are_arrays_as_others_are(path: Path) -> None:
    ds = UniRecordDataset(path, where="label == 3")
    label, ids = ds["label"], ds.order.row_ids()
    assert (label == 3).all()
    assert ids[label == 3].tolist() == ids.tolist()
    assert repr(ids[:2]) == "array([ 3, 10])"
    assert repr(label[:2]) == "array([3, 3], dtype=int32)"
    assert pickle.loads(pickle.dumps(label)).tolist() == label.tolist()
    assert ds.scalars(["score"])["score"].mean() == np.mean([i / 2 for i in ids.tolist() if i % 5])


def test_one_whole_part_is_a_view(tmp_path: Path) -> None:
    with Writer(tmp_path / "a.urec", {"x": "int64"}) as writer:
        numbers = np.random.default_rng(0).integers(-(1 << 63), (1 << 63) - 1, 1000)  # not packed to bits
        writer.write_batch({"x": numbers})
    ds = UniRecordDataset(tmp_path / "a.urec")
    x = ds.scalars(["x"])["x"]
    assert not x.flags.owndata
    assert not x.flags.writeable
    assert x.tolist() == numbers.tolist()
    assert ds.take(10).scalars(["x"])["x"].ctypes.data == x.ctypes.data


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
