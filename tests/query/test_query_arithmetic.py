"""Arithmetic over whole columns, in slices and threads of any kind: what Python's integers say of each row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from query_columns import MemoryColumns

from unirecord.format.schema import Schema
from unirecord.query import compile_query
from unirecord.query.bind import BoundCondition
from unirecord.query.scan import Scan

SCHEMA = Schema.parse(
    {"a": "int32", "b": "int64", "c": "int8", "n": "int32?", "ok": "bool", "s": "string", "m": "int16?"}
)
ROWS = 70
EDGES = {
    "a": [0, 1, -1, 2**31 - 1, -(2**31), 7, 1000],
    "b": [0, -1, 2**63 - 1, -(2**63), 5, 2**53 + 1],
    "c": [0, 127, -128, 3],
    "n": [None, 0, 4, -4, 2**31 - 1],
    "ok": [True, False, True],
    "s": ["", "a", "b"],
    "m": [3, None, -3, 32767, -32768, 0, 1, 2],
}
DATA = {name: [values[row % len(values)] for row in range(ROWS)] for name, values in EDGES.items()}
NESTED = "a + (c + (a + (c + (a + (c + (a + (c + (a + c))))))))"  # deeper than the C core's stack
Test = Callable[..., bool]
CASES: list[tuple[str, Test]] = [
    ("a * 2 > c * 8 + 6", lambda a, c, **_: a * 2 > c * 8 + 6),
    ("2147483647 + a > c", lambda a, c, **_: 2147483647 + a > c),
    ("a - 2147483648 < c", lambda a, c, **_: a - 2147483648 < c),
    ("b + 1 > a", lambda a, b, **_: b + 1 > a),
    ("9223372036854775807 * b >= a", lambda a, b, **_: 9223372036854775807 * b >= a),
    ("b * 18446744073709551616 < a", lambda a, b, **_: b * 2**64 < a),
    ("a // -1 > c", lambda a, c, **_: a // -1 > c),
    ("b // -1 > c", lambda b, c, **_: b // -1 > c),
    ("a % -7 == c % 5", lambda a, c, **_: a % -7 == c % 5),
    ("7 // a <= c", lambda a, c, **_: a != 0 and 7 // a <= c),
    ("-7 % c == 2", lambda c, **_: c != 0 and -7 % c == 2),
    ("a + 0 == a", lambda **_: True),
    ("n * 3 <= a", lambda a, n, **_: n is not None and n * 3 <= a),
    ("n + m > 3", lambda m, n, **_: None not in (m, n) and n + m > 3),
    ("not (n - m <= -1)", lambda m, n, **_: None not in (m, n) and n - m > -1),
    ("-m == n * -1 + 1", lambda m, n, **_: None not in (m, n) and -m == 1 - n),
    ("a * m < b", lambda a, b, m, **_: m is not None and a * m < b),
    (f"{NESTED} > 0", lambda a, c, **_: 5 * (a + c) > 0),
    ("a / 3 > c + 0.5", lambda a, c, **_: a / 3 > c + 0.5),
    ("ok and a * 2 > c", lambda a, c, ok, **_: ok and a * 2 > c),
    ('s == "a" or a + 1 > c or b - 1 < c', lambda a, b, c, s, **_: s == "a" or a + 1 > c or b - 1 < c),
    ("a * 2 > c and (c + 1 > 3 or row > 50)", lambda a, c, row, **_: a * 2 > c and (c + 1 > 3 or row > 50)),
]


@pytest.mark.parametrize("computed", [1, 8, 9, 64, ROWS])
@pytest.mark.parametrize("parallel", [1, 1 << 20])
def test_slices_and_threads_change_no_answer(
    computed: int, parallel: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unirecord.query.scan.COMPUTED_SLICE", computed)
    monkeypatch.setattr("unirecord.query.scan.PARALLEL", parallel)
    parts = [MemoryColumns(SCHEMA, DATA, zoned=zoned) for zoned in (True, False)]
    for text, test in CASES:
        passing = [row for row in range(2 * ROWS) if test(row=row, **row_of(row % ROWS))]
        query = compile_query(text, SCHEMA)
        assert query.rows(parts).tolist() == passing, text
        assert query.count(parts) == len(passing), text
        pieces: list[np.ndarray] = []
        query.find(parts, lambda rows, pieces=pieces: pieces.append(rows.copy()))
        assert sorted(np.concatenate([np.empty(0, np.int64), *pieces]).tolist()) == passing, text


def row_of(row: int) -> dict[str, object]:
    return {name: values[row] for name, values in DATA.items()}


@pytest.mark.parametrize(
    "text",
    [
        "a % 7 * 2 > c - 4000000000",  # nearly all rows pass
        "a % 7 * 3 > c + 6000000000",  # few pass
        "a % 7 * 2 > c - 4000000000 or n % 7 * 2 > c",
    ],
)
def test_numbers_are_worked_out_once(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("unirecord.query.scan.COMPUTED_SLICE", 8)
    tried: list[tuple[int, int]] = []
    tested = Scan._tested

    def counted(bound: BoundCondition, start: int, stop: int) -> np.ndarray:
        tried.append((id(bound), start))
        return tested(bound, start, stop)

    monkeypatch.setattr(Scan, "_tested", staticmethod(counted))
    compile_query(text, SCHEMA).rows([MemoryColumns(SCHEMA, DATA)])
    assert tried
    assert len(tried) == len(set(tried))


@pytest.mark.parametrize(
    ("text", "in_python"),
    [
        ("a * c - n > 5 - m", False),
        ("-a + 3 == c", False),
        ("2147483647 * 4 + a > b - b", True),  # b - b: 65 bits
        ("a // 2 > c", True),
        ("a + 0.5 > c", True),
        (f"{NESTED} > 0", True),
        ("row * 2 > a", True),
    ],
)
def test_sums_and_products_are_worked_out_in_c(
    text: str, in_python: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []
    tested = Scan._tested

    def counted(bound: BoundCondition, start: int, stop: int) -> np.ndarray:
        tried.append(start)
        return tested(bound, start, stop)

    monkeypatch.setattr(Scan, "_tested", staticmethod(counted))
    assert compile_query(text, SCHEMA).count([MemoryColumns(SCHEMA, DATA, zoned=False)]) > 0
    assert bool(tried) == in_python


def test_row_counts_around_every_border() -> None:
    schema = Schema.parse({"a": "int32"})
    for rows in (1, 7, 8, 9, 63, 64, 65, 1023, 1024, 1025, 2047, 4097):
        values = (np.arange(rows, dtype=np.int64) * 2654435761 % 97).tolist()
        part = MemoryColumns(schema, {"a": values})
        for text, low in (
            ("a > 90", 90),
            ("a > 3", 3),
            ("a >= 0", -1),
            ("a * 2 > 7", 3),
            ("a + a > 180", 90),
        ):
            query = compile_query(text, schema)
            passing = [row for row, value in enumerate(values) if value > low]
            assert query.rows([part]).tolist() == passing
            assert query.count([part]) == len(passing)
