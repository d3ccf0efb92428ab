"""What stored integers stand for by their logical type: times, decimals, classes, as text and from text, exactly."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

from .logical import problem_of

__all__ = [
    "DAY",
    "DAYS",
    "Meaning",
    "UnknownZone",
    "as_stored",
    "as_times",
    "fixed_offset",
    "offset_at",
    "offset_of_clock",
    "read_date",
    "read_duration",
    "read_moment",
    "read_time",
]

DAY: Final = 86_400
_PER: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_EPOCH: Final = datetime(1970, 1, 1)
_NO_ZONE_DATA: Final = ("UTC", "GMT", "Etc/UTC", "Etc/GMT", "Zulu")  # known without the system's files


class UnknownZone(ValueError):
    """A time zone that this system does not know, or not at that time."""


@dataclass(frozen=True)
class Meaning:
    """What integers stand for: those of a column with a logical type, and what is worked out of such.

    ``name``: the logical type's. ``per``: how many of the integers are a second (of a date: a day; of a decimal: 1).
    """

    name: str
    per: int = 1
    zone: str | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, said: Mapping[str, Any] | None, stored: str, shape: tuple[int, ...] | None) -> Meaning | None:
        """That of a column; None where values are no such text: of media, of arrays of times."""
        if said is None or problem_of(said, stored, shape) is not None:
            return None
        name = said["type"]
        if shape is not None and name not in ("decimal", "uuid"):
            return None
        if name == "class":
            return cls(name, names=tuple(said["names"]))
        if name == "decimal":
            return cls(name, 10 ** said["scale"])
        if name in ("timestamp", "time", "duration"):
            return cls(name, _PER[said["unit"]], said.get("zone"))
        return cls(name) if name in ("date", "uuid") else None

    def text(self, value: Any, universal: bool = False) -> str:
        """A stored value, or what samples have for it, as text: what `read_moment` and the others read as this value.

        ``universal``: moments in UTC, whatever the zone, so that the text is the same on any system.
        """
        if isinstance(value, np.ndarray):
            return self._text_of_words(value)
        value = as_stored(value)
        whole, rest = divmod(int(value), self.per)
        if self.name == "class":
            return self.names[whole] if 0 <= whole < len(self.names) else str(whole)
        if self.name == "decimal":
            return _decimal_text(int(value), self.per)
        if self.name == "date":
            return _date_text(whole)
        if self.name == "timestamp":
            return self._moment_text(whole, rest, universal)
        if value < 0:
            return "-" + self.text(-int(value))
        return _clock_text(whole, rest, self.per) if self.name == "time" else self._span_text(whole, rest)

    def _text_of_words(self, words: np.ndarray[Any, Any]) -> str:
        if self.name == "uuid":
            digits = words.tobytes().hex()
            return "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32)))
        low, high = words.tolist()
        return _decimal_text((high << 64) + low % (1 << 64), self.per)

    def _moment_text(self, seconds: int, rest: int, universal: bool) -> str:
        offset = 0
        if self.zone is not None and not universal:
            try:
                offset = offset_at(self.zone, seconds)
            except UnknownZone:
                offset = 0
        days, clock = divmod(seconds + offset, DAY)
        text = f"{_date_text(days)}T{_clock_text(clock, rest, self.per)}"
        return text if self.zone is None else text + _offset_text(offset)

    def _span_text(self, seconds: int, rest: int) -> str:
        pieces = []
        for size, letter in ((DAY, "d"), (3_600, "h"), (60, "m")):
            count, seconds = divmod(seconds, size)
            pieces += [f"{count}{letter}"] if count else []
        if seconds or rest or not pieces:
            pieces.append(f"{seconds}{_rest_text(rest, self.per).rstrip('0')}s")
        return "".join(pieces)


def _decimal_text(value: int, per: int) -> str:
    whole, rest = divmod(abs(value), per)
    return f"{'-' * (value < 0)}{whole}" + (f".{str(per + rest)[1:]}" if per > 1 else "")


def _rest_text(rest: int, per: int) -> str:
    return f".{str(per + rest)[1:]}" if rest else ""


def _clock_text(seconds: int, rest: int, per: int) -> str:
    return f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{_rest_text(rest, per)}"


def _offset_text(offset: int) -> str:
    if not offset:
        return "Z"
    text = f"{'-' if offset < 0 else '+'}{abs(offset) // 3_600:02}:{abs(offset) // 60 % 60:02}"
    return text + (f":{abs(offset) % 60:02}" if offset % 60 else "")


# The calendar, of any year (Hinnant, "chrono-compatible low-level date algorithms"): a year begins with its March.


_ERA: Final = 146_097  # days of 400 years
_BEFORE: Final = 719_468  # days from the first of March of the year 0 to 1970-01-01


def _date_text(days: int) -> str:
    era, day = divmod(days + _BEFORE, _ERA)
    year = (day - day // 1_460 + day // 36_524 - day // (_ERA - 1)) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    year += 400 * era + (month >= 10)
    shown = f"{year:04}" if 0 <= year <= 9_999 else f"{year:+05}"
    return f"{shown}-{(month + 2) % 12 + 1:02}-{day + 1:02}"


def _days(year: int, month: int, day: int) -> int:
    year -= month <= 2
    era, year = divmod(year, 400)
    return (
        era * _ERA
        + 365 * year
        + year // 4
        - year // 100
        + (153 * ((month + 9) % 12) + 2) // 5
        + day
        - 1
        - _BEFORE
    )


# What people write.


_DATE: Final = re.compile(r"([+-]?\d{4,12})-(\d\d)-(\d\d)", re.ASCII)
_CLOCK: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(\.\d{1,40})?)?", re.ASCII)
_OFFSET: Final = re.compile(r"\s?(?:(Z|z|UTC)|([+-])(\d\d)(?::?(\d\d)(?::(\d\d))?)?)", re.ASCII)
_PIECE: Final = re.compile(r"(\d{1,30}(?:\.\d{0,40})?|\.\d{1,40})\s*([A-Za-zµμ]+)\s*,?\s*", re.ASCII)
_SPANS: Final = {
    **dict.fromkeys(("w", "week", "weeks"), Fraction(7 * DAY)),
    **dict.fromkeys(("d", "day", "days"), Fraction(DAY)),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), Fraction(3_600)),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), Fraction(60)),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), Fraction(1)),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), Fraction(1, 1_000)),
    **dict.fromkeys(("us", "µs", "μs", "microsecond", "microseconds"), Fraction(1, 1_000_000)),
    **dict.fromkeys(("ns", "nanosecond", "nanoseconds"), Fraction(1, 1_000_000_000)),
}


def read_date(text: str) -> int:
    """The day that ``2025-06-01`` means, counted from 1970-01-01; ValueError for what is none."""
    found = _DATE.fullmatch(text.strip())
    if found is None:
        raise ValueError("it is no date")
    year, month, day = map(int, found.groups())
    if not (1 <= month <= 12 and day >= 1):
        raise ValueError("there is no such day")
    days = _days(year, month, day)
    if days >= _days(year + month // 12, month % 12 + 1, 1):
        raise ValueError("there is no such day")
    return days


def read_time(text: str) -> Fraction:
    """The seconds since midnight that ``12:30``, ``12:30:05`` or ``12:30:05.25`` means; up to 24:00."""
    text = text.strip()
    found = _CLOCK.fullmatch(text.removeprefix("-"))
    seconds = None if found is None else _seconds(found)
    if seconds is None or seconds > DAY:
        raise ValueError("it is no time of a day")
    return -seconds if text.startswith("-") else seconds


def _seconds(found: re.Match[str]) -> Fraction | None:
    hours, minutes, seconds = (int(found[place] or 0) for place in (1, 2, 3))
    if minutes > 59 or seconds > 59:
        return None
    return hours * 3_600 + minutes * 60 + seconds + Fraction(found[4] or 0)


def read_moment(text: str) -> tuple[Fraction, int | None]:
    """What ``2025-06-01``, with a time of the day after a space or T where wanted, means: seconds since 1970.

    They are by the clock that it is read from; and by how many seconds that is ahead of UTC, where the text says it, as
    ``Z`` or ``+02:00`` behind the time.
    """
    text = text.strip()
    date = _DATE.match(text)
    if date is None:
        raise ValueError("it is no time")
    days, rest = read_date(date[0]), text[date.end() :]
    if not rest:
        return Fraction(days * DAY), None
    clock = _CLOCK.match(rest, 1) if rest[0] in "Tt " else None
    seconds = None if clock is None else _seconds(clock)
    if clock is None or seconds is None or seconds >= DAY:
        raise ValueError("it is no time")
    offset = _OFFSET.fullmatch(rest, clock.end()) if clock.end() < len(rest) else None
    if offset is None and clock.end() < len(rest):
        raise ValueError("it is no time")
    ahead = None if offset is None else _ahead(offset)
    return days * DAY + seconds, ahead


def _ahead(offset: re.Match[str]) -> int:
    if offset[1]:
        return 0
    hours, minutes, seconds = (int(offset[place] or 0) for place in (3, 4, 5))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError("it is no time")
    return (-1 if offset[2] == "-" else 1) * (hours * 3_600 + minutes * 60 + seconds)


def read_duration(text: str) -> Fraction:
    """The seconds that ``90 seconds``, ``1h30m``, ``7 days``, ``01:30:00`` or ``-5 min`` means."""
    stripped = text.strip()
    rest = stripped.removeprefix("-").lstrip()
    total, place = Fraction(0), 0
    while place < len(rest):
        found = _PIECE.match(rest, place)
        if found is None:
            break
        unit = found[2].lower()
        if unit not in _SPANS:
            if unit.rstrip("s") in ("month", "mon", "year", "y", "yr", "quarter"):
                raise ValueError(f"a {unit.rstrip('s')} has no fixed length: days and weeks have")
            raise ValueError("it is no duration")
        total += Fraction(found[1]) * _SPANS[unit]
        place = found.end()
    if place < len(rest) or not rest:
        clock = _CLOCK.fullmatch(rest, place)
        seconds = None if clock is None else _seconds(clock)
        if seconds is None:
            raise ValueError("it is no duration")
        total += seconds
    return -total if stripped.startswith("-") else total


# Time zones.


@lru_cache(64)
def _zone(name: str) -> tzinfo:
    if name in _NO_ZONE_DATA:
        return UTC
    if (fixed := _OFFSET.fullmatch(name)) is not None:
        return timezone(timedelta(seconds=_ahead(fixed)))
    try:
        # most programs need no zones, and it is slow to import
        from zoneinfo import ZoneInfo

        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise UnknownZone(f"this system does not know the time zone {name!r}") from None


def _offset(name: str, seconds: int, of_clock: bool) -> int:
    zone = _zone(name)
    if isinstance(zone, timezone):
        ahead = zone.utcoffset(None)
    else:
        try:
            at = _EPOCH + timedelta(seconds=seconds)
            found = at.replace(tzinfo=zone) if of_clock else at.replace(tzinfo=UTC).astimezone(zone)
            ahead = found.utcoffset() or timedelta(0)
        except OverflowError:
            raise UnknownZone(f"the time zone {name!r} is known for the years 1 to 9999") from None
    return ahead // timedelta(seconds=1)


def fixed_offset(name: str) -> int | None:
    """By how many seconds the clock of a time zone is always ahead of UTC; None where that changes or is unknown."""
    try:
        zone = _zone(name)
    except UnknownZone:
        return None
    return zone.utcoffset(None) // timedelta(seconds=1) if isinstance(zone, timezone) else None


def offset_at(name: str, seconds: int) -> int:
    """By how many seconds the clock of a time zone is ahead of UTC, so many seconds after 1970; or `UnknownZone`."""
    return _offset(name, seconds, of_clock=False)


def offset_of_clock(name: str, seconds: int) -> int:
    """The same by what the clock itself shows; where it shows that twice, by the first, and where never, by before."""
    return _offset(name, seconds, of_clock=True)


# Times as NumPy has them, and the integers that are stored. Days alone are of another width, and are copied.


DAYS: Final = np.dtype("M8[D]")


def as_times(values: Any, dtype: np.dtype[Any] | None) -> Any:
    """Stored integers, an array or one of them, as the ``time_dtype`` of their column; as they are where it is None."""
    if dtype is None:
        return values
    return values.astype(dtype) if dtype == DAYS else values.view(dtype)


def as_stored(values: Any) -> Any:
    """What a batch has for a column, with stored integers in place of times: for what knows no times."""
    dtype = getattr(values, "dtype", None)
    if dtype is None or dtype.kind not in "mM":
        return values
    return values.astype(np.int32) if dtype == DAYS else values.view(np.int64)
