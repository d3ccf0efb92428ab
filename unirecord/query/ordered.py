"""Rows in the order of a scalar column; strings by numbers that sort like them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..order.selection import Selection
from ..snapshot.part_set import PartSet
from .columns import Strings, all_valid, columns_of, scalar_arrays

__all__ = [
    "TextRanks",
    "rows_in_order",
    "text_ranks",
]


# Numbers that sort like strings: millions of them are compared seven bytes at a time, all at once.


_STEP = 7  # bytes in a key; its lowest byte says how many of them the string has
_MORE = _STEP + 1  # there: all of them, and further ones
_FEW = 2_000  # strings whose order is left to Python
_DEEP = 64  # so many times seven bytes are compared, and Python compares the rest
_SCATTERED = 8  # of as many strings fewer than one is wanted: they are read one by one

_Ints = NDArray[np.int64]
_Piece = tuple[NDArray[np.uint8], _Ints, _Ints]  # bytes, and where strings start and stop in them


def text_ranks(parts: PartSet, ordinal: int, rows: _Ints | None = None) -> _Ints:
    """For each of the rows (None: all; ascending) the rank of its string among theirs; anything where null."""
    texts, base = TextRanks(), 0
    found: list[
        tuple[slice, NDArray[Any] | None]
    ] = []  # where strings lie in `texts`, and codes of rows for them
    for columns in columns_of(parts):
        start, stop, chosen = 0, columns.rows, None
        if rows is not None:
            first, last = np.searchsorted(rows, [base, base + columns.rows]).tolist()
            chosen = rows[first:last] - base
        base += columns.rows
        dictionary = columns.dictionary(ordinal)
        if dictionary is None:
            found.append((texts.add(columns.strings(ordinal), start, stop, chosen), None))
        else:
            codes = dictionary.codes.whole() if chosen is None else dictionary.codes.at(chosen)
            found.append((texts.add(dictionary.entries, 0, len(dictionary.entries)), codes))
    ranks = texts.ranks()
    return np.concatenate([np.zeros(0, np.int64), *(_of_rows(ranks[at], codes) for at, codes in found)])


def _of_rows(ranks: _Ints, codes: NDArray[Any] | None) -> _Ints:
    if codes is None:
        return ranks
    return ranks.take(codes, mode="clip") if len(ranks) else np.zeros(len(codes), np.int64)


class TextRanks:
    """Strings of one column, wherever they are, and the rank of each among all of them."""

    def __init__(self) -> None:
        self._pieces: list[_Piece] = []
        self._many = 0

    def add(self, strings: Strings, start: int, stop: int, rows: _Ints | None = None) -> slice:
        """Strings [start, stop), or those of ``rows`` among them, come next; returns their places in `ranks`."""
        if rows is not None and len(rows) * _SCATTERED < len(strings):
            found = [strings[row] for row in rows.tolist()]
            data = np.frombuffer(b"".join(found), np.uint8)
            stops = np.cumsum(np.fromiter(map(len, found), np.int64, len(found)))
            starts = np.concatenate([np.zeros(1, np.int64), stops])[:-1]
        else:
            data = strings.data.flat
            offsets = np.minimum(strings.offsets.span(start, stop + 1), len(data)).astype(np.int64)
            strings.data.check(*offsets[[0, -1]].tolist())
            chosen = slice(None) if rows is None else rows - start
            starts, stops = offsets[:-1][chosen], offsets[1:][chosen]
        self._pieces.append((data, starts, np.maximum(starts, stops)))
        self._many += len(starts)
        return slice(self._many - len(starts), self._many)

    def ranks(self) -> _Ints:
        """For each string, in the order in which they were added: equal for equal strings, less for lesser ones."""
        lengths = [len(starts) for _, starts, _ in self._pieces]
        where = np.repeat(np.arange(len(lengths)), np.array(lengths, np.int64))  # number of its piece
        starts, stops = (
            np.concatenate([np.zeros(0, np.int64), *(piece[end] for piece in self._pieces)]) for end in (1, 2)
        )
        ranks = np.zeros(len(where), np.int64)
        tied = np.arange(len(where))  # strings that share a rank, and may differ beyond what was compared
        skip = self._common()
        deepest = skip + _DEEP * _STEP
        while len(tied) > _FEW and skip < deepest:
            keys = np.zeros(len(tied), np.uint64)
            for data, places in self._by_piece(where[tied]):
                keys[places] = _keys(data, starts[tied[places]] + skip, stops[tied[places]])
            tied = _part(ranks, tied, keys)
            skip += _STEP
        texts: dict[bytes, bytes] = {}  # of many that are equal one is kept
        found = [b""] * len(tied)
        for data, places in self._by_piece(where[tied]):
            for place in np.arange(len(tied))[places].tolist():
                text = data[starts[tied[place]] + skip : stops[tied[place]]].tobytes()
                found[place] = texts.setdefault(text, text)
        order = {
            text: number << 8 for number, text in enumerate(sorted(texts))
        }  # as keys: none has further bytes
        _part(ranks, tied, np.array([order[text] for text in found], np.uint64))
        return ranks

    def _common(self) -> int:
        """How many first bytes all strings share, as far as it is looked at."""
        pieces = [piece for piece in self._pieces if len(piece[1])]
        most = min([_DEEP * _STEP, *(int((stops - starts).min()) for _, starts, stops in pieces)])
        for byte in range(most if pieces else 0):
            found = [data[starts + byte] for data, starts, _ in pieces]
            if any((some != found[0][0]).any() for some in found):
                return byte
        return most if pieces else 0

    def _by_piece(self, where: _Ints) -> Iterator[tuple[NDArray[np.uint8], Any]]:
        """The bytes of each piece, and the places of its strings among these, of which ``where`` says the pieces."""
        if len(self._pieces) == 1:
            yield self._pieces[0][0], slice(None)
            return
        places = np.argsort(where, kind="stable")
        edges = np.searchsorted(where[places], np.arange(len(self._pieces) + 1)).tolist()
        for (data, _, _), (start, stop) in zip(self._pieces, pairwise(edges), strict=True):
            if start < stop:
                yield data, places[start:stop]


def _keys(data: NDArray[np.uint8], starts: _Ints, stops: _Ints) -> NDArray[np.uint64]:
    """Seven bytes of each string, zeros where it ends, and how many of them it has: they sort like the strings."""
    left = np.clip(stops - starts, 0, _MORE)
    keys = np.zeros(len(starts), np.uint64)
    for byte in range(_STEP if len(data) else 0):
        found = data.take(starts + byte, mode="clip")
        found[left <= byte] = 0
        keys |= found.astype(np.uint64) << np.uint64(8 * (_STEP - byte))
    keys |= left.astype(np.uint64)
    return keys


def _part(ranks: _Ints, tied: _Ints, keys: NDArray[np.uint64]) -> _Ints:
    """Gives strings of one rank whose keys differ ranks of their own; which are tied still, and have more bytes."""
    if not len(tied):
        return tied
    groups = ranks[tied]
    if keys.min() == keys.max():
        order = np.arange(len(tied))
    elif groups.min() == groups.max():
        order = np.argsort(keys)
    else:
        order = np.lexsort((keys, groups))
    tied, keys, groups = tied[order], keys[order], groups[order]
    fresh = np.concatenate([[True], groups[1:] != groups[:-1]])
    parted = fresh.copy()
    parted[1:] |= keys[1:] != keys[:-1]
    firsts = np.flatnonzero(parted)
    sizes = np.diff(firsts, append=len(tied))
    of_group = np.maximum.accumulate(np.where(fresh, np.arange(len(tied)), 0))[firsts]
    ranks[tied] = np.repeat(groups[firsts] + firsts - of_group, sizes)
    more = (sizes > 1) & ((keys[firsts] & np.uint64(0xFF)) == _MORE)
    left: _Ints = tied[np.repeat(more, sizes)]
    return left


# Rows in the order of a scalar column.


Rows = NDArray[np.int64]


def rows_in_order(
    parts: PartSet, name: str, *, descending: bool = False, cluster: bool = False, among: Rows | None = None
) -> Rows:
    """The rows (all, or ``among`` them, ascending) by a column; NaN after all numbers, null after those, equals as are.

    ``cluster``: equal values side by side, and values in the order in which they first come. Memory: 8 bytes a row, and
    for a moment 16 more and the values. SchemaError for a column that is not scalar.
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
    if parts.schema[ordinal].is_string:
        ranks = text_ranks(parts, ordinal, among)
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
