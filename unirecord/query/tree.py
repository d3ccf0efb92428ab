"""The checked tree of a query: conditions on the columns of one schema, and their canonical text."""

from __future__ import annotations

import math
import operator as operators
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np

from ..core import cached_property
from ..format.meaning import Meaning
from .parse import KEYWORDS, NAME

# Turns a comparison with a number that was written into an exact range in the column's own type.


# The type of a field of decimals of two words: their rows hold them, no index does.
WORDS: Final = "int128"
INTEGERS: Final[dict[str, tuple[int, int]]] = {
    "bool": (0, 1),
    **{f"int{bits}": (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for bits in (8, 16, 32, 64, 128)},
    **{f"uint{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
EMPTY: Final = (1, 0)
ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": operators.truediv,
    "//": operators.floordiv,
    "%": operators.mod,
}
HOLDS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operators.eq,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}

ValueRange = tuple[int | float, int | float]


def value_range(type_name: str, operator: str, value: int | float | Fraction, as_written: bool) -> ValueRange:
    """The least and greatest value of the type for which ``x operator value``; EMPTY where there is none.

    ``operator`` is == < <= > or >=. ``as_written``: the value is a float that the user wrote, so that for float16 and
    float32 it means the nearest number of that type, as 0.1 does when it is stored.
    """
    if type_name in INTEGERS:
        return _integer_range(*INTEGERS[type_name], operator, value)
    assert not isinstance(value, Fraction)
    return _float_range(np.dtype(type_name), operator, value, as_written)


def _integer_range(least: int, greatest: int, operator: str, value: int | float | Fraction) -> ValueRange:
    low, high = integer_limits(operator, value)
    low = least if low is None else max(low, least)
    high = greatest if high is None else min(high, greatest)
    return (low, high) if low <= high else EMPTY


def integer_limits(operator: str, value: int | float | Fraction) -> tuple[int | None, int | None]:
    """The least and greatest integer for which ``x operator value``: None is no limit, EMPTY no integer."""
    if isinstance(value, float) and math.isinf(value):
        holds = operator in (("<", "<=") if value > 0 else (">", ">="))
        return (None, None) if holds else EMPTY
    if operator == "==":
        return (int(value), int(value)) if value == int(value) else EMPTY
    if operator in ("<", "<="):
        return None, math.floor(value) if operator == "<=" else math.ceil(value) - 1
    return math.ceil(value) if operator == ">=" else math.floor(value) + 1, None


def _float_range(dtype: np.dtype[Any], operator: str, value: int | float, as_written: bool) -> ValueRange:
    if as_written and isinstance(value, float):
        value = nearest(dtype, value)
    below, above = neighbours(dtype, value)
    if operator == "==":
        return (below, above) if below == above else EMPTY
    exact = below == above
    if operator in ("<", "<="):
        high = _step(dtype, below, -math.inf) if exact and operator == "<" else below
        return (-math.inf, high) if not (exact and operator == "<" and below == -math.inf) else EMPTY
    low = _step(dtype, above, math.inf) if exact and operator == ">" else above
    return (low, math.inf) if not (exact and operator == ">" and above == math.inf) else EMPTY


def nearest(dtype: np.dtype[Any], value: float) -> float:
    """The type's number nearest to ``value``; ``value`` itself where that would be zero or infinite and it is not."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = float(dtype.type(value))
    return rounded if math.isfinite(rounded) and bool(rounded) == bool(value) else value


def neighbours(dtype: np.dtype[Any], value: int | float) -> tuple[float, float]:
    """The type's greatest number <= value and its least number >= value: the same where it is one; zero is 0.0."""
    try:
        with np.errstate(over="ignore", under="ignore"):
            close = float(dtype.type(float(value)))
    except OverflowError:
        close = math.inf if value > 0 else -math.inf
    if close == value:  # Python compares int with float exactly
        return close + 0.0, close + 0.0
    if close > value:
        return _step(dtype, close, -math.inf), close + 0.0
    return close + 0.0, _step(dtype, close, math.inf)


def _step(dtype: np.dtype[Any], value: float, towards: float) -> float:
    """The type's number next to ``value``; NumPy's scalar functions keep float16 and float32 as they are."""
    with np.errstate(all="ignore"):
        return float(np.nextafter(dtype.type(value), dtype.type(towards))) + 0.0


# Tests of one string: between two bounds, one of several, like a pattern; all on UTF-8 bytes.


BYTE, ONE, MANY = 0, 1, 2  # kinds of pattern element: this byte, any one character, any characters


@dataclass(frozen=True)
class Between:
    """``low <= string < high``; no upper bound when ``high`` is None."""

    low: bytes
    high: bytes | None

    def both(self, other: Between) -> Between:
        """The strings that pass this test and the other."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Between(max(self.low, other.low), min(highs) if highs else None)

    @property
    def empty(self) -> bool:
        """Whether no string passes."""
        return self.high is not None and self.low >= self.high

    @property
    def single(self) -> bytes | None:
        """The one string that passes, where there is just one."""
        return self.low if self.high == self.low + b"\0" else None


@dataclass(frozen=True)
class AnyOf:
    """One of these strings, which are sorted and differ."""

    strings: tuple[bytes, ...]

    @cached_property
    def _set(self) -> frozenset[bytes]:
        return frozenset(self.strings)

    def matches(self, string: bytes) -> bool:
        """Whether one string passes."""
        return string in self._set


@dataclass(frozen=True)
class Like:
    """A pattern: one byte of ``kinds`` for each byte of ``letters``; the letter counts where the kind is BYTE."""

    letters: bytes
    kinds: bytes

    def text(self) -> str:
        """The pattern as `like` takes it, with the backslash as the escape."""
        pieces, literal = [], b""
        for letter, kind in zip(self.letters, self.kinds, strict=True):
            if kind == BYTE:
                literal += b"\\" + bytes([letter]) if letter in b"%_\\" else bytes([letter])
            else:
                pieces.append(literal + (b"%" if kind == MANY else b"_"))
                literal = b""
        return (b"".join(pieces) + literal).decode()


TextTest = Between | AnyOf | Like


def equal(string: bytes) -> Between:
    """The test for this very string."""
    return Between(string, string + b"\0")


def starts_with(prefix: str) -> Between:
    """The test for strings that start so."""
    return Between(prefix.encode(), after_prefix(prefix))


def after_prefix(prefix: str) -> bytes | None:
    """The least string above all strings that start with ``prefix``; None where there is none."""
    while prefix:
        following = ord(prefix[-1]) + 1
        if following <= 0x10FFFF:
            return (prefix[:-1] + chr(0xE000 if following == 0xD800 else following)).encode()
        prefix = prefix[:-1]
    return None


def like(pattern: str, escape: str) -> TextTest:
    """The test for ``like pattern``; `ValueError` where the escape character ends it."""
    letters, kinds, at = bytearray(), bytearray(), 0
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == escape:
            if at == len(pattern):
                raise ValueError("the pattern ends with its escape character")
            char, at = pattern[at], at + 1
        elif char == "%":
            if not kinds or kinds[-1] != MANY:
                letters.append(0)
                kinds.append(MANY)
            continue
        elif char == "_":
            letters.append(0)
            kinds.append(ONE)
            continue
        encoded = char.encode()
        letters += encoded
        kinds += bytes(len(encoded))
    return simplest(bytes(letters), bytes(kinds))


def contains(middle: bytes) -> TextTest:
    """The test for strings that hold this one."""
    return simplest(
        b"\0" + middle + b"\0", bytes([MANY, *bytes(len(middle)), MANY]) if middle else bytes([MANY, MANY])
    )


def ends_with(suffix: bytes) -> TextTest:
    """The test for strings that end so."""
    return simplest(b"\0" + suffix, bytes([MANY]) + bytes(len(suffix)))


def simplest(letters: bytes, kinds: bytes) -> TextTest:
    """A range of strings where the pattern means one, else the pattern."""
    if ONE not in kinds:
        fixed = len(kinds.rstrip(bytes([MANY])))
        if MANY not in kinds[:fixed]:
            return starts_with(letters[:fixed].decode()) if fixed < len(kinds) else equal(letters)
    return Like(letters, kinds)


ROW: Final = -1  # ordinals of the pseudo columns
PART: Final = -2


@dataclass(frozen=True)
class Field:
    """A scalar column, one of blobs to be asked for nulls alone, or ``row`` or ``part``.

    ``type``: as in the schema, but `WORDS` of decimals of two words.

    ``meaning``: what its integers stand for, where its logical type says so.
    """

    name: str
    ordinal: int
    type: str
    nullable: bool = False
    meaning: Meaning | None = None

    def __str__(self) -> str:
        """The name as a query takes it."""
        plain = (
            self.name.isascii() and NAME.fullmatch(self.name) and self.name.lower() not in {*KEYWORDS, "inf"}
        )
        shadow = self.name in ("row", "part") and self.ordinal >= 0
        return self.name if plain and not shadow else "`" + self.name.replace("`", "``") + "`"


# ---- numbers


@dataclass(frozen=True)
class Value:
    """The number in a column."""

    field: Field

    def __str__(self) -> str:
        return str(self.field)


@dataclass(frozen=True)
class Constant:
    """A number that was written, or worked out of such; ``exact`` is what a float was before it was rounded.

    ``meaning``: of the integer of a time, a duration or a decimal.
    """

    value: int | float | Fraction
    exact: Fraction | None = field(default=None, compare=False)
    meaning: Meaning | None = None

    def __str__(self) -> str:
        text = value_text(self.meaning, self.value)
        if self.meaning is None or self.meaning.name == "decimal":
            return text
        return f"{'interval' if self.meaning.name == 'duration' else self.meaning.name} {text}"


@dataclass(frozen=True)
class Minus:
    """The operand with the other sign."""

    operand: Number

    def __str__(self) -> str:
        return f"(-{self.operand})"


@dataclass(frozen=True)
class Operation:
    """Two numbers joined by one of + - * / // %.

    ``meaning``: what the number stands for, if it is a time, a duration or a decimal. ``written``: how a query says
    it, where another one says it in a single unit: of a time in ms beside one in us, its 1,000-fold is meant.
    """

    operator: str
    left: Number
    right: Number
    meaning: Meaning | None = None
    written: str | None = None

    def __str__(self) -> str:
        return self.written or f"({self.left} {self.operator} {self.right})"


Number = Value | Constant | Minus | Operation


def is_integer(number: Number) -> bool:
    """Whether a number is an integer by its type."""
    if isinstance(number, Value):
        return not number.field.type.startswith("float")
    if isinstance(number, Constant):
        return isinstance(number.value, int)
    if isinstance(number, Minus):
        return is_integer(number.operand)
    return number.operator != "/" and is_integer(number.left) and is_integer(number.right)


def meaning_of(number: Number) -> Meaning | None:
    """What the integers of a number stand for: None for numbers."""
    if isinstance(number, Minus):
        meaning = meaning_of(number.operand)
        return None if meaning is not None and meaning.name == "class" else meaning
    return number.field.meaning if isinstance(number, Value) else number.meaning


def fields_of(number: Number) -> set[Field]:
    """The columns a number is made of."""
    if isinstance(number, Value):
        return {number.field}
    if isinstance(number, Minus):
        return fields_of(number.operand)
    return fields_of(number.left) | fields_of(number.right) if isinstance(number, Operation) else set()


# ---- conditions; each is true, false, or unknown where a column in it is null


@dataclass(frozen=True)
class Always:
    """True, or false, in every row."""

    value: bool

    def __str__(self) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True)
class Range:
    """``low <= field <= high``, in the numbers of the column's own type (a bool counts as 0 or 1)."""

    field: Field
    low: int | float
    high: int | float
    negated: bool = False

    def __str__(self) -> str:
        name, meaning = str(self.field), self.field.meaning
        if meaning is not None and meaning.name == "class" and self.low != self.high:
            meaning = None  # names have no order, numbers have
        low, high = value_text(meaning, self.low), value_text(meaning, self.high)
        if self.field.type == "bool":
            return name if self.low else f"not {name}"
        if (self.low, self.high) == (-math.inf, math.inf):
            return f"{name} is {'' if self.negated else 'not '}nan"
        if self.low == self.high:
            return f"{name} {'!=' if self.negated else '=='} {low}"
        least, greatest = INTEGERS.get(self.field.type, (-math.inf, math.inf))
        text = f"{low} <= {name}" if self.low != least else name
        text += f" <= {high}" if self.high != greatest else ""
        return f"not ({text})" if self.negated else text


@dataclass(frozen=True)
class OneOf:
    """The number is one of several; with none: false where the column (of any type) is not null."""

    field: Field
    values: tuple[int | float, ...]
    negated: bool = False

    def __str__(self) -> str:
        listed = ", ".join(value_text(self.field.meaning, value) for value in self.values)
        return f"{self.field} {'not in' if self.negated else 'in'} ({listed})"


@dataclass(frozen=True)
class Text:
    """The string passes a test."""

    field: Field
    test: TextTest
    negated: bool = False

    def __str__(self) -> str:
        name, test = str(self.field), self.test
        if isinstance(test, AnyOf):
            listed = ", ".join(string_text(string) for string in test.strings)
            return f"{name} {'not in' if self.negated else 'in'} ({listed})"
        if isinstance(test, Between):
            return _between_text(name, test, self.negated)
        return f"{name} {'not like' if self.negated else 'like'} {string_text(test.text().encode())}"


@dataclass(frozen=True)
class IsNull:
    """The column, or any column in the number, is null (or a whole number is divided by 0 with // or %)."""

    operand: Field | Number
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.operand} is {'not ' if self.negated else ''}null"


@dataclass(frozen=True)
class Within:
    """``low <= number <= high`` for a number that is an integer; one bound, or the same twice, or none: any number."""

    number: Number
    low: int | None
    high: int | None
    negated: bool = False

    def __str__(self) -> str:
        text = str(self.number)
        if self.low is None and self.high is None:
            return f"{text} is {'' if self.negated else 'not '}nan"
        if self.low == self.high:
            return f"{text} {'!=' if self.negated else '=='} {self._text(self.low)}"
        text = (
            f"{text} <= {self._text(self.high)}" if self.low is None else f"{self._text(self.low)} <= {text}"
        )
        return f"not ({text})" if self.negated else text

    def _text(self, bound: int | None) -> str:
        return value_text(meaning_of(self.number), bound or 0)


@dataclass(frozen=True)
class Compare:
    """Two numbers compared; operator is one of == < <=."""

    operator: str
    left: Number
    right: Number
    negated: bool = False

    def __str__(self) -> str:
        text = f"{self.left} {self.operator} {self.right}"
        return f"not ({text})" if self.negated else text


@dataclass(frozen=True)
class CompareText:
    """Two string columns compared; operator is one of == < <=."""

    operator: str
    left: Field
    right: Field
    negated: bool = False

    def __str__(self) -> str:
        text = f"{self.left} {self.operator} {self.right}"
        return f"not ({text})" if self.negated else text


@dataclass(frozen=True)
class Joined:
    """All conditions hold, where the word between them is ``and``; at least one, where it is ``or``."""

    word: str
    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return f" {self.word} ".join(
            f"({c})" if isinstance(c, Joined) and c.word != self.word else str(c) for c in self.conditions
        )


Leaf = Range | OneOf | Text | IsNull | Within | Compare | CompareText
Condition = Always | Leaf | Joined


def leaves(condition: Condition) -> list[Leaf]:
    """The conditions on columns, from left to right."""
    if isinstance(condition, Always):
        return []
    if isinstance(condition, Joined):
        return [leaf for inner in condition.conditions for leaf in leaves(inner)]
    return [condition]


def fields_in(condition: Condition) -> set[Field]:
    """The columns, pseudo columns included, that a condition reads."""
    found: set[Field] = set()
    for leaf in leaves(condition):
        if isinstance(leaf, (Range, OneOf, Text)):
            found.add(leaf.field)
        elif isinstance(leaf, IsNull):
            found |= {leaf.operand} if isinstance(leaf.operand, Field) else fields_of(leaf.operand)
        elif isinstance(leaf, Within):
            found |= fields_of(leaf.number)
        elif isinstance(leaf, Compare):
            found |= fields_of(leaf.left) | fields_of(leaf.right)
        else:
            found |= {leaf.left, leaf.right}
    return found


# ---- text


def value_text(meaning: Meaning | None, value: int | float | Fraction) -> str:
    """A number as a query takes it beside what has this meaning."""
    if meaning is None or (meaning.name == "class" and not 0 <= value < len(meaning.names)):
        return repr(value)
    text = meaning.text(value, universal=True)
    return text if meaning.name == "decimal" else string_text(text.encode())


def string_text(string: bytes) -> str:
    """A string as a query takes it."""
    text = string.decode().replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char >= " " else f"\\x{ord(char):02x}" for char in text) + '"'


def _between_text(name: str, test: Between, negated: bool) -> str:
    if (single := test.single) is not None:
        return f"{name} {'!=' if negated else '=='} {string_text(single)}"
    if test.low and test.high == after_prefix(test.low.decode()):
        return f"{name} {'not ' if negated else ''}startswith {string_text(test.low)}"
    text = f"{string_text(test.low)} <= {name}" if test.low else name
    if test.high is not None:
        text += f" < {string_text(test.high)}"
    return f"not ({text})" if negated else text
