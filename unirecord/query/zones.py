"""What zones say of a condition: per zone whether NONE, SOME (not known) or ALL of its rows pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .columns import Array, PartFields, Zones
from .compute import limits_of
from .tree import Compare, Constant, Leaf, Minus, Number, Value, Within, is_integer

__all__ = [
    "states_of",
]


ZONE: Final = 8_192  # rows of a zone; zones of another size are not used
NONE, SOME, ALL = 0, 1, 2
HAS_NULL, HAS_NAN, HAS_VALUE = 1, 2, 4
States = npt.NDArray[np.uint8]


def zone_count(rows: int) -> int:
    """Zones of a part."""
    return -(-rows // ZONE)


def unknown(rows: int) -> States:
    """SOME for every zone of a part."""
    return np.full(zone_count(rows), SOME, np.uint8)


def fitting(zones: Zones | None, rows: int) -> Zones | None:
    """The zones, if they can be used."""
    fits = zones is not None and zones.rows == ZONE and len(zones.flags) == zone_count(rows)
    return zones if fits else None


def _combined(flags: npt.NDArray[np.uint8], none: Array, all_: Array, negated: bool) -> States:
    """States from which zones have no value (``none``) or only values (``all_``) that pass, nulls and NaN left out."""
    valued, plain = flags & HAS_VALUE != 0, flags & (HAS_NULL | HAS_NAN) == 0
    nan = flags & HAS_NAN != 0
    none, all_ = none | ~valued, all_ | ~valued
    states = np.full(len(flags), SOME, np.uint8)
    if negated:  # NaN passes, null does not
        states[none & (flags & HAS_NULL == 0)] = ALL
        states[all_ & ~nan] = NONE
    else:
        states[all_ & plain] = ALL
        states[none] = NONE
    return states


def of_range(zones: Zones, low: int | float, high: int | float, negated: bool) -> States:
    """For ``low <= value <= high``."""
    assert zones.bounds is not None
    least, greatest = zones.bounds[:, 0], zones.bounds[:, 1]
    kind: Any = zones.bounds.dtype.type
    low, high = kind(low), kind(high)
    if low > high:
        empty = np.zeros(len(least), np.bool_)
        return _combined(zones.flags, ~empty, empty, negated)
    return _combined(
        zones.flags, (greatest < low) | (least > high), (least >= low) & (greatest <= high), negated
    )


def of_list(zones: Zones, wanted: Array, negated: bool) -> States:
    """For a value that is one of ``wanted``, which ascend."""
    assert zones.bounds is not None
    first = np.searchsorted(wanted, zones.bounds[:, 0], side="left")
    beyond = np.searchsorted(wanted, zones.bounds[:, 1], side="right")
    none = first >= beyond
    return _combined(zones.flags, none, ~none & (zones.bounds[:, 0] == zones.bounds[:, 1]), negated)


def of_table(zones: Zones, table: npt.NDArray[np.uint8]) -> States:
    """For a code whose entry in ``table`` is 1."""
    assert zones.bounds is not None
    sums = np.concatenate([[0], np.cumsum(table, dtype=np.int64)])
    first = np.minimum(zones.bounds[:, 0].astype(np.int64), len(table) - 1)
    last = np.minimum(zones.bounds[:, 1].astype(np.int64), len(table) - 1)
    passing = sums[last + 1] - sums[first]
    return _combined(zones.flags, passing <= 0, passing == last - first + 1, False)


def of_presence(zones: Zones, present: bool) -> States:
    """For a column that has a value, or has none."""
    states = np.full(len(zones.flags), SOME, np.uint8)
    states[zones.flags & HAS_NULL == 0] = ALL if present else NONE
    if zones.bounds is not None:
        states[zones.flags == HAS_NULL] = NONE if present else ALL
    return states


# What zones say of conditions on computed whole numbers: interval arithmetic over the bounds of their
# columns.
#
# Moore, *Interval Analysis* (1966): the bounds of a sum, difference or product follow from those of its
# operands. They
# may be wider than what the rows give, where a column comes twice, and are never narrower.


_OPERATORS: Final = ("+", "-", "*")  # the others are null where they divide by zero


@dataclass(frozen=True)
class _Bounds:
    """Of a number in each zone: least and greatest value; whether there is any, and whether one may be null."""

    low: Array
    high: Array
    valued: npt.NDArray[np.bool_]
    nulls: npt.NDArray[np.bool_]


def states_of(leaf: Leaf, fields: PartFields) -> States:
    """The states of a computed condition; SOME where its zones do not tell."""
    if isinstance(leaf, Within):
        sides = [leaf.number]
    elif isinstance(leaf, Compare):
        sides = [leaf.left, leaf.right]
    else:
        return unknown(fields.rows)
    if not all(is_integer(side) and _is_simple(side) for side in sides):
        return unknown(fields.rows)
    bits = max(limits_of(side, fields)[1] for side in sides)
    dtype = np.dtype(np.int64 if bits <= 64 else object)
    found = [_bounds(side, fields, dtype) for side in sides]
    known = [bounds for bounds in found if bounds is not None]
    if len(known) < len(found):
        return unknown(fields.rows)
    if isinstance(leaf, Within):
        none, all_ = _within(leaf, known[0])
    else:
        none, all_ = _compared(leaf.operator, known[0], known[1])
    if leaf.negated:
        none, all_ = all_, none
    valued = np.logical_and.reduce([bounds.valued for bounds in known])
    nulls = np.logical_or.reduce([bounds.nulls for bounds in known])
    states = np.full(zone_count(fields.rows), SOME, np.uint8)
    states[all_ & ~nulls] = ALL
    states[none | ~valued] = NONE  # where an operand is null, nothing is true
    return states


def _is_simple(number: Number) -> bool:
    if isinstance(number, Value):
        return number.field.ordinal >= 0
    if isinstance(number, Constant):
        return True
    if isinstance(number, Minus):
        return _is_simple(number.operand)
    return number.operator in _OPERATORS and _is_simple(number.left) and _is_simple(number.right)


def _bounds(number: Number, fields: PartFields, dtype: np.dtype[Any]) -> _Bounds | None:
    """None where a column has no zones that can be used."""
    count = zone_count(fields.rows)
    if isinstance(number, Constant):
        values = np.full(count, number.value, dtype)
        return _Bounds(values, values, np.ones(count, np.bool_), np.zeros(count, np.bool_))
    if isinstance(number, Value):
        zones = fitting(fields.columns.zones(number.field.ordinal), fields.rows)
        if zones is None or zones.bounds is None:
            return None
        low, high = zones.bounds[:, 0].astype(dtype), zones.bounds[:, 1].astype(dtype)
        return _Bounds(low, high, zones.flags & HAS_VALUE != 0, zones.flags & HAS_NULL != 0)
    if isinstance(number, Minus):
        inner = _bounds(number.operand, fields, dtype)
        return None if inner is None else _Bounds(-inner.high, -inner.low, inner.valued, inner.nulls)
    left, right = _bounds(number.left, fields, dtype), _bounds(number.right, fields, dtype)
    if left is None or right is None:
        return None
    valued, nulls = left.valued & right.valued, left.nulls | right.nulls
    if number.operator == "+":
        return _Bounds(left.low + right.low, left.high + right.high, valued, nulls)
    if number.operator == "-":
        return _Bounds(left.low - right.high, left.high - right.low, valued, nulls)
    corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return _Bounds(np.minimum.reduce(corners), np.maximum.reduce(corners), valued, nulls)


def _within(leaf: Within, number: _Bounds) -> tuple[Array, Array]:
    """Zones of which no value, and of which every value, is within the bounds of the condition."""
    none, all_ = np.zeros(len(number.low), np.bool_), np.ones(len(number.low), np.bool_)
    if leaf.low is not None:
        none |= _less(number.high, leaf.low)
        all_ &= ~_less(number.low, leaf.low)
    if leaf.high is not None:
        none |= _less(leaf.high, number.low)
        all_ &= ~_less(leaf.high, number.high)
    return none, all_


def _less(left: Any, right: Any) -> npt.NDArray[np.bool_]:
    """left < right, of which one may be an integer of any size, which NumPy compares exactly."""
    return np.asarray(left < right).astype(np.bool_)


def _compared(operator: str, left: _Bounds, right: _Bounds) -> tuple[Array, Array]:
    """Zones in which no pair of values, and in which every pair, compares so."""
    if operator == "==":
        apart = _less(left.high, right.low) | _less(right.high, left.low)
        equal = (left.low == left.high) & (right.low == right.high) & (left.low == right.low)
        return apart, np.asarray(equal).astype(np.bool_)
    if operator == "<":
        return ~_less(left.low, right.high), _less(left.high, right.low)
    return _less(right.high, left.low), ~_less(right.low, left.high)
