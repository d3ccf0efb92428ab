"""Columns of strings without an object a value: the same as value by value, from lists and from Arrow's memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unirecord
from unirecord.core import DistinctStrings, extreme_strings
from unirecord.errors import SchemaError
from unirecord.format.schema import Schema
from unirecord.format.values import PackedStrings, RecordEncoder, Texts, joined_strings

VALUES = st.lists(st.none() | st.text(st.sampled_from("ab\0é漢😀"), max_size=4), max_size=12)


def encoded(values: Any, kind: str) -> tuple[list[bytes], Any]:
    (column,) = RecordEncoder(Schema.parse({"s": kind})).encode_batch({"s": values}, 0).columns
    return list(column.values), None if column.valid is None else column.valid.tolist()


def one_by_one(values: list[Any], kind: str) -> tuple[list[bytes], Any]:
    encoder = RecordEncoder(Schema.parse({"s": kind}))
    for value in values:
        encoder.add({"s": value}, 0)
    (column,) = encoder.take().columns
    return list(column.values), None if column.valid is None else column.valid.tolist()


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_a_column_is_what_its_records_are(values: list[Any]) -> None:
    want = one_by_one(values, "string?")
    assert encoded(values, "string?") == want
    for kind in (pa.string(), pa.large_string()):
        whole = pa.array(["x", *values, "y"], kind)
        for some in (whole[1:-1], pa.chunked_array([whole[1:2], whole[2:-1]]) if values else whole[1:-1]):
            assert encoded(some, "string?") == want
    texts = Texts.of(values, nullable=True)
    assert texts is not None
    assert list(texts) == values == [texts[i] for i in range(len(values))]
    assert encoded(texts[1:], "string?") == one_by_one(values[1:], "string?")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["a", 3], "row 1, column 's': expected string, got int 3"),
        (["a", "\ud800"], "row 1, column 's': expected string, got text with a lone surrogate at 0"),
        (["a", None], "row 1, column 's': expected string, got None; the type \"string?\" takes it as null"),
        (["a", b"b"], "row 1, column 's': expected string, got bytes b'b'; decode it to str"),
        (pa.array(["a", None]), "row 1, column 's': expected string, got None"),
    ],
)
def test_what_does_not_fit_is_named_by_row_and_column(values: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=message.replace("?", r"\?")):
        encoded(values, "string")


def arrow_strings(data: bytes, ends: list[int], valid: bytes | None = None) -> pa.Array:
    places = pa.py_buffer(np.array(ends, np.int32))
    flags = None if valid is None else pa.py_buffer(valid)
    return pa.Array.from_buffers(pa.string(), len(ends) - 1, [flags, places, pa.py_buffer(data)])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (arrow_strings(b"ab\xff", [0, 2, 3]), "utf-8"),
        (arrow_strings("é".encode(), [0, 1, 2]), "utf-8"),  # together they are UTF-8, each alone is not
        (arrow_strings(b"abc", [0, 2, 1, 3]), "lead out of the data"),
        (arrow_strings(b"abc", [0, 900_000, 3]), "lead out of the data"),
        (arrow_strings(b"abc", [0, 900_000, 3], b"\x02"), "[Oo]ffset"),
    ],
)
def test_arrow_memory_that_is_wrong_is_refused(array: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=rf"column 's'.*{message}"):
        encoded(array, "string?")


def test_what_lies_under_a_null_is_not_stored() -> None:
    assert encoded(arrow_strings(b"secretab", [0, 6, 8], b"\x02"), "string?") == ([b"", b"ab"], [False, True])


def test_strings_follow_their_slices_and_joints() -> None:
    some = PackedStrings.of([b"a", b"", b"bcd", b"e"])
    assert list(joined_strings([some[2:], some[:0], some[:3]])) == [b"bcd", b"e", b"a", b"", b"bcd"]
    assert some[1:3].copy().ends.tolist() == [0, 0, 3]
    assert (some[-1], len(some[3:1]), joined_strings([]).content.size) == (b"e", 0, 0)
    assert list(some[1:].take(np.array([2, 1, 0]))) == [b"e", b"bcd", b""]
    taken = Texts(some, np.array([True, False, True, True])).take(np.array([1, 3]))
    assert (list(taken), list(some.take(np.zeros(0, np.int64)))) == ([None, "e"], [])
    with pytest.raises(IndexError):
        some[4]
    for ends in ([0, 2, 1], [-1, 2], [0, 9]):
        with pytest.raises(ValueError, match="lead out"):
            PackedStrings(np.zeros(3, np.uint8), np.array(ends, np.int64))


def test_distinct_strings_are_refused_ends_that_lead_out() -> None:
    found = DistinctStrings(10, 100)
    for ends in ([0, 4], [2, 1], [-1, 1]):
        with pytest.raises(ValueError, match="lead out"):
            found.add(b"abc", np.array(ends, np.int64), None)
        with pytest.raises(ValueError, match="lead out"):
            extreme_strings(b"abc", np.array(ends, np.int64), None)
    with pytest.raises(ValueError, match="flags"):
        found.add(b"abc", np.array([0, 1], np.int64), np.ones(2, np.bool_))
    numbers = found.add(b"abc", np.array([0, 1, 3], np.int64), np.array([True, False]))
    assert numbers is not None
    assert numbers.tolist() == [0, 2**32 - 1]
    assert (len(found), found.packed()[0].tobytes(), found.packed()[1].tolist()) == (1, b"a", [0, 1])
    assert found.numbers(b"ab", np.array([0, 1, 2], np.int64)).tolist() == [0, 2**32 - 1]


def test_bools_and_nulls_in_lists_are_packed_as_they_are_one_by_one() -> None:
    for kind, values in (("bool?", [True, None, False]), ("int8?", [None, 5]), ("float32?", [1.5, None])):
        mine, (cells, valid) = encoded(values, kind), one_by_one(values, kind)
        assert (np.array(mine[0]).tobytes(), mine[1]) == (np.array(cells).tobytes(), valid)
    with pytest.raises(SchemaError, match="row 1, column 's'"):
        encoded([None, 300], "int8?")


def test_a_dictionary_and_plain_strings_are_read_back(tmp_path: Path) -> None:
    rows = 70_000
    few = [None if i % 7 == 0 else f"n{i % 300}é" for i in range(rows)]
    many = [f"{i:x}" for i in range(rows)]
    path = tmp_path / "d.urec"
    with unirecord.Writer(path, {"few": "string?", "many": "string"}, index=["few", "many"]) as writer:
        writer.write_batch({"few": few[:60_000], "many": many[:60_000]})
        writer.write_batch(pa.table({"few": few[60_000:], "many": many[60_000:]}))
    with unirecord.UniRecordDataset(path) as ds:
        assert ds.scalars()["few"].tolist() == few
        assert ds.scalars()["many"].tolist() == many
        assert len(unirecord.UniRecordDataset(path, where='few == "n5é"')) == few.count("n5é")
        assert len(unirecord.UniRecordDataset(path, where='many == "ffff"')) == 1


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kind", ["string", "text", "string?", "object"])
def test_words_that_are_no_characters_are_refused_by_row(tmp_path: Path, order: str, kind: str) -> None:
    good = np.array(["a", "", "x", "\U0010ffff"]).astype(f"{order}U2")
    for word in (0x110000, 0x7FFFFFFF, 0xFFFFFFFF, 0xD800):
        bad = good.copy()
        bad.view(f"{order}u4")[5] = word  # the second of row 2
        for values in (bad, np.ma.MaskedArray(bad, [False, True, False, False])):
            if isinstance(values, np.ma.MaskedArray) and not kind.endswith("?"):
                continue
            with (
                unirecord.Writer(tmp_path / "x.urec", {"s": kind}, overwrite=True) as writer,
                pytest.raises(SchemaError, match=r"row 2, column 's'.*Unicode"),
            ):
                writer.write_batch({"s": values})
    with unirecord.Writer(tmp_path / "y.urec", {"s": kind}) as writer:
        writer.write_batch({"s": good})
        if kind == "string?":
            hidden = bad.copy()
            hidden.view(f"{order}u4")[5] = 0x110000
            writer.write_batch({"s": np.ma.MaskedArray(hidden, [False, False, True, False])})
    with unirecord.UniRecordDataset(tmp_path / "y.urec") as ds:
        assert [row["s"] for row in ds][:4] == ["a", "", "x", "\U0010ffff"]
        assert [row["s"] for row in ds][4:] == (["a", "", None, "\U0010ffff"] if kind == "string?" else [])
