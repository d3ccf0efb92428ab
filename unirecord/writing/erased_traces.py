"""Traces of rows that are to be erased: short runs of their bytes, looked for in every file that is left."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..format.page import cell_lengths, padded
from ..parts.data_file import DataFile, DataHead, RowGroup
from ..parts.dataset_path import resolve
from ..parts.manifest import PartEntry
from ..parts.part_set import PartSet
from ..storage.registry import location_of
from .verified_rows import row_ends

__all__ = ["Dictionaries", "Traces", "dictionaries_of", "trace_rows"]

_RUN: Final = 32  # bytes of a value that are looked for
_WORD: Final = 8  # the fewest: what is shorter is found everywhere by chance
_DISTINCT: Final = 4  # bytes in a word; what repeats itself is found everywhere too
_BLOCK: Final = 16 << 20
_TABLE_BITS: Final = 22
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_SHIFT: Final = np.uint64(64 - _TABLE_BITS)

Numbers = NDArray[np.int64]
Words = NDArray[np.uint64]


class _WordSet:
    """Words of 8 bytes, told where they stand in memory, at any offset."""

    def __init__(self, words: Words) -> None:
        self.words = np.unique(words)
        self._table = np.zeros(1 << _TABLE_BITS, bool)
        self._table[_place(self.words)] = True

    def found_in(self, data: bytes | memoryview) -> Iterator[tuple[Numbers, Numbers]]:
        """Offsets in ``data``, and which of the words stands there."""
        for offset in range(min(_WORD, len(data))):
            words = np.frombuffer(data, "<u8", (len(data) - offset) // _WORD, offset)
            places = np.flatnonzero(self._table[_place(words)])
            numbers = np.searchsorted(self.words, words[places])
            numbers[numbers == len(self.words)] = 0
            same = self.words[numbers] == words[places] if len(self.words) else np.zeros(0, bool)
            if same.any():
                yield places[same] * _WORD + offset, numbers[same]


def _place(words: Words) -> Words:
    return (words * _SPREAD) >> _SHIFT


class Traces:
    """Runs of bytes of values, and digests; about 150 bytes of memory for each.

    Attributes:
        looked_for: how many there are.
        too_plain: values too short or too even to be told from chance, which are not looked for.
        unread: rows whose values could not be read, since they are damaged; their digests are looked for.
    """

    def __init__(self) -> None:
        self.too_plain: int = 0
        self.unread = 0
        self._runs: dict[int, list[tuple[bytes, int]]] = {}  # by the word at an offset in it
        self._all: set[bytes] = set()

    @property
    def looked_for(self) -> int:
        return len(self._all)

    def add(self, value: bytes) -> None:
        """Remembers the most telling of some places of a value."""
        last = len(value) - _WORD
        if last < 0:
            self.too_plain += bool(value)
            return
        distinct, at = max((len(set(value[at : at + _WORD])), at) for at in {last * i // 8 for i in range(9)})
        if distinct < _DISTINCT:
            self.too_plain += 1
            return
        start = max(min(at - (_RUN - _WORD) // 2, len(value) - _RUN), 0)
        self._add(value[start : start + _RUN], at - start)

    def add_digest(self, digest: int) -> None:
        """Remembers the digest of a row."""
        self._add(digest.to_bytes(8, "little"), 0)

    def _add(self, run: bytes, at: int) -> None:
        if run not in self._all:
            self._all.add(run)
            word = int.from_bytes(run[at : at + _WORD], "little")
            self._runs.setdefault(word, []).append((run, at))

    def found_in(self, path: str) -> int:
        """How many of them stand in a file."""
        words = _WordSet(np.fromiter(self._runs, np.uint64, len(self._runs)))
        runs = [self._runs[int(word)] for word in words.words]
        left = np.ones(len(runs), bool)  # whose runs have not all been found
        found: set[bytes] = set()
        with location_of(path).open(path) as file:
            for start in range(0, max(file.size, 1), _BLOCK):
                begin = max(start - _RUN, 0)
                data = file.read_at(begin, start + _BLOCK + _RUN - begin)
                for places, numbers in words.found_in(data):
                    wanted = left[numbers]
                    for place, number in zip(places[wanted].tolist(), numbers[wanted].tolist(), strict=True):
                        if left[number]:
                            here = {run for run, at in runs[number] if _stands(data, run, place - at)}
                            found |= here
                            left[number] = not all(run in found for run, _ in runs[number])
        return len(found)


def _stands(data: bytes, run: bytes, at: int) -> bool:
    return at >= 0 and data[at : at + len(run)] == run


class Dictionaries:
    """The compression dictionaries of parts, and which of them share 8 bytes in a row with a value."""

    def __init__(self, contents: Iterable[tuple[str, bytes]]) -> None:
        """``contents``: names of parts, each with one of its dictionaries."""
        self._parts: dict[bytes, set[str]] = {}
        for name, content in contents:
            self._parts.setdefault(content, set()).add(name)
        each = [_windows(content) for content in self._parts]
        self._words = _WordSet(np.concatenate([np.empty(0, np.uint64), *each]))
        self._owners = [np.isin(self._words.words, windows) for windows in each]
        self.concerned: set[str] = set()

    def look_at(self, values: bytes) -> None:
        """Adds to ``concerned`` the names of parts that have such a dictionary."""
        if not self._parts:
            return
        for _, numbers in self._words.found_in(values):
            for owned, names in zip(self._owners, self._parts.values(), strict=True):
                if not names <= self.concerned and owned[numbers].any():
                    self.concerned |= names


def _windows(content: bytes) -> Words:
    each = [
        np.frombuffer(content, "<u8", (len(content) - at) // _WORD, at)
        for at in range(_WORD)
        if len(content) - at >= _WORD
    ]
    return np.concatenate([np.empty(0, np.uint64), *each])


def dictionaries_of(path: str, name: str) -> list[tuple[str, bytes]]:
    """The dictionaries of a part, each with its name."""
    with DataFile(path) as data:
        return [(name, page.content) for page in data.dictionaries(data.head())]


def trace_rows(
    folder: str, entry: PartEntry, rows: Numbers, traces: Traces, dictionaries: Dictionaries
) -> None:
    """Remembers rows of a part: their values, the bytes that they are stored as, and their digests."""
    path = os.path.join(folder, entry.name)
    _trace_stored(path, rows, traces)
    parts = PartSet(resolve(path))
    try:
        columns = [i for i, column in enumerate(parts.schema) if column.is_blob or column.is_string]
        step = min(max(int(_BLOCK / max(parts.mean_row_bytes(), 1.0)), 1), 1 << 16)
        for first in range(0, len(rows), step):
            _trace_values(parts, rows[first : first + step], columns, traces, dictionaries)
    finally:
        parts.close()


def _trace_values(
    parts: PartSet, rows: Numbers, columns: Sequence[int], traces: Traces, dictionaries: Dictionaries
) -> None:
    try:
        found = parts.read(rows, columns)
    except CorruptionError:
        if len(rows) == 1:
            traces.unread += 1
            return
        half = len(rows) // 2
        for some in (rows[:half], rows[half:]):
            _trace_values(parts, some, columns, traces, dictionaries)
        return
    for column in found:
        values = _values(column.data, column.offsets)
        for value in values:
            traces.add(value)
        dictionaries.look_at(b"".join(values))


def _values(data: NDArray[Any], offsets: Numbers | None) -> list[bytes]:
    if offsets is None:
        return [one.tobytes() for one in data]
    whole = data.tobytes()
    return [whole[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def _trace_stored(path: str, rows: Numbers, traces: Traces) -> None:
    with DataFile(path) as data:
        head = data.head()
        if not head.schema.blobs:
            return
        for group in data.groups(head):
            here = rows[(rows >= group.first_row) & (rows < group.first_row + group.page.rows)]
            if len(here):
                _trace_group(data, head, group, (here - group.first_row).tolist(), traces)


def _trace_group(
    data: DataFile, head: DataHead, group: RowGroup, rows: Sequence[int], traces: Traces
) -> None:
    shape, blobs = head.header.shape, head.schema.blobs
    compressed = [i for i, (_, column) in enumerate(blobs) if column.codec is not None]
    sizes = np.stack(cell_lengths(head.schema, group.page.rows, group.page.lengths), axis=1)
    room, ends = padded(sizes, shape), row_ends(data, head, group)
    for row in rows:
        if shape.unit_rows:
            traces.add_digest(int(group.page.digests[row // shape.unit_rows]))
        else:
            for digest in group.page.digests[row * len(blobs) : (row + 1) * len(blobs)]:
                traces.add_digest(int(digest))
        for i in compressed:
            start = group.blob_payload + int(ends[row]) + int(room[row, :i].sum())
            traces.add(data.read(start, int(sizes[row, i])))
