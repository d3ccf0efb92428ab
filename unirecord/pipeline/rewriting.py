"""Rules that give a pipeline a form that runs faster with the same results; each is a function of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from ..format.column import Column
from .gathering import goes_with_the_batch
from .operators import Operator

__all__ = ["RULES", "Draft", "Rewriting", "check_rules", "rewritten"]


@dataclass(frozen=True)
class Draft:
    """What is to run: ``columns`` are read of rows that meet the ``conditions``, then come the ``operators``.

    ``stored`` are the columns of the dataset that the pipeline begins with. ``fused``: neighbours run as one stage;
    ``gathering``: batches are made in the tasks of cheap maps before them.
    """

    operators: tuple[Operator, ...]
    stored: tuple[Column, ...]
    columns: tuple[str, ...] | None = None
    conditions: tuple[str, ...] = ()
    fused: bool = False
    gathering: bool = False

    def __str__(self) -> str:
        names = [column.name for column in self.stored] if self.columns is None else list(self.columns)
        where = "".join(f" where {condition}" for condition in self.conditions)
        lines = [f"read {', '.join(names)}{where}"]
        before = Operator("batch", "")
        for operator in self.operators:
            kept = self.fused and len(lines) > 1 and operator.threads == "auto" and not operator.processes
            joined = kept and operator.kind not in ("batch", "prefetch")
            gathered = self.gathering and operator.kind == "batch" and goes_with_the_batch(before)
            lines.append(f"{'  + ' if joined or gathered else '  '}{operator}")
            before = operator
        return "\n".join(lines)


Rewriting = Callable[[Draft], Draft]


def move_conditions_into_the_index(draft: Draft) -> Draft:
    """Rows that do not meet a condition are not read.

    A condition is about the row that a sample comes from, whatever has been made of it: it may stand before any
    operator on samples. Behind a batch it may not: other samples would stand in the batches.
    """
    front = _before_batch(draft.operators)
    conditions = tuple(o.condition for o in draft.operators[:front] if o.kind == "where" and o.condition)
    kept = tuple(o for o in draft.operators[:front] if o.kind != "where")
    return replace(draft, operators=kept + draft.operators[front:], conditions=draft.conditions + conditions)


def read_what_is_used(draft: Draft) -> Draft:
    """Columns that no operator is called with before ``select`` leaves them out are not read."""
    used: set[str] = set()
    for operator in draft.operators:
        if operator.kind in ("where", "prefetch"):
            continue
        if operator.columns is None:
            return draft  # a function that is called with whole samples may look at any column
        used |= set(operator.columns)
        if operator.kind == "select":
            names = tuple(column.name for column in draft.stored if column.name in used)
            return replace(draft, columns=names) if len(names) < len(draft.stored) else draft
    return draft


def move_vectorised_behind_the_batch(draft: Draft) -> Draft:
    """A map that is ``vectorised`` is called once with a column of the batch, not once for each sample.

    Only where the values of its columns are known to have one shape, so that the batch has them as an array.
    """
    operators = list(draft.operators)
    number = next((n for n, operator in enumerate(operators) if operator.kind == "batch"), None)
    if number is None or operators[number].fn is not None:
        return draft
    while number > 0 and _is_movable(operators[number - 1], operators[: number - 1], draft.stored):
        operators[number - 1 : number + 1] = [
            operators[number],
            operators[number - 1].changed(kind="map_batch", vectorised=False),
        ]
        number -= 1
    return replace(draft, operators=tuple(operators))


def _is_movable(operator: Operator, before: Sequence[Operator], stored: Sequence[Column]) -> bool:
    if operator.kind != "map" or not operator.vectorised or operator.columns is None:
        return False
    return set(operator.columns) <= _of_one_shape(before, stored)


def _of_one_shape(operators: Sequence[Operator], stored: Sequence[Column]) -> set[str]:
    """The columns whose values are numbers, or arrays of one shape and type, behind these operators."""
    known = {column.name for column in stored if column.fixed_bytes > 0 and not column.nullable}
    for operator in operators:
        if operator.kind in ("filter", "where", "prefetch"):
            continue
        if operator.columns is None:
            return set()
        if operator.kind == "select":
            known &= set(operator.columns)
        elif operator.in_place is not None:
            known |= set(operator.columns)
        elif not (operator.vectorised and set(operator.columns) <= known):
            known -= set(operator.columns)
    return known


def read_batches(draft: Draft) -> Draft:
    """Samples that nothing is done with before the batch are read as batches.

    Only where all columns then have the form that putting samples together gives them.
    """
    if not draft.operators or draft.conditions:
        return draft
    first = draft.operators[0]
    names = {column.name for column in draft.stored} if draft.columns is None else set(draft.columns)
    plain = all(_is_plain(column) for column in draft.stored if column.name in names)
    if first.kind != "batch" or first.fn is not None or first.gathered or not plain:
        return draft
    return replace(draft, operators=(first.changed(gathered=True), *draft.operators[1:]))


def _is_plain(column: Column) -> bool:
    return column.is_string or (column.fixed_bytes > 0 and not column.nullable)


def fuse_neighbours(draft: Draft) -> Draft:
    """Operators without workers of their own run one behind the other on the same thread, without a queue between."""
    return replace(draft, fused=True)


def gather_in_the_task(draft: Draft) -> Draft:
    """A map that turns out to be cheap runs in one task with the batch behind it, and what runs with that."""
    return replace(draft, gathering=True)


def _before_batch(operators: Sequence[Operator]) -> int:
    """How many operators stand before the first batch."""
    return next((n for n, operator in enumerate(operators) if operator.kind == "batch"), len(operators))


RULES: dict[str, Rewriting] = {
    "index": move_conditions_into_the_index,
    "columns": read_what_is_used,
    "vectorised": move_vectorised_behind_the_batch,
    "batches": read_batches,
    "fuse": fuse_neighbours,
    "gather": gather_in_the_task,
}


def check_rules(rewrite: bool | Collection[str]) -> tuple[str, ...]:
    """The names of the rules that are asked for, in their order; ValueError for one that there is not."""
    if isinstance(rewrite, bool):
        return tuple(RULES) if rewrite else ()
    if isinstance(rewrite, str) or not all(name in RULES for name in rewrite):
        raise ValueError(f"rewrite is True, False, or some of {', '.join(map(repr, RULES))}; got {rewrite!r}")
    return tuple(name for name in RULES if name in rewrite)


def rewritten(draft: Draft, rules: Collection[str]) -> Draft:
    """The draft after these rules, in their order."""
    for name, rule in RULES.items():
        if name in rules:
            draft = rule(draft)
    return draft
