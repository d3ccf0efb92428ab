"""Blocks of JSON lines that the C core takes apart: the values that Python reads, or none at all."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from text_sources import plain

from unirecord import write_dataset
from unirecord.convert.sources import Options, Source, jsonl, open_source, text_files
from unirecord.convert.sources.jsonl import column_values, json_values
from unirecord.convert.sources.text_values import parse_json
from unirecord.core import JsonRows, read_json_lines
from unirecord.format.column import Column
from unirecord.format.values.objects import PackedObject, pack_object

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


def same(a: Any, b: Any) -> bool:
    """Whether values are the same to the bit, their types included."""
    if isinstance(a, dict):
        return type(b) is dict and list(a) == list(b) and all(map(same, a.values(), b.values()))
    if isinstance(a, list):
        return type(b) is list and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and (a.hex() == b.hex() if type(a) is float else a == b)


def records_of(data: bytes) -> list[dict[str, Any]]:
    return [parse_json(line, around=1) for line in data.decode().split("\n") if line.strip()]


def check_rows(found: JsonRows, data: bytes) -> None:
    """All values are those that Python reads, by whatever way they are asked for."""
    records = records_of(data)
    assert found.rows == len(records)
    assert list(found.cells) == list(dict.fromkeys(key for record in records for key in record))
    texts = data.decode().split("\n")
    assert found.numbers.tolist() == [i for i, line in enumerate(texts) if line.strip()]
    for key in found.cells:
        want = [record.get(key) for record in records]
        assert same(json_values(found, key), want)
        for name in ("int64", "uint8", "float64", "string", "text", "bool", "object"):
            mine = column_values(found, key, Column(name=key, type=name, nullable=True))
            if mine is None:
                continue
            for m, w in zip(mine, want, strict=True):
                if isinstance(m, PackedObject):
                    assert m.packed == pack_object(w)
                elif m is np.ma.masked or m is None:
                    assert w is None
                else:
                    assert type(w) in {
                        "float64": (int, float),
                        "bool": (bool,),
                        "string": (str,),
                        "text": (str,),
                    }.get(name, (int,))
                    assert m == w or (m != m and w != w)


@given(LINES, st.sampled_from(["\n", "\n", "\r\n", "", "\n\n"]))
@example(['{"a":-0}', '{"a":-0.0}', '{"a":0.1}'], "\n")
@example(['{"a":9007199254740993}', '{"a":0.5}'], "\n")
@example(['{"a":1}{"a":2}'], "\n")
@example(['{"a":1,"a":2}'], "\n")
@example(['{"a":1,"a":2,"b":1}', '{"a":1}'], "\n")
@example(['{"a":"2020-01-01"}', '{"a":null}', "", " \t", "{}"], "\n")
@settings(max_examples=300, deadline=None)
def test_lines_of_any_kind_are_read_as_python_reads_them_or_not(lines: list[str], end: str) -> None:
    data = (end or "\n").join(lines).encode("utf-8", "surrogateescape") + end.encode()
    found = read_json_lines(data)
    if found is not None:
        check_rows(found, data)


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.sampled_from([*range(-129, -30), *range(250, 260), 1 << 16, 1 << 32, (1 << 63) - 1, 1 << 63])
    | st.floats()
    | st.floats(-1e6, 1e6).map(lambda value: round(value, 3))
    | st.text(st.characters(codec="utf-8"), max_size=40)
    | st.sampled_from(["x" * n for n in (31, 32, 255, 256, 65_535, 65_536)] + ['"' * 32, "é\\\n\t\x7f\0"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(st.integers(0, 9), min_size=14, max_size=18)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(
    st.lists(st.dictionaries(st.sampled_from(["a", "b", "é", 'q"', ""]), VALUES), max_size=5),
    st.booleans(),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_whatever_json_can_say_is_read(rows: list[dict[str, Any]], ascii_only: bool, data: Any) -> None:
    separators = data.draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\t", " :\r")]))
    text = "".join(
        json.dumps(row, ensure_ascii=ascii_only, separators=separators) + "\n" for row in rows
    ).encode()
    found = read_json_lines(text)
    assert found is not None
    check_rows(found, text)


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?([eE][-+]?[0-9]{1,3})?", fullmatch=True))
@example("9007199254740993.0")
@example("1.7976931348623159e308")
@example("4.9e-324")
@example("1e23")
@example("8.5e22")
@settings(max_examples=500, deadline=None)
def test_numbers_are_those_that_python_reads(text: str) -> None:
    data = f'{{"a":{text},"b":[{text}]}}'.encode()
    found = read_json_lines(data)
    if found is None:  # beyond 64 bits, or beyond float64
        value = json.loads(text)
        assert isinstance(value, int) != (value in (float("inf"), float("-inf")))
        assert not isinstance(value, int) or not -(1 << 63) <= value < 1 << 64
    else:
        check_rows(found, data)


@pytest.mark.parametrize(
    "line",
    [
        b'{"a": 1, "a": 2}', b'{"a": {"b": 1, "b": 2}}', b'{"a": [{"b": 1, "\\u0062": 2}]}', b'{"a": 1e400}',
        b'{"a": [1', b'2]}', b'{"a": 1}, {"a": 2}', b"[1]", b'{"a": 1},', b'{"a"}', b'{"a": }', b'{"a": 1,}', b"{,}",
        b'{"a": ' + b"[" * 65 + b"]" * 65 + b"}", b'{"a": 123456789012345678901}', b'{"a": -9223372036854775809}',
        b'{"a": "\\ud800"}', b'{"a": "\\udc00"}', b'{"a": "\\ud800\\u0041"}', b'{"a": "\\u12g4"}', b'{"a": "\\x"}',
        b'{"a": "\xff"}', b'{"a": "\xed\xa0\x80"}', b'{"a": "\x01"}', b'{"a": [01]}', b'{"a": 1.}', b'{"a": +1}',
        b'{"a": .5}', b'{"a": 1e}', b'{"a": nul}', b'{"a": [1,]}', b'{"a": [,]}', b'{"a": {"b": 1,}}', b'{"a": {1: 2}}',
        b'{"a": "', b'{"a', b"{", b'{"a": [{"b":', b'\xef\xbb\xbf{"a": 1}', b"\x0b", b'{"a": 1}\x00', b"\x00",
    ],
)  # fmt: skip
def test_what_python_reads_otherwise_or_not_at_all_is_left_to_it(line: bytes) -> None:
    assert read_json_lines(line) is None
    assert read_json_lines(b'{"a": 1}\n' + line + b'\n{"a": 2}\n') is None


def test_many_keys_in_few_rows_each_are_left_to_python() -> None:
    lines = "".join(json.dumps({f"k{i}": i}) + "\n" for i in range(1000))
    found = read_json_lines(lines.encode())
    assert found is None
    few = "".join(json.dumps({f"k{i % 20}": i}) + "\n" for i in range(1000)).encode()
    found = read_json_lines(few)
    assert found is not None
    check_rows(found, few)


@given(st.binary(max_size=60) | st.text('{}[]",:\\u0123aeE+-. \n\ttruefalsn', max_size=60).map(str.encode))
@settings(max_examples=500, deadline=None)
def test_any_bytes_are_read_as_python_reads_them_or_not(data: bytes) -> None:
    found = read_json_lines(data)
    if found is not None:
        check_rows(found, data)


def rows_of(path: Path) -> tuple[Any, list[Any]]:
    source = open_source(str(path), options=Options())
    rows: list[Any] = []
    for batch in source.batches():
        columns = [list(map(plain, values)) for values in batch.columns.values()]
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
        [{"chat": [{"role": "user", "content": "é" * i}] * (i % 3)} for i in range(60)],
        [
            {"v": [i, i + 1], "w": [[0.5] * (i % 3)], "x": [i, "t"] if i == 30 else [i], "y": {"z": i}}
            for i in range(60)
        ],
        [{"v": None if i % 7 == 0 else [True, False], "n": float("nan") if i % 2 else i} for i in range(60)],
        [{"t": "é" * 4097 if i == 30 else "é" * 4000} for i in range(60)],
    ],
)
def test_types_and_rows_are_the_same_with_and_without(
    rows: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    monkeypatch.setattr("unirecord.convert.sources.text_files.BLOCK_BYTES", 300)
    used = []
    monkeypatch.setattr(jsonl, "read_json_lines", lambda data: used.append(read_json_lines(data)) or used[-1])
    mine = rows_of(path)
    assert any(found is not None for found in used)
    monkeypatch.setattr(jsonl, "read_json_lines", lambda data: None)
    np.testing.assert_equal(mine, rows_of(path))


def test_values_of_the_first_look_are_parsed_once_by_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"a": {i}, "b": "t{i}", "c": 0.5}}\n' for i in range(100)))
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 500)
    parsed = []
    monkeypatch.setattr(jsonl, "read_json_lines", lambda data: parsed.append(1) or read_json_lines(data))
    source = open_source(str(tmp_path / "x.jsonl"))
    blocks = len(parsed)
    assert blocks == len(source.units) > 3
    copy = pickle.loads(pickle.dumps(source))

    def values(source: Source) -> list[list[Any]]:
        return [[list(column) for column in batch.columns.values()] for batch in source.batches()]

    first = values(source)
    assert len(parsed) == blocks
    assert values(source) == first == values(copy)
    assert len(parsed) == 3 * blocks
    assert [row for batch in first for row in batch[0]] == list(range(100))


def test_values_that_were_kept_are_not_taken_for_other_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"a": {i}}}\n' for i in range(40)))
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 100)
    source = open_source(str(tmp_path / "x.jsonl"), options=Options({"a": "float64"}))
    kinds = {np.asarray(batch.columns["a"]).dtype for batch in source.batches()}
    assert kinds == {np.dtype(np.float64)}


def test_the_sample_takes_nothing_that_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.jsonl").write_text("".join(f'{{"a": {{"b": "t{i}"}}}}\n' for i in range(200)))
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 500)
    parsed = []
    monkeypatch.setattr(
        jsonl, "read_json_lines", lambda data: parsed.append(len(data)) or read_json_lines(data)
    )
    write_dataset(str(tmp_path / "x.jsonl"), str(tmp_path / "out"), workers=1)
    # Each block once, and at the end the beginning of the rows again, by which what was written is compared.
    assert len(parsed) <= (tmp_path / "x.jsonl").stat().st_size / 450 + 4


def test_lines_that_came_to_be_at_the_end_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n')
    source = open_source(str(path), options=Options())
    with path.open("a") as file:
        file.write('{"a": 2}\n')
    with pytest.raises(Exception, match="changes while it is read"):
        list(source.batches())
