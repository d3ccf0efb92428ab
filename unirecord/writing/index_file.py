"""Builds the index of a part from its data file alone, in two passes over the scalar pages and bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import DistinctStrings, digest_ranges, extreme_strings, order_of_strings, take_strings
from ..errors import CorruptionError
from ..format import layout, metadata
from ..format.chunks import chunk_counts, chunk_ends, chunked_blobs, stored_shape_of_chunks
from ..format.column import Column
from ..format.layout import IndexHeader, Section
from ..format.look_up import LEAST_ROWS, entries_of, in_order
from ..format.packing import (
    Packer,
    code_packing,
    from_keys,
    packing_of,
    read_numbers,
    section_bytes,
    span_of,
    to_keys,
)
from ..format.page import cell_lengths, row_sizes, unit_count, values_sizes
from ..format.sketches import Hashes, Sketch, estimated, hashes_of, hashes_of_numbers
from ..sizes import many
from ..snapshot.data_file import Block, BlockColumn, DataFile, DataHead, RowGroup, blocks
from ..storage.staged import StagedFile

# What the index holds of the validity of a column: packed bits, and how many values are null.


Array = npt.NDArray[Any]


class ValidityBits:
    """Packs validity to bits across blocks."""

    def __init__(self) -> None:
        self._carry = np.zeros(0, bool)

    def push(self, valid: npt.NDArray[np.bool_], last: bool) -> Array:
        bits = np.concatenate([self._carry, valid])
        whole = len(bits) if last else len(bits) // 8 * 8
        self._carry = bits[whole:]
        return np.packbits(bits[:whole], bitorder="little")


class BlobValidity:
    """A nullable blob column, of which the index holds the validity alone."""

    def __init__(self) -> None:
        self._bits = ValidityBits()
        self._nulls = 0

    def observe(self, valid: npt.NDArray[np.bool_]) -> None:
        self._nulls += int(len(valid) - np.count_nonzero(valid))

    def sections(self, rows: int) -> dict[int, tuple[int, ...]]:
        return {layout.SECTION_VALIDITY: (1, -(-rows // 8), 0)}

    def packed(self, valid: npt.NDArray[np.bool_], last: bool) -> Array:
        """The bytes that a block adds to the section."""
        return self._bits.push(valid, last)

    def statistics(self) -> dict[str, Any]:
        return {"nulls": self._nulls}


# The sorted rows of a column: row numbers by value and then by row, in bounded memory however many rows there are.


MAX_SORTED = 1 << 24  # rows sorted at once
_CHUNK = 1 << 22
_SAMPLE = 4_096
ReadValues = Callable[[int, int], Array]  # rows [start, stop) -> sortable keys
ReadValid = Callable[[int, int], "npt.NDArray[np.bool_] | None"]
Refine = Callable[
    [Array], Array
]  # rows whose keys are equal, ascending -> the same rows in their final order


def sorted_rows(
    rows: int, values: ReadValues, valid: ReadValid, refine: Refine | None = None, limit: int = MAX_SORTED
) -> Iterator[Array]:
    """Row numbers in order, a run at a time: by value, equal values by row (or by ``refine``), then NaN, then nulls."""
    yield from _Sorter(rows, values, valid, refine, limit).run()


class _Sorter:
    def __init__(
        self, rows: int, values: ReadValues, valid: ReadValid, refine: Refine | None, limit: int
    ) -> None:
        self.rows, self.values, self.valid, self.refine, self.limit = rows, values, valid, refine, limit

    def run(self) -> Iterator[Array]:
        yield from self._between(None, None)
        yield from self._select(
            lambda keys, valid: np.isnan(keys) & valid if keys.dtype.kind == "f" else None
        )
        yield from self._select(lambda keys, valid: ~valid)

    def _chunks(self) -> Iterator[tuple[int, Array, npt.NDArray[np.bool_]]]:
        for start in range(0, self.rows, _CHUNK):
            stop = min(start + _CHUNK, self.rows)
            valid = self.valid(start, stop)
            yield start, self.values(start, stop), np.ones(stop - start, bool) if valid is None else valid

    def _select(self, choose: Callable[[Array, Array], Array | None]) -> Iterator[Array]:
        for start, keys, valid in self._chunks():
            chosen = choose(keys, valid)
            if chosen is None:
                return
            found = np.flatnonzero(chosen)
            if len(found):
                yield found + start

    def _equal(self, key: Any) -> Iterator[Array]:
        runs = self._select(lambda keys, valid: (keys == key) & valid)
        if self.refine is None:
            yield from runs
        else:
            yield self.refine(np.concatenate(list(runs)))

    def _between(self, low: Any, high: Any) -> Iterator[Array]:
        """Rows whose key lies strictly between two keys (None: unbounded)."""
        kept: list[tuple[Array, Array]] = []
        count = 0
        sample: list[Array] = []
        for start, keys, valid in self._chunks():
            chosen = valid.copy()
            if keys.dtype.kind == "f":
                chosen &= ~np.isnan(keys)
            if low is not None:
                chosen &= keys > low
            if high is not None:
                chosen &= keys < high
            found = np.flatnonzero(chosen)
            count += len(found)
            if not len(found):
                continue
            inside = keys[found]
            sample.append(inside[:: max(1, len(inside) // _SAMPLE)])
            if count <= self.limit:
                kept.append((inside, found + start))
            else:
                kept = []
        if not count:
            return
        if count <= self.limit:
            yield self._sort(kept)
            return
        yield from self._divide(low, high, count, np.sort(np.concatenate(sample)))

    def _divide(self, low: Any, high: Any, count: int, sample: Array) -> Iterator[Array]:
        buckets = 2 * count // self.limit + 2
        splitters = np.unique(sample[np.linspace(0, len(sample) - 1, buckets + 1).astype(int)[1:-1]])
        for splitter in splitters:
            yield from self._between(low, splitter)
            yield from self._equal(splitter)
            low = splitter
        yield from self._between(low, high)

    def _sort(self, kept: list[tuple[Array, Array]]) -> Array:
        keys = np.concatenate([k for k, _ in kept])
        rows = np.concatenate([r for _, r in kept])
        order = np.argsort(keys, kind="stable")
        rows = rows[order]
        if self.refine is not None:
            keys = keys[order]
            edges = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1], [True]]))
            for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                if stop - start > 1:
                    rows[start:stop] = self.refine(rows[start:stop])
        return rows


# What the index holds of one scalar column: statistics, values or dictionary codes, validity, zones.


MAX_DISTINCT = 1 << 20
MOST_WAITING = 1 << 15  # values of a column that wait until they are counted, where few are known
MAX_DICTIONARY_BYTES = 64 << 20
SMALL_ROWS = 65_536  # a dictionary pays from here on only when strings repeat
MAX_NUMBERS = 1 << 22  # of a column's rows, that stay in memory from the first pass to the second
MAX_SHOWN_BYTES = 256  # longer strings are left out of the statistics


# Takes the elements of a section in order.
Sink = Callable[[int, Array | bytes], None]


Sections = dict[
    int, tuple[int, ...]
]  # section kind -> width, count, extra, bits (these two 0 where left out)


def _zone_sections(rows: int, width: int, zone_rows: int) -> Sections:
    zones = -(-rows // zone_rows)
    return {
        layout.SECTION_ZONES: (2 * width, zones, zone_rows),
        layout.SECTION_ZONE_FLAGS: (1, zones, zone_rows),
    }


class Zones:
    """Least and greatest value of each zone of ``zone_rows`` rows, across blocks."""

    def __init__(self, dtype: Any, zone_rows: int) -> None:
        self.dtype: Any = np.dtype(dtype)
        self._zone_rows = zone_rows
        self._values = np.zeros(0, self.dtype)
        self._valid: npt.NDArray[np.bool_] = np.zeros(0, bool)

    def push(self, values: Array, valid: npt.NDArray[np.bool_] | None, last: bool) -> tuple[Array, Array]:
        """Takes a block in; gives bounds [zones, 2] and flags [zones] of the zones that are complete."""
        values = np.concatenate([self._values, values])
        fresh = np.ones(len(values) - len(self._valid), bool) if valid is None else valid
        usable = np.concatenate([self._valid, fresh])
        zone = self._zone_rows
        whole = len(values) // zone * zone
        self._values, self._valid = values[whole:].copy(), usable[whole:].copy()
        parts = [_bounds(values[:whole].reshape(-1, zone), usable[:whole].reshape(-1, zone))] if whole else []
        if last and len(self._values):
            parts.append(_bounds(self._values[None], self._valid[None]))
        if not parts:
            return np.zeros((0, 2), self.dtype), np.zeros(0, np.uint8)
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _bounds(values: Array, valid: Array) -> tuple[Array, Array]:
    is_float = values.dtype.kind == "f"
    nan: Array = np.isnan(values) if is_float else np.zeros(valid.shape, bool)
    usable: Array = valid & ~nan
    nulls = np.logical_not(valid.all(axis=1))
    nans = np.any(nan & valid, axis=1)
    found = np.any(usable, axis=1)
    low, high = _extremes(values.dtype)
    if usable.all():
        bounds = np.stack([values.min(axis=1), values.max(axis=1)], axis=1)
    else:
        least, greatest = np.where(usable, values, low), np.where(usable, values, high)
        bounds = np.stack([least.min(axis=1), greatest.max(axis=1)], axis=1)
    bounds[~found] = 0
    if is_float:
        bounds += values.dtype.type(0)  # -0.0 becomes 0.0: which of them a minimum is depends on the machine
    return bounds, (nulls * 1 + nans * 2 + found * 4).astype(np.uint8)


def _extremes(dtype: Any) -> tuple[Any, Any]:
    """What is not less, and what is not greater, than any value."""
    if dtype.kind == "f":
        return dtype.type(np.inf), dtype.type(-np.inf)
    return np.iinfo(dtype).max, np.iinfo(dtype).min


class Codes:
    """The codes of ``rows`` rows, which name entries of a dictionary; 0 where null."""

    def __init__(self, entries: int, rows: int) -> None:
        self.dtype, packing = code_packing(entries, rows)
        self._packer = Packer(self.dtype, packing)
        self.section = (self.dtype.itemsize, rows, 0, 0 if packing is None else packing.bits)
        self.bytes = section_bytes(self.dtype.itemsize, rows, self.section[3])

    def push(self, codes: Array, valid: npt.NDArray[np.bool_] | None, last: bool) -> Array:
        """What the codes of a block add to the section; those of nulls become 0."""
        if valid is not None:
            codes[~valid] = 0
        return self._packer.push(codes, last)


class FixedColumn:
    """A bool, integer or float column: values, or a dictionary and codes where that saves a third."""

    def __init__(self, column: Column, zone_rows: int) -> None:
        assert column.dtype is not None
        self.column = column
        self._zone_rows = zone_rows
        self.dtype: np.dtype[Any] = np.dtype(np.uint8) if column.type == "bool" else column.dtype
        self._bits = ValidityBits()
        self._zones = Zones(self.dtype, zone_rows)
        self._nulls = 0
        self._keys: Array | None = to_keys(np.zeros(0, self.dtype))  # of the distinct values, sorted
        self._waiting: list[Array] = []  # keys that are not among them yet
        self._many_waiting = 0
        self._low: Any = None
        self._high: Any = None
        self._base = 0
        self._packer = Packer(self.dtype, None)
        self._codes: Codes | None = None
        self._entries = self._keys  # of the dictionary, as keys
        self._sketch = Sketch()

    def observe(self, block: BlockColumn) -> None:
        values = block.values.view(self.dtype)
        if block.valid is not None:
            self._nulls += int(len(values) - np.count_nonzero(block.valid))
            values = values[block.valid]
        if self._keys is None:
            self._sketch.add(hashes_of_numbers(values))
        else:
            self._waiting.append(to_keys(values).copy())
            self._many_waiting += len(values)
            if self._many_waiting >= max(len(self._keys), MOST_WAITING):
                self._take_in(self._keys)
        if self.dtype.kind == "f":
            values = values[~np.isnan(values)]
        if len(values):
            low, high = values.min(), values.max()
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def _take_in(self, known: Array) -> None:
        """Join keys that have waited with those known, of which there were no more: so no key is sorted many times."""
        keys = _different(np.concatenate([known, *self._waiting]))
        self._keys = keys if len(keys) <= MAX_DISTINCT else None
        self._waiting, self._many_waiting = [], 0
        if self._keys is None:  # from here on the hashes of all values are looked at
            self._sketch.add(hashes_of_numbers(from_keys(keys, self.dtype)))

    def sections(self, rows: int) -> Sections:
        if self._keys is not None:
            self._take_in(self._keys)
        width = self.dtype.itemsize
        values, bits = self._values(rows)
        sections: Sections = {layout.SECTION_VALUES: values}
        codes = self._coded(rows, section_bytes(width, rows, bits))
        if codes is not None:
            entries = (width, len(self.dictionary), 0)
            sections = {layout.SECTION_CODES: codes.section, layout.SECTION_DICTIONARY_ENTRIES: entries}
        if self.column.nullable:
            sections[layout.SECTION_VALIDITY] = (1, -(-rows // 8), 0)
        if rows > layout.SKETCHED_ROWS and self.column.type != "bool":
            if self._keys is not None:
                self._sketch.add(hashes_of_numbers(from_keys(self._keys, self.dtype)))
            sections[layout.SECTION_SKETCH] = (8, len(self._sketch.hashes), 0)
        return sections | _zone_sections(rows, width, self._zone_rows)

    @property
    def sketch(self) -> Array:
        """The least hashes of its values."""
        return self._sketch.hashes

    def _values(self, rows: int) -> tuple[tuple[int, ...], int]:
        """The section of the values as they are, or packed; and its bits."""
        width, packing = self.dtype.itemsize, None
        if self.dtype.kind != "f" and rows:
            least, greatest = (0, 0) if self._low is None else (int(self._low), int(self._high))
            span = span_of(self.dtype, is_bool=self.column.type == "bool")
            packing = packing_of(span, width, least, greatest, rows)
        self._packer = Packer(self.dtype, packing)
        if packing is None:
            return (width, rows, 0), 0
        self._base = packing.base
        return (width, rows, packing.base & layout.MASK64, packing.bits), packing.bits

    def _coded(self, rows: int, size: int) -> Codes | None:
        """The codes, where they and the dictionary take at most two thirds of ``size`` bytes."""
        if self._keys is None or not rows or self.column.type == "bool":
            return None
        entries = self._keys if len(self._keys) else to_keys(np.zeros(1, self.dtype))
        codes = Codes(len(entries), rows)
        if 3 * (codes.bytes + entries.nbytes) > 2 * size:
            return None
        self._codes, self._entries = codes, entries
        return codes

    @property
    def coded(self) -> bool:
        """Whether it has a dictionary."""
        return self._codes is not None

    @property
    def dictionary(self) -> Array:
        """The entries of the dictionary."""
        return from_keys(self._entries, self.dtype)

    def start(self, sink: Sink) -> None:
        if self.coded:
            sink(layout.SECTION_DICTIONARY_ENTRIES, self.dictionary)

    def write(self, block: BlockColumn, sink: Sink, last: bool) -> None:
        values = block.values.view(self.dtype)
        if self._codes is not None:
            codes = np.searchsorted(self._entries, to_keys(values)).astype(self._codes.dtype)
            sink(layout.SECTION_CODES, self._codes.push(codes, block.valid, last))
        else:
            stored = (
                values if block.valid is None else np.where(block.valid, values, self.dtype.type(self._base))
            )
            sink(layout.SECTION_VALUES, self._packer.push(stored, last))
        if block.valid is not None:
            sink(layout.SECTION_VALIDITY, self._bits.push(block.valid, last))
        bounds, flags = self._zones.push(values, block.valid, last)
        sink(layout.SECTION_ZONES, bounds)
        sink(layout.SECTION_ZONE_FLAGS, flags)

    def statistics(self) -> dict[str, Any]:
        return {
            "nulls": self._nulls,
            "distinct": self._distinct(),
            "min": self._shown(self._low),
            "max": self._shown(self._high),
        }

    def _distinct(self) -> int | None:
        """How many values there are; all NaNs are one, and so are the two zeros."""
        if self._keys is None or self.dtype.kind != "f":
            return None if self._keys is None else len(self._keys)
        least, zero, most = to_keys(np.array([-np.inf, 0.0, np.inf], self.dtype))
        first, stop = np.searchsorted(self._keys, least), np.searchsorted(self._keys, most, side="right")
        nans = len(self._keys) - int(stop - first)
        both_zeros = int(np.count_nonzero((self._keys == zero) | (self._keys == zero - 1))) == 2
        return len(self._keys) - max(nans - 1, 0) - both_zeros

    def _shown(self, value: Any) -> Any:
        if value is None:
            return None
        if self.column.type == "bool":
            return bool(value)
        return float(value) + 0.0 if self.dtype.kind == "f" else int(value)


class LaterColumn:
    """A scalar column of a type of a later version: its values are bytes that are in no order."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._bits = ValidityBits()
        self._nulls = 0

    def observe(self, block: BlockColumn) -> None:
        if block.valid is not None:
            self._nulls += int(len(block.valid) - np.count_nonzero(block.valid))

    def sections(self, rows: int) -> Sections:
        sections: Sections = {layout.SECTION_VALUES: (self.column.fixed_bytes, rows, 0)}
        if self.column.nullable:
            sections[layout.SECTION_VALIDITY] = (1, -(-rows // 8), 0)
        return sections

    def start(self, sink: Sink) -> None:
        pass

    def write(self, block: BlockColumn, sink: Sink, last: bool) -> None:
        sink(layout.SECTION_VALUES, block.values)
        if block.valid is not None:
            sink(layout.SECTION_VALIDITY, self._bits.push(block.valid, last))

    def statistics(self) -> dict[str, Any] | None:
        return {"nulls": self._nulls} if self.column.nullable else None


def _different(values: Array) -> Array:
    """The distinct keys, sorted (np.unique hashes, which takes ten times as long as sorting)."""
    ordered = np.sort(values)
    if not len(ordered):
        return ordered
    different: Array = ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])]
    return different


_NO_STRINGS = (np.zeros(0, np.uint8), np.zeros(1, np.int64))  # and where they end


class StringColumn:
    """A string column: a dictionary and codes, or plain strings when a dictionary would not pay."""

    def __init__(self, column: Column, zone_rows: int) -> None:
        self.column = column
        self._zone_rows = zone_rows
        self._bits = ValidityBits()
        self._nulls = 0
        self._seen: DistinctStrings | None = DistinctStrings(MAX_DISTINCT, MAX_DICTIONARY_BYTES)
        self._numbers: list[Array] | None = []  # of the strings of each block in _seen, when they are few
        self._rows = 0
        self._total_bytes = 0
        self._low: bytes | None = None
        self._high: bytes | None = None
        self._codes: Codes | None = None
        self._code_of = np.zeros(0, np.uint8)  # by the number of the string in _seen
        self._distinct: int | None = None
        self._dictionary = _NO_STRINGS
        self._end = 0
        self._sketch = Sketch()

    @property
    def sketch(self) -> Array:
        """The least hashes of its strings."""
        return self._sketch.hashes

    @property
    def plain(self) -> bool:
        return self._codes is None

    def observe(self, block: BlockColumn) -> None:
        assert block.strings is not None
        data, ends = block.strings.data, block.strings.ends
        self._total_bytes += int(ends[-1] - ends[0])
        if block.valid is not None:
            self._nulls += int(len(block.valid) - np.count_nonzero(block.valid))
        if self._seen is not None:
            self._number(self._seen, block)
        if self._seen is None:
            self._stretch(extreme_strings(data, ends, block.valid))
            self._sketch.add(hashes_of(data, ends, block.valid))

    def _number(self, seen: DistinctStrings, block: BlockColumn) -> None:
        """Take the strings of a block in, as long as all that are distinct can be held; from then on, none."""
        assert block.strings is not None
        numbers = seen.add(block.strings.data, block.strings.ends, block.valid)
        if numbers is None:
            self._stretch(extreme_strings(*seen.packed(), None))
            self._sketch.add(hashes_of(*seen.packed()))
            self._seen = self._numbers = None
            return
        self._rows += len(numbers)
        if self._numbers is not None:
            self._numbers = None if self._rows > MAX_NUMBERS else [*self._numbers, numbers]

    def _stretch(self, extremes: tuple[bytes, bytes] | None) -> None:
        if extremes is None:
            return
        low, high = extremes
        self._low = low if self._low is None else min(self._low, low)
        self._high = high if self._high is None else max(self._high, high)

    def sections(self, rows: int) -> Sections:
        sections: Sections = {}
        if self.column.nullable:
            sections[layout.SECTION_VALIDITY] = (1, -(-rows // 8), 0)
        distinct = self._distinct = None if self._seen is None else len(self._seen)
        if self._seen is not None:
            self._stretch(extreme_strings(*self._seen.packed(), None))
            self._sketch.add(hashes_of(*self._seen.packed()))
        if rows > layout.SKETCHED_ROWS:
            sections[layout.SECTION_SKETCH] = (8, len(self._sketch.hashes), 0)
        if self._seen is None or distinct is None or (rows > SMALL_ROWS and 2 * distinct > rows):
            self._seen = None
            zones = _zone_sections(rows, 1, self._zone_rows)[layout.SECTION_ZONE_FLAGS]
            return sections | {
                layout.SECTION_STRING_OFFSETS: (8, rows + 1, 0),
                layout.SECTION_STRING_BYTES: (1, self._total_bytes, 0),
                layout.SECTION_ZONE_FLAGS: zones,
            }
        data, ends = self._seen.packed()
        order = order_of_strings([(data, ends[:-1], ends[1:])])
        self._dictionary = take_strings(data, ends, order)
        self._codes = Codes(distinct, rows)
        self._code_of = np.zeros(distinct + 1, self._codes.dtype)
        self._code_of[order] = np.arange(distinct)
        sections |= {
            layout.SECTION_CODES: self._codes.section,
            layout.SECTION_DICTIONARY_OFFSETS: (8, distinct + 1, 0),
            layout.SECTION_DICTIONARY_ENTRIES: (1, len(data), 0),
        }
        return sections | _zone_sections(rows, self._codes.dtype.itemsize, self._zone_rows)

    def start(self, sink: Sink) -> None:
        self._zones = Zones(np.uint8 if self._codes is None else self._codes.dtype, self._zone_rows)
        if self.plain:
            sink(layout.SECTION_STRING_OFFSETS, np.zeros(1, "<u8"))
            return
        entries, ends = self._dictionary
        sink(layout.SECTION_DICTIONARY_OFFSETS, ends.astype("<u8"))
        sink(layout.SECTION_DICTIONARY_ENTRIES, entries)
        self._dictionary = _NO_STRINGS

    def write(self, block: BlockColumn, sink: Sink, last: bool) -> None:
        assert block.strings is not None
        if block.valid is not None:
            sink(layout.SECTION_VALIDITY, self._bits.push(block.valid, last))
        if self._codes is None or self._seen is None:
            ends = np.uint64(self._end) + np.cumsum(block.values, dtype=np.uint64)
            self._end = int(ends[-1])
            sink(layout.SECTION_STRING_OFFSETS, ends)
            sink(layout.SECTION_STRING_BYTES, block.strings.content)
            _, flags = self._zones.push(np.zeros(len(block.values), np.uint8), block.valid, last)
            sink(layout.SECTION_ZONE_FLAGS, flags & 1)
            return
        kept = self._numbers.pop(0) if self._numbers else None
        numbers = self._seen.numbers(block.strings.data, block.strings.ends) if kept is None else kept
        # A null's empty string may not be in the dictionary.
        codes = self._code_of[np.minimum(numbers, len(self._code_of) - 1)]
        sink(layout.SECTION_CODES, self._codes.push(codes, block.valid, last))
        bounds, flags = self._zones.push(codes, block.valid, last)
        sink(layout.SECTION_ZONES, bounds)
        sink(layout.SECTION_ZONE_FLAGS, flags)

    def statistics(self) -> dict[str, Any]:
        return {
            "nulls": self._nulls,
            "distinct": self._distinct,
            "min": _shown_string(self._low),
            "max": _shown_string(self._high),
        }


def _shown_string(value: bytes | None) -> str | None:
    if value is None or len(value) > MAX_SHOWN_BYTES:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


ScalarColumn = FixedColumn | StringColumn | LaterColumn


def scalar_column(column: Column, zone_rows: int) -> ScalarColumn:
    """What the index holds of the column."""
    if not column.is_known:
        return LaterColumn(column)
    return (StringColumn if column.is_string else FixedColumn)(column, zone_rows)


_KEEP_BYTES = 64 << 20  # scalar pages kept in memory between the passes
_READ_BYTES = 4 << 20
_BY_VALUE = (layout.SECTION_ORDER, layout.SECTION_LOOK_UP)  # sections that are made of others


def build_index(
    data_path: str,
    out: StagedFile,
    zone_rows: Mapping[int, int] | None = None,
    look_ups: Collection[int] = (),
) -> None:
    """Writes the whole index of the data file at ``data_path`` to ``out``; syncing and publishing are the caller's.

    ``zone_rows``: rows of a zone by ordinal of the column, where they are not to be the usual number. ``look_ups``:
    ordinals of columns that get one whatever their values are.
    """
    with DataFile(data_path) as data:
        _Builder(data, out, zone_rows or {}, look_ups).build()


class _Pages:
    """The row groups of a data file as blocks, for two passes; the second reads again those that were not kept."""

    def __init__(self, data: DataFile, head: DataHead) -> None:
        self._data, self._head = data, head

        # Blocks that the first pass has kept, and offsets of the row groups behind them.
        self._kept: list[Block] = []
        self._left: list[int] = []

    def first(self) -> Iterator[Block]:
        """All blocks; those at the beginning are kept, up to so many bytes."""
        size = 0
        for block in blocks(self._data.groups(self._head)):
            size += _block_bytes(block)
            if size <= _KEEP_BYTES:
                self._kept.append(block)
            else:
                self._left += [group.offset for group in block.groups]
            yield block

    def again(self) -> Iterator[Block]:
        """The same blocks."""
        yield from self._kept
        yield from blocks(map(self._group, self._left))

    def _group(self, offset: int) -> RowGroup:
        try:
            return self._data.group(self._head, offset, self._data.page_header(self._head, offset))
        except CorruptionError as error:
            raise self._data.located(error) from error


def _block_bytes(block: Block) -> int:
    strings = sum(
        c.strings.content.nbytes + c.strings.ends.nbytes for c in block.scalars if c.strings is not None
    )
    arrays = [column.values for column in block.scalars] + block.lengths + block.raw_lengths + [block.digests]
    arrays += block.chunk_lengths + block.chunk_digests
    return strings + sum(array.nbytes for array in arrays) + 1_000 * len(block.groups)


class ChunkTables:
    """A column that is cut into chunks: where the chunks of each row begin, where each ends, and the digests."""

    def __init__(self, column: Column) -> None:
        self.column = column
        self._chunks = 0  # so far

    def observe(self, raw: Array) -> None:
        """Counts the chunks of values of so many bytes."""
        self._chunks += int(chunk_counts(self.column, raw).sum())

    def sections(self, rows: int) -> Sections:
        shape = stored_shape_of_chunks(self.column)
        sections: Sections = {
            layout.SECTION_CHUNK_SHAPE: (8, len(shape), 0),
            layout.SECTION_CHUNK_DIGESTS: (8, self._chunks, 0),
        }
        if self.column.has_chunk_lengths:
            sections[layout.SECTION_CHUNK_ENDS] = (4, self._chunks, 0)
        if not self.column.fixed_bytes:
            sections[layout.SECTION_CHUNK_STARTS] = (8, rows, 0)
        return sections

    def start(self, sink: Sink) -> None:
        sink(layout.SECTION_CHUNK_SHAPE, stored_shape_of_chunks(self.column).astype("<u8"))
        self._chunks = 0

    def write(self, raw: Array, cells: Array, lengths: Array | None, digests: Array, sink: Sink) -> bool:
        """Takes in a block; False where the chunks of a cell do not make it up."""
        counts = chunk_counts(self.column, raw)
        sink(layout.SECTION_CHUNK_DIGESTS, digests)
        if not self.column.fixed_bytes:
            sink(
                layout.SECTION_CHUNK_STARTS,
                (np.cumsum(counts) - counts + np.uint64(self._chunks)).astype("<u8"),
            )
        self._chunks += int(counts.sum())
        if lengths is None:
            return True
        ends = chunk_ends(counts, lengths, cells)
        if ends is not None:
            sink(layout.SECTION_CHUNK_ENDS, ends.astype("<u4"))
        return ends is not None


class _Builder:
    def __init__(
        self, data: DataFile, out: StagedFile, zone_rows: Mapping[int, int], look_ups: Collection[int]
    ) -> None:
        self.data, self.out = data, out
        self.head = data.head()
        self.schema = self.head.schema
        self.shape = self.head.header.shape
        self.pages = _Pages(data, self.head)
        self.columns = {
            ordinal: scalar_column(column, zone_rows.get(ordinal, layout.ZONE_ROWS))
            for ordinal, column in self.schema.scalars
        }
        self.blobs = {
            ordinal: BlobValidity() if column.nullable else None for ordinal, column in self.schema.blobs
        }
        self.chunked = {ordinal: ChunkTables(column) for _, ordinal, column in chunked_blobs(self.schema)}
        self.variable = [ordinal for ordinal, column in self.schema.blobs if not column.stored_bytes]
        self.raw = [ordinal for ordinal, column in self.schema.blobs if column.has_raw_lengths]
        self.longest: dict[tuple[int, int], int] = {}  # by kind of section and column
        self.dictionaries = data.dictionaries(self.head)
        self.look_ups = set(look_ups)
        self.rows = self.groups = 0
        self.sections: dict[tuple[int, int], Section] = {}
        self.written: dict[tuple[int, int], int] = {}

    def build(self) -> None:
        for block in self.pages.first():
            self._observe(block)
        self._plan()
        header_bytes, body_end = self._place()
        blocks_of_body = -(-(body_end - header_bytes) // layout.BLOCK_BYTES)
        index_bytes = body_end + 8 * blocks_of_body
        self.out.truncate(index_bytes)
        self._write_sections()
        self._write_sorted_rows()
        self._write_look_ups()
        self._write_digests(header_bytes, body_end)
        self._write_head(body_end, index_bytes)

    # first pass

    def _observe(self, block: Block) -> None:
        self.rows += block.rows
        self.groups += len(block.groups)
        for key, lengths in self._lengths(block):
            self.longest[key] = max(self.longest.get(key, 0), int(lengths.max()))
        for ordinal, raw in values_sizes(self.schema, block.rows, block.lengths, block.raw_lengths).items():
            self.chunked[ordinal].observe(raw)
        for column, values in zip(self.columns.values(), block.scalars, strict=True):
            column.observe(values)
        for blob, valid in zip(self.blobs.values(), block.blob_valid, strict=True):
            if blob is not None and valid is not None:
                blob.observe(valid)

    def _plan(self) -> None:
        self._declare(layout.SECTION_GROUPS, layout.NO_COLUMN, 32, self.groups)
        if self.schema.blobs:
            if not self.shape.row_bytes:
                starts = -(-self.rows // max(self.shape.unit_rows, 1))
                self._declare(layout.SECTION_ROW_STARTS, layout.NO_COLUMN, 8, starts)
            units = unit_count(self.schema, self.shape, self.rows)
            self._declare(layout.SECTION_DIGESTS, layout.NO_COLUMN, 8, units)
        for kind, ordinals in self._length_columns():
            for ordinal in ordinals:
                width = np.min_scalar_type(self.longest.get((kind, ordinal), 0)).itemsize
                self._declare(kind, ordinal, width, self.rows)
        for page in self.dictionaries:
            self._declare(layout.SECTION_CODEC_DICTIONARY, page.column, 1, len(page.content))
        for ordinal, tables in self.chunked.items():
            for kind, (width, count, extra) in tables.sections(self.rows).items():
                self._declare(kind, ordinal, width, count, extra)
        described = self._described()
        for ordinal, column in described.items():
            for kind, entry in column.sections(self.rows).items():
                self._declare(kind, ordinal, *entry)
        for name in self.head.metadata.index:
            width = 8 if self.rows > 1 << 32 else 4
            ordinal = self.schema.ordinal(name)
            self._declare(layout.SECTION_ORDER, ordinal, width, self.rows)
            if self._most_differ(self.columns[ordinal]):
                self.look_ups |= {ordinal}
        for ordinal in self.look_ups:
            statistics = self.columns[ordinal].statistics()
            assert statistics is not None  # but of types of later versions, which are in no order
            self._declare(layout.SECTION_LOOK_UP, ordinal, 8, self.rows - int(statistics["nulls"]))
        known = [described.get(ordinal) for ordinal in range(len(self.schema))]
        self.statistics = metadata.encode_statistics([None if c is None else c.statistics() for c in known])
        self._declare(layout.SECTION_STATISTICS, layout.NO_COLUMN, 1, len(self.statistics))

    def _most_differ(self, column: ScalarColumn) -> bool:
        """Whether a part of many rows has more values than half of them, about."""
        if self.rows <= LEAST_ROWS or isinstance(column, LaterColumn):
            return False
        distinct = column.statistics()["distinct"]
        if distinct is None:
            distinct, _ = estimated([column.sketch])
        return bool(2 * distinct > self.rows)

    def _described(self) -> dict[int, ScalarColumn | BlobValidity]:
        """The columns that have sections and statistics, by ordinal: scalar ones, and blobs that may be null."""
        return {**self.columns, **{i: blob for i, blob in self.blobs.items() if blob is not None}}

    def _length_columns(self) -> tuple[tuple[int, list[int]], ...]:
        return (layout.SECTION_LENGTHS, self.variable), (layout.SECTION_RAW_LENGTHS, self.raw)

    def _lengths(self, block: Block) -> Iterator[tuple[tuple[int, int], Array]]:
        """Section and column of lengths, as stored and of values, and those of the block."""
        found = zip(self._length_columns(), (block.lengths, block.raw_lengths), strict=True)
        for (kind, ordinals), columns in found:
            for ordinal, lengths in zip(ordinals, columns, strict=True):
                yield (kind, ordinal), lengths

    def _declare(self, kind: int, column: int, width: int, count: int, extra: int = 0, bits: int = 0) -> None:
        size = section_bytes(width, count, bits)
        self.sections[kind, column] = Section(kind, column, width, 0, size, count, extra, bits)

    def _place(self) -> tuple[int, int]:
        packed = len(self.head.packed_metadata)
        start = layout.index_head_bytes(len(self.schema), len(self.sections), packed)
        end = start
        for key in sorted(self.sections):
            entry = self.sections[key]
            self.sections[key] = replace(entry, offset=end)
            end = layout.align(end + entry.bytes, layout.PAGE_ALIGN)
        self.written = dict.fromkeys(self.sections, 0)
        return start, end

    # second pass

    def _put(self, kind: int, column: int, elements: Array | bytes) -> None:
        entry = self.sections[kind, column]
        content: Any = elements
        if isinstance(elements, np.ndarray):
            content = np.ascontiguousarray(elements).reshape(-1).view(np.uint8)
        done = self.written[kind, column]
        if done + len(content) > entry.bytes:
            raise CorruptionError(f"{self.data.path}: it changed while it was indexed", path=self.data.path)
        if len(content):
            self.out.write_at(entry.offset + done, content)
        self.written[kind, column] = done + len(content)

    def _sink(self, ordinal: int) -> Sink:
        return lambda kind, elements: self._put(kind, ordinal, elements)

    def _write_sections(self) -> None:
        for ordinal, column in self.columns.items():
            column.start(self._sink(ordinal))
            if (layout.SECTION_SKETCH, ordinal) in self.sections and not isinstance(column, LaterColumn):
                self._put(layout.SECTION_SKETCH, ordinal, column.sketch)
        for ordinal, tables in self.chunked.items():
            tables.start(self._sink(ordinal))
        self._put(layout.SECTION_STATISTICS, layout.NO_COLUMN, self.statistics)
        for page in self.dictionaries:
            self._put(layout.SECTION_CODEC_DICTIONARY, page.column, page.content)
        for block in self.pages.again():
            last = block.first_row + block.rows == self.rows
            self._put(layout.SECTION_GROUPS, layout.NO_COLUMN, _group_table(block.groups))
            for key, lengths in self._lengths(block):
                self._put(*key, lengths.astype(f"<u{self.sections[key].width}"))
            if self.schema.blobs:
                self._put(layout.SECTION_DIGESTS, layout.NO_COLUMN, block.digests)
                if not self.shape.row_bytes:
                    self._put(layout.SECTION_ROW_STARTS, layout.NO_COLUMN, self._row_starts(block))
                else:
                    self._check_even(block)
                self._write_chunks(block)
            for (ordinal, column), values in zip(self.columns.items(), block.scalars, strict=True):
                column.write(values, self._sink(ordinal), last)
            for (ordinal, blob), valid in zip(self.blobs.items(), block.blob_valid, strict=True):
                if blob is not None and valid is not None:
                    self._put(layout.SECTION_VALIDITY, ordinal, blob.packed(valid, last))
        for key, entry in self.sections.items():
            if self.written[key] != entry.bytes and entry.kind not in _BY_VALUE:
                raise CorruptionError(
                    f"{self.data.path}: it changed while it was indexed", path=self.data.path
                )

    def _write_chunks(self, block: Block) -> None:
        if not self.chunked:
            return
        raw = values_sizes(self.schema, block.rows, block.lengths, block.raw_lengths)
        cells = cell_lengths(self.schema, block.rows, block.lengths)
        lengths, digests = iter(block.chunk_lengths), iter(block.chunk_digests)
        for j, ordinal, column in chunked_blobs(self.schema):
            own = next(lengths) if column.has_chunk_lengths else None
            if not self.chunked[ordinal].write(
                raw[ordinal], cells[j], own, next(digests), self._sink(ordinal)
            ):
                raise CorruptionError(
                    f"{self.data.path}: column {column.name!r}: the chunks of a cell do not make up its length",
                    path=self.data.path,
                )

    def _row_starts(self, block: Block) -> Array:
        """Where each row of the block starts, or the first of each unit of several rows."""
        sizes = row_sizes(self.schema, self.shape, block.rows, block.lengths)
        starts = []
        first = 0
        for group in block.groups:
            mine = sizes[first : first + group.page.rows]
            ends = np.cumsum(mine)
            if int(ends[-1]) != group.blob_bytes or (ends < mine).any() or int(mine.max()) > group.blob_bytes:
                self._refuse_blob_page(group)
            starts.append((ends - mine + np.uint64(group.blob_payload))[:: max(self.shape.unit_rows, 1)])
            first += group.page.rows
        return np.concatenate(starts)

    def _check_even(self, block: Block) -> None:
        for group in block.groups:
            if group.blob_bytes != group.page.rows * self.shape.row_bytes:
                self._refuse_blob_page(group)

    def _refuse_blob_page(self, group: RowGroup) -> None:
        raise CorruptionError(
            f"{self.data.path}: the blob page at {group.blob_offset} has {many(group.blob_bytes, 'byte')}, "
            f"which its rows do not add up to",
            path=self.data.path,
            offset=group.blob_offset,
        )

    # sorted rows

    def _write_sorted_rows(self) -> None:
        for name in self.head.metadata.index:
            ordinal = self.schema.ordinal(name)
            width = self.sections[layout.SECTION_ORDER, ordinal].width
            column = self.columns[ordinal]
            plain = isinstance(column, StringColumn) and column.plain
            keys = self._string_keys(ordinal) if plain else self._keys(ordinal)
            refine = self._refine(ordinal) if plain else None
            for run in sorted_rows(self.rows, keys, self._validity(ordinal), refine):
                self._put(layout.SECTION_ORDER, ordinal, run.astype(f"<u{width}"))

    def _write_look_ups(self) -> None:
        for (kind, ordinal), entry in self.sections.items():
            if kind == layout.SECTION_LOOK_UP:
                for run in in_order(partial(self._entries, ordinal), entry.count, MAX_SORTED):
                    self._put(kind, ordinal, run.astype("<u8"))

    def _entries(self, ordinal: int) -> Iterator[Hashes]:
        """Those of the look-up of a column, in the order of the rows."""
        hashes, validity = self._hashes(ordinal), self._validity(ordinal)
        for start in range(0, self.rows, _CHUNK):
            stop = min(start + _CHUNK, self.rows)
            valid = validity(start, stop)
            chosen = slice(None) if valid is None else valid
            yield entries_of(hashes(start, stop, chosen), np.arange(start, stop)[chosen], self.rows)

    def _hashes(self, ordinal: int) -> Callable[[int, int, Any], Hashes]:
        """What gives the hashes of the values of rows [start, stop), of those alone that are chosen."""
        column = self.columns[ordinal]
        if isinstance(column, StringColumn) and column.plain:
            kind = layout.SECTION_STRING_OFFSETS
            return lambda start, stop, chosen: hashes_of(*self._strings_of(kind, ordinal, start, stop))[
                chosen
            ]
        values = self._keys(ordinal)
        if isinstance(column, FixedColumn):
            return lambda start, stop, chosen: hashes_of_numbers(values(start, stop)[chosen])
        kind = layout.SECTION_DICTIONARY_OFFSETS
        of_entries = hashes_of(*self._strings_of(kind, ordinal, 0, self.sections[kind, ordinal].count - 1))
        return lambda start, stop, chosen: of_entries[values(start, stop)[chosen]]

    def _section(self, kind: int, ordinal: int, start: int, stop: int, dtype: Any) -> Array:
        return read_numbers(self.out.read_at, self.sections[kind, ordinal], dtype, start, stop)

    def _keys(self, ordinal: int) -> Any:
        column = self.columns[ordinal]
        if isinstance(column, FixedColumn) and not column.coded:
            return lambda start, stop: self._section(
                layout.SECTION_VALUES, ordinal, start, stop, column.dtype
            )
        dtype = f"<u{self.sections[layout.SECTION_CODES, ordinal].width}"

        def read(start: int, stop: int) -> Array:
            codes = self._section(layout.SECTION_CODES, ordinal, start, stop, dtype)
            return column.dictionary.take(codes) if isinstance(column, FixedColumn) else codes

        return read

    def _validity(self, ordinal: int) -> Any:
        if not self.schema[ordinal].nullable:
            return lambda start, stop: None

        def read(start: int, stop: int) -> Array:
            first = start // 8
            raw = self._section(layout.SECTION_VALIDITY, ordinal, first, -(-stop // 8), np.uint8)
            return np.unpackbits(raw, bitorder="little")[start - 8 * first : stop - 8 * first].astype(bool)

        return read

    def _strings_of(
        self, offsets: int, ordinal: int, start: int, stop: int
    ) -> tuple[bytes, npt.NDArray[np.int64]]:
        """Strings whose offsets are in a section of this kind, one after the other, and where each begins and ends."""
        ends = self._section(offsets, ordinal, start, stop + 1, "<i8")
        entry = self.sections[offsets + 1, ordinal]
        return self.out.read_at(entry.offset + int(ends[0]), int(ends[-1] - ends[0])), ends - ends[0]

    def _strings(self, ordinal: int, start: int, stop: int) -> list[bytes]:
        raw, ends = self._strings_of(layout.SECTION_STRING_OFFSETS, ordinal, start, stop)
        return [raw[a:b] for a, b in pairwise(ends.tolist())]

    def _string_keys(self, ordinal: int) -> Any:
        def read(start: int, stop: int) -> Array:
            prefixes = b"".join(string[:8].ljust(8, b"\0") for string in self._strings(ordinal, start, stop))
            return np.frombuffer(prefixes, ">u8").astype(np.uint64)

        return read

    def _refine(self, ordinal: int) -> Any:
        def refine(rows: Array) -> Array:
            strings = {row: self._strings(ordinal, row, row + 1)[0] for row in rows.tolist()}
            return np.array(sorted(strings, key=strings.__getitem__), dtype=rows.dtype)

        return refine

    # digests and head

    def _write_digests(self, start: int, end: int) -> None:
        seed = layout.seed(self.head.header.id, layout.DOMAIN_INDEX_BLOCK)
        step = _READ_BYTES
        for offset in range(start, end, step):
            raw = self.out.read_at(offset, min(step, end - offset))
            starts = np.arange(0, len(raw), layout.BLOCK_BYTES, dtype=np.uint64)
            lengths = np.minimum(np.uint64(layout.BLOCK_BYTES), np.uint64(len(raw)) - starts)
            first = (offset - start) // layout.BLOCK_BYTES
            found = digest_ranges(
                raw, starts, lengths, (seed + first * layout.PHI) & layout.MASK64, layout.PHI
            )
            self.out.write_at(end + 8 * first, found.astype("<u8").tobytes())

    def _write_head(self, body_end: int, index_bytes: int) -> None:
        data = self.head.header
        header = IndexHeader(
            data.id, self.data.size, self.rows, self.groups, len(self.schema), len(self.sections),
            len(self.head.packed_metadata), index_bytes, body_end, data.header_digest,
            self.data.end_page(self.head).content_digest, data.shape, 0, 0, 0, data.writer_version,
            data.optional_features,
        )  # fmt: skip
        entries = [self.sections[key] for key in sorted(self.sections)]
        self.out.write_at(
            0, layout.pack_index_head(header, self.head.table, entries, self.head.packed_metadata)
        )


def _group_table(groups: list[RowGroup]) -> Array:
    table = [(group.first_row, group.offset, group.blob_offset, group.blob_payload) for group in groups]
    return np.array(table, dtype="<u8")
