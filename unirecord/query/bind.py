"""Binds a checked condition to one part: what its zones, dictionaries and row numbers say before a row is tried."""

from __future__ import annotations

import numpy as np

from . import bound_condition, compute, computed_zones, tree, zone_states
from .bind_text import bind_text, compare_text
from .bound_condition import MAX_RANGES, BoundCondition, fixed, in_ranges, present
from .kernels import ROWS, SET, Step
from .number_steps import number_test
from .part_fields import Mask, PartFields, RowsAt
from .tree import PART, ROW, Condition, Leaf

FAR = 1 << 62  # beyond every row number


def bind(condition: Condition, fields: PartFields) -> BoundCondition:
    """The condition on the part that ``fields`` reads."""
    if isinstance(condition, tree.Every):
        if any(_is_elsewhere(inner, fields) for inner in condition.conditions):
            return fixed(condition, fields, False)
        return bound_condition.every(condition, tuple(bind(inner, fields) for inner in condition.conditions))
    if isinstance(condition, tree.Any):
        return bound_condition.any_of(condition, tuple(bind(inner, fields) for inner in condition.conditions))
    if isinstance(condition, tree.Always):
        return fixed(condition, fields, condition.value)
    if isinstance(condition, tree.Range):
        return _range(condition, fields)
    if isinstance(condition, tree.OneOf):
        return _one_of(condition, fields)
    if isinstance(condition, tree.Text):
        return bind_text(condition, fields)
    if isinstance(condition, tree.IsNull) and isinstance(condition.operand, tree.Field):
        return present(condition, condition.operand, fields, has_value=condition.negated)
    return _computed(condition, fields)


def _is_elsewhere(leaf: Condition, fields: PartFields) -> bool:
    """Whether row or part numbers alone leave no row of this part, so that it need not be opened."""
    places = isinstance(leaf, (tree.Range, tree.OneOf)) and leaf.field.ordinal in (ROW, PART)
    return places and not bind(leaf, fields).states.any()


def _range(leaf: tree.Range, fields: PartFields) -> BoundCondition:
    if leaf.field.ordinal == PART:
        return fixed(leaf, fields, (leaf.low <= fields.part <= leaf.high) != leaf.negated)
    if leaf.field.ordinal == ROW:
        return _row_range(leaf, fields)
    vector = fields.columns.values(leaf.field.ordinal)
    return in_ranges(leaf, leaf.field, fields, vector, [(leaf.low, leaf.high)], leaf.negated, "values")


def _row_range(leaf: tree.Range, fields: PartFields) -> BoundCondition:
    low, high = max(int(leaf.low) - fields.base, -FAR), min(int(leaf.high) - fields.base, FAR)
    rows = fields.rows
    first = np.arange(zone_states.zone_count(rows), dtype=np.int64) * zone_states.ZONE
    last = np.minimum(first + zone_states.ZONE, rows) - 1
    inside, outside = (first >= low) & (last <= high), (last < low) | (first > high)
    states = zone_states.unknown(rows)
    states[outside if leaf.negated else inside] = zone_states.ALL
    states[inside if leaf.negated else outside] = zone_states.NONE

    def test(at: RowsAt) -> Mask:
        numbers = at.numbers()
        inside = (numbers >= low) & (numbers <= high)
        return ~inside if leaf.negated else inside

    step = Step(ROWS, SET, 0, leaf.negated, low=low, high=high)
    return BoundCondition("row numbers", leaf, states, test, [step])


def _one_of(leaf: tree.OneOf, fields: PartFields) -> BoundCondition:
    if not leaf.values:
        return present(leaf, leaf.field, fields, True) if leaf.negated else fixed(leaf, fields, False)
    if leaf.field.ordinal == PART:
        return fixed(leaf, fields, (fields.part in leaf.values) != leaf.negated)
    if leaf.field.ordinal == ROW:
        return _row_list(leaf, fields)
    vector = fields.columns.values(leaf.field.ordinal)
    ranges = [(value, value) for value in leaf.values]
    if len(ranges) <= (1 if leaf.negated else MAX_RANGES):
        return in_ranges(leaf, leaf.field, fields, vector, ranges, leaf.negated, "values")
    rows = fields.rows
    wanted = np.array(leaf.values, vector.array.dtype)

    def test(at: RowsAt) -> Mask:
        mask = np.isin(at.read(vector), wanted, invert=leaf.negated)
        valid = fields.valid(leaf.field, at)
        return mask if valid is None else mask & valid

    zones = zone_states.fitting(fields.columns.zones(leaf.field.ordinal), rows)
    states = zone_states.unknown(rows) if zones is None else zone_states.of_list(zones, wanted, leaf.negated)
    search = () if leaf.negated else ranges
    return BoundCondition("list", leaf, states, test, search=search, column=leaf.field.ordinal)


def _row_list(leaf: tree.OneOf, fields: PartFields) -> BoundCondition:
    wanted = np.array(leaf.values, np.int64) - fields.base
    rows = fields.rows
    states = zone_states.unknown(rows)
    inside = wanted[(wanted >= 0) & (wanted < rows)]
    touched = np.zeros(len(states), np.bool_)
    touched[inside // zone_states.ZONE] = True
    states[~touched] = zone_states.ALL if leaf.negated else zone_states.NONE
    return BoundCondition(
        "row numbers", leaf, states, lambda c: np.isin(c.numbers(), wanted, invert=leaf.negated)
    )


def _computed(leaf: Leaf, fields: PartFields) -> BoundCondition:
    def test(at: RowsAt) -> Mask:
        if isinstance(leaf, tree.Within):
            return compute.within(leaf, fields, at)
        if isinstance(leaf, tree.Compare):
            return compute.compare(leaf, fields, at)
        if isinstance(leaf, tree.CompareText):
            return compare_text(leaf, fields, at)
        assert isinstance(leaf, tree.IsNull)
        assert not isinstance(leaf.operand, tree.Field)
        found = compute.not_null(leaf.operand, fields, at)
        return found if leaf.negated else ~found

    states = computed_zones.states_of(leaf, fields)
    found = number_test(leaf, fields) if states.any() else None
    if found is None:
        return BoundCondition("computed", leaf, states, test)
    return BoundCondition("computed", leaf, states, test, found.steps, found.vectors, found.bits)
