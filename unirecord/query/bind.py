"""Conditions bound to a part: ranges of values, codes of dictionaries, and what is left to be tried row by row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, starmap
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import CodedArray
from ..format.packing import to_keys
from . import compute, tree
from . import zones as zones_module
from .columns import (
    AND,
    BITS,
    OR,
    RANGE,
    ROWS,
    SET,
    TABLE,
    Array,
    Dictionary,
    Mask,
    PartFields,
    RowsAt,
    Step,
    Strings,
    Vector,
    Zones,
    match_strings,
)
from .compute import number_test
from .tree import PART, ROW, WORDS, AnyOf, Between, CompareText, Condition, Field, Leaf, Text, TextTest
from .zones import ALL, NONE, States

# A condition on one part: how it is tried, and what is known of it without trying.


MAX_RANGES = 16  # ranges that are tried one by one in C
Ranges = Sequence[tuple[Any, Any]]


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
    step = Step(BITS, SET, 0, not has_value, data=vector.flat)
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
    if vector.dtype == np.bool_:
        vector, zones = vector.as_bytes(), as_bytes(zones)
    kind = vector.dtype.type

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
    if isinstance(vector.array, CodedArray):
        tried, found = vector.array.codes, entry_ranges(vector.array.entries, ranges)
    else:
        tried, found = vector.array, ranges
    steps = [Step(RANGE, OR, 0, negated, data=tried, low=low, high=high) for low, high in found]
    steps[0] = replace(steps[0], combine=SET)
    bits = () if validity is None else (validity,)
    steps += [Step(BITS, AND, 0, data=validity.flat) for validity in bits]
    return BoundCondition(
        how, condition, states, test, steps, [vector], bits, () if negated else ranges, column.ordinal
    )


def entry_ranges(entries: Array, ranges: Ranges) -> Ranges:
    """The codes of the entries of a dictionary of numbers that are in these ranges: ranges too, at least one."""
    keys, found = to_keys(entries), []
    for low, high in ranges:
        # -0.0 comes before 0.0, and both are zero
        bounds = np.array([low or -abs(low), abs(high) if high == 0 else high], entries.dtype)
        least, greatest = to_keys(bounds)
        first = int(np.searchsorted(keys, least))
        stop = int(np.searchsorted(keys, greatest, side="right"))
        found.append((first, stop - 1))
    return [each for each in found if each[0] <= each[1]] or [(1, 0)]


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


# Binds a checked condition to one part: what its zones, dictionaries and row numbers say before a row is
# tried.


# Binds a test of strings to one part: to ranges of codes where there is a dictionary, to the strings where not.


SEARCH_STEPS = 16  # entries that are compared in a row in the time of one step of a search among them
ENTRIES_AT_ONCE = 1 << 16


def bind_text(leaf: Text, fields: PartFields) -> BoundCondition:
    """The test on the part that ``fields`` reads; on a dictionary it is tried once per distinct string."""
    dictionary = fields.columns.dictionary(leaf.field.ordinal)
    if dictionary is None:
        return _plain(leaf, fields)
    ranges = code_ranges(leaf.test, dictionary)
    if not ranges and not leaf.negated:
        return fixed(leaf, fields, False)
    if len(ranges) <= (1 if leaf.negated else MAX_RANGES):
        return in_ranges(
            leaf, leaf.field, fields, dictionary.codes, ranges or [(1, 0)], leaf.negated, "dictionary"
        )
    return _table(leaf, fields, dictionary, ranges)


def code_ranges(test: TextTest, dictionary: Dictionary) -> Ranges:
    """The codes that pass, as ranges with both ends included."""
    entries = dictionary.entries
    if isinstance(test, Between):
        low = entries.first_at_least(test.low)
        high = len(entries) if test.high is None else entries.first_at_least(test.high)
        return [(low, high - 1)] if low < high else []
    if isinstance(test, AnyOf):
        codes = _codes_of(test, entries)
    else:
        codes = np.flatnonzero(match_strings(entries.offsets.whole(), entries.data.whole(), test))
    if not len(codes):
        return []
    breaks = np.flatnonzero(np.diff(codes) != 1)
    starts, stops = codes[np.r_[0, breaks + 1]], codes[np.r_[breaks, len(codes) - 1]]
    return list(zip(starts.tolist(), stops.tolist(), strict=True))


def _codes_of(test: AnyOf, entries: Strings) -> npt.NDArray[np.int64]:
    """The places of the strings among the entries: each looked up, or the entries gone through where they are many."""
    if len(test.strings) * len(entries).bit_length() * SEARCH_STEPS < len(entries):
        places = [(entries.first_at_least(string), string) for string in test.strings]
        return np.array([p for p, string in places if p < len(entries) and entries[p] == string], np.int64)
    found: list[int] = []
    for first in range(0, len(entries), ENTRIES_AT_ONCE):
        ends = entries.offsets.span(first, min(first + ENTRIES_AT_ONCE, len(entries)) + 1).tolist()
        data = entries.data.span(ends[0], ends[-1]).tobytes()
        strings = (data[a - ends[0] : b - ends[0]] for a, b in pairwise(ends))
        found.extend(place for place, string in enumerate(strings, first) if test.matches(string))
    return np.array(found, np.int64)


def _table(leaf: Text, fields: PartFields, dictionary: Dictionary, ranges: Ranges) -> BoundCondition:
    """Codes looked up in a table of those that pass."""
    table = _passing(len(dictionary.entries), ranges, leaf.negated)
    codes, rows = dictionary.codes, fields.rows
    zones = zones_module.fitting(fields.columns.zones(leaf.field.ordinal), rows)
    validity = needed_validity(leaf.field, fields, zones)

    def test(at: RowsAt) -> Mask:
        mask = table.take(at.read(codes), mode="clip").view(np.bool_)
        return mask if validity is None else mask & at.bits(validity)

    states = zones_module.unknown(rows) if zones is None else zones_module.of_table(zones, table)
    bits = () if validity is None else (validity,)
    steps = [Step(TABLE, SET, 0, data=codes.numbers, table=table)]
    steps += [Step(BITS, AND, 0, data=vector.flat) for vector in bits]
    search = () if leaf.negated else ranges
    return BoundCondition("dictionary", leaf, states, test, steps, [codes], bits, search, leaf.field.ordinal)


def _passing(entries: int, ranges: Ranges, negated: bool) -> npt.NDArray[np.uint8]:
    marks = np.zeros(entries + 1, np.int64)
    np.add.at(marks, [int(low) for low, _ in ranges], 1)
    np.add.at(marks, [int(high) + 1 for _, high in ranges], -1)
    passing: Mask = (np.cumsum(marks)[:-1] > 0) != negated
    return passing.astype(np.uint8)


def _plain(leaf: Text, fields: PartFields) -> BoundCondition:
    strings, rows = fields.columns.strings(leaf.field.ordinal), fields.rows

    def test(at: RowsAt) -> Mask:
        if at.rows is None and not isinstance(leaf.test, AnyOf):
            offsets = strings.offsets.span(at.start, at.stop + 1)
            strings.data.check(int(offsets[0]), int(offsets[-1]))
            mask = match_strings(offsets, strings.data.flat, leaf.test).view(np.bool_)
        elif isinstance(leaf.test, AnyOf):
            found = map(leaf.test.matches, fields.strings(leaf.field, at))
            mask = np.fromiter(found, np.bool_, len(at))
        else:  # scattered rows: their strings, put together
            texts = list(fields.strings(leaf.field, at))
            offsets = np.cumsum([0, *map(len, texts)], dtype=np.uint64)
            mask = match_strings(offsets, np.frombuffer(b"".join(texts), np.uint8), leaf.test).view(np.bool_)
        mask = ~mask if leaf.negated else mask
        valid = fields.valid(leaf.field, at)
        return mask if valid is None else mask & valid

    search = () if leaf.negated else [(string, string) for string in _exact_strings(leaf.test)]
    states = zones_module.unknown(rows)
    return BoundCondition("strings", leaf, states, test, search=search, column=leaf.field.ordinal)


def _exact_strings(test: TextTest) -> Sequence[bytes]:
    """The strings that pass, where the test names them."""
    if isinstance(test, AnyOf):
        return test.strings
    return () if not isinstance(test, Between) or test.single is None else (test.single,)


def compare_text(leaf: CompareText, fields: PartFields, at: RowsAt) -> Mask:
    """Where two string columns compare so."""
    pairs = zip(fields.strings(leaf.left, at), fields.strings(leaf.right, at), strict=True)
    found = list(starmap(tree.HOLDS[leaf.operator], pairs))
    mask: Mask = np.array(found, np.bool_) != leaf.negated
    for side in (leaf.left, leaf.right):
        valid = fields.valid(side, at)
        mask = mask if valid is None else mask & valid
    return mask


FAR = 1 << 62  # beyond every row number


def bind(condition: Condition, fields: PartFields) -> BoundCondition:
    """The condition on the part that ``fields`` reads."""
    if isinstance(condition, tree.Joined):
        if condition.word == "or":
            return any_of(condition, tuple(bind(inner, fields) for inner in condition.conditions))
        if any(_is_elsewhere(inner, fields) for inner in condition.conditions):
            return fixed(condition, fields, False)
        return every(condition, tuple(bind(inner, fields) for inner in condition.conditions))
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
    if leaf.field.type == WORDS:
        return _of_words(leaf, fields)
    vector = fields.columns.values(leaf.field.ordinal)
    return in_ranges(leaf, leaf.field, fields, vector, [(leaf.low, leaf.high)], leaf.negated, "values")


def _row_range(leaf: tree.Range, fields: PartFields) -> BoundCondition:
    low, high = max(int(leaf.low) - fields.base, -FAR), min(int(leaf.high) - fields.base, FAR)
    rows = fields.rows
    first = np.arange(zones_module.zone_count(rows), dtype=np.int64) * zones_module.ZONE
    last = np.minimum(first + zones_module.ZONE, rows) - 1
    inside, outside = (first >= low) & (last <= high), (last < low) | (first > high)
    states = zones_module.unknown(rows)
    states[outside if leaf.negated else inside] = zones_module.ALL
    states[inside if leaf.negated else outside] = zones_module.NONE

    def test(at: RowsAt) -> Mask:
        numbers = at.numbers()
        inside = (numbers >= low) & (numbers <= high)
        return ~inside if leaf.negated else inside

    step = Step(ROWS, SET, 0, leaf.negated, low=low, high=high)
    return BoundCondition("row numbers", leaf, states, test, [step])


def _of_words(leaf: tree.Range | tree.OneOf, fields: PartFields) -> BoundCondition:
    """A condition on decimals of two words, of which there are no zones: every row that is left open is read."""
    states = zones_module.unknown(fields.rows)
    return BoundCondition("words", leaf, states, lambda at: compute.of_words(leaf, fields, at))


def _one_of(leaf: tree.OneOf, fields: PartFields) -> BoundCondition:
    if not leaf.values:
        return present(leaf, leaf.field, fields, True) if leaf.negated else fixed(leaf, fields, False)
    if leaf.field.ordinal == PART:
        return fixed(leaf, fields, (fields.part in leaf.values) != leaf.negated)
    if leaf.field.ordinal == ROW:
        return _row_list(leaf, fields)
    if leaf.field.type == WORDS:
        return _of_words(leaf, fields)
    vector = fields.columns.values(leaf.field.ordinal)
    ranges = [(value, value) for value in leaf.values]
    if len(ranges) <= (1 if leaf.negated else MAX_RANGES):
        return in_ranges(leaf, leaf.field, fields, vector, ranges, leaf.negated, "values")
    rows = fields.rows
    wanted = np.array(leaf.values, vector.dtype)

    def test(at: RowsAt) -> Mask:
        mask = np.isin(at.read(vector), wanted, invert=leaf.negated)
        valid = fields.valid(leaf.field, at)
        return mask if valid is None else mask & valid

    zones = zones_module.fitting(fields.columns.zones(leaf.field.ordinal), rows)
    states = (
        zones_module.unknown(rows) if zones is None else zones_module.of_list(zones, wanted, leaf.negated)
    )
    search = () if leaf.negated else ranges
    return BoundCondition("list", leaf, states, test, search=search, column=leaf.field.ordinal)


def _row_list(leaf: tree.OneOf, fields: PartFields) -> BoundCondition:
    wanted = np.array(leaf.values, np.int64) - fields.base
    rows = fields.rows
    states = zones_module.unknown(rows)
    inside = wanted[(wanted >= 0) & (wanted < rows)]
    touched = np.zeros(len(states), np.bool_)
    touched[inside // zones_module.ZONE] = True
    states[~touched] = zones_module.ALL if leaf.negated else zones_module.NONE
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

    states = zones_module.states_of(leaf, fields)
    found = number_test(leaf, fields) if states.any() else None
    if found is None:
        return BoundCondition("computed", leaf, states, test)
    return BoundCondition("computed", leaf, states, test, *found)
