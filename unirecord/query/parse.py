"""Parses the text of a query into a tree by recursive descent; Python's precedence, Python's and SQL's spellings."""

from __future__ import annotations

from collections.abc import Callable

from . import syntax
from .misread import misread
from .syntax import Node
from .tokens import TEXT_METHODS, Token, tokenize

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
        first = operands[0]
        return first if len(operands) == 1 else syntax.Any(first.start, operands[-1].stop, tuple(operands))

    def every(self) -> Node:
        operands = [self.negation()]
        while self.accept("and"):
            operands.append(self.negation())
        first = operands[0]
        return first if len(operands) == 1 else syntax.Every(first.start, operands[-1].stop, tuple(operands))

    def negation(self) -> Node:
        token = self.accept("not")
        if token is None:
            return self.comparison()
        self.deeper(token)
        operand = self.negation()
        self.depth -= 1
        return syntax.Not(token.start, operand.stop, operand)

    def comparison(self) -> Node:
        """Comparisons, a chain of them too, and everything that stands where a comparison does."""
        left, found = self.sum(), []
        while True:
            if operator := self.accept(*COMPARISONS):
                right = self.sum()
                found.append(syntax.Comparison(left.start, right.stop, str(operator.value), left, right))
                left = right
            elif (node := self.worded(left)) is not None:
                found.append(node)  # type: ignore[arg-type]
                break
            else:
                break
        if not found:
            return left
        if len(found) == 1:
            return found[0]
        return syntax.Every(found[0].start, found[-1].stop, tuple(found))

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
        return syntax.Not(node.start, node.stop, node) if negated else node

    def _is(self, left: Node) -> Node:
        token = self.accept("null", "none", "nan")
        if token is None:
            raise self.unexpected("'null', 'not null' or 'nan'")
        return syntax.Is(left.start, token.stop, left, "nan" if token.value == "nan" else "null")

    def _between(self, left: Node) -> Node:
        low = self.sum()
        self.expect("and")
        high = self.sum()
        return syntax.Every(
            left.start,
            high.stop,
            (
                syntax.Comparison(left.start, low.stop, ">=", left, low),
                syntax.Comparison(left.start, high.stop, "<=", left, high),
            ),
        )

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
        return operand if token.value == "+" else syntax.Negative(token.start, operand.stop, operand)

    def postfix(self) -> Node:
        """A value, and the ``.startswith("x")`` that may follow."""
        node = self.atom()
        while self.accept("."):
            method = self.accept(*TEXT_METHODS)
            if method is None:
                raise self.unexpected("startswith, endswith or contains after '.'")
            self.expect("(")
            pattern = self.sum()
            end = self.expect(")")
            node = syntax.TextMatch(node.start, end.stop, node, str(method.value), pattern, None)
        return node

    def atom(self) -> Node:
        token = self.peek
        if token.kind in ("name", "quoted"):
            self.take()
            if token.kind == "name" and self.peek.value == "(" and self.peek.kind == "symbol":
                raise misread(f"there is no function {token.value}()", self.text, token.start, token.stop)
            return syntax.Name(token.start, token.stop, str(token.value))
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

    def _call(self, method: Token) -> Node:
        """``startswith(column, "x")``."""
        self.expect("(")
        operand = self.sum()
        self.expect(",")
        pattern = self.sum()
        end = self.expect(")")
        return syntax.TextMatch(method.start, end.stop, operand, str(method.value), pattern, None)
