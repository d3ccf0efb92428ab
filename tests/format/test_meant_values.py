"""Times, decimals and names of classes as Python and its libraries have them: what is stored, and what is inferred."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord import SchemaError, UniRecordDataset, Writer, write_dataset
from unirecord.format.meaning import as_stored
from unirecord.format.schema import Schema
from unirecord.format.values.cell import Refused, encoder_for
from unirecord.writing.inference import infer_schema

EPOCH = datetime.datetime(1970, 1, 1)
UTC = datetime.UTC


def timestamp(unit: str, zone: str | None = None) -> dict[str, Any]:
    return {"type": "int64?", "logical": {"type": "timestamp", "unit": unit, "zone": zone}}


def decimal(precision: int, scale: int, null: str = "?") -> dict[str, Any]:
    shape = {"shape": [2]} if precision > 18 else {}
    return {
        "type": f"int64{null}",
        **shape,
        "logical": {"type": "decimal", "precision": precision, "scale": scale},
    }


SIZE = {"type": "uint8?", "logical": {"type": "class", "names": ["S", "M", "L"]}}
DAY, SPAN = (
    {"type": "int32?", "logical": "date"},
    {"type": "int64?", "logical": {"type": "duration", "unit": "ms"}},
)
CLOCK = {"type": "int32?", "logical": {"type": "time", "unit": "ms"}}
NOON = datetime.datetime(1970, 1, 1, 12, 0, 0, 5_000)
HALF_DAY = 43_200_005  # milliseconds
PLUS_2 = datetime.timezone(datetime.timedelta(hours=2))

# A column's type, a value of it, and the number that is stored.
TAKEN: list[tuple[dict[str, Any], Any, Any]] = [
    (timestamp("ms"), NOON, HALF_DAY),
    (timestamp("ns"), NOON, HALF_DAY * 10**6),
    (timestamp("ms"), np.datetime64(NOON), HALF_DAY),
    (timestamp("ms"), pandas.Timestamp(NOON), HALF_DAY),
    (timestamp("ns"), pandas.Timestamp(1), 1),
    (timestamp("s"), np.datetime64("3000-01-01"), 32_503_680_000),
    (timestamp("ms", "UTC"), NOON.replace(tzinfo=UTC), HALF_DAY),
    (timestamp("ms", "Europe/Paris"), NOON.replace(tzinfo=PLUS_2), HALF_DAY - 7_200_000),
    (timestamp("ms", "UTC"), pandas.Timestamp(NOON, tz="Asia/Kolkata"), HALF_DAY - 19_800_000),
    (timestamp("ms"), 7, 7),
    (timestamp("ms"), np.datetime64("NaT"), None),
    (timestamp("ms", "UTC"), pandas.NaT, None),
    (DAY, datetime.date(1970, 1, 3), 2),
    (DAY, np.datetime64("1969-12-31"), -1),
    (DAY, np.datetime64("1970-01-02T00:00"), 1),
    (CLOCK, datetime.time(12, 0, 0, 5_000), HALF_DAY),
    (SPAN, datetime.timedelta(days=-1, milliseconds=1), -86_399_999),
    (SPAN, np.timedelta64(3, "s"), 3_000),
    (SPAN, pandas.Timedelta("1ms"), 1),
    (decimal(5, 2), Decimal("-1.5"), -150),
    (decimal(5, 2), Decimal("1E+2"), 10_000),
    (decimal(5, 2), Decimal("0E-50"), 0),
    (decimal(5, 2), Decimal("1.2300"), 123),
    (decimal(5, 2), 150, 150),
    (decimal(38, 2), Decimal("-0.01"), [-1, -1]),
    (decimal(38, 0), Decimal(2**64 + 5), [5, 1]),
    (SIZE, "M", 1),
    (SIZE, 2, 2),
    (SIZE, np.str_("L"), 2),
    (SIZE, None, None),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "value", "stored"), TAKEN)
@pytest.mark.parametrize("one_by_one", [True, False])
def test_what_a_logical_type_stands_for_is_taken(
    tmp_path: Path, spec: Any, value: Any, stored: Any, one_by_one: bool
) -> None:
    with Writer(tmp_path / "a.urec", {"x": spec}) as writer:
        if one_by_one:
            writer.write({"x": value})
        else:
            writer.write_batch({"x": [value]})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        found = as_stored(ds[0]["x"])
        assert (found.tolist() if hasattr(found, "tolist") else found) == stored


REFUSED: list[tuple[dict[str, Any], Any, str]] = [
    (timestamp("s"), NOON, "expected timestamp as int64 or None, got datetime .* no whole number of seconds"),
    (timestamp("ms"), NOON.replace(tzinfo=UTC), "with a time zone, and the column has none"),
    (timestamp("ms", "Europe/Paris"), NOON, "without a time zone, and the column is in Europe/Paris"),
    (timestamp("us"), pandas.Timestamp(1), "no whole number of microseconds"),
    (timestamp("ms"), datetime.date(1970, 1, 1), "got date"),
    (timestamp("ms"), np.timedelta64(1, "s"), "a column of times, or an int64 column takes it"),
    (timestamp("ms"), "1970-01-01", "got str"),
    (DAY, NOON, "expected date as int32 or None, got datetime"),
    (DAY, np.datetime64("1970-01-01T01"), "no whole number of days"),
    (DAY, np.datetime64(2**40, "D"), "out of range"),
    (CLOCK, datetime.time(1, tzinfo=UTC), "got time"),
    (SPAN, datetime.timedelta(microseconds=1), "no whole number of milliseconds"),
    (decimal(5, 2), Decimal("0.001"), "more than 2 digits behind the point"),
    (decimal(5, 2), Decimal("1000"), "more than 3 digits before the point"),
    (decimal(5, 2), Decimal("1E+5000000"), "more digits than 5"),
    (decimal(38, 2), Decimal("1" * 5_000), "more digits than 38"),
    (decimal(5, 2), Decimal("sNaN"), "which is no number"),
    (decimal(5, 2), 1.5, "got float"),
    (SIZE, "l", "no class; did you mean 'L'"),
    ({"type": "int64?"}, NOON, "got datetime"),
    ({"type": "int64?"}, Decimal(1), "got Decimal"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "value", "said"), REFUSED)
@pytest.mark.parametrize("one_by_one", [True, False])
def test_what_it_does_not_hold_exactly_is_refused_by_row(
    tmp_path: Path, spec: Any, value: Any, said: str, one_by_one: bool
) -> None:
    with Writer(tmp_path / "a.urec", {"x": spec}) as writer:
        write: Any = writer.write if one_by_one else writer.write_batch
        with pytest.raises(SchemaError, match=f"row 0, column 'x': .*{said}"):
            write({"x": value if one_by_one else [value]})
        writer.write({"x": None})


@given(st.datetimes(), st.sampled_from(["ms", "us", "ns"]))
def test_a_datetime_is_stored_as_numpy_counts_it(value: datetime.datetime, unit: str) -> None:
    encode = encoder_for(Schema.parse({"x": timestamp(unit)})["x"])
    size = {"ms": 1_000, "us": 1, "ns": 1}[unit]
    value = value.replace(microsecond=value.microsecond // size * size)
    count = value - EPOCH
    exact = (count.days * 86_400 + count.seconds) * 10**6 + count.microseconds
    stored = exact // 1_000 if unit == "ms" else exact if unit == "us" else exact * 1_000
    if abs(stored) >= 1 << 63:
        with pytest.raises(Refused):
            encode(value)
    else:
        assert int.from_bytes(encode(value), "little", signed=True) == stored


@given(st.decimals(allow_nan=False, allow_infinity=False), st.sampled_from([(18, 4), (38, 10), (3, 3)]))
def test_a_decimal_is_stored_exactly_or_refused(value: Decimal, digits: tuple[int, int]) -> None:
    encode = encoder_for(Schema.parse({"x": decimal(*digits)})["x"])
    precision, scale = digits
    try:
        found = int.from_bytes(encode(value), "little", signed=True)
    except Refused:
        fits = abs(value) < Decimal(10) ** (precision - scale)
        assert not fits or value.as_tuple().exponent < -scale  # type: ignore[operator]
        return
    assert Decimal((int(found < 0), tuple(map(int, str(abs(found)))), -scale)) == value


WHOLE: list[tuple[Any, Any]] = [
    (np.array(["1970-01-02", "NaT"], "datetime64[D]"), [86_400_000, None]),
    (pandas.Series(["1970-01-01 00:00:01", None], dtype="datetime64[ns]"), [1_000, None]),
    (pa.array([1, None], pa.timestamp("s")), [1_000, None]),
    (polars.Series([EPOCH, None]), [0, None]),
]


@pytest.mark.parametrize(("values", "stored"), WHOLE)
def test_whole_columns_of_times_are_taken(tmp_path: Path, values: Any, stored: list[Any]) -> None:
    with Writer(tmp_path / "a.urec", {"x": timestamp("ms")}) as writer:
        writer.write_batch({"x": values})
    with UniRecordDataset(tmp_path / "a.urec") as ds:
        assert [as_stored(ds[i]["x"]) for i in range(len(stored))] == stored


def test_a_column_says_its_classes_and_decimals() -> None:
    schema = Schema.parse({"size": SIZE, "price": decimal(5, 2), "wide": decimal(38, 1), "n": "int64"})
    assert schema["size"].classes == ("S", "M", "L")
    assert schema["n"].classes is None
    price = schema["price"]
    assert str(price.decimal(150)) == "1.50"
    assert price.decimal(np.int64(-5)) == Decimal("-0.05")
    assert price.decimal(None) is None
    assert price.decimal(np.array([1, 200])) == [Decimal("0.01"), Decimal("2.00")]
    assert price.decimal(np.ma.MaskedArray([1, 0], [False, True])) == [Decimal("0.01"), None]
    assert price.decimal([1, None]) == [Decimal("0.01"), None]
    wide = schema["wide"]
    assert wide.decimal(np.array([-15, -1])) == Decimal("-1.5")
    assert wide.decimal(np.array([[5, 1], [0, 0]])) == [Decimal(2**64 + 5) / 10, Decimal(0)]
    masked = np.ma.MaskedArray([[5, 0], [0, 0]], [[False, False], [True, True]])
    assert wide.decimal(masked) == [Decimal("0.5"), None]
    with pytest.raises(TypeError, match=r"column 'size' holds no decimals: its logical type is class\(names"):
        schema["size"].decimal(1)


def test_names_of_classes_are_taken_from_any_column_of_words(tmp_path: Path) -> None:
    words = ["S", "L", "M"]
    for number, values in enumerate(
        [
            np.array(words),
            pandas.Series(words),
            pandas.Series(words, dtype="category"),
            pa.array(words),
            words,
        ]
    ):
        with Writer(tmp_path / f"{number}.urec", {"x": SIZE}) as writer:
            writer.write_batch({"x": values})
        with UniRecordDataset(tmp_path / f"{number}.urec") as ds:
            assert [ds[i]["x"] for i in range(3)] == [0, 2, 1]


PARIS = ZoneInfo("Europe/Paris")
INFERRED: list[tuple[list[Any], Any]] = [
    ([NOON, None], timestamp("us")),
    ([NOON.replace(tzinfo=UTC), None], timestamp("us", "UTC")),
    ([NOON.replace(tzinfo=PARIS), None], timestamp("us", "Europe/Paris")),
    ([NOON.replace(tzinfo=PLUS_2), None], timestamp("us", "+02:00")),
    ([NOON.replace(tzinfo=PLUS_2), NOON.replace(tzinfo=PARIS), None], timestamp("us", "UTC")),
    ([np.datetime64("2020-01-01T00:00:00", "s"), np.datetime64("NaT")], timestamp("s")),
    ([np.datetime64(1, "s"), np.datetime64(1, "ns"), pandas.NaT], timestamp("ns")),
    ([np.datetime64("2020-01-01"), None], DAY),
    ([np.datetime64("2020-01"), None], DAY),
    ([datetime.date(2020, 1, 1), None], DAY),
    ([datetime.time(1), None], {"type": "int64?", "logical": {"type": "time", "unit": "us"}}),
    ([datetime.timedelta(1), None], {"type": "int64?", "logical": {"type": "duration", "unit": "us"}}),
    ([np.timedelta64(1, "D"), None], {"type": "int64?", "logical": {"type": "duration", "unit": "s"}}),
    ([Decimal("1.50"), Decimal("20"), None], decimal(18, 2)),
    ([Decimal("1." + "5" * 18), float("nan")], decimal(38, 18)),
]


@pytest.mark.parametrize(("values", "spec"), INFERRED)
def test_types_are_inferred_of_records(tmp_path: Path, values: list[Any], spec: Any) -> None:
    records = [{"x": value} for value in values]
    assert infer_schema(records).to_spec() == Schema.parse({"x": spec}).to_spec()
    write_dataset(records, tmp_path / "out.urec")
    with Writer(tmp_path / "writer.urec") as writer:
        for record in records:
            writer.write(record)
    with UniRecordDataset(tmp_path / "out.urec") as ds, UniRecordDataset(tmp_path / "writer.urec") as other:
        assert ds.schema.to_spec() == other.schema.to_spec()
        assert ds[len(values) - 1]["x"] is None
        assert other.to_batches().read_all().equals(ds.to_batches().read_all())
        first = ds.to_batches().read_all()["x"].to_pylist()[0]
        if not isinstance(values[0], np.generic):
            assert first == values[0]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([NOON, NOON.replace(tzinfo=UTC)], "row 0 holds timestamp and row 1 holds zoned timestamp"),
        ([NOON, datetime.date(2020, 1, 1)], "row 0 holds timestamp and row 1 holds date"),
        ([np.datetime64(1, "ps")], r"no column type holds numpy datetime64\[ps\]"),
        ([np.timedelta64(1, "M")], r"no column type holds numpy timedelta64\[M\]"),
        ([Decimal("1e40"), Decimal("0.1")], "its decimals need 42 digits"),
        ([Decimal("Infinity")], "Infinity is no number"),
    ],
)
def test_what_has_no_type_in_common_is_refused(values: list[Any], said: str) -> None:
    with pytest.raises(SchemaError, match=f"column 'x'.*{said}"):
        infer_schema([{"x": value} for value in values])
