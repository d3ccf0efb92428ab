"""Binds a test of strings to one part: to ranges of codes where there is a dictionary, to the strings where not."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..columns.flat import Dictionary, Strings
from . import zone_states
from .bound_condition import MAX_RANGES, BoundCondition, Ranges, fixed, in_ranges, needed_validity
from .kernels import AND, BITS, SET, TABLE, Step, match_strings
from .part_fields import Mask, PartFields, RowsAt
from .text_tests import AnyOf, Between, TextTest
from .tree import CompareText, Text

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
    zones = zone_states.fitting(fields.columns.zones(leaf.field.ordinal), rows)
    validity = needed_validity(leaf.field, fields, zones)

    def test(at: RowsAt) -> Mask:
        mask = table.take(at.read(codes), mode="clip").view(np.bool_)
        return mask if validity is None else mask & at.bits(validity)

    states = zone_states.unknown(rows) if zones is None else zone_states.of_table(zones, table)
    bits = () if validity is None else (validity,)
    steps = [Step(TABLE, SET, 0, data=codes.array, table=table)]
    steps += [Step(BITS, AND, 0, data=vector.array) for vector in bits]
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
            mask = match_strings(offsets, strings.data.array, leaf.test).view(np.bool_)
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

    return BoundCondition("strings", leaf, zone_states.unknown(rows), test)


def compare_text(leaf: CompareText, fields: PartFields, at: RowsAt) -> Mask:
    """Where two string columns compare so."""
    pairs = zip(fields.strings(leaf.left, at), fields.strings(leaf.right, at), strict=True)
    if leaf.operator == "==":
        found = [a == b for a, b in pairs]
    else:
        found = [a < b if leaf.operator == "<" else a <= b for a, b in pairs]
    mask: Mask = np.array(found, np.bool_) != leaf.negated
    for side in (leaf.left, leaf.right):
        valid = fields.valid(side, at)
        mask = mask if valid is None else mask & valid
    return mask
