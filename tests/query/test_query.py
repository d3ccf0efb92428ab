"""Queries as text: what they mean, how errors point at the place, and their canonical form."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_columns import MemoryColumns

from unirecord import QueryError
from unirecord.format.schema import Schema
from unirecord.query import compile_query

SCHEMA = Schema.parse(
    {
        "label": "int32",
        "width": "uint16?",
        "score": "float32?",
        "exact": "float64",
        "big": "int64",
        "huge": "uint64",
        "flag": "bool?",
        "name": "string?",
        "path": "string",
        "like": "int8",
        "3_name": "int8",
        "image": "bytes",
    }
)
ROWS = [
    # label width score exact big huge flag name path like 3_name
    (3, 100, 0.1, 0.1, 2**53 + 1, 2**64 - 1, True, "cat", "a/n015_1.png", 1, 1),
    (7, None, math.nan, math.nan, 2**53, 0, False, "dog", "a/n016%.png", 2, 2),
    (-2, 600, None, math.inf, -(2**63), 2**63, None, None, "é/100%", -3, 3),
    (3, 0, -0.0, 2.0**53, 2**63 - 1, 7, True, "", "quo\"te's\\", 0, 4),
]
NAMES = [name for name in SCHEMA.names if name != "image"]


def part() -> MemoryColumns:
    columns = {name: [row[i] for row in ROWS] for i, name in enumerate(NAMES)}
    return MemoryColumns(SCHEMA, columns | {"image": [b""] * len(ROWS)}, ["label"])


def rows(text: str) -> list[int]:
    return compile_query(text, SCHEMA).rows([part()]).tolist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("label == 3", [0, 3]),
        ("label = 3", [0, 3]),
        ("label != 3", [1, 2]),
        ("label <> 3", [1, 2]),
        ("3 == label", [0, 3]),
        ("LABEL == 3 or label == 3".replace("LABEL", "label"), [0, 3]),
        ("label == 3 AND width >= 100", [0]),
        ("label == 3 && width >= 100", [0]),
        ("label == 7 || label == -2", [1, 2]),
        ("not label == 3", [1, 2]),
        ("NOT (label = 3 OR label = 7)", [2]),
        ("label in (3, -2)", [0, 2, 3]),
        ("label in [3, -2,]", [0, 2, 3]),
        ("label not in (3)", [1, 2]),
        ("label between -2 and 3", [0, 2, 3]),
        ("label not between -2 and 3", [1]),
        ("-3 < label <= 3", [0, 2, 3]),
        ("label == 3 == like", []),
        ("name in ('cat', \"dog\")", [0, 1]),
        ("name == ''", [3]),
        ("path like 'a/n01_%'", [0, 1]),
        ("path like '%\\%'", [2]),
        ("path like '%!%' escape '!'", [2]),
        ("path not like 'a%'", [2, 3]),
        ("path startswith 'a/'", [0, 1]),
        ("path.startswith('a/')", [0, 1]),
        ("startswith(path, 'a/')", [0, 1]),
        ("path endswith '.png'", [0, 1]),
        ("'n01' in path", [0, 1]),
        ("path contains '%'", [1, 2]),
        ("path == 'quo\"te''s\\\\'", [3]),
        ("path > 'a' and path < 'b'", [0, 1]),
        ("path > 'zzz'", [2]),
        ("name is null", [2]),
        ("name is not null and name < 'd'", [0, 3]),
        ("flag", [0, 3]),
        ("not flag", [1]),
        ("flag == false", [1]),
        ("flag is null", [2]),
        ("flag == (label == 3)", [0, 1, 3]),
        ("label * 2 + 1 > 6", [0, 1, 3]),
        ("width * label > 100", [0]),
        ("label // like == 3", [0, 1]),
        ("label / 2 == 3.5", [1]),
        ("label % 2 == 1", [0, 1, 3]),
        ("label // like is null", [3]),
        ("-label < -3", [1]),
        ("`like` == 1", [0]),
        ("`3_name` == 4", [3]),
        ("row < 2", [0, 1]),
        ("row in (0, 3, 99)", [0, 3]),
        ("part == 0 and row >= 3", [3]),
        ("part == 1", []),
        ("true", [0, 1, 2, 3]),
        ("1 == 2", []),
        ("label == 1_000 or label == 0x7", [1]),
    ],
)
def test_expression_selects(text: str, expected: list[int]) -> None:
    text = text.replace("// like", "// `like`").replace("== like", "== `like`")
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("score == 0.1", [0]),  # a written decimal means the column's own nearest number
        ("score <= 0.1", [0, 3]),
        ("exact == 0.1", [0]),
        ("score == exact", []),  # columns compare exactly: float32 0.1 is not float64 0.1
        ("score == 0", [3]),  # -0.0 equals 0
        ("score == score", [0, 3]),
        ("score != score", [1]),  # NaN differs from itself; null is neither
        ("score is nan", [1]),
        ("score is not nan", [0, 3]),
        ("not (score < 0.5)", [1]),  # NaN is not less; null is unknown
        ("score < 0.5 or not score < 0.5", [0, 1, 3]),
        ("exact == inf", [2]),
        ("exact < inf", [0, 3]),
        ("big == 9007199254740993", [0]),
        ("big == 9007199254740992.0", [1]),
        ("big > 9007199254740992.0", [0, 3]),
        ("big == exact", []),  # 2^63 - 1 is not 2^53
        ("exact == 9007199254740993", []),
        ("big + 1 > 9223372036854775807", [3]),  # whole numbers do not overflow
        ("big * big > 0", [0, 1, 2, 3]),
        ("huge > big", [0, 2]),
        ("huge - 18446744073709551616 == -1", [0]),
        ("huge > -1", [0, 1, 2, 3]),
        ("width == 2.5", []),
        ("width != 2.5", [0, 2, 3]),  # null is not different, it is unknown
        ("width < 1e300", [0, 2, 3]),
        ("label / 0.0 == inf", [0, 1, 3]),
    ],
)
def test_numbers_compare_by_their_exact_values(text: str, expected: list[int]) -> None:
    assert rows(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "marked"),
    [
        ("lable == 3", "did you mean 'label'", "lable"),
        ("image == 3", "column 'image' is bytes", "image"),
        ("zzzzz == 3", "there are label, width", "zzzzz"),
        ("label", "not a condition; write label != 0", "label"),
        ("label == '3'", "cannot be compared with a string", "label == '3'"),
        ("'label' == 3", "write label without quotes", "'label' == 3"),
        ("path == 3", "it holds text: write it as it is stored, in quotes, as '3'", "path == 3"),
        ("path > 3", "add a column of numbers (unirecord.add_columns", "path > 3"),
        ("path in (3, 4)", "it holds text: write it as it is stored", "path in (3, 4)"),
        ("name = null", "write 'is null'", "null"),
        ("label in (1, null)", "null is in no list", "null"),
        ("(label == 3", "')' should follow", " "),
        ("label == 3)", "expected 'and', 'or' or the end, found )", ")"),
        ("label & 3", "write 'and'", "&"),
        ("flag > true", "true and false have no order", "flag > true"),
        ("flag == 1", "a bool is compared with true or false", "flag == 1"),
        ("label like 'x'", "needs a string column; this is label (int32)", "label"),
        ("like == 3", "a column of that name is written `like`", "like"),
        ("len(path) == 3", "there is no function len()", "len"),
        ("label == 1e999", "too large for a float64", "1e999"),
        ("label // 0 == 1", "division by zero", "label // 0"),
        ("width == 'abc", "the closing ' of this string is missing", "'"),
        ("label == 12abc", "written in backticks", "12a"),
        ("path like 'abc\\\\'", "ends with its escape character", "'abc\\\\'"),
        ("path == 'a\\qb'", "unknown escape", "\\q"),
        ("label + name == 3", "arithmetic needs numbers; this is name (string)", "name"),
        ("", "the query is empty", ""),
        ("   ", "the query is empty", ""),
        ("label ==", "the query ends where", ""),
        ("label == 3 label == 4", "expected 'and', 'or' or the end, found label", "label"),
        ("(" * 60 + "label == 1", "nested deeper than 50", "("),
        ("label" + " + 1" * 60 + " == 3", "more than 50 operators", "+"),
        ("__import__('os').system('x')", "there is no function __import__()", "__import__"),
    ],
)
def test_error_points_at_the_place(text: str, message: str, marked: str) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(text, SCHEMA)
    said, shown, marks = str(caught.value).split("\n")
    assert message in said
    start = marks.index("^")
    assert shown[start : start + marks.count("^")].strip() == marked.strip()


def test_error_shows_the_line_of_a_long_text() -> None:
    with pytest.raises(QueryError) as caught:
        compile_query("label == 3\n  and lable == 4\n  and width > 3", SCHEMA)
    assert str(caught.value).split("\n")[1:] == ["    and lable == 4", "        ^^^^^"]


def test_text_of_any_other_type_is_refused() -> None:
    with pytest.raises(QueryError, match="a query is a string"):
        compile_query(3, SCHEMA)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("label = 3", "3 == label"),
        ("label == 1 or label == 2 or label == 9", "label in (9, 2, 1)"),
        ("not (label < 3 or width > 4)", "label >= 3 and width <= 4"),
        ("label > 2", "label >= 3"),
        ("label > 2.5", "label >= 3"),
        ("path like 'ab%'", "path startswith 'ab'"),
        ("path like 'ab'", "path == 'ab'"),
        ("0.2 < score <= 0.8", "score <= 0.8 and score > 0.2"),
        ("label in (3, 4, 5)", "label between 3 and 5"),
    ],
)
def test_same_meaning_has_the_same_canonical_text(one: str, other: str) -> None:
    first, second = compile_query(one, SCHEMA), compile_query(other, SCHEMA)
    assert rows(one) == rows(other)
    assert first.columns == second.columns
    if "score" not in one and " and " not in other:
        assert str(first) == str(second)


@given(st.text(max_size=40))
def test_any_string_is_found_by_its_canonical_text(text: str) -> None:
    if any("\ud800" <= char <= "\udfff" for char in text):
        return
    source = MemoryColumns(Schema.parse({"t": "string"}), {"t": [text, text + "x", "other"]})
    schema = source.schema
    quoted = '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'
    query = compile_query(f"t == {quoted}", schema)
    assert 0 in query.rows([source])
    again = compile_query(str(query), schema)
    assert again == query
    assert 1 not in again.rows([source])


@given(st.text(alphabet="()'\"` labelnotandinis=<>.%*/+-0123456789null,\\[]&|", max_size=60))
def test_any_text_is_answered_or_refused_with_a_query_error(text: str) -> None:
    try:
        query = compile_query(text, SCHEMA)
    except QueryError:
        return
    assert query.count([part()]) == len(query.rows([part()]))


def test_columns_are_those_that_are_read() -> None:
    query = compile_query("path == 'x' or label * 2 > width and row < 5", SCHEMA)
    assert query.columns == ("label", "width", "path")


def test_column_named_row_comes_before_the_row_number() -> None:
    schema = Schema.parse({"row": "int32", "part": "string"})
    source = MemoryColumns(schema, {"row": [5, 6], "part": ["x", "y"]})
    query = compile_query("row == 6 and part == 'y'", schema)
    assert query.rows([source]).tolist() == [1]
    assert compile_query(str(query), schema) == query


def test_explain_says_what_was_used_and_skipped() -> None:
    schema = Schema.parse({"label": "int32", "width": "int32", "name": "string"})
    data = {
        "label": [i % 100 for i in range(40_000)],
        "width": list(range(40_000)),
        "name": [f"n{i % 10}" for i in range(40_000)],
    }
    source = MemoryColumns(schema, data, ["label"])
    by_order = compile_query("label == 7 and name != 'n0'", schema).explain([source])
    assert by_order.parts[0].lookup == "label == 7"
    assert "gives 400 rows" in str(by_order)
    by_zones = compile_query("width < 8192", schema).explain([source])
    assert (by_zones.parts[0].zones, by_zones.parts[0].skipped, by_zones.parts[0].accepted) == (5, 4, 1)
    assert by_zones.found == 8192
    assert "zones alone" in str(by_zones)
    coded = compile_query("name like '%7'", schema).explain([source])
    assert coded.parts[0].conditions[0].how == "dictionary"
    assert coded.to_dict()["rows"] == 4_000
