"""Which units of a source make which task: from the source alone, so that any number of workers agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .sources.base import Unit

__all__ = ["divide"]

_TASKS: Final = 64  # about so many at least, where each has enough to do
_LEAST_BYTES: Final = 64 << 20


def divide(units: Sequence[Unit], row_bytes: float, max_part_bytes: int) -> list[tuple[int, int]]:
    """Return the tasks as ranges [start, stop) of units; a task makes one part, or several where it grows too large.

    A task has about a 64th of all, at least 64 MB and at most ``max_part_bytes``. A unit whose rows are not known
    counts as a task's worth, since it may be anything.
    """
    total = sum((unit.rows or 0) * row_bytes for unit in units)
    wanted = min(max(total / _TASKS, _LEAST_BYTES), max_part_bytes)
    tasks: list[tuple[int, int]] = []
    start, size = 0, 0.0
    for place, unit in enumerate(units):
        weight = wanted if unit.rows is None else unit.rows * row_bytes
        if place > start and size + weight > wanted:
            tasks.append((start, place))
            start, size = place, 0.0
        size += weight
    if start < len(units):
        tasks.append((start, len(units)))
    return tasks
