"""Values that do not fit their column: refused with row, column, what was expected and what came, leaving nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from encoded_values import IMAGE, by_batch, encode_one

from unirecord.errors import SchemaError
from unirecord.format.schema import Schema
from unirecord.format.values import RecordEncoder


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
