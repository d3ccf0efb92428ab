"""Rows by a key: those whose column has a value, found in its sorted rows, or by a scan where it has none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

import numpy as np

from ..errors import CorruptionError, NoRowError, QueryError, SchemaError
from ..format.look_up import LookUp, hash_of
from ..format.meaning import DAY
from ..sizes import many
from ..snapshot.part_set import PartSet
from ..snapshot.prefetch import RUN_BYTES
from . import simplify, typed
from .check import describe
from .columns import FlatColumns, PartColumns, Vector, columns_of, corrupt
from .query import Query, SortedValues
from .scan import in_threads
from .tree import Always, Condition, Constant, Field, Range, Text, Value

__all__ = ["Keys", "equality", "keys_of", "only_row"]

_KEPT: Final = (
    1 << 17
)  # values of a column that are kept, of all parts together: those that searches begin with
_LEAST: Final = 1 << 8  # of one part
# Bytes of an index, or of a column in it, that are fetched at once rather than block by block; of an index of several
# that are asked, those of one request. A key searched block by block takes as long as so many bytes, so each has paid
# for them, until the whole index comes, of so many bytes at most.
_WHOLE: Final = 1 << 26
_SMALL: Final = RUN_BYTES
_MOST: Final = 1 << 30
# The same of a part with a look-up: its row, block by block, takes as long as so many bytes, and the blocks of the
# look-up as so many of that.
_FOUND: Final = 1 << 25
_LOOK: Final = 1 << 20
_AT_ONCE: Final = (
    32  # parts that are asked at a time, where that takes requests: each in 16 MiB of memory at most
)


def keys_of(parts: PartSet, name: str) -> Keys:
    """The keys of a column, kept with the parts: what has been read for one key serves the next."""
    of_parts = _KNOWN.get(parts)
    if of_parts is None:
        of_parts = _KNOWN[parts] = {}
    found = of_parts.get(name)
    if found is None:
        found = of_parts[name] = Keys(parts, name)
    return found


class Keys:
    """The values of a scalar column, by which rows are found. SchemaError for any other column."""

    def __init__(self, parts: PartSet, name: str) -> None:
        ordinal = parts.schema.ordinal(name)
        column = parts.schema[ordinal]
        if not column.is_ordered:
            raise SchemaError(
                f"column {name!r} is {column}: a key is a value of a scalar column, such as a string"
            )
        self._column = column
        self._field = Field(name, ordinal, column.type, column.nullable, column.meaning)
        # parts are open as long as their set is, which keeps these keys
        self._parts = cast("Sequence[PartColumns]", columns_of(parts))
        self._fetched = parts.is_fetched
        self._bases = parts.starts.tolist()
        self._patched = ordinal in parts.patched
        self._limits: list[tuple[Any, Any] | None] = []  # of each part, once they are known
        self._searched: dict[int, SortedValues | LookedUp | None] = {}
        # of parts that are fetched: those of which the index is here, those searched block by block, how many keys have
        # taken blocks, and how many were looked up
        self._whole: set[int] = set()
        self._by_blocks: set[int] = set()
        self._keys: dict[int, int] = {}
        self._asked: dict[int, int] = {}

    def condition(self, value: Any) -> Condition:
        """``column == value``; QueryError where the column has no such values."""
        return equality(self._field, value)

    def rows(self, value: Any) -> list[int]:
        """The rows that have the value, deleted ones too, ascending."""
        plain = self._field.meaning is None
        if plain and type(value) is str and self._field.type == "string":
            key: Any = _encoded(value)
        elif (
            plain
            and type(value) is int
            and self._column.dtype is not None
            and self._column.dtype.kind in "iu"
        ):
            key = value
        else:
            key = _key(self.condition(value))
            if key is None:
                return []
        if len(self._parts) == 1:
            return self._rows_of(0, key, value, 1)
        numbers = self._may_have(key)
        if not self._fetched:
            return [row for number in numbers for row in self._rows_of(number, key, value, len(numbers))]
        every = in_threads(
            lambda number, _: self._rows_of(number, key, value, len(numbers)), _nothing, numbers, _AT_ONCE
        )
        return [row for rows in every for row in rows]

    def _rows_of(self, number: int, key: Any, value: Any, asked: int) -> list[int]:
        """Those of one of the parts that are asked, as numbers of the dataset; ``key`` is the value as it is stored."""
        found: list[int] = []
        base = self._bases[number]
        if number in self._searched:
            values = self._searched[number]
        else:
            values = self._searched[number] = self._values(number, asked)
        elsewhere = self._fetched and number not in self._whole
        if elsewhere and isinstance(values, LookedUp):
            self._asked[number] = self._asked.get(number, 0) + 1
            if values.entries.array.nbytes <= _LOOK * self._asked[number]:
                values.entries.bring()
        if values is not None:
            found = [base + row for row in values.rows_of(key)]
        elif self._parts[number].rows:
            found = (Query("", self.condition(value)).rows([self._parts[number]]) + base).tolist()
        # where the key is found, its row is read next
        if elsewhere and (found or number in self._by_blocks):
            self._keys[number] = self._keys.get(number, 0) + 1
            worth = _FOUND if isinstance(values, LookedUp) else _WHOLE
            self._bring(number, min(worth * self._keys[number], _MOST))
        return found

    def read(self, text: str) -> Any:
        """The value that a text means: of a column of numbers or decimals a number, of bools true or false."""
        meaning, kind = self._field.meaning, self._field.type
        if kind == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind in ("string", "bool") or (meaning is not None and meaning.name not in ("decimal", "class")):
            return text
        try:
            return int(text)
        except ValueError:
            pass
        try:
            return Decimal(text)
        except InvalidOperation:
            return text

    def _may_have(self, key: Any) -> Sequence[int]:
        """The parts between whose least and greatest value the key is, or of which these are not known."""
        every = range(len(self._parts))
        if self._patched:
            return every
        if not self._limits:
            self._limits = in_threads(
                lambda number, _: self._parts[number].limits(self._field.ordinal),
                _nothing,
                every,
                _AT_ONCE if self._fetched else 1,
            )
        limits = self._limits
        return [number for number in every if (of := limits[number]) is None or of[0] <= key <= of[1]]

    def _values(self, number: int, asked: int) -> SortedValues | LookedUp | None:
        """The values of a part, of all that are asked; of an object store all that searches read comes at once."""
        columns, ordinal = self._parts[number], self._field.ordinal
        columns.confirm_rows()
        entries = columns.look_up(ordinal) if self._field.type != "bool" else None
        if self._fetched:
            alone = _WHOLE if entries is None else _FOUND
            self._bring(number, alone if asked == 1 else _SMALL)
        if entries is not None:
            return LookedUp(columns, self._field, entries, self._column.dtype)
        rows = columns.sorted_rows(ordinal) if columns.rows else None
        if rows is None or len(rows) != columns.rows:
            return None
        read, vectors = _reading(columns, self._field)
        validity = columns.validity(ordinal)
        every = [rows, *vectors, *([] if validity is None else [validity])]
        if self._fetched:
            if sum(vector.array.nbytes for vector in every) <= _WHOLE:
                in_threads(lambda vector, _: vector.bring(), _nothing, every, len(every) if asked == 1 else 1)
            else:
                self._by_blocks.add(number)
        return SortedValues(rows, read, validity, max(_LEAST, _KEPT // len(self._parts)))

    def _bring(self, number: int, most: int) -> None:
        """Fetches the whole index of a part, of so many bytes at most."""
        columns = self._parts[number]
        if columns.index_bytes <= most:
            # what is damaged of it is said by who needs that
            with suppress(CorruptionError):
                columns.bring()
            self._whole.add(number)


class LookedUp:
    """The values of a column in a part, by the look-up of their hashes."""

    def __init__(
        self, columns: FlatColumns, field: Field, entries: Vector, dtype: np.dtype[Any] | None
    ) -> None:
        self.entries = entries
        self._columns, self._field, self._dtype = columns, field, dtype
        self._look_up = LookUp(entries, columns.rows)
        self._read, _ = _reading(columns, field)
        self._validity = columns.validity(field.ordinal)

    def rows_of(self, value: Any) -> list[int]:
        """The rows that have a value, ascending."""
        hashed = hash_of(value, self._dtype)
        if hashed is None:
            return []
        found: list[int] = []
        for row in self._look_up.rows(hashed):
            if row >= self._columns.rows:
                what = "its look-up names a row that does not exist"
                raise corrupt(self._columns, self._field.name, what)
            there = self._validity is None or self._validity.one(row // 8) >> (row % 8) & 1
            if there and self._read(row) == value:
                found.append(row)
        return found


def _nothing() -> None:
    """What threads share that share nothing."""


_KNOWN: WeakKeyDictionary[PartSet, dict[str, Keys]] = WeakKeyDictionary()


def _reading(columns: FlatColumns, field: Field) -> tuple[Callable[[int], Any], list[Vector]]:
    """What gives the value of a row, and what it reads."""
    if field.type != "string":
        values = columns.values(field.ordinal)
        return values.one, [values]
    dictionary = columns.dictionary(field.ordinal)
    if dictionary is None:
        strings = columns.strings(field.ordinal)
        return strings.__getitem__, [strings.offsets, strings.data]
    codes, entries = dictionary.codes, dictionary.entries
    return lambda row: entries[codes.one(row)], [codes, entries.offsets, entries.data]


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise QueryError(f"{text!r:.100} is not Unicode text (a lone surrogate), so no row has it") from None


def _key(condition: Condition) -> Any:
    """The one value that meets an equality; None where there is none."""
    if isinstance(condition, Text):
        return getattr(condition.test, "single", None)
    return condition.low if isinstance(condition, Range) and condition.low == condition.high else None


def equality(field: Field, value: Any) -> Condition:
    """``field == value`` of a value of Python's; QueryError where it is of another kind than the column's."""
    operand = _operand(value, field)
    try:
        if field.type == "string" and isinstance(operand, str):
            return simplify.compare_text("==", field, operand)
        if field.type == "bool" and isinstance(operand, Always):
            return simplify.same_truth(simplify.truth_of(field), operand)
        if field.type not in ("string", "bool"):
            condition = typed.compare("==", Value(field), operand)
            if condition is not None:
                return condition
            if isinstance(operand, Constant):
                return simplify.compare_numbers("==", Value(field), operand)
    except typed.Mismatch as mismatch:
        raise QueryError(str(mismatch)) from None
    kind = describe(field if field.type == "string" else Value(field))
    raise QueryError(f"a key of {kind} is a value of that type, not {value!r:.100}")


_NUMPY_UNITS: Final = {"D": DAY, "h": 3_600, "m": 60, "s": 1} | {
    unit: Fraction(1, 1_000**power) for power, unit in enumerate(("ms", "us", "ns"), 1)
}
_EPOCH: Final = datetime(1970, 1, 1)
_MICROSECOND: Final = timedelta(microseconds=1)


def _operand(value: Any, field: Field) -> Any:
    """The value as the checker of queries has it."""
    if isinstance(value, str):
        return _encoded(value).decode()
    if value is None or value != value:
        raise QueryError(f"nothing equals {'null' if value is None else 'nan'}: where= asks for it by 'is'")
    if isinstance(value, bool | np.bool_):
        return simplify.ALWAYS[bool(value)]
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _numpy_time(value, field)
    if isinstance(value, int | np.integer):
        return Constant(int(value))
    if isinstance(value, float | np.floating | Decimal):
        number = float(value)
        return Constant(number, Fraction(str(value)) if math.isfinite(number) else None)
    if isinstance(value, datetime):
        ahead = value.utcoffset()
        clock = Fraction((value.replace(tzinfo=None) - _EPOCH) // _MICROSECOND, 1_000_000)
        return typed.Written("timestamp", clock, None if ahead is None else ahead // timedelta(seconds=1))
    if isinstance(value, date):
        return typed.Written("date", Fraction((value - _EPOCH.date()).days))
    if isinstance(value, time):
        of_day = datetime.combine(_EPOCH, value.replace(tzinfo=None)) - _EPOCH
        return typed.Written("time", Fraction(of_day // _MICROSECOND, 1_000_000))
    if isinstance(value, timedelta):
        return typed.Written("duration", Fraction(value // _MICROSECOND, 1_000_000))
    return value


def _numpy_time(value: np.datetime64 | np.timedelta64, field: Field) -> typed.Written:
    """numpy's points in time are in UTC beside a column with a zone, as its own are."""
    unit, count = np.datetime_data(value.dtype)
    if unit not in _NUMPY_UNITS:
        raise QueryError(f"a key is no {value.dtype}: say it in days or smaller units")
    seconds = Fraction(value.astype(np.int64).item() * count) * _NUMPY_UNITS[unit]
    if isinstance(value, np.timedelta64):
        return typed.Written("duration", seconds)
    if field.meaning is not None and field.meaning.name == "date" and seconds % DAY == 0:
        return typed.Written("date", seconds / DAY)
    zoned = field.meaning is not None and field.meaning.zone is not None
    return typed.Written("timestamp", seconds, 0 if zoned else None)


def only_row(found: Sequence[int], keys: Keys, value: Any) -> int:
    """The one row of those that were found; `NoRowError` where there is none, `QueryError` where there are several."""
    if len(found) == 1:
        return found[0]
    text = str(keys.condition(value))
    if found:
        raise QueryError(
            f"{many(len(found), 'row')} have {text}, and a key is that of one: where={text!r} has them all"
        )
    raise NoRowError(f"no row has {text}")
