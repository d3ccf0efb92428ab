"""Rows as row groups store them: cut, joined and encoded again without a look at a single cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import Digesting
from . import layout
from .cell_places import cell_lengths, padded
from .layout import Shape
from .page import Encoded, EncodedCells, GroupPlace, assemble_group
from .schema import Schema
from .values import ColumnBatch, ColumnData

__all__ = ["StoredRows", "encode_stored_group"]

U64 = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]


@dataclass
class StoredRows(ColumnBatch):
    """Rows whose blobs are one piece of memory: the columns of blobs have validity and raw lengths, and no values.

    Attributes:
        lengths: uint64 [B], bytes of each cell, of the blob columns that are of variable width.
        payload: uint8, the padded cells of row after row, as they are in a blob page.
        ends: uint64 [B + 1], where each row starts in ``payload``, and the end of the last one.
    """

    lengths: list[U64]
    payload: Bytes
    ends: U64

    @property
    def nbytes(self) -> int:
        """About how many bytes they take in a file."""
        return len(self.payload) + sum(_nbytes(column) for column in self.columns) + 8 * self.rows

    def part(self, start: int, stop: int) -> StoredRows:
        """Rows [start, stop), as views."""
        if (start, stop) == (0, self.rows):
            return self
        first, last = int(self.ends[start]), int(self.ends[stop])
        columns = [
            ColumnData(
                column.values[start:stop],
                _cut(column.valid, start, stop),
                _cut(column.raw_lengths, start, stop),
            )
            for column in self.columns
        ]
        lengths = [length[start:stop] for length in self.lengths]
        ends = self.ends[start : stop + 1] - np.uint64(first)
        return StoredRows(stop - start, columns, lengths, self.payload[first:last], ends)


def _cut(array: npt.NDArray[Any] | None, start: int, stop: int) -> npt.NDArray[Any] | None:
    return None if array is None else array[start:stop]


def _nbytes(column: ColumnData) -> int:
    values = column.values
    if isinstance(values, list):
        return 0
    return int(values.nbytes if isinstance(values, np.ndarray) else len(values.content) + 4 * len(values))


def encode_stored_group(
    schema: Schema, shape: Shape, part_id: bytes, group: GroupPlace, pieces: Sequence[StoredRows]
) -> Encoded:
    """Encodes rows as one row group, the cells as they are; all ``pieces`` have the alignment of ``shape``."""

    def cells(seed: int) -> EncodedCells:
        rows = sum(piece.rows for piece in pieces)
        payload = pieces[0].payload if len(pieces) == 1 else np.concatenate([p.payload for p in pieces])
        lengths = [np.concatenate(each) for each in zip(*(p.lengths for p in pieces), strict=True)]
        sizes = np.concatenate([np.diff(piece.ends) for piece in pieces])
        if shape.unit_rows:
            ranges = np.add.reduceat(sizes, np.arange(0, rows, shape.unit_rows))
            starts = np.cumsum(ranges, dtype=np.uint64) - ranges
        else:
            every = np.stack(cell_lengths(schema, rows, lengths), axis=1)
            room = padded(every, shape).ravel()
            starts, ranges = np.cumsum(room, dtype=np.uint64) - room, every.ravel()
        variable = (column for _, column in schema.blobs if not column.stored_bytes)
        stored = [
            length.astype(column.lengths_dtype).tobytes()
            for length, column in zip(lengths, variable, strict=True)
        ]
        units = Digesting.of_ranges(payload, starts, ranges, seed, layout.PHI)
        return EncodedCells([payload], len(payload), units, stored)

    return assemble_group(schema, shape, part_id, group, pieces, cells)
