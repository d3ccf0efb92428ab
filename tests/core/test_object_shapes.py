"""What many objects are made of, as the C core finds it: like a model, and as the types that are made of it."""

from __future__ import annotations

import math
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from unirecord.core import ObjectShape, ObjectShapes, ShapeKind
from unirecord.format.nested import Nested, nested_of, nested_of_shape
from unirecord.format.values.objects import Extension, pack_object

KEYS = st.sampled_from(["role", "content", "a b", "", "ключ", "x" * 40])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.integers(-3, 3)
    | st.floats()
    | st.floats(width=32)
    | st.text(max_size=40)
    | st.binary(max_size=3)
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
ALIKE = st.sampled_from(
    [
        st.fixed_dictionaries({"role": st.text(max_size=3)}, optional={"n": st.integers(-5, 1 << 54)}),
        st.lists(st.fixed_dictionaries({"k": st.floats() | st.integers(-9, 9), "t": st.none() | st.text()})),
        st.lists(st.lists(st.booleans(), min_size=2, max_size=2), max_size=3),
        st.dictionaries(KEYS, st.binary(min_size=2, max_size=2) | st.none()),
    ]
).flatmap(lambda one: st.lists(one, max_size=6))


def shape_of(values: list[Any]) -> ObjectShape | None:
    shapes = ObjectShapes()
    packed = [pack_object(value) for value in values]
    sizes = np.array([len(one) for one in packed], np.uint64)
    starts = np.concatenate([np.zeros(1, np.uint64), np.cumsum(sizes, dtype=np.uint64)])[: len(packed)]
    half = len(packed) // 2
    for some in (slice(half), slice(half, None)):
        shapes.add(b"".join(packed), starts[some].copy(), sizes[some].copy())
    return shapes.whole()


def model(values: list[Any]) -> ObjectShape:
    """The same, in plain Python."""
    kinds = ShapeKind(0)
    least, most, real, sizes = 0, 0, 0.0, []
    items: list[Any] = []
    fields: dict[str, list[Any]] = {}
    for value in values:
        kind = {
            type(None): ShapeKind.NULL, bool: ShapeKind.BOOL, int: ShapeKind.INTEGER, float: ShapeKind.REAL,
            str: ShapeKind.TEXT, bytes: ShapeKind.BYTES, list: ShapeKind.LIST, dict: ShapeKind.MAP,
        }[type(value)]  # fmt: skip
        kinds |= kind
        if kind is ShapeKind.INTEGER:
            least, most = min(least, value), max(most, value)
        elif kind is ShapeKind.REAL and math.isfinite(value):
            real = max(real, abs(value))
        elif kind in (ShapeKind.BYTES, ShapeKind.LIST):
            sizes.append(len(value))
        if kind is ShapeKind.LIST:
            items += value
        elif kind is ShapeKind.MAP:
            for key, inner in value.items():
                fields.setdefault(key, []).append(inner)
    return ObjectShape(
        kinds, (least, most), real, (min(sizes), max(sizes)) if sizes else ((1 << 64) - 1, 0),
        model(items) if items else None, tuple((key, model(inner)) for key, inner in fields.items()),
    )  # fmt: skip


@given(st.lists(VALUES, max_size=6) | ALIKE)
def test_a_shape_is_that_of_the_model(values: list[Any]) -> None:
    assert shape_of(values) == model(values)


def typed(values: list[Any]) -> Nested | None:
    try:
        return nested_of_shape(shape_of(values), "x")
    except ValueError:
        return None


@given(st.lists(VALUES, max_size=6) | ALIKE)
@example([[1, 2.5]])
@example([{"a": 1 << 53}, {"a": 0.5}])
@example([{"a": 1}, {"a": 0.5}, {"a": math.inf}, {"a": None}, None])
def test_the_type_of_a_shape_takes_all_its_values(values: list[Any]) -> None:
    nested = typed(values)
    if nested is not None:
        assert nested == nested_of(str(nested))
        assert [nested.problem(value, "x") for value in values] == [None] * len(values)
        shape = shape_of(values)
        assert shape is not None
        assert nested.takes(shape)


@given(ALIKE, ALIKE | st.lists(VALUES, max_size=6))
def test_a_type_that_takes_a_shape_takes_all_its_values(values: list[Any], others: list[Any]) -> None:
    nested, shape = typed(values), shape_of(others)
    if nested is not None and shape is not None and nested.takes(shape):
        assert [nested.problem(value, "x") for value in others] == [None] * len(others)


@pytest.mark.parametrize(
    ("text", "fits", "not_"),
    [
        ("list<int8>", [[-128, 127]], [[128]]),
        ("list<uint16>", [[0, 65_535]], [[-1]]),
        ("list<float16>", [[65_504.0, 2048]], [[65_520.0]]),
        ("list<float16>", [[math.inf]], [[2049]]),
        ("list<float32>", [[1 << 24]], [[(1 << 24) + 1]]),
        ("fixed_size_list<int64>[2]", [[1, 2], [3, 4]], [[1]]),
        ("list<fixed_size_binary[2]>", [[b"ab"]], [[b"a"]]),
        ("struct<a: int64>", [{"a": 1}, {}, None], [{"b": 1}]),
        ("list<timestamp[us]>", [[5]], [["2025-06-01"]]),
        ("struct<a: list<int64>> not null", [{"a": []}], [None]),
        ("list<null>", [[None], []], [[1]]),
    ],
)
def test_types_take_the_shapes_of_their_values(text: str, fits: list[Any], not_: list[Any]) -> None:
    nested = nested_of(text)
    for values, wanted in ((fits, True), (not_, False), (fits + not_, False)):
        shape = shape_of(values)
        assert shape is not None
        assert nested.takes(shape) == wanted
        assert all(nested.problem(value, "x") is None for value in values) == wanted


@given(ALIKE, ALIKE)
def test_two_types_joined_take_the_values_of_both(one: list[Any], other: list[Any]) -> None:
    first, second = typed(one), typed(other)
    if first is None or second is None:
        return
    both = first.joined(second)
    assert (both is None) == (second.joined(first) is None)
    if both is not None and typed(one + other) is not None:
        assert [both.problem(value, "x") for value in one + other] == [None] * (len(one) + len(other))


def test_what_has_no_shape_says_so() -> None:
    assert shape_of([{1: 2}]) is None
    assert shape_of([{f"k{i}": i} for i in range(256)]) is not None
    assert shape_of([{f"k{i}": i} for i in range(257)]) is None
    assert shape_of([{f"{i}": {f"{j}": 1 for j in range(100)} for i in range(100)}]) is None  # nodes
    assert shape_of([{f"{i}" + "x" * 1000: 1 for i in range(100)}]) is None  # names
    shape = shape_of([[Extension(5, b"a")]])
    assert shape is not None
    assert shape.items == ObjectShape(ShapeKind.OTHER, sizes=((1 << 64) - 1, 0))


@given(
    st.binary(max_size=40) | st.lists(VALUES, max_size=3).map(msgpack.packb),
    st.integers(0, 39),
    st.integers(0, 255),
)
def test_bytes_that_are_no_object_end_in_an_error_or_a_shape(raw: bytes, at: int, byte: int) -> None:
    for data in (raw, raw[:at], raw[:at] + bytes([byte]) + raw[at + 1 :]):
        shapes = ObjectShapes()
        try:
            shapes.add(data, np.zeros(1, np.uint64), np.full(1, len(data), np.uint64))
        except ValueError:
            continue
        try:
            shapes.whole()
        except UnicodeDecodeError:
            continue


def test_an_object_beyond_the_content_is_refused() -> None:
    with pytest.raises(ValueError, match="behind the content"):
        ObjectShapes().add(b"\xc0", np.zeros(1, np.uint64), np.full(1, 2, np.uint64))
