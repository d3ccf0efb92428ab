"""Sizes are read as people write them and written as people read them."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unirecord
from unirecord.sizes import format_size, many, parse_size


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("20GB", 20 * 10**9),
        ("20 gb", 20 * 10**9),
        ("1.5GiB", 3 * 2**29),
        ("512", 512),
        ("7B", 7),
        (" 4 KiB ", 4096),
        ("0.1KB", 100),
        ("0.0001KB", 0),
        ("9PB", 9 * 10**15),
        (4096, 4096),
        (0, 0),
    ],
)
def test_sizes_are_read_as_written(text: int | str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize(
    "text", ["", "GB", "-1", "1e9", "20 G B", "12XB", "1.", ".5GB", "٣KB", "9999999PB", -1, 2**63]
)
def test_what_is_no_size_is_refused_with_an_example(text: int | str) -> None:
    with pytest.raises(ValueError, match="is no size"):
        parse_size(text)


@pytest.mark.parametrize("value", [None, 1.5, True, b"1GB"])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(TypeError, match="not " + type(value).__name__):
        parse_size(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 KB"),
        (999_949, "999.9 KB"),
        (999_950, "1.0 MB"),
        (20 * 10**9, "20.0 GB"),
        (2**63 - 1, "9.2 EB"),
        (-1500, "-1.5 KB"),
    ],
)
def test_sizes_are_written_with_one_decimal(count: int, text: str) -> None:
    assert format_size(count) == text


@given(st.integers(0, 10**18))
def test_a_written_size_reads_back_within_its_precision(count: int) -> None:
    assert parse_size(format_size(count)) == pytest.approx(count, rel=0.051, abs=0)


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [(1, "row", "1 row"), (0, "row", "0 rows"), (2_000, "row", "2,000 rows"), (2, "batch", "2 batches"),
     (3, "class", "3 classes"), (2, "copy", "2 copies"), (2, "day", "2 days"), (1, "copy", "1 copy")],
)  # fmt: skip
def test_one_thing_has_no_plural(number: int, noun: str, said: str) -> None:
    assert many(number, noun) == said


@pytest.mark.parametrize(
    ("number", "noun", "verb", "text"),
    [
        (1, "row", "", "1 row"),
        (0, "row", "", "0 rows"),
        (2_000, "row", "are", "2,000 rows are"),
        (1, "row", "are", "1 row is"),
        (1, "row", "were", "1 row was"),
        (2, "epoch", "", "2 epochs"),
        (1, "batch", "have", "1 batch has"),
        (3, "batch", "have", "3 batches have"),
        (1, "copy", "do", "1 copy does"),
        (2, "copy", "go", "2 copies go"),
        (1, "byte", "fit", "1 byte fits"),
    ],
)
def test_a_number_of_things_and_its_verb(number: int, noun: str, verb: str, text: str) -> None:
    assert many(number, noun, verb) == text


# What is said of these is no number: a word before a noun, or a rate.
NO_NUMBERS = r"(self\.)?(rule(\.name)?|(column\.)?(d?type|spec)|array\.dtype|column|whole|draw)"


def counted_by_hand(source: str, nouns: Sequence[str]) -> list[str]:
    """Numbers in f-strings before one of the nouns in its form for many, which may be 1."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in pairwise(node.values):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            word = re.match(r" ([a-z]+)", str(text.value))
            if word is None or word[1] not in nouns:
                continue
            number = ast.unparse(value.value)
            shown = value.conversion == ord("r")  # what a file says, which may be no number
            rounded = value.format_spec is not None and "." in ast.unparse(value.format_spec)
            constant = re.fullmatch(r"(\w+\.)?_?[A-Z_]+( [/*] \d+)?", number)
            list_of = isinstance(value.value, ast.Set | ast.List) or number.startswith("sorted(")
            if not (shown or rounded or constant or list_of or re.fullmatch(NO_NUMBERS, number)):
                found.append(f"{number} {word[1]}")
    return found


def test_no_message_says_1_rows() -> None:
    """Whatever is counted by `many` in one place is counted by it everywhere."""
    package = Path(unirecord.__file__).parent
    sources = {path: path.read_text() for path in sorted(package.rglob("*.py"))}
    nouns = {
        str(node.args[1].value).split()[-1]
        for source in sources.values()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "many" and len(node.args) > 1
        if isinstance(node.args[1], ast.Constant)
    }
    assert {"row", "byte", "part", "batch"} <= nouns
    plurals = [many(2, noun).removeprefix("2 ") for noun in nouns]
    assert counted_by_hand('f"{len(a)} rows are {n:,} bytes in {_MOST} files"', plurals) == [
        "len(a) rows",
        "n bytes",
    ]
    by_hand = [(path.name, one) for path, text in sources.items() for one in counted_by_hand(text, plurals)]
    assert by_hand == []
