"""The values of selected rows as they are stored, some MiB at a time: what tells rows apart by their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..order.split import Cells
from ..parts.part_set import PartSet

__all__ = ["stored_cells"]

_AT_ONCE = 8 << 20
_MOST_ROWS = 1 << 16


def stored_cells(
    parts: PartSet, ordinals: Sequence[int], rows: NDArray[np.int64]
) -> Iterator[tuple[slice, list[Cells]]]:
    """(which of ``rows``, their cells in each of these columns), piece by piece."""
    step = min(max(int(_AT_ONCE / max(parts.mean_row_bytes(ordinals), 1.0)), 1), _MOST_ROWS)
    for first in range(0, len(rows), step):
        some = slice(first, min(first + step, len(rows)))
        found = parts.read(rows[some], ordinals)
        yield (
            some,
            [
                Cells.of_width(one.data, one.valid)
                if one.offsets is None
                else Cells(one.data, one.offsets, one.valid)
                for one in found
            ],
        )
