"""Works out numbers at chosen rows: whole numbers exactly, by the C core where int64 holds them, floats in float64."""

from __future__ import annotations

import math
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from ..core import CodedArray
from .columns import (
    AND,
    BITS,
    NUMBER_DEPTH,
    NUMBERS,
    SET,
    Array,
    Mask,
    NumberOp,
    NumberStep,
    PartFields,
    RowsAt,
    Step,
    Vector,
)
from .tree import (
    ARITHMETIC,
    HOLDS,
    INTEGERS,
    WORDS,
    Compare,
    Constant,
    Leaf,
    Minus,
    Number,
    OneOf,
    Operation,
    Range,
    Value,
    Within,
    fields_of,
    is_integer,
)

# Works out numbers at chosen rows: whole numbers exactly, floats in float64, null where an operand is null.


EXACT: Final = 1 << 53  # float64 holds every integer up to here
Limits = tuple[int, int]


def limits_of(number: Number, fields: PartFields) -> tuple[Limits, int]:
    """Bounds of a whole number in this part, and the bits that it and all it is made of need."""
    if isinstance(number, Value):
        limits = fields.limits(number.field)
        return limits, _bits(limits)
    if isinstance(number, Constant):
        assert isinstance(number.value, int)
        return (number.value, number.value), _bits((number.value, number.value))
    if isinstance(number, Minus):
        (low, high), bits = limits_of(number.operand, fields)
        return (-high, -low), max(bits, _bits((-high, -low)))
    (a, b), left_bits = limits_of(number.left, fields)
    (c, d), right_bits = limits_of(number.right, fields)
    if number.operator == "+":
        limits = (a + c, b + d)
    elif number.operator == "-":
        limits = (a - d, b - c)
    elif number.operator == "*":
        corners = (a * c, a * d, b * c, b * d)
        limits = (min(corners), max(corners))
    else:
        most = max(abs(a), abs(b)) if number.operator == "//" else max(abs(c), abs(d))
        limits = (-most, most)
    return limits, max(left_bits, right_bits, _bits(limits))


def _bits(limits: Limits) -> int:
    """Bits of the signed integers that hold these."""
    return 1 + max(limits[1].bit_length(), (~limits[0]).bit_length() if limits[0] < 0 else 0)


def whole(number: Number, fields: PartFields, at: RowsAt) -> tuple[Array, Mask | None]:
    """The values of a whole number in int32 or int64 if all of it fits, else Python's integers; which are not null."""
    bits = limits_of(number, fields)[1]
    dtype = np.dtype(np.int32 if bits <= 32 else np.int64 if bits <= 64 else object)
    return _integers(number, fields, at, dtype)


def _integers(
    number: Number, fields: PartFields, at: RowsAt, dtype: np.dtype[Any]
) -> tuple[Array, Mask | None]:
    if isinstance(number, Value):
        return fields.values(number.field, at).astype(dtype, copy=False), fields.valid(number.field, at)
    if isinstance(number, Constant):
        return np.full(len(at), number.value, dtype), None
    if isinstance(number, Minus):
        values, valid = _integers(number.operand, fields, at, dtype)
        return -values, valid
    left, left_valid = _operand(number.left, number.right, fields, at, dtype)
    right, right_valid = _operand(number.right, number.left, fields, at, dtype)
    valid = _both(left_valid, right_valid)
    if number.operator in ("//", "%") and not isinstance(right, np.generic):
        nonzero = (right != 0).astype(np.bool_)
        if not nonzero.all():
            valid, right = _both(valid, nonzero), np.where(nonzero, right, 1)
    return ARITHMETIC[number.operator](left, right), valid


def _operand(
    number: Number, other: Number, fields: PartFields, at: RowsAt, dtype: np.dtype[Any]
) -> tuple[Array, Mask | None]:
    """As `_integers`; a constant beside what is none is one number of that dtype, not one a row. 0 is not: see `//`."""
    beside = dtype.kind == "i" and not isinstance(other, Constant)
    if beside and isinstance(number, Constant) and number.value:
        return cast("Array", dtype.type(number.value)), None
    return _integers(number, fields, at, dtype)


def floats(number: Number, fields: PartFields, at: RowsAt) -> tuple[npt.NDArray[np.float64], Mask | None]:
    """The values of a number as float64, and which are not null."""
    if is_integer(number) and not isinstance(number, Value):
        values, valid = whole(number, fields, at)
        return to_float64(values), valid
    if isinstance(number, Value):
        return fields.values(number.field, at).astype(np.float64), fields.valid(number.field, at)
    if isinstance(number, Constant):
        return np.full(len(at), number.value, np.float64), None
    if isinstance(number, Minus):
        inner, valid = floats(number.operand, fields, at)
        return -inner, valid
    left, left_valid = floats(number.left, fields, at)
    right, right_valid = floats(number.right, fields, at)
    with np.errstate(all="ignore"):
        return ARITHMETIC[number.operator](left, right), _both(left_valid, right_valid)


def to_float64(values: Array) -> npt.NDArray[np.float64]:
    """Integers as the nearest float64, infinite where there is none."""
    if values.dtype != object:
        return values.astype(np.float64)
    return np.array([_nearest(value) for value in values.tolist()], np.float64)


def _nearest(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _both(left: Mask | None, right: Mask | None) -> Mask | None:
    if left is None or right is None:
        return right if left is None else left
    return left & right


def _true(outcome: Array, negated: bool, valid: Mask | None) -> Mask:
    mask = np.asarray(outcome).astype(np.bool_)
    if negated:
        mask = ~mask
    return mask if valid is None else mask & valid


def within(leaf: Within, fields: PartFields, at: RowsAt) -> Mask:
    """Where the condition is true."""
    values, valid = whole(leaf.number, fields, at)
    inside = np.ones(len(at), np.bool_)
    for bound, above in ((leaf.low, True), (leaf.high, False)):
        if bound is None:
            continue
        if values.dtype != object and _bits((min(bound, 0), max(bound, 0))) > 8 * values.itemsize:
            inside &= (bound < 0) == above
        else:
            inside &= (values >= bound if above else values <= bound).astype(np.bool_)
    return _true(inside, leaf.negated, valid)


def compare(leaf: Compare, fields: PartFields, at: RowsAt) -> Mask:
    """Where the condition is true; an integer and a float compare by their exact values."""
    left, right, valid = _comparable(leaf, fields, at)
    with np.errstate(invalid="ignore"):  # NaN is no error here
        outcome = HOLDS[leaf.operator](left, right)
    return _true(outcome, leaf.negated, valid)


def _comparable(leaf: Compare, fields: PartFields, at: RowsAt) -> tuple[Array, Array, Mask | None]:
    kinds = is_integer(leaf.left), is_integer(leaf.right)
    if kinds == (False, False):
        left, left_valid = floats(leaf.left, fields, at)
        right, right_valid = floats(leaf.right, fields, at)
        return left, right, _both(left_valid, right_valid)
    sides = []
    for number, integer in zip((leaf.left, leaf.right), kinds, strict=True):
        sides.append(whole(number, fields, at) if integer else floats(number, fields, at))
    valid = _both(sides[0][1], sides[1][1])
    if kinds == (True, True):
        return sides[0][0], sides[1][0], valid  # integers of any kind compare exactly
    limits = limits_of(leaf.left if kinds[0] else leaf.right, fields)[0]
    exact = limits[0] >= -EXACT and limits[1] <= EXACT
    left, right = (side[0].astype(np.float64 if exact else object) for side in sides)
    return left, right, valid


_FEW: Final = 16  # values of a list that words are compared with one by one


def of_words(leaf: Range | OneOf, fields: PartFields, at: RowsAt) -> Mask:
    """Where the condition is true for decimals of two words, compared word by word."""
    ranges = [(leaf.low, leaf.high)] if isinstance(leaf, Range) else [(value, value) for value in leaf.values]
    valid = fields.valid(leaf.field, at)
    if len(ranges) > _FEW:
        wanted = {low for low, _ in ranges}
        values = fields.values(leaf.field, at).tolist()
        return _true(
            np.fromiter((value in wanted for value in values), np.bool_, len(at)), leaf.negated, valid
        )
    low, high = fields.words(leaf.field, at)
    found = np.zeros(len(at), np.bool_)
    for bounds in ranges:
        (least_high, least_low), (most_high, most_low) = (divmod(int(bound), 1 << 64) for bound in bounds)
        below = (high < least_high) | ((high == least_high) & (low < np.uint64(least_low)))
        above = (high > most_high) | ((high == most_high) & (low > np.uint64(most_low)))
        found |= ~(below | above)
    return _true(found, leaf.negated, valid)


def not_null(number: Number, fields: PartFields, at: RowsAt) -> Mask:
    """Where a number is not null."""
    valid = (whole if is_integer(number) else floats)(number, fields, at)[1]
    return np.ones(len(at), np.bool_) if valid is None else valid


# Tests of whole numbers as steps for the C core: sums, differences and products of columns that int64 holds.


_IN_INDEX: Final = INTEGERS.keys() - {WORDS}
JOINING = {"+": NumberOp.ADD, "-": NumberOp.SUBTRACT, "*": NumberOp.MULTIPLY}
COMPARING = {"==": NumberOp.EQUAL, "<": NumberOp.LESS, "<=": NumberOp.AT_MOST}


def number_test(leaf: Leaf, fields: PartFields) -> tuple[list[Step], list[Vector], list[Vector]] | None:
    """The test for C; None where C cannot: of floats, quotients, dictionaries, too large or too many numbers at once.

    The steps, into mask 0; what they read an element a row of; and the bits of rows that are not null.
    """
    if not isinstance(leaf, (Within, Compare)):
        return None
    numbers = (leaf.number,) if isinstance(leaf, Within) else (leaf.left, leaf.right)
    columns = sorted({field for number in numbers for field in fields_of(number)}, key=lambda f: f.ordinal)
    if not columns or any(field.ordinal < 0 or field.type not in _IN_INDEX for field in columns):
        return None
    if not all(map(is_integer, numbers)):
        return None
    if any(_depth(number, place) > NUMBER_DEPTH for place, number in enumerate(numbers)):
        return None
    bits = max(limits_of(number, fields)[1] for number in numbers)
    dtype = np.dtype(np.int32 if bits <= 32 else np.int64)
    last = _last(leaf, dtype)
    if bits > 64 or last is None:
        return None
    read = [fields.columns.values(field.ordinal) for field in columns]
    if any(isinstance(vector.array, CodedArray) for vector in read):
        return None
    operations = [step for number in numbers for step in _operations(number, fields)]
    operations.append(NumberStep(last[0]))
    steps = [Step(NUMBERS, SET, 0, leaf.negated, low=last[1], high=last[2], dtype=dtype, numbers=operations)]
    valid = [fields.columns.validity(field.ordinal) for field in columns if field.nullable]
    present = [vector for vector in valid if vector is not None]
    steps += [Step(BITS, AND, 0, data=vector.flat) for vector in present]
    return steps, read, present


def _depth(number: Number, below: int) -> float:
    """How high the stack grows with so many numbers on it already; infinite for what C does not work out."""
    if isinstance(number, (Value, Constant)):
        return below + 1
    if isinstance(number, Minus):
        return _depth(number.operand, below)
    if number.operator not in JOINING:
        return np.inf
    return max(_depth(number.left, below), _depth(number.right, below + 1))


def _operations(number: Number, fields: PartFields) -> list[NumberStep]:
    if isinstance(number, Value):
        return [NumberStep(NumberOp.LOAD, fields.columns.values(number.field.ordinal).numbers)]
    if isinstance(number, Constant):
        return [NumberStep(NumberOp.CONSTANT, value=int(number.value))]
    if isinstance(number, Minus):
        return [*_operations(number.operand, fields), NumberStep(NumberOp.MINUS)]
    assert isinstance(number, Operation)
    joined = NumberStep(JOINING[number.operator])
    return [*_operations(number.left, fields), *_operations(number.right, fields), joined]


def _last(leaf: Within | Compare, dtype: np.dtype[Any]) -> tuple[NumberOp, int, int] | None:
    """The operation that tests what has been worked out, and its bounds; None if they leave no number."""
    if isinstance(leaf, Compare):
        return COMPARING[leaf.operator], 0, 0
    least, greatest = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    low = least if leaf.low is None else max(leaf.low, least)
    high = greatest if leaf.high is None else min(leaf.high, greatest)
    return (NumberOp.WITHIN, low, high) if low <= high else None
