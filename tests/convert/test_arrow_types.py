"""Times, decimals and classes: from Arrow, pandas, Polars and Hugging Face to here, and back, with types and values."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import unirecord
from unirecord import UniRecordDataset, Writer, write_dataset
from unirecord.convert.export import export
from unirecord.errors import SchemaError
from unirecord.format.meaning import as_stored

ZONES = st.sampled_from([None, "UTC", "Europe/Paris", "+02:00", "America/Argentina/Buenos_Aires"])
UNITS = st.sampled_from(["s", "ms", "us", "ns"])
FAR = 2**62


@st.composite
def arrays(draw: st.DrawFn, rows: int, bits: int = 63) -> pa.Array:
    """Values of one type that Arrow and a logical type have in common; times of so many bits."""
    least, most = -(1 << bits), (1 << bits) - 1
    name = draw(st.sampled_from(["timestamp", "date", "time", "duration", "decimal"]))
    nulls = draw(st.booleans())

    def drawn(one: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(one | st.none() if nulls else one, min_size=rows, max_size=rows))

    if name == "decimal":
        precision = draw(st.integers(1, 38))
        scale = draw(st.integers(0, precision))
        unscaled = drawn(st.integers(-(10**precision) + 1, 10**precision - 1))
        texts = [
            None if v is None else Decimal((int(v < 0), tuple(map(int, str(abs(v)))), -scale))
            for v in unscaled
        ]
        return pa.array(texts, pa.decimal128(precision, scale))
    unit = draw(UNITS)
    if name == "timestamp":
        kind, bounds = pa.timestamp(unit, draw(ZONES)), (least, most)
    elif name == "duration":
        kind, bounds = pa.duration(unit), (least, most)
    elif name == "date":
        kind, bounds = pa.date32(), (-(1 << 31), (1 << 31) - 1)
    else:
        per_day = 86_400 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        kind, bounds = (pa.time32 if unit in ("s", "ms") else pa.time64)(unit), (0, per_day - 1)
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(drawn(st.integers(*bounds)), width).view(kind)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=25)
@given(st.data())
def test_types_and_values_of_arrow_come_back(tmp_path: Path, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 5))
    table = pa.table({f"c{i}": data.draw(arrays(rows)) for i in range(data.draw(st.integers(1, 4)))})
    write_dataset(table, tmp_path / "out.urec", overwrite=True)
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        back = ds.to_batches().read_all()
        assert back.schema.types == table.schema.types
        assert all(mine.equals(its) for mine, its in zip(back.columns, table.columns, strict=True))
        scalar = [column.name for column in ds.schema if not column.is_blob]
        for name in scalar:
            assert ds.to_arrow([name])[name].equals(table[name])
        for field in back.schema:
            assert (field.metadata or {}) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=6)
@given(st.data())
def test_they_come_back_through_parquet(tmp_path: Path, data: st.DataObject) -> None:
    rows = data.draw(st.integers(1, 5))
    # Parquet has no seconds: they become milliseconds
    table = pa.table({f"c{i}": data.draw(arrays(rows, bits=50)) for i in range(3)})
    write_dataset(table, tmp_path / "out.urec", overwrite=True)
    export(tmp_path / "out.urec", tmp_path / "out.parquet", overwrite=True)
    written = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    for its, mine in zip(written.columns, table.columns, strict=True):
        assert its.type == mine.type or mine.type in (
            pa.time32("s"),
            pa.timestamp("s", getattr(mine.type, "tz", None)),
        )
        assert its.cast(mine.type).equals(mine)
    write_dataset(tmp_path / "out.parquet", tmp_path / "again.urec", overwrite=True)
    with UniRecordDataset(tmp_path / "again.urec") as ds:
        back = ds.to_batches().read_all()
        assert all(
            mine.cast(its.type).equals(its) for mine, its in zip(back.columns, written.columns, strict=True)
        )


def test_times_beyond_what_nanoseconds_hold_are_exact(tmp_path: Path) -> None:
    table = pa.table(
        {
            "s": pa.array([FAR], pa.timestamp("s")),
            "d": pa.array([10**7], pa.date32()),
            "l": pa.array([[FAR]], pa.list_(pa.timestamp("s"))),
        }
    )
    write_dataset(table, tmp_path / "out.urec")
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert as_stored(ds[0]["s"]) == FAR
        assert ds.to_batches().read_all()["l"].type == pa.large_list(pa.timestamp("s"))
        assert ds.to_batches().read_all()["l"].cast(pa.large_list(pa.int64())).to_pylist() == [[FAR]]


def test_the_way_in_may_be_another_unit_and_is_exact_or_refused(tmp_path: Path) -> None:
    table = pa.table(
        {
            "t": pa.array([1_500, None], pa.timestamp("ms", "UTC")),
            "d": pa.array([86_400_000] * 2, pa.date64()),
        }
    )
    asked: dict[str, Any] = {
        "t": {"type": "int64?", "logical": {"type": "timestamp", "unit": "us", "zone": "Europe/Paris"}}
    }
    write_dataset(table, tmp_path / "a.urec", schema=asked)
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        assert [as_stored(ds[i]["t"]) for i in range(2)] == [1_500_000, None]
        assert as_stored(ds[0]["d"]) == 1
    for said, spec in {
        "does not fit timestamp": {
            "type": "int64?",
            "logical": {"type": "timestamp", "unit": "s", "zone": "UTC"},
        },
        "only one of them has a time zone": {
            "type": "int64?",
            "logical": {"type": "timestamp", "unit": "ms"},
        },
    }.items():
        with pytest.raises(SchemaError, match=f"column 't': .*{said}"):
            write_dataset(table, tmp_path / "b.urec", schema={"t": spec})


def test_text_may_be_asked_for(tmp_path: Path) -> None:
    table = pa.table(
        {
            "t": pa.array([0, None], pa.timestamp("us", "UTC")),
            "d": pa.array([0, 1], pa.date32()),
            "p": pa.array([Decimal("1.50"), Decimal("-0.05")]),
            "w": pa.array([Decimal("1.50"), None], pa.decimal128(38, 2)),
            "h": pa.array([Decimal("1e40"), None], pa.decimal256(60, 0)),
        }
    )
    texts = {"t": "string?", "d": "string", "p": "string", "w": "string?"}
    write_dataset(table, tmp_path / "out.urec", schema=texts)
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert ds[0] == {
            "t": "1970-01-01T00:00:00Z",
            "d": "1970-01-01",
            "p": "1.50",
            "w": "1.50",
            "h": f"1{'0' * 40}",
        }
        assert ds[1] == {"t": None, "d": "1970-01-02", "p": "-0.05", "w": None, "h": None}


@pytest.mark.parametrize(
    ("kind", "said", "values"),
    [
        (pa.decimal128(9, -2), (11, 0), ["1500", None, "-600"]),
        (pa.decimal128(30, -8), (38, 0), [f"1{'0' * 37}", None, "-100000000"]),
        (pa.decimal128(3, 5), (5, 5), ["0.00999", None, "-0.00001"]),
        (pa.decimal256(20, 2), (20, 2), ["1.25", None, "-123456789012345678.75"]),
        (pa.decimal32(5, 1), (5, 1), ["1.5", None, "-9999.9"]),
    ],
)
def test_decimals_of_any_scale_stay_decimals(
    kind: Any, said: tuple[int, int], values: list[str | None], tmp_path: Path
) -> None:
    given = [None if value is None else Decimal(value) for value in values]
    # What has more places than digits pyarrow makes of nothing.
    made = pa.decimal128(*said) if kind.scale > kind.precision else kind
    array = pa.array(given, made).view(kind)
    write_dataset(pa.table({"p": array}), tmp_path / "out.urec")
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert ds.schema["p"].logical == {"type": "decimal", "precision": said[0], "scale": said[1]}
        assert [ds.schema["p"].decimal(row["p"]) for row in ds] == given
        assert pa.table(ds)["p"].to_pylist() == given
        assert len(ds.view(where="p < 0")) == 1


def test_an_ordered_dictionary_is_classes_and_another_is_strings(tmp_path: Path) -> None:
    frame = pandas.DataFrame(
        {
            "size": pandas.Categorical(["S", None, "L"], categories=["S", "M", "L"], ordered=True),
            "city": pandas.Categorical(["Rome", "Bonn", "Rome"]),
        }
    )
    write_dataset(frame, tmp_path / "out.urec")
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        assert ds.schema["size"].classes == ("S", "M", "L")
        assert str(ds.schema["size"]) == "int32?"
        assert [ds[i]["size"] for i in range(3)] == [0, None, 2]
        assert ds[0]["city"] == "Rome"
        back = ds.to_pandas()
        assert list(back["size"].cat.categories) == ["S", "M", "L"]
        assert back["size"].tolist()[::2] == ["S", "L"]
    enum = polars.DataFrame({"e": polars.Series(["x", "y"], dtype=polars.Enum(["y", "x"]))})
    write_dataset(enum, tmp_path / "enum.urec")
    with UniRecordDataset(tmp_path / "enum.urec") as ds:
        assert ds.schema["e"].classes == ("y", "x")
        assert polars.DataFrame(ds.to_arrow())["e"].to_list() == ["x", "y"]


@pytest.mark.parametrize("kind", ["parquet", "arrow", "lance"])
def test_classes_keep_names_that_do_not_occur_and_their_order(tmp_path: Path, kind: str) -> None:
    spec = {"type": "uint8?", "logical": {"type": "class", "names": ["cat", "dog", "owl"]}}
    with Writer(tmp_path / "a.urec", {"label": spec, "n": "int32"}) as writer:
        for i, label in enumerate([1, 0, None, 1]):
            writer.write({"label": label, "n": i})
    export(tmp_path / "a.urec", tmp_path / f"out.{kind}")
    write_dataset(tmp_path / f"out.{kind}", tmp_path / "b.urec")
    with UniRecordDataset(tmp_path / "b.urec") as ds:
        assert ds.schema.to_spec()["label"] == spec
        assert [ds[i]["label"] for i in range(4)] == [1, 0, None, 1]
        assert ds.to_arrow()["label"].to_pylist() == ["dog", "cat", None, "dog"]


def test_no_label_is_null_in_arrow_and_other_numbers_of_no_class_are_refused(tmp_path: Path) -> None:
    spec = {"type": "int32", "logical": {"type": "class", "names": ["cat", "dog"]}}
    with Writer(tmp_path / "a.urec", {"label": spec}) as writer:
        writer.write_batch({"label": [1, -1, 0]})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        assert ds.to_arrow()["label"].to_pylist() == ["dog", None, "cat"]
        assert list(unirecord.hf.table(ds)["label"]) == [1, -1, 0]
        assert unirecord.hf.table(ds).features["label"] == datasets.ClassLabel(names=["cat", "dog"])
    with Writer(tmp_path / "b.urec", {"label": spec}) as writer:
        writer.write_batch({"label": [1, 2]})
    with (
        UniRecordDataset(tmp_path / "b.urec") as ds,
        pytest.raises(SchemaError, match="'label': 2 is no class"),
    ):
        ds.to_arrow()


def test_words_become_classes_that_were_asked_for(tmp_path: Path) -> None:
    spec = {"type": "uint8", "logical": {"type": "class", "names": ["cat", "dog"]}}
    write_dataset(pa.table({"label": ["dog", "cat"]}), tmp_path / "a.urec", schema={"label": spec})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        assert [ds[i]["label"] for i in range(2)] == [1, 0]
    with pytest.raises(SchemaError, match=r"'owl' \(value 1 of its batch\) is no class of the column"):
        write_dataset(pa.table({"label": ["dog", "owl"]}), tmp_path / "b.urec", schema={"label": spec})


def test_hugging_face_gets_and_gives_them(tmp_path: Path) -> None:
    features = datasets.Features(
        {
            "t": datasets.Value("timestamp[us, tz=UTC]"),
            "d": datasets.Value("date32"),
            "p": datasets.Value("decimal128(10, 2)"),
            "s": datasets.Value("duration[ms]"),
        }
    )
    row = {
        "t": datetime.datetime(2025, 6, 1, 12, tzinfo=datetime.UTC),
        "d": datetime.date(2025, 6, 1),
        "p": Decimal("9.99"),
        "s": datetime.timedelta(seconds=3),
    }
    given = datasets.Dataset.from_list([row], features=features)
    write_dataset(given, tmp_path / "out.urec")
    with UniRecordDataset(tmp_path / "out.urec") as ds:
        back = unirecord.hf.dataset(ds)
        assert back.features == features
        assert next(iter(back)) == row
        assert unirecord.hf.table(ds).features == features
        assert np.array_equal(ds[0]["p"], 999)


# How Arrow lays values out is no type of a column.

_N = 3_000
_RUNS = pa.array(range(2, _N + 1, 2), pa.int32())
_HALF = _N // 2
LAID_OUT: dict[str, Callable[[], tuple[Any, Any]]] = {
    "runs of numbers": lambda: _runs(pa.array([None if i % 700 == 699 else i / 2 for i in range(_HALF)])),
    "runs of texts": lambda: _runs(pa.array([f"t{i}" for i in range(_HALF)])),
    "runs of views of texts": lambda: _runs(pa.array([f"t{i}" for i in range(_HALF)], pa.string_view())),
    "runs of times": lambda: _runs(pa.array(range(_HALF), pa.timestamp("us", "Europe/Paris"))),
    "runs of words": lambda: _runs(pa.array([f"t{i % 7}" for i in range(_HALF)]).dictionary_encode()),
    "runs of lists": lambda: _runs(pa.array([[i] * (i % 3) for i in range(_HALF)])),
    "views of lists": lambda: _views(
        pa.list_view(pa.int32()), pa.list_(pa.int32()), [[i] * (i % 3) for i in range(_N)]
    ),
    "large views": lambda: _views(
        pa.large_list_view(pa.float32()), pa.large_list(pa.float32()),
        [None if i == 2_000 else [i, 1] for i in range(_N)],
    ),
    "views of views": lambda: _views(
        pa.list_view(pa.list_view(pa.int64())), pa.list_(pa.list_(pa.int64())),
        [[[i], [i, 2]][: i % 3] for i in range(_N)],
    ),
    "views in structs": lambda: _views(
        pa.struct([("a", pa.list_view(pa.int16()))]), pa.struct([("a", pa.list_(pa.int16()))]),
        [None if i == 5 else {"a": [i] * (i % 3)} for i in range(_N)],
    ),
    "views of texts": lambda: _views(pa.string_view(), pa.string(), [None if i == 5 else f"t{i}" for i in range(_N)]),
    "large texts": lambda: _views(pa.large_string(), pa.string(), [f"t{i}" for i in range(_N)]),
}  # fmt: skip


def _runs(values: Any) -> tuple[Any, Any]:
    plain = pa.array(values.to_pylist(), values.type if values.type != pa.string_view() else pa.string())
    return pa.RunEndEncodedArray.from_arrays(_RUNS, values), plain.take(pa.array([i // 2 for i in range(_N)]))


def _views(kind: Any, plain: Any, values: list[Any]) -> tuple[Any, Any]:
    return pa.array(values, kind), pa.array(values, plain)


@pytest.mark.parametrize("what", LAID_OUT)
def test_how_values_are_laid_out_changes_no_column(tmp_path: Path, what: str) -> None:
    laid_out, plain = LAID_OUT[what]()
    specs = []
    for name, every in (("plain", plain), ("other", laid_out)):
        chunked = pa.chunked_array([every.slice(0, 7), every.slice(7)])
        for place, rows in enumerate((every, chunked, every[1_001:2_000])):
            path = tmp_path / f"{name}{place}.urec"
            write_dataset(pa.table({"x": rows}), path)
            ds = UniRecordDataset(path, columns=["x"])
            assert pa.table(ds).column("x").to_pylist() == rows.to_pylist()
            specs.append(ds.schema.to_spec())
    assert specs[:3] == specs[3:]
    table = pa.table({"x": laid_out})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1_100)
    write_dataset(tmp_path / "x.arrow", tmp_path / "file.urec")
    ds = UniRecordDataset(tmp_path / "file.urec", columns=["x"])
    assert pa.table(ds).column("x").to_pylist() == plain.to_pylist()
    assert ds.schema.to_spec() == specs[0]
