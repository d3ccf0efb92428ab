"""`ds.to_batches()` is a RecordBatchReader that DuckDB, Polars and pandas read to its end, or fail with its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from unirecord import UniRecordDataset, Writer

pa = pytest.importorskip("pyarrow")

ROWS = 3_000
BYTES = 100
NAMES = ("red", "green", "blue")


def raw(n: int) -> bytes:
    return bytes([n % 256]) * BYTES


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("batches") / "x.urec"
    with Writer(path, {"n": "int64", "name": "string?", "raw": "bytes"}) as writer:
        writer.write_batch({
            "n": list(range(ROWS)),
            "name": [None if n % 10 == 0 else NAMES[n % 3] for n in range(ROWS)],
            "raw": [raw(n) for n in range(ROWS)],
        })  # fmt: skip
    return path


@pytest.fixture
def ds(written: Path) -> Iterator[UniRecordDataset]:
    with UniRecordDataset(written) as dataset:
        yield dataset


@pytest.fixture
def damaged(written: Path, tmp_path: Path) -> Path:
    """The same dataset with one bit of the bytes of a late row turned."""
    path = tmp_path / "damaged.urec"
    data = bytearray(written.read_bytes())
    data[data.rindex(raw(ROWS - 50))] ^= 1
    path.write_bytes(data)
    Path(f"{path}.idx").write_bytes(Path(f"{written}.idx").read_bytes())
    return path


def by_duckdb(reader: Any) -> list[int]:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("reader", reader)
        return [
            n for (n,) in connection.execute("select n from reader where octet_length(raw) > 0").fetchall()
        ]


def by_polars(reader: Any) -> list[int]:
    polars = pytest.importorskip("polars")
    return list(polars.from_arrow(reader).filter(polars.col("raw").bin.size() > 0)["n"])


def by_pandas(reader: Any) -> list[int]:
    pytest.importorskip("pandas")
    frame = reader.read_pandas()
    return list(frame["n"][frame["raw"].str.len() > 0])


ENGINES = pytest.mark.parametrize("query", [by_duckdb, by_polars, by_pandas])


def test_duckdb_groups_and_counts_what_the_dataset_holds(ds: UniRecordDataset) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("rows", ds.to_batches(["name", "raw"], batch_size=700))
        found = connection.execute(
            "select name, count(*), sum(octet_length(raw)) from rows group by name order by name nulls first"
        ).fetchall()
    held = [None if n % 10 == 0 else NAMES[n % 3] for n in range(ROWS)]
    counts = {name: held.count(name) for name in (None, *sorted(NAMES))}
    assert found == [(name, count, count * BYTES) for name, count in counts.items()]


@ENGINES
def test_every_row_is_read_once(ds: UniRecordDataset, query: Callable[[Any], list[int]]) -> None:
    assert sorted(query(ds.to_batches(["n", "raw"], batch_size=400))) == list(range(ROWS))


@ENGINES
def test_only_rows_of_a_view_are_read(ds: UniRecordDataset, query: Callable[[Any], list[int]]) -> None:
    view = ds.view(where="n >= 2000 and name == 'red'")
    wanted = [n for n in range(2000, ROWS) if n % 10 and n % 3 == 0]
    assert sorted(query(view.to_batches(["n", "raw"]))) == wanted


@ENGINES
def test_damage_is_an_error_of_the_query_and_no_shorter_answer(
    damaged: Path, query: Callable[[Any], list[int]]
) -> None:
    with (
        UniRecordDataset(damaged, verify="always") as ds,
        pytest.raises(Exception, match=r"damaged\.urec.*digest"),
    ):
        query(ds.to_batches(["n", "raw"], batch_size=200))


def test_all_rows_come_in_stored_order_in_batches_of_the_size_asked_for(written: Path) -> None:
    with UniRecordDataset(written, shuffle=True, seed=3, shard_id=1, num_shards=2) as ds:
        batches = list(ds.to_batches(["n"], batch_size=700))
    assert [len(batch) for batch in batches] == [700, 700, 700, 700, 200]
    assert [n for batch in batches for n in batch.column("n").to_pylist()] == list(range(ROWS))


def test_schema_is_known_before_rows_are_read(ds: UniRecordDataset) -> None:
    reader = ds.to_batches(["raw", "name"])
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema.names == ["raw", "name"]
    assert reader.schema.field("name").nullable


def test_a_reader_that_was_read_is_empty_and_another_begins_anew(ds: UniRecordDataset) -> None:
    reader = ds.to_batches(["n"])
    assert len(reader.read_all()) == ROWS
    assert len(reader.read_all()) == 0
    assert len(ds.to_batches(["n"]).read_all()) == ROWS


def test_a_reader_left_after_a_batch_leaves_the_dataset_as_it_was(ds: UniRecordDataset) -> None:
    with ds.to_batches(["n"], batch_size=10) as reader:
        assert reader.read_next_batch().column("n").to_pylist() == list(range(10))
    assert len(ds.to_batches(["n"]).read_all()) == ROWS


def test_a_column_that_is_not_there_is_refused_at_once(ds: UniRecordDataset) -> None:
    with pytest.raises(Exception, match="nosuch"):
        ds.to_batches(["nosuch"])
