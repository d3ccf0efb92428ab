"""Sequences of a dataset: samples of rows at offsets from an anchor row, within its group."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from math import isfinite
from typing import Any, Literal

import numpy as np

from ..errors import SchemaError
from ..format.column import Column
from ..format.meaning import read_duration
from ..loading.batch import IS_PAD
from ..loading.opened import OpenedData
from ..loading.plan import Plan
from ..loading.sequences import REAL_TICKS, Offsets, Rows, SequenceData, SequenceRule
from ..loading.streams import StreamData
from ..order.spec import check_integer
from ..sizes import many
from .cursor import Cursor
from .dataset import UniRecordDataset
from .position import Position

__all__ = ["sequences"]

_MOST_STEPS = 1 << 20
_FARTHEST = 1 << 40
_UNITS = {
    "W": Fraction(7 * 86_400),
    "D": Fraction(86_400),
    "h": Fraction(3_600),
    "m": Fraction(60),
    "s": Fraction(1),
    "ms": Fraction(1, 10**3),
    "us": Fraction(1, 10**6),
    "ns": Fraction(1, 10**9),
    "ps": Fraction(1, 10**12),
    "fs": Fraction(1, 10**15),
    "as": Fraction(1, 10**18),
}


def sequences(
    ds: UniRecordDataset[Any],
    *,
    by: str | None = None,
    order: str | None = None,
    at: Mapping[str, Iterable[Any]] | None = None,
    length: int | None = None,
    end: Literal["anchor"] = "anchor",
    edges: Literal["pad", "drop", "partial"] = "pad",
    stride: int = 1,
    where: str | None = None,
    tolerance: Any = None,
    match: Literal["nearest", "before"] = "nearest",
) -> UniRecordDataset:
    """Samples that span rows: an anchor row, and what stands at offsets from it within its group (docs/sequences.md).

    What is returned is a dataset like any other, whose rows are the anchors: shuffled, sharded, drawn, excluded and
    resumed as rows are. A column named in ``at`` is an array [steps, …], in batches [batch, steps, …], and behind it
    comes a mask, ``"image.is_pad"``, True where no row stands at the step. Other columns have the anchor's value.

    Args:
        ds: the dataset. Its rows, as they are stored, are what offsets step over.
        by: a scalar column whose runs of one value are the groups, such as an episode; None: all rows are one.
        order: a column of numbers or times that does not fall within a group: it is checked; and what offsets in time
            count by. None: rows are taken as they are stored.
        at: for columns the offsets of their steps: integers count rows, as in ``{"image": [-2, -1, 0], "action":
            range(16)}``; text, as ``["-1s", "0s"]``, and ``timedelta`` count time; real numbers units of ``order``.
        length: in place of ``at``, so many rows of every column, of which …
        end: … the "anchor" is the last.
        edges: what becomes of steps where no row stands. "pad": the row at the edge of the group, or the nearest in
            time, stands there, and the mask is True. "partial": zero stands there (null in nullable columns, None
            where values have no fixed width), and the mask is True. "drop": a row with such a step is no anchor.
        stride: of the rows of a group that may be anchors, each so many-th is.
        where: a condition that anchors meet (docs/query.md); what stands at their offsets need not.
        tolerance: for offsets in time, how far a row may be from where it is wanted, as ``"20ms"``, in the same forms.
        match: for offsets in time, the "nearest" row, of two the earlier; or the last that is not later, "before".

    Raises:
        SchemaError: there is no such column, or it cannot be counted by.
        ValueError: the groups do not lie together, or rows do not ascend in them: the message has the command that
            sorts them; no row can be an anchor; or another wrong argument.
        QueryError: ``where`` is wrong.
    """
    plan = _plan_of(ds)
    if end != "anchor":
        raise ValueError(
            f'end must be "anchor", got {end!r}: at= says other steps, as in at={{"x": range(0, 50)}}'
        )
    if edges not in ("pad", "drop", "partial"):
        raise ValueError(f'edges must be "pad", "drop" or "partial", got {edges!r}')
    if match not in ("nearest", "before"):
        raise ValueError(f'match must be "nearest" or "before", got {match!r}')
    schema = plan.data.snapshot.schema
    for name in (by, order):
        if name is not None and schema[name].is_blob:
            raise SchemaError(f"column {name!r} is {schema[name].spec!r}: by= and order= take scalar columns")
    column = None if order is None else schema[order]
    steps = _steps(plan.data, at, length, column)
    timed = any(of.timed for of in steps.values())
    if timed and tolerance is None:
        raise ValueError(
            'offsets in time need a tolerance, such as tolerance="20ms"; "0s" takes rows at exactly these times alone'
        )
    if match != "nearest" and not timed:
        raise ValueError(f"match={match!r} is for offsets in time, and these count rows")
    if tolerance is not None and not timed:
        raise ValueError(f"tolerance={tolerance!r} is for offsets in time, and these count rows")
    far = 0 if tolerance is None else _in_units(tolerance, column, "tolerance")
    if far < 0:
        raise ValueError(f"tolerance={tolerance!r} is negative")
    check_integer("stride", stride, 1)
    rule = SequenceRule(steps, by, order, stride, edges, far, match == "before")
    rows = Rows(plan.data, rule, plan.order.selection)
    data = SequenceData(plan.data, [(rows, 0)], _names(plan.data))
    anchors = rows.anchors()
    made = Plan(data, plan.order, plan.where, plan.condition, plan.narrowed, plan.blocks)
    if anchors != plan.order.selection:
        made = made.selected(anchors)
    if where is not None:
        made = made.where_also(where)
    if not made.order.selected_rows:
        raise ValueError(
            f"of {many(plan.order.selected_rows, 'row')} none can be an anchor: no group has a row at all of the steps "
            '(edges="drop"), or none meets where='
        )
    sequenced: UniRecordDataset = object.__new__(UniRecordDataset)
    sequenced._stand(
        Cursor(made, Position(ds.read_cursor.position.epoch), shared=ds.read_cursor.shared),
        None,
        ds.on_corrupt,
    )
    return sequenced


def _plan_of(ds: UniRecordDataset[Any]) -> Plan:
    """What a dataset reads; an error where it has no rows of its own."""
    if not isinstance(ds, UniRecordDataset):
        raise TypeError(f"expected a UniRecordDataset, got {ds!r:.100}: open one with UniRecordDataset(path)")
    plan = ds.read_cursor.plan
    ds.read_cursor.refuse_exclusions("sequences")
    if plan.order.rule is not None:
        raise ValueError(
            f"this is {plan.order.rule.name} already, and sequences are of rows as they are stored: make them first, "
            "and draw from them"
        )
    if isinstance(plan.data, (StreamData, SequenceData)):
        raise ValueError("sequences are made of rows, and these are samples made of rows already")
    if ds.transform is not None:
        raise ValueError(
            "the dataset has a transform of rows, and a sequence is another sample: give it to what this returns, "
            "sequences(ds.view(transform=None), …).view(transform=…)"
        )
    return plan


def _names(data: OpenedData) -> list[str] | None:
    """The columns that were asked for, if any were; a name that a mask will have is refused."""
    return [column.name for column in data.sample_columns] if data.are_chosen else None


def _steps(
    data: OpenedData, at: Mapping[str, Iterable[Any]] | None, length: int | None, order: Column | None
) -> dict[str, Offsets]:
    """The offsets of each column that has steps."""
    names = [column.name for _, column in data.columns]
    if (at is None) == (length is None):
        raise ValueError('give one of at, such as at={"image": [-1, 0]}, and length')
    if length is not None:
        check_integer("length", length, 1, _MOST_STEPS)
        of = Offsets(tuple(range(1 - length, 1)))
        steps = dict.fromkeys(names, of)
    else:
        if not isinstance(at, Mapping) or not at:
            raise TypeError(f'at says the offsets of columns, as in at={{"image": [-1, 0]}}, not {at!r}')
        steps = {}
        for name, offsets in at.items():
            if name not in names:
                raise SchemaError(f"at: there is no column {name!r} among those that are read, {names}")
            steps[name] = _offsets(name, offsets, order)
    for name in steps:
        if f"{name}{IS_PAD}" in names:
            raise SchemaError(
                f"there is a column {f'{name}{IS_PAD}'!r} already: leave it out with ds.view(columns=…)"
            )
    return steps


def _offsets(name: str, offsets: Iterable[Any], order: Column | None) -> Offsets:
    """The offsets of a column as whole numbers."""
    if isinstance(offsets, (str, int)) or not isinstance(offsets, Iterable):
        raise TypeError(f"at: the offsets of {name!r} are a list, as in [-1, 0], not {offsets!r}")
    given: Sequence[Any] = (
        offsets.tolist() if isinstance(offsets, np.ndarray) and offsets.dtype.kind in "iuf" else list(offsets)
    )
    if not 1 <= len(given) <= _MOST_STEPS:
        raise ValueError(
            f"at: column {name!r} has {many(len(given), 'step')}; 1 to {_MOST_STEPS:,} are possible"
        )
    rows = [
        isinstance(one, (int, np.integer)) and not isinstance(one, (bool, np.timedelta64)) for one in given
    ]
    if all(rows):
        return Offsets(
            tuple(check_integer(f"an offset of {name!r}", int(one), -_FARTHEST, _FARTHEST) for one in given)
        )
    if any(rows):
        raise ValueError(
            f"at: some offsets of {name!r} count rows (integers) and others time: give all of one kind, "
            f'"0s" or 0.0 where the anchor itself is meant'
        )
    return Offsets(tuple(_in_units(one, order, f"at: an offset of {name!r}") for one in given), timed=True)


def _in_units(given: Any, order: Column | None, what: str) -> int:
    """A time, or a number of units of the order, as the whole number that the times are compared by."""
    if order is None:
        raise ValueError(f"{what} is {given!r}, a time: say which column has the times, order=…")
    seconds = _seconds(given)
    unit, one = _units_of(order)
    if seconds is not None and unit is None:
        raise ValueError(
            f"{what} is {given!r}, and column {order.name!r} is {order.spec!r}, which counts no known unit of time: "
            "give it as a real number of its units, as in 20.0"
        )
    number_types = (float, int, Decimal, np.integer, np.floating)
    if seconds is None and (isinstance(given, bool) or not isinstance(given, number_types)):
        raise TypeError(
            f'{what} is {given!r}: times are given as "20ms", a timedelta, or a real number of units'
        )
    if seconds is None and not isfinite(given):
        raise ValueError(f"{what} is {given!r}")
    number = seconds / unit if seconds is not None and unit is not None else Fraction(str(given)) * one
    if unit is not None and one == REAL_TICKS:
        number = Fraction(round(number))
    if number.denominator != 1:
        raise ValueError(f"{what} is {given!r}, and column {order.name!r} counts no finer than its unit")
    if abs(number) >= 1 << 62:
        raise ValueError(f"{what} is {given!r}, which is out of all reach")
    return int(number)


def _units_of(order: Column) -> tuple[Fraction | None, Fraction]:
    """How many seconds a number that the times are compared by is, None where it counts no time; and how many are 1."""
    if order.dtype is not None and order.dtype.kind == "f":
        return Fraction(1, REAL_TICKS), Fraction(REAL_TICKS)
    said = order.known_logical or {"type": None}
    if said["type"] == "decimal":
        return None, Fraction(10) ** said["scale"]
    is_time = said["type"] in ("timestamp", "date", "time", "duration")
    return _UNITS[said.get("unit", "D")] if is_time else None, Fraction(1)


def _seconds(given: Any) -> Fraction | None:
    """The seconds of a text or a time span; None for what is none."""
    if isinstance(given, str):
        try:
            return read_duration(given)
        except ValueError as error:
            raise ValueError(f'{given!r}: {error}; times are given as "-1s", "20ms" or "6h"') from None
    # a Timedelta of pandas counts nanoseconds, which timedelta does not
    given = given.to_timedelta64() if hasattr(given, "to_timedelta64") else given
    if isinstance(given, np.timedelta64):
        unit, number = np.datetime_data(given.dtype)
        if unit not in _UNITS or np.isnat(given):
            raise ValueError(
                f"{given!r} is no span of weeks, days, hours, minutes, seconds or parts of these"
            )
        return int(given.astype(np.int64)) * number * _UNITS[unit]
    if isinstance(given, timedelta):
        return Fraction(given // timedelta(microseconds=1), 10**6)
    return None
