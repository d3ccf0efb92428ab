"""Logical types: what values stand for, over the type that they are stored as (docs/spec/format.md)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from ..errors import SchemaError, did_you_mean
from .nested import nested_of

__all__ = [
    "LOGICAL_TYPES",
    "LogicalType",
    "MOST_DIGITS",
    "WORD_DIGITS",
    "ZONE",
    "canonical",
    "from_text",
    "is_of_later_version",
    "other_logical",
    "problem_of",
    "shown",
]


class LogicalType(Protocol):
    """One logical type: its name, its parameters, and the stored types that it may lie over."""

    @property
    def name(self) -> str:
        """The name that stands under "type"."""
        ...

    @property
    def parameters(self) -> Mapping[str, bool]:
        """The names of its parameters, and whether each must be there."""
        ...

    def problem(self, given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
        """What is wrong with these parameters, or with values stored so; None for nothing.

        ``given`` has the parameters that must be there, and no others. ``stored``: the name of the stored type, of an
        array that of its elements; ``shape``: None for a scalar or another blob.
        """
        ...


Problem = Callable[[Mapping[str, Any], str, "tuple[int, ...] | None"], "str | None"]


@dataclass(frozen=True)
class _Rule:
    """A logical type by a function."""

    name: str
    parameters: Mapping[str, bool]
    problem: Problem


_UNITS: Final = ("s", "ms", "us", "ns")
_FORMS: Final = ("xywh", "xyxy", "cxcywh")
_INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_NUMBERS: Final = (*_INTEGERS, "float16", "bfloat16", "float32", "float64")
ZONE: Final = re.compile(
    r"[+-](?:[01][0-9]|2[0-3]):[0-5][0-9]|[A-Za-z][A-Za-z0-9_+-]{0,31}(?:/[A-Za-z0-9_+-]{1,31}){0,3}"
)
_MEDIA: Final = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,63}/(?:\*|[a-z0-9][a-z0-9!#$&^_.+-]{0,126})")
_UUID_BYTES: Final = 16
_WORDS: Final = 2  # of 64 bits, of a decimal of more digits than one holds
# Of a decimal: that one word holds, and two do, as many as Arrow's decimal128.
WORD_DIGITS: Final = 18
MOST_DIGITS: Final = 38


def _unit_problem(given: Mapping[str, Any]) -> str | None:
    return None if given["unit"] in _UNITS else f"unit is one of {', '.join(_UNITS)}, got {given['unit']!r}"


def _stored_as(stored: str, *names: str) -> str | None:
    return None if stored in names else f"it is stored as {' or '.join(names)}, not {stored}"


def _timestamp(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    zone = given.get("zone", "UTC")
    if not isinstance(zone, str) or ZONE.fullmatch(zone) is None:
        return f'zone is a name such as "Europe/Paris", "UTC" or "+02:00", got {zone!r}'
    return _unit_problem(given) or _stored_as(stored, "int64")


def _date(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    return _stored_as(stored, "int32")


def _time(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    return _unit_problem(given) or _stored_as(stored, "int32" if given["unit"] in ("s", "ms") else "int64")


def _duration(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    return _unit_problem(given) or _stored_as(stored, "int64")


def _decimal(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    precision, scale = given["precision"], given["scale"]
    if type(precision) is not int or not 1 <= precision <= MOST_DIGITS:
        return f"precision is a number of digits from 1 to {MOST_DIGITS}, got {precision!r}"
    if type(scale) is not int or not 0 <= scale <= precision:
        return f"scale is a number of digits from 0 to the precision, got {scale!r}"
    two = precision > WORD_DIGITS
    if stored != "int64" or shape != ((_WORDS,) if two else None):
        return f"{precision} digits are stored as int64{f'[{_WORDS}]' if two else ''}"
    return None


def _class(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    names = given["names"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        return f"names is a list of texts, got {_clipped(names)}"
    if len(set(names)) != len(names):
        return f"names has {Counter(names).most_common(1)[0][0]!r:.60} twice"
    return _stored_as(stored, *_INTEGERS)


def _media(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    if not isinstance(given["media"], str) or _MEDIA.fullmatch(given["media"]) is None:
        return f'media is a media type such as "image/jpeg" or "image/*", got {given["media"]!r}'
    return _stored_as(stored, "bytes")


def _boxes(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    if given["form"] not in _FORMS:
        return f"form is one of {', '.join(_FORMS)}, got {given['form']!r}"
    if stored not in _NUMBERS or not shape or shape[-1] != 4:
        return "boxes are stored as arrays of numbers whose last dimension is 4"
    return None


def _uuid(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    return None if (stored, shape) == ("uint8", (_UUID_BYTES,)) else f"it is stored as uint8[{_UUID_BYTES}]"


def _nested(given: Mapping[str, Any], stored: str, shape: tuple[int, ...] | None) -> str | None:
    if not isinstance(given["of"], str):
        return f"of is the text of a type such as list<struct<role: string, content: string>>, got {given['of']!r:.60}"
    try:
        nested_of(given["of"])
    except ValueError as error:
        return f"of: {error}"
    return _stored_as(stored, "object")


LOGICAL_TYPES: Final[dict[str, LogicalType]] = {
    rule.name: rule
    for rule in (
        _Rule("timestamp", {"unit": True, "zone": False}, _timestamp),
        _Rule("date", {}, _date),
        _Rule("time", {"unit": True}, _time),
        _Rule("duration", {"unit": True}, _duration),
        _Rule("decimal", {"precision": True, "scale": True}, _decimal),
        _Rule("class", {"names": True}, _class),
        _Rule("media", {"media": True}, _media),
        _Rule("boxes", {"form": True}, _boxes),
        _Rule("uuid", {}, _uuid),
        _Rule("nested", {"of": True}, _nested),
    )
}


def canonical(column: str, given: object, stored: str, shape: tuple[int, ...] | None) -> dict[str, Any]:
    """The form in which a logical type that a user gives is stored; SchemaError for what is none.

    ``given``: its name, or a dict with it under "type" and its parameters; a parameter of None is left out.
    """
    said = {"type": given} if isinstance(given, str) else given
    if not isinstance(said, Mapping) or not isinstance(said.get("type"), str):
        raise SchemaError(
            f"column {column!r}: a logical type is a name, or a dict such as "
            f'{{"type": "timestamp", "unit": "us", "zone": "UTC"}}, got {_clipped(given)}'
        )
    found = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in said.items()
        if value is not None
    }
    name = said["type"]
    if name not in LOGICAL_TYPES:
        hint = did_you_mean(name, LOGICAL_TYPES) or "."
        raise SchemaError(
            f"column {column!r}: unknown logical type {name!r}{hint} There are: {', '.join(LOGICAL_TYPES)}"
        )
    problem = problem_of(found, stored, shape)
    if problem is not None:
        raise SchemaError(f"column {column!r}: logical type {name}: {problem}")
    return found


_TEXT: Final = re.compile(r"(date|uuid)|(timestamp|time|duration|decimal)(?:\[([^\[\]]+)\]|\(([^()]+)\))")


def from_text(text: str) -> tuple[str, list[int] | None, dict[str, Any]] | None:
    """What a short form stands for: the stored type, its shape, the logical type; None where it is none.

    They are ``timestamp[us]``, ``timestamp[us, Europe/Paris]``, ``date``, ``time[ms]``, ``duration[s]`` and
    ``decimal[12, 2]``, also as SQL writes it, ``decimal(12, 2)``, and ``uuid``; the logical type is not checked.
    """
    found = _TEXT.fullmatch(text)
    inner = "" if found is None else found[3] or found[4] or ""
    given: list[Any] = [piece.strip() for piece in inner.split(",") if piece.strip()]
    if found is None or not (found[1] or given):
        return None
    name = found[1] or found[2]
    if name == "uuid":
        return "uint8", [_UUID_BYTES], {"type": name}
    if name == "decimal":
        given = [int(piece) if piece.isdecimal() and len(piece) < WORD_DIGITS else piece for piece in given]
    parameters = ("precision", "scale") if name == "decimal" else ("unit", "zone", "more")
    logical = {"type": name, **dict(zip(parameters, given, strict=False))}
    wide = name == "decimal" and type(given[0]) is int and given[0] > WORD_DIGITS
    small = name == "date" or (name == "time" and given[0] in ("s", "ms"))
    return "int32" if small else "int64", [_WORDS] if wide else None, logical


def is_of_later_version(said: Mapping[str, Any]) -> bool:
    """Whether a later version may have written it: its name or one of its parameters is not known here."""
    kind = LOGICAL_TYPES.get(name) if type(name := said.get("type")) is str else None
    return type(name) is str and (
        kind is None or any(key != "type" and key not in kind.parameters for key in said)
    )


def problem_of(said: object, stored: str, shape: tuple[int, ...] | None) -> str | None:
    """Why what a file says is no logical type of this version over values that are stored so; None where it is one."""
    if not isinstance(said, dict) or type(said.get("type")) is not str:
        return "it has no name"
    kind = LOGICAL_TYPES.get(said["type"])
    if kind is None:
        return "this version does not know it"
    more = [name for name in said if name != "type" and name not in kind.parameters]
    missing = [name for name, must in kind.parameters.items() if must and name not in said]
    if more or missing:
        return (
            f"{more[0]!r} is none of its parameters" if more else f"its parameter {missing[0]!r} is missing"
        )
    return kind.problem({name: said[name] for name in kind.parameters if name in said}, stored, shape)


def other_logical(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether values of these two logical types are to be understood otherwise; None: as they are stored.

    Media types may differ, or be missing: a file says of itself what it is.
    """
    return _compared(one) != _compared(other)


def _compared(said: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if said is not None and said.get("type") == "media" else said


def shown(said: Mapping[str, Any] | None) -> str:
    """A logical type for people: in short, where a schema takes that, else as ``boxes(form xywh)``; "none" for none."""
    if said is None:
        return "none"
    values = ", ".join(_clipped(value) for name, value in said.items() if name != "type")
    in_short = f"{said.get('type')}[{values}]" if values else str(said.get("type"))
    if (meant := from_text(in_short)) is not None and meant[2] == said:
        return in_short
    parameters = ", ".join(f"{name} {_clipped(value)}" for name, value in said.items() if name != "type")
    return f"{said.get('type')}({parameters})" if parameters else str(said.get("type"))


def _clipped(value: object) -> str:
    text = (
        value
        if isinstance(value, str)
        else ", ".join(map(str, value[:20]))
        if isinstance(value, list)
        else repr(value)
    )
    return text if len(text) <= 80 else text[:77] + "…"
