"""Text and parsed JSON to the values of a column, exactly or not at all, and the types that text can be read as."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from importlib import import_module
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from ...core import ColumnLook
from ...errors import SchemaError
from ...format.arrow_types import arrow_type, from_arrow
from ...format.column import Column
from ...format.meaning import read_duration, read_time
from ...format.values.cell import PER_SECOND, Refused, encoder_for
from ...format.values.objects import MAX_DEPTH
from ...writing.inference import text_type
from .foreign_libraries import RAISED

__all__ = [
    "CellEvidence",
    "InexactError",
    "LONGEST_MOMENT",
    "NUMBER",
    "TextTimes",
    "converted",
    "exact_float",
    "json_converter",
    "numbers",
    "parse_json",
    "takes_moments",
    "text_converter",
    "times_of_texts",
    "utf8",
    "value_of_none",
]


# JSON text to Python values, as JSON says them or not at all.


# Only such text can hold a number beyond 1.8e308; anything else is parsed without a look at each number. It begins with
# a digit, of which text has few, so that most of it is passed over.
_MAYBE_HUGE: Final = re.compile(r"[0-9](?:[eE]\+?[0-9]{3}|[0-9]{199})")

_TOO_DEEP: Final = f"a value is nested more than {MAX_DEPTH} levels deep"


class InexactError(ValueError):
    """A number is one that its column would round, or that no float64 holds; the message says what to do."""


def parse_json(text: str, around: int = 0) -> Any:
    """Return the value; ``ValueError`` says why there is none, whatever the text is.

    Refused are, besides what is no JSON: more than `MAX_DEPTH` levels within the ``around`` outermost, a key that one
    object has twice, numbers that would become infinite (`InexactError`), and integers of more digits than Python
    reads. ``NaN`` and ``Infinity`` are read.
    """
    depth = MAX_DEPTH + around
    try:
        value = json.loads(
            text, parse_float=_finite if _MAYBE_HUGE.search(text) else None, object_pairs_hook=_with_keys_once
        )
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    except ValueError as error:
        if "integer string conversion" in str(error):
            raise ValueError("a number has more digits than 64 bits hold") from None
        raise
    if text.count("[") + text.count("{") > depth and not _is_flat(value, depth):
        raise ValueError(_TOO_DEEP)
    return value


def _with_keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"an object has the key {twice!r} twice")
    return found


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        shown = text if len(text) <= 40 else f"{text[:37]}…"
        raise InexactError(f"the number {shown} is beyond float64 (1.8e308)")
    return value


def _is_flat(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        below: list[Any] = []
        for item in level:
            if isinstance(item, list):
                below += [child for child in item if isinstance(child, list | dict)]
            elif isinstance(item, dict):
                below += [child for child in item.values() if isinstance(child, list | dict)]
        if not below:
            return True
        level = below
    return False


# Values of files that say no more than which bytes are a value: text, and a value that is not there.


def utf8(data: bytes | memoryview) -> str:
    """Return the text that bytes are; ``ValueError`` where they are none."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 ({error.reason} at byte {error.start})") from None


def value_of_none(column: Column, what: str) -> Any:
    """What stands for ``what`` a row lacks: null, or an empty array; ``ValueError`` where it can be neither."""
    if column.nullable or column.type == "object":
        return None
    if column.is_array and column.free_dims:
        return np.zeros([max(size, 0) for size in column.item_shape], column.dtype)
    raise ValueError(f"the {what} is missing, and {column} has no null")


# The type of a column of text cells: what all its cells can be read as.


_BEYOND: Final = 1 << 64  # stands for whole numbers that no 64 bits hold
# Cells are tested joined by a character that cannot be part of a number: one match per column and chunk.
_JOIN: Final = "\x1f"
_WHOLE: Final = r"[-+]?(?:0|[1-9][0-9]*)"  # no leading zeros: 007 is a name
_REAL: Final = (
    rf"{_WHOLE}(?:\.[0-9]*)?(?:e[-+]?[0-9]+)?|[-+]?\.[0-9]+(?:e[-+]?[0-9]+)?|[-+]?inf(?:inity)?|nan"
)
# One way only to match blanks, or a long run of them that is no number takes quadratic time.
_ANY_CASE: Final = re.IGNORECASE | re.ASCII  # or a Turkish dotless i were an i
_INTS: Final = re.compile(rf"(?:(?: *(?:{_WHOLE}) *)?{_JOIN})*")
_REALS: Final = re.compile(rf"(?:(?: *(?:{_REAL}) *)?{_JOIN})*", _ANY_CASE)
_BOOLS: Final = re.compile(rf"(?:(?:true|false)?{_JOIN})*", _ANY_CASE)
NUMBER: Final = re.compile(rf" *(?:{_REAL}) *", _ANY_CASE)
_WHOLE_CELL: Final = re.compile(_WHOLE)
_EXACT_DIGITS: Final = 15
_NEGATIVE: Final = re.compile(r"-[1-9]")
_BIG: Final = re.compile(r"[0-9]{19}")
_LONG: Final = re.compile(r"[0-9]{16}")
_MAX_DIGITS: Final = 30  # a whole number that is written longer is beyond 64 bits


@dataclass
class CellEvidence:
    """What the cells of one column seen so far allow.

    ``low`` and ``high`` bound its whole numbers, but may be nearer to 0 where that decides nothing.
    """

    whole: bool = True
    real: bool = True
    logical: bool = True
    times: TextTimes = field(default_factory=lambda: TextTimes())
    empty: bool = False
    filled: bool = False
    low: int = 0
    high: int = 0
    longest: int = 0
    inexact: bool = False  # a whole number may be none that float64 holds

    def add(self, cells: Sequence[str]) -> None:
        """Take more cells into account."""
        self.empty = self.empty or "" in cells
        self.times.add(cell for cell in cells if cell)
        self.filled = self.filled or any(cells)
        if self.whole or self.real or self.logical:
            joined = _JOIN.join(cells) + _JOIN
            if joined.count(_JOIN) != len(cells):  # a cell holds it, which no number does
                joined = "x"
            self.whole = self.whole and _INTS.fullmatch(joined) is not None
            self.real = self.real and (self.whole or _REALS.fullmatch(joined) is not None)
            self.logical = self.logical and _BOOLS.fullmatch(joined) is not None
            if self.whole and _NEGATIVE.search(joined):
                self.low = min(self.low, -1)
            self.inexact = self.inexact or (self.real and _LONG.search(joined) is not None)
            if self.whole and _BIG.search(joined):
                values = [_whole(cell) for cell in cells if cell.strip()]
                self.low, self.high = min(self.low, *values), max(self.high, *values)
        self.longest = max(self.longest, max(map(len, cells)))

    def take(self, look: ColumnLook) -> None:
        """Take cells into account that were looked through in C, as `add` does."""
        self.whole = self.whole and look.whole
        self.real = self.real and look.real
        self.logical = self.logical and look.logical
        self.times.take(look)
        self.empty = self.empty or look.empty
        self.filled = self.filled or look.filled
        self.low = min(self.low, -_BEYOND if look.beyond_low else -look.negative)
        self.high = max(self.high, _BEYOND if look.beyond_high else look.high)
        self.longest = max(self.longest, look.longest)
        self.inexact = self.inexact or look.inexact

    def type(self) -> str:
        """Return the type's name, with ``?`` when a cell was empty."""
        name = self._base() if self.filled else "string"
        if name == "string" and not self.empty:
            return text_type(self.longest)
        return name + "?" if self.empty else name

    def _base(self) -> str:
        if self.whole:
            if self.high < 1 << 63 and self.low >= -(1 << 63):
                return "int64"
            return "uint64" if self.low >= 0 and self.high < 1 << 64 else "string"
        if self.real:
            return "float64"
        return "bool" if self.logical else self.times.type() or "string"


# Dates and times in text: the forms that stand for one are these alone, whoever reads them (docs/converting.md).


_DATE: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK: Final = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?"
_OFFSET: Final = r"Z|[+-][0-9]{2}:[0-9]{2}"
_DATE_FORM: Final = rf"^{_DATE}$"
_MOMENT_FORM: Final = rf"^{_DATE}[T ]{_CLOCK}(?:{_OFFSET})?$"
_MOMENT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[T ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
LONGEST_MOMENT: Final = len("2025-06-01T12:00:00.123456789+02:00")
_FIRST_DAY: Final = date(1970, 1, 1).toordinal()
_WHOLE_YEARS: Final = range(1678, 2262)  # that 64 bits of nanoseconds since 1970 hold whole
_MICROSECONDS: Final = 6  # digits
_FEW: Final = 64
_REFUSED: Final[tuple[type[Exception], ...]] = (SchemaError, *RAISED["pyarrow"])


class TextMoment(NamedTuple):
    """What a text says: days since 1970, seconds of the day, nanoseconds, and how far its clock is ahead of UTC.

    ``seconds``: None of a date; ``ahead``: None where the text does not say it. ``digits``: of the fraction.
    """

    day: int
    seconds: int | None
    nanoseconds: int
    ahead: int | None
    digits: int
    year: int

    @classmethod
    def read(cls, text: str) -> TextMoment:
        """ValueError for text of another form, and for what no calendar or clock shows."""
        found = _MOMENT.fullmatch(text)
        if found is None:
            raise ValueError("it is no date and no time")
        day, hours, minutes, seconds, fraction, offset = found.groups()
        days = date.fromisoformat(day).toordinal() - _FIRST_DAY
        if hours is None:
            return cls(days, None, 0, None, 0, int(day[:4]))
        hour, minute, second = int(hours), int(minutes), int(seconds or 0)
        ahead = None if offset is None else 0 if offset == "Z" else _ahead(offset)
        if hour > 23 or minute > 59 or second > 59:
            raise ValueError("no clock shows that time")
        digits = len(fraction or "")
        return cls(
            days,
            hour * 3_600 + minute * 60 + second,
            int(fraction or 0) * 10 ** (9 - digits),
            ahead,
            digits,
            int(day[:4]),
        )


def _ahead(offset: str) -> int:
    hours, minutes = int(offset[1:3]), int(offset[4:])
    if hours > 23 or minutes > 59:
        raise ValueError("no clock is that far from UTC")
    return (hours * 3_600 + minutes * 60) * (-1 if offset[0] == "-" else 1)


@dataclass
class TextTimes:
    """Whether all texts seen so far are dates, or all are times; ``far``: of a year that nanoseconds do not hold."""

    date: bool = True
    moment: bool = True
    zoned: bool = False
    unzoned: bool = False
    digits: int = 0
    far: bool = False

    @property
    def is_possible(self) -> bool:
        """Whether nothing has been seen that is no time."""
        return self.date or self.moment

    def add(self, texts: Iterable[str]) -> None:
        """Take more texts into account; an empty one is no time."""
        for text in texts:
            if not self.is_possible:
                return
            try:
                found = TextMoment.read(text)
            except ValueError:
                self.date = self.moment = False
                return
            self.date = self.date and found.seconds is None
            self.moment = self.moment and found.seconds is not None
            self.zoned = self.zoned or found.ahead is not None
            self.unzoned = self.unzoned or (found.seconds is not None and found.ahead is None)
            self.digits = max(self.digits, found.digits)
            self.far = self.far or found.year not in _WHOLE_YEARS

    def take(self, look: ColumnLook) -> None:
        """Take texts into account that were looked through in C, as `add` does."""
        self.date = self.date and look.date
        self.moment = self.moment and look.moment
        self.zoned = self.zoned or look.zoned
        self.unzoned = self.unzoned or look.unzoned
        self.digits = max(self.digits, look.digits)
        self.far = self.far or look.far

    def type(self) -> str | None:
        """The type of a column of these texts, of which there is one at least; None where they are text."""
        if self.date:
            return "date"
        unit = "us" if self.digits <= _MICROSECONDS else "ns"
        if not self.moment or (self.zoned and self.unzoned) or (unit == "ns" and self.far):
            return None
        return f"timestamp[{unit}, UTC]" if self.zoned else f"timestamp[{unit}]"


def times_of_texts(cells: Any, column: Column) -> Any:
    """The stored values of an Arrow array of texts for a column of dates or times; None where one needs a look."""
    compute = import_module("pyarrow.compute")
    kind = arrow_type(column)
    form = _DATE_FORM if column.type == "int32" else _MOMENT_FORM
    if not compute.all(compute.match_substring_regex(cells, form), min_count=0).as_py():
        return None
    try:
        cells[:_FEW].cast(kind)  # Arrow is slow to fail: it words an error for every cell
        return from_arrow(column, cells.cast(kind))
    except _REFUSED:
        return None


def _is_rounded(cell: str) -> bool:
    """Whether the cell of a column of float64 is a whole number that float64 does not hold."""
    text = cell.strip(" ")
    if len(text) <= _EXACT_DIGITS or _WHOLE_CELL.fullmatch(text) is None:
        return False
    value = float(text)
    return value in (float("inf"), float("-inf")) or Decimal(text) != Decimal(value)


def _whole(cell: str) -> int:
    """Return the number, or one that is as far beyond 64 bits."""
    text = cell.strip()
    if len(text) <= _MAX_DIGITS:
        return int(text)
    return -_BEYOND if text.startswith("-") else _BEYOND


# Text and parsed JSON to the values of a column of a given type, exactly or not at all.


_TRUE: Final = frozenset(("true", "t", "yes", "y", "1"))
_FALSE: Final = frozenset(("false", "f", "no", "n", "0"))
_TEXTS: Final = {str, type(None)}


def converted(
    values: Sequence[Any],
    convert: Callable[[Any], Any],
    column: Column,
    lines: Sequence[int],
    misfits: dict[int, str],
) -> list[Any]:
    """Return every value converted, None for what cannot be: ``misfits`` is told in which row, and why."""
    if convert is _same or (convert is _as_text and set(map(type, values)) <= _TEXTS):
        return list(values)
    try:
        return list(map(convert, values))
    except (ValueError, TypeError, OverflowError):
        found: list[Any] = []
        for row, value in enumerate(values):
            try:
                found.append(convert(value))
            except (ValueError, TypeError, OverflowError) as error:
                found.append(None)
                misfits.setdefault(
                    row, f"line {lines[row]}, column {column.name!r}: {_misfit(value, column, error)}"
                )
        return found


def _misfit(value: Any, column: Column, error: Exception) -> str:
    if value == "":
        return f'the cell is empty; the type "{column}?" allows that'
    shown = repr(value) if len(repr(value)) <= 60 else repr(value)[:57] + "…"
    is_json = (
        column.type == "object" or column.is_array
    )  # of other text all that can be said is that it does not fit
    if isinstance(error, InexactError) and not is_json:
        return f"{shown} {error}"
    if column.known_logical is not None and not column.is_array:
        return f"{shown} is no {column.known_logical['type']}: {error}"
    why = f": {error}" if is_json and str(error) else ""
    return f"{shown} is no {column}{why}"


def text_converter(column: Column) -> Callable[[str], Any]:
    """Return the function that makes a value of the column from the text of a CSV cell; empty text is null."""
    if (meant := _meant_from_text(column)) is not None:
        return (lambda text: meant(text) if text else None) if column.nullable else meant
    if column.type in ("string", "text"):
        return (lambda text: text or None) if column.nullable else str
    if column.type == "bytes" and not column.is_array:
        return (lambda text: text.encode() or None) if column.nullable else str.encode
    convert = _array_from_text(column) if column.is_array else _scalar_from_text(column)
    return (lambda text: convert(text) if text else None) if column.nullable else convert


def takes_moments(column: Column) -> bool:
    """Whether its values are dates, or points in time."""
    said = column.known_logical
    return said is not None and not column.is_array and said["type"] in ("date", "timestamp")


def _meant_from_text(column: Column) -> Callable[[str], Any] | None:
    """What reads a text by the column's logical type, as what a writer takes; None where values are not read by it."""
    said = column.known_logical or {"type": None}
    if said["type"] == "uuid":
        return UUID
    if column.is_array and said["type"] != "decimal":
        return None
    if said["type"] in ("timestamp", "date"):
        return _moment_from_text(said.get("unit"), zoned="zone" in said)
    if said["type"] in ("time", "duration"):
        per, read = PER_SECOND[said["unit"]], read_time if said["type"] == "time" else read_duration

        def whole(text: str) -> int:
            found = read(text) * per
            if found.denominator != 1:
                raise ValueError(f"it is no whole number of {said['unit']}")
            return found.numerator

        return whole
    if said["type"] == "decimal":
        return _decimal_from_text(column)
    if said["type"] == "class":
        numbers = {name: number for number, name in enumerate(said["names"])}
        return lambda text: numbers[text] if text in numbers else _int_from_text(text)
    return None


def _moment_from_text(unit: str | None, *, zoned: bool) -> Callable[[str], int]:
    def convert(text: str) -> int:
        found = TextMoment.read(text)
        if unit is None:
            if found.seconds is not None:
                raise ValueError("it has a time of the day")
            return found.day
        if (found.ahead is not None) != zoned:
            raise ValueError("it says no time zone, as Z or +02:00" if zoned else "it says a time zone")
        per = PER_SECOND[unit]
        part, rest = divmod(found.nanoseconds * per, 1_000_000_000)
        if rest:
            raise ValueError(f"it is no whole number of {unit}")
        return (found.day * 86_400 + (found.seconds or 0) - (found.ahead or 0)) * per + part

    return convert


def _decimal_from_text(column: Column) -> Callable[[str], Any]:
    encode = encoder_for(column)

    def convert(text: str) -> Decimal:
        if "_" in text:  # Decimal() takes 1_000
            raise ValueError("it is no number")
        try:
            found = Decimal(text.strip())
            encode(found)
        except (ArithmeticError, Refused) as error:
            raise ValueError(str(error) if isinstance(error, Refused) else "it is no number") from None
        return found

    return convert


def _same(value: Any) -> Any:
    return value


def _scalar_from_text(column: Column) -> Callable[[str], Any]:
    if column.type == "object":
        return parse_json
    if column.type == "bool":
        return _bool_from_text
    return _float_from_text if column.type.startswith("float") else _int_from_text


def _bool_from_text(text: str) -> bool:
    folded = text.strip().lower()
    if folded in _TRUE or folded in _FALSE:
        return folded in _TRUE
    raise ValueError


def _int_from_text(text: str) -> int:
    if "_" in text:  # int() takes 1_000
        raise ValueError
    return int(text)


def _float_from_text(text: str) -> float:
    if "_" in text:
        raise ValueError
    value = float(text)
    if math.isinf(value) and "n" not in text.lower():  # 1e999 is finite as text
        raise ValueError
    return value


def exact_float(column: Column) -> Callable[[str], Any]:
    """Return what makes a float64 of the text of a CSV cell, and no other number of a whole one."""

    def convert(text: str) -> float | None:
        if column.nullable and not text:
            return None
        if _is_rounded(text):
            raise InexactError(
                "is a whole number, and float64, which other values of the column need, rounds it: --schema "
                f"{column.name}=string keeps what is written, {column.name}=float64 takes the nearest"
            )
        return _float_from_text(text)

    return convert


def _array_from_text(column: Column) -> Callable[[str], Any]:
    convert = json_converter(column)
    return lambda text: convert(parse_json(text))


def json_converter(column: Column) -> Callable[[Any], Any]:
    """Return the function that makes a column's value from parsed JSON; scalars are left to the writer's checks."""
    if (meant := _meant_from_text(column)) is not None:
        return _meant_from_json(
            meant, numbers_too=column.meaning is not None and column.meaning.name == "decimal"
        )
    if not column.is_array:
        if column.type == "bytes":
            return _encoded
        return _as_text if column.type in ("string", "text") else _same
    dtype = column.dtype
    assert dtype is not None

    def to_array(value: Any) -> Any:
        if value is None and column.nullable:
            return None
        array = numbers(value)
        if array is None:
            raise ValueError
        cast = array.astype(dtype)
        exact = array.size == 0 or array.dtype.kind == "f" or (cast.astype(np.longdouble) == array).all()
        if array.dtype.kind == "f" and dtype.kind not in "fc":
            exact = array.size == 0 or bool((cast == array).all())
        if not exact or (dtype.kind == "f" and (np.isinf(cast) & ~np.isinf(array)).any()):
            raise ValueError
        return cast

    return to_array


def _meant_from_json(meant: Callable[[str], Any], *, numbers_too: bool) -> Callable[[Any], Any]:
    """``numbers_too``: a number says the value, and not what is stored, as 19.99 and 20 do of decimals."""

    def convert(value: Any) -> Any:
        if isinstance(value, str):
            return meant(value)
        return meant(repr(value)) if numbers_too and type(value) in (int, float) else value

    return convert


def _encoded(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


def _as_text(value: Any) -> Any:
    """Keep text and null; a number or a list in a column that was declared text becomes its JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def numbers(value: Any) -> np.ndarray[Any, Any] | None:
    """Return a nested list of numbers of one kind as a bool, int64 or float64 array; None when it is anything else."""
    if not isinstance(value, list):
        return None
    kinds = _leaf_types(value)
    if kinds == {bool}:
        wanted: Any = np.bool_
    elif kinds <= {int}:
        wanted = np.int64
    elif kinds <= {int, float}:
        wanted = np.float64
    else:
        return None
    try:
        array = np.array(value, dtype=wanted)
    except (ValueError, OverflowError):  # ragged, or beyond 64 bits
        return None
    if kinds == {int, float} and (np.abs(array) > 2**53).any():  # an integer may have been rounded
        return None
    return array


def _leaf_types(value: list[Any]) -> set[type]:
    kinds = set(map(type, value))
    if list in kinds:
        kinds.discard(list)
        for item in value:
            if isinstance(item, list):
                kinds |= _leaf_types(item)
    return kinds
