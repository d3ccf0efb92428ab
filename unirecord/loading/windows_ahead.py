"""Windows of ``shuffle="block"`` in an object store: each is asked for in runs before its batches are read."""

from __future__ import annotations

from collections import deque

import numpy as np

from ..core import Order
from ..order.shard_order import EpochRun
from ..parts.read_ahead import MOST_AHEAD_BYTES
from .plan import Plan

__all__ = ["WindowsAhead"]


class WindowsAhead:
    """The windows of one pass.

    Only where they bring runs: all of a window's rows are this rank's, all columns are read, a window is more than a
    batch, which brings runs by itself, and fits the memory that is there for it.
    """

    def __init__(self, plan: Plan, run: EpochRun, batch_size: int) -> None:
        parts, order = plan.data.parts, run.order
        self._plan, self._run, self._batch_size = plan, run, batch_size
        self._told = run.samples  # up to here there is no more to tell of
        self._window = 0
        self._turns: deque[tuple[int, int]] = deque()  # where windows end, and what forgets them
        spec = plan.order.spec
        if not (isinstance(order, Order) and spec.mode == "block" and parts.is_fetched and run.stride == 1):
            return
        self._window = spec.block_rows * spec.window_blocks
        self._missing = -order.rows % spec.block_rows  # of the last block, in whatever window it is
        last = int(order.inverse(np.array([order.rows - 1]))[0]) if order.rows else 0
        self._short = last // self._window
        read = {column.name for _, column in plan.columns}
        if (
            all(column.name in read for column in parts.schema.columns if column.is_blob)
            and self._window > batch_size
            and self._window * parts.mean_row_bytes() <= MOST_AHEAD_BYTES
        ):
            self._told = 0

    def reach(self, batches: int, done: int) -> None:
        """Asks for all windows that so many batches of the pass reach into; ``done`` of them have been read."""
        run, stop = self._run, min(batches * self._batch_size, self._run.samples)
        while self._turns and self._turns[0][0] <= done * self._batch_size:
            self._plan.data.parts.forget_advice(self._turns.popleft()[1])
        while self._told < stop:
            end = min(self._window_end(run.first + self._told) - run.first, run.samples)
            turn = self._plan.data.parts.advise(np.sort(self._plan.rows_of(run, self._told, end)))
            self._turns.append((end, turn))
            self._told = end

    def _window_end(self, position: int) -> int:
        number = position // self._window
        if number == self._short and position >= (number + 1) * self._window - self._missing:
            number += 1
        elif number > self._short:
            number = (position + self._missing) // self._window
        return (number + 1) * self._window - (self._missing if number >= self._short else 0)

    def close(self) -> None:
        """Gives up what has been asked for, and is not going to be read."""
        if self._window:
            self._plan.data.parts.forget_advice()
