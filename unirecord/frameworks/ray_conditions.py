"""Expressions of Ray Data as conditions of ours, where both choose the same rows."""

from __future__ import annotations

import json
from typing import Any, Final

from ..format.column import Column
from ..format.schema import Schema

__all__ = ["condition_of"]

_COMPARISONS: Final = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_SWAPPED: Final = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_EXACT: Final = 1 << 53  # integers to which a float64 is compared without rounding


def condition_of(expression: Any, schema: Schema) -> str | None:
    """Return the text of the condition; None where there is none that surely means the same.

    Comparisons of a column with a value, joined by and, or and not: nulls and NaN count alike in both. Left out are
    what Arrow compares after rounding (float32 with decimals, uint64) and lists with nulls, of which Arrow thinks
    otherwise.
    """
    from ray.data.expressions import BinaryExpr, UnaryExpr

    if isinstance(expression, BinaryExpr):
        operation = str(expression.op.value)
        if operation in ("and", "or"):
            both = [condition_of(side, schema) for side in (expression.left, expression.right)]
            return None if None in both else f"({both[0]} {operation} {both[1]})"
        if operation in ("in", "not_in"):
            return _list(expression, operation, schema)
        if operation in _COMPARISONS:
            return _comparison(expression.left, expression.right, operation, schema)
    if isinstance(expression, UnaryExpr):
        operation = str(expression.op.value)
        if operation == "not":
            inner = condition_of(expression.operand, schema)
            return None if inner is None else f"(not {inner})"
        column = _column(expression.operand, schema)
        if column is not None and operation in ("is_null", "is_not_null") and not column.is_blob:
            return f"({_name(column)} is {'not ' if operation == 'is_not_null' else ''}null)"
    return None


def _comparison(left: Any, right: Any, operation: str, schema: Schema) -> str | None:
    column, other = _column(left, schema), right
    if column is None:
        column, other, operation = _column(right, schema), left, _SWAPPED[operation]
    value = None if column is None else _literal(column, other, operation)
    return None if column is None or value is None else f"({_name(column)} {_COMPARISONS[operation]} {value})"


def _list(expression: Any, operation: str, schema: Schema) -> str | None:
    from ray.data.expressions import LiteralExpr

    column = _column(expression.left, schema)
    given = getattr(expression.right, "value", None)
    if column is None or column.nullable or not isinstance(given, list | tuple) or not given:
        return None
    values = [_literal(column, LiteralExpr(one), "eq") for one in given]
    if None in values:
        return None
    return f"({_name(column)} {'not ' if operation == 'not_in' else ''}in ({', '.join(map(str, values))}))"


def _column(expression: Any, schema: Schema) -> Column | None:
    from ray.data.expressions import ColumnExpr

    if not isinstance(expression, ColumnExpr) or expression.name not in schema:
        return None
    column = schema[expression.name]
    return None if "`" in column.name or column.is_array else column


def _literal(column: Column, expression: Any, operation: str) -> str | None:
    """A value that a column is compared with, as text."""
    from ray.data.expressions import LiteralExpr

    if not isinstance(expression, LiteralExpr):
        return None
    value = expression.value
    if column.type == "bool":
        return str(value).lower() if type(value) is bool and operation in ("eq", "ne") else None
    if column.type in _INTEGERS:
        return str(value) if type(value) is int and -(1 << 63) <= value < 1 << 63 else None
    if column.type == "float64":
        exact = type(value) is float and abs(value) < float("inf")
        return repr(value) if exact or (type(value) is int and abs(value) <= _EXACT) else None
    if column.is_string and type(value) is str and operation in ("eq", "ne"):
        return json.dumps(value) if value.isascii() and value.isprintable() and "\\" not in value else None
    return None


def _name(column: Column) -> str:
    return f"`{column.name}`"
