"""Conditions on times, durations, decimals and classes: what they choose, by Python's own clocks and by DuckDB."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from objectstore import serving
from query_columns import MemoryColumns
from typed_columns import NAMES, ROWS, SCALARS, SCHEMA, SPEC, part, seconds

from unirecord import (
    CorruptionError,
    QueryError,
    UniRecordDataset,
    Writer,
    add_columns,
    delete,
    set_values,
    write_dataset,
)
from unirecord.format.schema import Schema
from unirecord.query import compile_query
from unirecord.query.parse import with_moment


def rows(text: str) -> list[int]:
    found = compile_query(text, SCHEMA).rows([part(ROWS)]).tolist()
    assert compile_query(text, SCHEMA).rows([part(ROWS, tuple(SCALARS), zoned=False)]).tolist() == found
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ts >= '2025-06-01'", [0, 2]),  # in the column's zone
        ("ts >= '2025-06-01 00:00Z'", [2]),
        ("ts < timestamp '2025-06-01 00:00+02:00'", [1]),
        ("ts >= date '2025-06-01'", [0, 2]),
        ("'2025-05-31' <= ts < '2025-06-01'", [1]),
        ("ts between '2025-05-31 23:59:59' and '2025-06-01'", [0, 1]),
        ("ts in ('2025-06-01', '2025-05-31 23:59:59')", [0, 1]),
        ("ts not in ('2025-06-01')", [1, 2]),
        ("ts == '2025-06-01 14:00:00.000001'", [2]),
        ("ts > '2025-06-01 14:00:00.0000009'", [2]),  # finer than the column: compared exactly
        ("ts == '2025-06-01 14:00:00.0000009'", []),
        ("date(ts) == '2025-06-01'", [0, 2]),
        ("date(ts) != '2025-06-01'", [1]),
        ("date(ts) < date '2025-06-01'", [1]),
        ("date(ts) in ('2025-05-31', '2026-01-01')", [1]),
        ("date(ts) between '2025-05-31' and '2025-06-01'", [0, 1, 2]),
        ("date(wall) == day", [0]),
        ("date(utc) < day", [0, 2, 3]),
        ("wall == '2025-06-01 12:00'", [0]),
        ("wall < '2025-06-01T12:00'", [1, 2, 3]),
        ("nowhere == '2025-06-01 12:00Z'", [0]),
        ("day == '2025-06-01'", [0]),
        ("day > date '2025-06-03' - interval '3 days'", [0, 2]),
        ("day + interval 1 day == '2025-06-02'", [0]),
        ("t < '12:00'", [1, 2, 3]),
        ("t == time '12:00'", [0]),
        ("t < '11:59:59.5'", [1, 2, 3]),
        ("d > interval '90 seconds'", [1, 3]),
        ("d == '1h30m'", [3]),
        ("d == d2", [0]),
        ("d < d2", []),
        ("d2 - d >= interval '-1 ms' and d2 < d", [1]),
        ("d * 2 > interval 3 minutes", [1, 3]),
        ("ts == utc", [0]),
        ("ts - utc == interval '1 us'", [2]),
        ("utc + interval '1h' > ts", [0, 1, 2]),
        ("utc + d > ts", [0, 1]),
        ("label == 'dog'", [1]),
        ("label != 'dog'", [0, 2]),
        ("label in ('cat', 'frog')", [0, 2]),
        ("label not in ('cat')", [1, 2]),
        ("label in ('cat', 1)", [0, 1]),
        ("label == 2", [2]),
        ("label < 2", [0, 1]),
        ("label == pred", [1]),
        ("label == n", [0, 1, 2]),
        ("label like '%og'", [1, 2]),
        ("label startswith 'c'", [0]),
        ("label % 2 == 0", [0, 2]),
        ("pred == 7", [3]),
        ("price > 500", []),
        ("price >= 500", [3]),
        ("price == 19.99", [0]),
        ("price == 19.990", [0]),
        ("price == 19.995", []),
        ("price > 19.995", [1, 3]),
        ("price between 19.985 and 19.995", [0]),
        ("price in (19.99, 20, 0.1)", [0, 1]),
        ("price == fine", [0, 3]),
        ("price < fine", [1]),
        ("price + 0.0001 == fine", [1]),
        ("price * 2 == 39.98", [0]),
        ("price * fine > 399.6", [0, 1, 3]),
        ("price > n", [0, 1, 3]),
        ("price < 1/3", [2]),
        ("price < inf", [0, 1, 2, 3]),
        ("price == -0.05", [2]),
        ("wide > 500", [1]),
        ("wide == 19.99", [0]),
        ("wide == 19.995", []),
        ("wide >= 100000000000000000000000000000000000", [1]),
        ("wide == 100000000000000000000000000000000000.01", [1]),
        ("wide != 100000000000000000000000000000000000", [0, 1, 3]),
        ("wide < 1e300", [0, 1, 3]),
        ("wide < inf and wide > -inf", [0, 1, 3]),
        ("wide between -1e35 and 20", [0, 3]),
        ("wide in (19.99, -100000000000000000000000000000000000, 0.1)", [0, 3]),
        ("wide not in (19.99, 7)", [1, 3]),
        ("not wide > 500", [0, 3]),
        ("wide is null", [2]),
        ("wide == price", [0]),
        ("wide > fine", [1]),
        ("wide + price > 39.97", [0, 1]),
        ("wide * wide > 1e69", [1, 3]),
        ("-wide == -19.99", [0]),
        ("wide > n and label == 'dog'", [1]),
        ("wide != 0", [0, 1, 3]),
        ("ts is null", [3]),
        ("ts >= '2025-06-01' or label == 'dog'", [0, 1, 2]),
        ("interval '1h' * 1.5 == d", [3]),
    ],
)
def test_typed_condition_selects(text: str, expected: list[int]) -> None:
    assert rows(text) == expected
    query = compile_query(text, SCHEMA)
    assert compile_query(str(query), SCHEMA) == query


@pytest.mark.parametrize(
    "text",
    [
        "ts > wall", "ts + ts > ts", "price / 2 > 1", "price // 2 == 1", "price > f", "price + f > 1", "-ts < ts",
        "label > ts", "n == date '2025-01-01'", "flag == date '2025-01-01'", "interval '1h' < interval '2h'",
        "date(n) == '2025-01-01'", "date(path) == '2025-01-01'", "date(ts) == day", "d + 1 > d",
        "t + interval '1h' > t", "ts == 'cat'", "day == 5.5", "price == 'x'", "label == 'x'", "d == '1 month'",
        "d2 - interval '0.1 ns' > d2",
        "ts like '2025%'", "ts == path", "price == path", "wide == '3'", "wide / 2 > 1", "wide > f",
        "d / 2 > d", "now(3) < ts", "ts == flag",
    ],
)  # fmt: skip
def test_what_has_no_meaning_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        compile_query(text, SCHEMA)


# Clocks of zones, by Python's own.


@given(
    st.sampled_from(
        ["Europe/Paris", "America/St_Johns", "Pacific/Apia", "Africa/Cairo", "America/Sao_Paulo", "+05:45"]
    ),
    st.dates(date(1950, 1, 2), date(2030, 12, 30)),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
)
@settings(max_examples=150, deadline=None)
def test_days_begin_where_the_clock_of_the_zone_shows_midnight(zone: str, day: date, operator: str) -> None:
    schema = Schema.parse(
        {"ts": {"type": "int64", "logical": {"type": "timestamp", "unit": "s", "zone": zone}}}
    )
    there = datetime.strptime("+0545", "%z").tzinfo if zone.startswith("+") else ZoneInfo(zone)
    noon = int(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp())
    moments = list(range(noon - 60 * 3_600, noon + 60 * 3_600, 30 * 60 - 7))
    found = compile_query(f"date(ts) {operator} '{day}'", schema).rows(
        [MemoryColumns(schema, {"ts": moments})]
    )
    days = [datetime.fromtimestamp(moment, there).date() for moment in moments]
    holds = {
        "==": lambda d: d == day, "!=": lambda d: d != day, "<": lambda d: d < day, "<=": lambda d: d <= day,
        ">": lambda d: d > day, ">=": lambda d: d >= day,
    }[operator]  # fmt: skip
    assert found.tolist() == [row for row, its in enumerate(days) if holds(its)]


@given(
    st.sampled_from(["Europe/Paris", "America/St_Johns", "UTC"]),
    st.datetimes(datetime(1960, 1, 1), datetime(2030, 1, 1)),
)
@settings(max_examples=100, deadline=None)
def test_a_time_without_a_zone_is_what_the_clock_of_the_column_shows(zone: str, clock: datetime) -> None:
    schema = Schema.parse(
        {"ts": {"type": "int64", "logical": {"type": "timestamp", "unit": "us", "zone": zone}}}
    )
    moment = clock.replace(tzinfo=ZoneInfo(zone))
    value = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    source = MemoryColumns(schema, {"ts": [value - 1, value, value + 1]})
    assert compile_query(f"ts == '{clock.isoformat(' ')}'", schema).rows([source]).tolist() == [1]
    assert compile_query(f"ts < '{moment.astimezone(UTC).isoformat()}'", schema).rows([source]).tolist() == [
        0
    ]


def test_where_the_clock_is_put_back_the_first_time_counts() -> None:
    schema = Schema.parse({"ts": SPEC["ts"]})
    first = seconds("2025-10-26 00:30")
    source = MemoryColumns(schema, {"ts": [(first + 3_600 * hour) * 10**6 for hour in (0, 1)]})
    assert compile_query("ts == '2025-10-26 02:30'", schema).rows([source]).tolist() == [0]
    assert compile_query("date(ts) == '2025-10-26'", schema).rows([source]).tolist() == [0, 1]


# Random conditions.


class _Pick:
    """Random comparisons of a column with what a row of the slow evaluator holds: exact numbers, in any unit."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        epoch = seconds("2025-03-30 00:00")
        near = [0, 1, -1, 3_599, 3_600, 7_200, 86_399, 86_400, -86_400]
        self.data: dict[str, list[Any]] = {
            "ts": [(epoch + step) * 10**6 + rest for step in near for rest in (0, 1, 500_000)],
            "utc": [(epoch + step) * 1_000 + rest for step in near for rest in (0, 1)],
            "wall": [(epoch + step) * 10**9 + rest for step in near for rest in (0, 1)],
            "day": list(range(20_175, 20_180)),
            "t": [0, 1, 43_199, 43_200, 86_399],
            "d": [0, -1, 1, 90_000, 90_001, 3_600_000],
            "d2": [0, 1_000, 90_000_000, 90_000_001, -1_000],
            "price": [0, 1, -1, 1_999, 2_000, 50_000, 10**8],
            "fine": [0, 100, 199_900, 199_901, 5 * 10**6],
            "wide": [0, 1, -1, 1_999, 1 << 64, (1 << 64) + 1, -(1 << 64), 1 << 63, 10**38 - 1, 1 - 10**38],
            "label": [0, 1, 2, 5],
            "pred": [0, 1, 2],
        }
        nullable = {"ts", "d2", "fine", "wide", "label"}
        self.rows = [
            {
                name: None if name in nullable and self.pick.random() < 0.2 else self.pick.choice(values)
                for name, values in self.data.items()
            }
            for _ in range(120)
        ]

    def literal(self, name: str) -> tuple[str, Fraction]:
        """What is written, and the number in the units of the column."""
        value = self.pick.choice(self.data[name])
        finer = self.pick.choice([0, 0, 0, Fraction(1, 3), Fraction(-1, 2)])
        meaning = SCHEMA[name].meaning
        assert meaning is not None
        if name in ("label", "pred"):
            return (
                (f"'{NAMES[value]}'", Fraction(value))
                if value < 3 and self.pick.random() < 0.7
                else (str(value), Fraction(value))
            )
        if name in ("price", "fine", "wide"):
            if finer:
                digits = Decimal(value) / meaning.per + Decimal("0.00001") * (1 if finer > 0 else -1)
                return f"{digits:f}", Fraction(digits) * meaning.per
            return meaning.text(value), Fraction(value)
        if name in ("ts", "utc", "wall") and finer and meaning.per < 10**9:
            nanos = value * (10**9 // meaning.per) + (1 if finer > 0 else -1)
            from unirecord.format.meaning import Meaning

            return f"'{Meaning('timestamp', 10**9, meaning.zone).text(nanos)}'", Fraction(
                nanos * meaning.per, 10**9
            )
        if name in ("d", "d2"):  # as DuckDB spells it too
            return f"interval '{value} {'milliseconds' if name == 'd' else 'microseconds'}'", Fraction(value)
        return f"'{meaning.text(value)}'", Fraction(value)

    def condition(self, depth: int = 2) -> tuple[str, Any]:
        """A condition as text, and what it is of a row: True, False or None."""
        if depth and self.pick.random() < 0.5:
            word = self.pick.choice(["and", "or"])
            (a, first), (b, second) = self.condition(depth - 1), self.condition(depth - 1)
            return f"({a}) {word} ({b})", lambda row: _joined(word, first(row), second(row))
        if self.pick.random() < 0.2:
            a, inner = self.condition(0)
            return f"not ({a})", lambda row: None if inner(row) is None else not inner(row)
        name = self.pick.choice(list(self.data))
        kind = self.pick.random()
        per = {n: (SCHEMA[n].meaning.per if SCHEMA[n].meaning else 1) for n in self.data}  # type: ignore[union-attr]
        operator = self.pick.choice(["==", "!="] if name in ("label", "pred") else list(_HOLDS))
        partner = {
            "ts": "utc",
            "utc": "ts",
            "d": "d2",
            "d2": "d",
            "price": "fine",
            "fine": "wide",
            "wide": "price",
            "label": "pred",
            "pred": "label",
        }.get(name)
        if kind < 0.3 and partner:
            return f"{name} {operator} {partner}", lambda row: _compared(
                operator, _per(row[name], per[name]), _per(row[partner], per[partner])
            )
        if kind < 0.5:
            some = [self.literal(name) for _ in range(self.pick.randint(1, 4))]
            text = f"{name} in ({', '.join(one for one, _ in some)})"
            return (
                text,
                lambda row: None if row[name] is None else any(row[name] == value for _, value in some),
            )
        text, value = self.literal(name)
        return f"{name} {operator} {text}", lambda row: _compared(operator, row[name], value)


_HOLDS: dict[str, Any] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def _per(value: int | None, per: int) -> Fraction | None:
    return None if value is None else Fraction(value, per)


def _compared(operator: str, left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else _HOLDS[operator](left, right)


def _joined(word: str, left: bool | None, right: bool | None) -> bool | None:
    decided = word == "or"
    if left is decided or right is decided:
        return decided
    return None if left is None or right is None else not decided


@pytest.mark.parametrize("seed", range(20))
def test_random_conditions_agree_with_exact_numbers(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("unirecord.query.zones", "unirecord.query.scan", "query_columns"):
        monkeypatch.setattr(f"{module}.ZONE", 8)
    monkeypatch.setattr("unirecord.query.query.FEW", 0 if seed % 2 else 1000)
    pick = _Pick(seed)
    schema = Schema.parse({name: SPEC[name] for name in pick.data})
    columns = {name: [row[name] for row in pick.rows] for name in pick.data}
    source = MemoryColumns(schema, columns, pick.pick.sample(list(pick.data), 5), zoned=seed % 3 > 0)
    for _ in range(60):
        text, holds = pick.condition()
        query = compile_query(text, schema)
        assert query.rows([source]).tolist() == [
            n for n, row in enumerate(pick.rows) if holds(row) is True
        ], text
        assert compile_query(str(query), schema) == query, text


@pytest.mark.parametrize("seed", range(6))
def test_random_conditions_agree_with_duckdb(seed: int) -> None:
    import duckdb

    pick = _Pick(seed)
    names = ["wall", "day", "t", "d", "d2", "price", "fine", "wide"]
    pick.data = {name: pick.data[name] for name in names}
    # DuckDB compares decimals of more than 38 digits as floats
    pick.data["wide"] = [value for value in pick.data["wide"] if abs(value) < 10**30]
    for row in pick.rows:
        row["wide"] = pick.pick.choice([None, *pick.data["wide"]])
    types = {
        "wall": "TIMESTAMP_NS",
        "day": "DATE",
        "t": "TIME",
        "price": "DECIMAL(9,2)",
        "fine": "DECIMAL(12,4)",
        "wide": "DECIMAL(38,2)",
    }
    table = duckdb.connect()
    integers = ", ".join(f"{name} {'HUGEINT' if name == 'wide' else 'BIGINT'}" for name in names)
    table.execute(f"CREATE TABLE s (n INTEGER, {integers})")
    table.executemany(
        f"INSERT INTO s VALUES ({', '.join('?' * 9)})",
        [(n, *(row[name] for name in names)) for n, row in enumerate(pick.rows)],
    )
    shown = {
        "wall": "make_timestamp_ns(wall)", "day": "DATE '1970-01-01' + day::INTEGER",
        "t": "TIME '00:00' + to_seconds(t)",
        "d": "to_milliseconds(d)", "d2": "to_microseconds(d2)", "price": "price::DECIMAL(18,2) / 100",
        "fine": "fine::DECIMAL(18,4) / 10000",
        "wide": "(wide // 100)::DECIMAL(38, 2) + (wide % 100)::DECIMAL(38, 2) * 0.01",
    }  # fmt: skip
    listed = ", ".join(f"({text})::{types.get(name, 'INTERVAL')} AS {name}" for name, text in shown.items())
    table.execute(f"CREATE TABLE r AS SELECT n, {listed} FROM s")
    schema = Schema.parse({name: SPEC[name] for name in names})
    source = MemoryColumns(
        schema, {name: [row[name] for row in pick.rows] for name in names}, ["wall", "price"]
    )
    for _ in range(60):
        text, _ = pick.condition()
        sql = text.replace("==", "=")
        found = table.execute(f"SELECT n FROM r WHERE {sql} ORDER BY n").fetchall()
        assert compile_query(text, schema).rows([source]).tolist() == [row[0] for row in found], text


# now(), and datasets.


def test_now_is_one_moment_that_the_text_of_the_query_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.query.parse.time.time_ns", lambda: seconds("2025-06-01 12:00") * 10**9 + 1)
    query = compile_query("ts >= now() - interval '7 days' and NOW ( ) > ts", SCHEMA)
    assert "now" not in str(query)
    assert "timestamp '2025-06-01T12:00:00.000000001Z'" in query.text
    monkeypatch.setattr("unirecord.query.parse.time.time_ns", lambda: 0)
    assert compile_query(query.text, SCHEMA) == query == compile_query(str(query), SCHEMA)
    assert compile_query("ts >= now()", SCHEMA) != query
    assert with_moment("path == 'now()'") == "path == 'now()'"


def test_now_at_a_time_zone_is_what_its_clock_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.query.parse.time.time_ns", lambda: seconds("2025-06-01 12:00") * 10**9 + 1)
    shown = "timestamp '2025-06-01T14:00:00.000000001'"
    for zone in ("Europe/Paris", "+02:00"):
        assert with_moment(f"wall > now() AT time zone '{zone}' - interval '1h'") == (
            f"wall > {shown} - interval '1h'"
        )
    query = compile_query("wall > now() at time zone 'UTC' - interval '1h' and ts < now()", SCHEMA)
    assert compile_query(query.text, SCHEMA) == query
    with pytest.raises(QueryError, match="does not know the time zone 'Mars'"):
        compile_query("wall > now() at time zone 'Mars'", SCHEMA)
    for cut in ("now() at time zone", "now() at time zone wall", "now() at time"):
        with pytest.raises(QueryError, match="expected"):
            compile_query(f"wall > {cut}", SCHEMA)


def dataset(path: Path, count: int = 40) -> str:
    schema = {name: SPEC[name] for name in ("ts", "price", "label")}
    with Writer(path, schema, index=["ts", "price", "label"]) as writer:
        for n in range(count):
            writer.write({"ts": n * 3_600 * 10**6, "price": n * 25, "label": n % 3})
    return str(path)


def test_a_dataset_and_its_state_keep_the_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = dataset(tmp_path / "typed.urec")
    monkeypatch.setattr("unirecord.query.parse.time.time_ns", lambda: 20 * 3_600 * 10**9)
    ds = UniRecordDataset(path, where="ts >= now() - interval '3 hours' and ts < now()", shuffle=True)
    narrow = ds.view(where="ts < now()")
    monkeypatch.setattr("unirecord.query.parse.time.time_ns", lambda: 30 * 3_600 * 10**9)
    assert len(ds) == len(narrow) == 3
    rest = iter(ds)
    next(rest)
    state = ds.state_dict()
    again = UniRecordDataset(path, where=state["where"], shuffle=True, seed=state["seed"])
    again.load_state_dict(state)
    assert [sample["price"] for sample in again] == [sample["price"] for sample in rest]
    assert "1970-01-01T17:00:00Z" in state["where"]
    assert len(ds.view(where="ts < now()")) == 3  # the first moment still counts for what was opened
    other = UniRecordDataset(path, where="ts >= now() - interval '3 hours' and ts < now()", shuffle=True)
    assert other.state_dict()["where"] != state["where"]


def test_lookups_zones_and_deletions_work_for_typed_conditions(tmp_path: Path) -> None:
    path = dataset(tmp_path / "data", 20_000)
    for where, count in (
        ("ts == '1970-01-02 01:00'", 1),
        ("date(ts) == '1970-01-02'", 24),
        ("price == 250.25", 1),
        ("label == 'dog' and price < 3", 4),
    ):
        ds = UniRecordDataset(path, where=where)
        assert len(ds) == count, where
        assert np.array_equal(
            ds.order.row_ids(),
            UniRecordDataset(path, where=str(compile_query(where, ds.schema))).order.row_ids(),
        )
    delete(path, where="price == 250.25 or date(ts) == '1970-01-02'")
    assert len(UniRecordDataset(path, where="date(ts) <= '1970-01-02'")) == 23
    assert len(UniRecordDataset(path, where="price == 250.25")) == 0


# Decimals of more than 18 digits, which lie in the data file.

_PRICES = [None if n % 7 == 0 else Decimal((n - 150) * 10**20 + n).scaleb(-2) for n in range(300)]


def _priced(where: str, wanted: Callable[[Decimal], bool], path: str) -> None:
    ds = UniRecordDataset(path, where=where)
    expected = [n for n, price in enumerate(_PRICES) if price is not None and wanted(price)]
    assert ds.scalars(["n"])["n"].tolist() == expected, where
    assert [ds.schema["price"].decimal(ds[i]["price"]) for i in range(len(ds))] == [
        _PRICES[n] for n in expected
    ]


_WHERE: list[tuple[str, Callable[[Decimal], bool]]] = [
    ("price > 500", lambda price: price > 500),
    (f"price == {_PRICES[200]}", lambda price: price == _PRICES[200]),
    (f"price between -{10**19} and {10**19}", lambda price: abs(price) <= 10**19),
    (f"price in ({', '.join(map(str, _PRICES[1:6]))})", lambda price: price in _PRICES[1:6]),
    (f"price in ({', '.join(str(one) for one in _PRICES[::2] if one)})", lambda price: price in _PRICES[::2]),
    (f"price not in ({_PRICES[1]}, 0)", lambda price: price != _PRICES[1]),
    ("price * 2 > n", lambda price: price > 150),
]


@pytest.mark.parametrize("more", [{}, {"codec": "zstd"}])
def test_wide_decimals_are_read_from_the_rows_whatever_happened_to_them(tmp_path: Path, more: Any) -> None:
    path = str(tmp_path / "data")
    kind = {**SPEC["wide"], **more}
    with Writer(path, {"n": "int64", "price": kind, "blob": "bytes"}, max_part_bytes=8 << 10) as writer:
        for n, price in enumerate(_PRICES):
            writer.write({"n": n, "price": price, "blob": b"x" * 100})
    assert len(UniRecordDataset(path).read_cursor.plan.data.snapshot.parts) > 2
    for where, wanted in _WHERE:
        _priced(where, wanted, path)
    explained = compile_query("price > 500", UniRecordDataset(path).schema)
    again = UniRecordDataset(path, where=str(explained), shuffle=True, seed=1)
    assert sorted(sample["n"] for sample in again) == [n for n, p in enumerate(_PRICES) if p and p > 500]
    delete(path, where="price < 0")
    _priced("price < 5e20", lambda price: 0 <= price < 5 * 10**20, path)
    set_values(path, "n == 299", {"price": Decimal(7)})
    assert [sample["n"] for sample in UniRecordDataset(path, where="price == 7")] == [299]
    add_columns(
        path, {"cost": kind}, {"cost": [_PRICES[n] for n in UniRecordDataset(path).scalars(["n"])["n"]]}
    )
    found = UniRecordDataset(path, where="cost != price").scalars(["n"])["n"].tolist()
    assert found == [299]


def test_wide_decimals_choose_rows_of_sources_and_of_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [{"n": n, "price": price} for n, price in enumerate(_PRICES)]
    (tmp_path / "bucket").mkdir()
    path = str(tmp_path / "bucket" / "rows.urec")
    write_dataset(records, path, schema={"n": "int64", "price": SPEC["wide"]}, where="price > 500")
    assert UniRecordDataset(path).scalars(["n"])["n"].tolist() == [
        n for n, price in enumerate(_PRICES) if price and price > 500
    ]
    with serving(tmp_path) as server:
        server.set_environment(monkeypatch)
        with UniRecordDataset("s3://bucket/rows.urec", where=f"price > {_PRICES[250]}") as ds:
            assert ds.scalars(["n"])["n"].tolist() == [n for n in range(251, 300) if n % 7]


def test_damage_in_wide_decimals_gives_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "rows.urec"
    with Writer(path, {"n": "int64", "price": SPEC["wide"]}) as writer:
        for n, price in enumerate(_PRICES):
            writer.write({"n": n, "price": price})
    data = bytearray(path.read_bytes())
    cell = int(_PRICES[299].scaleb(2)).to_bytes(16, "little", signed=True)  # type: ignore[union-attr]
    data[data.index(cell)] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptionError, match=r"rows\.urec"):
        UniRecordDataset(path, where="price > 500")
