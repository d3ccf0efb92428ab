"""The scalar columns of one part as flat arrays, each checked where it is touched, with their zones and sorted rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

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
