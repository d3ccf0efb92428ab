"""What the index holds of one scalar column: statistics, values or dictionary codes, validity, zones."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..core import DistinctStrings, extreme_strings
from ..format import layout
from ..format.column import Column
from ..parts.data_file import BlockColumn
from .index_validity import ValidityBits

Array = npt.NDArray[Any]

MAX_DISTINCT = 1 << 20
MAX_DICTIONARY_BYTES = 64 << 20
SMALL_ROWS = 65_536  # a dictionary pays from here on only when strings repeat
MAX_NUMBERS = 1 << 22  # of a column's rows, that stay in memory from the first pass to the second
MAX_SHOWN_BYTES = 256  # longer strings are left out of the statistics


class Sink(Protocol):
    """Takes the elements of a section in order."""

    def __call__(self, kind: int, elements: Array | bytes) -> None: ...


Sections = dict[int, tuple[int, int, int]]  # section kind -> width, count, extra


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


class FixedColumn:
    """A bool, integer or float column."""

    def __init__(self, column: Column, zone_rows: int) -> None:
        assert column.dtype is not None
        self.column = column
        self._zone_rows = zone_rows
        self.dtype: np.dtype[Any] = np.dtype(np.uint8) if column.type == "bool" else column.dtype
        self._bits = ValidityBits()
        self._zones = Zones(self.dtype, zone_rows)
        self._nulls = 0
        self._distinct: Array | None = np.zeros(0, self.dtype)
        self._low: Any = None
        self._high: Any = None

    def observe(self, block: BlockColumn) -> None:
        values = block.values.view(self.dtype)
        if block.valid is not None:
            self._nulls += int(len(values) - np.count_nonzero(block.valid))
            values = values[block.valid]
        if self._distinct is not None:
            self._distinct = _merge(self._distinct, values)
        if self.dtype.kind == "f":
            values = values[~np.isnan(values)]
        if len(values):
            low, high = values.min(), values.max()
            self._low = low if self._low is None else min(self._low, low)
            self._high = high if self._high is None else max(self._high, high)

    def sections(self, rows: int) -> Sections:
        sections: Sections = {layout.SECTION_VALUES: (self.dtype.itemsize, rows, 0)}
        if self.column.nullable:
            sections[layout.SECTION_VALIDITY] = (1, -(-rows // 8), 0)
        return sections | _zone_sections(rows, self.dtype.itemsize, self._zone_rows)

    def start(self, sink: Sink) -> None:
        pass

    def write(self, block: BlockColumn, sink: Sink, last: bool) -> None:
        values = block.values.view(self.dtype)
        sink(layout.SECTION_VALUES, values)
        if block.valid is not None:
            sink(layout.SECTION_VALIDITY, self._bits.push(block.valid, last))
        bounds, flags = self._zones.push(values, block.valid, last)
        sink(layout.SECTION_ZONES, bounds)
        sink(layout.SECTION_ZONE_FLAGS, flags)

    def statistics(self) -> dict[str, Any]:
        return {
            "nulls": self._nulls,
            "distinct": None if self._distinct is None else len(self._distinct),
            "min": self._shown(self._low),
            "max": self._shown(self._high),
        }

    def _shown(self, value: Any) -> Any:
        if value is None:
            return None
        if self.column.type == "bool":
            return bool(value)
        return float(value) + 0.0 if self.dtype.kind == "f" else int(value)


def _merge(known: Array, values: Array) -> Array | None:
    """The distinct values so far, sorted; None when they are too many to follow."""
    fresh = _different(values)
    if len(known):
        fresh = _different(np.concatenate([known, fresh]))
    return fresh if len(fresh) <= MAX_DISTINCT else None


def _different(values: Array) -> Array:
    """The distinct values, sorted; all NaNs are one (np.unique hashes, which takes ten times as long as sorting)."""
    ordered = np.sort(values)
    if not len(ordered):
        return ordered
    fresh = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    if ordered.dtype.kind == "f":
        first_nan = int(np.searchsorted(ordered, np.nan))
        fresh[first_nan + 1 :] = False
    different: Array = ordered[fresh]
    return different


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
        self._codes: Array | None = None  # by the number of the string in _seen
        self._code_dtype = np.dtype(np.uint8)
        self._distinct: int | None = None
        self._dictionary: list[bytes] = []
        self._end = 0

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

    def _number(self, seen: DistinctStrings, block: BlockColumn) -> None:
        """Take the strings of a block in, as long as all that are distinct can be held; from then on, none."""
        assert block.strings is not None
        numbers = seen.add(block.strings.data, block.strings.ends, block.valid)
        if numbers is None:
            self._stretch(extreme_strings(*seen.packed(), None))
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
        if self._seen is None or distinct is None or (rows > SMALL_ROWS and 2 * distinct > rows):
            self._seen = None
            zones = _zone_sections(rows, 1, self._zone_rows)[layout.SECTION_ZONE_FLAGS]
            return sections | {
                layout.SECTION_STRING_OFFSETS: (8, rows + 1, 0),
                layout.SECTION_STRING_BYTES: (1, self._total_bytes, 0),
                layout.SECTION_ZONE_FLAGS: zones,
            }
        strings = self._seen.strings()
        order = sorted(range(distinct), key=strings.__getitem__)
        self._dictionary = [strings[number] for number in order]
        self._code_dtype = np.min_scalar_type(max(distinct - 1, 0))
        self._codes = np.zeros(distinct + 1, self._code_dtype)
        self._codes[order] = np.arange(distinct)
        width = self._code_dtype.itemsize
        sections |= {
            layout.SECTION_CODES: (width, rows, 0),
            layout.SECTION_DICTIONARY_OFFSETS: (8, len(self._dictionary) + 1, 0),
            layout.SECTION_DICTIONARY_BYTES: (1, sum(map(len, strings)), 0),
        }
        return sections | _zone_sections(rows, width, self._zone_rows)

    def start(self, sink: Sink) -> None:
        self._zones = Zones(self._code_dtype, self._zone_rows)
        if self.plain:
            sink(layout.SECTION_STRING_OFFSETS, np.zeros(1, "<u8"))
            return
        ends = np.cumsum([0, *map(len, self._dictionary)], dtype="<u8")
        sink(layout.SECTION_DICTIONARY_OFFSETS, ends)
        sink(layout.SECTION_DICTIONARY_BYTES, b"".join(self._dictionary))
        self._dictionary = []

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
        codes = self._codes[np.minimum(numbers, len(self._codes) - 1)]
        if block.valid is not None:
            codes[~block.valid] = 0
        sink(layout.SECTION_CODES, codes)
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
