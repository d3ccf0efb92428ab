"""A hash of each row, of its values in some columns alone: the same in any file, batch, process and order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.digests import digest_ranges
from .splitmix import mixed

__all__ = ["Cells", "row_hashes"]


@dataclass(frozen=True)
class Cells:
    """The values of a column as they are stored: value i is ``data[ends[i] : ends[i + 1]]``, uint8.

    ``valid`` bool[n] of nullable columns, else None; what is null has no bytes, or zeros.
    """

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    valid: NDArray[np.bool_] | None

    @classmethod
    def of_width(cls, values: NDArray[Any], valid: NDArray[np.bool_] | None) -> Cells:
        """Those of an array, a value for each of its first entries."""
        width = values.nbytes // max(len(values), 1)
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return cls(data, np.arange(len(values) + 1, dtype=np.int64) * width, valid)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def each(self) -> list[bytes | None]:
        """The values one by one, None where null."""
        memory = memoryview(self.data)
        values = [bytes(memory[start:stop]) for start, stop in pairwise(self.ends.tolist())]
        if self.valid is None:
            return list(values)
        return [value if there else None for value, there in zip(values, self.valid.tolist(), strict=True)]


def row_hashes(columns: Sequence[Cells], seed: int) -> NDArray[np.uint64]:
    """64 bits for each row, of one column at least."""
    found = np.zeros(len(columns[0]), np.uint64)
    for cells in columns:
        starts = cells.ends[:-1].astype(np.uint64)
        digests = digest_ranges(cells.data, starts, np.diff(cells.ends).astype(np.uint64), 0, 0)
        found = mixed(found ^ digests, seed)
        if cells.valid is not None:
            found = mixed(found ^ cells.valid.astype(np.uint64), seed)
    return found
