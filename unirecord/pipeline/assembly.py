"""From the operators of a pipeline to what runs: what is read, and the lanes behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from ..order.randomness import child_key
from .chunk import Chunk, Place
from .gathering import goes_with_the_batch
from .lane import Lane
from .operators import Operator
from .resuming import place_at
from .rewriting import Draft
from .slots import SlotMemory
from .stage import Stage, call_of, slots_of, stages_of
from .steps import Named, step_of
from .worker_process import ProcessStage

__all__ = ["Graph", "graph_of", "lanes_of"]


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
    gathering: bool = False

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
        stages, batch, drop_last, _raw(operators), draft.conditions, draft.columns, prefetch, draft.gathering
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


# All that `step_of` takes but the names: the operator, the place that it is resumed at, slotted columns, holes.
_Recipe = tuple[Operator, "Place | None", frozenset[str], bool]


def lanes_of(
    graph: Graph,
    names: Named,
    start: int,
    inner: Sequence[int],
    memory: SlotMemory,
    key: int,
    holes: bool = False,
) -> list[Lane]:
    """The source's lane, and one for each stage; ``inner``: what has been delivered of the sample at ``start``.

    Batches that operators write into lie in ``memory``. ``key``: of the pass, for the global random generators of
    worker processes. ``holes``: there may be some among the elements.
    """
    lanes = [Lane(Stage((), prefetch=1 if graph.prefetch else 0), _no_call, None)]
    multiplying = 0
    for number, stage in enumerate(graph.stages):
        following = graph.stages[number + 1] if number + 1 < len(graph.stages) else None
        slotted = _slotted(graph.stages[number - 1], stage) if number else frozenset()
        recipes: list[_Recipe] = []
        for operator in stage.operators:
            resumed: Place | None = None
            if operator.multiplies:
                multiplying += 1
                if any(inner[:multiplying]):
                    resumed = place_at(start, inner[:multiplying])
            recipes.append((operator, resumed, slotted, holes))
        call: Any = _StageCall(names, recipes)
        if stage.processes:
            call = ProcessStage(stage.name, call, stage.processes, names.locate, child_key(key, number))
        lanes.append(Lane(stage, call, lanes[-1], slots_of(stage, following, memory)))
        before = lanes[-2]
        if graph.gathering and stage.group and not before.stage.prefetch and before.stage.operators:
            apart = stage.threads or stage.processes or before.stage.group
            if not apart and all(map(goes_with_the_batch, before.stage.operators)):
                before.ahead = lanes[-1]
    return lanes


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


def _no_call(chunk: Any, slots: Any) -> Any:
    raise AssertionError("the source is not called")


def _slotted(before: Stage, stage: Stage) -> frozenset[str]:
    """Columns whose values may lie in slots of the batches that a stage makes."""
    slots = slots_of(before, stage, SlotMemory())
    writing = [operator for operator in before.operators if operator.in_place is not None]
    return frozenset(
        operator.columns[0]
        for operator, dealt in zip(writing, slots, strict=True)
        if dealt is not None and operator.columns
    )
