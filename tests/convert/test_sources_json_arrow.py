"""Blocks of JSON lines by pyarrow: the values that are read one by one, or none at all."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from unirecord.convert.sources import Options, Source, jsonl, open_source, text_files
from unirecord.convert.sources.jsonl import arrow_lines
from unirecord.convert.sources.text_values import parse_json

TOKENS = [
    *("1", "-7", "0", "-0", "1.5", "-0.0", "1e5", "1.0", "9007199254740993", "9223372036854775808", "1e400"),
    *("true", "false", "null", '"x"', '""', '"é"', '"5"', '"2020-01-01"', r'"a\"b"', r'"\n"', r'"\ud800"'),
    *('"{"', '"\t"', '"\x7f"', "NaN", "Infinity", "[1]", "{}", "01", "1.", "+1", "'x'", '"\udcff"', " 3 "),
]
PIECES = st.sampled_from(["{", "}", "\n", ",", ":", '"a"', " ", "\r\n", "/**/", '{"a":1}', ""])
LINES = st.lists(
    st.builds(
        lambda pairs, mark: "{" + ",".join(f'"{k}":{v}' for k, v in pairs) + mark + "}",
        st.lists(st.tuples(st.sampled_from("aabé"), st.sampled_from(TOKENS)), min_size=1, max_size=3),
        st.just("") | PIECES,
    ),
    min_size=1,
    max_size=4,
)


@given(
    LINES, st.dictionaries(st.sampled_from("abé"), st.sampled_from(["int64", "float64", "string", "bool"])),
    st.sampled_from(["\n", "\n", "\r\n", "", "\n\n"]),
)  # fmt: skip
@example(['{"a":-0}'], {"a": "float64"}, "\n")
@example(['{"a":9007199254740993}'], {"a": "float64"}, "\n")
@example(['{"a":1}{"a":2}'], {"a": "int64"}, "\n")
@example(['{"a":1,"a":2}'], {"a": "int64"}, "\n")
@example(['{"a":1,"a":2,"b":1}', '{"a":1}'], {"a": "int64", "b": "int64"}, "\n")
@example(['{"a":"2020-01-01"}', '{"a":null}'], {"a": "string"}, "\n")
@settings(max_examples=300, deadline=None)
def test_what_is_read_is_what_python_reads(lines: list[str], kinds: dict[str, str], end: str) -> None:
    data = (end or "\n").join(lines).encode("utf-8", "surrogateescape") + end.encode()
    found = arrow_lines(data, kinds) if kinds else None
    if found is None:
        return
    records = [parse_json(line) for line in data.decode().split("\n") if line.strip()]
    assert found.rows == len(records)
    for key, kind in kinds.items():
        want = [record[key] for record in records]
        mine = [None if value is np.ma.masked else value for value in found.values(key)]
        assert [None if m is None else str(m) if kind != "float64" else float(m).hex() for m in mine] == [
            None if w is None else str(w) if kind != "float64" else float(w).hex() for w in want
        ]
        types = {int: "int64", float: "float64", str: "string", bool: "bool"}
        assert {types[type(w)] for w in want if w is not None} <= {
            kind,
            *(["int64"] if kind == "float64" else []),
        }
        assert found.nulls(key) == want.count(None)


def rows_of(path: Path) -> tuple[Any, list[Any]]:
    source = open_source(str(path), options=Options())
    rows: list[Any] = []
    for batch in source.batches():
        columns = [[None if v is np.ma.masked else v for v in values] for values in batch.columns.values()]
        rows += zip(*columns, strict=True)
    return source.schema.to_spec(), rows


@pytest.mark.parametrize(
    "rows",
    [
        [{"n": i, "f": i / 3, "s": f"é{i % 5}", "b": i % 2 == 0} for i in range(60)],
        [{"n": None if i % 7 == 0 else i, "s": None if i % 3 else "x" * i} for i in range(60)],
        [{"f": i if i < 40 else i + 0.5} for i in range(60)],
        [{"n": (1 << 63) + i if i > 50 else i} for i in range(60)],
        [{"s": "x" * (5000 if i == 30 else 1)} for i in range(60)],
        [{"a": i} if i < 40 else {"a": i, "b": "late"} for i in range(60)],
        [{"a": i if i < 40 else "text"} for i in range(3)],
    ],
)
def test_types_and_rows_are_the_same_with_and_without(
    rows: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    monkeypatch.setattr("unirecord.convert.sources.text_files.BLOCK_BYTES", 300)
    used = []
    monkeypatch.setattr(jsonl, "arrow_lines", lambda *given: used.append(arrow_lines(*given)) or used[-1])
    mine = rows_of(path)
    assert any(found is not None for found in used)
    monkeypatch.setattr(jsonl, "arrow_lines", lambda *given: None)
    np.testing.assert_equal(mine, rows_of(path))


def test_values_of_the_first_look_are_parsed_once_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"a": {i}, "b": "t{i}", "c": 0.5}}\n' for i in range(100)))
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 500)
    parsed = []
    monkeypatch.setattr(
        jsonl, "arrow_lines", lambda data, kinds: parsed.append(1) or arrow_lines(data, kinds)
    )
    source = open_source(str(tmp_path / "x.jsonl"))
    blocks = len(parsed)
    assert blocks == len(source.units) > 3
    copy = pickle.loads(pickle.dumps(source))

    def values(source: Source) -> list[list[Any]]:
        return [[list(column) for column in batch.columns.values()] for batch in source.batches()]

    first = values(source)
    assert len(parsed) == blocks + 1  # the end of the last block is open, so it is parsed again
    assert values(source) == first == values(copy)
    assert len(parsed) == 3 * blocks + 1
    assert [row for batch in first for row in batch[0]] == list(range(100))


def test_values_that_were_kept_are_not_taken_for_other_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"a": {i}}}\n' for i in range(40)))
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 100)
    source = open_source(str(tmp_path / "x.jsonl"), options=Options({"a": "float64"}))
    kinds = {np.asarray(batch.columns["a"]).dtype for batch in source.batches()}
    assert kinds == {np.dtype(np.float64)}
