"""The fields of a query in one part: its columns and the pseudo columns, read at a span of rows or at numbered ones."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

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
from ..core import NumberOp as NumberOp
from ..core import NumberStep as NumberStep
from ..core import Program as Program
from ..core import Step as Step
from ..core import match_between, match_pattern
from ..core import take_marked as take_marked
from .flat import Array, FlatColumns, Strings, Vector, corrupt
from .tree import PART, ROW, Between, Field, Like
from .value_range import INTEGERS

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
        """The numbers of a column at these rows, zero where null."""
        if field.ordinal == ROW:
            return at.numbers() + self.base
        if field.ordinal == PART:
            return np.full(len(at), self.part, np.int64)
        return at.read(self.columns.values(field.ordinal))

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
        return min(int(bounds[:, 0].min()), 0), max(int(bounds[:, 1].max()), 0)  # 0 stands where null


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
