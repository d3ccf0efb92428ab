"""Values to cells and back: bit for bit, record-wise as column-wise, and refused where they do not fit."""

from __future__ import annotations

import array
import math
import struct
from typing import Any

import numpy as np
import pytest
from encoded_values import IMAGE, by_batch, by_rows, encode_one, plain
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unirecord.errors import SchemaError
from unirecord.format.schema import Schema
from unirecord.format.values import RecordEncoder, decode_cell, pack_object, unpack_object

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]

FLOATS = ["float16", "float32", "float64"]

ARRAY_DTYPES = ["bool", *INTS, *FLOATS, "complex64", "complex128"]


# ---- scalars ----


@given(st.sampled_from(INTS), st.data())
def test_integers_are_exact_in_every_form(name: str, data: st.DataObject) -> None:
    limits = np.iinfo(name)
    values = data.draw(st.lists(st.integers(int(limits.min), int(limits.max)), min_size=1))
    expected = plain(by_batch(name, np.array(values, name)))
    assert plain(by_rows(name, values)) == expected
    assert plain(by_rows(name, [np.dtype(name).type(v) for v in values])) == expected
    assert plain(by_rows(name, [np.array(v, name) for v in values])) == expected
    assert plain(by_batch(name, values)) == expected
    assert plain(by_batch(name, np.array(values, np.dtype(name).newbyteorder(">")))) == expected
    assert plain(by_batch(name, np.array(values, object))) == expected


@given(st.sampled_from(FLOATS), st.data())
def test_floats_keep_every_bit(name: str, data: st.DataObject) -> None:
    width = np.dtype(name).itemsize
    raw = data.draw(st.lists(st.binary(min_size=width, max_size=width), min_size=1))
    values = np.frombuffer(b"".join(raw), name)
    assert by_batch(name, values).columns[0].values.tobytes() == b"".join(raw)
    assert by_rows(name, list(values)).columns[0].values.tobytes() == b"".join(raw)
    assert by_batch(name, list(values)).columns[0].values.tobytes() == b"".join(raw)


@given(st.lists(st.floats(), min_size=1))
def test_python_floats_are_exact_in_a_float64_column(values: list[float]) -> None:
    raw = struct.pack(f"<{len(values)}d", *values)
    assert by_rows("float64", values).columns[0].values.tobytes() == raw
    assert by_batch("float64", values).columns[0].values.tobytes() == raw


@pytest.mark.parametrize("name", FLOATS)
def test_a_float_column_rounds_floats_and_takes_exact_integers(name: str) -> None:
    assert encode_one(name, 0.1) == np.array(0.1, name).tobytes()
    assert encode_one(name, np.float64(0.1)) == np.array(0.1, name).tobytes()
    assert encode_one(name, 3) == np.array(3, name).tobytes()
    assert plain(by_batch(name, np.array([1, 2], np.int32))) == plain(by_batch(name, np.array([1, 2], name)))
    assert plain(by_batch(name, np.array([0.1, math.inf]))) == plain(by_rows(name, [0.1, math.inf]))


def test_bool_takes_python_and_numpy_bools() -> None:
    assert plain(by_rows("bool", [True, np.bool_(False)])) == plain(by_batch("bool", np.array([True, False])))
    odd = np.array([0, 1, 2, 255], np.uint8).view(np.bool_)
    assert by_batch("bool", odd).columns[0].values.tobytes() == b"\0\1\1\1"


@given(st.lists(st.one_of(st.none(), st.integers(-128, 127)), min_size=1))
def test_nulls_are_zero_and_not_valid(values: list[int | None]) -> None:
    rows = by_rows("int8?", values)
    assert rows.columns[0].valid is not None
    assert rows.columns[0].valid.tolist() == [v is not None for v in values]
    assert rows.columns[0].values.tolist() == [v or 0 for v in values]
    masked = np.ma.array([v or 0 for v in values], "i1", mask=[v is None for v in values])
    assert plain(by_batch("int8?", values)) == plain(by_batch("int8?", masked)) == plain(rows)


def test_a_masked_value_is_zero_whatever_lies_below_the_mask() -> None:
    found = by_batch("float32?", np.ma.array([1.5, 2.5], "f4", mask=[False, True])).columns[0]
    assert found.values.tolist() == [1.5, 0.0]


@given(st.lists(st.one_of(st.none(), st.text())))
def test_any_unicode_is_kept(values: list[str | None]) -> None:
    expected = [b"" if v is None else v.encode() for v in values]
    assert list(by_rows("string?", values).columns[0].values) == expected
    assert plain(by_batch("string?", values)) == plain(by_rows("string?", values))
    texts = [v or "" for v in values]
    cells = by_rows("text", texts).columns[0].values
    assert [decode_cell(Schema.parse({"x": "text"})[0], c) for c in cells] == texts


def test_a_numpy_string_array_is_a_string_column() -> None:
    assert plain(by_batch("string", np.array(["a", "bcd"]))) == plain(by_rows("string", ["a", "bcd"]))


def test_arrow_columns_keep_their_nulls() -> None:
    import pyarrow as arrow

    for spec, values in (
        ("float64?", [1.5, None]),
        ("int8?", [None, 3]),
        ("string?", ["a", None]),
        ("int64?", [1, 2]),
    ):
        assert plain(by_batch(spec, arrow.array(values))) == plain(by_rows(spec, values))
        assert plain(by_batch(spec, arrow.chunked_array([values, values]))) == plain(
            by_rows(spec, values * 2)
        )


# ---- blobs ----


@given(st.lists(st.binary()))
def test_bytes_come_in_any_bytes_like_form(values: list[bytes]) -> None:
    for form in (
        bytes,
        bytearray,
        memoryview,
        lambda b: np.frombuffer(b, np.uint8),
        lambda b: array.array("B", b),
    ):
        given_values = [form(v) for v in values]
        assert by_rows("bytes", given_values).columns[0].values == values
        assert [bytes(c) for c in by_batch("bytes", given_values).columns[0].values] == values
    assert by_rows("bytes", [memoryview(b"abcdef")[::2]]).columns[0].values == [b"ace"]


def test_a_written_record_does_not_share_memory_with_the_caller() -> None:
    raw, pixels = bytearray(b"abc"), np.arange(3)
    encoder = RecordEncoder(Schema.parse({"b": "bytes", "a": {"type": "int64", "shape": [-1]}}))
    encoder.add({"b": raw, "a": pixels}, 0)
    raw[0], pixels[0] = 0, 99
    assert [column.values for column in encoder.take().columns] == [[b"abc"], [np.arange(3).tobytes()]]


def test_bytes_that_cannot_change_are_not_copied() -> None:
    raw = bytes(100)
    encoder = RecordEncoder(Schema.parse({"b": "bytes"}))
    encoder.add({"b": raw}, 0)
    assert encoder.take().columns[0].values[0] is raw


def arrays_with_shape() -> st.SearchStrategy[tuple[Any, Any]]:
    """Pairs of a column's spec and an array that fits it."""

    def pair(array: np.ndarray[Any, Any], free: list[bool]) -> tuple[Any, Any]:
        shape = [-1 if f or d == 0 else d for d, f in zip(array.shape, free, strict=False)]
        return {"type": array.dtype.name, "shape": shape}, array

    some = st.sampled_from(ARRAY_DTYPES).flatmap(
        lambda d: hnp.arrays(d, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4))
    )
    return st.builds(pair, some, st.lists(st.booleans(), min_size=4, max_size=4))


@settings(deadline=None)
@given(arrays_with_shape())
def test_arrays_round_trip_in_every_layout(pair: tuple[Any, Any]) -> None:
    spec, given_array = pair
    column = Schema.parse({"x": spec})[0]
    swapped = given_array.astype(given_array.dtype.newbyteorder(">"))
    for form in (given_array, np.asfortranarray(given_array), given_array[::-1][::-1], swapped):
        cell = encode_one(spec, form)
        assert cell is not None
        found = decode_cell(column, memoryview(cell))
        assert found.dtype == given_array.dtype
        assert found.shape == given_array.shape
        assert found.tobytes() == given_array.tobytes()
        assert found.flags.writeable
        assert found.flags.owndata or found.base is None or found.base.flags.owndata
        batch = by_batch(spec, [form, form])
        assert plain(batch) == plain(by_rows(spec, [form, form]))
        assert plain(by_batch(spec, np.stack([form, form]))) == plain(batch)


def test_whole_columns_of_fixed_width_are_not_copied() -> None:
    pixels, labels = np.zeros((10, 4, 4), np.uint8), np.arange(10)
    schema = Schema.parse(
        {"p": {"type": "uint8", "shape": [4, 4]}, "n": "int64", "v": {"type": "uint8", "shape": [-1, 4]}}
    )
    found = RecordEncoder(schema).encode_batch({"p": pixels, "n": labels, "v": pixels}, 0)
    assert np.shares_memory(found.columns[0].values, pixels)
    assert np.shares_memory(found.columns[1].values, labels)
    assert np.shares_memory(np.asarray(found.columns[2].values[3]), pixels)
    assert found.columns[0].values.shape == (10, 16)


def test_bfloat16_travels_as_its_bits() -> None:
    bits = np.array([0x3F80, 0x7FC1, 0x8000], np.uint16)
    spec = {"type": "bfloat16", "shape": [3]}
    assert encode_one(spec, bits) == bits.tobytes()
    assert decode_cell(Schema.parse({"x": spec})[0], memoryview(bits.tobytes())).tolist() == bits.tolist()


def test_array_likes_of_other_libraries_are_taken() -> None:
    class Tensor:
        shape = (2,)

        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array([1, 2], np.float32)

    assert encode_one({"type": "float32", "shape": [2]}, Tensor()) == np.array([1, 2], "f4").tobytes()


objects = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 63), (1 << 64) - 1),
        st.floats(allow_nan=False),
        st.text(),
        st.binary(),
    ),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.one_of(st.text(), st.integers(0, 9)), inner)),
    max_leaves=20,
)


@given(objects)
def test_objects_come_back_as_they_were(value: Any) -> None:
    cell = encode_one("object", value)
    assert cell is not None
    assert decode_cell(Schema.parse({"x": "object"})[0], memoryview(cell)) == value


def test_numpy_scalars_and_tuples_in_objects_become_plain() -> None:
    value = {"a": np.int32(3), "b": (1, 2), "c": np.float32(0.5), "d": np.bool_(True), "e": np.float64(2)}
    assert unpack_object(pack_object(value)) == {"a": 3, "b": [1, 2], "c": 0.5, "d": True, "e": 2.0}


def test_an_object_nests_64_deep_and_no_deeper() -> None:
    def nested(depth: int) -> Any:
        value: Any = []
        for _ in range(depth - 1):
            value = [value]
        return value

    assert unpack_object(pack_object(nested(64))) == nested(64)
    with pytest.raises(SchemaError, match="more than 64 deep"):
        pack_object(nested(65))


def test_rows_without_bytes_count_for_memory_too() -> None:
    encoder = RecordEncoder(Schema.parse({"b": "bytes"}))
    assert encoder.add({"b": b""}, 0) < encoder.add({"b": b""}, 0)


@pytest.mark.parametrize(
    "spec", ["int8", "int8?", "string", "bytes", "text", "object", IMAGE, {"type": "int8", "shape": [-1]}]
)
def test_no_rows_are_fine(spec: Any) -> None:
    assert plain(by_batch(spec, [])) == plain(by_rows(spec, []))
    assert by_rows(spec, []).rows == 0
