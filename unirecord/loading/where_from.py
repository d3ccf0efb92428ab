"""The column that says which source of a mixture a row is of: made of row numbers, not stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["WhereFrom"]


class WhereFrom:
    """The column ``column``: for each row the name of its source. Source i has the rows from ``first_rows[i]`` on."""

    def __init__(self, column: str, names: Sequence[str], first_rows: Sequence[int]) -> None:
        self.column = column
        self.names: tuple[str, ...] = tuple(names)
        self._names = np.array(names, object)
        self._first_rows = np.array(first_rows, np.int64)

    def add_one(self, sample: dict[str, Any], row: int) -> None:
        """Puts the name of a row's source into its sample."""
        sample[self.column] = self.names[int(np.searchsorted(self._first_rows, row, side="right")) - 1]

    def add(self, batch: dict[str, Any], rows: NDArray[np.int64]) -> None:
        """Puts the names of the sources of these rows into their batch, as a list."""
        batch[self.column] = self._names[np.searchsorted(self._first_rows, rows, side="right") - 1].tolist()
