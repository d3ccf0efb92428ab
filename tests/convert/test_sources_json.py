"""JSON Lines as records: types of keys, overrides, and errors that name the line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_sources import columns_of, opened

from unirecord import write_dataset
from unirecord.errors import SchemaError


def lines(*records: Any) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


def nested(of: str) -> dict[str, Any]:
    return {"type": "object", "logical": {"type": "nested", "of": of}}


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ([1, 2], "int64"),
        ([1, 2.5], "float64"),
        ([True], "bool"),
        (["a", None], "string?"),
        (["a" * 5000], "text"),
        ([None], "string?"),
        ([{"k": [1]}, None], nested("struct<k: list<int64>>")),
        ([{"k": 1}, {"k": 2.5, "b c": None}], nested('struct<k: float64, "b c": null>')),
        ([["a"], [1]], "object"),
        ([{"k": [1]}, {"k": {}}], "object"),
        ([{"k": -1}, {"k": 1 << 63}], "object"),
        ([{"k": 1 << 63}], nested("struct<k: uint64>")),
        ([{"k": {}}], "object"),
        ([{"k": None}, {"k": []}], "object"),
        (
            [{f"k{i}": i} for i in range(256)],
            nested(f"struct<{', '.join(f'k{i}: int64' for i in range(256))}>"),
        ),
        ([{f"k{i}": i} for i in range(257)], "object"),
        ([[1, 2], [3, 4]], {"type": "int64", "shape": [2]}),
        ([[1, 2], [3]], {"type": "int64", "shape": [-1]}),
        ([[1, 2], []], {"type": "int64", "shape": [-1]}),
        ([[1, 2], [0.5]], {"type": "float64", "shape": [-1]}),
        ([[[1, 2]], [[3, 4], [5, 6]]], {"type": "int64", "shape": [-1, 2]}),
        ([[True, False]], {"type": "bool", "shape": [2]}),
        ([[1], [[2]]], "object"),
        ([[[1], [2, 3]]], nested("list<list<int64>>")),
        ([[1, None]], nested("list<int64>")),
        ([[1, True]], "object"),
        ([[1], None], {"type": "int64?", "shape": [1]}),
        ([[]], "object"),
        ([[1 << 60, 0.5]], "object"),
        ([[1 << 70]], "object"),
    ],
)
def test_json_values_give_columns(tmp_path: Path, values: list[Any], spec: Any) -> None:
    source = opened(tmp_path, lines(*({"x": v} for v in values)), "x.jsonl")
    assert source.schema.to_spec() == {"x": spec}
    found = [v.tolist() if isinstance(v, np.ndarray) else v for v in columns_of(source)["x"]]
    assert found == values


def test_a_missing_key_is_null_and_keys_may_come_in_any_order(tmp_path: Path) -> None:
    source = opened(tmp_path, lines({"a": 1, "b": "x"}, {"b": "y", "a": 2}, {"a": 3, "c": 1.5}), "x.ndjson")
    assert source.schema.to_spec() == {"a": "int64", "b": "string?", "c": "float64?"}
    assert columns_of(source) == {"a": [1, 2, 3], "b": ["x", "y", None], "c": [None, None, 1.5]}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no records"),
        ('{"a": 1}\n{"a": 1\n', "line 2: not valid JSON"),
        ("[1]\n", "line 1: a line holds an object"),
        (
            lines({"a": 1}, {"a": "x"}),
            r"x\.jsonl, line 1 holds int64 and .*x\.jsonl, line 2 holds string.*--schema a=string",
        ),
        (
            lines({"a": 1}, {"a": [1]}),
            r"single value in .*x\.jsonl, line 1 and a list or object in .*x\.jsonl, line 2; --schema a=object",
        ),
        (lines({"a": 1 << 70}), "more than 64 bits"),
        ('{"a": ' + "[" * 100_000 + "\n", "line 1"),
        (f'{{"a": {"[" * 100_000}{"]" * 100_000}}}\n', "nested more than 64 levels deep"),
        (f'{{"a": {"[" * 900}{"]" * 900}}}\n', "nested more than 64 levels deep"),
        (f'{{"a": {"[" * 65}{"]" * 65}}}\n', "nested more than 64 levels deep"),
        ('{"a": 1}\n{"a": 1, "b": 2, "a": 3}\n', "line 2: an object has the key 'a' twice"),
        ('{"a": [{"b": {"c": 1, "c": 1}}]}\n', "line 1: an object has the key 'c' twice"),
        (f'{{"a": {"9" * 5000}}}\n', "more digits than 64 bits hold"),
        (
            lines({"x": 1}) + '{"x": 2, "y": {"z": [1.5, 1e400]}}\n',
            "line 2, field 'y': the number 1e400",
        ),
        ('{"a": -1e999}\n', r"x\.jsonl, line 1, field 'a': the number -1e999 is beyond float64"),
        (f'{{"a": {"1" * 400}.5}}\n', "field 'a': the number 1111"),
        ('{"a": 1e400, "b": ' + "[" * 100_000 + "\n", "line 1"),
        ('{"a": "\udcff"}\n', "line 1: it is not UTF-8"),
    ],
)
def test_a_bad_json_line_is_refused_by_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        opened(tmp_path, text, "x.jsonl")
    assert "x.jsonl" in str(caught.value)


def test_a_value_of_64_levels_is_read(tmp_path: Path) -> None:
    value: Any = None
    for _ in range(64):
        value = [value]
    assert len(opened(tmp_path, lines({"a": value}), "x.jsonl").schema.names) == 1


def test_json_overrides(tmp_path: Path) -> None:
    text = lines({"a": 1, "b": [1, 2], "c": "x"}, {"a": "s", "b": [3, 4], "c": "y"})
    overrides = {"a": "string", "b": {"type": "float32", "shape": [2]}, "c": "bytes"}
    source = opened(tmp_path, text, "x.jsonl", overrides=overrides)
    found = columns_of(source)
    assert (found["a"], found["c"]) == (["1", "s"], [b"x", b"y"])
    assert [b.dtype for b in found["b"]] == [np.float32] * 2


def test_types_and_values_of_many_rows(tmp_path: Path) -> None:
    rows = [
        {"i": i, "f": i / 3, "s": "x" * (i % 9), "b": i % 2 == 0, "l": [i, i], **({"n": i} if i % 3 else {})}
        for i in range(3000)
    ]
    source = opened(tmp_path, "".join(json.dumps(row) + "\n" for row in rows), "x.jsonl")
    assert source.schema.to_spec() == {
        "i": "int64", "f": "float64", "s": "string", "b": "bool", "l": {"type": "int64", "shape": [2]}, "n": "int64?",
    }  # fmt: skip
    found = columns_of(source)
    assert found["n"] == [row.get("n") for row in rows]
    assert [found[name][-1] for name in "ifsb"] == [rows[-1][name] for name in "ifsb"]
    late = opened(tmp_path, '{"a": 1}\n' * 2000 + f'{{"a": {1 << 63}}}\n', "y.jsonl")
    assert late.schema.to_spec() == {"a": "uint64"}


@pytest.mark.parametrize(
    ("good", "bad", "said"),
    [
        ('{"v": 1.5}', '{"v": 9007199254740993}', "column 'v'"),
        ('{"v": [1.5]}', '{"v": [9007199254740993]}', "column 'v'"),
        ('{"v": "a"}', '{"v": "\\ud800"}', "surrogate"),
        ('{"v": [1, "a"]}', '{"v": [1e3, 123456789012345678901234567890]}', "does not fit 64 bits"),
    ],
)
@pytest.mark.parametrize("target", ["out", "out.urec"])
@pytest.mark.parametrize("options", [{}, {"where": "n > 0"}])
def test_a_value_that_does_not_fit_is_named_by_file_and_line(
    tmp_path: Path, good: str, bad: str, said: str, target: str, options: dict[str, Any]
) -> None:
    for name, value in (("1", good), ("2", good), ("3", bad)):
        first = "".join(f'{{"n": {n}, {good[1:]}\n' for n in range(3))
        (tmp_path / f"{name}.jsonl").write_text(first + f'{{"n": 3, {value[1:]}\n')
    with pytest.raises(SchemaError, match=r"3\.jsonl, line 4.*" + said):
        write_dataset(tmp_path / "*.jsonl", tmp_path / target, **options)
