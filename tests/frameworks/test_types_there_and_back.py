"""Types of columns in Arrow, Parquet, pandas, Polars, DuckDB and Hugging Face, and as what they come back."""

from __future__ import annotations

import operator
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

import unirecord
import unirecord.frameworks.polars
import unirecord.hf
import unirecord.polars
from unirecord import UniRecordDataset, Writer, write_dataset

PAGE = Path(__file__).parents[2] / "docs" / "exporting.md"
_CLASSES = {"type": "int32", "logical": {"type": "class", "names": ["low", "mid", "high"]}}
_WORDS: dict[str, Any] = {"type": "string", "annotations": {"dictionary": "unordered"}}
_ORDERED = {**_CLASSES, "annotations": {"dictionary": "ordered"}}
_NAMED: dict[str, Any] = {
    "classes": _CLASSES,
    "classes that were ordered": _ORDERED,
    "strings that were a dictionary": _WORDS,
}


def table(heading: str) -> list[list[str]]:
    """The rows of the table that begins with this cell."""
    text = PAGE.read_text()
    start = text.index(f"\n| {heading} |") + 1
    lines = text[start : text.index("\n\n", start)].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


TYPES = table("column")
COLUMNS: dict[str, Any] = {f"c{i}": _NAMED.get(row[0], row[0].strip("`")) for i, row in enumerate(TYPES)}
WAYS = ("Arrow", "Parquet", "pandas", "Polars", "DuckDB", "Hugging Face")


def values(row: int) -> dict[str, Any]:
    """A value of each column that none of the ways rounds."""
    found: dict[str, Any] = {}
    for name, spec in COLUMNS.items():
        if spec in ("string", _WORDS):
            found[name] = ["b", "a", "b"][row]
        elif isinstance(spec, dict):
            found[name] = [2, 0, 1][row]
        elif spec.startswith("decimal"):
            found[name] = Decimal(12345678901234567890 if spec == "decimal[38, 2]" else 7 + row)
        elif spec.startswith(("time[", "duration")):
            found[name] = 1_000 * (row + 1)
        else:
            found[name] = 20_000 + row
    return found


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The same rows as each library has them."""
    folder = tmp_path_factory.mktemp("types")
    with Writer(folder / "data.urec", COLUMNS) as writer:
        for row in range(3):
            writer.write(values(row))
    ds = UniRecordDataset(folder / "data.urec", columns=list(COLUMNS))
    unirecord.export(folder / "data.urec", folder / "rows.parquet")
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return {
        "dataset": ds,
        "Arrow": pyarrow.table(ds),
        "Parquet": str(folder / "rows.parquet"),
        "pandas": ds.to_pandas(),
        "Polars": polars.DataFrame(ds),
        "DuckDB": connection.from_arrow(pyarrow.table(ds)),
        "Hugging Face": unirecord.hf.table(ds),
        "connection": connection,
    }


def _arrow(kind: Any) -> str:
    if not pyarrow.types.is_dictionary(kind):
        return f"`{kind}`"
    assert (kind.index_type, kind.value_type) == (pyarrow.int32(), pyarrow.string())
    return f"{'ordered ' * kind.ordered}`dictionary`"


def _pandas(series: Any) -> str:
    if isinstance(series.dtype, pandas.CategoricalDtype):
        return f"{'ordered ' * bool(series.dtype.ordered)}`category`"
    return f"`{series.dtype}`".replace("`object`", "`str`" if isinstance(series[0], str) else "`object`")


def _polars(kind: Any) -> str:
    if isinstance(kind, polars.Enum):
        assert kind.categories.to_list() == _CLASSES["logical"]["names"]  # type: ignore[index]
        return "`Enum`"
    text = re.sub(r"\w+=", "", str(kind))
    return f"`{text}`".replace(", None)", ")")


def _hf(feature: Any) -> str:
    return "`ClassLabel`" if hasattr(feature, "names") else f"`{feature!r}`"


@pytest.mark.parametrize("way", WAYS)
def test_columns_have_the_types_that_the_page_says(given: dict[str, Any], way: str) -> None:
    there = given[way]
    found = {
        "Arrow": lambda name: _arrow(there.schema.field(name).type),
        "Parquet": lambda name: _arrow(pyarrow.parquet.read_schema(there).field(name).type),
        "pandas": lambda name: _pandas(there[name]),
        "Polars": lambda name: _polars(there.schema[name]),
        "DuckDB": lambda name: f"`{there.types[there.columns.index(name)]}`",
        "Hugging Face": lambda name: _hf(there.features[name]),
    }[way]
    assert [found(name) for name in COLUMNS] == [row[1 + WAYS.index(way)] for row in TYPES]
    scanned = unirecord.polars.scan(given["dataset"]).collect_schema()
    assert way != "Polars" or scanned == there.schema


_CHANGED: dict[str, dict[str, Any]] = {
    "Arrow": {},
    "Parquet": {"timestamp[s]": "timestamp[ms]"},
    "pandas": {"time[ms]": "time[us]", "classes": _WORDS},
    "Polars": {"timestamp[s]": "timestamp[ms]", "time[ms]": "time[ns]", "time[us]": "time[ns]", "classes": _ORDERED},
    "DuckDB": {
        "timestamp[us, Europe/Paris]": "timestamp[us, UTC]", "time[ms]": "time[us]",
        **dict.fromkeys(_NAMED, "string"),
    },
    "Hugging Face": {"classes that were ordered": _CLASSES, "strings that were a dictionary": "string"},
}  # fmt: skip


def test_what_comes_back_is_in_the_page() -> None:
    assert [row[0] for row in table("from")] == list(_CHANGED)


@pytest.mark.parametrize("way", WAYS)
def test_columns_come_back_as_what_they_were(given: dict[str, Any], way: str, tmp_path: Path) -> None:
    write_dataset(given[way], tmp_path / "again.urec")
    again = UniRecordDataset(tmp_path / "again.urec")
    changed = _CHANGED[way]
    wanted = {
        name: changed.get(TYPES[i][0].strip("`"), spec) for i, (name, spec) in enumerate(COLUMNS.items())
    }
    with Writer(tmp_path / "wanted.urec", wanted):
        pass
    schema = UniRecordDataset(tmp_path / "wanted.urec").schema
    for name in COLUMNS:
        column, as_said = again.schema[name], schema[name]
        assert (column.type, column.shape) == (as_said.type, as_said.shape), name
        assert (column.logical, column.annotations) == (as_said.logical, as_said.annotations), name
    first, back = given["Arrow"].to_pylist(), pyarrow.table(again.view(columns=list(COLUMNS))).to_pylist()
    assert back == first


def test_words_of_many_batches_come_back(tmp_path: Path) -> None:
    words = [None if i % 11 == 0 else f"w{i // 1000:03d}-{i % 3}" for i in range(150_000)]
    rows = pyarrow.table({"word": pyarrow.array(words).dictionary_encode(), "i": range(len(words))})
    write_dataset(rows, tmp_path / "data")
    ds = UniRecordDataset(tmp_path / "data")
    assert pyarrow.table(ds).column("word").to_pylist() == ds.to_arrow().column("word").to_pylist() == words
    assert polars.DataFrame(ds)["word"].to_list() == words
    assert [word for (word,) in duckdb.sql("select word from ds order by i").fetchall()] == words
    scan = unirecord.polars.scan(ds)
    for chosen in (polars.col("word") == "w100-1", polars.col("word") > "w100-1"):
        frame = polars.DataFrame({"word": polars.Series(words, dtype=polars.Categorical)})
        assert scan.filter(chosen).select(polars.len()).collect().item() == len(frame.filter(chosen))
    for kind in ("parquet", "arrow"):
        unirecord.export(tmp_path / "data", tmp_path / f"rows.{kind}")
        write_dataset(tmp_path / f"rows.{kind}", tmp_path / f"again_{kind}")
        again = UniRecordDataset(tmp_path / f"again_{kind}")
        assert again.schema["word"].annotations == {"dictionary": "unordered"}
        assert again.to_arrow().column("word").to_pylist() == words


def test_other_strings_are_appended_to_words_and_words_to_strings(tmp_path: Path) -> None:
    words, strings = pandas.DataFrame({"x": pandas.Categorical(["a", "b"])}), pandas.DataFrame({"x": ["c"]})
    for name, first, second, dtype in (("w", words, strings, "category"), ("s", strings, words, "text")):
        write_dataset(first, tmp_path / name)
        write_dataset(second, tmp_path / name, append=True)
        frame = UniRecordDataset(tmp_path / name).to_pandas()
        assert (str(frame["x"].dtype) == "category") == (dtype == "category")
        assert sorted(frame["x"]) == ["a", "b", "c"]


def test_intervals_without_months_are_durations(tmp_path: Path) -> None:
    write_dataset(duckdb.sql("select interval '90 minutes' as d, i from range(3) t(i)"), tmp_path / "d.urec")
    ds = UniRecordDataset(tmp_path / "d.urec", where="d == '1h30m'")
    assert len(ds) == 3
    assert ds[0]["d"] == np.timedelta64(90, "m")
    with pytest.raises(unirecord.SchemaError, match="months differ in length: convert it to days or seconds"):
        write_dataset(duckdb.sql("select interval '1 month' as d"), tmp_path / "m.urec")
    far = pyarrow.array([(0, 2_000_000_000, 0)], pyarrow.month_day_nano_interval())
    with pytest.raises(unirecord.SchemaError, match="is no duration"):
        write_dataset(pyarrow.table({"d": far}), tmp_path / "f.urec")
    fine = pyarrow.array([(0, 1, 5), None, (0, -1, 0)], pyarrow.month_day_nano_interval())
    wanted = {"d": {"type": "int64?", "logical": {"type": "duration", "unit": "ns"}}}
    write_dataset(pyarrow.table({"d": fine}), tmp_path / "n.urec", schema=wanted)
    found = UniRecordDataset(tmp_path / "n.urec").scalars(["d"])["d"]
    assert found.tolist() == [np.timedelta64(86_400 * 10**9 + 5), None, np.timedelta64(-86_400 * 10**9)]


# Filters of Polars on what has a logical type choose rows before they are read.

_TYPED: dict[str, Any] = {
    "ts": "timestamp[us, Europe/Paris]?", "wall": "timestamp[ns]", "s": "timestamp[s]", "day": "date", "at": "time[ms]",
    "took": "duration[ms]", "price": "decimal[9, 2]?", "wide": "decimal[38, 2]", "label": _CLASSES,
}  # fmt: skip
_MOMENT = datetime(2025, 3, 30, 1, 0, tzinfo=UTC)
_PARIS = _MOMENT.astimezone(ZoneInfo("Europe/Paris"))
_LITERALS: dict[str, list[Any]] = {
    "ts": [_PARIS, _PARIS + timedelta(hours=3, microseconds=1), _PARIS - timedelta(days=400 * 365)],
    "wall": [_MOMENT.replace(tzinfo=None), datetime(2025, 4, 1)],
    "s": [_MOMENT.replace(tzinfo=None), datetime(2025, 4, 1)],
    "day": [date(2025, 3, 30), date(2025, 4, 2)],
    "at": [time(1), time(2, 0, 1)],
    "took": [timedelta(0), timedelta(hours=-1), timedelta(days=2, milliseconds=5)],
    "price": [Decimal("5.25"), Decimal("-0.1"), Decimal("5.255"), 7],
    "wide": [Decimal("12345678901234567890.25"), 0, 3],
    "label": ["low", "high"],
}
_COMPARED: dict[str, Any] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> UniRecordDataset:
    path = tmp_path_factory.mktemp("typed") / "rows.urec"
    pick = np.random.default_rng(0)
    seconds = int(_MOMENT.timestamp())
    with Writer(path, _TYPED) as writer:
        for i in range(500):
            steps = int(pick.integers(-3, 4))
            price, label = int(pick.integers(523, 528)), int(pick.integers(-1, 3))
            writer.write(
                {
                    "ts": None if i % 9 == 0 else (seconds + steps * 3_600) * 10**6 + int(pick.integers(0, 2)),
                    "wall": (seconds + steps * 86_400) * 10**9, "s": seconds + steps * 86_400, "day": 20_177 + steps,
                    "at": 3_600_000 * abs(steps), "took": 3_600_000 * steps, "price": None if i % 7 == 0 else price,
                    "wide": [Decimal(steps), Decimal("12345678901234567890.25")][i % 2], "label": label,
                }
            )  # fmt: skip
    return UniRecordDataset(path, columns=list(_TYPED))


@pytest.mark.parametrize("name", _TYPED)
def test_filters_of_polars_on_typed_columns_are_conditions(
    typed: UniRecordDataset, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str | None] = []
    said = unirecord.frameworks.polars._condition
    monkeypatch.setattr(
        unirecord.frameworks.polars, "_condition", lambda *given: asked.append(said(*given)) or asked[-1]
    )
    whole, rows = polars.DataFrame(typed).lazy(), unirecord.polars.scan(typed)
    filters = [
        compare(polars.col(name), literal)
        for literal in _LITERALS[name]
        for sign, compare in _COMPARED.items()
        if name != "label" or sign in ("==", "!=")
    ]
    filters += [
        ~filters[0], polars.col(name).is_null(), polars.col(name).is_in(_LITERALS[name][:1]), filters[1] | filters[2],
        polars.col(name).is_not_null() & filters[1], ~(filters[0] & polars.col(name).is_null()),
    ]  # fmt: skip
    for one in filters:
        assert rows.filter(one).collect().equals(whole.filter(one).collect()), str(one)
    assert sum(text is not None for text in asked) >= 0.6 * len(filters)
