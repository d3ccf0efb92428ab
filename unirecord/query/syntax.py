"""The tree that the parser makes of a query: what was written and where, nothing checked yet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Node:
    """Part of a query; ``start`` and ``stop`` are its place in the text."""

    start: int
    stop: int


@dataclass(frozen=True)
class Name(Node):
    """A column, or ``row``, ``part`` or ``inf`` where no column is called so."""

    name: str


@dataclass(frozen=True)
class Literal(Node):
    """A number, a string, a truth value or null."""

    value: int | float | str | bool | None


@dataclass(frozen=True)
class Typed(Node):
    """``timestamp '…'``, ``date '…'``, ``time '…'`` or ``interval '…'``: a literal that says its type."""

    type: str
    text: str


@dataclass(frozen=True)
class Day(Node):
    """``date(operand)``: the day of a time."""

    operand: Node


@dataclass(frozen=True)
class Unary(Node):
    """``-operand`` or ``not operand``."""

    operator: str
    operand: Node


@dataclass(frozen=True)
class Arithmetic(Node):
    """``left operator right``; operator is one of + - * / // %."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Comparison(Node):
    """``left operator right``; operator is one of == != < <= > >=."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Membership(Node):
    """``operand in (items…)``."""

    operand: Node
    items: tuple[Node, ...]


@dataclass(frozen=True)
class TextMembership(Node):
    """``operand in (strings…)``."""

    operand: Node
    strings: tuple[str, ...]


@dataclass(frozen=True)
class TextMatch(Node):
    """``operand like pattern``, startswith, endswith or contains; ``escape`` belongs to like."""

    operand: Node
    method: str
    pattern: Node
    escape: Node | None


@dataclass(frozen=True)
class Is(Node):
    """``operand is null`` or ``operand is nan``."""

    operand: Node
    what: str


@dataclass(frozen=True)
class Joined(Node):
    """Operands joined by ``and`` or ``or``."""

    word: str
    operands: tuple[Node, ...]
