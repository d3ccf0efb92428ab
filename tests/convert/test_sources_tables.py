"""CSV as records: types over the whole file, overrides, and errors that name the line."""

from __future__ import annotations

import csv
import io
import json
import tarfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from text_sources import CELL, columns_of, opened

from unirecord import UniRecordDataset, write_dataset
from unirecord.cli.main import main
from unirecord.convert.sources import csv as csv_module
from unirecord.convert.sources import open_source, text_files
from unirecord.convert.sources.source import said_of_left_out
from unirecord.errors import MissingError, SchemaError
from unirecord.format.schema import Schema


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


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(CELL, CELL), min_size=1, max_size=20))
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
    source = opened(tmp_path, ",first name,größe (m),a\x01b\n1,2,3,4\n")
    assert source.schema.names == ("column_0", "first name", "größe (m)", "a_b")
    assert said_of_left_out(source.left_out) == [
        "field '': is called 'column_0'",
        "field 'a\\x01b': is called 'a_b'",
    ]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz", "tar"])
def test_names_of_other_scripts_stay(tmp_path: Path, ending: str) -> None:
    names = ["größe", "日本", "имя", "हिन्दी", "e\u0301te", "_2", "a.b", "first name", "-"]
    path = tmp_path / f"таблица.{ending}"
    if ending == "csv":
        path.write_text(f"{','.join(names)}\n{','.join('1' * 9)}\n")
    elif ending == "jsonl":
        path.write_text(json.dumps(dict.fromkeys(names, 1)) + "\n")
    elif ending == "npz":
        np.savez(path, **dict.fromkeys(names, np.ones(1)))
    else:
        with tarfile.open(path, "w") as tar:
            for name in names:
                tar.addfile(tarfile.TarInfo(f"ключ.{name}"))
    source = open_source(str(path))
    assert set(source.schema.names) - {"key"} == set(names)
    assert source.left_out == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        write_dataset(path, tmp_path / "из")
    with UniRecordDataset(tmp_path / "из") as ds:
        assert set(ds[0]) - {"key"} == set(names)


def test_a_long_header_is_read_whatever_python_bounds(tmp_path: Path) -> None:
    header = [f"column_{i:05}" for i in range(12_000)]
    before = csv.field_size_limit(131_072)
    try:
        assert opened(tmp_path, ",".join(header) + "\n").schema.names == tuple(header)
    finally:
        csv.field_size_limit(before)


def test_no_rows_are_strings(tmp_path: Path) -> None:
    source = opened(tmp_path, "a,b\n")
    assert source.schema.to_spec() == {"a": "string", "b": "string"}
    assert list(source.batches()) == []
    assert opened(tmp_path, "a,b\n", overrides={"a": "int8"}).schema["a"].type == "int8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("1,2\n3,4\n", "holds the number '1'; add a header line, or name them: --names"),
        ("a,b\n1\n", "line 2: 1 value, but the header names 2"),
        ("a,b\n1,2\n\n1,2,3\n", "line 4: 3 values"),
        ('a,b\n1,"x\n', "line 2: unexpected end"),
        ("a,a\n1,2\n", "'a' and 'a' both make"),
        ("a\x01b,a_b\n1,2\n", r"'a\\x01b' and 'a_b' both make the column name 'a_b'"),
        ("a\n1e999\n", r"x\.csv, line 2, column 'a': '1e999' is no float64"),
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
        ({"a": "int8"}, "x.csv, line 3, column 'a': the cell is empty; the type \"int8\\?\" allows that"),
        ({"b": "int8"}, "x.csv, line 2, column 'b': 'x' is no int8"),
        ({"b": "bool"}, "'x' is no bool"),
        ({"b": {"type": "int8", "shape": [1]}}, "'x' is no int8"),
        ({"c": {"type": "int32", "shape": [-1]}}, r"x.csv, line 3, column 'c': '\[1.5\]' is no int32"),
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
def test_any_cell_is_a_value_or_refused_by_line(tmp_path: Path, spec: Any, cell: str) -> None:
    source = opened(tmp_path, f"i,a\n0,1\n1,{cell}\n", overrides={"a": spec})
    try:
        found = columns_of(source)["a"]
    except SchemaError as error:
        assert "x.csv, line " in str(error) and "'a'" in str(error)  # noqa: PT017, PT018
    else:
        assert not any(isinstance(value, float) and np.isinf(value) for value in found)


@pytest.mark.parametrize("other", ["NaN", "0.5", "inf", "1e3"])
@pytest.mark.parametrize("big", ["9007199254740993", "-1234567890123456789", "1" + "0" * 22 + "1"])
@pytest.mark.parametrize("quoted", [False, True])
def test_a_whole_number_that_float64_would_round_is_refused_by_line_and_column(
    tmp_path: Path, big: str, other: str, quoted: bool
) -> None:
    text = f'x,id\n"a{chr(10) if quoted else ""}b",1\n,{big}\n,{other}\n'
    with pytest.raises(
        SchemaError,
        match=rf"x\.csv, line {4 if quoted else 3}, column 'id': '{big}' is a whole number.*id=string",
    ):
        opened(tmp_path, text)
    assert columns_of(opened(tmp_path, text, overrides={"id": "string"}))["id"][1] == big
    assert columns_of(opened(tmp_path, text, overrides={"id": "float64"}))["id"][1] == float(big)


def test_whole_numbers_that_float64_holds_stay_what_they_are(tmp_path: Path) -> None:
    numbers = ["9007199254740992", "-9007199254740994", "1" + "0" * 22, "18446744073709551616", "0.5"]
    assert columns_of(opened(tmp_path, "\n".join(["id", *numbers]) + "\n")) == {
        "id": [float(n) for n in numbers]
    }


def test_rows_whose_numbers_would_be_rounded_are_left_out_where_that_is_asked(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("id\n1\n9007199254740993\n0.5\n")
    assert write_dataset(tmp_path / "x.csv", tmp_path / "out", on_error="report") == 2
    assert "line 3, column 'id'" in (tmp_path / "out.left-out.jsonl").read_text()


@pytest.mark.parametrize("text", ['a,"b\n1,2\n3,4\n', '"a\n', 'a,"b\n1,"2\n3,4\n'])
def test_a_quote_in_the_header_that_does_not_end_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SchemaError, match=r"x\.csv, the header"):
        opened(tmp_path, text)


def test_a_header_without_end_is_not_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_module, "_MOST_HEADER_BYTES", 1_000)
    with pytest.raises(SchemaError, match=r"x\.csv, the header: it does not end within 1,000 bytes"):
        opened(tmp_path, 'a,"b\n' + "1,2\n" * 1_000)


LJSPEECH = (
    'LJ001-0001|Printing, "in the only sense", differs|printing, differs\n'
    'LJ001-0002|"in being comparatively modern.|in being comparatively modern\n'
    'LJ001-0003|and 4" more, it says|and four inches more\n'
)
SPEECH = {"names": "id,text,normalised", "delimiter": "|", "quoting": "none"}


@pytest.mark.parametrize("with_libraries", [True, False])
def test_a_table_without_a_header_and_quoting_is_read_as_it_is_said_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, with_libraries: bool
) -> None:
    if not with_libraries:
        monkeypatch.setattr(csv_module, "arrow_block", lambda *args: None)
        monkeypatch.setattr(csv_module, "look_through_csv", lambda *args: None)
    source = opened(tmp_path, LJSPEECH, **SPEECH)
    rows = [line.split("|") for line in LJSPEECH.splitlines()]
    ids, texts, normalised = (list(column) for column in zip(*rows, strict=True))
    assert columns_of(source) == {"id": ids, "text": texts, "normalised": normalised}


def test_python_and_the_command_take_the_same_options_of_csv(tmp_path: Path) -> None:
    (tmp_path / "metadata.csv").write_text(LJSPEECH)
    path, one, other = (str(tmp_path / name) for name in ("metadata.csv", "one.urec", "other.urec"))
    names = ["id", "text", "normalised"]
    assert write_dataset(path, one, names=names, delimiter="|", quoting="none") == 3
    words = [word for name, value in SPEECH.items() for word in (f"--{name}", value)]
    assert main(["write", path, other, *words]) == 0
    assert [dict(row) for row in UniRecordDataset(one)] == [dict(row) for row in UniRecordDataset(other)]


def test_rows_without_quoting_are_whole_in_blocks_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_files, "BLOCK_BYTES", 64)
    monkeypatch.setattr(text_files, "FIRST_BYTES", 8)
    source = opened(tmp_path, LJSPEECH * 5, **SPEECH)
    assert columns_of(source)["id"] == [f"LJ001-000{i}" for i in (1, 2, 3)] * 5


def test_a_tab_is_named_and_empty_files_without_a_header_have_no_rows(tmp_path: Path) -> None:
    source = opened(tmp_path, "1\tx,y,z\n", names=["a", "b"], delimiter="\\t")
    assert columns_of(source) == {"a": [1], "b": ["x,y,z"]}
    assert opened(tmp_path, "", names=["a", "b"]).rows == 0


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (LJSPEECH, {}, r"--delimiter C, --names A,B \(there is no header line\), --quoting none"),
        (LJSPEECH, {"delimiter": "|"}, "line 3: .*; where quotes enclose nothing, --quoting none"),
        ("a,b\n1,2,3\n", {}, "quote values that hold ',', or say how it is written: --delimiter C, --names"),
        (
            "a,b\n1,2,3\n",
            {"quoting": "none"},
            r"values are parted at every ',', or .*: --delimiter C, --names A,B \(",
        ),
        ("1,2,3\n", SPEECH, r"1 value, but --names has 3 columns; values are parted at every '\|'$"),
        ("a,b\n1,2\n", {"names": ["a", "b"]}, "the first line has these names already; leave out --names"),
        ("a\n", {"delimiter": "||"}, "--delimiter is one ASCII character .* got '||'"),
        ("a\n", {"delimiter": '"'}, "--delimiter is one ASCII character"),
        ("a\n", {"delimiter": "é"}, "--delimiter is one ASCII character"),
        ("a\n", {"delimiter": 5}, "--delimiter is one ASCII character"),
        ("a\n", {"names": "a,,b"}, "--names is a name for each column"),
        ("a\n", {"names": ["a", 1]}, "--names is a name for each column"),
        ("1,2\n", {"names": ["a", "a"]}, "the fields 'a' and 'a' both make the column name 'a'"),
        ("a\n", {"quoting": "all"}, "--quoting is none .* got 'all'"),
    ],
)
def test_a_csv_that_is_written_otherwise_says_which_option_reads_it(
    tmp_path: Path, text: str, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(SchemaError, match=said):
        list(opened(tmp_path, text, **options).batches())


@pytest.mark.parametrize("option", ["delimiter", "names", "quoting"])
def test_how_a_csv_is_written_is_refused_for_what_is_none(tmp_path: Path, option: str) -> None:
    asked = {option: SPEECH[option]}
    with pytest.raises(SchemaError, match=f"--{option} is for csv, .*x.jsonl is read as jsonl"):
        opened(tmp_path, '{"a": 1}\n', "x.jsonl", **asked)
