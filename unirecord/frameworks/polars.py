"""A dataset as a LazyFrame of Polars, which asks for the columns and the rows that a query needs."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import polars
import pyarrow
from polars.io.plugins import register_io_source

from ..dataset.dataset import UniRecordDataset
from ..errors import QueryError
from ..format.meaning import Meaning
from ..format.schema import Schema
from ..loading.opened import PathLike
from .arguments import check_dataset

__all__ = ["scan"]


def scan(ds: UniRecordDataset | PathLike) -> polars.LazyFrame:
    """A ``polars.LazyFrame`` over the rows of ``ds.to_batches()``, read a batch at a time when it is collected.

    Only the columns that the query is of are read. Of its filters, what a condition of docs/query.md can say chooses
    rows before they are read, by the index; Polars applies the rest, and all of it once more.

    Args:
        ds: a dataset, or what `UniRecordDataset` opens.

    Raises:
        TypeError: a draw or mixture of datasets, whose rows are in an order of their own.
        MissingError, FormatError, CorruptionError: as of `UniRecordDataset`.
    """
    if not isinstance(ds, UniRecordDataset):
        if hasattr(ds, "read_cursor"):
            check_dataset(
                ds, "unirecord.polars.scan(drawn.dataset) has the rows that they have been drawn from"
            )
        ds = UniRecordDataset(ds)
    rows: UniRecordDataset[Any] = ds
    names = rows.read_cursor.plan.data.stored_names()

    def batches(
        columns: list[str] | None, predicate: polars.Expr | None, limit: int | None, batch_size: int | None
    ) -> Iterator[polars.DataFrame]:
        wanted = names if columns is None else columns
        asked = [] if predicate is None else predicate.meta.root_names()
        read = [name for name in names if name in wanted or name in asked]
        # Polars' own limit comes before its filter.
        found = rows if limit is None else rows.take(limit)
        condition = None if predicate is None else _condition(predicate, rows.schema)
        if condition is not None:
            with suppress(QueryError):  # too long or too deep to be said: Polars alone filters
                found = found.view(where=condition)
        for batch in found.to_batches(read or names[:1], batch_size=batch_size):
            frame = _frame(batch)
            yield (frame if predicate is None else frame.filter(predicate)).select(wanted)

    empty = _frame(pyarrow.RecordBatch.from_pylist([], pyarrow.schema(rows)))
    return register_io_source(batches, schema=empty.schema, is_pure=True)


def _frame(batch: pyarrow.RecordBatch) -> polars.DataFrame:
    found = polars.from_arrow(batch)
    assert isinstance(found, polars.DataFrame)
    return found


# Predicates as conditions, from the JSON in which Polars says an expression. That form is not promised to stay: what is
# not exactly as known here is left to Polars, so a condition may choose too many rows, and never too few.


_LITERALS: Final = {
    **{f"{sign}int{bits}": f"{name}Int{bits}" for sign, name in (("", ""), ("u", "U")) for bits in (8, 16, 32, 64)},
    "float32": "Float32",
    "float64": "Float64",
    "string": "String",
}  # fmt: skip
_COMPARISONS: Final = {"Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_UNITS: Final = {
    "Milliseconds": 1_000,
    "Microseconds": 1_000_000,
    "Nanoseconds": 1_000_000_000,
}  # of a second
_MOST_ITEMS: Final = 10_000


class _UnsaidError(Exception):
    """A condition does not say it."""


def _condition(predicate: polars.Expr, schema: Schema) -> str | None:
    """What rows a predicate keeps, at most; None where nothing of it can be said."""
    try:
        tree = json.loads(predicate.meta.serialize(format="json"))
    except (polars.exceptions.PolarsError, ValueError, RecursionError):
        return None
    said = []
    for term in _terms(tree):
        try:
            said.append(f"({_said(term, schema)})")
        except (_UnsaidError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
            continue
    return " and ".join(said) or None


def _terms(tree: Any) -> Iterator[Any]:
    """What "and" joins."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        joined = node.get("BinaryExpr") if isinstance(node, dict) else None
        if joined is not None and joined.get("op") == "And":
            waiting += [joined["right"], joined["left"]]
        else:
            yield node


def _said(node: Any, schema: Schema) -> str:
    """A condition that is true, false and null for the same rows as an expression."""
    (kind, value), *more = node.items()
    if more:
        raise _UnsaidError
    if kind == "Column" and schema[value].type == "bool":
        return _name(node, schema)
    if kind == "BinaryExpr":
        operator = value["op"]
        if operator in ("And", "Or"):
            return f"({_said(value['left'], schema)}) {operator.lower()} ({_said(value['right'], schema)})"
        return _compared(value["left"], operator, value["right"], schema)
    if kind != "Function":
        raise _UnsaidError
    inputs, function = value["input"], value["function"]
    if function == {"StringExpr": "StartsWith"}:
        return f"{_name(inputs[0], schema)} startswith {_literal(inputs[0], inputs[1], schema)}"
    if set(function) != {"Boolean"}:
        raise _UnsaidError
    return _of_function(function["Boolean"], inputs, schema)


def _of_function(function: Any, inputs: list[Any], schema: Schema) -> str:
    if function == "Not":
        return f"not ({_said(inputs[0], schema)})"
    if function in ("IsNull", "IsNotNull"):
        if _column(inputs[0], schema).classes is not None:  # to Polars, numbers of no class are null
            raise _UnsaidError
        return f"{_name(inputs[0], schema)} is {'not ' if function == 'IsNotNull' else ''}null"
    (name, options), *_ = function.items()
    if name == "IsBetween":
        closed = options["closed"]
        least = _compared(inputs[0], "GtEq" if closed in ("Both", "Left") else "Gt", inputs[1], schema)
        greatest = _compared(inputs[0], "LtEq" if closed in ("Both", "Right") else "Lt", inputs[2], schema)
        return f"({least}) and ({greatest})"
    if name == "IsIn" and not options["nulls_equal"]:
        items = polars.read_ipc_stream(io.BytesIO(bytes(inputs[1]["Literal"]["Scalar"]["List"])))
        values = items.to_series().explode().to_list()
        kind = _kind(_column(inputs[0], schema))
        if kind.startswith("Float") or not 0 < len(values) <= _MOST_ITEMS:
            raise _UnsaidError
        return f"{_name(inputs[0], schema)} in ({', '.join(_text(kind, value) for value in values)})"
    raise _UnsaidError


def _compared(left: Any, operator: str, right: Any, schema: Schema) -> str:
    name, value = _name(left, schema), _literal(left, right, schema)
    if _column(left, schema).classes is not None and operator not in ("Eq", "NotEq"):
        raise _UnsaidError
    said = f"{name} {_COMPARISONS[operator]} {value}"
    # To Polars, NaN is greater than all numbers.
    greater = operator in ("Gt", "GtEq") and _column(left, schema).type.startswith("float")
    return f"{said} or {name} is nan" if greater else said


def _column(node: Any, schema: Schema) -> Any:
    column = schema[node["Column"]]
    if (column.is_array and not column.is_wide_decimal) or (
        column.logical is not None and column.meaning is None
    ):
        raise _UnsaidError
    return column


def _name(node: Any, schema: Schema) -> str:
    return f"`{_column(node, schema).name.replace('`', '``')}`"


def _literal(column: Any, node: Any, schema: Schema) -> str:
    """A literal of the column's own type: Polars has cast it, or the column, where it was of another."""
    found, scalar = _column(column, schema), node["Literal"]["Scalar"]
    if found.meaning is not None:
        return _meant(found.meaning, scalar)
    kind = _kind(found)
    return _text(kind, scalar[kind])


def _kind(column: Any) -> str:
    """What Polars calls a literal of a column that is what it is stored as."""
    if column.logical is not None:
        raise _UnsaidError
    return _LITERALS[column.type]


def _meant(meaning: Meaning, scalar: Any) -> str:
    """A time, a duration, a decimal or the name of a class, as a condition says it."""
    ((kind, value),) = scalar.items()
    if (meaning.name, kind) == ("class", "String"):
        return _text(kind, value)
    if (meaning.name, kind) == ("decimal", "Decimal"):
        number, _, digits = value
        if 10**digits > meaning.per:  # Polars may round it to those of the column
            raise _UnsaidError
        return Meaning("decimal", 10**digits).text(number)
    if (meaning.name, kind) == ("timestamp", "Datetime"):
        number, unit, zone = value
        if (zone is None) != (meaning.zone is None):
            raise _UnsaidError
        text = Meaning("timestamp", _UNITS[unit], meaning.zone).text(number, universal=True)
    elif (meaning.name, kind) == ("duration", "Duration"):
        text = Meaning("duration", _UNITS[value[1]]).text(value[0])
    elif (meaning.name, kind) == ("time", "Time"):
        text = Meaning("time", _UNITS["Nanoseconds"]).text(value)
    elif (meaning.name, kind) == ("date", "Date"):
        text = Meaning("date").text(value)
    else:
        raise _UnsaidError
    return f"'{text}'"


def _text(kind: str, value: Any) -> str:
    if kind == "String" and type(value) is str:
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if kind.startswith("Float") and type(value) in (int, float) and math.isfinite(value):
        return repr(float(value))
    if "Int" in kind and type(value) is int:
        return repr(value)
    raise _UnsaidError
