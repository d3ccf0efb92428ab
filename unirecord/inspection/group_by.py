"""Counts the rows of each value of a column, or of each combination of values, from the index alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError, SchemaError
from ..parts.part_set import PartSet
from ..query.tree import Field
from .chunks import Chunk, Rows, chunks, scalar_field

_SPAN: Final = 1 << 22  # integers that span no more are counted in an array
_NAN: Final = float("nan")  # one object, so that all NaN are one group


@dataclass
class Total:
    """The sum of a column's finite values in a group of rows, and how many there are: no null, NaN or infinity."""

    sum: Any = 0
    count: int = 0

    @property
    def mean(self) -> float | None:
        """Their mean; None where there are none."""
        return self.sum / self.count if self.count else None


@dataclass(frozen=True)
class ValueCount:
    """One value of each column (None: null), how many rows have them, and the totals of other columns in these."""

    values: tuple[Any, ...]
    rows: int
    totals: tuple[Total, ...] = ()


def combination_counts(
    parts: PartSet, names: Sequence[str], rows: Rows | None = None, of: Sequence[str] = ()
) -> list[ValueCount]:
    """The groups of all rows, or of ``rows`` (ascending), by their values: NaN after numbers, nulls last.

    Each has the totals of the columns ``of``, exact for integers and bools; SchemaError for one without numbers.
    """
    fields = [scalar_field(parts.schema, name) for name in names]
    totals: dict[tuple[Any, ...], list[Total]] = {}
    if len(fields) == 1 and not of:
        counted = {(value,): count for value, count in value_counts(parts, fields[0], rows).items()}
    else:
        summed = [_number_field(parts, name) for name in of]
        counted = dict(_combinations(parts, fields, rows, summed, totals))
    return [
        ValueCount(values, counted[values], tuple(totals.get(values, ())))
        for values in sorted(counted, key=_place)
    ]


def _number_field(parts: PartSet, name: str) -> Field:
    field = scalar_field(parts.schema, name)
    if field.type == "string":
        raise SchemaError(f"column {name!r} is a string: it has no sum and no mean")
    return field


def _add(chunk: Chunk, field: Field, joined: NDArray[np.int64], totals: list[Total]) -> None:
    """Adds a chunk's values to the totals of their groups."""
    values, places = chunk.numbers(field), joined[chunk.valid(field)]
    if values.dtype.kind == "f":
        finite = np.isfinite(values)
        values, places = values[finite], places[finite]
        sums = np.bincount(places, values, len(totals)).tolist()
    elif values.dtype.itemsize == 8:  # in two halves, whose sums are below 2^53 and so exact
        halves = (values >> values.dtype.type(32), values & values.dtype.type(0xFFFFFFFF))
        high, low = (np.bincount(places, half, len(totals)).tolist() for half in halves)
        sums = [(int(a) << 32) + int(b) for a, b in zip(high, low, strict=True)]
    else:
        sums = list(map(int, np.bincount(places, values, len(totals)).tolist()))
    counts = np.bincount(places, minlength=len(totals)).tolist()
    for total, value, count in zip(totals, sums, counts, strict=True):
        total.sum += value
        total.count += count


def _place(values: tuple[Any, ...]) -> tuple[tuple[int, Any], ...]:
    return tuple((2, 0) if v is None else (1, 0) if v != v else (0, v) for v in values)


def value_counts(parts: PartSet, field: Field, rows: Rows | None = None) -> dict[Any, int]:
    """Rows of each value of one column (None: null), in no order."""
    found: Counter[Any] = Counter()
    nan = 0
    for chunk in chunks(parts, rows):
        if nulls := len(chunk) - int(chunk.valid(field).sum()):
            found[None] += nulls
        if field.type == "string":
            _count_strings(chunk, field, found)
            continue
        values, counts = _distinct(chunk.numbers(field), _span(chunk, field))
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if value == value:
                found[value] += count
            else:
                nan += count
    if nan:
        found[float("nan")] = nan
    return dict(found)


def _count_strings(chunk: Chunk, field: Field, found: Counter[Any]) -> None:
    coded = chunk.codes(field)
    if coded is None:
        found.update(value for value in chunk.values(field) if value is not None)
        return
    codes, entries = coded
    if len(codes) and int(codes.max()) >= len(entries):
        raise CorruptionError(
            f"a code of column {field.name!r} has no entry in its dictionary", column=field.name
        )
    counts = np.bincount(codes)
    for code in np.flatnonzero(counts).tolist():
        found[entries[code].decode("utf-8", "replace")] += int(counts[code])


def _span(chunk: Chunk, field: Field) -> tuple[int, int] | None:
    """Bounds of the column in this part, where they are near enough to count in an array."""
    if field.type == "bool" or field.type.startswith("float"):
        return None
    low, high = chunk.fields.limits(field)
    return (low, high) if high - low <= _SPAN else None


def _distinct(values: NDArray[Any], span: tuple[int, int] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    if span is None:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values.astype(np.int64) - span[0])
    places = np.flatnonzero(counts)
    return places + span[0], counts[places]


@dataclass(frozen=True)
class _Numbered:
    """A column of a chunk as numbers: for each row the number of its value, below ``count``."""

    count: int
    places: NDArray[np.int64]
    name: Callable[[int], Any]


def _combinations(
    parts: PartSet,
    fields: list[Field],
    rows: Rows | None,
    summed: list[Field],
    totals: dict[tuple[Any, ...], list[Total]],
) -> Counter[tuple[Any, ...]]:
    """Each combination of values, counted; the totals of the columns ``summed`` are put into ``totals``."""
    found: Counter[tuple[Any, ...]] = Counter()
    for chunk, keys, joined in _grouped(parts, fields, rows):
        for key, count in zip(keys, np.bincount(joined, minlength=len(keys)).tolist(), strict=True):
            found[key] += count
        if summed:
            of_keys = [totals.setdefault(key, [Total() for _ in summed]) for key in keys]
            for place, field in enumerate(summed):
                _add(chunk, field, joined, [total[place] for total in of_keys])
    return found


def _grouped(
    parts: PartSet, fields: list[Field], rows: Rows | None
) -> Iterator[tuple[Chunk, list[tuple[Any, ...]], NDArray[np.int64]]]:
    """Of each chunk the combinations of values in it, and for each row the number of its combination."""
    for chunk in chunks(parts, rows):
        keys: list[tuple[Any, ...]] = [()]
        joined, span = np.zeros(len(chunk), np.int64), 1
        for field in fields:
            numbered = _numbered(chunk, field)
            joined, span = joined * numbered.count + numbered.places, span * numbered.count
            numbers, joined = _renumbered(joined, span)
            span = len(numbers)
            pairs = [divmod(number, numbered.count) for number in numbers.tolist()]
            names = {place: numbered.name(place) for _, place in pairs}
            keys = [(*keys[before], names[place]) for before, place in pairs]
        yield chunk, keys, joined


def _renumbered(numbers: NDArray[np.int64], span: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct numbers, ascending, and for each number its place among them."""
    if span > _SPAN:
        return np.unique(numbers, return_inverse=True)
    there = np.zeros(span, np.bool_)
    there[numbers] = True
    return np.flatnonzero(there), (np.cumsum(there) - 1)[numbers]


def _numbered(chunk: Chunk, field: Field) -> _Numbered:
    """The values of a chunk as numbers; null is the last."""
    valid = chunk.valid(field)
    coded = chunk.codes(field) if field.type == "string" else None
    if coded is not None:
        codes, entries = coded
        if len(codes) and int(codes.max()) >= len(entries):
            raise _beyond(field)
        return _placed(codes, valid, len(entries), lambda place: entries[place].decode("utf-8", "replace"))
    if field.type == "string":
        texts = np.array([value for value in chunk.values(field) if value is not None], object)
        values, inverse = np.unique(texts, return_inverse=True)
    elif (span := _span(chunk, field)) is not None:
        low, high = span
        return _placed(
            chunk.numbers(field).astype(np.int64) - low, valid, high - low + 1, lambda place: low + place
        )
    else:
        values, inverse = np.unique(chunk.numbers(field), return_inverse=True)
    listed = [_NAN if value != value else value for value in values.tolist()]
    return _placed(inverse, valid, len(listed), listed.__getitem__)


def _placed(
    places: NDArray[Any], valid: NDArray[np.bool_], count: int, name: Callable[[int], Any]
) -> _Numbered:
    every = np.full(len(valid), count, np.int64)
    every[valid] = places
    return _Numbered(count + 1, every, lambda place: None if place == count else name(place))


def _beyond(field: Field) -> CorruptionError:
    return CorruptionError(
        f"a code of column {field.name!r} has no entry in its dictionary", column=field.name
    )
