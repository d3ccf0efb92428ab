"""Rows as they are stored -> row groups of other parts: where these end, and how they are laid out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..format.layout import Shape
from ..format.page import StoredRows
from ..format.schema import Schema
from .row_groups import MAX_ROWS, fixed_shape, power_below

__all__ = ["StoredGrouper", "stored_shape"]


def stored_shape(schema: Schema, shapes: Sequence[tuple[int, int, Shape]], target: int) -> Shape:
    """The layout of rows that come of parts of so many (rows, bytes, layout); one part at least has rows.

    That of the part with the most rows, where it is not the schema that decides.
    """
    if not any(not column.stored_bytes for _, column in schema.blobs):
        if schema.blobs or not any(column.is_string for column in schema):
            return fixed_shape(schema, target)
        rows, size = sum(rows for rows, _, _ in shapes), sum(size for _, size, _ in shapes)
        return Shape(1, 0, min(MAX_ROWS, power_below(target * rows // max(size, 1))), 0)
    _, _, shape = max(shapes, key=lambda part: part[0])
    return Shape(shape.blob_align, shape.unit_rows, 0, 0)


class StoredGrouper:
    """Collects rows and gives out row groups, of ``target`` bytes where the rows differ in size.

    A row group that comes whole, and is about as large, stays whole: nothing of it is copied.
    """

    def __init__(self, shape: Shape, target: int) -> None:
        self._shape, self._target, self._unit = shape, target, max(shape.unit_rows, 1)
        self._pieces: list[StoredRows] = []
        self._rows = self._bytes = 0

    def add(self, rows: StoredRows) -> Iterator[list[StoredRows]]:
        """Takes rows in; gives the groups that are complete."""
        start = 0
        while start < rows.rows:
            stop, full = self._cut(rows, start)
            self._take(rows.part(start, stop))
            start = stop
            if full:
                yield from self.finish()

    def finish(self) -> Iterator[list[StoredRows]]:
        """Gives out what is left."""
        pieces, self._pieces, self._rows, self._bytes = self._pieces, [], 0, 0
        if pieces:
            yield pieces

    def _take(self, piece: StoredRows) -> None:
        if piece.rows:
            self._pieces.append(piece)
            self._rows += piece.rows
            self._bytes += piece.nbytes

    def _cut(self, rows: StoredRows, start: int) -> tuple[int, bool]:
        """As far as the group at hand reaches into the rows from ``start`` on, and whether it is complete then."""
        left = rows.rows - start
        if self._shape.group_rows:
            count = min(self._shape.group_rows - self._rows, left)
            return start + count, self._rows + count == self._shape.group_rows
        rest = int(rows.ends[-1] - rows.ends[start])
        beside = (rows.nbytes - len(rows.payload)) // rows.rows  # bytes of a row that are not in the payload
        room, most = self._target - self._bytes, MAX_ROWS - self._rows
        if not self._rows and rest + beside * left <= self._target * 9 // 8:
            room += self._target // 8
        if rest + beside * left < room and left < most:
            return rows.rows, False
        taken = (
            rows.ends[start + 1 :]
            - rows.ends[start]
            + np.arange(1, left + 1, dtype=np.uint64) * np.uint64(beside)
        )
        count = min(int(np.searchsorted(taken, np.uint64(max(room, 0)), "right")), most)
        count = max(count, 0 if self._rows else 1)
        count += -(self._rows + count) % self._unit
        if count > left:
            return rows.rows, False
        return start + count, True
