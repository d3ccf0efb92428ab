"""A condition on one part: how it is tried, and what is known of it without trying."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..columns.flat import Vector, Zones
from . import zones as zones_module
from .fields import AND, BITS, OR, RANGE, SET, Mask, PartFields, RowsAt, Step
from .tree import ROW, Condition, Field
from .zones import ALL, NONE, States

MAX_RANGES = 16  # ranges that are tried one by one in C
Ranges = Sequence[tuple[int | float, int | float]]


@dataclass
class BoundCondition:
    """A condition on one part.

    ``test`` tries it on rows. ``steps``, if any, do the same in C into mask 0; they read an element a row of
    ``vectors`` and bits of ``bits``. ``search`` are the ranges of values to look up in the sorted rows
    of ``column``; with none, no lookup can answer it. ``terms`` are those of an "and" or "or".
    """

    how: str
    condition: Condition
    states: States
    test: Callable[[RowsAt], Mask]
    steps: list[Step] = field(default_factory=list)
    vectors: list[Vector] = field(default_factory=list)
    bits: Sequence[Vector] = ()
    search: Ranges = ()
    column: int = ROW
    terms: tuple[BoundCondition, ...] = ()


def fixed(condition: Condition, fields: PartFields, value: bool) -> BoundCondition:
    """True in every row, or in none."""
    states = np.full(zones_module.zone_count(fields.rows), ALL if value else NONE, np.uint8)
    return BoundCondition("known", condition, states, lambda at: np.full(len(at), value, np.bool_))


def every(condition: Condition, terms: tuple[BoundCondition, ...]) -> BoundCondition:
    """All of the terms; the test stops where no row is left."""
    states = np.minimum.reduce([term.states for term in terms])

    def test(at: RowsAt) -> Mask:
        mask = terms[0].test(at)
        for term in terms[1:]:
            if not mask.any():
                break
            mask = mask & term.test(at)
        return mask

    return BoundCondition("and", condition, states, test, terms=terms)


def any_of(condition: Condition, terms: tuple[BoundCondition, ...]) -> BoundCondition:
    """At least one of the terms."""
    states = np.maximum.reduce([term.states for term in terms])

    def test(at: RowsAt) -> Mask:
        mask = terms[0].test(at)
        for term in terms[1:]:
            mask = mask | term.test(at)
        return mask

    return BoundCondition("or", condition, states, test, terms=terms)


def present(condition: Condition, column: Field, fields: PartFields, has_value: bool) -> BoundCondition:
    """The column has a value, or has none."""
    vector = fields.columns.validity(column.ordinal) if column.nullable else None
    if vector is None:
        return fixed(condition, fields, has_value)
    rows = fields.rows
    zones = zones_module.fitting(fields.columns.zones(column.ordinal), rows)
    states = zones_module.unknown(rows) if zones is None else zones_module.of_presence(zones, has_value)
    step = Step(BITS, SET, 0, not has_value, data=vector.array)
    return BoundCondition(
        "nulls", condition, states, lambda c: c.bits(vector) == has_value, [step], [], (vector,)
    )


def in_ranges(
    condition: Condition,
    column: Field,
    fields: PartFields,
    vector: Vector,
    ranges: Ranges,
    negated: bool,
    how: str,
) -> BoundCondition:
    """The element of ``vector`` lies in a range (both ends included); of at most `MAX_RANGES`, one if negated."""
    rows = fields.rows
    zones = zones_module.fitting(fields.columns.zones(column.ordinal), rows)
    validity = needed_validity(column, fields, zones)
    if vector.array.dtype == np.bool_:
        vector, zones = Vector(vector.array.view(np.uint8), vector.check), as_bytes(zones)
    kind = vector.array.dtype.type

    def test(at: RowsAt) -> Mask:
        values = at.read(vector)
        mask = np.zeros(len(values), np.bool_)
        for low, high in ranges:
            mask |= (values >= kind(low)) & (values <= kind(high))
        mask = ~mask if negated else mask
        return mask if validity is None else mask & at.bits(validity)

    states = zones_module.unknown(rows)
    if zones is not None:
        states = np.maximum.reduce([zones_module.of_range(zones, low, high, negated) for low, high in ranges])
    steps = [Step(RANGE, OR, 0, negated, data=vector.array, low=low, high=high) for low, high in ranges]
    steps[0] = replace(steps[0], combine=SET)
    bits = () if validity is None else (validity,)
    steps += [Step(BITS, AND, 0, data=validity.array) for validity in bits]
    return BoundCondition(
        how, condition, states, test, steps, [vector], bits, () if negated else ranges, column.ordinal
    )


def needed_validity(column: Field, fields: PartFields, zones: Zones | None) -> Vector | None:
    """The validity of a column, unless its zones say that there is no null."""
    if not column.nullable or (zones is not None and not (zones.flags & zones_module.HAS_NULL).any()):
        return None
    return fields.columns.validity(column.ordinal)


def as_bytes(zones: Zones | None) -> Zones | None:
    """Zones of a bool column with numbers for bounds."""
    return (
        None if zones is None or zones.bounds is None else replace(zones, bounds=zones.bounds.view(np.uint8))
    )
