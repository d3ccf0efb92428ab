"""What zones say of computed numbers: never more than their rows, and enough not to read what they decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from query_columns import ZONE, MemoryColumns

import unirecord
from unirecord.format.schema import Schema
from unirecord.query import compile_query, zones
from unirecord.query.bind import bind
from unirecord.query.columns import PartFields, columns_of
from unirecord.query.scan import Scan, threads_to_scan

SCHEMA = Schema.parse(
    {"a": "int32", "b": "int64", "c": "uint8", "n": "int16?", "u": "uint64", "f": "float32"}
)
ROWS = 3 * ZONE + 5
PLACES = np.arange(ROWS)


def spread(low: int, step: int, width: int) -> list[int]:
    """Whole numbers that go up by zones, and are mixed in each."""
    return (low + PLACES // ZONE * step + PLACES * 7919 % width).tolist()


def made(low: int, step: int, width: int, nulls: int) -> dict[str, list[Any]]:
    """Columns whose zones differ; ``nulls``: of which zones column n has, as bits, and 8 for all of zone 1."""
    n: list[int | None] = list(spread(low, step, width))
    for row in range(0, ROWS, 97):
        if nulls >> (row // ZONE) & 1:
            n[row] = None
    if nulls & 8:
        n[ZONE : 2 * ZONE] = [None] * ZONE
    return {
        "a": spread(low, step, width), "b": spread(-low, -step, width), "c": (PLACES % 200).tolist(), "n": n,
        "u": (PLACES % 9).tolist(), "f": (PLACES / 7).tolist(),
    }  # fmt: skip


NUMBERS = st.recursive(
    st.sampled_from(["a", "b", "c", "n", "u"]) | st.integers(-300, 300).map(str),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*"]), inner).map(lambda x: f"({x[0]} {x[1]} {x[2]})")
        | inner.map(lambda x: f"-({x})")
    ),
    max_leaves=4,
)
TESTS = st.tuples(NUMBERS, st.sampled_from(["<", "<=", ">", ">=", "==", "!="]), NUMBERS).map(" ".join)
CONDITIONS = TESTS | TESTS.map(lambda text: f"not ({text})")


@settings(max_examples=60, deadline=None)
@given(
    st.integers(-100, 100),
    st.sampled_from([0, 1, 200]),
    st.sampled_from([1, 2, 90]),
    st.integers(0, 15),
    CONDITIONS,
)
def test_zones_change_no_answer(low: int, step: int, width: int, nulls: int, text: str) -> None:
    data = made(low, step, width, nulls)
    if not any(name in text for name in "abcnu"):
        return
    query = compile_query(text, SCHEMA)
    with_zones, without = (MemoryColumns(SCHEMA, data, zoned=zoned) for zoned in (True, False))
    expected = query.rows([without])
    assert query.rows([with_zones]).tolist() == expected.tolist(), text
    assert query.count([with_zones]) == len(expected), text


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("a * 2 > c * 8 + 6000", 0),
        ("a + c >= 0", ROWS),
        ("a - c > -500 and c + a < 1000", ROWS),
        ("not (a * c < -1)", ROWS),
        ("-a > 5", 0),
        ("a * c >= 0", ROWS),
        ("u * 18446744073709551615 < 0 - c", 0),
        ("n * 2 > 9000", 0),
        ("c + 1 == a + 5000", 0),
    ],
)
def test_what_zones_decide_is_not_read(text: str, passing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = made(0, 100, 50, 1)

    def refuse(*_: object) -> None:
        raise AssertionError("a row was tried")

    monkeypatch.setattr(Scan, "_tested", refuse)
    query = compile_query(text, SCHEMA)
    assert query.count([MemoryColumns(SCHEMA, data)]) == passing
    assert len(query.rows([MemoryColumns(SCHEMA, data)])) == passing


def test_what_they_do_not_decide_is() -> None:
    data = made(0, 100, 50, 1)
    for text in ("n * 2 >= 0", "f * 2 > 9000", "a // 2 > 9000", "a % 7 > 90", "7 // a >= 0"):
        query = compile_query(text, SCHEMA)
        zoned, plain = (
            query.rows([MemoryColumns(SCHEMA, data, zoned=zoned)]).tolist() for zoned in (True, False)
        )
        assert zoned == plain, text


@pytest.mark.parametrize(("text", "threads"), [("x == 77", 1), ("x + y > 5", 2), ("x == 77 or y == 3", 2)])
def test_one_range_is_scanned_by_one_thread_where_others_take_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, threads: int
) -> None:
    monkeypatch.setattr("unirecord.query.scan.usable_cores", lambda: 2)
    monkeypatch.setattr("unirecord.query.scan.PARALLEL", zones.ZONE // 2)  # of one zone
    path, rows = tmp_path / "x.urec", 5_000
    values = np.random.default_rng(0).integers(0, 100, (2, rows), dtype=np.int32)
    with unirecord.Writer(path, {"x": "int32", "y": "int32"}) as writer:
        writer.write_batch({"x": values[0], "y": values[1]})
    data = unirecord.UniRecordDataset(path)
    fields = PartFields(columns_of(data.read_cursor.plan.data.parts)[0], 0, 0)
    assert threads_to_scan(bind(compile_query(text, data.schema).condition, fields)) == threads
    assert len(data.view(where="x == 77")) == np.count_nonzero(values[0] == 77)
