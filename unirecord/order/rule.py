"""What an order of positions can be asked, whoever makes it: the C core's permutations, mixtures and draws."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import Order
from .spec import OrderSpec

__all__ = ["EpochOrder", "Rule", "Vectorised", "occurrences"]

Numbers = NDArray[np.int64]


class EpochOrder(Protocol):
    """Which row of the selection stands at each of ``rows`` positions of an epoch; it may come more than once."""

    rows: int

    @property
    def spec(self) -> Any:
        """What the order was made with; ``spec.seed`` is what randomness hangs on."""

    def range(self, start: int, stride: int, count: int) -> Numbers:
        """The rows at ``count`` positions from ``start`` on, ``stride`` apart; it wraps past the end."""

    def one(self, position: int) -> int:
        """The row at one position."""

    def at(self, positions: Numbers) -> Numbers:
        """The rows at these positions."""


class Rule(Protocol):
    """Makes the orders of epochs of its own kind, in place of a shuffle."""

    name: str
    repeats: bool  # whether a row may come more often than once in an epoch
    samples: int  # positions of an epoch

    @property
    def rows(self) -> int:
        """Rows that may come."""

    def order(self, spec: OrderSpec) -> Vectorised:
        """The order of an epoch, of a seed."""

    def state(self, spec: OrderSpec) -> dict[str, Any]:
        """All that decides the orders, as plain values for a state."""

    def difference(
        self, state: Mapping[str, Any], spec: OrderSpec, epoch: int, position: int
    ) -> tuple[Any, Any] | None:
        """What differs between another's ``state`` and this one as far as a position of an epoch; None: nothing."""


class Vectorised:
    """An order that is a vectorised function of positions; ``at`` and ``occurrences`` are its own."""

    def __init__(self, rows: int, spec: OrderSpec) -> None:
        self.rows = rows
        self.spec = spec

    def range(self, start: int, stride: int, count: int) -> Numbers:
        """The rows at ``count`` positions from ``start`` on, ``stride`` apart; it wraps past the end."""
        if count <= 0:
            return np.empty(0, np.int64)
        return self._rows_at((start + stride * np.arange(count, dtype=np.int64)) % self.rows)

    def one(self, position: int) -> int:
        """The row at one position."""
        return int(self.at(np.array([position], np.int64))[0])

    def at(self, positions: Numbers) -> Numbers:
        """The rows at these positions."""
        given = np.asarray(positions, np.int64)
        if len(given) and (given.min() < 0 or given.max() >= self.rows):
            raise IndexError(f"a position is out of range: there are {self.rows}")
        return self._rows_at(given)

    def _rows_at(self, positions: Numbers) -> Numbers:
        raise NotImplementedError

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers]:
        """(which of ``rows``, its position) for each time that one of them comes."""
        raise NotImplementedError


def occurrences(order: Order | Vectorised, rows: Numbers) -> tuple[Numbers, Numbers]:
    """(which of ``rows`` of the selection, its position) for each time that one of them comes in the epoch."""
    if isinstance(order, Vectorised):
        return order.occurrences(rows)
    return np.arange(len(rows), dtype=np.int64), order.inverse(rows)
