"""From the operators of a pipeline to what runs: rules that give it a faster form, and its stages."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..format.column import Column
from ..order.randomness import child_key
from .chunk import Bounds, Chunk, place_at
from .operators import Operator
from .scheduler import StageQueue, goes_with_the_batch
from .stage import Named, Resumed, SlotMemory, Stage, call_of, slots_of, stages_of, step_of
from .workers import ProcessStage

__all__ = [
    "Draft",
    "Graph",
    "RULES",
    "Rewriting",
    "check_rules",
    "graph_of",
    "stage_queues_of",
    "rewritten",
]


# Rules that give a pipeline a form that runs faster with the same results; each is a function of its own.


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
    fused_batches: bool = False

    def __str__(self) -> str:
        names = [column.name for column in self.stored] if self.columns is None else list(self.columns)
        where = "".join(f" where {condition}" for condition in self.conditions)
        lines = [f"read {', '.join(names)}{where}"]
        before = Operator("batch", "")
        for operator in self.operators:
            kept = self.fused and len(lines) > 1 and operator.threads == "auto" and not operator.processes
            joined = kept and operator.kind not in ("batch", "prefetch")
            gathered = self.fused_batches and operator.kind == "batch" and goes_with_the_batch(before)
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
    return replace(draft, fused_batches=True)


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


# From the operators of a pipeline to what runs: what is read, and the stage queues behind it.


@dataclass(frozen=True)
class Graph:
    """What is read, and the stages behind it.

    ``batch``: batches of so many samples are read as such; 0: samples. ``drop_last`` is of those batches. ``raw`` are
    columns that are given as stored bytes, ``conditions`` what rows meet that are read. ``prefetch``: so many
    batches, or samples, are read ahead; 0: as is convenient.
    """

    stages: tuple[Stage, ...]
    batch: int = 0
    drop_last: bool = False
    raw: frozenset[str] = frozenset()
    conditions: tuple[str, ...] = ()
    columns: tuple[str, ...] | None = None
    prefetch: int = 0
    fused_batches: bool = False

    @property
    def names(self) -> list[tuple[str, int]]:
        """What reads, and each stage: its name, and its workers where they have been asked for."""
        return [("read", 1), *((stage.name, stage.processes or stage.threads) for stage in self.stages)]

    @property
    def aligned(self) -> int:
        """Samples of a batch that has its place in the epoch; 0: none has, for operators leave samples out before."""
        if self.batch or self.conditions:
            return self.batch
        for operator in self.operators:
            if operator.kind == "batch":
                return operator.size
            if not operator.keeps_count:
                break
        return 0

    @property
    def drops_last(self) -> bool:
        """Whether a last batch that is smaller is left out."""
        return self.drop_last or any(stage.drop_last for stage in self.stages)

    @property
    def operators(self) -> list[Operator]:
        """All of them, in their order."""
        return [operator for stage in self.stages for operator in stage.operators]


def graph_of(draft: Draft) -> Graph:
    """A draft as a source and stages."""
    operators = list(draft.operators)
    batch, drop_last, prefetch = 0, False, 0
    if operators and operators[0].kind == "batch" and operators[0].gathered:
        first, *operators = operators
        batch, drop_last = first.size, first.drop_last
    while operators and operators[0].kind == "prefetch":
        asked = operators.pop(0).size
        prefetch = min(prefetch or asked, asked)
    stages = tuple(stages_of(operators, draft.fused))
    return Graph(
        stages,
        batch,
        drop_last,
        _raw(operators),
        draft.conditions,
        draft.columns,
        prefetch,
        draft.fused_batches,
    )


def _raw(operators: Sequence[Operator]) -> frozenset[str]:
    """Columns that an operator which takes stored bytes reads before any other."""
    raw: set[str] = set()
    seen: set[str] = set()
    for operator in operators:
        if operator.kind in ("where", "prefetch"):
            continue
        if operator.columns is None:
            break
        if operator.in_place is not None:
            raw |= set(operator.columns) - seen
        seen |= set(operator.columns)
    return frozenset(raw)


# All that `step_of` takes but the names: the operator, what of its elements has been delivered, slotted columns.
_Recipe = tuple[Operator, Resumed, frozenset[str]]


def stage_queues_of(
    graph: Graph,
    names: Named,
    begun: Mapping[int, Sequence[int]],
    memory: SlotMemory,
    key: int,
    bounds: Bounds | None = None,
) -> list[StageQueue]:
    """The source's stage queue, and one for each stage.

    ``begun``: how many elements have been delivered of samples, by the places before them. Batches that operators
    write into lie in ``memory``. ``key``: of the pass, for the global random generators of worker processes.
    ``bounds``: where batches begin and end that are made of samples as they come.
    """
    stage_queues = [StageQueue(Stage((), prefetch=1 if graph.prefetch else 0))]
    multiplying = 0
    for number, stage in enumerate(graph.stages):
        following = graph.stages[number + 1] if number + 1 < len(graph.stages) else None
        slotted = _slotted(graph.stages[number - 1], stage) if number else frozenset()
        recipes: list[_Recipe] = []
        for operator in stage.operators:
            resumed: Resumed = {}
            if operator.multiplies:
                multiplying += 1
                resumed = {
                    place: place_at(place, inner[:multiplying])
                    for place, inner in begun.items()
                    if any(inner[:multiplying])
                }
            recipes.append((operator, resumed, slotted))
        call: Any = _StageCall(names, recipes)
        if stage.processes:
            call = ProcessStage(stage.name, call, stage.processes, names.locate, child_key(key, number))
        stage_queues.append(StageQueue(stage, call, stage_queues[-1], slots_of(stage, following, memory)))
        before = stage_queues[-2]
        if bounds is not None and stage.group:
            stage_queues[-1].bounds, bounds = bounds, None
        elif graph.fused_batches and stage.group and not before.stage.prefetch and before.stage.operators:
            apart = stage.threads or stage.processes or before.stage.group
            if not apart and all(map(goes_with_the_batch, before.stage.operators)):
                before.ahead = stage_queues[-1]
    return stage_queues


class _StageCall:
    """What a stage does to a chunk; made anew where it is unpickled, for a process that is not forked."""

    def __init__(self, names: Named, recipes: Sequence[_Recipe]) -> None:
        self._names, self._recipes = names, recipes
        self._call = call_of(
            [(step_of(recipe[0], names, *recipe[1:]), recipe[0].in_place is not None) for recipe in recipes]
        )

    def __call__(self, chunk: Chunk, slots: Sequence[Iterator[Any]]) -> Chunk:
        return self._call(chunk, slots)

    def __reduce__(self) -> tuple[Any, ...]:
        return _StageCall, (self._names, self._recipes)


def _slotted(before: Stage, stage: Stage) -> frozenset[str]:
    """Columns whose values may lie in slots of the batches that a stage makes."""
    slots = slots_of(before, stage, SlotMemory())
    writing = [operator for operator in before.operators if operator.in_place is not None]
    return frozenset(
        operator.columns[0]
        for operator, dealt in zip(writing, slots, strict=True)
        if dealt is not None and operator.columns
    )
