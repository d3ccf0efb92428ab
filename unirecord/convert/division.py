"""Which units of a source make which task: from the source alone, so that any number of workers agrees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .sources.base import Unit

__all__ = ["divide"]

_TASKS: Final = 64  # about so many at least, where each has enough to do
_ENOUGH_BYTES: Final = 64 << 20
_FEW_TASKS: Final = 16  # about so many of smaller data, so that a few workers end at about the same time
_LEAST_BYTES: Final = 16 << 20
_LEAST_COMPUTED_BYTES: Final = 2 << 20  # where the time goes into what is made of a row, not into its bytes


def divide(
    units: Sequence[Unit], row_bytes: float, max_part_bytes: int, *, computed: bool = False
) -> list[tuple[int, int]]:
    """Return the tasks as ranges [start, stop) of units; a task makes one part, or several where it grows too large.

    A task has about a 64th of all, at least 64 MB (of less than 1 GB a 16th, at least 16 MB, or 2 MB of rows that are
    ``computed``) and at most ``max_part_bytes``. A unit whose rows are not known counts as a task's worth, since it may
    be anything.
    """
    total = sum((unit.rows or 0) * row_bytes for unit in units)
    few = _LEAST_COMPUTED_BYTES if computed else _LEAST_BYTES
    least = min(max(total / _FEW_TASKS, few), _ENOUGH_BYTES)
    wanted = min(max(total / _TASKS, least), max_part_bytes)
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
