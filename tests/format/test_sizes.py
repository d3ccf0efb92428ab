"""Sizes are read as people write them and written as people read them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
