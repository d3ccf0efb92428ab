"""Turns a comparison with a number that was written into an exact range in the column's own type."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

INTEGERS: Final[dict[str, tuple[int, int]]] = {
    "bool": (0, 1),
    **{f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
EMPTY: Final = (1, 0)

ValueRange = tuple[int | float, int | float]


def value_range(type_name: str, operator: str, value: int | float, as_written: bool) -> ValueRange:
    """The least and greatest value of the type for which ``x operator value``; EMPTY where there is none.

    ``operator`` is == < <= > or >=. ``as_written``: the value is a float that the user wrote, so that for float16 and
    float32 it means the nearest number of that type, as 0.1 does when it is stored.
    """
    if type_name in INTEGERS:
        return _integer_range(*INTEGERS[type_name], operator, value)
    return _float_range(np.dtype(type_name), operator, value, as_written)


def _integer_range(least: int, greatest: int, operator: str, value: int | float) -> ValueRange:
    low, high = integer_limits(operator, value)
    low = least if low is None else max(low, least)
    high = greatest if high is None else min(high, greatest)
    return (low, high) if low <= high else EMPTY


def integer_limits(operator: str, value: int | float) -> tuple[int | None, int | None]:
    """The least and greatest integer for which ``x operator value``: None is no limit, EMPTY no integer."""
    if isinstance(value, float) and math.isinf(value):
        holds = operator in (("<", "<=") if value > 0 else (">", ">="))
        return (None, None) if holds else EMPTY
    if operator == "==":
        return (int(value), int(value)) if value == int(value) else EMPTY
    if operator in ("<", "<="):
        return None, math.floor(value) if operator == "<=" else math.ceil(value) - 1
    return math.ceil(value) if operator == ">=" else math.floor(value) + 1, None


def _float_range(dtype: np.dtype[Any], operator: str, value: int | float, as_written: bool) -> ValueRange:
    if as_written and isinstance(value, float):
        value = nearest(dtype, value)
    below, above = neighbours(dtype, value)
    if operator == "==":
        return (below, above) if below == above else EMPTY
    exact = below == above
    if operator in ("<", "<="):
        high = _step(dtype, below, -math.inf) if exact and operator == "<" else below
        return (-math.inf, high) if not (exact and operator == "<" and below == -math.inf) else EMPTY
    low = _step(dtype, above, math.inf) if exact and operator == ">" else above
    return (low, math.inf) if not (exact and operator == ">" and above == math.inf) else EMPTY


def nearest(dtype: np.dtype[Any], value: float) -> float:
    """The type's number nearest to ``value``; ``value`` itself where that would be zero or infinite and it is not."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(dtype.type(value))
    return rounded if math.isfinite(rounded) and bool(rounded) == bool(value) else value


def neighbours(dtype: np.dtype[Any], value: int | float) -> tuple[float, float]:
    """The type's greatest number <= value and its least number >= value: the same where it is one; zero is 0.0."""
    try:
        with np.errstate(over="ignore", under="ignore"):
            close = float(dtype.type(float(value)))
    except OverflowError:
        close = math.inf if value > 0 else -math.inf
    if close == value:  # Python compares int with float exactly
        return close + 0.0, close + 0.0
    if close > value:
        return _step(dtype, close, -math.inf), close + 0.0
    return close + 0.0, _step(dtype, close, math.inf)


def _step(dtype: np.dtype[Any], value: float, towards: float) -> float:
    """The type's number next to ``value``; NumPy's scalar functions keep float16 and float32 as they are."""
    with np.errstate(all="ignore"):
        return float(np.nextafter(dtype.type(value), dtype.type(towards))) + 0.0
