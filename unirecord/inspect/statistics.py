"""What the values of a column are like, and how often each comes: from the index, in bounded memory.

Decimals of more than 18 digits are in no index, and come from the data files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import chain, pairwise
from typing import Any, Final, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ..core import DistinctStrings, Order, match_between, order_of_strings
from ..core.scan import Bitmap
from ..errors import CorruptionError, SchemaError
from ..format.column import Column
from ..format.schema import Schema
from ..format.values.strings import Texts
from ..order.spec import OrderSpec
from ..query.columns import (
    FlatColumns,
    PartFields,
    RowsAt,
    Strings,
    columns_of,
    corrupt,
    distinct_words,
    part_fields,
    plain_strings,
)
from ..query.ordered import ranks_of
from ..query.tree import WORDS, Field
from ..snapshot.part_set import PartSet

# Reads columns of chosen rows in chunks, so that 10^8 rows take little memory.


CHUNK = 1 << 20
_SCATTERED: Final = 16  # of as many strings fewer than one is wanted: they are read one by one
Rows = NDArray[np.int64]
Read = Callable[[int], object]  # is told of rows that have been read


@dataclass(frozen=True)
class PartRows:
    """Some rows of one part, and the columns there."""

    fields: PartFields
    at: RowsAt

    def __len__(self) -> int:
        return len(self.at)

    def valid(self, field: Field) -> NDArray[np.bool_]:
        """Which of the rows have a value."""
        found = self.fields.valid(field, self.at)
        return np.ones(len(self), np.bool_) if found is None else found

    def numbers(self, field: Field) -> NDArray[Any]:
        """The values of a column of numbers or bools that are not null."""
        values = self.fields.values(field, self.at)
        valid = self.fields.valid(field, self.at)
        return values if valid is None else values[valid]

    def words(self, field: Field) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
        """The low and the high words of a column of decimals of two words that are not null."""
        low, high = self.fields.words(field, self.at)
        valid = self.valid(field)
        return low[valid], high[valid]

    def texts(self, field: Field) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_] | None]:
        """Strings of a column without a dictionary as they lie, where they begin and end, and which are meant."""
        strings, at = self.fields.columns.strings(field.ordinal), self.at
        valid = self.fields.valid(field, at)
        if at.rows is None:
            return *_packed(self.fields.columns, field, strings, at.start, at.stop), valid
        first, stop = (int(at.rows[0]), int(at.rows[-1]) + 1) if len(at.rows) else (0, 0)
        if len(at.rows) * _SCATTERED < stop - first:
            found = plain_strings(strings, at)
            return np.frombuffer(b"".join(found), np.uint8), np.cumsum([0, *map(len, found)]), valid
        meant = np.zeros(stop - first, np.bool_)
        meant[at.rows - first] = True if valid is None else valid
        return *_packed(self.fields.columns, field, strings, first, stop), meant

    def codes(self, field: Field) -> tuple[NDArray[Any], Strings] | None:
        """The codes of a string column that are not null, and the strings they stand for; None when it is plain."""
        dictionary = self.fields.columns.dictionary(field.ordinal)
        if dictionary is None:
            return None
        codes = self.at.read(dictionary.codes)
        valid = self.fields.valid(field, self.at)
        return codes if valid is None else codes[valid], dictionary.entries

    def values(self, field: Field) -> list[Any]:
        """The values of any scalar column as Python's own, None where null."""
        valid = self.fields.valid(field, self.at)
        if field.type == "string":
            found: list[Any] = [
                text.decode("utf-8", "replace") for text in self.fields.strings(field, self.at)
            ]
        else:
            found = self.fields.values(field, self.at).tolist()
        if valid is None:
            return found
        return [value if ok else None for value, ok in zip(found, valid.tolist(), strict=True)]


def sortable_field(schema: Schema, name: str) -> Field:
    """The column of this name, whose values have an order; SchemaError for any other."""
    ordinal = schema.ordinal(name)
    column = schema[ordinal]
    column.check_known()
    if not column.is_sortable:
        raise SchemaError(
            f"column {name!r} is {column}: it has no value in the index to sort, count or group by"
        )
    kind = WORDS if column.is_wide_decimal else column.type
    return Field(column.name, ordinal, kind, column.nullable)


def chunks(
    parts: PartSet, rows: Rows | None, size: int = CHUNK, read: Read | None = None
) -> Iterator[PartRows]:
    """All rows that have not been deleted, or these (ascending), in order; no chunk crosses parts.

    ``read`` is told the number of rows of each chunk once it has been used.
    """
    for chunk in _chunks(parts, rows, size):
        yield chunk
        if read is not None:
            read(len(chunk))


def _chunks(parts: PartSet, rows: Rows | None, size: int) -> Iterator[PartRows]:
    live = parts.live
    for fields in part_fields(parts):
        columns, base = fields.columns, fields.base
        if rows is None:
            for start in range(0, columns.rows, size):
                stop = min(start + size, columns.rows)
                yield PartRows(fields, RowsAt(start, stop, _there(live, base, start, stop)))
        else:
            first, stop = np.searchsorted(rows, [base, base + columns.rows]).tolist()
            for start in range(first, stop, size):
                yield PartRows(fields, RowsAt(0, columns.rows, rows[start : min(start + size, stop)] - base))


def count_rows(parts: PartSet, rows: Rows | None) -> int:
    """How many rows these are; None: all that have not been deleted."""
    if rows is not None:
        return len(rows)
    return parts.rows if parts.live is None else parts.live.ones


def _there(live: Bitmap | None, base: int, start: int, stop: int) -> Rows | None:
    """Which of the rows [start, stop) of the part that begins at row ``base`` are there; None for all."""
    if live is None:
        return None
    rows = np.arange(start, stop, dtype=np.int64)
    kept = live.contains(rows + base)
    return None if kept.all() else rows[kept]


# Puts chosen rows in the order of columns, and picks rows at random.


def sorted_rows(
    parts: PartSet, rows: Rows | None, keys: Sequence[tuple[str, bool]], most: int | None = None
) -> Rows:
    """``rows`` (None: all) by columns, each (name, descending); NaN after numbers, nulls last, equals by row.

    Only the first ``most`` of them, if given.
    """
    ranks = [_ranks(parts, sortable_field(parts.schema, name), rows, descending) for name, descending in keys]
    numbers = np.arange(parts.rows, dtype=np.int64) if rows is None else rows
    if most is not None and most < len(numbers) // 4:  # rows beyond by the first column alone are out
        places = _least(*ranks[0], most)
        ranks = [(values[places], last[places]) for values, last in ranks]
        numbers = numbers[places]
    columns = [column for values, last in reversed(ranks) for column in (values, last)]
    found: Rows = numbers[np.lexsort(columns)]
    return found if most is None else found[:most]


def _least(values: NDArray[Any], last: NDArray[np.uint8], most: int) -> NDArray[np.int64]:
    """Places of the least values, at least ``most`` of them, all that equal the greatest of these included."""
    proper = np.flatnonzero(last == 0)
    if len(proper) <= most:
        return np.arange(len(values))
    bound = np.partition(values[proper], most)[most]
    found: NDArray[np.int64] = proper[values[proper] <= bound]
    return found


def _ranks(
    parts: PartSet, field: Field, rows: Rows | None, descending: bool
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Numbers that sort like the values, and 1 for NaN or 2 for null, which come after them all."""
    ranks = ranks_of(parts, field.ordinal, rows)
    read = 0
    values, last = [], []
    for chunk in chunks(parts, rows):
        if ranks is not None:
            found = ranks[read : read + len(chunk)]
            read += len(chunk)
        else:
            found = chunk.fields.values(field, chunk.at)
            found = found.view(np.uint8) if found.dtype == np.bool_ else found
        nan = found != found
        late = np.where(chunk.valid(field), nan.astype(np.uint8), np.uint8(2))
        values.append(np.where(late > 0, found.dtype.type(0), found))
        last.append(late)
    joined: NDArray[Any] = np.concatenate(values) if values else np.empty(0)
    if descending:
        joined = -joined if joined.dtype.kind == "f" else ~joined
    return joined, np.concatenate(last) if last else np.empty(0, np.uint8)


def sampled_rows(rows: Rows | None, total: int, count: int, seed: int) -> Rows:
    """``count`` of the rows (None: of [0, total)), picked at random without repeats, as ``seed`` says; ascending."""
    length = total if rows is None else len(rows)
    if count >= length:
        return np.arange(total, dtype=np.int64) if rows is None else rows
    spec = OrderSpec.parse(True, seed, 0, 1, 1)
    places = np.sort(Order(length, spec).range(0, 1, count))
    return places if rows is None else rows[places]


# Counts the rows of each value of a column, or of each combination of values.


_SPAN: Final = 1 << 22  # integers that span no more are counted in an array
_MADE_AT_ONCE: Final = 1 << 12  # groups: they are let go of before they cost the garbage collector time
_SPACED, _BEYOND = 4096, 8
_NONE: Final = (1 << 32) - 1  # the number of a string that is not meant
_NAN: Final = float("nan")  # one object, so that all NaN are one group


@dataclass
class Total:
    """The sum of a column's finite values in a group of rows, and how many there are: no null, NaN or infinity."""

    sum: Any = 0
    count: int = 0

    @property
    def mean(self) -> float | Fraction | None:
        """Their mean, of integers exact; None where there are none."""
        if not self.count:
            return None
        return Fraction(self.sum, self.count) if isinstance(self.sum, int) else self.sum / self.count


class ValueCount(NamedTuple):
    """One value of each column (None: null), how many rows have them, and the totals of other columns in these."""

    values: tuple[Any, ...]
    rows: int
    totals: tuple[Total, ...] = ()


def combination_counts(
    parts: PartSet, names: Sequence[str], rows: Rows | None = None, of: Sequence[str] = ()
) -> Sequence[ValueCount]:
    """The groups of all rows, or of ``rows`` (ascending), by their values: NaN after numbers, nulls last.

    Each has the totals of the columns ``of``, exact for integers and bools; SchemaError for one without numbers.
    """
    fields = [sortable_field(parts.schema, name) for name in names]
    totals: dict[tuple[Any, ...], list[Total]] = {}
    if len(fields) == 1 and not of:  # there may be millions: strings are made when they are asked for
        if fields[0].type == "string":
            return string_groups(parts, fields[0], rows)
        found = value_counts(parts, fields[0], rows)
        proper = sorted(value for value in found if value is not None and value == value)
        late = sorted((value for value in found if value is None or value != value), key=lambda v: v is None)
        return [ValueCount((value,), found[value]) for value in chain(proper, late)]
    summed = [_number_field(parts, name) for name in of]
    counted = dict(_combinations(parts, fields, rows, summed, totals))
    return [
        ValueCount(values, counted[values], tuple(totals.get(values, ())))
        for values in sorted(counted, key=_place)
    ]


@dataclass(frozen=True)
class StringGroups(Sequence[ValueCount]):
    """The groups of rows by their string, by value and nulls last, or as `sorted` says; each is made when asked for.

    Value i of ``texts`` has ``rows[i]`` rows; the last of them is null, if any is.
    """

    texts: Texts
    rows: NDArray[np.int64]
    by_rows: int = 0  # 1: the fewest rows first; −1: the most
    descending: bool = False  # by value

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, place: int) -> ValueCount: ...
    @overload
    def __getitem__(self, place: slice) -> list[ValueCount]: ...
    def __getitem__(self, place: int | slice) -> ValueCount | list[ValueCount]:
        if isinstance(place, int):
            at = range(len(self))[place]
            return self[at : at + 1][0]
        chosen = range(len(self))[place]
        return list(_value_counts(*self._taken(self._order(max(chosen, default=-1) + 1)[chosen])))

    def __iter__(self) -> Iterator[ValueCount]:
        for piece in self.pieces():
            yield from _value_counts(*piece)

    def pieces(self, start: int = 0, stop: int | None = None) -> Iterator[tuple[Texts, NDArray[np.int64]]]:
        """The groups [start, stop), some thousand at a time: their values, and how many rows they have."""
        order = self._order(len(self) if stop is None else min(stop, len(self)))[start:stop]
        for at in range(0, len(order), _MADE_AT_ONCE):
            yield self._taken(order[at : at + _MADE_AT_ONCE])

    def sorted(self, by_rows: bool, descending: bool) -> StringGroups:
        """The same by the number of rows, equal ones as they are here, or by value."""
        if by_rows:
            return replace(self, by_rows=-1 if descending else 1)
        return replace(self, by_rows=0, descending=descending)

    def _order(self, most: int) -> NDArray[np.int64]:
        """Numbers of the groups in order, at least the first ``most`` of them."""
        places = np.arange(len(self))
        keys = self.rows * self.by_rows
        if 0 < most < len(self):
            bound = np.partition(keys, most - 1)[most - 1]
            before = places[keys < bound]
            places = np.append(before, self._first_by_value(places[keys == bound], most - len(before)))
        is_null = places == len(self) - (self.texts.valid is not None)
        found, ends = places[~is_null], self.texts.strings.ends
        by_value = found[order_of_strings([(self.texts.strings.data, ends[found], ends[found + 1])])]
        order: NDArray[np.int64] = np.append(by_value[::-1] if self.descending else by_value, places[is_null])
        if self.by_rows:
            order = order[np.argsort(keys[order], kind="stable")]
        return order

    def _first_by_value(self, places: NDArray[np.int64], most: int) -> NDArray[np.int64]:
        """All of these that come before one of some thousand evenly spaced strings, before which there are enough."""
        strings = self.texts.strings
        proper = len(self) - (self.texts.valid is not None)
        spaced = places[:: max(1, len(places) // _SPACED)]
        bounds = sorted((strings[at] for at in spaced[spaced < proper].tolist()), reverse=self.descending)
        at = most * len(bounds) // len(places) + _BEYOND
        if at < len(bounds):
            low, high = (bounds[at], None) if self.descending else (b"", bounds[at])
            before = match_between(strings.ends, strings.data, low, high)
            found: NDArray[np.int64] = places[(before[places] != 0) & (places < proper)]
            if len(found) >= most:
                return found
        return places

    def _taken(self, numbers: NDArray[np.int64]) -> tuple[Texts, NDArray[np.int64]]:
        return self.texts.take(numbers), self.rows[numbers]


def _value_counts(texts: Texts, rows: NDArray[np.int64]) -> Iterator[ValueCount]:
    return (ValueCount((text,), count) for text, count in zip(texts, rows.tolist(), strict=True))


def string_groups(
    parts: PartSet, field: Field, rows: Rows | None = None, read: Read | None = None
) -> StringGroups:
    """The groups of all rows, or of ``rows`` (ascending), by a column of strings; ``read`` as of `chunks`."""
    distinct = DistinctStrings((1 << 31) - 1, (1 << 63) - 1)
    counts, nulls = np.zeros(1 << 10, np.int64), 0
    for chunk in chunks(parts, rows, read=read):
        nulls += len(chunk) - int(chunk.valid(field).sum())
        coded = chunk.codes(field)
        if coded is None:
            numbers, times = distinct.add(*chunk.texts(field)), None
        else:
            codes, entries = coded
            if len(codes) and int(codes.max()) >= len(entries):
                raise _beyond(field)
            times = np.bincount(codes, minlength=len(entries))
            packed = _packed(chunk.fields.columns, field, entries, 0, len(entries))
            numbers = distinct.add(*packed, times > 0)
        if numbers is None:  # chosen so that finding them again is slow
            return _groups_one_by_one(parts, field, rows)
        if len(distinct) > len(counts):
            counts = np.concatenate([counts, np.zeros(2 * len(distinct) - len(counts), np.int64)])
        meant = numbers != _NONE
        np.add.at(counts, numbers[meant], 1 if times is None else times[meant])
    data, ends = distinct.packed()
    found = counts[: len(distinct)]
    try:
        if not nulls:
            return StringGroups(Texts.of_memory(data, ends, None), found)
        texts = Texts.of_memory(data, np.append(ends, ends[-1]), np.arange(len(ends)) < len(distinct))
        return StringGroups(texts, np.append(found, nulls))
    except UnicodeDecodeError:  # different bytes may stand for the same text
        return _groups_one_by_one(parts, field, rows)


def distinct_count(parts: PartSet, name: str, read: Read | None = None) -> int:
    """How many values of a column differ in the rows that have not been deleted: all NaN are one; nulls are none."""
    field = sortable_field(parts.schema, name)
    if field.type == "string":
        groups = string_groups(parts, field, None, read)
        return len(groups) - (groups.texts.valid is not None)
    found = [_distinct(chunk, field)[0] for chunk in chunks(parts, None, read=read)]
    return len(np.unique(np.concatenate(found))) if found else 0


def _groups_one_by_one(parts: PartSet, field: Field, rows: Rows | None) -> StringGroups:
    found = Counter(value for chunk in chunks(parts, rows) for value in chunk.values(field))
    values = sorted(found, key=lambda value: value is None)
    texts = Texts.of(values, nullable=True)
    assert texts is not None  # decoding has made them
    return StringGroups(texts, np.array([found[value] for value in values], np.int64))


def _packed(
    columns: FlatColumns, field: Field, strings: Strings, start: int, stop: int
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Strings [start, stop) as they lie, and where each begins and the last one ends."""
    ends = strings.offsets.span(start, stop + 1).astype(np.int64)
    if not len(ends):  # a dictionary without strings has no offsets either
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    if (ends[1:] < ends[:-1]).any() or ends[-1] > len(strings.data):
        raise corrupt(columns, field.name, "the offsets of its strings do not ascend, or exceed their bytes")
    return strings.data.span(*ends[[0, -1]].tolist()), ends - ends[0]


def _number_field(parts: PartSet, name: str) -> Field:
    field = sortable_field(parts.schema, name)
    if field.type == "string":
        raise SchemaError(f"column {name!r} is a string: it has no sum and no mean")
    return field


def _add(chunk: PartRows, field: Field, joined: NDArray[np.int64], totals: list[Total]) -> None:
    """Adds a chunk's values to the totals of their groups."""
    places = joined[chunk.valid(field)]
    if field.type == WORDS:
        low, high = (_sums(half, places, len(totals)) for half in chunk.words(field))
        sums = [(a << 64) + b for a, b in zip(high, low, strict=True)]
    else:
        values = chunk.numbers(field)
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            values, places = values[finite], places[finite]
        sums = _sums(values, places, len(totals))
    counts = np.bincount(places, minlength=len(totals)).tolist()
    for total, value, count in zip(totals, sums, counts, strict=True):
        total.sum += value
        total.count += count


def _sums(values: NDArray[Any], places: NDArray[np.int64], groups: int) -> list[Any]:
    """The sum of the values in each group; of integers and bools exact, as they are of one chunk."""
    if values.dtype.kind == "f":
        return list(np.bincount(places, values, groups).tolist())
    if values.dtype.itemsize < 8:
        return list(map(int, np.bincount(places, values, groups).tolist()))
    # In two halves, whose sums are below 2^53.
    halves = (values >> values.dtype.type(32), values & values.dtype.type(0xFFFFFFFF))
    high, low = (np.bincount(places, half, groups).tolist() for half in halves)
    return [(int(a) << 32) + int(b) for a, b in zip(high, low, strict=True)]


def _place(values: tuple[Any, ...]) -> tuple[tuple[int, Any], ...]:
    return tuple((2, 0) if v is None else (1, 0) if v != v else (0, v) for v in values)


def value_counts(
    parts: PartSet, field: Field, rows: Rows | None = None, read: Read | None = None
) -> dict[Any, int]:
    """Rows of each value of one column (None: null), in no order; ``read`` as of `chunks`."""
    if field.type == "string":
        return {values[0]: count for values, count, _ in string_groups(parts, field, rows, read)}
    found: Counter[Any] = Counter()
    nan = 0
    for chunk in chunks(parts, rows, read=read):
        if nulls := len(chunk) - int(chunk.valid(field).sum()):
            found[None] += nulls
        values, counts = _distinct(chunk, field)
        for value, count in zip(values.tolist(), counts.tolist(), strict=True):
            if value == value:
                found[value] += count
            else:
                nan += count
    if nan:
        found[_NAN] = nan
    return found


def _span(chunk: PartRows, field: Field) -> tuple[int, int] | None:
    """Bounds of the column in this part, where they are near enough to count in an array."""
    if field.type == "bool" or field.type.startswith("float"):
        return None
    low, high = chunk.fields.limits(field)
    return (low, high) if high - low <= _SPAN else None


def _distinct(chunk: PartRows, field: Field) -> tuple[NDArray[Any], NDArray[Any]]:
    """The different values that are not null, and how many rows each has."""
    if field.type == WORDS:
        found, places = distinct_words(*chunk.words(field))
        return found, np.bincount(places)
    values, span = chunk.numbers(field), _span(chunk, field)
    if span is None or not len(values):
        return np.unique(values, return_counts=True)
    if int(values.min()) < span[0] or int(values.max()) > span[1]:
        raise CorruptionError(
            f"a value of column {field.name!r} is outside of the bounds that its zones say", column=field.name
        )
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
) -> Iterator[tuple[PartRows, list[tuple[Any, ...]], NDArray[np.int64]]]:
    """Of each chunk the combinations of values in it, and for each row the number of its combination."""
    for chunk in chunks(parts, rows):
        keys: list[tuple[Any, ...]] = [()]
        joined, span = np.zeros(len(chunk), np.int64), 1
        for each in fields:
            numbered = _numbered(chunk, each)
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


def _numbered(chunk: PartRows, field: Field) -> _Numbered:
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
    elif field.type == WORDS:
        values, inverse = distinct_words(*chunk.words(field))
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


# What the values of a column are like: span, mean, quantiles, distinct values, a histogram; from the index alone.


QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BINS: Final = 20
_KEPT: Final = 4_000_000  # values that are sorted; of more, evenly spaced ones stand for all
_MOST_COMMON: Final = 5


@dataclass
class ColumnStatistics:
    """One column over the chosen rows.

    ``min``, ``max``, ``mean``, quantiles and histogram leave out nulls and NaN (and infinities, but for min and max).
    For strings these are those of the lengths in characters but for ``min`` and ``max``; for blob columns, of the sizes
    in bytes. ``exact`` is False where quantiles and histogram come from evenly spaced rows; ``distinct`` is then None,
    of strings ``min`` and ``max`` too, and ``common`` is estimated.
    ``bins`` are the histogram's edges, one more than its ``counts``; ``common`` the most frequent values.
    """

    name: str
    type: str
    rows: int = 0
    nulls: int = 0
    nans: int = 0
    min: Any = None
    max: Any = None
    mean: Any = None
    distinct: int | None = None
    exact: bool = True
    quantiles: dict[str, Any] = field(default_factory=dict)
    bins: list[Any] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    common: list[tuple[Any, int]] = field(default_factory=list)
    _shown_ranges: list[tuple[str, str]] | None = None

    def ranges(self) -> Sequence[tuple[Any, Any]]:
        """The least and the greatest value that each of ``counts`` may hold; of whole numbers not the upper edge."""
        if self._shown_ranges is not None:
            return self._shown_ranges
        floats = self.type.startswith(("float", "bfloat")) and "[" not in self.type
        beyond = 0 if floats or len(self.counts) < 2 else 1
        return [(low, high - beyond) for low, high in pairwise(self.bins)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        found = asdict(self)
        del found["_shown_ranges"]
        return found

    def shown(self, column: Column) -> ColumnStatistics:
        """The same, values as text where the logical type has one; classes have no mean."""
        if column.meaning is None or not column.is_ordered:
            return self
        of_classes = column.meaning.name == "class"
        text = column.shown
        return replace(
            self,
            min=text(self.min),
            max=text(self.max),
            mean=None if of_classes or self.mean is None else text(round(self.mean)),
            quantiles={} if of_classes else {name: text(round(one)) for name, one in self.quantiles.items()},
            bins=[text(round(edge)) for edge in self.bins],
            _shown_ranges=[(text(round(low)), text(round(high))) for low, high in self.ranges()],
            common=[(text(value), count) for value, count in self.common],
        )


def column_statistics(
    parts: PartSet,
    name: str,
    rows: Rows | None = None,
    texts: int | None = None,
    exact: bool = False,
    read: Read | None = None,
) -> ColumnStatistics:
    """Statistics of one column over all rows that have not been deleted, or over ``rows`` (ascending).

    ``texts``: of strings without a dictionary no more than so many are looked at, in evenly spaced rows of all.
    ``exact``: all values are sorted, however many they are, in 8 bytes of memory each, and nothing is estimated.
    ``read`` as of `chunks`.
    """
    column = parts.schema[parts.schema.ordinal(name)]
    stride = 1 if exact else -(-count_rows(parts, rows) // _KEPT)
    found = ColumnStatistics(column.name, str(column), rows=count_rows(parts, rows))
    if not column.is_ordered:
        _describe_sizes(found, parts, rows, stride, read)
        return found
    chosen = sortable_field(parts.schema, name)
    if texts is not None and rows is None and found.rows > texts and _is_plain(parts, chosen):
        _describe_spaced(found, chosen, parts, texts)
    elif chosen.type in ("string", "bool"):
        _describe_values(found, chosen, value_counts(parts, chosen, rows, read))
    else:
        _describe_numbers(found, chosen, parts, rows, stride, read)
    return found


def _is_plain(parts: PartSet, chosen: Field) -> bool:
    return chosen.type == "string" and any(
        columns.rows and columns.dictionary(chosen.ordinal) is None for columns in columns_of(parts)
    )


def _describe_spaced(found: ColumnStatistics, chosen: Field, parts: PartSet, most: int) -> None:
    """Strings by the distinct ones of evenly spaced rows, each of which stands for as many rows."""
    stride = -(-found.rows // most)
    spaced = np.arange(0, found.rows, stride)
    counts = value_counts(parts, chosen, spaced if parts.live is None else parts.live.select(spaced))
    _describe_values(found, chosen, counts)
    found.exact, found.distinct, found.min, found.max = False, None, None, None
    found.common = [(value, count * stride) for value, count in found.common if count > 1]
    found.nulls = sum(len(chunk) - int(chunk.valid(chosen).sum()) for chunk in chunks(parts, None))


def _describe_values(found: ColumnStatistics, chosen: Field, counts: dict[Any, int]) -> None:
    """Strings and bools, by their distinct values."""
    found.nulls = counts.pop(None, 0)
    found.distinct = len(counts)
    if not counts:
        return
    found.min, found.max = min(counts), max(counts)
    found.common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_COMMON]
    sizes = np.array([len(v) if chosen.type == "string" else int(v) for v in counts], np.int64)
    weights = np.array(list(counts.values()), np.int64)
    found.mean = float((sizes * weights).sum() / weights.sum())
    _spread(found, sizes.astype(np.float64), weights)


def _describe_numbers(
    found: ColumnStatistics,
    chosen: Field,
    parts: PartSet,
    rows: Rows | None,
    stride: int,
    read: Read | None,
) -> None:
    kept: list[NDArray[Any]] = []
    total, finite = 0.0, 0
    for chunk in chunks(parts, rows, read=read):
        values = chunk.numbers(chosen)
        found.nulls += len(chunk) - len(values)
        if values.dtype.kind == "f":
            numbers = values[~np.isnan(values)]
            found.nans += len(values) - len(numbers)
            values = numbers
        if not len(values):
            continue
        low, high = values.min().item(), values.max().item()
        found.min = low if found.min is None else min(found.min, low)
        found.max = high if found.max is None else max(found.max, high)
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        total += float(values.sum(dtype=np.float64))
        finite += len(values)
        kept.append(values[::stride].copy() if stride > 1 else values)
    found.exact = stride <= 1
    if finite:
        found.mean = total / finite
        _describe_kept(found, np.concatenate(kept))


def _describe_kept(found: ColumnStatistics, kept: NDArray[Any]) -> None:
    distinct, weights = np.unique(kept, return_counts=True)
    if found.exact:
        infinite = {v for v in (found.min, found.max) if isinstance(v, float) and math.isinf(v)}
        found.distinct = len(distinct) + len(infinite)
        if len(distinct) <= len(kept) // 2:
            order = np.lexsort((np.arange(len(distinct)), -weights))[:_MOST_COMMON]
            found.common = [(distinct[i].item(), int(weights[i])) for i in order]
    _spread(found, distinct.astype(np.float64), weights, whole=kept.dtype.kind in "iu")


def _spread(
    found: ColumnStatistics, values: NDArray[np.float64], weights: NDArray[Any], whole: bool = True
) -> None:
    """Quantiles (the least value with that share of rows at or below it) and histogram of values with weights."""
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    sums = np.cumsum(weights)
    for share in QUANTILES:
        place = int(np.searchsorted(sums, share * sums[-1], side="left"))
        found.quantiles[f"{share:g}"] = float(values[min(place, len(values) - 1)])
    low, high = float(values[0]), float(values[-1])
    if low == high or not math.isfinite(high - low):
        found.bins, found.counts = [low, high], [int(sums[-1])]
        return
    step = max(1, math.ceil((high - low + 1) / BINS))  # bins of integers hold the same number of them
    in_steps = whole and high - low < 1 << 52
    edges = (
        np.append(np.arange(low, high + 1, step), high + 1) if in_steps else np.linspace(low, high, BINS + 1)
    )
    counts, _ = np.histogram(values, edges, weights=weights)
    found.bins, found.counts = edges.tolist(), counts.astype(np.int64).tolist()


def _describe_sizes(
    found: ColumnStatistics,
    parts: PartSet,
    rows: Rows | None,
    stride: int,
    read: Read | None,
) -> None:
    """Sizes of blobs that are not null, from the lengths in the index."""
    ordinal = parts.schema.ordinal(found.name)
    column = parts.schema[ordinal]
    fixed, asked = column.fixed_bytes, Field(column.name, ordinal, column.type, column.nullable)
    kept, total, low, high = [], 0, None, None
    for chunk in chunks(parts, rows, read=read):
        if fixed:
            sizes = np.full(len(chunk), fixed, np.uint64)
        else:
            sizes = chunk.at.read(chunk.fields.columns.value_lengths(ordinal))
        if column.nullable:
            sizes = sizes[chunk.valid(asked)]
            found.nulls += len(chunk) - len(sizes)
        if len(sizes):
            total += int(sizes.sum(dtype=np.uint64))
            low = int(sizes.min()) if low is None else min(low, int(sizes.min()))
            high = int(sizes.max()) if high is None else max(high, int(sizes.max()))
            kept.append(sizes[::stride].astype(np.int64))
    if kept:
        present = found.rows - found.nulls
        found.min, found.max, found.mean, found.exact = low, high, total / present, stride <= 1
        distinct, weights = np.unique(np.concatenate(kept), return_counts=True)
        _spread(found, distinct.astype(np.float64), weights)
