"""Scalar columns of parts as flat arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary, ref

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..errors import ClosedError, CorruptionError
from ..format import layout
from ..order.split import Cells
from ..snapshot.part_set import PartSet

if TYPE_CHECKING:
    from ..snapshot.part import Part

__all__ = [
    "all_strings",
    "all_valid",
    "all_values",
    "corrupt",
    "stored_cells",
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


# The scalar columns of a part's mapped index as flat arrays: views, each checked where it is touched.


# The scalar columns of one part as flat arrays, each checked where it is touched, with their zones and sorted rows.


Array = npt.NDArray[Any]
BLOCK_BYTES = 1 << 16  # scattered reads are checked by blocks


class Vector:
    """A flat array, and the check that its elements [start, stop) are what was written.

    Safe to share between threads: at worst a block is checked twice.
    """

    def __init__(self, array: Array, check: Callable[[int, int], None] | None = None) -> None:
        self.array = array
        self._check = check
        self._sound = False  # all of it has been checked
        self.swept = False  # `check` has been called for all of it, so that all is known to be sound
        self._seen: set[int] = set()  # blocks checked for reads of a few elements
        self._per_block = max(1, BLOCK_BYTES // max(array.itemsize, 1))

    def __len__(self) -> int:
        return len(self.array)

    def check(self, start: int, stop: int) -> None:
        """Checks elements [start, stop), those not checked before."""
        if self._check is None or self._sound or start >= stop:
            return
        first, last = start // self._per_block, (stop - 1) // self._per_block
        if last - first > 1:
            self._check(start, stop)
            return
        for block in (first,) if first == last else (first, last):
            if block not in self._seen:
                self._check_block(block, self._check)

    def _check_block(self, block: int, check: Callable[[int, int], None]) -> None:
        check(block * self._per_block, min((block + 1) * self._per_block, len(self.array)))
        self._seen.add(block)

    def span(self, start: int, stop: int) -> Array:
        """Elements [start, stop)."""
        self.check(start, stop)
        return self.array[start:stop]

    def whole(self) -> Array:
        """All elements."""
        if not self._sound:
            self.checked()
            self._sound = True
        return self.array

    def checked(self) -> Array:
        """All elements, to be handed out: also checked when they have been before, as the file may have been cut."""
        if self._check is not None and len(self.array):
            self._check(0, len(self.array))
        return self.array

    def at(self, places: npt.NDArray[np.integer[Any]]) -> Array:
        """The elements at these places."""
        if self._check is not None and not self._sound:
            blocks = np.unique(places // self._per_block)
            if len(blocks) * self._per_block * 2 > len(self.array):
                return self.whole()[places]  # type: ignore[no-any-return]
            for block in blocks.tolist():
                self.check(block * self._per_block, block * self._per_block + 1)
        return self.array[places]  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Zones:
    """Per zone of ``rows`` rows: least and greatest value in ``bounds`` [n, 2], and flags as in docs/format.md."""

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
        """Values of a column of fixed width, zero where null."""

    def validity(self, column: int) -> Vector | None:
        """Bits, as in docs/format.md, or None when no value is null."""

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


# All values of a scalar column of one part, as arrays.


def all_values(columns: FlatColumns, column: int) -> Array:
    """The values [rows] of a column of fixed width, zero where null: a read-only view that keeps the part open."""
    return columns.values(column).checked()


def all_valid(columns: FlatColumns, column: int) -> NDArray[np.bool_] | None:
    """Which rows have a value, or None when the column is not nullable."""
    bits = columns.validity(column)
    if bits is None:
        return None
    return np.unpackbits(bits.checked(), count=columns.rows, bitorder="little").view(np.bool_)


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
            raise corrupt(columns, name, f"a code exceeds the {len(entries)} strings of the dictionary")
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
        f"{columns.name}.idx, column {name!r}: {what}; run `unirecord repair {columns.name}` to rebuild the index",
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
            PartColumns(partial(_open, owner, number), part.path, part.rows)
            for number, part in enumerate(whole.snapshot.parts)
        ]
        _OPENED[whole] = found
    return found


def _open(owner: ref[PartSet], number: int) -> Part:
    parts = owner()
    if parts is None:
        raise ClosedError("the dataset has been closed")
    return parts.part(number)


class PartColumns:
    """The scalar columns of the part at ``name`` of so many rows, which ``opening`` opens when it is first needed."""

    def __init__(self, opening: Callable[[], Part], name: str, rows: int) -> None:
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
        """Values of a column of fixed width, zero where null."""
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
        data = self._vector(layout.SECTION_DICTIONARY_BYTES, column)
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
