"""Rows in the order of a column; strings and decimals of two words by numbers that sort like them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import StringPiece, ranks_of_strings
from ..order.selection import Selection
from ..snapshot.part_set import PartSet
from .columns import FlatColumns, Strings, all_valid, columns_of, distinct_words, part_fields, scalar_arrays

__all__ = [
    "rows_in_order",
    "ranks_of",
    "text_piece",
]


# Numbers that sort like strings and decimals of two words.


_SCATTERED = 8  # of as many strings fewer than one is wanted: they are read one by one

_Ints = NDArray[np.int64]


def ranks_of(parts: PartSet, ordinal: int, rows: _Ints | None = None) -> _Ints | None:
    """For each of the rows (None: all; ascending) the rank of its value among theirs; anything where null.

    None where values are numbers that numpy sorts, or have no order.
    """
    column = parts.schema[ordinal]
    if column.is_wide_decimal:
        return _word_ranks(parts, ordinal, rows)
    return _text_ranks(parts, ordinal, rows) if column.is_string else None


def _word_ranks(parts: PartSet, ordinal: int, rows: _Ints | None) -> _Ints:
    pieces = []
    for columns, chosen in _in_parts(parts, rows):
        pieces.append(columns.words(ordinal, np.arange(columns.rows) if chosen is None else chosen))
    low, high = np.concatenate([np.zeros((0, 2), np.int64), *pieces]).T
    return distinct_words(low.view(np.uint64), high)[1]


def _in_parts(parts: PartSet, rows: _Ints | None) -> Iterator[tuple[FlatColumns, _Ints | None]]:
    """The columns of each part, and which rows of it these are; None for all."""
    for fields in part_fields(parts):
        columns, base, chosen = fields.columns, fields.base, None
        if rows is not None:
            first, last = np.searchsorted(rows, [base, base + columns.rows]).tolist()
            chosen = rows[first:last] - base
        yield columns, chosen


def _text_ranks(parts: PartSet, ordinal: int, rows: _Ints | None) -> _Ints:
    pieces: list[StringPiece] = []
    codes: list[NDArray[Any] | None] = []  # of the rows for the strings of a piece; None: these are the rows'
    for columns, chosen in _in_parts(parts, rows):
        dictionary = columns.dictionary(ordinal)
        if dictionary is None:
            pieces.append(text_piece(columns.strings(ordinal), 0, columns.rows, chosen))
            codes.append(None)
        else:
            pieces.append(text_piece(dictionary.entries, 0, len(dictionary.entries)))
            codes.append(dictionary.codes.whole() if chosen is None else dictionary.codes.at(chosen))
    stops = np.cumsum([len(starts) for _, starts, _ in pieces])[:-1]
    ranks = np.split(ranks_of_strings(pieces), stops) if pieces else []
    return np.concatenate([np.zeros(0, np.int64), *map(_of_rows, ranks, codes)])


def _of_rows(ranks: _Ints, codes: NDArray[Any] | None) -> _Ints:
    if codes is None:
        return ranks
    return ranks.take(codes, mode="clip") if len(ranks) else np.zeros(len(codes), np.int64)


def text_piece(strings: Strings, start: int, stop: int, rows: _Ints | None = None) -> StringPiece:
    """Strings [start, stop), or those of ``rows`` among them, none of which leads out of the bytes."""
    if rows is not None and len(rows) * _SCATTERED < len(strings):
        found = [strings[row] for row in rows.tolist()]
        ends = np.concatenate([[0], np.cumsum(np.fromiter(map(len, found), np.int64, len(found)))])
        return np.frombuffer(b"".join(found), np.uint8), ends[:-1], ends[1:]
    data = strings.data.flat
    offsets = np.minimum(strings.offsets.span(start, stop + 1), len(data)).astype(np.int64)
    strings.data.check(*offsets[[0, -1]].tolist())
    chosen = slice(None) if rows is None else rows - start
    starts, stops = offsets[:-1][chosen], offsets[1:][chosen]
    return data, starts, np.maximum(starts, stops)


# Rows in the order of a column.


Rows = NDArray[np.int64]


def rows_in_order(
    parts: PartSet, name: str, *, descending: bool = False, cluster: bool = False, among: Rows | None = None
) -> Rows:
    """The rows (all, or ``among`` them, ascending) by a column; NaN after all numbers, null after those, equals as are.

    ``cluster``: equal values side by side, and values in the order in which they first come. Memory: 8 bytes a row, and
    for a moment 16 more and the values. SchemaError for a column that has no order.
    """
    plain, null = _values(parts, name, among)
    nan = ~null & (plain != plain)
    order = [
        _sorted(plain, np.flatnonzero(~null & ~nan), descending=descending),
        np.flatnonzero(nan),
        np.flatnonzero(null),
    ]
    if cluster:
        firsts = np.concatenate(
            [_first_of_equal(plain, order[0]), *(_first_of_all(some) for some in order[1:])]
        )
        places = np.concatenate(order)[np.argsort(firsts, kind="stable")]
    else:
        places = np.concatenate(order)
    found: Rows = places.astype(np.int64, copy=False) if among is None else among[places]
    return found


def _values(parts: PartSet, name: str, among: Rows | None) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Numbers that sort like the values, and which are null."""
    ordinal = parts.schema.ordinal(name)
    ranks = ranks_of(parts, ordinal, among)
    if ranks is not None:
        null = [
            np.zeros(columns.rows, np.bool_) if (valid := all_valid(columns, ordinal)) is None else ~valid
            for columns in columns_of(parts)
        ]
        every = np.concatenate([np.zeros(0, np.bool_), *null])
        return ranks, every if among is None else every[among]
    values = scalar_arrays(parts, [name], Selection(parts.rows, array=among))[name]
    if isinstance(values, np.ma.MaskedArray):
        return values.data, np.ma.getmaskarray(values)
    return values, np.zeros(len(values), np.bool_)


def _sorted(values: NDArray[Any], places: Rows, *, descending: bool) -> Rows:
    if not descending:
        return places[np.argsort(values[places], kind="stable")]
    back = places[::-1]  # so that equal ones are as they were when it is turned round
    return back[np.argsort(values[back], kind="stable")][::-1]


def _first_of_equal(values: NDArray[Any], order: Rows) -> Rows:
    """For each of the places, where equal ones lie side by side, the first of those."""
    if not len(order):
        return order
    ordered = values[order]
    starts = np.concatenate([[0], np.flatnonzero(ordered[1:] != ordered[:-1]) + 1])
    return np.repeat(order[starts], np.diff(np.append(starts, len(order))))


def _first_of_all(places: Rows) -> Rows:
    return np.full(len(places), places[0] if len(places) else 0, np.int64)
