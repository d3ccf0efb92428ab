"""Rows -> row groups: where groups end and how their rows are laid out, from the rows alone, as values or as stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..format.chunks import chunked_blobs, chunks_in
from ..format.layout import MEMORY_PAGE, PAGE_ALIGN, PAGE_HEADER_BYTES, Shape
from ..format.page import StoredRows, fixed_rows
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData, PackedStrings, joined_strings

__all__ = [
    "StoredGrouper",
    "stored_shape",
]


# Rows -> row groups: where groups end and how their rows are laid out, from the rows alone.


TARGET_BYTES = 8 << 20
MAX_ROWS = 65_536
UNIT_BYTES = 8_192  # small rows share a digest up to this many bytes
VARIABLE_UNIT_BYTES = (
    4_096  # likewise rows of differing size, which are found by the lengths of those before them
)
MOST_VARIABLE_ROWS = 16
OWN_DIGEST_BYTES = 4_096  # from here on every cell has its own
WIDE_FIXED, WIDE_VARIABLE = 512, 1_024  # rows from here on are worth aligning to 64


def row_weights(schema: Schema, batch: ColumnBatch) -> npt.NDArray[np.int64]:
    """Bytes of the values of each row."""
    weights = np.full(batch.rows, sum(column.stored_bytes for column in schema), dtype=np.int64)
    for column, data in zip(schema, batch.columns, strict=True):
        if isinstance(data.values, PackedStrings):
            weights += data.values.sizes
        elif not column.stored_bytes:
            weights += np.fromiter(map(len, data.values), dtype=np.int64, count=batch.rows)
    return weights


def slice_batch(batch: ColumnBatch, start: int, stop: int) -> ColumnBatch:
    """Rows [start, stop), as views."""
    if start == 0 and stop == batch.rows:
        return batch
    return ColumnBatch(stop - start, [data.part(start, stop) for data in batch.columns])


def own_batch(batch: ColumnBatch) -> ColumnBatch:
    """The same rows in memory that the caller cannot change any more."""
    return ColumnBatch(batch.rows, [_own(data) for data in batch.columns])


def _own(data: ColumnData) -> ColumnData:
    valid = None if data.valid is None else data.valid.copy()
    if isinstance(data.values, np.ndarray | PackedStrings):
        return ColumnData(data.values.copy(), valid)
    values = [v if _is_fixed(v) else bytes(v) for v in data.values]
    return ColumnData(values, valid, data.raw_lengths, data.chunk_lengths)


def _is_fixed(cell: bytes | memoryview) -> bool:
    """Whether nobody can change it: bytes, and views of bytes."""
    return type(cell) is bytes or (type(cell) is memoryview and type(cell.obj) is bytes)


def _join(parts: list[ColumnData]) -> ColumnData:
    """The values of one scalar column, one part after the other."""
    if len(parts) == 1:
        return parts[0]
    arrays = [part.values for part in parts if isinstance(part.values, np.ndarray)]
    strings = [part.values for part in parts if isinstance(part.values, PackedStrings)]
    return ColumnData(np.concatenate(arrays) if arrays else joined_strings(strings), _joined_validity(parts))


def _joined_validity(parts: list[ColumnData]) -> npt.NDArray[np.bool_] | None:
    valid = [part.valid for part in parts if part.valid is not None]
    return np.concatenate(valid) if valid else None


def power_below(number: int) -> int:
    return 1 << (number.bit_length() - 1) if number > 0 else 1


def _item(schema: Schema) -> int:
    return max((c.element_bytes for c in schema if c.codec is None), default=1)


def _narrow_align(schema: Schema) -> int:
    return 8 if _item(schema) > 1 else 1


def _wide_align(schema: Schema) -> int:
    """Compressed cells are read as a whole into memory of their own, where nothing gains by their place in the file."""
    return 64 if any(c.is_blob and c.codec is None for c in schema) else 1


def fixed_shape(schema: Schema, target: int) -> Shape:
    """Layout of rows whose stored size the schema tells (no blob columns, or all of fixed width)."""
    plain = fixed_rows(schema, 1)
    if plain is None:
        return Shape(1, 0, min(MAX_ROWS, power_below(target // max(1, _scalar_bytes(schema)))), 0)
    align = 64 if plain.row_bytes >= WIDE_FIXED else _narrow_align(schema)
    rows_at = fixed_rows(schema, align)
    assert rows_at is not None
    row = rows_at.row_bytes
    unit = 0 if row > OWN_DIGEST_BYTES else power_below(UNIT_BYTES // row)
    group = min(MAX_ROWS, power_below(target // row))
    return Shape(align, unit, max(group, unit, 1), row)


def _scalar_bytes(schema: Schema) -> int:
    return sum(column.fixed_bytes for _, column in schema.scalars)


def variable_shape(schema: Schema, rows: int, size: int) -> Shape:
    """Layout of rows of differing size, from the rows and bytes of the first group."""
    mean = size // max(rows, 1)
    align = _wide_align(schema) if mean >= WIDE_VARIABLE else _narrow_align(schema)
    if mean >= OWN_DIGEST_BYTES:
        return Shape(align, 0, 0, 0)
    return Shape(align, min(MOST_VARIABLE_ROWS, power_below(VARIABLE_UNIT_BYTES // max(mean, 1))), 0, 0)


class Grouper:
    """Collects batches and gives out row groups.

    A group ends where the next row would take it over the target, or where it has reached it; groups of rows of fixed
    width all have the same number of rows, and those of rows of differing size whole digest units, so that they take in
    up to 15 rows more. ``shape`` is known once the first group is out.
    """

    def __init__(self, schema: Schema, target: int = TARGET_BYTES, shape: Shape | None = None) -> None:
        """``shape``: the one that earlier groups of the same rows have."""
        self.schema = schema
        self.target = target
        self.shape = shape
        blobs = [column for _, column in schema.blobs]
        self._variable = any(not column.stored_bytes for column in blobs)
        self._sized = not self._variable and not any(column.is_string for column in schema)
        if self._sized:
            self.shape = fixed_shape(schema, target)
        self._pieces: list[ColumnBatch] = []
        self._rows = 0
        self._bytes = 0
        self._room: dict[str, npt.NDArray[np.uint8]] = {}  # a group's blobs by column

    def add(self, batch: ColumnBatch, *, owned: bool) -> Iterator[list[ColumnBatch]]:
        """Takes rows in; gives the groups that are complete. What is kept is copied unless ``owned``."""
        rest = 0
        if self.shape is not None and self.shape.group_rows:
            cuts = self._even_cuts(batch.rows, self.shape.group_rows)
        else:
            weights = row_weights(self.schema, batch)
            cuts = self._cuts(weights)
            rest = int(weights.sum()) - sum(size for _, size in cuts)
        start = 0
        for stop, size in cuts:
            self._take(slice_batch(batch, start, stop))
            self._bytes += size
            start = stop
            first = self.shape is None
            yield from self._emit()
            if first and self.shape is not None and self.shape.group_rows:
                yield from self.add(slice_batch(batch, start, batch.rows), owned=owned)
                return
        piece = slice_batch(batch, start, batch.rows)
        self._bytes += rest
        self._take(piece if owned or self._gathers(piece) else own_batch(piece))

    def _take(self, piece: ColumnBatch) -> None:
        if not piece.rows:
            return
        if self._gathers(piece):
            piece = self._gather(piece)
        self._pieces.append(piece)
        self._rows += piece.rows

    def _gathers(self, piece: ColumnBatch) -> bool:
        """Whether the piece is part of a group of fixed rows, which is put together in memory that is used again."""
        return self.shape is not None and self.shape.row_bytes > 0 and piece.rows < self.shape.group_rows

    def _gather(self, piece: ColumnBatch) -> ColumnBatch:
        assert self.shape is not None
        columns = []
        for column, data in zip(self.schema, piece.columns, strict=True):
            if column.is_blob:
                if column.name not in self._room:
                    self._room[column.name] = np.empty((self.shape.group_rows, column.fixed_bytes), np.uint8)
                self._room[column.name][self._rows : self._rows + piece.rows] = np.asarray(data.values)
                columns.append(ColumnData([], None if data.valid is None else data.valid.copy()))
            else:
                columns.append(_own(data))
        return ColumnBatch(piece.rows, columns)

    def _gathered(self, pieces: list[ColumnBatch], rows: int) -> list[ColumnBatch]:
        """The pieces as one, when their blobs have been put together."""
        if not self.schema.blobs or not pieces or not self._gathers(pieces[0]):
            return pieces
        columns = []
        for ordinal, column in enumerate(self.schema):
            parts = [piece.columns[ordinal] for piece in pieces]
            if column.is_blob:
                columns.append(ColumnData(self._room[column.name][:rows], _joined_validity(parts)))
            else:
                columns.append(_join(parts))
        return [ColumnBatch(rows, columns)]

    def _even_cuts(self, rows: int, group_rows: int) -> list[tuple[int, int]]:
        return [(stop, 0) for stop in range(group_rows - self._rows, rows + 1, group_rows)]

    def _cuts(self, weights: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
        ends = np.cumsum(weights)
        cuts: list[tuple[int, int]] = []
        start, done, rows, size = 0, 0, self._rows, self._bytes
        while start < len(ends):
            # the first row that does not fit, and the first that fills the group exactly or alone exceeds it
            stop = int(np.searchsorted(ends, done + self.target - size, side="right"))
            stop = min(stop, start + MAX_ROWS - rows)
            if stop == start and rows == 0:
                stop = start + 1
            stop = max(stop, start)
            taken = (int(ends[stop - 1]) - done) if stop > start else 0
            full = rows + stop - start >= MAX_ROWS or size + taken >= self.target
            if stop == len(ends) and not full:
                break
            if self._variable:
                if self.shape is None:
                    self.shape = self._decide(rows + stop - start, size + taken)
                stop += -(rows + stop - start) % max(self.shape.unit_rows, 1)
                if stop > len(ends):
                    break
                taken = (int(ends[stop - 1]) - done) if stop > start else 0
            cuts.append((stop, taken))
            done += taken
            start, rows, size = stop, 0, 0
        return cuts

    def _emit(self) -> Iterator[list[ColumnBatch]]:
        pieces, rows, size = self._pieces, self._rows, self._bytes
        self._pieces, self._rows, self._bytes = [], 0, 0
        if self.shape is None:
            self.shape = self._decide(rows, size)
            if self.shape.group_rows and self.shape.group_rows != rows:
                for piece in pieces:
                    yield from self.add(piece, owned=False)
            else:
                yield pieces  # taken in before the shape was known, so not put together
            return
        yield self._gathered(pieces, rows)

    def _decide(self, rows: int, size: int) -> Shape:
        if self._variable:
            return variable_shape(self.schema, rows, size)
        widest = fixed_shape(self.schema, self.target)
        group = min(widest.group_rows, max(power_below(rows), widest.unit_rows))
        return Shape(widest.blob_align, widest.unit_rows, group, widest.row_bytes)

    def finish(self) -> Iterator[list[ColumnBatch]]:
        """Gives out what is left; after it ``shape`` is known even when there were no rows at all."""
        undecided = self.shape is None
        if self.shape is None:
            variable = self._variable
            self.shape = (
                self._decide(self._rows, self._bytes) if variable else fixed_shape(self.schema, self.target)
            )
        if self._rows:
            pieces, rows, self._pieces, self._rows = self._pieces, self._rows, [], 0
            yield from _split(pieces if undecided else self._gathered(pieces, rows), self.shape.group_rows)


def shape_without_rows(schema: Schema) -> Shape:
    """How a part without rows is laid out."""
    grouper = Grouper(schema)
    list(grouper.finish())
    assert grouper.shape is not None
    return grouper.shape


def _split(pieces: list[ColumnBatch], group_rows: int) -> Iterator[list[ColumnBatch]]:
    """The pieces as they are, or in groups of ``group_rows`` when they hold more than one."""
    if not group_rows or sum(piece.rows for piece in pieces) <= group_rows:
        yield pieces
        return
    group: list[ColumnBatch] = []
    room = group_rows
    for piece in pieces:
        start = 0
        while start < piece.rows:
            stop = min(piece.rows, start + room)
            group.append(slice_batch(piece, start, stop))
            room -= stop - start
            start = stop
            if not room:
                yield group
                group, room = [], group_rows
    if group:
        yield group


def group_size(schema: Schema, shape: Shape, pieces: Sequence[ColumnBatch]) -> int:
    """At most how many bytes a row group of these rows takes in the file."""
    rows = sum(piece.rows for piece in pieces)
    values = sum(int(row_weights(schema, piece).sum()) for piece in pieces)
    cells = rows * len(schema.blobs)
    beside = rows * (2 * len(schema.scalars)) + 24 * cells + 16 * len(schema) + cells * (shape.blob_align - 1)
    for _, i, column in chunked_blobs(schema):
        for piece in pieces:
            beside += 12 * chunks_in(column, piece.columns[i])
    return (
        values
        + beside
        + 4 * rows * len(schema.scalars)
        + 2 * PAGE_HEADER_BYTES
        + 2 * PAGE_ALIGN
        + MEMORY_PAGE
    )


# Rows as they are stored -> row groups of other parts: where these end, and how they are laid out.


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
