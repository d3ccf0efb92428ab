"""One result of a pipeline again, with its random numbers: found by its position, or counted from the front."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import islice
from typing import Any

from ..order.spec import check_integer
from .origin import DatasetOrigin
from .passes import Design, Passes
from .resuming import keeps_count

__all__ = ["replayed"]


def replayed(design: Design, step: int, epoch: int | None, start: int) -> Any:
    """The result of a step of an epoch that was taken up at ``start``; IndexError where there is none."""
    origin = design.origin
    if not isinstance(origin, DatasetOrigin):
        raise ValueError("generators make the elements of this pipeline: only they could give them again")
    check_integer("step", step, 0)
    sizes = [operator for operator in design.operators if operator.kind == "batch"]
    size, drop_last = (sizes[0].size, sizes[0].drop_last) if sizes else (1, False)
    by_position = keeps_count(design.operators) and not origin.skips
    if epoch is None and not keeps_count(design.operators):
        raise ValueError(
            "how many steps an epoch has is not known here, so give the epoch in which steps count"
        )
    steps = origin.steps(start, size, drop_last)
    epoch, step = steps.located(step, epoch)
    front, skipped = start, step
    if by_position:
        stride = origin.shard[1]
        if not 0 <= step < len(steps) or not len(steps.unwrapped(step, origin.shard[0])):
            raise IndexError(f"rank {origin.shard[0]} has no step {step} in epoch {epoch}")
        if not origin.gives(step, epoch, steps, bool(sizes)):
            raise IndexError(f"step {step} of epoch {epoch} has been left out")
        front, skipped = start + step * size * stride, 0
    again = Passes(replace(design, origin=origin.standing_at(epoch, front)))
    with closing(again.begin()) as results:
        for result in islice(results, skipped, None):
            return result
    raise IndexError(f"rank {origin.shard[0]} has no step {step} in epoch {epoch}")
