"""Tests of whole numbers as steps for the C core: sums, differences and products of columns that int64 holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..columns.flat import Vector
from .compute import limits_of
from .kernels import AND, BITS, NUMBER_DEPTH, NUMBERS, SET, NumberOp, NumberStep, Step
from .part_fields import PartFields
from .tree import Compare, Constant, Leaf, Minus, Number, Operation, Value, Within, fields_of, is_integer
from .value_range import INTEGERS

JOINING = {"+": NumberOp.ADD, "-": NumberOp.SUBTRACT, "*": NumberOp.MULTIPLY}
COMPARING = {"==": NumberOp.EQUAL, "<": NumberOp.LESS, "<=": NumberOp.AT_MOST}


@dataclass(frozen=True)
class NumberTest:
    """The steps of a test, into mask 0; what they read an element a row of, and the bits of rows that are not null."""

    steps: list[Step]
    vectors: list[Vector]
    bits: list[Vector]


def number_test(leaf: Leaf, fields: PartFields) -> NumberTest | None:
    """The test for C; None where C cannot: of floats, quotients, too large or too many numbers at once."""
    if not isinstance(leaf, (Within, Compare)):
        return None
    numbers = (leaf.number,) if isinstance(leaf, Within) else (leaf.left, leaf.right)
    columns = sorted({field for number in numbers for field in fields_of(number)}, key=lambda f: f.ordinal)
    if not columns or any(field.ordinal < 0 or field.type not in INTEGERS for field in columns):
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
    operations = [step for number in numbers for step in _operations(number, fields)]
    operations.append(NumberStep(last[0]))
    steps = [Step(NUMBERS, SET, 0, leaf.negated, low=last[1], high=last[2], dtype=dtype, numbers=operations)]
    valid = [fields.columns.validity(field.ordinal) for field in columns if field.nullable]
    present = [vector for vector in valid if vector is not None]
    steps += [Step(BITS, AND, 0, data=vector.array) for vector in present]
    return NumberTest(steps, [fields.columns.values(field.ordinal) for field in columns], present)


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
        return [NumberStep(NumberOp.LOAD, fields.columns.values(number.field.ordinal).array)]
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
