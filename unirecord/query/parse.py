"""The text of a query into a tree by recursive descent: tokens, Python's precedence, Python's and SQL's spellings."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import QueryError
from ..format.meaning import UnknownZone, offset_at
from . import syntax
from .syntax import Node

# Says what is wrong with a query, with the text and a mark under the place.


WIDTH = 100  # characters of a long query shown around the place


def misread(message: str, text: str, start: int, stop: int) -> QueryError:
    """A ``QueryError`` whose message shows ``text`` with ``text[start:stop]`` underlined."""
    line_start = text.rfind("\n", 0, start) + 1
    line_stop = text.find("\n", start)
    line_stop = len(text) if line_stop < 0 else line_stop
    first = max(line_start, start - WIDTH // 2)
    last = min(line_stop, first + WIDTH)
    shown = text[first:last].replace("\t", " ")
    before, after = "…" if first > line_start else "", "…" if last < line_stop else ""
    marks = "^" * max(1, min(stop, last) - start)
    return QueryError(f"{message}\n  {before}{shown}{after}\n  {' ' * (len(before) + start - first)}{marks}")


# Cuts the text of a query into tokens.


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
TYPES = ("timestamp", "date", "time", "interval")  # of literals that say their type: `date '2025-06-01'`
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


def with_moment(text: str) -> str:
    """The text with the moment that it is for each ``now()``, so that it means the same whenever it is read again.

    ``now() at time zone 'Europe/Paris'`` is, as in SQL, what the clock of that zone shows then: a time without a zone.
    """
    if "now" not in text.lower():
        return text
    tokens, pieces, place = tokenize(text), [], 0
    now = time.time_ns()
    for at, (name, opening, closing) in enumerate(zip(tokens, tokens[1:], tokens[2:], strict=False)):
        called = opening.kind == closing.kind == "symbol" and (opening.value, closing.value) == ("(", ")")
        if called and name.kind == "name" and str(name.value).lower() == "now":
            behind = tokens[at + 3 : at + 7]
            zone = [token.value if token.kind == "name" else token.kind for token in behind]
            if [str(word).lower() for word in zone] == ["at", "time", "zone", "string"]:
                moment, place_behind = _clock(text, now, behind[-1]), behind[-1].stop
            else:
                moment, place_behind = f"{_written_moment(now)}Z", closing.stop
            pieces += [text[place : name.start], f"timestamp '{moment}'"]
            place = place_behind
    return "".join([*pieces, text[place:]])


def _written_moment(nanoseconds: int) -> str:
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09}"


def _clock(text: str, now: int, zone: Token) -> str:
    try:
        ahead = offset_at(str(zone.value), now // 1_000_000_000)
    except UnknownZone as error:
        raise misread(str(error), text, zone.start, zone.stop) from None
    return _written_moment(now + ahead * 1_000_000_000)


# Parses the text of a query into a tree by recursive descent; Python's precedence, Python's and SQL's spellings.


MAX_DEPTH = 50  # of parentheses and of operators that hang on one another
MAX_ITEMS = 100_000  # of a list, and operands of one chain of `and` or `or`
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")


def parse(text: str) -> Node:
    """The tree of ``text``; ``QueryError`` points at what is wrong."""
    parser = _Parser(text)
    if not parser.tokens[:-1]:
        raise misread("the query is empty; write a condition, such as label == 3", text, 0, 1)
    tree = parser.any()
    if parser.peek.kind != "end":
        raise parser.unexpected("'and', 'or' or the end")
    return tree


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self.depth = 0

    # ---- tokens

    @property
    def peek(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def accept(self, *values: str) -> Token | None:
        """The next token, taken, if it is one of these keywords or symbols."""
        token = self.peek
        return self.take() if token.kind in ("keyword", "symbol") and token.value in values else None

    def expect(self, value: str) -> Token:
        token = self.accept(value)
        if token is None:
            raise self.unexpected(f"'{value}'")
        return token

    def unexpected(self, wanted: str) -> Exception:
        token = self.peek
        if token.kind == "end":
            return misread(
                f"the query ends where {wanted} should follow", self.text, token.start, token.start + 1
            )
        found = self.text[token.start : token.stop]
        hint = (
            f"; a column of that name is written `{found}`"
            if token.kind == "keyword" and found.isalpha()
            else ""
        )
        return misread(f"expected {wanted}, found {found}{hint}", self.text, token.start, token.stop)

    def deeper(self, token: Token) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise misread(f"nested deeper than {MAX_DEPTH} levels", self.text, token.start, token.stop)

    # ---- conditions

    def any(self) -> Node:
        self.deeper(self.peek)
        operands = [self.every()]
        while self.accept("or"):
            operands.append(self.every())
        self.depth -= 1
        return _joined("or", operands)

    def every(self) -> Node:
        operands = [self.negation()]
        while self.accept("and"):
            operands.append(self.negation())
        return _joined("and", operands)

    def negation(self) -> Node:
        token = self.accept("not")
        if token is None:
            return self.comparison()
        self.deeper(token)
        operand = self.negation()
        self.depth -= 1
        return syntax.Unary(token.start, operand.stop, "not", operand)

    def comparison(self) -> Node:
        """Comparisons, a chain of them too, and everything that stands where a comparison does."""
        left, found = self.sum(), list[Node]()
        while True:
            if operator := self.accept(*COMPARISONS):
                right = self.sum()
                found.append(syntax.Comparison(left.start, right.stop, str(operator.value), left, right))
                left = right
            elif (node := self.worded(left)) is not None:
                found.append(node)
                break
            else:
                break
        return _joined("and", found) if found else left

    def worded(self, left: Node) -> Node | None:
        """``left`` with the in, between, like, startswith or is that follows, if one does."""
        if self.accept("is"):
            negated = self.accept("not")
            return self._negate(self._is(left), negated)
        negated = None
        if self.peek.value == "not" and self.peek.kind == "keyword":
            negated = self.take()
        token = self.accept("in", "between", "like", *TEXT_METHODS)
        if token is None:
            if negated:
                raise self.unexpected("'in', 'between', 'like' or 'startswith'")
            return None
        if token.value == "in":
            return self._negate(self._membership(left), negated)
        if token.value == "between":
            return self._negate(self._between(left), negated)
        return self._negate(self._text_match(left, str(token.value)), negated)

    @staticmethod
    def _negate(node: Node, negated: Token | None) -> Node:
        return syntax.Unary(node.start, node.stop, "not", node) if negated else node

    def _is(self, left: Node) -> Node:
        token = self.accept("null", "none", "nan")
        if token is None:
            raise self.unexpected("'null', 'not null' or 'nan'")
        return syntax.Is(left.start, token.stop, left, "nan" if token.value == "nan" else "null")

    def _between(self, left: Node) -> Node:
        low = self.sum()
        self.expect("and")
        high = self.sum()
        bounds = [
            syntax.Comparison(left.start, low.stop, ">=", left, low),
            syntax.Comparison(left.start, high.stop, "<=", left, high),
        ]
        return syntax.Joined(left.start, high.stop, "and", tuple(bounds))

    def _membership(self, left: Node) -> Node:
        if self.peek.kind == "strings":
            listed = self.take()
            self._check_items(len(listed.strings), listed.start, listed.start + 1)
            return syntax.TextMembership(left.start, listed.stop, left, listed.strings)
        opening = self.accept("(", "[")
        if opening is None:  # Python's "cat" in path
            right = self.sum()
            return syntax.TextMatch(left.start, right.stop, right, "contains", left, None)
        closing, items = {"(": ")", "[": "]"}[str(opening.value)], []
        while not (end := self.accept(closing)):
            items.append(self.sum())
            self._check_items(len(items), opening.start, opening.stop)
            if not self.accept(",") and self.peek.value != closing:
                raise self.unexpected(f"',' or '{closing}'")
        return syntax.Membership(left.start, end.stop, left, tuple(items))

    def _check_items(self, items: int, start: int, stop: int) -> None:
        if items > MAX_ITEMS:
            raise misread(f"a list may have {MAX_ITEMS:,} items", self.text, start, stop)

    def _text_match(self, left: Node, method: str) -> Node:
        pattern = self.sum()
        escape = self.sum() if method == "like" and self.accept("escape") else None
        return syntax.TextMatch(left.start, (escape or pattern).stop, left, method, pattern, escape)

    # ---- values

    def sum(self) -> Node:
        return self._chain(("+", "-"), self.product)

    def product(self) -> Node:
        return self._chain(("*", "/", "//", "%"), self.signed)

    def _chain(self, operators: tuple[str, ...], operand: Callable[[], Node]) -> Node:
        left, links = operand(), 0
        while operator := self.accept(*operators):
            links += 1
            if links > MAX_DEPTH:
                raise misread(
                    f"more than {MAX_DEPTH} operators in a row", self.text, operator.start, operator.stop
                )
            right = operand()
            left = syntax.Arithmetic(left.start, right.stop, str(operator.value), left, right)
        return left

    def signed(self) -> Node:
        token = self.accept("-", "+")
        if token is None:
            return self.postfix()
        self.deeper(token)
        operand = self.signed()
        self.depth -= 1
        return operand if token.value == "+" else syntax.Unary(token.start, operand.stop, "-", operand)

    def postfix(self) -> Node:
        """A value, and the ``.startswith("x")`` that may follow."""
        node = self.atom()
        while self.accept("."):
            method = self.accept(*TEXT_METHODS)
            if method is None:
                raise self.unexpected(
                    "startswith, endswith or contains after '.' (a name with a dot stands in backticks: `a.b`)"
                )
            self.expect("(")
            pattern = self.sum()
            end = self.expect(")")
            node = syntax.TextMatch(node.start, end.stop, node, str(method.value), pattern, None)
        return node

    def atom(self) -> Node:
        token = self.peek
        if token.kind in ("name", "quoted"):
            self.take()
            return self._named(token) if token.kind == "name" else self._column(token)
        if token.kind in ("number", "string"):
            self.take()
            return syntax.Literal(token.start, token.stop, token.value)
        if word := self.accept("true", "false", "null", "none"):
            value = {"true": True, "false": False}.get(str(word.value))
            return syntax.Literal(word.start, word.stop, value)
        if method := self.accept(*TEXT_METHODS):
            return self._call(method)
        if self.accept("("):
            inner = self.any()
            self.expect(")")
            return inner
        raise self.unexpected("a column, a number, a string or '('")

    def _named(self, token: Token) -> Node:
        """A column, a literal that says its type, or ``date(…)``."""
        word = str(token.value).lower()
        if word in TYPES and (
            self.peek.kind == "string" or (word == "interval" and self.peek.kind == "number")
        ):
            value = self.take()
            text = str(value.value) if value.kind == "string" else self.text[value.start : value.stop]
            unit = self.tokens[self.at]
            if word == "interval" and unit.kind == "name":  # interval 7 days
                value = self.take()
                text += f" {value.value}"
            return syntax.Typed(token.start, value.stop, word, text)
        if self.peek.kind != "symbol" or self.peek.value != "(":
            return self._column(token)
        if word != "date":
            message = f"there is no function {token.value}(); there are now() and date(column)"
            raise misread(message, self.text, token.start, token.stop)
        self.take()
        operand = self.sum()
        return syntax.Day(token.start, self.expect(")").stop, operand)

    @staticmethod
    def _column(token: Token) -> Node:
        return syntax.Name(token.start, token.stop, str(token.value))

    def _call(self, method: Token) -> Node:
        """``startswith(column, "x")``."""
        self.expect("(")
        operand = self.sum()
        self.expect(",")
        pattern = self.sum()
        end = self.expect(")")
        return syntax.TextMatch(method.start, end.stop, operand, str(method.value), pattern, None)


def _joined(word: str, operands: Sequence[Node]) -> Node:
    first = operands[0]
    if len(operands) == 1:
        return first
    return syntax.Joined(first.start, operands[-1].stop, word, tuple(operands))
