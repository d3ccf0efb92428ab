"""Rows of a part whose cells another part stores otherwise: as cells of other padding, or compressed anew."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..format.column import Column
from ..format.layout import Shape
from ..format.page import StoredRows, cell_lengths, padded
from ..format.schema import Schema
from ..format.values import ColumnBatch, ColumnData, PackedStrings
from ..parts.part_set import ColumnResult, PartSet, Snapshot, check_values

__all__ = ["padded_anew", "rows_as_batch", "stored_as", "values_of_part"]

_AT_ONCE = 8 << 20
_MOST_ROWS = 1 << 16
_ZEROS = bytes(64)


def padded_anew(schema: Schema, rows: StoredRows, old: Shape, new: Shape) -> StoredRows:
    """The same cells in the padding of another layout."""
    if old.blob_align == new.blob_align or not schema.blobs:
        return rows
    sizes = np.stack(cell_lengths(schema, rows.rows, rows.lengths), axis=1)
    room = padded(sizes, old).ravel()
    starts = np.cumsum(room, dtype=np.uint64) - room
    view = memoryview(rows.payload)
    ends = (starts + sizes.ravel()).tolist()
    cells = [view[a:b] for a, b in zip(starts.tolist(), ends, strict=True)]
    return StoredRows(rows.rows, rows.columns, rows.lengths, *_laid_out(cells, sizes, new))


def stored_as(schema: Schema, batch: ColumnBatch, shape: Shape) -> StoredRows:
    """The rows of a batch, whose columns are compressed where the schema says so, as row groups store them."""
    columns, cells, lengths = [], [], []
    for column, data in zip(schema, batch.columns, strict=True):
        if not column.is_blob:
            columns.append(data)
            continue
        every = _cells(column, data)
        cells.append(every)
        if not column.stored_bytes:
            lengths.append(np.fromiter(map(len, every), np.uint64, batch.rows))
        columns.append(ColumnData([], data.valid, data.raw_lengths))
    if not cells:
        return StoredRows(batch.rows, columns, [], np.empty(0, np.uint8), np.zeros(batch.rows + 1, np.uint64))
    sizes = np.stack(cell_lengths(schema, batch.rows, lengths), axis=1)
    row_by_row = [cell for row in zip(*cells, strict=True) for cell in row]
    return StoredRows(batch.rows, columns, lengths, *_laid_out(row_by_row, sizes, shape))


def _cells(column: Column, data: ColumnData) -> list[bytes | memoryview]:
    if not isinstance(data.values, np.ndarray):
        return list(data.values)
    flat = memoryview(np.ascontiguousarray(data.values).reshape(-1))
    width = column.stored_bytes
    return [flat[start : start + width] for start in range(0, len(flat), width)]


def _laid_out(
    cells: list[bytes | memoryview] | list[memoryview], sizes: NDArray[np.uint64], shape: Shape
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """The padded cells, one after the other, and where each row starts."""
    room = padded(sizes, shape)
    pads = (room - sizes).ravel().tolist()
    payload = b"".join(part for cell, pad in zip(cells, pads, strict=True) for part in (cell, _ZEROS[:pad]))
    ends = np.zeros(len(sizes) + 1, np.uint64)
    np.cumsum(room.sum(axis=1, dtype=np.uint64), out=ends[1:])
    return np.frombuffer(payload, np.uint8), ends


def _with_blanks(schema: Schema, live: ColumnBatch, gone: NDArray[np.bool_]) -> ColumnBatch:
    """Rows that are not compressed, with blank ones among them where ``gone`` says so: null, 0, or without bytes."""
    columns = [_spread(column, data, gone) for column, data in zip(schema, live.columns, strict=True)]
    return ColumnBatch(len(gone), columns)


def _spread(column: Column, data: ColumnData, gone: NDArray[np.bool_]) -> ColumnData:
    valid = data.valid
    if column.nullable:
        valid = np.zeros(len(gone), bool)
        valid[~gone] = True if data.valid is None else data.valid
    if isinstance(data.values, PackedStrings):
        sizes = np.zeros(len(gone), np.int64)
        sizes[~gone] = data.values.sizes
        return ColumnData(PackedStrings.of_sizes(data.values.content, sizes), valid)
    if isinstance(data.values, np.ndarray):
        spread = np.zeros((len(gone), *data.values.shape[1:]), data.values.dtype)
        spread[~gone] = data.values
        return ColumnData(spread, valid)
    blank, cells = b"" if column.nullable else _blank_cell(column), iter(data.values)
    return ColumnData([blank if out else next(cells) for out in gone.tolist()], valid)


def _blank_cell(column: Column) -> bytes:
    if column.type == "object" and not column.is_array:
        return b"\x80"
    return bytes(8 * column.free_dims if column.free_dims > 1 else 0)


def values_of_part(snapshot: Snapshot, dropped: NDArray[np.int64]) -> Iterator[ColumnBatch]:
    """The rows of a snapshot of one part, decompressed, some MiB at a time; each is checked as it is read.

    Those that are ``dropped`` (row numbers, ascending) are blank, and not read, so that they may be damaged.
    """
    parts = PartSet(snapshot, verify="always", knows_deletions=True)
    try:
        step = min(max(int(_AT_ONCE / max(parts.mean_row_bytes(), 1.0)), 1), _MOST_ROWS)
        for first in range(0, parts.rows, step):
            rows = np.arange(first, min(first + step, parts.rows), dtype=np.int64)
            start, stop = np.searchsorted(dropped, [first, first + len(rows)])
            if start == stop:
                yield rows_as_batch(parts, rows)
                continue
            gone = np.zeros(len(rows), bool)
            gone[dropped[start:stop] - first] = True
            yield _with_blanks(parts.schema, rows_as_batch(parts, rows[~gone]), gone)
    finally:
        parts.close()


def rows_as_batch(parts: PartSet, rows: NDArray[np.int64]) -> ColumnBatch:
    """These rows, in this order, not compressed; CorruptionError names the first value that is none."""
    found = parts.read(rows, range(len(parts.schema)))
    check_values(parts, rows, found)
    return ColumnBatch(
        len(rows), [_data(column, one) for column, one in zip(parts.schema, found, strict=True)]
    )


def _data(column: Column, found: ColumnResult) -> ColumnData:
    if column.is_string:
        assert found.offsets is not None
        return ColumnData(PackedStrings(found.data, found.offsets), found.valid)
    if not column.is_blob:
        return ColumnData(found.data, found.valid)
    if found.offsets is None:
        plain = np.ascontiguousarray(found.data).reshape(-1).view(np.uint8)
        return ColumnData(plain.reshape(len(found.data), column.fixed_bytes), found.valid)
    memory = memoryview(found.data)
    return ColumnData([memory[start:stop] for start, stop in pairwise(found.offsets.tolist())], found.valid)
