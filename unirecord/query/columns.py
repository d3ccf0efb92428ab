"""The scalar columns of parts as flat arrays, each checked where it is touched, and as a query reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from shlex import quote
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import AND as AND
from ..core import BITS as BITS
from ..core import BYTES as BYTES
from ..core import MASK as MASK
from ..core import MASKS as MASKS
from ..core import NUMBER_DEPTH as NUMBER_DEPTH
from ..core import NUMBERS as NUMBERS
from ..core import OR as OR
from ..core import RANGE as RANGE
from ..core import ROWS as ROWS
from ..core import SET as SET
from ..core import TABLE as TABLE
from ..core import CodedArray, PackedArray, match_between, match_pattern
from ..core import NumberOp as NumberOp
from ..core import NumberStep as NumberStep
from ..core import Program as Program
from ..core import Step as Step
from ..core import take_marked as take_marked
from ..errors import ClosedError, CorruptionError, SchemaError
from ..format import layout
from ..format.column import Column
from ..order.selection import Selection
from ..order.split import Cells
from ..sizes import many
from ..snapshot.part_set import PartSet
from .tree import INTEGERS, PART, ROW, WORDS, Between, Field, Like

if TYPE_CHECKING:
    from ..snapshot.part import Elements, Part

__all__ = [
    "all_strings",
    "all_valid",
    "all_values",
    "corrupt",
    "element_lengths",
    "row_lengths",
    "scalar_arrays",
    "stored_cells",
    "value_bytes",
]


# The values of selected rows as they are stored, some MiB at a time: what tells rows apart by their values.


_AT_ONCE = 8 << 20
_MOST_ROWS = 1 << 16


def stored_cells(
    parts: PartSet, ordinals: Sequence[int], rows: NDArray[np.int64]
) -> Iterator[tuple[slice, list[Cells]]]:
    """(which of ``rows``, their cells in each of these columns), piece by piece."""
    step = min(max(int(_AT_ONCE / max(parts.mean_row_bytes(ordinals), 1.0)), 1), _MOST_ROWS)
    for first in range(0, len(rows), step):
        some = slice(first, min(first + step, len(rows)))
        found = parts.read(rows[some], ordinals)
        yield (
            some,
            [
                Cells.of_width(one.data, one.valid)
                if one.offsets is None
                else Cells(one.data, one.offsets, one.valid)
                for one in found
            ],
        )


# The scalar columns of one part as flat arrays, each checked where it is touched, with their zones and sorted rows.


Array = npt.NDArray[Any]
BLOCK_BYTES = 1 << 16  # scattered reads are checked by blocks


class Vector:
    """A flat array, or one that unpacks itself, and the check that its elements [start, stop) are what was written.

    Who reads here asks the methods, which unpack. Safe to share between threads: at worst a
    block is checked twice.
    """

    array: Elements

    def __init__(self, array: Elements, check: Callable[[int, int], None] | None = None) -> None:
        self.array = array
        self._check = check
        self._sound = False  # all of it has been checked
        self.swept = False  # `check` has been called for all of it, so that all is known to be sound
        self._seen: set[int] = set()  # blocks checked for reads of a few elements
        bits = 8 * max(array.itemsize, 1) if isinstance(array, np.ndarray) else array.bits
        self._per_block = max(1, 8 * BLOCK_BYTES // bits)

    def __len__(self) -> int:
        return len(self.array)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the elements, once they are unpacked."""
        return self.array.dtype

    @property
    def flat(self) -> Array:
        """The array, of a section that is never packed."""
        assert isinstance(self.array, np.ndarray)
        return self.array

    def as_bytes(self) -> Vector:
        """The same of bools as numbers."""
        return Vector(self.numbers.view(np.uint8), self.check)

    @property
    def numbers(self) -> Array | PackedArray:
        """What C reads of numbers that have no dictionary."""
        assert not isinstance(self.array, CodedArray)
        return self.array

    def _between(self, start: int, stop: int) -> Array:
        return self.array[start:stop] if isinstance(self.array, np.ndarray) else self.array.span(start, stop)

    def check(self, start: int, stop: int) -> None:
        """Checks elements [start, stop), those not checked before."""
        if self._check is None or self._sound or start >= stop:
            return
        first, last = start // self._per_block, (stop - 1) // self._per_block
        if last - first > 1:
            self._check(start, stop)
            return
        if first in self._seen:
            first = last
        if last in self._seen:
            last = first
        if first not in self._seen:  # both at once, where both are new
            self._check(first * self._per_block, min((last + 1) * self._per_block, len(self.array)))
            self._seen.update((first, last))

    def span(self, start: int, stop: int) -> Array:
        """Elements [start, stop)."""
        self.check(start, stop)
        return self._between(start, stop)

    def one(self, place: int) -> Any:
        """One element, as Python's own."""
        self.check(place, place + 1)
        return self.array.item(place) if isinstance(self.array, np.ndarray) else self.array.one(place)

    def bring(self) -> None:
        """Checks all elements, so that none is checked, or fetched, any more."""
        if not self._sound:
            self.sweep()
            self._sound = True

    def whole(self) -> Array:
        """All elements."""
        self.bring()
        return self._between(0, len(self.array))

    def sweep(self, start: int = 0, stop: int | None = None) -> None:
        """Checks elements [start, stop), or all, also when they have been before, as the file may have been cut."""
        stop = len(self.array) if stop is None else stop
        if self._check is not None and start < stop:
            self._check(start, stop)

    def checked(self, start: int = 0, stop: int | None = None) -> Array:
        """Elements [start, stop), or all, to be handed out, swept."""
        stop = len(self.array) if stop is None else stop
        self.sweep(start, stop)
        return self._between(start, stop)

    def at(self, places: npt.NDArray[np.integer[Any]]) -> Array:
        """The elements at these places."""
        if self._check is not None and not self._sound:
            blocks = np.unique(places // self._per_block)
            if len(blocks) * self._per_block * 2 > len(self.array):
                self.bring()
            else:
                for block in blocks.tolist():
                    start = block * self._per_block
                    self.check(start, min(start + self._per_block, len(self.array)))
        return self.array[places] if isinstance(self.array, np.ndarray) else self.array.at(places)


@dataclass(frozen=True)
class Zones:
    """Per zone of ``rows`` rows: least and greatest value in ``bounds`` [n, 2], and flags as in docs/spec/format.md."""

    rows: int
    bounds: Array | None
    flags: npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Strings:
    """Strings one after another: string i is ``data[offsets[i]:offsets[i + 1]]``."""

    offsets: Vector
    data: Vector

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, place: int) -> bytes:
        start, stop = self.offsets.span(place, place + 2).tolist()
        return self.data.span(start, stop).tobytes()

    def first_at_least(self, string: bytes) -> int:
        """Place of the first string >= ``string``, of strings that ascend."""
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self[middle] < string:
                low = middle + 1
            else:
                high = middle
        return low


@dataclass(frozen=True)
class Dictionary:
    """A string column as one code a row and the distinct strings, ascending."""

    codes: Vector
    entries: Strings


class FlatColumns(Protocol):
    """The scalar columns of one part; columns by their ordinal in the schema."""

    name: str
    rows: int

    def confirm_rows(self) -> None:
        """Make sure that there are as many rows: whoever makes room for all of them asks first.

        Raises our errors where a part's files say otherwise than what named it.
        """

    def values(self, column: int) -> Vector:
        """Values of a column of fixed width, anything where null."""

    def validity(self, column: int) -> Vector | None:
        """Bits, as in docs/spec/format.md, or None when no value is null."""

    def lengths(self, column: int) -> Vector:
        """Bytes of each cell, as stored, of a blob column where they differ."""

    def value_lengths(self, column: int) -> Vector:
        """Bytes of each value of a blob column of variable width."""

    def dictionary(self, column: int) -> Dictionary | None:
        """A string column as codes, or None when it is plain."""

    def strings(self, column: int) -> Strings:
        """A plain string column."""

    def zones(self, column: int) -> Zones | None:
        """Zones of a column, or None when it has none."""

    def sorted_rows(self, column: int) -> Vector | None:
        """Row numbers by value and then by row, NaN after all numbers, nulls last; None when it is not indexed."""

    def words(self, column: int, rows: npt.NDArray[np.int64]) -> Array:
        """The two words [n, 2] of a decimal of more than 18 digits in each of these rows, the low one first."""


# All values of a scalar column of one part, as arrays.


def all_values(columns: FlatColumns, column: int, start: int = 0, stop: int | None = None) -> Array:
    """The values of rows [start, stop), or all, of a column of fixed width, zero where null.

    Read-only: a view where they lie so, or a copy.
    """
    vector = columns.values(column)
    values = vector.checked(start, stop)
    if not isinstance(vector.array, np.ndarray):
        valid = all_valid(columns, column, start, stop)
        if valid is not None:
            values[~valid] = 0
        values.flags.writeable = False
    return values


def all_valid(
    columns: FlatColumns, column: int, start: int = 0, stop: int | None = None
) -> NDArray[np.bool_] | None:
    """Which rows [start, stop), or of all, have a value, or None when the column is not nullable."""
    bits = columns.validity(column)
    if bits is None:
        return None
    stop = columns.rows if stop is None else stop
    found = np.unpackbits(bits.checked(start // 8, (stop + 7) // 8), bitorder="little")
    return found[start % 8 :][: stop - start].view(np.bool_)


def all_strings(columns: FlatColumns, column: int, name: str) -> NDArray[np.object_]:
    """The values [rows] of a string column as ``str``, None where null; CorruptionError names the column ``name``."""
    dictionary = columns.dictionary(column)
    if dictionary is None:
        found = _texts(columns, columns.strings(column), name)
    else:
        codes, entries = dictionary.codes.checked(), _texts(columns, dictionary.entries, name)
        if len(entries) == 0:
            found = np.full(columns.rows, "", object)
        elif len(codes) and int(codes.max()) >= len(entries):
            raise corrupt(
                columns, name, f"a code exceeds the {many(len(entries), 'string')} of the dictionary"
            )
        else:
            found = entries[codes]
    valid = all_valid(columns, column)
    if valid is not None:
        found[~valid] = None
    return found


def _texts(columns: FlatColumns, strings: Strings, name: str) -> NDArray[np.object_]:
    raw: Any = strings.data.checked()
    ends = strings.offsets.checked().tolist()
    if any(a > b for a, b in pairwise(ends)) or (ends and ends[-1] > len(raw)):
        raise corrupt(columns, name, "the offsets of its strings do not ascend, or exceed their bytes")
    data = raw.tobytes()
    found = np.empty(max(len(ends) - 1, 0), object)
    try:
        found[:] = [data[a:b].decode() for a, b in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise corrupt(columns, name, f"a string is not valid UTF-8 ({error.reason})") from None
    return found


def corrupt(columns: FlatColumns, name: str, what: str) -> CorruptionError:
    """The error for what cannot be right in the index of a column."""
    return CorruptionError(
        f"{columns.name}.idx, column {name!r}: {what}; run `unirecord repair {quote(columns.name)}` to "
        "rebuild the index",
        path=f"{columns.name}.idx",
        column=name,
    )


# The scalar columns of a part's mapped index, whoever reads them: views, each checked where it is touched.


_OPENED: WeakKeyDictionary[PartSet, list[PartColumns]] = WeakKeyDictionary()
Found = TypeVar("Found")


def columns_of(parts: PartSet | Sequence[FlatColumns]) -> Sequence[FlatColumns]:
    """The columns of each part of a set, opened when first needed and then kept; a list stays as it is."""
    if isinstance(parts, (list, tuple)):
        return parts
    whole = cast("PartSet", parts)
    whole.check_open()
    found = _OPENED.get(whole)
    if found is None:
        owner = ref(whole)  # the set lives on its own terms
        found = [
            PartColumns(partial(_open, owner, number), partial(_words, owner, number), part.path, part.rows)
            for number, part in enumerate(whole.snapshot.parts)
        ]
        _OPENED[whole] = found
    return found


def _open(owner: ref[PartSet], number: int) -> Part:
    parts = owner()
    if parts is None:
        raise ClosedError("the dataset has been closed")
    return parts.part(number)


def _words(owner: ref[PartSet], number: int, column: int, rows: npt.NDArray[np.int64]) -> Array:
    parts = owner()
    if parts is None:
        raise ClosedError("the dataset has been closed")
    found: Array = parts.read(rows + parts.starts[number], [column])[0].data
    return found


class PartColumns:
    """The scalar columns of the part at ``name`` of so many rows, which ``opening`` opens when it is first needed.

    ``words``: reads what is in no index, as the method says.
    """

    def __init__(
        self,
        opening: Callable[[], Part],
        words: Callable[[int, npt.NDArray[np.int64]], Array],
        name: str,
        rows: int,
    ) -> None:
        self.words = words
        self.name = name
        self.rows = rows
        self._opening = opening
        self._opened: Part | None = None
        self._vectors: dict[tuple[int, int], Vector | None] = {}
        self._zones: dict[int, Zones | None] = {}

    @property
    def _part(self) -> Part:
        if self._opened is None:
            self._opened = self._opening()
        return self._opened

    def confirm_rows(self) -> None:
        """Open the part, which is refused where its index has other rows than the manifest says."""
        _ = self._part

    def _vector(self, kind: int, column: int) -> Vector | None:
        key = (kind, column)
        if key not in self._vectors:
            found = self._part.vector(kind, column)
            self._vectors[key] = None if found is None else Vector(*found)
        return self._vectors[key]

    def _need(self, found: Found | None, column: int, what: str) -> Found:
        if found is None:
            name = self._part.schema[column].name
            raise corrupt(self, name, f"the index has no {what}")
        return found

    def values(self, column: int) -> Vector:
        """Values of a column of fixed width, anything where null."""
        return self._need(self._vector(layout.SECTION_VALUES, column), column, "values")

    def validity(self, column: int) -> Vector | None:
        """Bits, or None when the column is not nullable."""
        return self._vector(layout.SECTION_VALIDITY, column)

    def lengths(self, column: int) -> Vector:
        """Bytes of each cell, as stored, of a blob column where they differ."""
        return self._need(self._vector(layout.SECTION_LENGTHS, column), column, "lengths")

    def value_lengths(self, column: int) -> Vector:
        """Bytes of each value of a blob column of variable width."""
        return self._vector(layout.SECTION_RAW_LENGTHS, column) or self.lengths(column)

    def dictionary(self, column: int) -> Dictionary | None:
        """A string column as codes, or None when it is plain."""
        codes = self._vector(layout.SECTION_CODES, column)
        if codes is None:
            return None
        offsets = self._vector(layout.SECTION_DICTIONARY_OFFSETS, column)
        data = self._vector(layout.SECTION_DICTIONARY_ENTRIES, column)
        strings = Strings(self._need(offsets, column, "dictionary"), self._need(data, column, "dictionary"))
        return Dictionary(codes, strings)

    def strings(self, column: int) -> Strings:
        """A plain string column."""
        offsets = self._vector(layout.SECTION_STRING_OFFSETS, column)
        data = self._vector(layout.SECTION_STRING_BYTES, column)
        return Strings(self._need(offsets, column, "strings"), self._need(data, column, "strings"))

    def zones(self, column: int) -> Zones | None:
        """Zones of a column, or None when it has none."""
        if column not in self._zones:
            flags = self._vector(layout.SECTION_ZONE_FLAGS, column)
            bounds = self._vector(layout.SECTION_ZONES, column)
            found = None
            if flags is not None:
                values = None if bounds is None else bounds.whole()
                found = Zones(self._part.zone_rows(column), values, flags.whole())
            self._zones[column] = found
        return self._zones[column]

    def sorted_rows(self, column: int) -> Vector | None:
        """Row numbers by value, or None when the column is not indexed."""
        return self._vector(layout.SECTION_ORDER, column)

    def look_up(self, column: int) -> Vector | None:
        """Entries by the hashes of values, or None where the column has none."""
        return self._vector(layout.SECTION_LOOK_UP, column)

    def limits(self, column: int) -> tuple[Any, Any] | None:
        """The least and the greatest value as written, of strings their bytes; None where they are not known."""
        found = self._part.statistics[column]
        if found is None or found["min"] is None or found["max"] is None:
            return None
        least, greatest = found["min"], found["max"]
        return (least.encode(), greatest.encode()) if isinstance(least, str) else (least, greatest)

    @property
    def index_bytes(self) -> int:
        """Of its index, in all files that it has."""
        return self._part.index_bytes

    def bring(self) -> None:
        """Fetches, and checks, all of the index that is not there yet."""
        self._part.bring()


# What a scan of a part is made of, and the test of strings that the C core makes.


def match_strings(offsets: Array, data: Array, test: Between | Like) -> npt.NDArray[np.uint8]:
    """1 for each string that passes, else 0; the strings lie as in `columns.flat.Strings`."""
    if isinstance(test, Between):
        return match_between(offsets, data, test.low, test.high)
    return match_pattern(offsets, data, test.letters, test.kinds)


Mask = npt.NDArray[np.bool_]


class RowsAt:
    """Rows [start, stop) of a part, or the rows in ``rows`` where that is given."""

    start: int
    stop: int
    rows: npt.NDArray[np.int64] | None

    def __init__(self, start: int, stop: int, rows: npt.NDArray[np.int64] | None = None) -> None:
        self.start, self.stop, self.rows = start, stop, rows

    def __len__(self) -> int:
        return self.stop - self.start if self.rows is None else len(self.rows)

    def read(self, vector: Vector) -> Array:
        """The elements of these rows."""
        return vector.span(self.start, self.stop) if self.rows is None else vector.at(self.rows)

    def bits(self, vector: Vector) -> Mask:
        """The bits of these rows."""
        if self.rows is None:
            first = self.start // 8
            packed = vector.span(first, (self.stop + 7) // 8)
            unpacked = np.unpackbits(packed, bitorder="little").view(np.bool_)
            return unpacked[self.start - first * 8 : self.stop - first * 8]
        found = vector.at(self.rows >> 3) >> (self.rows & 7).astype(np.uint8)
        return (found & 1).astype(np.bool_)

    def numbers(self) -> npt.NDArray[np.int64]:
        """The row numbers themselves."""
        return np.arange(self.start, self.stop, dtype=np.int64) if self.rows is None else self.rows


class PartFields:
    """The columns of one part, with the pseudo columns: its number and the number of its first row."""

    columns: FlatColumns
    part: int
    base: int
    name: str
    rows: int

    def __init__(self, columns: FlatColumns, part: int, base: int) -> None:
        self.columns, self.part, self.base = columns, part, base
        self.name, self.rows = columns.name, columns.rows
        self._limits: dict[int, tuple[int, int]] = {}

    def values(self, field: Field, at: RowsAt) -> Array:
        """The numbers of a column at these rows, anything where null."""
        if field.ordinal == ROW:
            return at.numbers() + self.base
        if field.ordinal == PART:
            return np.full(len(at), self.part, np.int64)
        if field.type == WORDS:
            return joined_words(*self.words(field, at))
        return at.read(self.columns.values(field.ordinal))

    def words(self, field: Field, at: RowsAt) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
        """The low and the high words of decimals of two words at these rows, anything where null."""
        low, high = self.columns.words(field.ordinal, at.numbers()).T
        return low.view(np.uint64), high

    def valid(self, field: Field, at: RowsAt) -> Mask | None:
        """Which of these rows have a value; None for all."""
        vector = self.columns.validity(field.ordinal) if field.nullable else None
        return None if vector is None else at.bits(vector)

    def strings(self, field: Field, at: RowsAt) -> list[bytes]:
        """The strings of a column at these rows; anything where null."""
        dictionary = self.columns.dictionary(field.ordinal)
        if dictionary is not None:
            codes = at.read(dictionary.codes)
            distinct, where = np.unique(codes, return_inverse=True)
            if len(distinct) and int(distinct[-1]) >= max(len(dictionary.entries), 1):
                raise corrupt(self.columns, field.name, "a code has no entry in the dictionary")
            entries = [
                dictionary.entries[code] if len(dictionary.entries) else b"" for code in distinct.tolist()
            ]
            return [entries[place] for place in where.tolist()]
        return plain_strings(self.columns.strings(field.ordinal), at)

    def limits(self, field: Field) -> tuple[int, int]:
        """Bounds of a column of integers in this part."""
        if field.ordinal == ROW:
            return self.base, self.base + self.rows
        if field.ordinal == PART:
            return self.part, self.part
        if field.ordinal not in self._limits:
            self._limits[field.ordinal] = self._zone_limits(field)
        return self._limits[field.ordinal]

    def _zone_limits(self, field: Field) -> tuple[int, int]:
        zones = self.columns.zones(field.ordinal)
        if zones is None or zones.bounds is None or not (zones.flags & 4).any():
            return INTEGERS[field.type]
        bounds: Any = zones.bounds
        return min(int(bounds[:, 0].min()), 0), max(int(bounds[:, 1].max()), 0)  # 0 may stand where null


def joined_words(low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64]) -> Array:
    """Decimals of two words as integers of Python."""
    found: Array = high.astype(object) * (1 << 64) + low.astype(object)
    return found


def distinct_words(
    low: npt.NDArray[np.uint64], high: npt.NDArray[np.int64]
) -> tuple[Array, npt.NDArray[np.int64]]:
    """The different decimals of two words, ascending, as integers of Python, and which of them each one is."""
    order = np.lexsort((low, high))
    low, high = low[order], high[order]
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (low[1:] != low[:-1]) | (high[1:] != high[:-1])
    places = np.empty(len(order), np.int64)
    places[order] = np.cumsum(is_first) - 1
    return joined_words(low[is_first], high[is_first]), places


def part_fields(parts: PartSet | Sequence[FlatColumns]) -> Iterator[PartFields]:
    """The fields of each part, in order, and where its rows begin."""
    base = 0
    for number, columns in enumerate(columns_of(parts)):
        yield PartFields(columns, number, base)
        base += columns.rows


def plain_strings(strings: Strings, at: RowsAt) -> list[bytes]:
    """The strings of a plain column at these rows."""
    if at.rows is None:
        offsets = strings.offsets.span(at.start, at.stop + 1)
        if len(offsets) < 2:
            return []
        first = int(offsets[0])
        data = strings.data.span(first, int(offsets[-1])).tobytes()
        places = (offsets.astype(np.int64) - first).tolist()
        return [data[a:b] for a, b in pairwise(places)]
    return [strings[row] for row in at.rows.tolist()]


# Scalar columns of selected rows as arrays, from the indexes alone: no blob is read.


def scalar_arrays(parts: PartSet, names: Sequence[str], selection: Selection) -> dict[str, Any]:
    """Arrays [rows selected], in the order of the selection.

    A column of fixed width of a single part that is selected whole, or as a slice, is read-only, and a view of the
    mapped index where its values lie there one by one. Nullable columns are masked arrays; strings are object arrays of
    ``str``, None where null. SchemaError for a column that is not scalar.
    """
    parts.check_open()
    return {name: _column(parts, _scalar(parts, name), selection) for name in names}


def _scalar(parts: PartSet, name: str) -> int:
    ordinal = parts.schema.ordinal(name)
    parts.schema[ordinal].check_known()
    if parts.schema.columns[ordinal].is_blob:
        scalars = ", ".join(column.name for _, column in parts.schema.scalars)
        raise SchemaError(
            f"column {name!r} is not scalar: its values are in the data file; scalar columns are: {scalars}"
        )
    return ordinal


def _column(parts: PartSet, ordinal: int, selection: Selection) -> Any:
    column = parts.schema.columns[ordinal]
    if len(parts) == 1:
        values, valid = _of_part(columns_of(parts)[0], ordinal, column, _index(selection))
    else:
        values, valid = _gathered(parts, ordinal, column, selection)
    if column.is_string or valid is None:
        return values
    return np.ma.MaskedArray(values, mask=~valid)


def _of_part(
    part: FlatColumns, ordinal: int, column: Column, rows: slice | NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    if column.is_string:
        return all_strings(part, ordinal, column.name)[rows], None
    if isinstance(rows, slice) and rows.step in (None, 1):  # no other rows are looked at
        start, stop, _ = rows.indices(part.rows)
        return all_values(part, ordinal, start, stop), all_valid(part, ordinal, start, stop)
    values, valid = all_values(part, ordinal), all_valid(part, ordinal)
    return values[rows], None if valid is None else valid[rows]


def _index(selection: Selection) -> slice | NDArray[np.int64]:
    """What to index an array of all rows with."""
    if not selection.is_range:
        return selection.every()
    start, step, length = selection.start, selection.step, selection.length
    if length == 0:
        return slice(0, 0)
    stop = start + step * length
    return slice(start, None if stop < 0 else stop, step)


def _gathered(
    parts: PartSet, ordinal: int, column: Column, selection: Selection
) -> tuple[NDArray[Any], NDArray[np.bool_] | None]:
    """Over several parts: each part's share is put where the selection has it."""
    dtype = np.dtype(object) if column.is_string else np.dtype(column.dtype)
    values = np.empty(len(selection), dtype)
    valid = np.empty(len(selection), np.bool_) if column.nullable and not column.is_string else None
    for number, at, rows in _shares_of_parts(parts, selection):
        values[at], has_value = _of_part(columns_of(parts)[number], ordinal, column, rows)
        if valid is not None and has_value is not None:
            valid[at] = has_value
    return values, valid


def _shares_of_parts(
    parts: PartSet, selection: Selection
) -> Iterator[tuple[int, slice | NDArray[np.int64], slice | NDArray[np.int64]]]:
    """For each part with selected rows: its number, places in the selection, and rows in the part."""
    starts = parts.starts
    if selection.is_range and selection.step == 1:
        low, high = np.searchsorted(
            starts, [selection.start, selection.start + selection.length], side="right"
        )
        for number in range(max(int(low) - 1, 0), min(int(high), len(parts))):
            first = max(int(starts[number]), selection.start)
            stop = min(int(starts[number + 1]), selection.start + selection.length)
            if first < stop:
                at = slice(first - selection.start, stop - selection.start)
                yield number, at, slice(first - int(starts[number]), stop - int(starts[number]))
        return
    rows = selection.every()
    number_of = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(number_of).tolist():
        chosen = np.flatnonzero(number_of == number)
        yield number, chosen, rows[chosen] - starts[number]


# How long the value of each selected row is in a column, from the indexes alone, piece by piece: no blob is read.


Numbers = NDArray[np.int64]


def row_lengths(parts: PartSet, name: str, selection: Selection) -> Numbers:
    """The lengths [rows selected] of the values of a column, in the order of the selection.

    Of arrays with a free first dimension these are the entries along it, of bytes, text and objects their bytes, of a
    column of integers the integers themselves; 0 where null. SchemaError for any other column, and for integers below
    0.
    """
    parts.check_open()
    ordinal = parts.schema.ordinal(name)
    column = parts.schema.columns[ordinal]
    if column.is_blob and not column.fixed_bytes:
        entry = _entry_bytes(column)
        lengths = np.empty(len(selection), np.int64)
        for first, rows in selection.pieces():
            # A value that is cut in two is corrupt when it is read, which the loader is asked what to do about.
            lengths[first : first + len(rows)] = value_bytes(parts, ordinal, rows) // entry
        return lengths
    if column.is_blob or column.dtype is None or np.dtype(column.dtype).kind not in "iu":
        raise SchemaError(
            f"column {name!r} is {column.spec}: lengths are those of a column whose values differ in length, or the "
            "values of a column of integers"
        )
    values = scalar_arrays(parts, [name], selection)[name]
    lengths = np.asarray(np.ma.filled(values, 0)).astype(np.int64)
    if len(lengths) and int(lengths.min()) < 0:
        raise SchemaError(f"column {name!r} has {int(lengths.min())}, which is no length")
    return lengths


def element_lengths(parts: PartSet, name: str, selection: Selection, size: int) -> Iterator[Numbers]:
    """Elements of ``size`` bytes of the selected rows, in their order. CorruptionError where one is cut in two."""
    ordinal = parts.schema.ordinal(name)
    column = parts.schema.columns[ordinal]
    for _, rows in selection.pieces():
        if column.fixed_bytes:
            yield np.full(len(rows), column.fixed_bytes // size, np.int64)
            continue
        lengths, left = np.divmod(value_bytes(parts, ordinal, rows), size)
        if left.any():
            path, row = parts.locate(int(rows[np.flatnonzero(left)[0]]))
            raise _cut(path, row, column)
        yield lengths


def _entry_bytes(column: Column) -> int:
    """Bytes of what a length of a column of variable width counts."""
    if not column.is_array:
        return 1
    shape = column.shape or ()
    if column.dtype is None or column.free_dims != 1 or shape[0] != -1:
        raise SchemaError(
            f"column {column.name!r} is {column.spec}: only arrays whose first dimension is the one that is free have "
            "a length"
        )
    return max(column.dtype.itemsize * math.prod(shape[1:]), 1)


def _cut(path: str, row: int, column: Column) -> CorruptionError:
    message = f"{path}: row {row}, column {column.name!r}: its bytes are no whole number of {column.spec!r} elements"
    return CorruptionError(message, path=path, row=row, column=column.name)


def value_bytes(parts: PartSet, ordinal: int, rows: Numbers) -> Numbers:
    """Bytes of the cells of these rows in a blob column of variable width, from the indexes; 0 for null."""
    every = cast("Sequence[PartColumns]", columns_of(parts))
    starts: Numbers = parts.starts
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool(np.all(np.diff(rows) == 1)):
        first, stop = int(rows[0]), int(rows[-1]) + 1
        low, high = (np.searchsorted(starts, [first, stop - 1], side="right") - 1).tolist()
        found = [
            every[number].value_lengths(ordinal).span(max(first - base, 0), min(stop, end) - base)
            for number, base, end in zip(
                range(low, high + 1), starts[low:].tolist(), starts[low + 1 :].tolist(), strict=False
            )
            if base < end
        ]
        return np.concatenate(found).astype(np.int64)
    lengths = np.empty(len(rows), np.int64)
    number_of = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(number_of).tolist():
        chosen = np.flatnonzero(number_of == number)
        lengths[chosen] = every[number].value_lengths(ordinal).at(rows[chosen] - starts[number])
    return lengths
