"""Checks a parsed query against a schema: names, types and numbers; nothing is read."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

from ..errors import QueryError, did_you_mean
from ..format.column import shown_type
from ..format.schema import Schema
from . import simplify, syntax, typed
from .parse import misread
from .syntax import Node
from .tree import (
    ARITHMETIC,
    INTEGERS,
    PART,
    ROW,
    WORDS,
    Condition,
    Constant,
    Field,
    IsNull,
    Minus,
    Number,
    Operation,
    TextTest,
    Value,
    contains,
    ends_with,
    is_integer,
    like,
    starts_with,
    value_text,
)

MAX_DEPTH = 100  # of operators in one number
MAX_CONDITIONS = 100_000
MOST_EXPONENT = 400  # of a number that is kept exactly: float64 has none beyond
# Field: a string column; str: a string that was written; None: null
Operand = Number | Condition | Field | str | typed.Written | typed.DayOf | None
Found = TypeVar("Found")


def check(tree: Node, text: str, schema: Schema) -> Condition:
    """The checked condition that ``tree`` stands for."""
    checker = _Checker(text, schema)
    return checker.condition(tree)


class _Checker:
    def __init__(self, text: str, schema: Schema) -> None:
        self.text = text
        self.schema = schema
        self.depth = 0
        self.count = 0

    def wrong(self, message: str, node: Node) -> QueryError:
        return misread(message, self.text, node.start, node.stop)

    # ---- conditions

    def condition(self, node: Node) -> Condition:
        """The node, which must be true or false."""
        found = self.operand(node)
        if isinstance(found, simplify.CONDITIONS):
            return found
        raise self.wrong(f"this is {describe(found)}, not a condition{_as_condition(found)}", node)

    def _compound(self, node: Node) -> Condition:
        self.count += 1
        if self.count > MAX_CONDITIONS:
            raise self.wrong(f"a query may have {MAX_CONDITIONS:,} conditions", node)
        if isinstance(node, syntax.Joined):
            join = simplify.every if node.word == "and" else simplify.any_of
            return join([self.condition(inner) for inner in node.operands])
        if isinstance(node, syntax.Unary):
            return simplify.negate(self.condition(node.operand))
        if isinstance(node, syntax.Comparison):
            return self._compared(node.operator, node, (self.operand(node.left), node.left), node.right)
        if isinstance(node, syntax.Membership):
            return self._membership(node)
        if isinstance(node, syntax.TextMembership):
            return self._text_membership(node)
        if isinstance(node, syntax.Is):
            return self._is(node)
        assert isinstance(node, syntax.TextMatch)
        return self._text_match(node)

    def _compared(
        self, operator: str, node: Node, first: tuple[Operand, Node], right_node: Node
    ) -> Condition:
        left, left_node = first
        right = self.operand(right_node)
        for side, side_node in ((left, left_node), (right, right_node)):
            if side is None:
                raise self.wrong("nothing compares with null; write 'is null' or 'is not null'", side_node)
        if isinstance(left, simplify.CONDITIONS) and isinstance(right, simplify.CONDITIONS):
            return self._same_truth(operator, node, left, right)
        if (found := self._typed(node, typed.compare, operator, left, right)) is not None:
            return found
        if isinstance(left, simplify.NUMBERS) and isinstance(right, simplify.NUMBERS):
            return simplify.compare_numbers(operator, left, right)
        if isinstance(left, (Field, str)) and isinstance(right, (Field, str)):
            return simplify.compare_text(operator, left, right)
        raise self.wrong(
            f"{describe(left)} cannot be compared with {describe(right)}{self._hint(operator, left, right)}",
            node,
        )

    def _typed(self, node: Node, ask: Callable[..., Found], *operands: object) -> Found:
        """What `typed` makes of these; its refusal points at the node."""
        try:
            return ask(*operands)
        except typed.Mismatch as mismatch:
            raise self.wrong(str(mismatch), node) from None

    def _same_truth(self, operator: str, node: Node, left: Condition, right: Condition) -> Condition:
        if operator not in ("==", "!="):
            raise self.wrong("true and false have no order; compare them with == or !=", node)
        same = simplify.same_truth(left, right)
        self.count += simplify.size(same)
        if self.count > MAX_CONDITIONS:
            raise self.wrong(f"a query may have {MAX_CONDITIONS:,} conditions", node)
        return same if operator == "==" else simplify.negate(same)

    def _hint(self, operator: str, left: Operand, right: Operand) -> str:
        for one, other in ((left, right), (right, left)):
            if isinstance(one, str) and one in self.schema.names:
                return f"; to name the column, write {self._column(one)} without quotes"
            if isinstance(one, simplify.CONDITIONS) and isinstance(other, Constant):
                return "; a bool is compared with true or false"
            if isinstance(one, Field) and isinstance(other, Constant):
                if operator in ("==", "!="):
                    return f"; it holds text: write it as it is stored, in quotes, as '{other}'"
                return (
                    "; it holds text, which is in order of its characters, so that '1000' is less than '5': add a "
                    "column of numbers (unirecord.add_columns, docs/growing.md), and compare that"
                )
        return ""

    def _membership(self, node: syntax.Membership) -> Condition:
        operand = self.operand(node.operand)
        items = [self.operand(item) for item in node.items]
        for item, item_node in zip(items, node.items, strict=True):
            if item is None:
                raise self.wrong("null is in no list; add 'or … is null'", item_node)
        plain = isinstance(operand, Value) and operand.field.meaning is None
        if (
            isinstance(operand, Value)
            and (plain or not items)
            and all(isinstance(i, Constant) for i in items)
        ):
            return simplify.one_of(
                operand.field, [item.value for item in items if isinstance(item, Constant)]
            )
        if isinstance(operand, Field) and all(isinstance(item, str) for item in items):
            return simplify.one_of_text(operand, [item for item in items if isinstance(item, str)])
        if not items:
            raise self.wrong("an empty list can only follow a column", node)
        first = (operand, node.operand)
        return simplify.any_of([self._compared("==", node, first, item) for item in node.items])

    def _text_membership(self, node: syntax.TextMembership) -> Condition:
        operand = self.operand(node.operand)
        if isinstance(operand, Field):
            return simplify.one_of_text(operand, node.strings)
        items = tuple(syntax.Literal(node.start, node.stop, string) for string in node.strings)
        return self._membership(syntax.Membership(node.start, node.stop, node.operand, items))

    def _is(self, node: syntax.Is) -> Condition:
        if (
            node.what == "null"
            and isinstance(node.operand, syntax.Name)
            and self._has_no_order(node.operand.name)
        ):
            return simplify.is_null(self._column(node.operand.name))
        operand = self.operand(node.operand)
        if node.what == "nan":
            if not isinstance(operand, simplify.NUMBERS):
                raise self.wrong(f"only numbers can be nan; this is {describe(operand)}", node.operand)
            return simplify.is_nan(operand)
        if isinstance(node.operand, syntax.Name) and not isinstance(operand, Constant):
            return simplify.is_null(self.field(node.operand))
        if isinstance(operand, simplify.NUMBERS):
            return IsNull(operand)
        raise self.wrong(f"'is null' follows a column or a number; this is {describe(operand)}", node.operand)

    def _text_match(self, node: syntax.TextMatch) -> Condition:
        operand, pattern = self.operand(node.operand), self.operand(node.pattern)
        if isinstance(operand, Value) and operand.field.meaning and operand.field.meaning.name == "class":
            passes: Callable[[Field, TextTest], Condition] = typed.class_test
            operand = operand.field
        else:
            passes = simplify.text
        if not isinstance(operand, Field):
            raise self.wrong(
                f"'{node.method}' needs a string column; this is {describe(operand)}", node.operand
            )
        if not isinstance(pattern, str):
            raise self.wrong(
                f"'{node.method}' needs a string in quotes; this is {describe(pattern)}", node.pattern
            )
        if node.method == "startswith":
            return passes(operand, starts_with(pattern))
        if node.method == "endswith":
            return passes(operand, ends_with(pattern.encode()))
        if node.method == "contains":
            return passes(operand, contains(pattern.encode()))
        escape = "\\" if node.escape is None else self.operand(node.escape)
        if not isinstance(escape, str) or len(escape) > 1:
            raise self.wrong("escape needs one character in quotes", node.escape or node)
        try:
            return passes(operand, like(pattern, escape))
        except ValueError as error:
            raise self.wrong(str(error), node.pattern) from None

    # ---- values

    def operand(self, node: Node) -> Operand:
        """What a node stands for: a number, a string, null or a condition."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.wrong(f"nested deeper than {MAX_DEPTH} levels", node)
        try:
            if isinstance(node, syntax.Name):
                return self._name(node)
            if isinstance(node, syntax.Literal):
                return self._literal(node)
            if isinstance(node, syntax.Typed):
                return self._typed(node, typed.written, node.type, node.text)
            if isinstance(node, syntax.Day):
                return self._typed(node, typed.day_of, self.operand(node.operand))
            if isinstance(node, syntax.Arithmetic) or (
                isinstance(node, syntax.Unary) and node.operator == "-"
            ):
                return self._arithmetic(node)
            return self._compound(node)
        finally:
            self.depth -= 1

    def _literal(self, node: syntax.Literal) -> Operand:
        if isinstance(node.value, bool):
            return simplify.ALWAYS[node.value]
        if isinstance(node.value, str):
            try:
                node.value.encode()
            except UnicodeEncodeError:
                raise self.wrong("this string is not Unicode text (a lone surrogate)", node) from None
            return node.value
        if isinstance(node.value, float) and node.value == float("inf"):
            raise self.wrong("this number is too large for a float64; infinity is written inf", node)
        if isinstance(node.value, float):
            return Constant(node.value, _exact(self.text[node.start : node.stop]))
        return None if node.value is None else Constant(node.value)

    def _name(self, node: syntax.Name) -> Operand:
        if node.name == "inf" and "inf" not in self.schema.names:
            return Constant(float("inf"))
        field = self.field(node)
        if field.type == "string":
            return field
        return simplify.truth_of(field) if field.type == "bool" else Value(field)

    def field(self, node: syntax.Name) -> Field:
        """The column that a name means: the schema's own before ``row`` and ``part``."""
        if self._has_no_order(node.name):
            column = self.schema[node.name]
            null = f"; 'is null' is all that can be asked of {column.name!r}" if column.nullable else ""
            raise self.wrong(
                f"column {column.name!r} is {shown_type(str(column))}, which a query cannot read; it can read "
                f"{self._readable()}{null}",
                node,
            )
        if node.name in self.schema:
            return self._column(node.name)
        if node.name in ("row", "part"):
            return Field(node.name, ROW if node.name == "row" else PART, "int64")
        raise self.wrong(f"there is no column {node.name!r}{self._name_hint(node.name)}", node)

    def _has_no_order(self, name: str) -> bool:
        return name in self.schema and not self.schema[name].is_sortable

    def _column(self, name: str) -> Field:
        column = self.schema[name]
        meaning = column.meaning if column.is_sortable else None
        kind = WORDS if column.is_wide_decimal else column.type
        return Field(column.name, self.schema.ordinal(name), kind, column.nullable, meaning)

    def _name_hint(self, name: str) -> str:
        hint = did_you_mean(name, [*self.schema.names, "row", "part"])
        if hint:
            return hint
        quoted = name.replace("'", "''")
        strings = any(column.type == "string" for column in self.schema)
        quote = f"; a string is written in quotes: '{quoted}'" if strings else ""
        return f"; there are {self._readable()}{quote}"

    def _readable(self) -> str:
        names = [column.name for column in self.schema if column.is_sortable]
        return ", ".join([*names[:12], *(["…"] if len(names) > 12 else []), "row", "part"])

    def _arithmetic(self, node: syntax.Arithmetic | syntax.Unary) -> Operand:
        sides = (node.operand,) if isinstance(node, syntax.Unary) else (node.left, node.right)
        found = [self.operand(side) for side in sides]
        if isinstance(node, syntax.Unary):
            known = self._typed(node, typed.minus, *found)
        else:
            known = self._typed(node, typed.arithmetic, node.operator, *found)
        if known is not None:
            return known
        operands = []
        for side, operand in zip(sides, found, strict=True):
            if not isinstance(operand, simplify.NUMBERS):
                raise self.wrong(f"arithmetic needs numbers; this is {describe(operand)}", side)
            operands.append(operand)
        if isinstance(node, syntax.Unary):
            (only,) = operands
            if not isinstance(only, Constant):
                return Minus(only)
            return Constant(-only.value, None if only.exact is None else -only.exact)
        left, right = operands
        by_zero = isinstance(right, Constant) and right.value == 0 and node.operator in ("//", "%", "/")
        if by_zero and (isinstance(left, Constant) or (is_integer(left) and is_integer(right))):
            raise self.wrong("division by zero", node)
        if isinstance(left, Constant) and isinstance(right, Constant):
            return self._folded(node, left, right)
        return Operation(node.operator, left, right)

    def _folded(self, node: syntax.Arithmetic, left: Constant, right: Constant) -> Constant:
        fold = ARITHMETIC[node.operator]
        try:
            value = fold(left.value, right.value)
        except OverflowError:
            raise self.wrong("this is too large for a float64", node) from None
        if value != value:
            raise self.wrong("this is not a number", node)
        sides = [
            Fraction(side.value) if isinstance(side.value, int) else side.exact for side in (left, right)
        ]
        known = isinstance(value, float) and None not in sides
        return Constant(value, Fraction(fold(*sides)) if known else None)


def _exact(text: str) -> Fraction | None:
    """The number that was written, exactly; None for one so near to zero that it would take too long."""
    exponent = text.lower().partition("e")[2]
    return Fraction(text.replace("_", "")) if abs(int(exponent or 0)) <= MOST_EXPONENT else None


def describe(operand: Operand) -> str:
    """What an operand is, for messages."""
    if operand is None:
        return "null"
    if isinstance(operand, Field):
        return f"{operand.name} (string)"
    if isinstance(operand, str):
        return "a string"
    if isinstance(operand, simplify.NUMBERS):
        return typed.described(operand)
    if isinstance(operand, typed.Written):
        return f"a {operand.name}"
    if isinstance(operand, typed.DayOf):
        return "a date"
    return "true or false"


def _as_condition(operand: Operand) -> str:
    if isinstance(operand, Value) and operand.field.type in INTEGERS:
        meaning = operand.field.meaning
        if meaning is not None and meaning.name not in ("class", "decimal"):
            return f"; write {operand.field} is not null"
        zero = value_text(meaning if meaning and meaning.name == "class" else None, 0)
        return f"; write {operand.field} != {zero}"
    if isinstance(operand, Field):
        return f"; write {operand} != ''"
    return ""
