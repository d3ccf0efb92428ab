"""Which rows of a dataset are selected, and in which base order: an immutable range, array or bitmap of rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from ..core import Bitmap, Order, add_rows, bitmap_bytes, empty_words, xxh3_64
from ..sizes import many
from .spec import OrderSpec, check_integer
from .split import split_bounds, with_rest

__all__ = [
    "CHUNK",
    "FoundRows",
    "Selection",
    "Sieve",
    "are_in",
    "as_range",
    "climbs",
    "each_once",
    "indexes_of",
    "row_numbers",
]


# Arrays of row numbers: whether they are a range, whether they ascend, which of them are in others.


Rows = npt.NDArray[np.int64]

CHUNK = 1 << 20  # rows looked at together


def as_range(length: int, run: Callable[[int, int], Rows]) -> tuple[int, int, int] | None:
    """(start, step, length) of rows that are one, with a step other than 0; ``run(first, count)`` gives them."""
    if length < 2:
        return (int(run(0, 1)[0]), 1, 1) if length else (0, 1, 0)
    start, second = run(0, 2).tolist()
    step = second - start
    if step == 0 or int(run(length - 1, 1)[0]) - start != step * (length - 1):
        return None
    for first in range(0, length - 1, CHUNK):
        if not np.all(np.diff(run(first, CHUNK + 1)) == step):
            return None
    return start, step, length


def climbs(array: Rows) -> bool:
    """Whether each is more than the one before."""
    return all(np.all(np.diff(array[first : first + CHUNK + 1]) > 0) for first in range(0, len(array), CHUNK))


def indexes_of(rows: Any, length: int) -> Rows:
    """Row numbers as a checked array of non-negative int64."""
    given = np.asarray(rows)
    if given.ndim != 1:
        text = given.dtype.kind == "U"
        told = (
            f"the text {str(given)!r}: for a condition use ds.view(where=…)"
            if text
            else f"of shape {given.shape}"
        )
        raise ValueError(f"rows must be a flat sequence of row numbers, not {told}")
    if given.dtype == np.bool_:
        if len(given) != length:
            raise ValueError(f"the mask has {many(len(given), 'value')}, but there are {many(length, 'row')}")
        return np.flatnonzero(given)
    if len(given) == 0:
        return np.empty(0, np.int64)
    if given.dtype.kind not in "iu":
        raise TypeError(f"rows must be integers, not {given.dtype}")
    outside = np.flatnonzero((given < -length) | (given >= length))
    if len(outside):
        raise IndexError(f"row {given[outside[0]]} is out of range: there are {many(length, 'row')}")
    indexes = given.astype(np.int64)
    return np.where(indexes < 0, indexes + length, indexes)


def are_in(haystack: Rows | Bitmap, values: Rows) -> npt.NDArray[np.bool_]:
    """For each value, whether it is in the sorted haystack."""
    if isinstance(haystack, Bitmap):
        return haystack.contains(values)
    if len(haystack) == 0:
        return np.zeros(len(values), np.bool_)
    place = np.minimum(np.searchsorted(haystack, values), len(haystack) - 1)
    return np.asarray(haystack[place] == values)


class Sieve:
    """Keeps back most rows that are not among some: a flag for each of their lowest digits, at most 16 bytes a row."""

    def __init__(self, rows: Rows) -> None:
        self._mask = (1 << (8 * len(rows)).bit_length()) - 1
        self._flags = np.zeros(self._mask + 1, np.bool_)
        self._flags[rows & self._mask] = True

    def passes(self, rows: Rows) -> Rows:
        """Which of these may be among them: all that are, and at most about one in eight of the others."""
        return np.flatnonzero(self._flags[rows & self._mask])


# Rows as a caller names them, by their numbers in the dataset: checked, and each once.


Numbers = NDArray[np.int64]


def row_numbers(rows: Any, total: int) -> Numbers:
    """One number or a list of them, as given; TypeError for others, IndexError where the ``total`` rows have none such.

    A negative number is none either: what is deleted, excluded or asked for is named without counting from the end.
    """
    asked = np.atleast_1d(np.asarray(rows))
    if asked.size == 0 and asked.ndim == 1:
        return np.empty(0, np.int64)
    if asked.dtype.kind not in "iu" or asked.ndim != 1:
        given = repr(rows) if isinstance(rows, str) else f"{asked.dtype} of shape {asked.shape}"
        hint = (
            "; ds.view(where=…).order.row_ids() are those that meet a condition"
            if isinstance(rows, str)
            else ""
        )
        raise TypeError(f"rows are integers, not {given}{hint}")
    outside = asked[(asked < 0) | (asked >= total)]
    if len(outside):
        raise IndexError(f"there is no row {outside[0]}: the dataset has {many(total, 'row')}")
    return asked.astype(np.int64)


def each_once(numbers: Numbers) -> Numbers:
    """Ascending; `numpy.unique` hashes integers, which takes seconds for a million of them."""
    ascending = np.sort(numbers)
    return ascending[np.append(True, ascending[1:] != ascending[:-1])] if len(ascending) else ascending


# Rows that are found piece by piece, in ascending order each once, kept in as little memory as holds them.


class FoundRows:
    """Some of ``rows`` rows: their numbers as long as they are few, from then on a bitmap.

    Pieces may come from several threads and in any order, but no two may have a row in common.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._lock = threading.Lock()
        self._pieces: list[Rows] = []
        self._count = 0
        self._words: npt.NDArray[np.uint64] | None = None

    def add(self, found: Rows) -> None:
        """Takes a piece, ascending; it is copied where it is kept."""
        with self._lock:
            if self._words is None:
                self._pieces.append(found.copy())
                self._count += len(found)
                if 8 * self._count > bitmap_bytes(self._rows, min(self._count, self._rows)):
                    self._words = empty_words(self._rows)
                    for piece in self._pieces:
                        add_rows(self._words, self._rows, piece)
                    self._pieces.clear()
                return
        add_rows(self._words, self._rows, found)

    def all(self) -> Rows | Bitmap:
        """What has been found, ascending; nothing more can be added."""
        if self._words is not None:
            return Bitmap(self._words, self._rows)
        pieces = sorted((piece for piece in self._pieces if len(piece)), key=lambda piece: int(piece[0]))
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)


# Which rows of a dataset are in play, and in which base order: an immutable range, array or bitmap of rows.


_MUCH_LARGER = 64  # a bitmap is not kept for rows that so small a part of its memory holds
_SPLIT_EPOCH = (1 << 64) - 1  # no dataset reaches it, so a split never follows the order of an epoch


class Selection:
    """``length`` rows of a dataset of ``rows`` rows: a range of all rows, an array of int64, or a range of a bitmap's.

    What is a range becomes one, so that equal selections have equal digests and cost no memory; ascending rows are
    held as the smaller of an array (8 bytes a row) and a bitmap (1.27 bits for each row of the dataset). Both are
    read-only and are shared, not copied, by ``take``, ``skip`` and slices.
    """

    start: int
    step: int

    __slots__ = (
        "_ascending",
        "_digest",
        "_repeats",
        "_sieve",
        "array",
        "bitmap",
        "length",
        "rows",
        "start",
        "step",
    )

    def __init__(
        self,
        rows: int,
        start: int = 0,
        step: int = 1,
        length: int | None = None,
        array: Rows | None = None,
        bitmap: Bitmap | None = None,
    ) -> None:
        """A range, of the bitmap's rows where there is one; or an array."""
        self.rows: int = check_integer("rows", rows, 0)
        self.array: Rows | None = None
        self.bitmap = bitmap
        self.start, self.step = start, step
        self.length: int = (rows if bitmap is None else bitmap.ones) if length is None else length
        self._digest: str | None = None
        self._ascending: bool | None = None
        self._repeats: bool | None = None
        self._sieve: Sieve | None = None
        if array is not None:
            self._use(array)
        elif bitmap is not None:
            self._use_bitmap(bitmap)

    def _use(self, array: Rows) -> None:
        progression = as_range(len(array), lambda first, count: array[first : first + count])
        if progression is not None:
            self.start, self.step, self.length = progression
            return
        if 8 * len(array) > bitmap_bytes(self.rows, min(len(array), self.rows)) and climbs(array):
            words = empty_words(self.rows)
            add_rows(words, self.rows, array)
            self.bitmap = Bitmap(words, self.rows)
        else:
            self.array = np.ascontiguousarray(array).view()  # C reads it
            self.array.flags.writeable = False
        self.start, self.step, self.length = 0, 1, len(array)

    def _use_bitmap(self, bitmap: Bitmap) -> None:
        progression = as_range(self.length, self._run)
        if progression is not None:
            self.start, self.step, self.length = progression
            self.bitmap = None
        elif 8 * self.length <= bitmap.nbytes // _MUCH_LARGER:
            self.array = self.every()  # rather than keep all of the bitmap for it
            self.array.flags.writeable = False
            self.start, self.step, self.bitmap = 0, 1, None

    def __len__(self) -> int:
        return self.length

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selection) and self.digest() == other.digest()

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        kind = f"start={self.start}, step={self.step}"
        if not self.is_range:
            kind = "array" if self.bitmap is None else f"bitmap, {kind}"
        return f"Selection({self.length} of {many(self.rows, 'row')}, {kind})"

    def __reduce__(self) -> tuple[Any, ...]:
        array, bitmap = self.array, self.bitmap
        if bitmap is not None and 8 * self.length < bitmap.nbytes:
            array, bitmap = self.every(), None
        return Selection, (self.rows, self.start, self.step, self.length, array, bitmap)

    @property
    def is_range(self) -> bool:
        """Whether it is rows of the dataset a step apart."""
        return self.array is None and self.bitmap is None

    @property
    def is_all(self) -> bool:
        """Whether it is every row, in the order of the dataset."""
        return self.is_range and self.length == self.rows and (self.start, self.step) == (0, 1)

    @property
    def repeats(self) -> bool:
        """Whether a row is in it more often than once; it is looked for once."""
        if self._repeats is None:
            self._repeats = self.length > 1 and self.step == 0
            if self.array is not None and not climbs(self.array):
                self._repeats = _distinct(self.array, self.rows) < self.length
        return self._repeats

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the selected rows take, with those that others share."""
        return 0 if self.is_range else self._held().nbytes

    def _held(self) -> Rows | Bitmap:
        held = self.array if self.bitmap is None else self.bitmap
        assert held is not None
        return held

    def as_c(self) -> tuple[Rows | Bitmap | None, int, int, int]:
        """(array, bitmap or None, start, step, length), as the C loader takes it."""
        return None if self.is_range else self._held(), self.start, self.step, self.length

    def row_ids(self, indexes: npt.NDArray[np.int64]) -> Rows:
        """The rows of the dataset at ``indexes`` of the selection, which must be in range."""
        if self.array is not None:
            return self.array[indexes]
        places = indexes * self.step + self.start
        return places if self.bitmap is None else self.bitmap.select(places)

    def every(self) -> Rows:
        """All rows of it, 8 bytes each."""
        return self._run(0, self.length)

    def _run(self, first: int, count: int) -> Rows:
        """The rows at ``count`` neighbouring places; fewer at the end."""
        count = max(min(count, self.length - first), 0)
        if self.bitmap is not None and self.step == 1:
            return self.bitmap.range(self.start + first, count)
        return self.row_ids(np.arange(first, first + count, dtype=np.int64))

    def __getitem__(self, index: int) -> int:
        length = self.length
        if not -length <= index < length:
            raise IndexError(f"row {index} is out of range: there are {many(length, 'row')}")
        index = index + length if index < 0 else index
        if self.array is not None:
            return int(self.array[index])
        place = self.start + index * self.step
        return place if self.bitmap is None else self.bitmap.one(place)

    # ---- narrower selections -------------------------------------------------------------------------------

    def slice(self, rows: slice) -> Selection:
        """The rows of a Python slice; clipped like one of a list."""
        start, stop, step = rows.indices(self.length)
        length = len(range(start, stop, step))
        if self.array is not None:
            first, last = (start, start + length * step) if length else (0, 0)
            return Selection(self.rows, array=self.array[first : None if last < 0 else last : step])
        return self._progression(self.start + start * self.step, self.step * step, length)

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
        given = np.asarray(rows)
        if given.dtype == np.bool_ and given.shape == (self.length,) and self._climbs():
            return self._kept(lambda first, found: given[first : first + len(found)])
        return Selection(self.rows, array=self.row_ids(indexes_of(given, self.length)))

    def _check_range(self, rows: range) -> None:
        for row in (rows[0], rows[-1]) if len(rows) else ():
            if not -self.length <= row < self.length:
                raise IndexError(f"row {row} is out of range: there are {many(self.length, 'row')}")

    def _at_progression(self, first: int, step: int, length: int) -> Selection:
        if self.array is None:
            return self._progression(self.start + first * self.step, self.step * step, length)
        return Selection(self.rows, array=self.array[first + step * np.arange(length, dtype=np.int64)])

    def _progression(self, start: int, step: int, length: int) -> Selection:
        """A range in the one form that equal ranges share."""
        start, step = (0 if length == 0 else start), (step if length > 1 else 1)
        return Selection(self.rows, start, step, length, bitmap=self.bitmap)

    def _climbs(self) -> bool:
        """Whether its rows ascend, none twice, as what a bitmap can hold."""
        return self.step > 0 and (self.array is None or climbs(self.array))

    def _kept(self, keep: Callable[[int, Rows], npt.NDArray[np.bool_]]) -> Selection:
        """Those of its rows, which ascend, for which ``keep(place of the first, rows)`` says so, a piece at a time."""
        found = FoundRows(self.rows)
        for first, rows in self.pieces():
            found.add(rows[keep(first, rows)])
        return Selection._of(self.rows, found.all())

    @staticmethod
    def _of(rows: int, found: Rows | Bitmap) -> Selection:
        if isinstance(found, Bitmap):
            return Selection(rows, bitmap=found)
        return Selection(rows, array=found)

    def where_rows(self, found: Rows | Bitmap) -> Selection:
        """Those rows whose number in the dataset is in ``found`` (sorted, distinct), in order."""
        if not isinstance(found, Bitmap):
            found = np.ascontiguousarray(found, dtype=np.int64)
            if len(found) and not 0 <= found[0] <= found[-1] < self.rows:
                raise IndexError(
                    f"rows {found[0]} … {found[-1]} are not all among the {many(self.rows, 'row')} "
                    f"of the dataset"
                )
        if self.is_all:
            return Selection._of(self.rows, found)
        if self._climbs():
            return self._kept(lambda _, rows: are_in(found, rows))
        kept = [rows[are_in(found, rows)] for _, rows in self.pieces()]
        return Selection(self.rows, array=np.concatenate(kept) if kept else np.empty(0, np.int64))

    def pieces(self) -> Iterator[tuple[int, Rows]]:
        """Place of the first, and rows, of pieces of it."""
        for first in range(0, self.length, CHUNK):
            yield first, self._run(first, CHUNK)

    def split(self, sizes: float | Sequence[float], seed: int | None = 0) -> list[Selection]:
        """Disjoint selections that together are this one, from fractions (sum 1) or counts (sum: its length).

        A single size is that part, and the rest.

        With a seed each row is dealt to a part at random, always the same for the same seed and length;
        without one the parts are runs of neighbours. Rows keep their order inside a part: order is the
        business of ``shuffle``.
        """
        sizes = with_rest(sizes, self.length)
        bounds = split_bounds(sizes, self.length)
        if seed is None:
            return [self.slice(slice(a, b)) for a, b in pairwise(bounds)]
        check_integer("seed", seed, 0, (1 << 64) - 1)
        return self.dealt(self._dealer(bounds, seed), len(sizes))

    def dealt(self, deal: Callable[[int, Rows], npt.NDArray[Any]], parts: int) -> list[Selection]:
        """Its rows in as many parts: ``deal(place of the first, rows)`` numbers the part of each, called in order."""
        if not self._climbs():
            none = [np.empty(0, np.min_scalar_type(parts))]
            labels = np.concatenate([*none, *(deal(*piece).astype(none[0].dtype) for piece in self.pieces())])
            return [
                Selection(self.rows, array=self.row_ids(np.flatnonzero(labels == k))) for k in range(parts)
            ]
        found = [FoundRows(self.rows) for _ in range(parts)]
        for first, rows in self.pieces():
            labels = deal(first, rows)
            for k in range(parts):
                found[k].add(rows[labels == k])
        return [Selection._of(self.rows, part.all()) for part in found]

    def _dealer(self, bounds: list[int], seed: int) -> Callable[[int, Rows], npt.NDArray[Any]]:
        """Gives each row the number of its part: the one whose bounds its place in a shuffle falls between."""
        order = Order(self.length, OrderSpec("shuffle", seed, _SPLIT_EPOCH))
        ends = np.array(bounds[1:-1], np.int64)

        def deal(first: int, rows: Rows) -> npt.NDArray[Any]:
            places = order.inverse(np.arange(first, first + len(rows), dtype=np.int64))
            return np.searchsorted(ends, places, side="right").astype(np.min_scalar_type(len(bounds)))

        return deal

    # ---- what others need to know --------------------------------------------------------------------------

    def places(self, row_ids: Rows) -> tuple[Rows, Rows]:
        """(which of ``row_ids``, its place in the selection), for each place at which one of them stands."""
        if self.array is None:
            held = self.bitmap
            there = np.arange(len(row_ids)) if held is None else np.flatnonzero(held.contains(row_ids))
            place, off = np.divmod(
                (row_ids if held is None else held.rank(row_ids[there])) - self.start, self.step
            )
            which = np.flatnonzero((off == 0) & (place >= 0) & (place < self.length))
            return there[which], place[which]
        sorter = None if self._ascends() else np.argsort(self.array, kind="stable")
        first = np.searchsorted(self.array, row_ids, "left", sorter)
        counts = np.searchsorted(self.array, row_ids, "right", sorter) - first
        which = np.repeat(np.arange(len(row_ids), dtype=np.int64), counts)
        sorted_place = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts) + first[which]
        return which, sorted_place if sorter is None else sorter[sorted_place]

    def holds(self, row_ids: Rows) -> npt.NDArray[np.bool_]:
        """For each of ``row_ids``, whether it is selected: in a few ns each where few are."""
        held = self.bitmap
        if held is not None and self.step == 1 and self.length == held.ones:
            return held.contains(row_ids)
        found = np.zeros(len(row_ids), np.bool_)
        if self.array is None:
            found[self.places(row_ids)[0]] = True
            return found
        if self._sieve is None:
            self._sieve = Sieve(self.array)
        passed = self._sieve.passes(row_ids)
        found[passed[self.places(row_ids[passed])[0]]] = True
        return found

    def _ascends(self) -> bool:
        """Whether the array is in order; looked at once."""
        if self._ascending is None:
            array = self.array
            self._ascending = array is None or not any(
                np.any(np.diff(array[first : first + CHUNK + 1]) < 0) for first in range(0, len(array), CHUNK)
            )
        return self._ascending

    def digest(self) -> str:
        """16 hex digits of what is selected: equal for equal selections, constant size, computed once."""
        if self._digest is None:
            shape = (self.start, self.step) if self.is_range else (0, 1)
            head = np.array([self.rows, self.length, *shape], "<i8").tobytes()
            seed = xxh3_64(head, int(not self.is_range))
            if self.bitmap is not None:
                found = self.bitmap.digest(self.start, self.step, self.length, seed)
            else:
                found = xxh3_64(b"" if self.array is None else np.ascontiguousarray(self.array, "<i8"), seed)
            self._digest = f"{found:016x}"
        return self._digest

    def part_rows(self, part_starts: Rows) -> Rows:
        """How many selected rows each part has, for the orders by parts.

        ``part_starts`` has the end of the last part too. Where rows of a part do not lie together in the
        selection, each run of rows of one part counts as a part.
        """
        parts = len(part_starts) - 1
        if self.array is None and self.step == 1:
            edges = part_starts if self.bitmap is None else self.bitmap.rank(part_starts)
            edges = np.clip(edges, self.start, self.start + self.length)
            return np.diff(edges)
        counts = np.zeros(parts, np.int64)
        runs: list[Rows] = []
        last, sorted_so_far = -1, True
        for _, rows in self.pieces():
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


def _distinct(array: Rows, rows: int) -> int:
    """How many different rows there are in an array of rows below ``rows``."""
    if rows > 8 * len(array):  # a byte for each row would take more memory than to sort them
        return len(np.unique(array))
    found = np.zeros(rows, np.bool_)
    found[array] = True
    return int(np.count_nonzero(found))
