"""Conditions in their simplest form, so that what means the same is read and written the same."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Final

from .tree import (
    EMPTY,
    HOLDS,
    INTEGERS,
    Always,
    AnyOf,
    Between,
    Compare,
    CompareText,
    Condition,
    Constant,
    Field,
    IsNull,
    Joined,
    Minus,
    Number,
    OneOf,
    Operation,
    Range,
    Text,
    TextTest,
    Value,
    Within,
    equal,
    integer_limits,
    is_integer,
    value_range,
)

NUMBERS: Final = (Value, Constant, Minus, Operation)
CONDITIONS: Final = (Always, Range, OneOf, Text, IsNull, Within, Compare, CompareText, Joined)
ALWAYS: Final = {True: Always(True), False: Always(False)}
MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def known(field: Field, value: bool) -> Condition:
    """``value`` where the column is not null, unknown where it is."""
    return OneOf(field, (), negated=value) if field.nullable else ALWAYS[value]


def negate(condition: Condition) -> Condition:
    """The condition that is true where this one is false, and unknown where it is unknown."""
    if isinstance(condition, Always):
        return ALWAYS[not condition.value]
    if isinstance(condition, Joined):
        join = any_of if condition.word == "and" else every
        return join([negate(inner) for inner in condition.conditions])
    if isinstance(condition, Range):
        return number_range(condition.field, condition.low, condition.high, not condition.negated)
    if isinstance(condition, OneOf):
        return OneOf(condition.field, condition.values, not condition.negated)
    if isinstance(condition, Text):
        return Text(condition.field, condition.test, not condition.negated)
    if isinstance(condition, IsNull):
        return IsNull(condition.operand, not condition.negated)
    if isinstance(condition, Within):
        return Within(condition.number, condition.low, condition.high, not condition.negated)
    return type(condition)(condition.operator, condition.left, condition.right, not condition.negated)  # type: ignore[arg-type]


def every(conditions: Iterable[Condition]) -> Condition:
    """All of them: flattened, ranges of one column joined to one."""
    found: list[Condition] = []
    ranges: dict[tuple[type, Field], int] = {}
    for condition in _flat(conditions, "and"):
        if condition == ALWAYS[False]:
            return condition
        if condition == ALWAYS[True] or condition in found[-1:]:
            continue
        if isinstance(condition, (Range, Text)) and not condition.negated:
            place = ranges.setdefault((type(condition), condition.field), len(found))
            if place < len(found) and (both := _both(found[place], condition)) is not None:
                found[place] = both
                continue
        found.append(condition)
    if ALWAYS[False] in found:
        return ALWAYS[False]
    found = [condition for condition in found if condition != ALWAYS[True]]
    return Joined("and", tuple(found)) if len(found) > 1 else found[0] if found else ALWAYS[True]


def any_of(conditions: Iterable[Condition]) -> Condition:
    """At least one of them: flattened, equalities on one column joined to a list."""
    found: list[Condition] = []
    lists: dict[tuple[type, Field], int] = {}
    values: dict[int, set[int | float] | set[bytes]] = {}
    for condition in _flat(conditions, "or"):
        if condition == ALWAYS[True]:
            return condition
        if condition == ALWAYS[False] or condition in found[-1:]:
            continue
        if (single := _points(condition)) is not None:
            key = (Text if isinstance(condition, Text) else Range, condition.field)  # type: ignore[union-attr]
            place = lists.setdefault(key, len(found))
            values.setdefault(place, set()).update(single)  # type: ignore[arg-type]
            if place < len(found):
                continue
        found.append(condition)
    for (_, field), place in lists.items():
        found[place] = _listed(field, values[place], found[place])
    return Joined("or", tuple(found)) if len(found) > 1 else found[0] if found else ALWAYS[False]


def _flat(conditions: Iterable[Condition], word: str) -> list[Condition]:
    flat: list[Condition] = []
    for condition in conditions:
        if isinstance(condition, Joined) and condition.word == word:
            flat += condition.conditions
        else:
            flat.append(condition)
    return flat


def _both(left: Condition, right: Range | Text) -> Condition | None:
    """Two ranges of one column as one, or None where they do not join."""
    if isinstance(left, Range) and isinstance(right, Range) and not left.negated:
        return number_range(left.field, max(left.low, right.low), min(left.high, right.high))
    if not isinstance(left, Text) or not isinstance(right, Text) or left.negated:
        return None
    if isinstance(left.test, Between) and isinstance(right.test, Between):
        return text(left.field, left.test.both(right.test))
    return None


def _points(condition: Condition) -> set[int | float] | set[bytes] | None:
    """The values of an equality or a list; None for any other condition."""
    if isinstance(condition, Range) and not condition.negated and condition.low == condition.high:
        return {condition.low} if condition.field.type != "bool" else None
    if isinstance(condition, OneOf) and not condition.negated and condition.values:
        return set(condition.values)
    if isinstance(condition, Text) and not condition.negated:
        if isinstance(condition.test, AnyOf):
            return set(condition.test.strings)
        if isinstance(condition.test, Between) and (single := condition.test.single) is not None:
            return {single}
    return None


def _listed(field: Field, values: set[int | float] | set[bytes], single: Condition) -> Condition:
    if isinstance(single, Text):
        strings = sorted(value for value in values if isinstance(value, bytes))
        return Text(field, AnyOf(tuple(strings))) if len(strings) > 1 else single
    numbers = sorted(value for value in values if not isinstance(value, bytes))
    return OneOf(field, tuple(numbers)) if len(numbers) > 1 else number_range(field, numbers[0], numbers[0])


def same_truth(left: Condition, right: Condition) -> Condition:
    """Both true or both false; unknown where either is."""
    return any_of([every([left, right]), every([negate(left), negate(right)])])


def size(condition: Condition) -> int:
    """How many conditions a condition is made of."""
    return 1 + sum(size(inner) for inner in condition.conditions) if isinstance(condition, Joined) else 1


# ---- leaves


def number_range(field: Field, low: int | float, high: int | float, negated: bool = False) -> Condition:
    """``low <= field <= high``; both within the type's own numbers."""
    if low > high:
        return known(field, negated)
    if field.type in INTEGERS and (low, high) == INTEGERS[field.type]:
        return known(field, not negated)
    if field.type == "bool" and negated:
        return Range(field, 1 - low, 1 - high)
    return Range(field, low, high, negated)


def truth_of(field: Field) -> Condition:
    """A bool column as a condition."""
    return Range(field, 1, 1)


def text(field: Field, test: TextTest, negated: bool = False) -> Condition:
    """The string passes the test."""
    if isinstance(test, Between) and test.empty:
        return known(field, negated)
    if isinstance(test, Between) and test == Between(b"", None):
        return known(field, not negated)
    if isinstance(test, AnyOf) and not test.strings:
        return known(field, negated)
    return Text(field, test, negated)


def one_of(field: Field, items: Sequence[int | float | Fraction]) -> Condition:
    """The number in the column equals one of the items."""
    values = set()
    for item in items:
        low, high = value_range(field.type, "==", item, as_written=True)
        if low <= high:
            values.add(low)
    listed = sorted(values)
    if len(listed) > 1 and field.type in INTEGERS and listed[-1] - listed[0] == len(listed) - 1:
        return number_range(field, listed[0], listed[-1])
    return OneOf(field, tuple(listed)) if len(listed) > 1 else number_range(field, *(listed * 2 or EMPTY))


def one_of_text(field: Field, items: Sequence[str]) -> Condition:
    """The string in the column equals one of the items."""
    strings = tuple(sorted({item.encode() for item in items}))
    return text(field, equal(strings[0]) if len(strings) == 1 else AnyOf(strings))


def is_null(field: Field) -> Condition:
    """The column is null."""
    return IsNull(field) if field.nullable else ALWAYS[False]


def is_nan(number: Number) -> Condition:
    """The number is NaN; unknown where it is null."""
    if isinstance(number, Constant):
        return ALWAYS[False]
    if isinstance(number, Value) and not is_integer(number):
        return number_range(number.field, -math.inf, math.inf, negated=True)
    if isinstance(number, Value):
        return known(number.field, False)
    if is_integer(number):
        return Within(number, None, None, negated=True)
    return Compare("==", number, number, negated=True)


def compare_numbers(operator: str, left: Number, right: Number) -> Condition:
    """Two numbers compared, an integer and a float exactly."""
    if operator == "!=":
        return negate(compare_numbers("==", left, right))
    if isinstance(left, Constant):
        if isinstance(right, Constant):
            return ALWAYS[HOLDS[operator](left.value, right.value)]
        return compare_numbers(MIRRORED[operator], right, left)
    if isinstance(right, Constant):
        if isinstance(left, Value):
            return number_range(
                left.field, *value_range(left.field.type, operator, right.value, as_written=True)
            )
        if is_integer(left):
            limits = integer_limits(operator, right.value)
            return Within(left, None, None, negated=True) if limits == EMPTY else Within(left, *limits)
    if operator in (">", ">="):
        return Compare(MIRRORED[operator], right, left)
    return Compare(operator, left, right)


def compare_text(operator: str, left: Field | str, right: Field | str) -> Condition:
    """Two strings compared by code point."""
    if operator == "!=":
        return negate(compare_text("==", left, right))
    if isinstance(left, str):
        if isinstance(right, str):
            return ALWAYS[HOLDS[operator](left.encode(), right.encode())]
        return compare_text(MIRRORED[operator], right, left)
    if isinstance(right, Field):
        if operator in (">", ">="):
            return CompareText(MIRRORED[operator], right, left)
        return CompareText(operator, left, right)
    string = right.encode()
    after = string + b"\0"
    tests = {
        "==": Between(string, after),
        "<": Between(b"", string),
        "<=": Between(b"", after),
        ">": Between(after, None),
        ">=": Between(string, None),
    }
    return text(left, tests[operator])
