"""The scalar columns of a part's mapped index, whoever reads them: views, each checked where it is touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakKeyDictionary, ref

from ..errors import ClosedError
from ..format import layout
from .flat import Dictionary, FlatColumns, Strings, Vector, Zones
from .whole import corrupt

if TYPE_CHECKING:
    from ..parts.part import Part
    from ..parts.part_set import PartSet

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
