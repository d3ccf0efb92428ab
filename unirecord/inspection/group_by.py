"""Counts the rows of each value of a column, or of each combination of values, from the index alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..parts.part_set import PartSet
from ..query.tree import Field
from .chunks import Chunk, Rows, chunks, scalar_field

_SPAN: Final = 1 << 22  # integers that span no more are counted in an array
_NAN: Final = float("nan")  # one object, so that all NaN are one group


@dataclass(frozen=True)
class ValueCount:
    """One value of each column (None: null), and how many rows have them."""

    values: tuple[Any, ...]
    rows: int


def combination_counts(parts: PartSet, names: Sequence[str], rows: Rows | None = None) -> list[ValueCount]:
    """The groups of all rows, or of ``rows`` (ascending), by their values: NaN after numbers, nulls last."""
    fields = [scalar_field(parts.schema, name) for name in names]
    if len(fields) == 1:
        counted = {(value,): count for value, count in value_counts(parts, fields[0], rows).items()}
    else:
        counted = dict(_combinations(parts, fields, rows))
    return [ValueCount(values, counted[values]) for values in sorted(counted, key=_place)]


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


def _combinations(parts: PartSet, fields: list[Field], rows: Rows | None) -> Counter[tuple[Any, ...]]:
    """Each column's values as numbers, joined to one number a row, counted."""
    found: Counter[tuple[Any, ...]] = Counter()
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
        for key, count in zip(keys, np.bincount(joined, minlength=len(keys)).tolist(), strict=True):
            found[key] += count
    return found


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
