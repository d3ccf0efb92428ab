"""A stage: neighbouring operators that run together on the same workers, and how they get what they work on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .chunk import Chunk
from .operator import InPlaceTogether
from .operators import Operator
from .slots import SlotMemory, Slots

if TYPE_CHECKING:
    from .steps import Step

__all__ = ["Stage", "stages_of"]

Call = Callable[[Chunk, Sequence[Iterator[Any]]], Chunk]


@dataclass(frozen=True)
class Stage:
    """``operators`` one behind the other, on ``threads`` (a number, or "auto") or in ``processes``.

    ``group`` elements go in together, as a batch: 0 means that as many are taken as is convenient. A last group that is
    smaller is left out where ``drop_last``. ``prefetch`` is how many results are made ahead, and ``under_way`` how many
    tasks are, each of as many elements as are worth one; 0: as is convenient.
    """

    operators: tuple[Operator, ...]
    group: int = 0
    drop_last: bool = False
    prefetch: int = 0
    under_way: int = 0

    @property
    def name(self) -> str:
        """What the stage is called in figures."""
        return " → ".join(
            operator.name if operator.kind not in ("batch", "where") else str(operator)
            for operator in self.operators
        )

    @property
    def on_batches(self) -> bool:
        """Whether what goes in are batches."""
        return bool(self.operators) and self.operators[0].kind in ("map_batch", "device", "unbatch")

    @property
    def together(self) -> bool:
        """Whether an operator takes several samples in one call."""
        return any(isinstance(operator.in_place, InPlaceTogether) for operator in self.operators)

    @property
    def threads(self) -> int:
        """Threads of its own; 0: it shares those of the other stages without a number."""
        given = [operator.threads for operator in self.operators if operator.threads != "auto"]
        return given[0] if given else 0

    @property
    def processes(self) -> int:
        """Processes of its own; 0: threads."""
        return self.operators[0].processes if self.operators else 0


def stages_of(operators: Sequence[Operator], fused: bool) -> list[Stage]:
    """The operators in stages: each alone, or ``fused`` with its neighbours that ask for no workers of their own."""
    stages: list[Stage] = []
    for operator in operators:
        if operator.kind == "prefetch":
            if stages:
                last = stages.pop()
                count = min(last.prefetch or operator.size, operator.size)
                stages.append(Stage(last.operators, last.group, last.drop_last, count))
            continue
        if operator.kind == "batch":
            stages.append(Stage((operator,), operator.size, operator.drop_last))
            continue
        last_stage = stages[-1] if stages else None
        if last_stage is not None and fused and _fuse(last_stage, operator):
            joined = (*last_stage.operators, operator)
            stages[-1] = Stage(joined, last_stage.group, last_stage.drop_last)
        else:
            stages.append(Stage((operator,)))
    return stages


def _fuse(stage: Stage, operator: Operator) -> bool:
    """Whether an operator runs with those of a stage: both on the shared threads, and no number of results between."""
    free = not stage.threads and not stage.processes and not stage.prefetch
    return free and operator.threads == "auto" and not operator.processes


def slots_of(stage: Stage, following: Stage | None, memory: SlotMemory) -> list[Slots | None]:
    """For each operator of a stage that writes in place: slots of the next stage's batches, if none is moved."""
    found: list[Slots | None] = []
    for number, operator in enumerate(stage.operators):
        into = operator.in_place
        if into is None:
            continue
        if stage.processes:  # what they make lies in memory of theirs
            found.append(None)
            continue
        rest = stage.operators[number + 1 :]
        found.append(
            Slots(following.group, into.dtype, tuple(into.shape), memory)
            if following is not None
            and following.group
            and following.operators[0].fn is None
            and all(_leaves_alone(later, operator.columns) for later in rest)
            else None
        )
    return found


def _leaves_alone(operator: Operator, columns: Sequence[str] | None) -> bool:
    if operator.kind == "select":
        return True
    return (
        operator.kind == "map"
        and operator.columns is not None
        and not set(operator.columns) & set(columns or ())
    )


def call_of(steps: Sequence[tuple[Step, bool]]) -> Call:
    """The steps one behind the other; True beside those that get slots."""

    def call(chunk: Chunk, slots: Sequence[Iterator[Any]]) -> Chunk:
        dealt = iter(slots)
        for step, written in steps:
            chunk = step(chunk, next(dealt, None) if written else None)
        return chunk

    return call
