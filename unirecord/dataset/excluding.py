"""Rows that a dataset leaves out from now on, in a job that runs or has been resumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .named_rows import named_rows
from .order_queries import DatasetAsking
from .views import Given

__all__ = ["DatasetExcluding"]


class DatasetExcluding(DatasetAsking[Given]):
    """Leaving rows out while all other samples keep their place."""

    def exclude(
        self,
        rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
        *,
        where: str | None = None,
        fill: bool = False,
    ) -> int:
        """Leaves rows out from now on, here and in all loaders made from this dataset, in this epoch and later ones.

        From the place where the latest pass stands, what comes next. All other samples keep their step and slot, on any
        number of ranks: a batch is smaller, and a step that would be empty on all ranks is passed over (docs/order.md).
        Call it on every rank between the same two steps. It is part of the state. Views made later leave the rows out
        too. ``len(ds)`` stays as it is.

        Args:
            rows: row numbers in the dataset, as ``row_ids`` and ``rows_of`` give them.
            where: the rows that meet a condition (docs/query.md), in place of ``rows``.
            fill: another row, drawn for it, stands where one is left out: batches keep their size.

        Returns:
            How many rows are named.

        Raises:
            IndexError: there is no such row.
            QueryError: the condition is wrong.
            ValueError: not exactly one of ``rows`` and ``where`` is given, nothing would be left, or a DataLoader of
                PyTorch reads this dataset, and it alone knows where it stands.
        """
        return self._cursor.exclude(named_rows(self._cursor.plan, rows, where), fill)

    @property
    def excluded_rows(self) -> int:
        """How many rows have been named to ``exclude`` so far, some perhaps more than once."""
        return sum(len(entry.rows) for entry in self._cursor.exclusions.entries)
