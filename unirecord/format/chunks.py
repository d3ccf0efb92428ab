"""Cells that are cut into chunks: which there are of a value, where they lie in its cell, and their digests; pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges, values_cut, values_joined
from . import layout
from .column import Column
from .schema import Schema
from .values import ColumnData

__all__ = [
    "chunk_counts",
    "chunk_digests",
    "chunk_ends",
    "chunk_sizes",
    "chunked_blobs",
    "chunks_in",
    "cut_cells",
    "cut_values",
    "joined_cells",
    "joined_values",
    "per_row",
    "pieces_of_cells",
    "shape_of_value",
    "stored_shape_of_chunks",
]

U64 = npt.NDArray[np.uint64]
NONE: U64 = np.zeros(0, np.uint64)
_ROW_SHIFT = 32  # a chunk's place: its number in the cell, and above it that of the cell


def chunked_blobs(schema: Schema) -> list[tuple[int, int, Column]]:
    """Of the columns that are cut into chunks: the number among the blob columns, the ordinal, and the column."""
    return [(j, i, column) for j, (i, column) in enumerate(schema.blobs) if column.chunks is not None]


def stored_shape_of_chunks(column: Column) -> U64:
    """What the index holds of how values are cut: of arrays their shape and that of a chunk, else a chunk's size.

    A free dimension is 0.
    """
    return np.array([*(max(size, 0) for size in column.shape or ()), *(column.chunks or ())], np.uint64)


def _along(column: Column) -> int:
    """Bytes of an array for each element along its free dimension."""
    assert column.shape is not None
    return math.prod(size for size in column.shape if size != -1) * column.element_bytes


def shape_of_value(column: Column, raw: int) -> tuple[int, ...]:
    """The shape of an array of so many bytes, of a column with one free dimension at most."""
    assert column.shape is not None
    return tuple(raw // _along(column) if size == -1 else size for size in column.shape)


@lru_cache(256)
def _array_chunks(shape: tuple[int, ...], chunks: tuple[int, ...], element_bytes: int) -> U64:
    """Bytes of the values of each chunk of an array, in C order."""
    sizes = np.array([element_bytes], np.uint64)
    for whole, part in zip(shape, chunks, strict=True):
        along = np.minimum(part, whole - np.arange(0, whole, part)).astype(np.uint64)
        sizes = (sizes[:, None] * along[None, :]).ravel()
    sizes.setflags(write=False)
    return sizes


def chunk_sizes(column: Column, raw: int) -> U64:
    """Bytes of the values of each chunk of a value of ``raw`` bytes; of one chunk alone, none: it has no table."""
    assert column.chunks is not None
    if column.shape is not None:
        sizes = _array_chunks(shape_of_value(column, raw), column.chunks, column.element_bytes)
    else:
        size = column.chunks[0]
        sizes = np.full(-(-raw // size), size, np.uint64)
        if raw % size:
            sizes[-1] = raw % size
    return sizes if len(sizes) > 1 else NONE


def chunk_counts(column: Column, raw: U64) -> U64:
    """How many chunks the tables of values of so many bytes have; 0 where a value is one chunk."""
    assert column.chunks is not None
    counts, whole, size = 1, raw, column.chunks[0]
    if column.shape is not None:
        known = [(d, c) for d, c in zip(column.shape, column.chunks, strict=True) if d != -1]
        counts = math.prod(-(-d // c) for d, c in known)
        if not column.free_dims:
            return np.full(len(raw), counts if counts > 1 else 0, np.uint64)
        whole, size = raw // np.uint64(_along(column)), column.chunks[column.shape.index(-1)]
    found: U64 = (whole // np.uint64(size) + (whole % np.uint64(size) != 0)) * np.uint64(counts)
    found[found < 2] = 0
    return found


def raw_sizes(column: Column, data: ColumnData) -> U64:
    """Bytes of the value of each row of a blob column, whose cells may be compressed."""
    if column.fixed_bytes:
        return np.full(len(data.values), column.fixed_bytes, np.uint64)
    if data.raw_lengths is not None:
        return data.raw_lengths
    return np.fromiter(map(len, data.values), np.uint64, len(data.values))


def chunks_in(column: Column, data: ColumnData) -> int:
    """How many chunks the tables of these rows have."""
    return int(chunk_counts(column, raw_sizes(column, data)).sum())


def per_row(flat: U64, counts: U64) -> list[U64]:
    """What there is of all chunks, row by row."""
    if not len(flat):
        return [NONE] * len(counts)
    ends = np.cumsum(counts, dtype=np.int64)
    return [flat[end - count : end] for end, count in zip(ends.tolist(), counts.tolist(), strict=True)]


def cut_values(column: Column, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Values of fixed width, uint8 [n, bytes], with the elements of each in the order of its chunks."""
    assert column.shape is not None
    assert column.chunks is not None
    return values_cut(values, column.shape, column.chunks, column.element_bytes)


def cut_cells(column: Column, cells: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """Values of arrays with a free dimension, each with its elements in the order of its chunks."""
    return [_arranged(values_cut, column, cell) for cell in cells]


def joined_cells(column: Column, cells: Sequence[bytes | memoryview]) -> list[bytes | memoryview]:
    """The inverse of `cut_cells`."""
    return [_arranged(values_joined, column, cell) for cell in cells]


def _arranged(arrange: Any, column: Column, cell: bytes | memoryview) -> bytes | memoryview:
    assert column.chunks is not None
    shape = shape_of_value(column, len(cell))
    chunks = [min(part, whole) for part, whole in zip(column.chunks, shape, strict=True)]
    one_chunk = not len(cell) or len(shape) < 2 or tuple(chunks) == shape
    if one_chunk or len(cell) != math.prod(shape) * column.element_bytes:
        return cell
    values = np.frombuffer(cell, np.uint8)[None]
    return memoryview(arrange(values, shape, chunks, column.element_bytes)[0])


def joined_values(column: Column, values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """The inverse of `cut_values`."""
    assert column.shape is not None
    assert column.chunks is not None
    return values_joined(values, column.shape, column.chunks, column.element_bytes)


def pieces_of_cells(
    column: Column, cells: Sequence[bytes | memoryview]
) -> tuple[list[bytes | memoryview], list[int]]:
    """The chunks of cells that are not compressed, one after the other, and how many each has, at least one."""
    pieces: list[bytes | memoryview] = []
    counts = []
    for cell in cells:
        sizes = chunk_sizes(column, len(cell))
        counts.append(max(len(sizes), 1))
        if not len(sizes):
            pieces.append(cell)
            continue
        view = memoryview(cell)
        pieces += [view[a:b] for a, b in pairwise([0, *np.cumsum(sizes).tolist()])]
    return pieces, counts


def chunk_digests(
    schema: Schema,
    part_id: bytes,
    j: int,
    first_row: int,
    raw: U64,
    lengths: Sequence[U64] | None,
    cell: Callable[[int], Any],
) -> U64:
    """The digests of all chunks with a place in a table, of rows of the j-th blob column.

    ``first_row``: number of the first of them in the part. ``raw``: bytes of their values. ``lengths``: of the chunks
    of each row as they are stored, where they are compressed. ``cell``: gives the bytes of a row's cell.
    """
    _, column = schema.blobs[j]
    base, blobs = layout.seed(part_id, layout.DOMAIN_CHUNK), len(schema.blobs)
    found = []
    for r in np.flatnonzero(chunk_counts(column, raw)).tolist():
        sizes = chunk_sizes(column, int(raw[r])) if lengths is None else lengths[r]
        place = ((first_row + r) * blobs + j) << _ROW_SHIFT
        seed = (base + place * layout.PHI) & layout.MASK64
        starts = np.cumsum(sizes, dtype=np.uint64) - sizes
        found.append(digest_ranges(cell(r), starts, sizes, seed, layout.PHI))
    return np.concatenate(found) if found else NONE


def chunk_ends(counts: U64, flat: U64, cells: U64) -> U64 | None:
    """Where each chunk ends in its cell, of lengths ``flat``; None unless those of a row make up its cell's length."""
    if (
        flat > np.repeat(cells, counts.astype(np.int64))
    ).any():  # of which a sum may be more than 64 bits hold
        return None
    ends = np.cumsum(flat, dtype=np.uint64)
    last = np.cumsum(counts, dtype=np.int64)
    tables = counts > 0
    before = np.concatenate((np.zeros(1, np.uint64), ends))[last - counts.astype(np.int64)]
    if (ends[last[tables] - 1] - before[tables] != cells[tables]).any():
        return None
    within: U64 = ends - np.repeat(before, counts.astype(np.int64))
    return within
