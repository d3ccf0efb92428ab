"""Every spelling that a message of the query's checker names is taken out of it, tried, and finds the right rows."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typed_columns import ROWS, SCHEMA, part

import unirecord.query.check
import unirecord.query.parse
import unirecord.query.typed
from unirecord import QueryError
from unirecord.query import compile_query

# What makes a message one that names a spelling: another one need not be tried.
SPELLS = re.compile(
    r"\b(write|written|add|quotes|backticks|leave it out|compare them with|compared with true|there are now|"
    r"all that can be asked|has no class|there is no column|did you mean|it can read|infinity is)\b"
)

# Of each message: a query that is refused so, what is taken of the message, the query made of it, and its rows.
CASES: dict[str, list[tuple[str, str, str, list[int]]]] = {
    # check.py
    "; write {} != {}": [
        ("n", "write (.*)", "{}", [1, 2, 3]),
        ("label", "write (.*)", "{}", [1, 2]),
        ("price and true", "write (.*)", "{}", [0, 1, 2, 3]),
    ],
    "; write {} != ''": [("path", "write (.*)", "{}", [0, 1, 2, 3])],
    "; write {} is not null": [("ts", "write (.*)", "{}", [0, 1, 2]), ("d2", "write (.*)", "{}", [0, 1, 3])],
    "there is no column {}{}": [
        ("pathh == '3'", "did you mean '(.*)'", "{} == '3'", [1]),
        ("frob == 3", "there are ts, utc.* (pred), …", "{} == 7", [3]),
    ],
    "; a string is written in quotes: '{}'": [("path == unknown0", "quotes: (.*)", "path != {}", [0, 1, 2, 3])],
    "true and false have no order; compare them with == or !=": [
        ("flag > (n == 2)", "with (==) or", "flag {} (n == 2)", [1, 2, 3]),
        ("flag > (n == 2)", "or (!=)", "flag {} (n == 2)", [0]),
    ],
    "; to name the column, write {} without quotes": [
        ("'n' == 3", "write (.*) without", "{} == 3", [3]),
        ('"a.b" == 3', "write (`.*`) without", "{} == 3", [2]),
        ('"7up" == 3', "write (`.*`) without", "{} == 3", [2]),
    ],
    "; a bool is compared with true or false": [
        ("flag == 1", "with (true) or", "flag == {}", [0, 2]),
        ("flag == 0", "or (false)", "flag == {}", [1, 3]),
    ],
    "; it holds text, which is in order of its characters, so that '1000' is less than '5': add a column of numbers "
    "(unirecord.add_columns, docs/growing.md), and compare that": [
        ("path > 3", "add (a column of numbers)", "n >= 3", [3]),
    ],
    "'{}' needs a string in quotes; this is {}": [("path like n", "string (in quotes)", "path like 'n'", [2])],
    "escape needs one character in quotes": [
        ("path like 'n' escape n", "(one character in quotes)", "path like 'n' escape '!'", [2])
    ],
    "this number is too large for a float64; infinity is written inf": [
        ("f < 1e999", "written (.*)", "f < {}", [0, 1, 2, 3])
    ],
    "; 'is null' is all that can be asked of {}": [("blob == 3", "'(is null)'", "ts {}", [3])],
    "column {} is {}, which a query cannot read; it can read {}{}": [
        ("blob == 3", "it can read .* (pred), …", "{} == 7", [3])
    ],
    "nothing compares with null; write 'is null' or 'is not null'": [
        ("ts == null", "write '(.*?)'", "ts {}", [3]),
        ("ts == null", "or '(.*?)'", "ts {}", [0, 1, 2]),
    ],
    "; it holds text: write it as it is stored, in quotes, as '{}'": [("path == 3", "as ('3')", "path == {}", [1])],
    "null is in no list; add 'or … is null'": [
        ("label in (1, null)", "add '(.*)'", "label in (1) {}".replace("…", "label"), [1, 3])
    ],
    # typed.py
    "{}; write {} {} {}, without quotes": [("price == '19.99'", "write (.*), without", "{}", [0])],
    "write {} - {} {} 0": [
        ("label < pred", "write (.*)", "{}", [0]),
        ("pred == other", "write (.*)", "{}", [1]),
    ],
    "; write {} {} interval '{}'": [("utc - 3600 < ts", "write (.*)", "({}) > ts", [])],
    "; a class is named in quotes, as in {} == {}": [("label == path", "as in (.*)", "{}", [0])],
    "{} has no class {}{}": [
        ("label == 'dgo'", "did you mean ('.*')", "label == {}", [1]),
        ("label != 'zzzzz'", 'there are ("cat"), "dog", "frog"', "label != {}", [1, 2]),
    ],
    "{} is a float, which is not exact: a decimal is compared with, and worked out of, decimals and integers, and "
    "numbers that are written": [("price > f", "(numbers that are written)", "price > 19.99", [1, 3])],
    "{} is a string, which is compared with a string: write {}": [
        ("path == date '2025-01-01'", "write (.*)", "path == {}", [0])
    ],
    "{}; write {} {} 19.99": [("price >= 'dear'", "write (.*)", "{}", [0, 1, 3])],
    "; write {} '{}'": [
        ("utc + '1h' > ts", "write (.*)", "utc + {} > ts", [0, 1, 2]),
        ("utc - '2025-06-01 00:00Z' > d", "write (.*)", "utc - {} > d", [2]),
    ],
    "; write {} {} {}": [("wall > day", "write (.*)", "{}", [1]), ("day < wall", "write (.*)", "{}", [1])],
    "date() is compared with a date: write {} '2025-06-01'": [("date(ts) == 3", "write (.*)", "{}", [0, 2])],
    "date() is compared with a date: write {} {}": [
        ("date(ts) == timestamp '2025-05-31 12:00'", "write (.*)", "{}", [1])
    ],
    "days of {} are not equally long: date({}) is compared with a date that is written": [
        ("date(ts) == day", "compared with (a date that is written)", "date(ts) == date '2025-06-01'", [0, 2])
    ],
    "whole days are added to a date: write interval '1 day'": [
        ("day + interval '1h' == '2025-06-02'", "write (.*)", "day + {} == '2025-06-02'", [0])
    ],
    "'{}': {}; write {} {}": [
        ("ts > timestamp '1.6.2025'", "write (.*)", "ts > {}", [2]),
        ("day > date '1.6.2025'", "write (.*)", "day > {}", [2]),
        ("t == time 'noon'", "write (.*)", "t == {}", [0]),
        ("d == interval '1 month'", "write (.*)", "d == {}", [3]),
        ("ts > '1.6.2025'", "write (.*)", "{}", [2]),
        ("day <= '1.6.2025'", "write (.*)", "{}", [0, 1, 3]),
        ("t == 'noon'", "write (.*)", "{}", [0]),
        ("d == 'long'", "write (.*)", "{}", [3]),
        ("date(ts) >= '1.6.2025'", "write (.*)", "{}", [0, 2]),
    ],
    "classes have no order; to compare their numbers, write {} {} {}": [("label >= 'dog'", "write (.*)", "{}", [1, 2])],
    "{} cannot be compared with a number; write {} {} {}, which is stored as {}": [
        (f"ts >= {ROWS['ts'][0]}", "write (.*), which", "{}", [0, 2]),
        (f"wall == {ROWS['wall'][1]}", "write (.*), which", "{}", [1]),
        ("day < 20240", "write (.*), which", "{}", [1, 3]),
        ("t == 43199", "write (.*), which", "{}", [1]),
        ("d in (90001, 0)", "write (.*), which", "{}", [1]),
    ],
    "{} cannot be compared with a number; write {} {} {}": [("ts > 1.5", "write (.*)", "{}", [2])],
    "{} cannot be compared with a {}; write {} {} {}": [
        ("day == timestamp '2025-06-01 12:00'", "write (.*)", "{}", [0]),
        ("d == time '00:01:30'", "write (.*)", "{}", [0]),
        ("t < interval '12h'", "write (.*)", "{}", [1, 2, 3]),
        ("t == date '2025-06-01'", "write (.*)", "{}", [0]),
    ],
    "{} has no time zone: it is what a clock shows; write {} {} '{}', without one, or now() at time zone 'UTC' for "
    "what the clock of that zone shows": [
        ("wall == '2025-06-01 12:00Z'", "write (.*), without", "{}", [0]),
        ("wall < now()", "or (now.*) for", "wall < {}", [0, 1, 2, 3]),
    ],
    "{} and {} have other names; to compare their numbers, {}": [("pred == other", "write (.*)", "{}", [1])],
    "classes have no order; to compare their numbers, {}": [("label < pred", "write (.*)", "{}", [0])],
    "{}; in UTC a day is: write {} >= '{}' and {} < '{}'": [
        ("date(nowhere) == '2025-06-01'", "write (.*)", "{}", [0])
    ],
    "{}; write {} {} '{}', in UTC": [("nowhere >= '2025-06-01 12:00'", "write (.*), in UTC", "{}", [0])],
    # parse.py
    "write 'and'": [("n == 3 & flag", "write '(.*)'", "n == 2 {} flag", [2])],
    "write 'or'": [("n == 3 | flag", "write '(.*)'", "n == 3 {} flag", [0, 2, 3])],
    "write 'not'": [
        ("!flag", "write '(.*)'", "{} flag", [1, 3]),
        ("~flag", "write '(.*)'", "{} flag", [1, 3]),
    ],
    "leave it out": [("n == 3;", "(leave it out)", "n == 3", [3])],
    "a name that starts with a digit is written in backticks": [("7up == 3", "(backticks)", "`7up` == 3", [2])],
    "unknown escape; a backslash is written \\\\": [
        (r"path == 'a\q'", r"written (.*)", "path != 'a{}q'", [0, 1, 2, 3])
    ],
    "the query is empty; write a condition, such as label == 3": [("", "such as (.*)", "{}", [])],
    "; a column of that name is written `{}`": [("like == 3", "written (`.*`)", "true or n == 3", [0, 1, 2, 3])],
    "startswith, endswith or contains after '.' (a name with a dot stands in backticks: `a.b`)": [
        ("a.b == 3", "backticks: (`.*`)", "{} == 3", [2])
    ],
    "there is no function {}(); there are now() and date(column)": [
        ("day(ts) == '2025-06-01'", r"and (date)\(", "{}(ts) == '2025-06-01'", [0, 2]),
        ("today() < ts", r"are (now\(\))", "ts < {}", [0, 1, 2]),
    ],
}  # fmt: skip


def templates(module: object) -> Iterator[str]:
    """Every text of a module that is no docstring, with {} for what is put in."""
    tree = ast.parse(Path(module.__file__).read_text())  # type: ignore[attr-defined]
    inner = {
        id(piece)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for piece in ast.walk(node)
        if piece is not node
    }
    inner |= {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef))
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in inner:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_spelling_that_a_message_names_is_tried() -> None:
    modules = (unirecord.query.check, unirecord.query.parse, unirecord.query.typed)
    every = {text for module in modules for text in templates(module) if " " in text.strip()}
    spelled = {text for text in every if SPELLS.search(text)}
    assert spelled == {text for text in CASES if SPELLS.search(text)}
    assert set(CASES) <= every


@pytest.mark.parametrize(
    ("template", "query", "taken", "following", "rows"),
    [(template, *case) for template, cases in CASES.items() for case in cases],
)
def test_the_spelling_finds_the_right_rows(
    template: str, query: str, taken: str, following: str, rows: list[int]
) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(query, SCHEMA)
    message = str(caught.value).split("\n")[0]
    pieces = [re.escape(piece) for piece in template.split("{}")]
    assert re.search(".*".join(pieces), message), message
    found = re.search(taken, message)
    assert found is not None, message
    spelled = following.replace("{}", found[1].replace("…", "label"))
    if "such as" in taken:
        spelled = spelled.replace("label", "pred")
        rows = []
    assert compile_query(spelled, SCHEMA).rows([part(ROWS)]).tolist() == rows, spelled
