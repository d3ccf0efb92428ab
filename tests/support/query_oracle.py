"""Random conditions that write themselves as a query or SQL, and a slow evaluator that shares no code with it."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

Row = dict[str, Any]


def exact(value: Any) -> Any:
    """A number that Python compares and computes exactly; NaN and infinities stay floats."""
    return value if isinstance(value, int) or not math.isfinite(value) else Fraction(value)


def compare(operator: str, left: Any, right: Any) -> bool | None:
    """Three-valued: unknown where a side is null; IEEE 754 for NaN; else the mathematical values, or code points."""
    if left is None or right is None:
        return None
    if (isinstance(left, float) and left != left) or (isinstance(right, float) and right != right):
        return operator == "!="
    if not isinstance(left, (str, bool)):
        left, right = exact(left), exact(right)
    return {
        "==": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


@dataclass
class Column:
    name: str

    def text(self) -> str:
        return self.name

    def of(self, row: Row) -> Any:
        return row[self.name]


@dataclass
class Written:
    """A literal; ``rounded`` is the type of the column that it is compared with."""

    value: Any
    rounded: str = ""

    def text(self) -> str:
        return (
            repr(self.value) if not isinstance(self.value, str) else "'" + self.value.replace("'", "''") + "'"
        )

    def of(self, row: Row) -> Any:
        if isinstance(self.value, float) and self.rounded in ("float16", "float32"):
            with np.errstate(over="ignore"):
                rounded = float(np.dtype(self.rounded).type(self.value))
            return rounded if math.isfinite(rounded) and bool(rounded) == bool(self.value) else self.value
        return self.value


@dataclass
class Sum:
    """Arithmetic: exact on integers, float64 as soon as a float takes part, null for a whole number divided by zero."""

    operator: str
    left: Any
    right: Any

    def text(self) -> str:
        return f"({self.left.text()} {self.operator} {self.right.text()})"

    def of(self, row: Row) -> Any:
        left, right = self.left.of(row), self.right.of(row)
        if left is None or right is None:
            return None
        if self.operator in ("//", "%") and isinstance(left, int) and isinstance(right, int):
            if right == 0:
                return None
            return left // right if self.operator == "//" else left % right
        if self.operator == "/" or isinstance(left, float) or isinstance(right, float):
            left, right = float(left), float(right)
            if self.operator == "/":
                return divide(left, right)
        return {"+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right}[
            self.operator
        ]()


def divide(left: float, right: float) -> float:
    """IEEE 754 division."""
    if right != 0:
        return left / right
    if left == 0 or left != left:
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


@dataclass
class Compared:
    operator: str
    left: Any
    right: Any

    def text(self) -> str:
        return f"{self.left.text()} {self.operator} {self.right.text()}"

    def of(self, row: Row) -> bool | None:
        return compare(self.operator, self.left.of(row), self.right.of(row))


@dataclass
class Listed:
    left: Column
    items: list[Written]
    negated: bool

    def text(self) -> str:
        return f"{self.left.text()} {'not in' if self.negated else 'in'} ({', '.join(i.text() for i in self.items)})"

    def of(self, row: Row) -> bool | None:
        found = [compare("==", self.left.of(row), item.of(row)) for item in self.items]
        return None if None in found else any(found) != self.negated


@dataclass
class Liked:
    left: Column
    pattern: str
    negated: bool

    def text(self) -> str:
        return f"{self.left.text()} {'not like' if self.negated else 'like'} {Written(self.pattern).text()}"

    def of(self, row: Row) -> bool | None:
        value = row[self.left.name]
        return None if value is None else like(value, self.pattern) != self.negated


def like(text: str, pattern: str) -> bool:
    """By dynamic programming over characters; ``!`` escapes nothing here."""
    reach = {0}
    for char in pattern:
        if char == "%":
            reach = set(range(min(reach), len(text) + 1)) if reach else reach
        else:
            reach = {at + 1 for at in reach if at < len(text) and char in ("_", text[at])}
    return len(text) in reach


@dataclass
class Tested:
    """A column ``is null`` or ``is not null``."""

    left: Column
    negated: bool

    def text(self) -> str:
        return f"{self.left.text()} is {'not ' if self.negated else ''}null"

    def of(self, row: Row) -> bool:
        return (row[self.left.name] is None) != self.negated


@dataclass
class Negated:
    operand: Any

    def text(self) -> str:
        return f"not ({self.operand.text()})"

    def of(self, row: Row) -> bool | None:
        value = self.operand.of(row)
        return None if value is None else not value


@dataclass
class Joined:
    operator: str
    operands: list[Any]

    def text(self) -> str:
        return "(" + f" {self.operator} ".join(operand.text() for operand in self.operands) + ")"

    def of(self, row: Row) -> bool | None:
        values = [operand.of(row) for operand in self.operands]
        decisive = self.operator == "or"
        if decisive in values:
            return decisive
        return None if None in values else not decisive


class Generator:
    """Random conditions over columns of the given types; ``samples`` are values worth comparing with, by column."""

    def __init__(
        self, seed: int, types: dict[str, str], samples: dict[str, list[Any]], arithmetic: tuple[str, ...]
    ) -> None:
        self.random = random.Random(seed)
        self.types, self.samples, self.arithmetic = types, samples, arithmetic
        self.numbers = [name for name, type_ in types.items() if type_ not in ("string", "bool")]
        self.texts = [name for name, type_ in types.items() if type_ == "string"]

    def condition(self, depth: int = 3) -> Any:
        kind = self.random.random()
        if depth > 0 and kind < 0.45:
            operands = [self.condition(depth - 1) for _ in range(self.random.randint(2, 3))]
            return Joined(self.random.choice(["and", "or"]), operands)
        if depth > 0 and kind < 0.55:
            return Negated(self.condition(depth - 1))
        return self.leaf()

    def leaf(self) -> Any:
        pick, kind = self.random, self.random.random()
        if kind < 0.1:
            return Tested(Column(pick.choice(list(self.types))), pick.random() < 0.5)
        if kind < 0.3 and self.texts:
            return self.text_leaf()
        name = pick.choice(self.numbers)
        operator = pick.choice(["==", "!=", "<", "<=", ">", ">="])
        if kind < 0.4:
            return Listed(
                Column(name),
                [self.written(name) for _ in range(pick.choice([1, 2, 5, 30]))],
                pick.random() < 0.3,
            )
        if kind < 0.6 and self.arithmetic:
            right = (
                self.number(1) if pick.random() < 0.5 else Written(pick.choice([0, 1, -3, 1000, 2.5, 10**20]))
            )
            return Compared(operator, self.number(2), right)
        left, right = Column(name), self.written(name)
        return Compared(operator, *((left, right) if pick.random() < 0.8 else (right, left)))

    def text_leaf(self) -> Any:
        pick, name = self.random, self.random.choice(self.texts)
        if pick.random() < 0.4:
            some = pick.choice(self.samples[name])
            places = [char if pick.random() < 0.6 else pick.choice("%_") for char in some]
            return Liked(Column(name), "".join(places) + pick.choice(["", "%"]), pick.random() < 0.3)
        if pick.random() < 0.3:
            return Listed(
                Column(name),
                [self.written(name) for _ in range(pick.choice([1, 2, 20]))],
                pick.random() < 0.3,
            )
        operator = pick.choice(["==", "!=", "<", "<=", ">", ">="])
        right = Column(pick.choice(self.texts)) if pick.random() < 0.2 else self.written(name)
        return Compared(operator, Column(name), right)

    def number(self, depth: int) -> Any:
        if depth == 0 or self.random.random() < 0.3:
            if self.random.random() < 0.7:
                return Column(self.random.choice(self.numbers))
            return Written(self.random.choice([1, 2, 3, 7, -5, 0.5]))
        left, right = self.number(depth - 1), self.number(depth - 1)
        if isinstance(left, Written) and isinstance(right, Written):
            left = Column(self.random.choice(self.numbers))
        operator = self.random.choice(self.arithmetic)
        if operator in ("//", "%"):  # on integers alone
            whole = [name for name in self.numbers if "int" in self.types[name]]
            left, right = Column(self.random.choice(whole)), Column(self.random.choice(whole))
        return Sum(operator, left, right)

    def written(self, name: str) -> Written:
        return Written(self.random.choice(self.samples[name]), self.types[name])
