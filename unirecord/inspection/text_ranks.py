"""Numbers that sort like strings: millions of them are compared seven bytes at a time, all at once."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns.flat import Strings
from ..query.part_fields import RowsAt

_STEP = 7  # bytes in a key; its lowest byte says how many of them the string has
_MORE = _STEP + 1  # there: all of them, and further ones
_FEW = 2_000  # strings whose order is left to Python
_DEEP = 64  # so many times seven bytes are compared, and Python compares the rest
_SCATTERED = 8  # of as many strings fewer than one is wanted: they are read one by one

_Ints = NDArray[np.int64]


class TextRanks:
    """Strings of one column, wherever they are, and the rank of each among all of them."""

    def __init__(self) -> None:
        self._data: list[NDArray[np.uint8]] = []
        self._pieces: list[
            tuple[int, _Ints, _Ints]
        ] = []  # number in `_data`, and where each string lies there

    def add(self, strings: Strings, at: RowsAt) -> None:
        """These strings come next."""
        if at.rows is not None and len(at.rows) * _SCATTERED < len(strings):
            found = [strings[row] for row in at.rows.tolist()]
            data = np.frombuffer(b"".join(found), np.uint8)
            stops = np.cumsum(np.fromiter(map(len, found), np.int64, len(found)))
            starts = np.concatenate([np.zeros(1, np.int64), stops])[:-1]
        else:
            data = strings.data.array
            offsets = np.minimum(strings.offsets.span(at.start, at.stop + 1), len(data)).astype(np.int64)
            strings.data.check(*offsets[[0, -1]].tolist())
            chosen = slice(None) if at.rows is None else at.rows - at.start
            starts, stops = offsets[:-1][chosen], offsets[1:][chosen]
        if not self._data or self._data[-1] is not data:
            self._data.append(data)
        self._pieces.append((len(self._data) - 1, starts, np.maximum(starts, stops)))

    def ranks(self) -> _Ints:
        """For each string, in the order in which they were added: equal for equal strings, less for lesser ones."""
        where = np.concatenate(
            [np.zeros(0, np.int64), *(np.full(len(starts), data) for data, starts, _ in self._pieces)]
        )
        starts, stops = (
            np.concatenate([np.zeros(0, np.int64), *(piece[end] for piece in self._pieces)]) for end in (1, 2)
        )
        ranks = np.zeros(len(where), np.int64)
        tied = np.arange(len(where))  # strings that share a rank, and may differ beyond what was compared
        skip = 0
        while len(tied) > _FEW and skip < _DEEP * _STEP:
            keys = np.zeros(len(tied), np.uint64)
            for data, places in self._by_data(where[tied]):
                keys[places] = _keys(data, starts[tied[places]] + skip, stops[tied[places]])
            tied = _part(ranks, tied, keys)
            skip += _STEP
        keys = np.zeros(len(tied), np.uint64)
        texts: dict[bytes, bytes] = {}  # of many that are equal one is kept
        found = [b""] * len(tied)
        for data, places in self._by_data(where[tied]):
            for place in np.arange(len(tied))[places].tolist():
                text = data[starts[tied[place]] + skip : stops[tied[place]]].tobytes()
                found[place] = texts.setdefault(text, text)
        order = {text: number << 8 for number, text in enumerate(sorted(texts))}
        keys[:] = [order[text] for text in found]
        _part(ranks, tied, keys)
        return ranks

    def _by_data(self, where: _Ints) -> Iterator[tuple[NDArray[np.uint8], Any]]:
        """The bytes that strings with these numbers of theirs lie in, each with the places of its strings."""
        if len(self._data) == 1:
            yield self._data[0], slice(None)
            return
        places = np.argsort(where, kind="stable")
        edges = np.searchsorted(where[places], np.arange(len(self._data) + 1)).tolist()
        for data, (start, stop) in zip(self._data, pairwise(edges), strict=True):
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
