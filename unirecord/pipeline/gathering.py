"""Cheap maps and the batch behind them in one task: which stages may, and what is made of a task's samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any

from .chunk import Chunk
from .memory_size import size_of
from .operators import Operator

__all__ = ["goes_with_the_batch", "make_ahead"]


def goes_with_the_batch(operator: Operator) -> bool:
    """Whether an operator makes one sample of one, on the shared threads, in memory of its own."""
    free = operator.threads == "auto" and not operator.processes and operator.in_place is None
    return free and operator.kind in ("map", "select")


def make_ahead(
    chunk: Chunk, size: int, call: Callable[[Chunk, Sequence[Any]], Chunk], caught: type[BaseException]
) -> None:
    """Leaves with a chunk what ``call`` makes of each ``size`` of its elements, of which it has whole groups.

    It is used where the stage of the groups comes to it with no group begun; else that does its work itself, as it
    does where a map has left a sample out.
    """
    if chunk.error is not None:
        return
    made = []
    for start in range(0, len(chunk.values), size):
        began = perf_counter_ns()
        try:
            result = call(chunk.piece(start, start + size), ())
        except caught as error:
            result = Chunk.failed(error)
        result.size = size_of(result)
        made.append((result, perf_counter_ns() - began))
        if result.error is not None:
            break
    chunk.made = made
    chunk.size = sum([result.size for result, _ in made])
