"""Which rows of a dataset are in play, and in which base order: an immutable range or array of rows."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import Order, xxh3_64
from .spec import OrderSpec, check_integer

__all__ = ["Selection"]

Rows = npt.NDArray[np.int64]

_CHUNK = 1 << 20
_SPLIT_EPOCH = (1 << 64) - 1  # no dataset reaches it, so a split never follows the order of an epoch


class Selection:
    """``length`` rows of a dataset of ``rows`` rows: start, start + step, ..., or those of an array of int64.

    Arrays that are ranges become ranges, so that equal selections have equal digests and cost no memory. The
    arrays are read-only and are shared, not copied, by ``take``, ``skip`` and slices.
    """

    __slots__ = ("_ascending", "_digest", "array", "length", "rows", "start", "step")

    def __init__(
        self, rows: int, start: int = 0, step: int = 1, length: int | None = None, array: Rows | None = None
    ) -> None:
        self.rows = check_integer("rows", rows, 0)
        self.array: Rows | None = None
        self.start, self.step = start, step
        self.length = rows if length is None else length
        self._digest: str | None = None
        self._ascending: bool | None = None
        if array is not None:
            self._use(array)

    def _use(self, array: Rows) -> None:
        progression = _as_range(array)
        if progression is None:
            self.array = np.ascontiguousarray(array).view()  # C reads it
            self.array.flags.writeable = False
            self.start, self.step, self.length = 0, 1, len(array)
        else:
            self.start, self.step, self.length = progression

    def __len__(self) -> int:
        return self.length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        kind = f"start={self.start}, step={self.step}" if self.array is None else "array"
        return f"Selection({self.length} of {self.rows} rows, {kind})"

    @property
    def is_all(self) -> bool:
        """Whether it is every row, in the order of the dataset."""
        return self.array is None and self.length == self.rows and (self.start, self.step) == (0, 1)

    def as_c(self) -> tuple[Rows | None, int, int, int]:
        """(array or None, start, step, length), as the C loader takes it."""
        return self.array, self.start, self.step, self.length

    def row_ids(self, indexes: npt.NDArray[np.int64]) -> Rows:
        """The rows of the dataset at ``indexes`` of the selection, which must be in range."""
        if self.array is None:
            return indexes * self.step + self.start
        return self.array[indexes]

    def __getitem__(self, index: int) -> int:
        length = self.length
        if not -length <= index < length:
            raise IndexError(f"row {index} is out of range: there are {length} rows")
        index = index + length if index < 0 else index
        return self.start + index * self.step if self.array is None else int(self.array[index])

    # ---- narrower selections -------------------------------------------------------------------------------

    def slice(self, rows: slice) -> Selection:
        """The rows of a Python slice; clipped like one of a list."""
        start, stop, step = rows.indices(self.length)
        length = len(range(start, stop, step))
        if self.array is not None:
            first, last = (start, start + length * step) if length else (0, 0)
            return Selection(self.rows, array=self.array[first : None if last < 0 else last : step])
        return _progression(self.rows, self.start + start * self.step, self.step * step, length)

    def take(self, n: int) -> Selection:
        """The first n rows, or all if there are fewer."""
        return self.slice(slice(0, check_integer("take(n): n", n, 0)))

    def skip(self, n: int) -> Selection:
        """All but the first n rows."""
        return self.slice(slice(check_integer("skip(n): n", n, 0), None))

    def select(self, rows: Any) -> Selection:
        """The rows with these numbers in this selection, in the order given, twice where given twice.

        ``rows``: a slice, a range, integers (negative ones count from the end), or a mask of one bool per
        row.
        """
        if isinstance(rows, slice):
            return self.slice(rows)
        if isinstance(rows, range):
            self._check_range(rows)
            if len(rows) == 0 or rows[0] >= 0 <= rows[-1]:
                first = rows[0] if len(rows) else 0
                return self._at_progression(first, rows.step, len(rows))
        indexes = _indexes(rows, self.length)
        return Selection(self.rows, array=self.row_ids(indexes))

    def _check_range(self, rows: range) -> None:
        for row in (rows[0], rows[-1]) if len(rows) else ():
            if not -self.length <= row < self.length:
                raise IndexError(f"row {row} is out of range: there are {self.length} rows")

    def _at_progression(self, first: int, step: int, length: int) -> Selection:
        if self.array is None:
            return _progression(self.rows, self.start + first * self.step, self.step * step, length)
        return Selection(self.rows, array=self.array[first + step * np.arange(length, dtype=np.int64)])

    def where_rows(self, row_ids: Rows) -> Selection:
        """Those rows whose number in the dataset is in ``row_ids`` (sorted, distinct), in order."""
        found = np.ascontiguousarray(row_ids, dtype=np.int64)
        if len(found) and not 0 <= found[0] <= found[-1] < self.rows:
            raise IndexError(
                f"rows {found[0]} … {found[-1]} are not all among the {self.rows} rows of the dataset"
            )
        if self.is_all:
            return Selection(self.rows, array=found)
        kept = [part[_contains(found, part)] for part in self._chunks()]
        return Selection(self.rows, array=np.concatenate(kept) if kept else np.empty(0, np.int64))

    def _chunks(self) -> Any:
        for first in range(0, self.length, _CHUNK):
            yield self.row_ids(np.arange(first, min(first + _CHUNK, self.length), dtype=np.int64))

    def split(self, sizes: float | Sequence[float], seed: int | None = 0) -> list[Selection]:
        """Disjoint selections that together are this one, from fractions (sum 1) or counts (sum: its length).

        A single size is that part, and the rest.

        With a seed each row is dealt to a part at random, always the same for the same seed and length;
        without one the parts are runs of neighbours. Rows keep their order inside a part: order is the
        business of ``shuffle``.
        """
        sizes = _with_rest(sizes, self.length)
        bounds = split_bounds(sizes, self.length)
        if seed is None:
            return [self.slice(slice(a, b)) for a, b in pairwise(bounds)]
        check_integer("seed", seed, 0, (1 << 64) - 1)
        labels = self._deal(bounds, seed)
        return [
            Selection(self.rows, array=self.row_ids(np.flatnonzero(labels == k))) for k in range(len(sizes))
        ]

    def _deal(self, bounds: list[int], seed: int) -> npt.NDArray[Any]:
        """For each row the number of its part: the one whose bounds its place in a shuffle falls between."""
        labels = np.empty(self.length, np.min_scalar_type(len(bounds)))
        order = Order(self.length, OrderSpec("shuffle", seed, _SPLIT_EPOCH))
        ends = np.array(bounds[1:-1], np.int64)
        for first in range(0, self.length, _CHUNK):
            rows = np.arange(first, min(first + _CHUNK, self.length), dtype=np.int64)
            labels[first : first + len(rows)] = np.searchsorted(ends, order.inverse(rows), side="right")
        return labels

    # ---- what others need to know --------------------------------------------------------------------------

    def places(self, row_ids: Rows) -> tuple[Rows, Rows]:
        """(which of ``row_ids``, its place in the selection), for each place at which one of them stands."""
        if self.array is None:
            place, off = np.divmod(row_ids - self.start, self.step)
            which = np.flatnonzero((off == 0) & (place >= 0) & (place < self.length))
            return which, place[which]
        sorter = None if self._ascends() else np.argsort(self.array, kind="stable")
        first = np.searchsorted(self.array, row_ids, "left", sorter)
        counts = np.searchsorted(self.array, row_ids, "right", sorter) - first
        which = np.repeat(np.arange(len(row_ids), dtype=np.int64), counts)
        sorted_place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + first[which]
        return which, sorted_place if sorter is None else sorter[sorted_place]

    def _ascends(self) -> bool:
        """Whether the array is in order; looked at once."""
        if self._ascending is None:
            array = self.array
            self._ascending = array is None or not any(
                np.any(np.diff(array[first : first + _CHUNK + 1]) < 0)
                for first in range(0, len(array), _CHUNK)
            )
        return self._ascending

    def digest(self) -> str:
        """16 hex digits of what is selected: equal for equal selections, constant size, computed once."""
        if self._digest is None:
            head = np.array([self.rows, self.length, self.start, self.step], "<i8").tobytes()
            body = b"" if self.array is None else np.ascontiguousarray(self.array, "<i8")
            self._digest = f"{xxh3_64(body, xxh3_64(head, int(self.array is not None))):016x}"
        return self._digest

    def part_rows(self, part_starts: Rows) -> Rows:
        """How many selected rows each part has, for the orders by parts.

        ``part_starts`` has the end of the last part too. Where rows of a part do not lie together in the
        selection, each run of rows of one part counts as a part.
        """
        parts = len(part_starts) - 1
        if self.array is None and self.step == 1:
            edges = np.clip(part_starts, self.start, self.start + self.length)
            return np.diff(edges)
        counts = np.zeros(parts, np.int64)
        runs: list[Rows] = []
        last, sorted_so_far = -1, True
        for rows in self._chunks():
            part = np.searchsorted(part_starts, rows, side="right") - 1
            sorted_so_far = sorted_so_far and bool(part[0] >= last) and bool(np.all(part[1:] >= part[:-1]))
            last = int(part[-1])
            counts += np.bincount(part, minlength=parts)
            runs.append(part)
        if sorted_so_far:
            return counts
        every = np.concatenate(runs)
        edges = np.flatnonzero(np.diff(every)) + 1
        return np.diff(np.concatenate([[0], edges, [len(every)]])).astype(np.int64)


def _with_rest(sizes: float | Sequence[float], length: int) -> Sequence[float]:
    """Sizes as a list; a single number is the first of two."""
    if isinstance(sizes, bool) or not isinstance(sizes, (int, float, np.integer, np.floating)):
        return sizes  # type: ignore[return-value]
    whole = isinstance(sizes, (int, np.integer))
    if not 0 <= sizes <= (length if whole else 1):
        raise ValueError(f"split({sizes}) must be a fraction from 0.0 to 1.0, or a count from 0 to {length}")
    return [sizes, (length if whole else 1) - sizes]


def split_bounds(sizes: Sequence[float], length: int) -> list[int]:
    """0, the ends of the parts, ..., length. It is the ends that are rounded, so the sizes sum up exactly."""
    if len(sizes) == 0:
        raise ValueError("split() needs at least one size")
    if all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in sizes):
        counts = [check_integer("a size of split()", size, 0) for size in sizes]
        if sum(counts) == length:
            return [sum(counts[:k]) for k in range(len(counts) + 1)]
        if counts != [1]:
            raise ValueError(f"split() has sizes that sum to {sum(counts)}, but there are {length} rows")
    exact = [Fraction(float(size)).limit_denominator(10**9) for size in sizes]
    total = sum(exact, Fraction(0))
    if min(exact) < 0 or abs(total - 1) > Fraction(1, 10**6):
        raise ValueError(
            f"split() has the fractions {list(sizes)}, which sum to {float(total):g}; "
            "they must be ≥ 0 and sum to 1"
        )
    ends = [int(sum(exact[:k], Fraction(0)) * length + Fraction(1, 2)) for k in range(1, len(exact))]
    return [0, *(min(end, length) for end in ends), length]


def _progression(rows: int, start: int, step: int, length: int) -> Selection:
    """A range in the one form that equal ranges share."""
    if length == 0:
        start = 0
    return Selection(rows, start, step if length > 1 else 1, length)


def _as_range(array: Rows) -> tuple[int, int, int] | None:
    """(start, step, length) of an array that is one, with a step other than 0."""
    length = len(array)
    if length < 2:
        return (int(array[0]), 1, 1) if length else (0, 1, 0)
    step = int(array[1]) - int(array[0])
    if step == 0 or int(array[-1]) - int(array[0]) != step * (length - 1):
        return None
    for first in range(0, length - 1, _CHUNK):
        piece = array[first : first + _CHUNK + 1]
        if not np.all(np.diff(piece) == step):
            return None
    return int(array[0]), step, length


def _indexes(rows: Any, length: int) -> Rows:
    """Row numbers as a checked array of non-negative int64."""
    given = np.asarray(rows)
    if given.ndim != 1:
        raise ValueError(f"rows must be a flat sequence of row numbers, not of shape {given.shape}")
    if given.dtype == np.bool_:
        if len(given) != length:
            raise ValueError(f"the mask has {len(given)} values, but there are {length} rows")
        return np.flatnonzero(given)
    if len(given) == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise TypeError(f"rows must be integers, not {given.dtype}")
    outside = np.flatnonzero((given < -length) | (given >= length))
    if len(outside):
        raise IndexError(f"row {given[outside[0]]} is out of range: there are {length} rows")
    indexes = given.astype(np.int64)
    return np.where(indexes < 0, indexes + length, indexes)


def _contains(haystack: Rows, values: Rows) -> npt.NDArray[np.bool_]:
    """For each value, whether it is in the sorted haystack."""
    if len(haystack) == 0:
        return np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(haystack, values), len(haystack) - 1)
    return np.asarray(haystack[place] == values)
