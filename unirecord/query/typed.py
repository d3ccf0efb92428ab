"""Comparisons and sums of times, durations, decimals and classes, as those of the integers that they are stored as."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from typing import Final

import numpy as np

from ..errors import did_you_mean
from ..format.meaning import (
    DAY,
    Meaning,
    UnknownZone,
    fixed_offset,
    offset_at,
    offset_of_clock,
    read_date,
    read_duration,
    read_moment,
    read_time,
)
from . import simplify
from .columns import match_strings
from .tree import (
    INTEGERS,
    AnyOf,
    Condition,
    Constant,
    Field,
    Number,
    Operation,
    TextTest,
    Value,
    is_integer,
    meaning_of,
    string_text,
    value_text,
)

__all__ = [
    "DayOf",
    "Mismatch",
    "Written",
    "arithmetic",
    "class_test",
    "compare",
    "day_of",
    "described",
    "minus",
    "written",
]

_UNITS: Final = (1, 1_000, 1_000_000, 1_000_000_000)  # of a second
_MOST_DIGITS: Final = 40  # behind the point of a number that is added to decimals
_EXAMPLES: Final = {
    "timestamp": "'2025-06-01 12:00'",
    "date": "'2025-06-01'",
    "time": "'12:00'",
    "duration": "'1h30m'",
}
_READ: Final[dict[str, Callable[[str], int | Fraction]]] = {
    "date": read_date,
    "time": read_time,
    "duration": read_duration,
}


class Mismatch(Exception):
    """What is wrong with a comparison or a sum, and how it is spelled."""


@dataclass(frozen=True)
class Written:
    """A time, a date or a duration that says its type, of no column yet: in seconds, of a date in days; exactly.

    ``ahead``: of a timestamp, by how many seconds the clock that shows it is ahead of UTC, if that was written.
    """

    name: str
    value: Fraction
    ahead: int | None = None

    def __str__(self) -> str:
        text = Meaning(self.name, 1 if self.name == "date" else _UNITS[-1]).text(
            self.value if self.name == "date" else math.floor(self.value * _UNITS[-1])
        )
        if self.ahead is not None:
            text = _moment(self.value, self.ahead)
        return f"{'interval' if self.name == 'duration' else self.name} '{text}'"


@dataclass(frozen=True)
class DayOf:
    """``date(column)``: the day on which a time is, in the time zone of its column."""

    field: Field
    meaning: Meaning


Literal = str | Written | Constant
Ranges = list[tuple[int, int]]


def written(name: str, text: str) -> Written:
    """The literal of this type, timestamp, date, time or interval, with this text."""
    return _written("duration" if name == "interval" else name, text, name)


def _written(kind: str, text: str, spelled: str) -> Written:
    try:
        if kind == "timestamp":
            return Written(kind, *read_moment(text))
        return Written(kind, Fraction(_READ[kind](text)))
    except ValueError as error:
        raise Mismatch(f"'{text}': {error}; write {spelled} {_EXAMPLES[kind]}") from None


def described(number: Number) -> str:
    """A number with what it stands for, for messages."""
    meaning = meaning_of(number)
    if isinstance(number, Value):
        return f"{number.field.name} ({number.field.type if meaning is None else meaning.name})"
    return "a number" if meaning is None else f"a {meaning.name}"


def _moment(value: Fraction, ahead: int) -> str:
    return Meaning("timestamp", _UNITS[-1], "UTC").text(math.floor((value - ahead) * _UNITS[-1]))


# Comparisons.


def compare(operator: str, left: object, right: object) -> Condition | None:
    """The condition, if one of the sides is a time, a date, a duration, a decimal or a class; or Mismatch.

    None: neither is, or a class is compared as the number that it is.
    """
    if isinstance(left, Literal) and not isinstance(right, Literal):
        return compare(simplify.MIRRORED[operator], right, left)
    if isinstance(left, Literal):
        if isinstance(left, Written) or isinstance(right, Written):
            raise Mismatch("a condition is about a column, and none is named here")
        return None
    if isinstance(left, DayOf) or isinstance(right, DayOf):
        return _of_days(operator, left, right)
    if not isinstance(left, simplify.NUMBERS):
        if isinstance(right, simplify.NUMBERS) and not isinstance(right, Constant) and meaning_of(right):
            return compare(simplify.MIRRORED[operator], right, left)
        if isinstance(right, Written):
            raise _no_time(left, right)
        return None
    if isinstance(right, Literal):
        return _with_literal(operator, left, right)
    if not isinstance(right, simplify.NUMBERS):
        if (meaning := meaning_of(left)) is not None:
            raise _of_other_kind(meaning, left, right)
        return None
    return _of_numbers(operator, left, right)


def _no_time(left: object, right: Written) -> Mismatch:
    if isinstance(left, Field):
        text = str(right).split(" ", 1)[1]
        return Mismatch(f"{left.name} is a string, which is compared with a string: write {text}")
    return Mismatch(f"a {right.name} is compared with a column of that type")


def _of_other_kind(meaning: Meaning, left: Number, right: object) -> Mismatch:
    other = f"{right.name} (string)" if isinstance(right, Field) else "true or false"
    hint = ""
    if meaning.name == "class":
        hint = f"; a class is named in quotes, as in {left} == {value_text(meaning, 0)}"
    return Mismatch(f"{described(left)} cannot be compared with {other}{hint}")


def _with_literal(operator: str, left: Number, right: Literal) -> Condition | None:
    meaning = meaning_of(left)
    if meaning is None:
        if isinstance(right, Written):
            raise Mismatch(f"{described(left)} is no {right.name}, but a number without a unit")
        return None
    if meaning.name == "class":
        if not isinstance(right, str):
            return None
        number = _class_number(left, meaning, right)
        if operator not in ("==", "!="):
            raise Mismatch(
                f"classes have no order; to compare their numbers, write {left} {operator} {number}"
            )
        return simplify.compare_numbers(operator, left, Constant(number))
    if isinstance(right, Constant) and isinstance(right.value, float) and math.isinf(right.value):
        value: int | float | Fraction = right.value
    else:
        value = _in_units(left, meaning, right, operator)
    return simplify.compare_numbers(operator, left, Constant(value))


def _class_number(left: Number, meaning: Meaning, name: str) -> int:
    if name in meaning.names:
        return meaning.names.index(name)
    hint = did_you_mean(name, meaning.names)
    if not hint:
        few = ", ".join(string_text(known.encode()) for known in meaning.names[:12])
        hint = f"; there are {few}{', …' if len(meaning.names) > 12 else ''}"
    raise Mismatch(f"{left} has no class {name!r}{hint}")


def _in_units(left: Number, meaning: Meaning, literal: Literal, operator: str = "==") -> Fraction:
    """The literal in the units of the integers that it stands beside."""
    if meaning.name == "decimal":
        if isinstance(literal, Constant):
            return _exactly(literal) * meaning.per
        raise Mismatch(_no_decimal(left, literal, operator))
    if isinstance(literal, Constant):
        example = _EXAMPLES[meaning.name]
        if isinstance(literal.value, int) and abs(literal.value) < 1 << 63:
            example = f"'{meaning.text(literal.value, universal=True)}'"
        raise Mismatch(
            f"{described(left)} cannot be compared with a number; write {left} {operator} {example}, which is "
            f"stored as {literal.value}"
            if isinstance(literal.value, int)
            else f"{described(left)} cannot be compared with a number; write {left} {operator} {example}"
        )
    if isinstance(literal, str):
        literal = _written(meaning.name, literal, f"{left} {operator}")
    elif literal.name != meaning.name and (meaning.name, literal.name) != ("timestamp", "date"):
        raise Mismatch(
            f"{described(left)} cannot be compared with a {literal.name}; write {left} {operator} "
            f"{_nearest_literal(meaning, literal)}"
        )
    if meaning.name != "timestamp":
        return literal.value * meaning.per
    clock = literal.value * DAY if literal.name == "date" else literal.value
    if meaning.zone is None:
        if literal.ahead is not None:
            text = Meaning("timestamp", _UNITS[-1]).text(math.floor(clock * _UNITS[-1]))
            raise Mismatch(
                f"{described(left)} has no time zone: it is what a clock shows; write {left} {operator} '{text}', "
                f"without one, or now() at time zone 'UTC' for what the clock of that zone shows"
            )
        return clock * meaning.per
    ahead = literal.ahead
    if ahead is None:
        try:
            ahead = offset_of_clock(meaning.zone, math.floor(clock))
        except UnknownZone as error:
            text = _moment(clock, 0)
            raise Mismatch(f"{error}; write {left} {operator} '{text}', in UTC") from None
    return (clock - ahead) * meaning.per


def _nearest_literal(meaning: Meaning, literal: Written) -> str:
    """The literal as one of the type of a column, if it makes sense, else an example."""
    if (meaning.name, literal.name) == ("date", "timestamp"):
        return f"'{Meaning('date').text(math.floor(literal.value) // DAY)}'"
    if {meaning.name, literal.name} == {"duration", "time"}:
        return f"'{Meaning(meaning.name, _UNITS[-1]).text(math.floor(literal.value * _UNITS[-1]))}'"
    return _EXAMPLES[meaning.name]


def _no_decimal(left: Number, literal: str | Written, operator: str) -> str:
    said = f"{described(left)} cannot be compared with a {'string' if isinstance(literal, str) else literal.name}"
    try:
        number = str(literal).strip()
        Fraction(number)
    except (ValueError, ZeroDivisionError):
        return f"{said}; write {left} {operator} 19.99"
    return f"{said}; write {left} {operator} {number}, without quotes"


def _exactly(constant: Constant) -> Fraction:
    if constant.exact is not None:
        return constant.exact
    return Fraction(constant.value)


def _of_numbers(operator: str, left: Number, right: Number) -> Condition | None:
    mine, theirs = meaning_of(left), meaning_of(right)
    if "class" in (mine and mine.name, theirs and theirs.name):
        return _of_classes(operator, left, right)
    if mine is None and theirs is None:
        return None
    if (mine and mine.name) == "decimal" or (theirs and theirs.name) == "decimal":
        left, right = _same_scale(left, right)
    else:
        left, right = _same_unit(left, right, operator)
    return simplify.compare_numbers(operator, left, right)


def _of_classes(operator: str, left: Number, right: Number) -> Condition | None:
    mine, theirs = meaning_of(left), meaning_of(right)
    if mine is None or theirs is None:
        other = theirs if mine is None else mine
        return None if other and other.name == "class" else _refused(left, right)
    hint = f"write {left} - {right} {operator} 0"
    if mine != theirs:
        raise Mismatch(
            f"{described(left)} and {described(right)} have other names; to compare their numbers, {hint}"
            if (mine.name, theirs.name) == ("class", "class")
            else f"{described(left)} cannot be compared with {described(right)}"
        )
    if operator not in ("==", "!="):
        raise Mismatch(f"classes have no order; to compare their numbers, {hint}")
    return None


def _refused(left: Number, right: Number) -> Condition:
    raise Mismatch(f"{described(left)} cannot be compared with {described(right)}")


def _same_unit(left: Number, right: Number, operator: str) -> tuple[Number, Number]:
    """Both in the finer one of their units."""
    mine, theirs = meaning_of(left), meaning_of(right)
    if mine is None or theirs is None or mine.name != theirs.name:
        hint = ""
        names = {mine and mine.name: left, theirs and theirs.name: right}
        moment = names.get("timestamp")
        zone = None if moment is None else (meaning_of(moment) or Meaning("")).zone
        fixed = zone is None or fixed_offset(zone) is not None
        if set(names) == {"timestamp", "date"} and isinstance(moment, Value) and fixed:
            one, other = (f"date({side})" if side is moment else side for side in (left, right))
            hint = f"; write {one} {operator} {other}"
        raise Mismatch(f"{described(left)} cannot be compared with {described(right)}{hint}")
    if (mine.zone is None) != (theirs.zone is None):
        with_zone, without = (left, right) if theirs.zone is None else (right, left)
        raise Mismatch(
            f"{described(with_zone)} is a moment, and {described(without)} what a clock shows, of which no zone is "
            "known"
        )
    return _finest(left, right)


def _same_scale(left: Number, right: Number) -> tuple[Number, Number]:
    """Both as integers of the finer one of their scales."""
    return _finest(_as_decimal(left), _as_decimal(right))


def _finest(left: Number, right: Number) -> tuple[Number, Number]:
    mine, theirs = meaning_of(left), meaning_of(right)
    assert mine is not None
    assert theirs is not None
    per = max(mine.per, theirs.per)
    return _scaled(left, per // mine.per), _scaled(right, per // theirs.per)


def _as_decimal(number: Number) -> Number:
    meaning = meaning_of(number)
    if meaning is not None and meaning.name == "decimal":
        return number
    if isinstance(number, Constant):
        value = _exactly(number)
        for digits in range(_MOST_DIGITS + 1):
            if (value * 10**digits).denominator == 1:
                return Constant(int(value * 10**digits), meaning=Meaning("decimal", 10**digits))
        raise Mismatch(f"{number} has more than {_MOST_DIGITS} digits behind the point")
    if meaning is None and is_integer(number):
        return Operation("*", number, Constant(1), Meaning("decimal"), str(number))
    if meaning is not None:
        raise Mismatch(f"{described(number)} is no number")
    raise Mismatch(
        f"{described(number)} is a float, which is not exact: a decimal is compared with, and worked out of, decimals "
        "and integers, and numbers that are written"
    )


def _scaled(number: Number, factor: int) -> Number:
    """The same in units that are so many times finer; a query says it as before."""
    meaning = meaning_of(number)
    if factor == 1 or meaning is None:
        return number
    finer = replace(meaning, per=meaning.per * factor)
    if isinstance(number, Constant):
        return Constant(int(number.value) * factor, meaning=finer)
    if isinstance(number, Operation) and (number.operator, number.written) == ("*", str(number.left)):
        assert isinstance(number.right, Constant)
        return replace(number, right=Constant(int(number.right.value) * factor), meaning=finer)
    return Operation("*", number, Constant(factor), finer, str(number))


def class_test(field: Field, test: TextTest) -> Condition:
    """The name of the class passes a test of strings."""
    assert field.meaning is not None
    names = [name.encode() for name in field.meaning.names]
    if isinstance(test, AnyOf):
        passing: list[int | float | Fraction] = [i for i, name in enumerate(names) if test.matches(name)]
    else:
        offsets = np.cumsum([0, *map(len, names)], dtype=np.uint64)
        found = match_strings(offsets, np.frombuffer(b"".join(names), np.uint8), test)
        passing = list(np.flatnonzero(found).tolist())
    return simplify.one_of(field, passing)


# Days of moments: in a time zone they begin where its clock shows midnight, and its clock is put back and forth.


def day_of(operand: object) -> DayOf:
    """``date(operand)``."""
    meaning = operand.field.meaning if isinstance(operand, Value) else None
    if not isinstance(operand, Value) or meaning is None or meaning.name != "timestamp":
        what = described(operand) if isinstance(operand, simplify.NUMBERS) else "no column of times"
        raise Mismatch(f"date() takes a column of the type timestamp; this is {what}")
    return DayOf(operand.field, meaning)


def _of_days(operator: str, left: object, right: object) -> Condition:
    if not isinstance(left, DayOf):
        return _of_days(simplify.MIRRORED[operator], right, left)
    spelled = f"date({left.field}) {operator}"
    if isinstance(right, simplify.NUMBERS) and (meaning := meaning_of(right)) and meaning.name == "date":
        return simplify.compare_numbers(operator, _day_number(left), right)
    if isinstance(right, str):
        right = _written("date", right, spelled)
    if not isinstance(right, Written) or right.name not in ("date", "timestamp"):
        raise Mismatch(f"date() is compared with a date: write {spelled} '2025-06-01'")
    if right.name == "timestamp":
        raise Mismatch(
            f"date() is compared with a date: write {spelled} {_nearest_literal(Meaning('date'), right)}"
        )
    day = int(right.value)
    try:
        found = _from_day(left.meaning, day + (operator not in ("<", ">=")))
    except UnknownZone as error:
        first, following = (Meaning("timestamp", 1, "UTC").text(number * DAY) for number in (day, day + 1))
        raise Mismatch(
            f"{error}; in UTC a day is: write {left.field} >= '{first}' and {left.field} < '{following}'"
        ) from None
    if operator in ("<", "<="):
        found = _without(found)
    elif operator in ("==", "!="):
        found = _without(found)
        found = [
            (max(a, c), min(b, d))
            for a, b in _from_day(left.meaning, day)
            for c, d in found
            if max(a, c) <= min(b, d)
        ]
    condition = simplify.any_of([simplify.number_range(left.field, low, high) for low, high in found])
    if not found:
        condition = simplify.known(left.field, False)
    return simplify.negate(condition) if operator == "!=" else condition


def _day_number(day: DayOf) -> Number:
    """The day as a number of days, where all days are equally long."""
    ahead = 0 if day.meaning.zone is None else fixed_offset(day.meaning.zone)
    if ahead is None:
        raise Mismatch(
            f"days of {day.meaning.zone} are not equally long: date({day.field}) is compared with a date that is "
            "written"
        )
    clock = Operation("+", Value(day.field), Constant(ahead * day.meaning.per))
    return Operation("//", clock, Constant(DAY * day.meaning.per), Meaning("date"), f"date({day.field})")


def _from_day(meaning: Meaning, day: int) -> Ranges:
    """The stored integers of moments at which the clock shows this day or a later one, as ranges that ascend."""
    most = INTEGERS["int64"][1]
    midnight = day * DAY
    if meaning.zone is None:
        starts: list[tuple[int, int | None]] = [(midnight, None)]
    else:
        starts = _from_clock(meaning.zone, midnight)
    ranges = [(low * meaning.per, most if stop is None else stop * meaning.per - 1) for low, stop in starts]
    least = INTEGERS["int64"][0]
    return [(max(low, least), min(high, most)) for low, high in ranges if low <= most and high >= least]


def _from_clock(zone: str, midnight: int) -> list[tuple[int, int | None]]:
    """The moments at which the clock of a zone shows ``midnight`` or a later time, in seconds: all but the last end."""
    hours = range(midnight - DAY, midnight + DAY + 1, 3_600)
    offsets = [offset_at(zone, moment) for moment in hours]
    starts = [(hours[0], offsets[0])]
    for (low, ahead), (high, then) in pairwise(zip(hours, offsets, strict=True)):
        while ahead != then and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if offset_at(zone, middle) == ahead else (low, middle)
        if ahead != then:
            starts.append((high, then))
    found: list[tuple[int, int | None]] = []
    for (start, ahead), end in zip(starts, [*(start for start, _ in starts[1:]), None], strict=True):
        first = max(start, midnight - ahead)
        if end is not None and first >= end:
            continue
        if found and found[-1][1] == first:
            first = found.pop()[0]
        found.append((first, end))
    return found


def _without(ranges: Ranges) -> Ranges:
    """The integers that are in none of the ranges, which ascend."""
    least, most = INTEGERS["int64"]
    edges = [least, *(edge for low, high in ranges for edge in (low - 1, high + 1)), most]
    return [(low, high) for low, high in zip(edges[::2], edges[1::2], strict=True) if low <= high]


# Arithmetic.


def minus(operand: object) -> Number | Written | None:
    """The operand with the other sign; None where it is no duration, and not typed at all."""
    if isinstance(operand, Written):
        if operand.name != "duration":
            raise Mismatch(f"a {operand.name} has no sign")
        return replace(operand, value=-operand.value)
    meaning = meaning_of(operand) if isinstance(operand, simplify.NUMBERS) else None
    if meaning is not None and meaning.name not in ("duration", "decimal", "class"):
        raise Mismatch(f"a {meaning.name} has no sign")
    return None


def arithmetic(operator: str, left: object, right: object) -> Number | Written | None:
    """The sum, difference or product, if one of the operands is a time, a duration or a decimal; None if none is."""
    if isinstance(left, Written) and isinstance(right, Written):
        return _of_written(operator, left, right)
    if isinstance(left, Constant) and isinstance(right, Written) and operator == "*":
        left, right = right, left
    if isinstance(left, Written) and isinstance(right, Constant) and (left.name, operator) in _SHARES:
        factor = _exactly(right)
        return replace(left, value=left.value * factor if operator == "*" else left.value / factor)
    names = [_name(side) for side in (left, right)]
    if not set(names) & {"timestamp", "date", "time", "duration", "decimal"}:
        return None
    for side, other in ((left, right), (right, left)):
        if isinstance(side, str) or isinstance(other, str):
            text = side if isinstance(side, str) else other
            assert isinstance(text, str)
            raise Mismatch(f"this is a string{_typed_hint(text)}")
    if not all(isinstance(side, (*simplify.NUMBERS, Written)) for side in (left, right)):
        raise Mismatch("arithmetic needs numbers, times or durations")
    if "decimal" in names:
        return _of_decimals(operator, left, right)
    one, other = _beside(operator, left, right), _beside(operator, right, left)
    kinds = (
        operator,
        *(meaning.name if (meaning := meaning_of(side)) else "number" for side in (one, other)),
    )
    if operator == "*" and set(kinds[1:]) == {"duration", "number"} and is_integer(one) and is_integer(other):
        return Operation(operator, one, other, meaning_of(one) or meaning_of(other))
    if kinds in (("+", "date", "duration"), ("-", "date", "duration"), ("+", "duration", "date")):
        return _date_and_span(operator, one, other)
    if kinds not in _SUMS:
        raise Mismatch(f"there is no {kinds[1]} {operator} {kinds[2]}{_number_hint(operator, one, other)}")
    of_times = {kinds[1], kinds[2]} == {"timestamp"}
    one, other = _same_unit(one, other, "-") if of_times else _finest(one, other)
    mine = meaning_of(one)
    assert mine is not None
    name = _SUMS[kinds]
    zone = next((m.zone for side in (one, other) if (m := meaning_of(side)) and m.zone is not None), None)
    found = Operation(operator, one, other, Meaning(name, mine.per, zone if name == "timestamp" else None))
    if kinds[1:] == ("date", "date"):
        return Operation("*", replace(found, meaning=None), Constant(DAY), Meaning("duration"), str(found))
    return found


_SHARES: Final = (("duration", "*"), ("duration", "/"))
_SUMS: Final = {
    ("-", "timestamp", "timestamp"): "duration",
    ("-", "date", "date"): "duration",
    ("-", "time", "time"): "duration",
    ("+", "timestamp", "duration"): "timestamp",
    ("-", "timestamp", "duration"): "timestamp",
    ("+", "duration", "timestamp"): "timestamp",
    ("+", "duration", "duration"): "duration",
    ("-", "duration", "duration"): "duration",
}


def _name(side: object) -> str | None:
    if isinstance(side, Written):
        return side.name
    if isinstance(side, DayOf):
        return "date"
    meaning = meaning_of(side) if isinstance(side, simplify.NUMBERS) else None
    return None if meaning is None else meaning.name


def _typed_hint(text: str) -> str:
    for kind, read in (("interval", read_duration), ("timestamp", read_moment), ("time", read_time)):
        try:
            read(text)
        except ValueError:
            continue
        return f"; write {kind} '{text}'"
    return ""


def _number_hint(operator: str, left: Number, right: Number) -> str:
    """How a number is added to what has a unit: as the duration that it is in that unit."""
    meaning = meaning_of(left)
    if operator not in "+-" or meaning is None or meaning.name not in ("timestamp", "duration"):
        return ""
    if not isinstance(right, Constant) or not isinstance(right.value, int):
        return ""
    return f"; write {left} {operator} interval '{Meaning('duration', meaning.per).text(right.value)}'"


def _beside(operator: str, side: object, other: object) -> Number:
    """The operand as a number: a literal in a unit that holds it, in the time zone of what it stands beside."""
    assert isinstance(side, (*simplify.NUMBERS, Written))
    if not isinstance(side, Written):
        return side
    assert isinstance(other, simplify.NUMBERS)
    beside = meaning_of(other)
    per = 1 if beside is None else beside.per
    meaning = Meaning(side.name, 1 if side.name == "date" else per)
    if beside is not None and side.name == "timestamp":
        meaning = replace(meaning, zone=beside.zone)
    value = _in_units(other, meaning, side) if side.name == "timestamp" else side.value * meaning.per
    if value.denominator != 1:
        finer = next((unit for unit in _UNITS if unit > per and (value * unit / per).denominator == 1), None)
        if finer is None:
            raise Mismatch("this is no whole number of nanoseconds")
        value, meaning = value * finer / per, replace(meaning, per=finer)
    return Constant(int(value), meaning=meaning)


def _date_and_span(operator: str, left: Number, right: Number) -> Number:
    day, span = (left, right) if (meaning_of(left) or Meaning("")).name == "date" else (right, left)
    meaning = meaning_of(span)
    assert meaning is not None
    if not isinstance(span, Constant) or int(span.value) % (DAY * meaning.per):
        raise Mismatch("whole days are added to a date: write interval '1 day'")
    days = Constant(int(span.value) // (DAY * meaning.per))
    shown = f"({left} {operator} {right})"
    return Operation(operator, day, days, Meaning("date"), shown)


def _of_decimals(operator: str, left: object, right: object) -> Number:
    if isinstance(left, Written) or isinstance(right, Written) or operator not in "+-*":
        raise Mismatch(
            f"decimals are added, subtracted and multiplied, exactly; {operator} is not: multiply the other side"
            if operator not in "+-*"
            else f"there is no {_name(left)} {operator} {_name(right)}"
        )
    assert isinstance(left, simplify.NUMBERS)
    assert isinstance(right, simplify.NUMBERS)
    if operator == "*":
        left, right = _as_decimal(left), _as_decimal(right)
        mine, theirs = meaning_of(left), meaning_of(right)
        assert mine is not None
        assert theirs is not None
        return Operation(operator, left, right, Meaning("decimal", mine.per * theirs.per))
    left, right = _same_scale(left, right)
    return Operation(operator, left, right, meaning_of(left))


def _of_written(operator: str, left: Written, right: Written) -> Written:
    kinds = (operator, left.name, right.name)
    if kinds in (("+", "date", "duration"), ("-", "date", "duration")) and not right.value % DAY:
        right = Written("date", right.value / DAY)
    elif kinds == ("-", "timestamp", "timestamp"):
        if (left.ahead is None) != (right.ahead is None):
            raise Mismatch("one of these times has a time zone, and one has none")
        return Written("duration", left.value - (left.ahead or 0) - right.value + (right.ahead or 0))
    elif kinds not in _SUMS or left.name in ("date", "time") or right.name == "timestamp":
        raise Mismatch(f"there is no {left.name} {operator} {right.name} of literals")
    value = left.value + right.value if operator == "+" else left.value - right.value
    return replace(left, value=value)
