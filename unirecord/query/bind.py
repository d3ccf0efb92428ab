"""Binds a checked condition to one part: what its zones, dictionaries and row numbers say before a row is tried."""

from __future__ import annotations

import numpy as np

from . import bound_condition, compute, tree, zone_states
from .bind_text import bind_text, compare_text
from .bound_condition import MAX_RANGES, BoundCondition, fixed, in_ranges, present
from .kernels import ROWS, SET, Step
from .selection import Chosen, Mask, Reader
from .tree import PART, ROW, Condition, Leaf

FAR = 1 << 62  # beyond every row number


def bind(condition: Condition, reader: Reader) -> BoundCondition:
    """The condition on the part that ``reader`` reads."""
    if isinstance(condition, tree.Every):
        if any(_is_elsewhere(inner, reader) for inner in condition.conditions):
            return fixed(condition, reader, False)
        return bound_condition.every(condition, tuple(bind(inner, reader) for inner in condition.conditions))
    if isinstance(condition, tree.Any):
        return bound_condition.any_of(condition, tuple(bind(inner, reader) for inner in condition.conditions))
    if isinstance(condition, tree.Always):
        return fixed(condition, reader, condition.value)
    if isinstance(condition, tree.Range):
        return _range(condition, reader)
    if isinstance(condition, tree.OneOf):
        return _one_of(condition, reader)
    if isinstance(condition, tree.Text):
        return bind_text(condition, reader)
    if isinstance(condition, tree.IsNull) and isinstance(condition.operand, tree.Field):
        return present(condition, condition.operand, reader, has_value=condition.negated)
    return _computed(condition, reader)


def _is_elsewhere(leaf: Condition, reader: Reader) -> bool:
    """Whether row or part numbers alone leave no row of this part, so that it need not be opened."""
    places = isinstance(leaf, (tree.Range, tree.OneOf)) and leaf.field.position in (ROW, PART)
    return places and not bind(leaf, reader).states.any()


def _range(leaf: tree.Range, reader: Reader) -> BoundCondition:
    if leaf.field.position == PART:
        return fixed(leaf, reader, (leaf.low <= reader.part <= leaf.high) != leaf.negated)
    if leaf.field.position == ROW:
        return _row_range(leaf, reader)
    vector = reader.source.values(leaf.field.position)
    return in_ranges(leaf, leaf.field, reader, vector, [(leaf.low, leaf.high)], leaf.negated, "values")


def _row_range(leaf: tree.Range, reader: Reader) -> BoundCondition:
    low, high = max(int(leaf.low) - reader.base, -FAR), min(int(leaf.high) - reader.base, FAR)
    rows = reader.source.rows
    first = np.arange(zone_states.zone_count(rows), dtype=np.int64) * zone_states.ZONE
    last = np.minimum(first + zone_states.ZONE, rows) - 1
    inside, outside = (first >= low) & (last <= high), (last < low) | (first > high)
    states = zone_states.unknown(rows)
    states[outside if leaf.negated else inside] = zone_states.ALL
    states[inside if leaf.negated else outside] = zone_states.NONE

    def test(chosen: Chosen) -> Mask:
        numbers = chosen.numbers()
        inside = (numbers >= low) & (numbers <= high)
        return ~inside if leaf.negated else inside

    step = Step(ROWS, SET, 0, leaf.negated, low=low, high=high)
    return BoundCondition("row numbers", leaf, states, test, [step])


def _one_of(leaf: tree.OneOf, reader: Reader) -> BoundCondition:
    if not leaf.values:
        return present(leaf, leaf.field, reader, True) if leaf.negated else fixed(leaf, reader, False)
    if leaf.field.position == PART:
        return fixed(leaf, reader, (reader.part in leaf.values) != leaf.negated)
    if leaf.field.position == ROW:
        return _row_list(leaf, reader)
    vector = reader.source.values(leaf.field.position)
    ranges = [(value, value) for value in leaf.values]
    if len(ranges) <= (1 if leaf.negated else MAX_RANGES):
        return in_ranges(leaf, leaf.field, reader, vector, ranges, leaf.negated, "values")
    rows = reader.source.rows
    wanted = np.array(leaf.values, vector.array.dtype)

    def test(chosen: Chosen) -> Mask:
        mask = np.isin(chosen.read(vector), wanted, invert=leaf.negated)
        valid = reader.valid(leaf.field, chosen)
        return mask if valid is None else mask & valid

    zones = zone_states.fitting(reader.source.zones(leaf.field.position), rows)
    states = zone_states.unknown(rows) if zones is None else zone_states.of_list(zones, wanted, leaf.negated)
    search = () if leaf.negated else ranges
    return BoundCondition("list", leaf, states, test, search=search, column=leaf.field.position)


def _row_list(leaf: tree.OneOf, reader: Reader) -> BoundCondition:
    wanted = np.array(leaf.values, np.int64) - reader.base
    rows = reader.source.rows
    states = zone_states.unknown(rows)
    inside = wanted[(wanted >= 0) & (wanted < rows)]
    touched = np.zeros(len(states), np.bool_)
    touched[inside // zone_states.ZONE] = True
    states[~touched] = zone_states.ALL if leaf.negated else zone_states.NONE
    return BoundCondition(
        "row numbers", leaf, states, lambda c: np.isin(c.numbers(), wanted, invert=leaf.negated)
    )


def _computed(leaf: Leaf, reader: Reader) -> BoundCondition:
    def test(chosen: Chosen) -> Mask:
        if isinstance(leaf, tree.Within):
            return compute.within(leaf, reader, chosen)
        if isinstance(leaf, tree.Compare):
            return compute.compare(leaf, reader, chosen)
        if isinstance(leaf, tree.CompareText):
            return compare_text(leaf, reader, chosen)
        assert isinstance(leaf, tree.IsNull)
        assert not isinstance(leaf.operand, tree.Field)
        found = compute.not_null(leaf.operand, reader, chosen)
        return found if leaf.negated else ~found

    return BoundCondition("computed", leaf, zone_states.unknown(reader.source.rows), test)
