"""Lists of strings after ``in``: plain ones, which are read at once, mean what each string read alone means."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_columns import MemoryColumns

from unirecord import QueryError
from unirecord.format.schema import Schema
from unirecord.query import compile_query
from unirecord.query.columns import Strings

SCHEMA = Schema.parse({"path": "string", "label": "int32"})
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


def escaped(text: str) -> str:
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


def plain(text: str) -> str:
    quote = "'" if '"' in text else '"'
    return escaped(text) if quote in text or "\\" in text else quote + text + quote


@given(
    st.lists(TEXT, min_size=1, max_size=8), st.sampled_from(["()", "[]"]), st.sampled_from(["", ",", " , "])
)
def test_plain_list_means_what_the_same_list_with_escapes_means(
    texts: list[str], pair: str, end: str
) -> None:
    lists = [pair[0] + " ,\n".join(map(write, texts)) + end + pair[1] for write in (plain, escaped)]
    assert compile_query(f"path in {lists[0]}", SCHEMA) == compile_query(f"path in {lists[1]}", SCHEMA)


@pytest.mark.parametrize(
    "text",
    [
        'path in ("a"]',
        'path in ["a")',
        'path in ("a" "b")',
        'path in ("a",,"b")',
        'path in ("a",',
        'label in ("1")',
    ],
)
def test_list_of_strings_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        compile_query(text, SCHEMA)


def test_doubled_quote_in_a_list_is_one_quote() -> None:
    assert compile_query('path in ("a""b", "c")', SCHEMA) == compile_query("path in ('a\"b', 'c')", SCHEMA)


def test_strings_on_both_sides_of_in_are_compared() -> None:
    query = compile_query('"a" in ("b", "a")', SCHEMA)
    assert query.rows([MemoryColumns(SCHEMA, {"path": ["x", "y"], "label": [1, 2]}, [])]).tolist() == [0, 1]


@pytest.mark.parametrize("listed", [3, 2_000])
def test_long_list_finds_the_rows_of_its_strings_without_reading_entries_one_by_one(
    listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [f"p{i * 7 % 5_000}" for i in range(20_000)]
    source = MemoryColumns(SCHEMA, {"path": paths, "label": [0] * len(paths)}, [])
    wanted = {f"p{i}" for i in range(0, 2 * listed, 2)} | {"", "nowhere", "pé"}
    reads, read = [0], Strings.__getitem__

    def counted(strings: Strings, place: int) -> bytes:
        reads[0] += 1
        return read(strings, place)

    monkeypatch.setattr(Strings, "__getitem__", counted)
    texts = ", ".join(f'"{text}"' for text in sorted(wanted))
    for negation, expected in (("", True), ("not ", False)):
        found = compile_query(f"path {negation}in ({texts})", SCHEMA).rows([source]).tolist()
        assert found == [i for i, path in enumerate(paths) if (path in wanted) == expected]
    assert reads[0] <= 1_000
