"""Windows of an epoch in an object store: each is asked for in runs before its batches are read."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from ..core import Order
from ..order.permutation import EpochRun
from ..parts.read_ahead import MOST_AHEAD_BYTES, MOST_WINDOW_BYTES
from .plan import Plan

__all__ = ["WindowsAhead"]

_LEAST_BYTES: Final = 16 << 20  # of a window that are asked for at a time, so that runs stay whole
_BATCH_BYTES: Final = 1 << 20  # of batches in order, from which on they bring runs by themselves
_IN_ORDER_BYTES: Final = 16 << 20  # of windows in order, at most
_IN_ORDER_ROWS: Final = 1 << 16  # of such a window, at most


class WindowsAhead:
    """The windows of one pass: those of ``shuffle="block"``; in order, of small batches, stretches of rows.

    Only where they bring runs: all of a window's rows are this rank's, all columns are read, a window is more than a
    batch, which brings runs by itself, and fits the memory that is there for it. The window behind those that are
    needed is asked for bit by bit, as the rows of those before make room: or nothing would be on its way meanwhile.
    """

    def __init__(self, plan: Plan, run: EpochRun, batch_size: int) -> None:
        parts, order = plan.data.parts, run.order
        self._plan, self._run, self._batch_size = plan, run, batch_size
        self._told = run.samples  # up to here windows are told of; there is no more to tell
        self._window = self._end = 0  # rows of a window, and where that ends which is being asked for
        self._turns: deque[tuple[int, int]] = deque()  # where windows end, and what forgets them
        self._rows = np.empty(0, np.int64)  # of the next window, sorted: those that are not told of
        self._in_order = False
        if not (isinstance(order, Order) and parts.is_fetched and run.stride == 1):
            return
        self._row_bytes = max(1, parts.mean_row_bytes())
        read = {column.name for _, column in plan.columns}
        blobs = [column.name for column in parts.schema.columns if column.is_blob]
        if not blobs or not read.issuperset(blobs):
            return
        if plan.order.spec.mode == "block":
            self._take_blocks(order)
        elif plan.order.spec.mode == "sequential":
            self._take_stretches()
        if self._in_order or (
            batch_size < self._window and self._window * self._row_bytes <= MOST_WINDOW_BYTES
        ):
            self._told = 0

    def _take_blocks(self, order: Order) -> None:
        spec = self._plan.order.spec
        self._window = spec.block_rows * spec.window_blocks
        self._missing = -order.rows % spec.block_rows  # of the last block, in whatever window it is
        last = int(order.inverse(np.array([order.rows - 1]))[0]) if order.rows else 0
        self._short = last // self._window

    def _take_stretches(self) -> None:
        """Rows that follow each other, of batches that are much smaller than a run."""
        selection = self._plan.order.selection
        if selection.is_range and selection.step == 1 and self._batch_size * self._row_bytes < _BATCH_BYTES:
            self._in_order = True
            self._window = 1

    def reach(self, batches: int, done: int) -> None:
        """Asks for all windows that so many batches of the pass reach into; ``done`` of them have been read."""
        stop = min(batches * self._batch_size, self._run.samples)
        while self._turns and self._turns[0][0] <= done * self._batch_size:
            self._plan.data.parts.forget_advice(self._turns.popleft()[1])
        if self._in_order:  # as many more as have been read: it may be a look at the first rows
            most = min(int(_IN_ORDER_BYTES / self._row_bytes), _IN_ORDER_ROWS)
            self._window = min(max(batches - done, done) * self._batch_size, most)
        while self._told < stop and self._ask():
            pass
        if stop <= self._told < self._run.samples and self._told - stop < self._window:
            self._ask()

    def _ask(self) -> bool:
        """Asks for rows of the next window, as many as there is room for; False when that is none."""
        run, parts = self._run, self._plan.data.parts
        if not len(self._rows):
            self._end = min(self._window_end(), run.samples)
            self._rows = np.sort(self._plan.rows_of(run, self._told, self._end))
        fitting = int((MOST_AHEAD_BYTES - parts.advised_bytes) / self._row_bytes)
        if fitting < min(len(self._rows), _LEAST_BYTES / self._row_bytes):
            return False
        rows, self._rows = self._rows[:fitting], self._rows[fitting:]
        self._turns.append((self._end, parts.advise(rows)))
        if not len(self._rows):
            self._told = self._end
        return True

    def _window_end(self) -> int:
        """Where the window ends, in samples of the pass, that the next sample to be told of is in."""
        if self._in_order:
            return self._told + self._window
        position = self._run.first + self._told
        number = position // self._window
        if number == self._short and position >= (number + 1) * self._window - self._missing:
            number += 1
        elif number > self._short:
            number = (position + self._missing) // self._window
        end = (number + 1) * self._window - (self._missing if number >= self._short else 0)
        return end - self._run.first

    def close(self) -> None:
        """Gives up what has been asked for, and is not going to be read."""
        if self._window:
            self._plan.data.parts.forget_advice()
