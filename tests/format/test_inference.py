"""Inferring a schema from records: what becomes what, and what a conflict says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unirecord.errors import SchemaError
from unirecord.writing.inference import infer_schema


@pytest.mark.parametrize(
    ("values", "spec"),
    [
        ([True], "bool"),
        ([1, -5], "int64"),
        ([1.5], "float64"),
        ([1, 2.5], "float64"),
        (["a"], "string"),
        (["a", "b" * 4096], "string"),
        (["a", "b" * 4097], "text"),
        ([b"a", bytearray(b"b"), memoryview(b"c")], "bytes"),
        ([{"a": 1}], "object"),
        ([[1, 2], {"a": 1}, (3,)], "object"),
        ([1, None], "int64?"),
        ([None, "x"], "string?"),
        (["b" * 5000, None], "text?"),
        ([b"", None], "bytes?"),
        ([None, np.zeros(2)], {"type": "float64?", "shape": [2]}),
        ([None, {"a": 1}], "object"),
        ([1 << 63], "uint64"),
        ([np.int8(1)], "int8"),
        ([np.int8(1), np.int16(2)], "int16"),
        ([np.uint8(1), np.uint32(2)], "uint32"),
        ([np.uint8(1), np.int8(2)], "int64"),
        ([np.float32(1)], "float32"),
        ([np.float16(1), np.float32(2)], "float32"),
        ([np.float32(1), 2], "float64"),
        ([np.bool_(True), False], "bool"),
        ([np.str_("a")], "string"),
        ([np.bytes_(b"a")], "bytes"),
        ([np.array(3, np.int16)], "int16"),
        ([np.zeros((2, 3), np.float32)], {"type": "float32", "shape": [2, 3]}),
        ([np.zeros((2, 3)), np.zeros((5, 3))], {"type": "float64", "shape": [-1, 3]}),
        ([np.zeros(0)], {"type": "float64", "shape": [-1]}),
        ([np.zeros(2, np.complex64)], {"type": "complex64", "shape": [2]}),
        ([np.zeros(2, ">i4")], {"type": "int32", "shape": [2]}),
    ],
)
def test_values_give_the_least_type_that_holds_them(values: list[Any], spec: Any) -> None:
    assert infer_schema([{"x": v} for v in values]).to_spec() == {"x": spec}


def test_columns_come_in_the_order_of_the_first_record() -> None:
    assert infer_schema([{"b": 1, "a": 2}, {"a": 1, "b": 2}]).names == ("b", "a")


@pytest.mark.parametrize(
    ("records", "said"),
    [
        ([], "no records"),
        ([[1]], "row 0: a record is a dict"),
        ([{"x": 1}, {"x": "a"}], "column 'x': row 0 holds int64 and row 1 holds string"),
        ([{"x": 1}, {"x": True}], "row 0 holds int64 and row 1 holds bool"),
        ([{"x": b""}, {"x": ""}], "row 0 holds bytes and row 1 holds string"),
        ([{"x": 1}, {"x": np.zeros(2)}], "row 1 holds float64 array of shape"),
        ([{"x": np.zeros(2)}, {"x": np.zeros(2, "f4")}], "row 1 holds float32 array"),
        ([{"x": np.zeros(2)}, {"x": np.zeros((2, 2))}], r"shape \[2, 2\]"),
        ([{"x": 1}, {}], "row 1: column 'x' is missing"),
        ([{"x": 1}, {"x": 1, "y": 2}], "row 1 has the field 'y'"),
        ([{"x": None}], "holds only None"),
        ([{"x": 1 << 64}], "more than 64 bits"),
        ([{"x": 1 << 63}, {"x": -1}], "more than 64 bits"),
        ([{"x": {1, 2}}], "no column type holds a set"),
        ([{"x": np.array(["a"])}], "no column type holds numpy"),
        ([{"a\nb": 1}], r"'a\\nb' is not allowed: it has a control character"),
    ],
)
def test_a_conflict_names_column_and_rows(records: Any, said: str) -> None:
    with pytest.raises(SchemaError, match=said):
        infer_schema(records)
