"""Cuts the text of a query into tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from .misread import misread

MAX_TEXT = 1 << 20  # characters of a query
MAX_DIGITS = 4_000  # of an integer; Python itself refuses to convert more than 4,300

Kind = Literal["name", "quoted", "keyword", "number", "string", "strings", "symbol", "end"]

TEXT_METHODS = ("startswith", "endswith", "contains")
KEYWORDS = frozenset(
    (
        "and",
        "or",
        "not",
        "in",
        "between",
        "like",
        "escape",
        "is",
        "null",
        "none",
        "nan",
        "true",
        "false",
        *TEXT_METHODS,
    )
)
NAME = re.compile(r"[^\W\d]\w*")
NUMBER = re.compile(r"0[xX][0-9a-fA-F_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?", re.ASCII)
SYMBOLS = ("<>", "<=", ">=", "==", "!=", "&&", "||", "//", *"<>=+-*/%()[],.")
SPELLINGS = {"=": "==", "<>": "!=", "&&": "and", "||": "or"}
HINTS = {"&": "write 'and'", "|": "write 'or'", "!": "write 'not'", "~": "write 'not'", ";": "leave it out"}
ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t", "0": "\0"}
HEX_ESCAPES = {"x": 2, "u": 4, "U": 8}
PLAIN = r"""(?:"[^"\\\ud800-\udfff]*"|'[^'\\\ud800-\udfff]*')"""  # a string without escapes, which holds Unicode text
PLAIN_LIST = re.compile(rf"[(\[]\s*{PLAIN}(?:\s*,\s*{PLAIN})*\s*(?:,\s*)?[)\]]")
PLAIN_ITEM = re.compile(PLAIN)


@dataclass(frozen=True)
class Token:
    """One token, its value (a name, a number, a string, or the spelling that stands for all others) and its place.

    A list of plain strings after ``in`` is one token, with its ``strings``: a token each would take longer than
    the query.
    """

    kind: Kind
    value: str | int | float
    start: int
    stop: int
    strings: tuple[str, ...] = ()


def tokenize(text: str) -> list[Token]:
    """The tokens of ``text``, an "end" token last."""
    if len(text) > MAX_TEXT:
        raise misread(f"a query may have {MAX_TEXT:,} characters; this one has {len(text):,}", text, 0, 1)
    tokens, place = [], 0
    while True:
        while place < len(text) and text[place].isspace():
            place += 1
        if place == len(text):
            tokens.append(Token("end", "", place, place))
            return tokens
        follows_in = bool(tokens) and tokens[-1].kind == "keyword" and tokens[-1].value == "in"
        token = (_plain_list(text, place) if follows_in else None) or _next(text, place)
        tokens.append(token)
        place = token.stop


def _plain_list(text: str, place: int) -> Token | None:
    """The list of strings at ``place``, when all of them are plain."""
    found = PLAIN_LIST.match(text, place)
    if found is None or (text[place] == "(") != (text[found.end() - 1] == ")"):
        return None
    strings = tuple(item[1:-1] for item in PLAIN_ITEM.findall(text, place, found.end()))
    return Token("strings", "", place, found.end(), strings)


def _next(text: str, place: int) -> Token:
    first = text[place]
    if first in "'\"":
        return _string(text, place)
    if first == "`":
        return _quoted(text, place)
    if NUMBER.match(text, place):
        return _number(text, place)
    if found := NAME.match(text, place):
        word = found.group()
        kind: Kind = "keyword" if word.lower() in KEYWORDS else "name"
        return Token(kind, word.lower() if kind == "keyword" else word, place, found.end())
    for symbol in SYMBOLS:
        if text.startswith(symbol, place):
            value = SPELLINGS.get(symbol, symbol)
            return Token("keyword" if value in KEYWORDS else "symbol", value, place, place + len(symbol))
    hint = f"; {HINTS[first]}" if first in HINTS else ""
    raise misread(f"{first!r} has no meaning here{hint}", text, place, place + 1)


def _quoted(text: str, place: int) -> Token:
    """A column name in backticks; a doubled backtick stands for one."""
    stop, name = place + 1, ""
    while True:
        end = text.find("`", stop)
        if end < 0:
            raise misread("the closing ` of this column name is missing", text, place, place + 1)
        name += text[stop:end]
        if text[end + 1 : end + 2] != "`":
            return Token("quoted", name, place, end + 1)
        name, stop = name + "`", end + 2


def _number(text: str, place: int) -> Token:
    found = NUMBER.match(text, place)
    assert found is not None
    word, stop = found.group(), found.end()
    if stop < len(text) and (text[stop].isalnum() or text[stop] == "_"):
        hint = "a name that starts with a digit is written in backticks"
        raise misread(hint, text, place, stop + 1)
    if len(word) > MAX_DIGITS:
        raise misread(f"a number may have {MAX_DIGITS:,} digits", text, place, stop)
    try:
        if word[:2] in ("0x", "0X"):
            return Token("number", int(word, 16), place, stop)
        if re.search(r"[.eE]", word):
            return Token("number", float(word), place, stop)
        return Token("number", int(word.replace("_", "")), place, stop)
    except ValueError:
        raise misread("this is not a number", text, place, stop) from None


def _string(text: str, place: int) -> Token:
    """A string in ' or "; the quote is written twice or after a backslash inside."""
    value: list[str] = []
    quote, at = text[place], place + 1
    while at < len(text):
        char = text[at]
        if char == quote:
            if text[at + 1 : at + 2] != quote:
                return Token("string", "".join(value), place, at + 1)
            at += 1
        elif char == "\\":
            piece, at = _escape(text, at)
            value.append(piece)
            continue
        value.append(char)
        at += 1
    raise misread(f"the closing {quote} of this string is missing", text, place, place + 1)


def _escape(text: str, at: int) -> tuple[str, int]:
    """What the backslash at ``at`` stands for, and where the text goes on."""
    code = text[at + 1 : at + 2]
    if code in ("%", "_"):  # left to `like`
        return "\\" + code, at + 2
    if code in ESCAPES and code:
        return ESCAPES[code], at + 2
    if code in HEX_ESCAPES and code:
        digits = text[at + 2 : at + 2 + HEX_ESCAPES[code]]
        if re.fullmatch(f"[0-9a-fA-F]{{{HEX_ESCAPES[code]}}}", digits):
            number = int(digits, 16)
            if number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF:
                return chr(number), at + 2 + len(digits)
    raise misread("unknown escape; a backslash is written \\\\", text, at, at + 2)
