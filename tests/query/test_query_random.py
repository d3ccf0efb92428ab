"""Random queries on random columns: every way of answering gives what a slow evaluator and DuckDB give."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from query_columns import MemoryColumns
from query_oracle import Generator
from sweeps import stride

from unirecord.format.schema import Schema
from unirecord.query import compile_query

TYPES = {
    "i8": "int8", "u16": "uint16", "i32": "int32", "i64": "int64", "u64": "uint64",
    "f16": "float16", "f32": "float32", "f64": "float64", "name": "string", "kind": "string",
}  # fmt: skip
SCHEMA = Schema.parse({name: type_ + "?" for name, type_ in TYPES.items()} | {"sure": "int16"})
ALL_TYPES = TYPES | {"sure": "int16"}
INTEGERS = {
    "i8": (-128, 127), "u16": (0, 65535), "i32": (-(2**31), 2**31 - 1), "i64": (-(2**63), 2**63 - 1),
    "u64": (0, 2**64 - 1), "sure": (-(2**15), 2**15 - 1),
}  # fmt: skip
FLOATS = [0.0, -0.0, 0.1, 0.5, -1.5, 1e-40, 65504.0, 2.0**53, 1e30, math.inf, -math.inf, math.nan]
TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "a%b",
    "a_b",
    "é",
    "日本",
    "\U0001f600x",
    "zz\x00",
    "a'b",
    "\uffff",
    "\U00010000",
]


def rounded(type_: str, value: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.dtype(type_).type(value))


def values_of(name: str, pick: random.Random) -> list[Any]:
    """Values of a column that are worth storing: extremes, neighbours of zero, and a few that repeat."""
    if name in INTEGERS:
        low, high = INTEGERS[name]
        few = [0, 1, 2, 3, 7, low, low + 1, high, high - 1, 2**53 + 1, -(2**53) - 1, pick.randint(low, high)]
        return [value for value in few if low <= value <= high]
    if ALL_TYPES[name] == "string":
        return TEXTS
    return [rounded(ALL_TYPES[name], value) for value in FLOATS]


def literals_of(name: str, pick: random.Random) -> list[Any]:
    """Values to compare a column with: its own, those beyond its type, and numbers of the other kind."""
    own = values_of(name, pick)
    if ALL_TYPES[name] == "string":
        return [text for text in own if "\\" not in text]
    return [v for v in own if math.isfinite(v)] + [
        0.1,
        2.5,
        -0.5,
        2**53,
        2**64,
        -(2**70),
        1e300,
        3,
        65503.9,
        1e-50,
    ]


def sort_key(value: Any) -> tuple[bool, Any]:
    """Nulls and NaN last, so that zones differ."""
    return (
        (True, 0)
        if value is None or value != value
        else (False, value.encode() if isinstance(value, str) else value)
    )


def part(pick: random.Random, rows: int) -> tuple[dict[str, list[Any]], MemoryColumns]:
    data: dict[str, list[Any]] = {}
    for name in ALL_TYPES:
        choices = values_of(name, pick)
        nulls = 0.0 if name == "sure" else pick.choice([0.0, 0.2, 1.0])
        data[name] = [None if pick.random() < nulls else pick.choice(choices) for _ in range(rows)]
        if pick.random() < 0.3 and name != "sure":
            data[name].sort(key=sort_key)
    ordered = pick.sample(list(ALL_TYPES), 4)
    plain = [name for name in ("name", "kind") if pick.random() < 0.3]
    ordered = [name for name in ordered if name not in plain]
    return data, MemoryColumns(SCHEMA, data, ordered, plain, zoned=pick.random() < 0.8)


@pytest.mark.parametrize("seed", range(0, 40, stride(1, 2)))
def test_random_queries_agree_with_a_slow_evaluator(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pick = random.Random(seed)
    for module in ("unirecord.query.zones", "unirecord.query.scan", "query_columns"):
        monkeypatch.setattr(f"{module}.ZONE", 8)
    monkeypatch.setattr("unirecord.query.query.FEW", 0 if pick.random() < 0.7 else 1000)
    monkeypatch.setattr("unirecord.query.scan.SLICE", pick.choice([5, 64, 1 << 19]))
    monkeypatch.setattr("unirecord.query.scan.COMPUTED_SLICE", pick.choice([3, 1 << 16]))
    monkeypatch.setattr("unirecord.query.scan.PARALLEL", pick.choice([1, 1 << 20]))
    parts = [part(pick, rows) for rows in (pick.choice([0, 1, 7, 60]), 100, pick.choice([0, 33]))]
    sources = [source for _, source in parts]
    rows = [{name: data[name][i] for name in data} for data, source in parts for i in range(source.rows)]
    samples = {name: literals_of(name, pick) for name in ALL_TYPES}
    generator = Generator(seed, ALL_TYPES, samples, ("+", "-", "*", "/", "//", "%"))
    for _ in range(40):
        condition = generator.condition()
        query = compile_query(condition.text(), SCHEMA)
        expected = [number for number, row in enumerate(rows) if condition.of(row) is True]
        assert query.rows(sources).tolist() == expected, condition.text()
        assert query.count(sources) == len(expected), condition.text()
        assert compile_query(str(query), SCHEMA) == query, condition.text()


PLAIN_TYPES = {"a": "int32", "b": "int64", "x": "float64", "name": "string", "kind": "string"}
PLAIN_SCHEMA = Schema.parse({name: type_ + "?" for name, type_ in PLAIN_TYPES.items()})
SQL_TYPES = {"int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE", "string": "VARCHAR"}


@pytest.mark.parametrize("seed", range(10))
def test_random_queries_agree_with_duckdb(seed: int) -> None:
    """Where both mean the same: no NaN (DuckDB orders it), no overflow (an error there), no // (it truncates)."""
    import duckdb

    pick = random.Random(seed)
    choices: dict[str, list[Any]] = {
        "a": [*range(-5, 10), 1000],
        "b": [*range(-3, 3), 10**6],
        "x": [0.0, -0.0, 0.5, 0.1, -1.5, 2.0, 1e9],
        "name": [text for text in TEXTS if "\0" not in text],
        "kind": ["cat", "dog", "cow", "", "do"],
    }
    data = {name: [pick.choice([None, *options]) for _ in range(300)] for name, options in choices.items()}
    source = MemoryColumns(PLAIN_SCHEMA, data, ["a", "kind"])
    table = duckdb.connect()
    table.execute(
        "CREATE TABLE t (n INTEGER, " + ", ".join(f"{n} {SQL_TYPES[t]}" for n, t in PLAIN_TYPES.items()) + ")"
    )
    rows = list(zip(range(300), *(data[name] for name in PLAIN_TYPES), strict=True))
    table.executemany(f"INSERT INTO t VALUES ({', '.join('?' * 6)})", rows)
    generator = Generator(seed, PLAIN_TYPES, choices, ("+", "-", "*"))
    for _ in range(60):
        text = generator.condition().text()
        expected = [row[0] for row in table.execute(f"SELECT n FROM t WHERE {text} ORDER BY n").fetchall()]
        assert compile_query(text, PLAIN_SCHEMA).rows([source]).tolist() == expected, text
