"""Where the cells of a row group lie in the payload of its blob page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from .layout import Shape
from .schema import Schema

__all__ = ["cell_lengths", "padded", "row_sizes"]

U64 = npt.NDArray[np.uint64]


def padded(lengths: U64, shape: Shape) -> U64:
    """Bytes that cells of these lengths (uint64, any shape) take: multiples of ``blob_align``."""
    mask = np.uint64(shape.blob_align - 1)
    return (lengths + mask) & ~mask


def cell_lengths(schema: Schema, rows: int, lengths: Sequence[npt.NDArray[Any]]) -> list[U64]:
    """Length of every cell as uint64[rows], blob column by blob column; ``lengths``: those of variable columns."""
    given = iter(lengths)
    return [
        np.full(rows, column.stored_bytes, np.uint64)
        if column.stored_bytes
        else next(given).astype(np.uint64, copy=False)
        for _, column in schema.blobs
    ]


def row_sizes(schema: Schema, shape: Shape, rows: int, lengths: Sequence[npt.NDArray[Any]]) -> U64:
    """Bytes of the padded cells of each row, uint64[rows]; sums wrap where lengths are absurd."""
    sizes = np.zeros(rows, np.uint64)
    for cells in cell_lengths(schema, rows, lengths):
        sizes += padded(cells, shape)
    return sizes
