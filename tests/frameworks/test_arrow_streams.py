"""Datasets as streams of Arrow's C interface, and as sources of Polars and DuckDB: lazily, and only what is asked."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import ClosedError, MissingError, SchemaError, UniRecordDataset, Writer
from unirecord.dataset import tables

pa = pytest.importorskip("pyarrow")

ROWS = 200_000
SMALL = 4_096  # bytes that a stream itself takes
NAMES = ("red", "grün", 'b"l\\u%e', "")


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One part of numbers that are not packed to bits."""
    path = tmp_path_factory.mktemp("streams") / "numbers.urec"
    rng = np.random.default_rng(0)
    with Writer(path, {"i": "int64", "f": "float64", "k": "int32?"}) as writer:
        writer.write_batch({
            "i": rng.integers(-(1 << 63), (1 << 63) - 1, ROWS),
            "f": rng.standard_normal(ROWS),
            "k": np.ma.MaskedArray(rng.integers(-(1 << 31), 1 << 31, ROWS, np.int32), rng.random(ROWS) < 0.1),
        })  # fmt: skip
    return path


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of three parts, with values of every kind that a filter may ask for."""
    path = tmp_path_factory.mktemp("streams") / "mixed"
    schema = {
        "n": "int32", "u": "uint8?", "x": "float32?", "y": "float64", "s": "string?", "t": "bool?", "raw": "bytes",
        "a`b": "int64",
    }  # fmt: skip
    with Writer(path, schema, max_part_bytes=12_000) as writer:
        for n in range(1_000):
            writer.write({
                "n": n - 500,
                "u": None if n % 7 == 0 else n % 256,
                "x": None if n % 11 == 0 else float("nan") if n % 5 == 0 else n / 7,
                "y": float("nan") if n % 9 == 0 else n - 0.5,
                "s": None if n % 6 == 0 else NAMES[n % 4],
                "t": None if n % 8 == 0 else n % 3 == 0,
                "raw": bytes([n % 256]) * 10,
                "a`b": n * n,
            })  # fmt: skip
    return path


@pytest.fixture
def ds(mixed: Path) -> Iterator[UniRecordDataset]:
    with UniRecordDataset(mixed) as dataset:
        assert len(dataset.read_cursor.plan.data.parts) > 1
        yield dataset


# ---- who asks -----------------------------------------------------------------------------------------------


def by_pyarrow(ds: UniRecordDataset) -> Any:
    return pa.table(ds)


def by_reader(ds: UniRecordDataset) -> Any:
    return pa.RecordBatchReader.from_stream(ds).read_all()


def by_polars(ds: UniRecordDataset) -> Any:
    return pytest.importorskip("polars").DataFrame(ds).to_arrow()


def by_pandas(ds: UniRecordDataset) -> Any:
    return pa.Table.from_pandas(pytest.importorskip("pandas").DataFrame.from_arrow(ds))


def by_duckdb(ds: UniRecordDataset) -> Any:
    return pytest.importorskip("duckdb").sql("from ds").to_arrow_table()


CONSUMERS = pytest.mark.parametrize("consume", [by_pyarrow, by_reader, by_polars, by_pandas, by_duckdb])


@CONSUMERS
@pytest.mark.parametrize("narrowed", [False, True])
def test_consumers_get_all_rows_and_columns_in_their_stored_order(
    ds: UniRecordDataset, consume: Callable[[UniRecordDataset], Any], narrowed: bool
) -> None:
    view: Any = ds.view(shuffle=True, seed=3, shard_id=0, num_shards=2)
    if narrowed:
        view = view.view(where="n > 3 and t", columns=["raw", "n", "s"]).select(slice(2, 40))
    found, wanted = consume(view), view.to_batches().read_all()
    assert found.column_names == list(view.column_names)
    for name in ("n", "s", "raw"):
        assert found[name].to_pylist() == wanted[name].to_pylist()
    assert found.num_rows == view.num_rows


@CONSUMERS
def test_damage_is_an_error_with_our_message(
    mixed: Path, tmp_path: Path, consume: Callable[[UniRecordDataset], Any]
) -> None:
    with Writer(tmp_path / "x.urec", {"raw": "bytes"}) as writer:
        writer.write_batch({"raw": [bytes([n % 256]) * 100 for n in range(3_000)]})
    data = bytearray((tmp_path / "x.urec").read_bytes())
    data[data.rindex(bytes([7]) * 100)] ^= 1
    (tmp_path / "x.urec").write_bytes(data)
    with (
        UniRecordDataset(tmp_path / "x.urec") as ds,
        pytest.raises(Exception, match=r"x\.urec.*digest"),
    ):
        consume(ds)


@CONSUMERS
def test_a_closed_dataset_is_an_error_that_says_so(
    mixed: Path, consume: Callable[[UniRecordDataset], Any]
) -> None:
    ds = UniRecordDataset(mixed)
    ds.close()
    with pytest.raises(Exception, match="the dataset has been closed"):
        consume(ds)


def test_a_stream_of_a_dataset_that_is_closed_meanwhile_says_so(numbers: Path) -> None:
    ds = UniRecordDataset(numbers)
    reader = pa.RecordBatchReader.from_stream(ds)
    reader.read_next_batch()
    ds.close()
    with pytest.raises(Exception, match="the dataset has been closed"):
        reader.read_next_batch()
    with pytest.raises(ClosedError):
        ds.__arrow_c_stream__()


def test_a_stream_keeps_what_it_needs(numbers: Path) -> None:
    reader = pa.RecordBatchReader.from_stream(UniRecordDataset(numbers))
    gc.collect()
    assert reader.read_all()["i"].to_pylist() == UniRecordDataset(numbers).scalars(["i"])["i"].tolist()


def test_batches_are_made_when_they_are_asked_for(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    real = tables.arrow_array

    def counted(column: Any, values: Any) -> Any:
        made.append(len(values))
        return real(column, values)

    monkeypatch.setattr(tables, "arrow_array", counted)
    reader = pa.RecordBatchReader.from_stream(UniRecordDataset(numbers, columns=["i"]))
    assert pa.schema(UniRecordDataset(numbers)).names == ["i", "f", "k"]
    assert made == []
    reader.read_next_batch()
    assert made == [65_536]  # rows at a time, at most
    reader.read_all()
    assert sum(made) == ROWS
    assert max(made) == 65_536


@pytest.mark.skipif(os.name != "posix", reason="signals")
@CONSUMERS
def test_ctrl_c_is_kept_by_nobody(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, consume: Callable[[UniRecordDataset], Any]
) -> None:
    real = tables.arrow_array

    def slow(column: Any, values: Any) -> Any:
        time.sleep(0.2)
        return real(column, values)

    monkeypatch.setattr(tables, "arrow_array", slow)
    begun = time.monotonic()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))

    def interrupted() -> None:
        timer.start()
        try:
            consume(UniRecordDataset(numbers, columns=["i", "f", "k"]))
        except Exception:  # of another library, which knows the text alone
            for _ in range(50):
                time.sleep(0.1)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    timer.join()
    assert time.monotonic() - begun < 4


def test_without_pyarrow_the_error_says_what_to_install(mixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = UniRecordDataset(mixed)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for call in (ds.__arrow_c_stream__, ds.__arrow_c_schema__):
        with pytest.raises(MissingError, match=r"pip install 'unirecord\[arrow\]'"):
            call()


def test_rows_that_were_left_out_do_not_come_again(mixed: Path) -> None:
    ds = UniRecordDataset(mixed)
    ds.exclude(3)
    with pytest.raises(ValueError, match="exclude"):
        pa.table(ds)


def test_a_dataset_is_written_as_its_samples(mixed: Path, tmp_path: Path) -> None:
    ds = UniRecordDataset(mixed, columns=["n"], transform=lambda sample: {"m": int(sample["n"]) + 1})
    unirecord.write_dataset(ds.take(3), tmp_path / "out.urec", workers=1)
    assert UniRecordDataset(tmp_path / "out.urec").scalars(["m"])["m"].tolist() == [-499, -498, -497]


# ---- requests -----------------------------------------------------------------------------------------------


def test_a_requested_schema_is_given_where_values_have_a_way_to_it(numbers: Path) -> None:
    asked = pa.schema({"i": pa.string(), "f": pa.float32(), "k": pa.list_(pa.int8())})
    found = pa.RecordBatchReader.from_stream(UniRecordDataset(numbers).take(9), schema=asked)
    assert [field.type for field in found.schema] == [pa.string(), pa.float32(), pa.int32()]
    table = found.read_all()
    own = pa.table(UniRecordDataset(numbers).take(9))
    assert table["i"].to_pylist() == [str(i) for i in own["i"].to_pylist()]
    assert table["k"].equals(own["k"])


def test_a_request_for_other_columns_and_one_that_does_not_fit_are_refused(numbers: Path) -> None:
    ds = UniRecordDataset(numbers)
    with pytest.raises(SchemaError, match="columns are chosen by"):
        pa.RecordBatchReader.from_stream(ds, schema=pa.schema({"i": pa.int64()}))
    asked = pa.schema({"i": pa.int8(), "f": pa.float64(), "k": pa.int32()})
    with pytest.raises(Exception, match="column 'i' was requested as int8"):
        pa.RecordBatchReader.from_stream(ds, schema=asked).read_all()


# ---- without a copy -----------------------------------------------------------------------------------------


def test_numbers_of_one_part_are_not_copied(numbers: Path) -> None:
    ds = UniRecordDataset(numbers, columns=["i", "f"])
    own = ds.scalars()
    ds.to_batches().read_next_batch()  # what is made once
    before, peak, row = pa.total_allocated_bytes(), 0, 0
    for batch in pa.RecordBatchReader.from_stream(ds):
        peak = max(peak, pa.total_allocated_bytes() - before)
        for name in ("i", "f"):
            assert batch.column(name).buffers()[1].address == own[name].ctypes.data + row * 8
        row += len(batch)
    assert row == ROWS
    assert peak <= SMALL


def test_of_nullable_numbers_only_the_bits_of_nulls_are_made(numbers: Path) -> None:
    ds = UniRecordDataset(numbers, columns=["k"])
    ds.to_batches().read_next_batch()
    before, peak = pa.total_allocated_bytes(), 0
    for batch in pa.RecordBatchReader.from_stream(ds):
        peak = max(peak, pa.total_allocated_bytes() - before)
        del batch
    assert peak <= 65_536 // 8 + SMALL
    wanted = ds.scalars()["k"]
    assert pa.table(ds)["k"].to_pylist() == wanted.tolist()


def test_memory_stays_good_when_the_dataset_has_gone(numbers: Path) -> None:
    ds = UniRecordDataset(numbers, columns=["i"])
    wanted = ds.scalars()["i"].tolist()
    table = pa.table(ds)
    ds.close()
    del ds
    gc.collect()
    assert table["i"].to_pylist() == wanted


# ---- columns= is obeyed by every way out --------------------------------------------------------------------


def _exported(ds: UniRecordDataset, folder: Path) -> list[str]:
    unirecord.export(str(ds.path), folder / "x.parquet", columns=list(ds.column_names))
    parquet = pytest.importorskip("pyarrow.parquet")
    names: list[str] = parquet.read_schema(folder / "x.parquet").names
    return names


def _hf(name: str) -> Callable[[UniRecordDataset, Path], list[str]]:
    def names(ds: UniRecordDataset, _folder: Path) -> list[str]:
        pytest.importorskip("datasets")
        found = getattr(unirecord.hf, name)(ds)
        assert list(next(iter(found))) == list(found.features)
        return list(found.features)

    return names


def _by_scan(ds: UniRecordDataset, _folder: Path) -> list[str]:
    pytest.importorskip("polars")
    frame = unirecord.polars.scan(ds)
    assert frame.collect_schema().names() == frame.collect().columns
    names: list[str] = frame.collect().columns
    return names


WAYS: dict[str, Callable[[UniRecordDataset, Path], list[str]]] = {
    "to_arrow": lambda ds, _: list(ds.to_arrow().column_names),
    "to_pandas": lambda ds, _: list(ds.to_pandas().columns),
    "to_batches": lambda ds, _: list(ds.to_batches().read_all().column_names),
    "stream": lambda ds, _: list(pa.table(ds).column_names),
    "schema": lambda ds, _: list(pa.schema(ds).names),
    "scalars": lambda ds, _: list(ds.scalars()),
    "samples": lambda ds, _: list(ds[0]),
    "batches": lambda ds, _: list(next(iter(ds.batches(4)))),
    "export": _exported,
    "hf.dataset": _hf("dataset"),
    "hf.table": _hf("table"),
    "polars.scan": _by_scan,
    "arrow.dataset": lambda ds, _: list(unirecord.arrow.dataset(ds).to_table().column_names),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("chosen", [["s", "n"], ["raw", "s", "x"], ["raw"]])
def test_columns_are_obeyed_by_every_way_out(
    mixed: Path, tmp_path: Path, way: str, chosen: list[str]
) -> None:
    opened = UniRecordDataset(mixed, columns=chosen)
    for ds in (opened, UniRecordDataset(mixed).view(columns=chosen)):
        if way == "scalars":  # of what was chosen those that are scalar, and an error where none is
            wanted = [name for name in chosen if name != "raw"]
            if not wanted:
                with pytest.raises(ValueError, match="none of them scalar"):
                    ds.scalars()
                continue
        else:
            wanted = chosen
        assert WAYS[way](ds, tmp_path) == wanted
        (tmp_path / "x.parquet").unlink(missing_ok=True)


# ---- pushed down --------------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is read: names of columns, and conditions."""
    asked: list[Any] = []
    batches, view = UniRecordDataset.to_batches, UniRecordDataset.view

    def to_batches(self: Any, columns: Any = None, **options: Any) -> Any:
        asked.append(list(columns))
        return batches(self, columns, **options)

    def seen(self: Any, **options: Any) -> Any:
        if "where" in options:
            asked.append(options["where"])
        return view(self, **options)

    monkeypatch.setattr(UniRecordDataset, "to_batches", to_batches)
    monkeypatch.setattr(UniRecordDataset, "view", seen)
    return asked


def test_duckdb_reads_the_columns_of_its_query_alone(ds: UniRecordDataset, read: list[Any]) -> None:
    duckdb = pytest.importorskip("duckdb")
    rows = unirecord.arrow.dataset(ds)
    assert duckdb.sql("select sum(n) from rows where u > 100 and s = 'red'").fetchall() == [
        (sum(n - 500 for n in range(1_000) if n % 7 and n % 256 > 100 and n % 6 and n % 4 == 0),)
    ]
    assert read == [["n", "u", "s"]]
    assert duckdb.sql("select count(*) from rows").fetchall() == [(1_000,)]
    assert read[1:] == [["n"]]
    assert rows is not None


def test_the_dataset_of_pyarrow_answers_as_others_do(ds: UniRecordDataset) -> None:
    import pyarrow.compute as pc
    import pyarrow.dataset

    ds = ds.view(columns=["n", "u", "s", "t", "raw"])  # a NaN equals nothing
    rows, table = unirecord.arrow.dataset(ds), pa.table(ds)
    condition = (pc.field("n") > 3) & (pc.field("t") == True)  # noqa: E712
    wanted = table.filter(condition)
    assert rows.to_table().equals(table)
    assert rows.to_table(columns=["s"], filter=condition).equals(wanted.select(["s"]))
    assert rows.count_rows(filter=condition) == len(wanted)
    assert rows.count_rows() == len(table)
    assert rows.head(5, columns=["n"]).equals(table.select(["n"]).slice(0, 5))
    assert rows.filter(condition).filter(pc.field("n") > 7).to_table().equals(
        wanted.filter(pc.field("n") > 7)
    )  # fmt: skip
    assert pa.Table.from_batches(rows.to_batches(columns=["u"])).equals(table.select(["u"]))
    assert isinstance(rows, pyarrow.dataset.Dataset)
    with pytest.raises(TypeError, match="columns are names"):
        rows.to_table(columns={"m": pc.field("n")})
    for past in (
        lambda: pyarrow.dataset.dataset([rows]).to_table(),
        lambda: pyarrow.dataset.Scanner.from_dataset(rows).to_table(),
        lambda: next(iter(rows.get_fragments())).to_table(),
        lambda: rows.sort_by("n"),
        lambda: rows.replace_schema(rows.schema).to_table(),
    ):
        with pytest.raises(FileNotFoundError, match="read by scanner"):
            past()


def test_polars_reads_the_columns_and_rows_of_its_query_alone(ds: UniRecordDataset, read: list[Any]) -> None:
    polars = pytest.importorskip("polars")
    rows = unirecord.polars.scan(ds)
    c = polars.col
    found = rows.filter((c("n") >= 10) & (c("s").str.len_chars() > 3) & (c("u") == 20)).select("y").collect()
    kept = [n for n in range(510, 1_000) if n % 256 == 20 and n % 7 and n % 6 and len(NAMES[n % 4]) > 3]
    assert found["y"].to_list() == [n - 0.5 for n in kept]
    condition, columns = read
    assert sorted(condition.split(" and ")) == ["(`n` >= 10)", "(`u` == 20)"]
    assert columns == ["n", "u", "y", "s"]
    assert rows.select("n").head(3).collect()["n"].to_list() == [-500, -499, -498]
    assert rows.select(polars.len()).collect().item() == 1_000


def test_polars_scans_a_path_and_says_what_it_cannot(mixed: Path) -> None:
    polars = pytest.importorskip("polars")
    frame = unirecord.polars.scan(mixed).group_by("t").agg(polars.len()).collect()
    assert frame["len"].sum() == 1_000
    ds = UniRecordDataset(mixed)
    with pytest.raises(TypeError, match=r"drawn\.dataset"):
        unirecord.polars.scan(unirecord.bucketed(ds, "raw", batch_size=4))
    with pytest.raises(ValueError, match="as they are stored"):
        unirecord.polars.scan(unirecord.mix({"a": ds, "b": ds})).collect()


def predicates() -> st.SearchStrategy[Any]:
    polars = pytest.importorskip("polars")
    c = polars.col
    edge = st.sampled_from([-501, -500, -1, 0, 1, 7, 100, 255, 256, 499, 1 << 40])
    real = st.sampled_from([-1.0, 0.0, 0.1, 1.5, 3.0, 70.25, float("inf"), float("nan"), 1e300])
    compare = st.sampled_from([
        lambda a, b: a == b, lambda a, b: a != b, lambda a, b: a < b,
        lambda a, b: a <= b, lambda a, b: a > b, lambda a, b: a >= b, lambda a, b: b < a,
        lambda a, b: a.eq_missing(b), lambda a, b: a.is_in([b, b]),
    ])  # fmt: skip
    whole, floats = st.sampled_from(["n", "u", "a`b"]), st.sampled_from(["x", "y"])
    text = st.sampled_from([*NAMES, "re", "%", "\\u"])
    closed = st.sampled_from(["both", "left", "right", "none"])
    leaves = st.one_of(
        st.builds(lambda f, a, b: f(c(a), b), compare, whole, edge),
        st.builds(lambda f, a, b: f(c(a), b), compare, whole, real),
        st.builds(lambda f, a, b: f(c(a), b), compare, floats, real),
        st.builds(lambda f, a, b: f(c(a), b), compare, floats, edge),
        st.builds(lambda f, b: f(c("s"), b), compare, text),
        st.builds(lambda b: c("s").str.starts_with(b), text),
        st.builds(lambda b: c("s").str.ends_with(b), text),
        st.builds(lambda a, b: c(a).is_in(b), whole, st.lists(edge, max_size=4)),
        st.builds(lambda b: c("s").is_in(b), st.lists(st.none() | text, max_size=4)),
        st.builds(lambda a, low, high, ends: c(a).is_between(low, high, ends), whole, edge, edge, closed),
        st.builds(lambda a, low, high, ends: c(a).is_between(low, high, ends), floats, real, real, closed),
        st.builds(lambda a: c(a).is_null(), st.sampled_from(["n", "u", "x", "s", "t", "raw"])),
        st.builds(lambda a: c(a).is_not_null(), st.sampled_from(["n", "u", "x", "s", "t", "raw"])),
        st.builds(lambda a: c(a).is_nan(), floats),
        st.builds(lambda: c("t")),
        st.builds(lambda: c("n") < c("u")),
        st.builds(lambda: (c("n") + 1) % 3 == 0),
        st.builds(lambda b: c("t") == b, st.booleans()),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(lambda a, b: a & b, inner, inner),
            st.builds(lambda a, b: a | b, inner, inner),
            st.builds(lambda a, b: a ^ b, inner, inner),
            st.builds(lambda a: ~a, inner),
        ),
        max_leaves=5,
    )


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_what_polars_filters_is_what_a_filter_of_the_whole_table_gives(mixed: Path, data: Any) -> None:
    polars = pytest.importorskip("polars")
    predicate = data.draw(predicates())
    limit = data.draw(st.none() | st.integers(0, 1_100))
    with UniRecordDataset(mixed) as ds:
        whole, rows = polars.DataFrame(ds).lazy(), unirecord.polars.scan(ds)
        if limit is not None:
            whole, rows = whole.head(limit), rows.head(limit)
        try:
            wanted = whole.filter(predicate).collect()
        except polars.exceptions.PolarsError:
            return  # a comparison that Polars refuses
        assert rows.filter(predicate).collect().equals(wanted)
