"""CSV and JSON Lines as records: types over the whole file, overrides, and errors that name the line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sources import plain

from unirecord.convert.sources import Options, Source, open_source, tables, text_blocks
from unirecord.convert.sources.base import column_names
from unirecord.convert.sources.csv_arrow import arrow_block
from unirecord.convert.sources.flat_json import flat_records
from unirecord.convert.sources.json_text import parse_json
from unirecord.convert.sources.overrides import parse_overrides
from unirecord.errors import MissingError, SchemaError, StaleError
from unirecord.format.schema import Schema


def opened(tmp_path: Path, text: str, name: str = "x.csv", encoding: str = "utf-8", **options: Any) -> Source:
    path = tmp_path / name
    path.write_bytes(text.encode(encoding, "surrogateescape" if encoding == "utf-8" else "strict"))
    return open_source(str(path), options=Options(**options))


def columns_of(source: Source) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {name: [] for name in source.schema.names}
    for batch in source.batches():
        for name, values in batch.columns.items():
            found[name] += [None if value is np.ma.masked else value for value in values]
    assert all(len(v) == source.rows for v in found.values())
    return found


@pytest.mark.parametrize(
    ("cells", "spec", "values"),
    [
        (["1", "-5", "+3", " 7 "], "int64", [1, -5, 3, 7]),
        (["1", "", "3"], "int64?", [1, None, 3]),
        (["1", "2.5", "1e3", ".5", "-2."], "float64", [1.0, 2.5, 1000.0, 0.5, -2.0]),
        (["nan", "inf", "-Infinity"], "float64", [float("nan"), float("inf"), float("-inf")]),
        (["9223372036854775807"], "int64", [(1 << 63) - 1]),
        (["9223372036854775808", "0"], "uint64", [1 << 63, 0]),
        (["18446744073709551616"], "string", ["18446744073709551616"]),
        (["-1", "9223372036854775808"], "string", ["-1", "9223372036854775808"]),
        (["007", "01"], "string", ["007", "01"]),
        (["1_000"], "string", ["1_000"]),
        (["true", "False", "TRUE"], "bool", [True, False, True]),
        (["true", ""], "bool?", [True, None]),
        (["true", "1"], "string", ["true", "1"]),
        (["a", "", "1"], "string?", ["a", None, "1"]),
        (["a", "b" * 5000], "text", ["a", "b" * 5000]),
        (["", ""], "string?", [None, None]),
        (["9" * 5000], "text", ["9" * 5000]),
        (["-" + "9" * 4000, "1"], "string", ["-" + "9" * 4000, "1"]),
        (["1\x1f2", "3"], "string", ["1\x1f2", "3"]),
        (["\x1f", "true"], "string", ["\x1f", "true"]),
        (["1", "  "], "string", ["1", "  "]),
    ],
)
def test_types_are_those_that_all_cells_fit(
    tmp_path: Path, cells: list[str], spec: str, values: list[Any]
) -> None:
    source = opened(tmp_path, "i,x\n" + "".join(f"0,{c}\n" for c in cells))
    assert source.schema.to_spec() == {"i": "int64", "x": spec}
    np.testing.assert_equal(columns_of(source)["x"], values)


def test_a_late_cell_decides_as_an_early_one(tmp_path: Path) -> None:
    source = opened(tmp_path, "x\n" + "1\n" * 20_000 + "2.5\n")
    assert source.schema.to_spec() == {"x": "float64"}
    assert columns_of(source)["x"][-1] == 2.5
    assert opened(tmp_path, "x\n" + "1\n" * 20_000 + "n/a\n").schema.to_spec() == {"x": "string"}


def test_every_value_equals_that_of_pandas(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame(
        {
            "id": np.arange(5000),
            "score": rng.normal(size=5000),
            "name": [f'n{i}, "q"\nline é' for i in range(5000)],
            "ok": rng.integers(0, 2, 5000).astype(bool),
        }
    )
    source = opened(tmp_path, frame.to_csv(index=False))
    for name, values in columns_of(source).items():
        assert values == frame[name].tolist()  # to_csv writes floats so that they read back the same


cell = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(cell, cell), min_size=1, max_size=20))
def test_any_text_comes_back(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    out = io.StringIO(newline="")
    csv.writer(out).writerows([("a", "b"), *rows])
    source = opened(tmp_path, out.getvalue(), overrides={"a": "string", "b": "string?"})
    assert columns_of(source) == {"a": [a for a, _ in rows], "b": [b or None for _, b in rows]}


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    source = opened(tmp_path, delimiter.join("ab") + "\n" + delimiter.join("12") + "\n")
    assert columns_of(source) == {"a": [1], "b": [2]}


def test_windows_files_and_empty_lines_are_read(tmp_path: Path) -> None:
    assert columns_of(opened(tmp_path, "\r\na,b\r\n1,2\r\n\r\n3,4", encoding="utf-8-sig")) == {
        "a": [1, 3],
        "b": [2, 4],
    }


def test_field_names_become_column_names(tmp_path: Path) -> None:
    source = opened(tmp_path, ",first name,größe (m)\n1,2,3\n")
    assert source.schema.names == ("column_0", "first_name", "gr_e_m")
    assert "field 'first name' is called 'first_name'" in source.notes


def test_no_rows_are_strings(tmp_path: Path) -> None:
    source = opened(tmp_path, "a,b\n")
    assert source.schema.to_spec() == {"a": "string", "b": "string"}
    assert list(source.batches()) == []
    assert opened(tmp_path, "a,b\n", overrides={"a": "int8"}).schema["a"].type == "int8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("1,2\n3,4\n", "holds the number '1'; add a header line"),
        ("a,b\n1\n", "line 2: 1 values, but the header names 2"),
        ("a,b\n1,2\n\n1,2,3\n", "line 4: 3 values"),
        ('a,b\n1,"x\n', "line 2: unexpected end"),
        ("a,a\n1,2\n", "'a' and 'a' both make"),
        ("a b,a-b\n1,2\n", "'a b' and 'a-b' both make the column name 'a_b'"),
        ("a\n1e999\n", "row 0, column 'a': '1e999' is no float64"),
    ],
)
def test_a_bad_csv_is_refused_by_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        list(opened(tmp_path, text).batches())
    assert "x.csv" in str(caught.value)


def test_another_encoding_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="is not UTF-8"):
        opened(tmp_path, "a\né\n", encoding="latin-1")
    with pytest.raises(SchemaError, match="is not UTF-8"):
        opened(tmp_path, "é\n1\n", encoding="latin-1")


def test_overrides_replace_inferred_types(tmp_path: Path) -> None:
    text = 'a,b,c,d,e\n1,2,"[1, 2]",yes,"{""k"": 1}"\n3,,"[]",no,"[]"\n'
    overrides = {
        "a": "int8",
        "b": "float32?",
        "c": {"type": "int16", "shape": [-1]},
        "d": "bool",
        "e": "object",
    }
    source = opened(tmp_path, text, overrides=overrides)
    assert source.schema == Schema.parse(overrides)
    found = columns_of(source)
    assert [c.tolist() for c in found.pop("c")] == [[1, 2], []]
    assert found == {"a": [1, 3], "b": [2.0, None], "d": [True, False], "e": [{"k": 1}, []]}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"a": "int8"}, "row 1, column 'a': the cell is empty; the type \"int8\\?\" allows that"),
        ({"b": "int8"}, "row 0, column 'b': 'x' is no int8"),
        ({"b": "bool"}, "'x' is no bool"),
        ({"b": {"type": "int8", "shape": [1]}}, "'x' is no int8"),
        ({"c": {"type": "int32", "shape": [-1]}}, r"row 1, column 'c': '\[1.5\]' is no int32"),
        ({"z": "int8"}, "no column 'z' in the data"),
        ({"b": "object"}, "'x' is no object"),
    ],
)
def test_an_override_that_does_not_fit_is_refused(tmp_path: Path, overrides: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        list(opened(tmp_path, 'a,b,c\n1,x,"[1]"\n,y,"[1.5]"\n', overrides=overrides).batches())


def test_a_cell_of_json_that_is_refused_says_why(tmp_path: Path) -> None:
    for cell, said in (
        ('{""k"": 1, ""k"": 2}', "is no object: an object has the key 'k' twice"),
        ("[" * 70 + "]" * 70, "is no object: a value is nested more than"),
        ("[1, 2", "is no object: Expecting"),
    ):
        with pytest.raises(SchemaError, match=said):
            list(opened(tmp_path, f'a,b\n1,"{cell}"\n', overrides={"b": "object"}).batches())


def lines(*records: Any) -> str:
    return "".join(json.dumps(r) + "\n" for r in records)


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ([1, 2], "int64"),
        ([1, 2.5], "float64"),
        ([True], "bool"),
        (["a", None], "string?"),
        (["a" * 5000], "text"),
        ([None], "string?"),
        ([{"k": [1]}, None], "object"),
        ([["a"], [1]], "object"),
        ([[1, 2], [3, 4]], {"type": "int64", "shape": [2]}),
        ([[1, 2], [3]], {"type": "int64", "shape": [-1]}),
        ([[1, 2], []], {"type": "int64", "shape": [-1]}),
        ([[1, 2], [0.5]], {"type": "float64", "shape": [-1]}),
        ([[[1, 2]], [[3, 4], [5, 6]]], {"type": "int64", "shape": [-1, 2]}),
        ([[True, False]], {"type": "bool", "shape": [2]}),
        ([[1], [[2]]], "object"),
        ([[[1], [2, 3]]], "object"),
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
        (lines({"a": 1}, {"a": "x"}), "row 0 holds int64 and row 1 holds string.*--schema a=string"),
        (
            lines({"a": 1}, {"a": [1]}),
            "single value in row 0 and a list or object in row 1; --schema a=object",
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
            "line 2: row 1, field 'y': the number 1e400",
        ),
        ('{"a": -1e999}\n', "row 0, field 'a': the number -1e999 is beyond float64"),
        (f'{{"a": {"1" * 400}.5}}\n', "field 'a': the number 1111"),
        ('{"a": 1e400, "b": ' + "[" * 100_000 + "\n", "line 1"),
        ('{"a": "\udcff"}\n', "line 1: not UTF-8"),
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


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("a=int32", {"a": "int32"}),
        (" a = int32? , b=string", {"a": "int32?", "b": "string"}),
        ("a=int32[3,-1],b=bool", {"a": {"type": "int32", "shape": [3, -1]}, "b": "bool"}),
        ('{"a": {"type": "int8", "shape": [2]}}', {"a": {"type": "int8", "shape": [2]}}),
    ],
)
def test_schema_text_forms(text: str, spec: Any) -> None:
    assert parse_overrides(text) == spec


def test_schema_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('{"a": "int8"}')
    assert parse_overrides(str(tmp_path / "s.json")) == {"a": "int8"}


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a=",
        "=int8",
        "a=int8,",
        "a=in",
        "a=int8[x]",
        '{"a"',
        '{"a": 3}',
        '{"a": "int8", "a": "int16"}',
        "a=int8,a=int16",
        "/none.json",
    ],
)
def test_bad_schema_text_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_overrides(text)


def test_what_cannot_be_a_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="does not exist"):
        open_source(str(tmp_path / "none.csv"))
    (tmp_path / "x.dat").write_text("a\n1\n")
    with pytest.raises(SchemaError, match="--from csv"):
        open_source(str(tmp_path / "x.dat"))
    assert open_source(str(tmp_path / "x.dat"), "csv").rows == 1
    with pytest.raises(SchemaError, match="is a folder; csv are read from a file"):
        open_source(str(tmp_path), "csv")


def nested(levels: int) -> str:
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    "spec", ["object", {"type": "int32", "shape": [-1]}, "int32", "bool", "float32", "bytes"]
)
@pytest.mark.parametrize(
    "cell", [nested(5000), nested(500), nested(65), "9" * 5000, "1e400", "[1e400]", "NaN", "²", ""]
)
def test_any_cell_is_a_value_or_refused_by_row(tmp_path: Path, spec: Any, cell: str) -> None:
    source = opened(tmp_path, f"i,a\n0,1\n1,{cell}\n", overrides={"a": spec})
    try:
        found = columns_of(source)["a"]
    except SchemaError as error:
        assert "row" in str(error) and "'a'" in str(error)  # noqa: PT017, PT018
    else:
        assert not any(isinstance(value, float) and np.isinf(value) for value in found)


@pytest.mark.parametrize(
    "cell", ["' ' * 200_000 + 'x'", "' ' * 200_000", "'1' * 200_000 + 'x'", "' 1 ' * 60_000"]
)
def test_blanks_and_digits_take_linear_time(cell: str) -> None:
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20))\n"  # quadratic: minutes
        "from unirecord.convert.sources.cell_types import CellEvidence\n"
        "evidence = CellEvidence(); evidence.add([eval(sys.argv[1])] * 20); print(evidence.type())"
    )
    argv = [sys.executable, "-c", program, cell]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "text")


def test_many_columns_are_named_in_linear_time(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(60_000)]
    compared = 0

    class Name(str):
        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    assert column_names([Name(name) for name in names], "x")[0] == names
    assert compared < 10 * len(names)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    for name, text, more in (("x.csv", "a\n1\n2\n", "3\n"), ("x.jsonl", '{"a": 1}\n', '{"a": 2}\n')):
        for changed in (text + more, text[:-2] if name == "x.csv" else ""):
            source = opened(tmp_path, text, name)
            (tmp_path / name).write_text(changed)
            with pytest.raises(StaleError, match=f"{name} changes while it is read"):
                list(source.batches())


def test_units_of_tables_are_read_alike_by_whoever_opens_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 10_000)
    for name, text in (
        ("x.csv", "a\n" + "".join(f"{i}\n" for i in range(10_000))),
        ("x.jsonl", "".join(f'{{"a": {i}}}\n' for i in range(3_000))),
    ):
        rows = text.count("\n") - (name == "x.csv")
        source = opened(tmp_path, text, name)
        assert [v for b in source.batches() for v in b.columns["a"]] == list(range(rows))
        again = opened(tmp_path, text, name)
        assert len(again.units) > 2
        found: list[int] = []
        for unit in reversed(again.units):
            found = [v for b in again.batches_of(unit) for v in b.columns["a"]] + found
        assert found == list(range(rows))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.tuples(cell, st.text('"\n\r, a', max_size=6)), min_size=1, max_size=30),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(1, 40),
)
def test_blocks_of_any_size_hold_whole_records(
    tmp_path: Path, rows: list[tuple[str, str]], ending: str, size: int
) -> None:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=ending).writerows([("a", "b"), *rows])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", size)
        source = opened(tmp_path, out.getvalue(), overrides={"a": "string", "b": "string"})
        alone = [
            row
            for unit in reversed(source.units)  # in any order, in other processes
            for batch in reversed(list(pickle.loads(pickle.dumps(source)).batches_of(unit)))
            for row in reversed(list(zip(batch.columns["a"], batch.columns["b"], strict=True)))
        ]
    assert alone[::-1] == rows
    assert source.rows == len(rows)


@pytest.mark.parametrize("text", ['x"y,1\na"",2\n"p\nq",3\n', 'a""b,1\n"c""\n""d",2\n5",3\n'])
def test_quotes_in_odd_places_do_not_cut_records(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    for size in range(1, len(text) + 1):
        monkeypatch.setattr(text_blocks, "BLOCK_BYTES", size)
        assert columns_of(opened(tmp_path, "a,b\n" + text)) == {"a": wanted, "b": [1, 2, 3]}


number = st.sampled_from(
    ["", "0", "-0", "+5", "007", "-007", "1.5", "01.5", "1.", ".5", "-.5e3", "1e05", "1E5", "1e999", "nan", "nan(1)",
     "inf",
     "-Infinity", " 7", "7 ", " ", "1_0", "0x1", "true", "FALSE", "t", f"{(1 << 63) - 1}", f"{1 << 63}",
     f"{-(1 << 63) - 1}", f"{1 << 64}", "é", "\x1f", '"', "x,y", "a\nb", "1" * 40, "2020-01-05", "1d", "NA"]
)  # fmt: skip
column = st.integers(0, 4).flatmap(
    lambda kind: (
        number,
        st.integers(-(10**19), 10**20).map(str),
        st.floats().map(repr),
        st.sampled_from(["true", "False", ""]),
        st.text(max_size=5),
    )[kind]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(
    st.data(),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([None, "int64?", "float64", "float32?", "bool", "string", "text", "uint8?", "bytes"]),
)
def test_with_and_without_pyarrow_and_c_types_and_values_are_the_same(
    tmp_path: Path, data: Any, ending: str, override: str | None
) -> None:
    kinds = data.draw(st.lists(st.sampled_from([number, column]), min_size=2, max_size=2))
    rows = data.draw(st.lists(st.tuples(*kinds), min_size=1, max_size=8))
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=ending).writerows([("a", "b"), *rows])
    text = out.getvalue().replace("\0", "")
    overrides = {} if override is None else {"a": override}
    found = []
    for use in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            if not use:
                patch.setattr(tables, "arrow_block", lambda *args: None)
                patch.setattr(tables, "look_through_csv", lambda *args: None)
            try:
                source = opened(tmp_path, text, overrides=overrides)
                columns = {n: [plain(v) for v in values] for n, values in columns_of(source).items()}
                found.append(str((source.schema.to_spec(), source.rows, columns)))
            except SchemaError as error:
                found.append(str(error))
    assert found[0] == found[1]


def test_blocks_that_pyarrow_reads_otherwise_are_left_to_csv() -> None:
    texts = Schema.parse({"a": "string", "b": "string"})
    for data in (b"a\rb\n", b'x"y,1\n', b"a\0b,1\n", b"\xff,1\n", b"1,2,3\n", b""):
        assert arrow_block(data, texts, ",") is None
    block = arrow_block(b'1,"a\nb"\n\n2,""\n', texts, ",")
    assert block is not None
    assert (block.rows, block.texts(1)) == (2, ["a\nb", ""])


@given(st.text(), st.sampled_from(["a.csv", "a.jsonl"]))
def test_any_text_is_read_or_refused(text: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as root, contextlib.suppress(SchemaError):
        columns_of(
            opened(Path(root), text.encode("utf-8", "surrogatepass").decode("latin-1"), name, "latin-1")
        )


json_cell = st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats() | st.text(max_size=6)
json_value = json_cell | st.lists(json_cell, max_size=3) | st.lists(st.integers(0, 9), max_size=3)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), json_value), min_size=1, max_size=6), st.data())
def test_lines_by_orjson_have_the_values_that_python_reads(rows: list[dict[str, Any]], data: Any) -> None:
    lines = [
        json.dumps(row, ensure_ascii=data.draw(st.booleans())).encode("utf-8", "replace") for row in rows
    ]
    found = flat_records(lines)
    if found is not None:
        assert str(found) == str([parse_json(line.decode()) for line in lines])


@pytest.mark.parametrize(
    "lines",
    [
        [b'{"a": 1, "a": 2}'], [b'{"a": "x\\"y"}'], [b'{"a": {"b": 1}}'], [b'{"a": 1}, {"a": 2}'],
        [b'{"a": [1', b'2]}'], [b'{"a": 1e400}'],
        [b'{"a": ' + b"[" * 70 + b"]" * 70 + b"}"], [b'{"a": 123456789012345678901}'], [b'{"a": NaN}'],
        [b'{"a": "\\ud800"}'],
        [b'{"a": "\xff"}'], [b'{"a": 1}', b"[1]"], [b'{"a":[{"x":1}', b'{"y":2}]}'], [b'{"a": "}{"}'],
    ],
)  # fmt: skip
def test_lines_that_orjson_may_read_otherwise_are_left_to_python(lines: list[bytes]) -> None:
    assert flat_records(lines) is None
    plain = [
        b'{"a": 1, "b": ["x", -0, -0.0]} \r',
        b'{"n": "name123", "f": 0.0012345678901234567, "g": 1e-05}',
    ]
    assert flat_records(plain) == [parse_json(line.decode()) for line in plain]


@pytest.mark.parametrize("use", [True, False])
def test_with_and_without_orjson_types_and_values_are_the_same(
    tmp_path: Path, use: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not use:
        monkeypatch.setitem(sys.modules, "orjson", None)
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
