"""Counts the rows of each value of a column, or of each combination of values, from the index alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..query.tree import Field
from ..reader import PartSet
from .chunks import Chunk, Rows, chunks, scalar_field

_SPAN: Final = 1 << 22  # integers that span no more are counted in an array


@dataclass(frozen=True)
class Group:
    """One value of each column (None: null), and how many rows have them."""

    values: tuple[Any, ...]
    rows: int


def group_counts(parts: PartSet, names: Sequence[str], rows: Rows | None = None) -> list[Group]:
    """The groups of all rows, or of ``rows`` (ascending), by their values: NaN after numbers, nulls last."""
    fields = [scalar_field(parts.schema, name) for name in names]
    if len(fields) == 1:
        counted = {(value,): count for value, count in value_counts(parts, fields[0], rows).items()}
    else:
        counted = dict(_combinations(parts, fields, rows))
    return [Group(values, counted[values]) for values in sorted(counted, key=_place)]


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
    low, high = chunk.reader.limits(field)
    return (low, high) if high - low <= _SPAN else None


def _distinct(values: NDArray[Any], span: tuple[int, int] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    if span is None:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values.astype(np.int64) - span[0])
    places = np.flatnonzero(counts)
    return places + span[0], counts[places]


def _combinations(parts: PartSet, fields: list[Field], rows: Rows | None) -> Counter[tuple[Any, ...]]:
    """Each column's values as numbers of the distinct ones, joined to one number a row, counted."""
    found: Counter[tuple[Any, ...]] = Counter()
    nan = float("nan")  # one object, so that all NaN are one group
    for chunk in chunks(parts, rows):
        joined = np.zeros(len(chunk), np.int64)
        keys: list[tuple[Any, ...]] = [()]
        for field in fields:
            values, places = _numbered(chunk, field)
            numbers, joined = np.unique(joined * len(values) + places, return_inverse=True)
            pairs = (divmod(number, len(values)) for number in numbers.tolist())
            named = [nan if value != value else value for value in values]
            keys = [(*keys[before], named[place]) for before, place in pairs]
        for key, count in zip(keys, np.bincount(joined).tolist(), strict=True):
            found[key] += count
    return found


def _numbered(chunk: Chunk, field: Field) -> tuple[list[Any], NDArray[np.int64]]:
    """The distinct values in a chunk, null (if any) last, and for each row the place of its value."""
    valid = chunk.valid(field)
    coded = chunk.codes(field) if field.type == "string" else None
    if coded is not None:
        numbers, inverse = np.unique(coded[0], return_inverse=True)
        values: list[Any] = [coded[1][code].decode("utf-8", "replace") for code in numbers.tolist()]
    elif field.type == "string":
        texts = np.array([value for value in chunk.values(field) if value is not None], object)
        found, inverse = np.unique(texts, return_inverse=True)
        values = found.tolist()
    else:
        numbers, inverse = np.unique(chunk.numbers(field), return_inverse=True)
        values = numbers.tolist()
    places = np.full(len(chunk), len(values), np.int64)
    places[valid] = inverse
    if not valid.all():
        values.append(None)
    return values, places
