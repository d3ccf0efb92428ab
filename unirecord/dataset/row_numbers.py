"""Row numbers of the whole data, and columns of chosen rows, which refuse to be indexed with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "as_row_numbers",
    "in_own_order",
]


class _ShownAsArray(np.ndarray[Any, np.dtype[Any]]):
    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


class RowNumbers(_ShownAsArray):
    """What `row_ids` gives: int64 that know that they number all rows of the data, as do pieces of them.

    What is computed from them (places by ``argsort``, sums) does not.
    """

    _of_all_rows = False

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if self._of_all_rows and isinstance(found, RowNumbers):
            found._of_all_rows = True
        return found


def as_row_numbers(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row numbers of the whole data, marked as such."""
    marked = rows.view(RowNumbers)
    marked._of_all_rows = True
    return marked


def _refuse_row_numbers(index: Any) -> None:
    for one in index if isinstance(index, tuple) else (index,):
        if isinstance(one, RowNumbers) and one._of_all_rows:
            raise IndexError(
                "row_ids() numbers all rows of the data, and this column has only the chosen ones, in their order: "
                'scalars(order="samples") is in the order of ds[i], and its value i belongs to row_ids()[i]'
            )


class _InOwnOrder:
    """Mixed into a kind of array: value i is not that of row i of the data."""

    def __getitem__(self, index: Any) -> Any:
        _refuse_row_numbers(index)
        return super().__getitem__(index)  # type: ignore[misc]

    def take(self, indices: Any, *args: Any, **kwargs: Any) -> Any:
        """As of an array."""
        _refuse_row_numbers(indices)
        return super().take(indices, *args, **kwargs)  # type: ignore[misc]


class OwnOrder(_InOwnOrder, _ShownAsArray):
    """A column in an order of its own."""


class MaskedOwnOrder(_InOwnOrder, np.ma.MaskedArray[Any, np.dtype[Any]]):
    """The same of a nullable column."""


def in_own_order(column: Any) -> Any:
    """The same values, which row numbers of the whole data do not index."""
    return column.view(MaskedOwnOrder if isinstance(column, np.ma.MaskedArray) else OwnOrder)
