"""Values to cells and back: bit for bit, record-wise as column-wise, and refused where they do not fit."""

from __future__ import annotations

import array
import math
import struct
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unirecord.errors import CorruptionError, SchemaError
from unirecord.format.schema import Schema
from unirecord.format.values import ColumnBatch, RecordEncoder, decode_cell, pack_object, unpack_object
from unirecord.loading.ragged import RaggedArray

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
ARRAY_DTYPES = ["bool", *INTS, *FLOATS, "complex64", "complex128"]


def encode_one(spec: Any, value: Any) -> bytes:
    return plain(by_rows(spec, [value]))[1][-1]


def by_rows(spec: Any, values: list[Any]) -> ColumnBatch:
    encoder = RecordEncoder(Schema.parse({"x": spec}))
    for value in values:
        encoder.add({"x": value}, 0)
    return encoder.take()


def by_batch(spec: Any, values: Any, first_row: int = 0) -> ColumnBatch:
    return RecordEncoder(Schema.parse({"x": spec})).encode_batch({"x": values}, first_row)


def plain(batch: ColumnBatch) -> tuple[int, Any, Any]:
    column = batch.columns[0]
    if isinstance(column.values, np.ndarray):
        content: Any = (column.values.dtype, column.values.shape, column.values.tobytes())
    else:
        content = [bytes(cell) for cell in column.values]
    return batch.rows, content, None if column.valid is None else column.valid.tolist()


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


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"boxes": [1, 2, 3, {4}]}, r"x\.boxes\[3\]: set is not supported; store a list"),
        ({"a": {"b": np.zeros(2)}}, r"x\.a\.b: numpy\.ndarray is not supported"),
        ({1.5: 2}, "a key is a str, int or bytes"),
        ({True: 2}, "a key is a str, int or bytes"),
        ([1 << 64], r"x\[0\]: 18446744073709551616 does not fit"),
        (["\ud800"], r"x\[0\]: the text has a lone surrogate"),
        (object(), "x: object is not supported"),
    ],
)
def test_what_an_object_cannot_hold_is_named_by_its_place(value: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        encode_one("object", value)


def test_an_object_nests_64_deep_and_no_deeper() -> None:
    def nested(depth: int) -> Any:
        value: Any = []
        for _ in range(depth - 1):
            value = [value]
        return value

    assert unpack_object(pack_object(nested(64))) == nested(64)
    with pytest.raises(SchemaError, match="more than 64 deep"):
        pack_object(nested(65))


# ---- refusals ----

IMAGE = {"type": "uint8", "shape": [2, 2]}
REFUSED: list[tuple[Any, Any, str]] = [
    ("int32", 1 << 31, "expected int32, got 2147483648, out of range"),
    ("uint8", -1, r"out of range \(0 to 255\)"),
    ("int32", "3", "expected int32, got str '3'"),
    ("int32", 3.0, "got float 3.0"),
    ("int32", True, "got bool True"),
    ("int32", np.bool_(True), "got numpy.bool"),
    ("int32", None, "got None"),
    ("int32", np.zeros(1, int), "got int64 array"),
    ("int8", np.int64(200), "out of range"),
    ("bool", 1, "pass True or False"),
    ("bool", None, "got None"),
    ("float32", "1.5", "expected float32, got str"),
    ("float32", True, "got bool"),
    ("float32", 1e39, "finite but too large"),
    ("float16", 65520.0, "finite but too large"),
    ("float32", (1 << 24) + 1, "cannot hold exactly"),
    ("float64", (1 << 53) + 1, "cannot hold exactly"),
    ("float64", 10**400, "cannot hold exactly"),
    ("string", 3, "expected string, got int 3"),
    ("string", b"x", "decode it"),
    ("string", None, "got None"),
    ("string", "a\udc80", "lone surrogate at 1"),
    ("text", "\ud800", "lone surrogate at 0"),
    ("text", b"x", "expected text"),
    ("bytes", "x", "expected bytes, got str 'x'; encode it"),
    ("bytes", 3, "expected bytes, got int"),
    ("bytes", None, "expected bytes, got None"),
    ("bytes", np.zeros((2, 2), np.uint8), "tobytes"),
    ("bytes", np.zeros(2), "tobytes"),
    (IMAGE, [[1, 2], [3, 4]], "got list .*np.asarray"),
    (IMAGE, np.zeros((2, 2)), r"expected uint8 array of shape \[2, 2\], got float64 array"),
    (IMAGE, np.zeros((2, 3), np.uint8), r"got an array of shape \[2, 3\]"),
    (IMAGE, np.zeros(4, np.uint8), r"got an array of shape \[4\]"),
    (IMAGE, None, "got None"),
    (IMAGE, b"abcd", "got bytes"),
    (IMAGE, np.uint8(3), "got numpy.uint8"),
    (IMAGE, np.ma.array(np.zeros((2, 2), np.uint8), mask=True), "masked"),
    ({"type": "float32", "shape": [-1, 2]}, np.zeros((3, 3), np.float32), r"shape \[any, 2\]"),
    ({"type": "float32", "shape": [-1, -1]}, np.zeros(3, np.float32), r"shape \[3\]"),
    ("int8?", 200, "expected int8 or None"),
]


@pytest.mark.parametrize(("spec", "bad", "said"), REFUSED)
def test_a_misfit_is_refused_with_row_column_expected_and_got(spec: Any, bad: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said) as caught:
        RecordEncoder(Schema.parse({"x": spec})).add({"x": bad}, 17)
    assert str(caught.value).startswith("row 17, column 'x': expected ")
    good = {"int8?": None}.get(spec) if isinstance(spec, str) else np.zeros((2, 2), spec["type"])
    if isinstance(spec, str) and spec != "int8?":
        good = {"s": "", "t": "", "b": b"", "i": 0, "u": 0, "f": 0.0}[spec[0]] if spec != "bool" else True
    with pytest.raises(SchemaError, match=said) as caught:
        by_batch(spec, [good, good, bad], first_row=100)
    assert str(caught.value).startswith("row 102, column 'x': expected ")


@pytest.mark.parametrize(
    ("spec", "values", "said"),
    [
        ("int8", np.array([1, 300]), "row 11, column 'x': expected int8, got 300"),
        ("uint8", np.array([1, 2, -1]), "row 12, column 'x': expected uint8, got -1"),
        ("int64", np.array([1 << 63], np.uint64), "row 10"),
        ("int8", np.array([1.0]), "got numpy.float64"),
        ("int8", np.array([True]), "got numpy.bool"),
        ("float32", np.array([0.0, 1e39]), "row 11.*too large"),
        ("float32", np.array([0, (1 << 24) + 1]), "row 11.*exactly"),
        ("float64", np.array([1 << 53, (1 << 53) + 1]), "row 11.*exactly"),
        ("bool", np.array([0, 1]), "row 10, column 'x': expected bool"),
        ("int8", np.ma.array([1, 2], "i1", mask=[False, True]), "row 11.*got a masked value"),
        ("int8", np.zeros((2, 2), "i1"), "expected one int8 a row"),
        ("string", np.array([1, 2]), "row 10, column 'x': expected string"),
        ("bytes", np.array([b"a\0"]), "drops zero bytes"),
        (IMAGE, np.zeros((3, 2, 2)), "expected rows of uint8 array"),
        (IMAGE, np.zeros((3, 2, 3), np.uint8), r"got an array of shape \[2, 3\]"),
        ("int8", 3, "a list or array of values per column"),
        ("string", "abc", "a list or array of values per column"),
        ("int8", np.int8(3), "batch"),
        ("int8", np.array(3, "i1"), "one value per row"),
    ],
)
def test_a_bad_column_of_a_batch_is_refused_by_row(spec: Any, values: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        by_batch(spec, values, first_row=10)


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"image": b""}, "row 3: column 'label' is missing; it has 'image'"),
        ({"image": b"", "lable": 1}, "row 3: column 'label' is missing; did you mean 'lable'"),
        ({"imag": b"", "label": 1}, "row 3: column 'image' is missing; did you mean 'imag'"),
        (
            {"image": b"", "label": 1, "labels": 2},
            "row 3: field 'labels' is not a column; did you mean 'label'",
        ),
        ({}, "row 3: column 'image' is missing; it has no columns"),
        ([b"", 1], "row 3: a record is a dict"),
        (None, "row 3: a record is a dict"),
    ],
)
def test_missing_and_extra_fields_are_named(record: Any, said: str) -> None:
    encoder = RecordEncoder(Schema.parse({"image": "bytes", "label": "int32"}))
    with pytest.raises(SchemaError, match=said):
        encoder.add(record, 3)
    assert encoder.rows == 0


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_refused_record_leaves_nothing_in_any_column(place: str) -> None:
    class Interrupted:
        def __index__(self) -> int:
            raise KeyboardInterrupt

    encoder = RecordEncoder(Schema.parse({"first": "int8", "middle": "int16?", "last": "int32"}))
    good: dict[str, Any] = {"first": 1, "middle": None, "last": 3}
    used = encoder.add(good, 5)
    for bad, error in (
        ({place: "x"}, SchemaError),
        ({"x": 1}, SchemaError),
        ({place: Interrupted()}, KeyboardInterrupt),
    ):
        with pytest.raises(error, match="row 6" if error is SchemaError else None):
            encoder.add({**good, **bad}, 5)
        with pytest.raises(SchemaError, match=f"row 6: column '{place}' is missing"):
            encoder.add({name: value for name, value in good.items() if name != place}, 5)
    assert encoder.rows == 1
    assert encoder.add({**good, "first": 2}, 5) == 2 * used
    columns = encoder.take().columns
    assert [column.values.tolist() for column in columns] == [[1, 2], [0, 0], [3, 3]]
    assert (encoder.rows, encoder.take().rows) == (0, 0)


def test_rows_without_bytes_count_for_memory_too() -> None:
    encoder = RecordEncoder(Schema.parse({"b": "bytes"}))
    assert encoder.add({"b": b""}, 0) < encoder.add({"b": b""}, 0)


def test_extra_fields_can_be_ignored() -> None:
    schema = Schema.parse({"label": "int8"})
    encoder = RecordEncoder(schema, extra="ignore")
    encoder.add({"label": 1, "other": object()}, 0)
    assert encoder.take().columns[0].values.tolist() == [1]
    assert encoder.encode_batch({"label": [1], "other": [1, 2, 3]}, 0).rows == 1
    with pytest.raises(SchemaError, match="'other' is not a column"):
        RecordEncoder(schema).encode_batch({"label": [1], "other": [1]}, 0)
    with pytest.raises(ValueError, match="extra is"):
        RecordEncoder(schema, extra="maybe")  # type: ignore[arg-type]


def test_columns_of_a_batch_have_one_length() -> None:
    encoder = RecordEncoder(Schema.parse({"a": "int8", "b": "int8"}))
    with pytest.raises(SchemaError, match="column 'b' has 3 values, 'a' has 2"):
        encoder.encode_batch({"a": [1, 2], "b": [1, 2, 3]}, 0)
    with pytest.raises(SchemaError, match="batch at row 0: column 'b' is missing"):
        encoder.encode_batch({"a": [1, 2]}, 0)
    with pytest.raises(SchemaError, match="a batch is a dict"):
        encoder.encode_batch([[1], [2]], 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "spec", ["int8", "int8?", "string", "bytes", "text", "object", IMAGE, {"type": "int8", "shape": [-1]}]
)
def test_no_rows_are_fine(spec: Any) -> None:
    assert plain(by_batch(spec, [])) == plain(by_rows(spec, []))
    assert by_rows(spec, []).rows == 0


# ---- hostile cells ----


@pytest.mark.parametrize(
    ("spec", "cell"),
    [
        (IMAGE, b"abc"),
        (IMAGE, b"abcde"),
        ({"type": "int32", "shape": [-1, 2]}, bytes(12)),
        ({"type": "int32", "shape": [-1, -1]}, bytes(8)),
        ({"type": "int32", "shape": [-1, -1]}, struct.pack("<QQ", 1, 1)),
        ({"type": "int32", "shape": [-1, -1]}, struct.pack("<iQQ", 0, 1, 2)),
        ({"type": "int8", "shape": [-1, -1]}, struct.pack("<QQ", 0, (1 << 64) - 1)),
        ("text", b"\xff"),
        ("text", b"\xed\xa0\x80"),
        ("object", b""),
        ("object", b"\xc1"),
        ("object", b"\xdd\xff\xff\xff\xff"),
        ("object", b"\x01\x02"),
        ("object", b"\xa1\xff"),
        ("object", b"\xd4\x05\x00"),
        ("object", b"\x81\x90\x01"),
        ("object", b"\x91" * 100_000),
    ],
)
def test_a_malformed_cell_is_corruption(spec: Any, cell: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_cell(Schema.parse({"x": spec})[0], memoryview(cell))


@given(
    column=st.sampled_from(["text", "object", IMAGE, {"type": "float32", "shape": [-1, 3, -1]}]),
    cell=st.binary(max_size=64),
)
def test_random_bytes_decode_or_are_corruption(column: Any, cell: bytes) -> None:
    parsed = Schema.parse({"x": column})[0]
    try:
        found = decode_cell(parsed, memoryview(cell))
    except CorruptionError:
        return
    again = encode_one(column, found)
    assert column == "object" or again == cell  # msgpack has several forms for one number
    assert encode_one(column, decode_cell(parsed, memoryview(again))) == again


def nested_bytes(depth: int) -> bytes:
    return b"\x91" * depth + b"\xc0"


@pytest.mark.parametrize(
    "cell",
    [
        b"\xd6\xff\0\0\0\x01",
        b"\x91\xd7\xff" + bytes(8),
        b"\x81\xa1a\xc7\x0c\xff" + bytes(12),
        b"\x81\xd6\xff\0\0\0\x01\x01",
        b"\xc7\x04\xff\0\0\0\x01",
        b"\xd4\x05\0",
        b"\x82\xa1a\x01\xa1a\x02",
        b"\x91\x82\x01\x01\x01\x02",
        b"\x82\xc3\x01\x01\x02",
        b"\x81\xc0\x01",
        b"\x81\xc3\x01",
        b"\x81\xcb\x3f\xf8\0\0\0\0\0\0\x01",
        b"\x01\x02",
        b"\x81\x91\x01\x01",
        b"\xa1\xff",
        nested_bytes(65),
        nested_bytes(5000),
        b"\x81\x01" * 65 + b"\xc0",
    ],
)
def test_an_object_against_the_rules_of_the_page_is_corrupt(cell: bytes) -> None:
    with pytest.raises(CorruptionError):
        unpack_object(cell)


def test_an_object_of_64_levels_is_read() -> None:
    assert unpack_object(nested_bytes(64)) == unpack_object(pack_object(unpack_object(nested_bytes(64))))


def test_an_object_that_claims_more_items_than_it_has_takes_no_memory_for_them() -> None:
    """Nested arrays that each claim as many items as the cell has bytes: memory goes with the cell's length."""
    size = 1 << 20
    claim = b"\xdd" + (size - 400).to_bytes(4, "big")
    bomb = (claim * 60).ljust(size, b"\xc0")
    tracemalloc.start()
    try:
        with pytest.raises(CorruptionError):
            unpack_object(bomb)
        assert tracemalloc.get_traced_memory()[1] < 8 * size
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("sizes", [(2**63, 0), (2**64 - 1, 1), (3, 2), (0, 2**62)])
def test_sizes_in_a_cell_that_cannot_be_are_refused_in_a_batch_as_in_a_sample(sizes: tuple[int, int]) -> None:
    column = Schema.parse({"a": {"type": "int32", "shape": [-1, -1]}}).columns[0]
    cell = bytes(16) + struct.pack("<QQ", *sizes) if sizes[0] and sizes[1] else struct.pack("<QQ", *sizes)
    ragged = RaggedArray(column, np.frombuffer(cell, np.uint8), np.array([0, len(cell)]))
    with pytest.raises(CorruptionError):
        ragged[0]
    with pytest.raises(CorruptionError):
        decode_cell(column, cell)
