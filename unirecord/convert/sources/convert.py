"""Text and parsed JSON to the values of a column of a given type, exactly or not at all."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ...errors import SchemaError
from ...format.column import Column
from .cell_types import is_rounded
from .json_text import parse_json

__all__ = [
    "InexactError",
    "Misfit",
    "converted",
    "exact_float",
    "json_converter",
    "numbers",
    "rounding_advice",
    "text_converter",
]

_TRUE: Final = frozenset(("true", "t", "yes", "y", "1"))
_FALSE: Final = frozenset(("false", "f", "no", "n", "0"))
_TEXTS: Final = {str, type(None)}


class InexactError(ValueError):
    """A number is one that its column would round; the message says what to do."""


@dataclass(frozen=True)
class Misfit:
    """Stands for a value that is none of its column; no column takes it, so its row is left out or refused."""

    reason: str


def converted(
    values: Sequence[Any],
    convert: Callable[[Any], Any],
    column: Column,
    lines: Sequence[int],
    where: str,
    *,
    keep: bool = False,
) -> list[Any]:
    """Return every value converted; `SchemaError` names the file, line and column of the first that cannot be.

    With ``keep`` such a value becomes a `Misfit`.
    """
    if convert is _same or (convert is _as_text and set(map(type, values)) <= _TEXTS):
        return list(values)
    try:
        return list(map(convert, values))
    except (ValueError, TypeError, OverflowError):
        found = []
        for line, value in zip(lines, values, strict=True):
            try:
                found.append(convert(value))
            except (ValueError, TypeError, OverflowError) as error:
                reason = f"line {line}, column {column.name!r}: {_misfit(value, column, error)}"
                if not keep:
                    raise SchemaError(f"{where}, {reason}") from None
                found.append(Misfit(reason))
        return found


def _misfit(value: Any, column: Column, error: Exception) -> str:
    if value == "":
        return f'the cell is empty; the type "{column}?" allows that'
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "…"
    is_json = (
        column.type == "object" or column.is_array
    )  # of other text all that can be said is that it does not fit
    why = f": {error}" if (is_json or isinstance(error, InexactError)) and str(error) else ""
    return f"{shown} is no {column}{why}"


def text_converter(column: Column) -> Callable[[str], Any]:
    """Return the function that makes a value of the column from the text of a CSV cell; empty text is null."""
    if column.type in ("string", "text"):
        return (lambda text: text or None) if column.nullable else str
    if column.type == "bytes" and not column.is_array:
        return (lambda text: text.encode() or None) if column.nullable else str.encode
    convert = _array_from_text(column) if column.is_array else _scalar_from_text(column)
    return (lambda text: convert(text) if text else None) if column.nullable else convert


def _same(value: Any) -> Any:
    return value


def _scalar_from_text(column: Column) -> Callable[[str], Any]:
    if column.type == "object":
        return parse_json
    if column.type == "bool":
        return _bool_from_text
    return _float_from_text if column.type.startswith("float") else _int_from_text


def _bool_from_text(text: str) -> bool:
    folded = text.strip().lower()
    if folded in _TRUE or folded in _FALSE:
        return folded in _TRUE
    raise ValueError


def _int_from_text(text: str) -> int:
    if "_" in text:  # int() takes 1_000
        raise ValueError
    return int(text)


def _float_from_text(text: str) -> float:
    if "_" in text:
        raise ValueError
    value = float(text)
    if math.isinf(value) and "n" not in text.lower():  # 1e999 is finite as text
        raise ValueError
    return value


def exact_float(column: Column) -> Callable[[str], Any]:
    """Return what makes a float64 of the text of a CSV cell, and no other number of a whole one."""

    def convert(text: str) -> float | None:
        if column.nullable and not text:
            return None
        if is_rounded(text):
            raise InexactError(rounding_advice(column.name))
        return _float_from_text(text)

    return convert


def rounding_advice(name: str) -> str:
    """What to do about a whole number in a column of float64 that float64 does not hold."""
    return (
        f"float64, which other values of the column need, rounds it: --schema {name}=string keeps what is written, "
        f"{name}=float64 takes the nearest"
    )


def _array_from_text(column: Column) -> Callable[[str], Any]:
    convert = json_converter(column)
    return lambda text: convert(parse_json(text))


def json_converter(column: Column) -> Callable[[Any], Any]:
    """Return the function that makes a column's value from parsed JSON; scalars are left to the writer's checks."""
    if not column.is_array:
        if column.type == "bytes":
            return _encoded
        return _as_text if column.type in ("string", "text") else _same
    dtype = column.dtype
    assert dtype is not None

    def to_array(value: Any) -> Any:
        if value is None and column.nullable:
            return None
        array = numbers(value)
        if array is None:
            raise ValueError
        cast = array.astype(dtype)
        exact = array.size == 0 or array.dtype.kind == "f" or (cast.astype(np.longdouble) == array).all()
        if array.dtype.kind == "f" and dtype.kind not in "fc":
            exact = array.size == 0 or bool((cast == array).all())
        if not exact or (dtype.kind == "f" and (np.isinf(cast) & ~np.isinf(array)).any()):
            raise ValueError
        return cast

    return to_array


def _encoded(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    """Keep text and null; a number or a list in a column that was declared text becomes its JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def numbers(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a nested list of numbers of one kind as a bool, int64 or float64 array; None when it is anything else."""
    if not isinstance(value, list):
        return None
    kinds = _leaf_types(value)
    if kinds == {bool}:
        wanted: Any = np.bool_
    elif kinds <= {int}:
        wanted = np.int64
    elif kinds <= {int, float}:
        wanted = np.float64
    else:
        return None
    try:
        array = np.array(value, dtype=wanted)
    except (ValueError, OverflowError):  # ragged, or beyond 64 bits
        return None
    if kinds == {int, float} and (np.abs(array) > 2**53).any():  # an integer may have been rounded
        return None
    return array


def _leaf_types(value: list[Any]) -> set[type]:
    kinds = set(map(type, value))
    if list in kinds:
        kinds.discard(list)
        for item in value:
            if isinstance(item, list):
                kinds |= _leaf_types(item)
    return kinds
