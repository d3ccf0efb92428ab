"""Checks that what a row group stores can be values of its columns, whatever its digests say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from ..format.page import ScalarColumn
from ..format.schema import Column
from ..format.values import array_in_cell, decode_cell
from ..parts.data_file import DataHead, RowGroup
from .finding import Finding, findings_for
from .walk import cell_places

__all__ = ["check_blob_values", "check_scalar_values"]

Rows = npt.NDArray[np.intp]


def check_scalar_values(head: DataHead, group: RowGroup) -> Iterator[Finding]:
    """Bools are 0 or 1, nulls are stored as zero, and strings are UTF-8."""
    for (_, column), found in zip(head.schema.scalars, group.page.scalars, strict=True):
        if found.strings is not None:
            bad = group.first_row + _no_texts(found.values, found.strings)
            yield from findings_for(bad, group.offset, "the string is not UTF-8", column.name)
        bad = group.first_row + np.flatnonzero(_broken(column, found))
        yield from findings_for(
            bad, group.offset, "the stored value breaks the rules of its type", column.name
        )


def _broken(column: Column, found: ScalarColumn) -> npt.NDArray[np.bool_]:
    values = found.values
    wrong = np.zeros(len(values), bool)
    if found.valid is not None:
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        wrong |= ~found.valid & raw.any(axis=1)
    if column.type == "bool":
        wrong |= values.view(np.uint8) > 1
    return wrong


def _no_texts(lengths: npt.NDArray[Any], joined: memoryview) -> Rows:
    raw = bytes(joined)
    if raw.isascii():
        return np.empty(0, np.intp)
    ends = np.cumsum(lengths, dtype=np.int64)
    bounds = zip((ends - lengths).tolist(), ends.tolist(), strict=True)
    return np.array([row for row, (a, b) in enumerate(bounds) if not _is_text(raw[a:b])], np.intp)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def check_blob_values(
    head: DataHead, group: RowGroup, payload: npt.NDArray[np.uint8], lost: npt.NDArray[np.bool_]
) -> Iterator[Finding]:
    """Texts, objects and arrays of the rows that are not ``lost`` can be decoded, and nulls are empty or zero."""
    places, sizes = cell_places(head, group)
    ascii_only = bool((payload < 0x80).all())
    for j, (_, column) in enumerate(head.schema.blobs):
        valid = group.page.blob_valid[j]
        if valid is not None:
            nulls = np.flatnonzero(~valid & ~lost)
            bad = nulls[_filled(column, payload, places[nulls, j], sizes[nulls, j])]
            yield from findings_for(
                bad + group.first_row, group.blob_payload, "the value is null, and has bytes", column.name
            )
        if column.fixed_bytes or column.type == "bytes" or (column.type == "text" and ascii_only):
            continue
        rows = np.flatnonzero(~lost if valid is None else ~lost & valid)
        if column.free_dims == 1:
            assert column.dtype is not None
            assert column.shape is not None
            entry = column.dtype.itemsize * math.prod(d for d in column.shape if d != -1)
            bad = rows[sizes[rows, j] % np.uint64(entry) != 0]
        else:
            bad = _undecodable(column, memoryview(payload), rows, places[rows, j], sizes[rows, j])
        what = f"the bytes are no value of {column}"
        yield from findings_for(bad + group.first_row, group.blob_payload, what, column.name)


def _filled(
    column: Column, payload: npt.NDArray[np.uint8], starts: npt.NDArray[Any], sizes: npt.NDArray[Any]
) -> npt.NDArray[np.bool_]:
    """Which of the cells are not what stands for null: no bytes, or zeros where all values have the same width."""
    if not column.fixed_bytes:
        return np.asarray(sizes != 0)
    width = column.fixed_bytes
    return np.array([payload[start : start + width].any() for start in starts.tolist()], np.bool_)


def _undecodable(
    column: Column, payload: memoryview, rows: Rows, starts: npt.NDArray[Any], sizes: npt.NDArray[Any]
) -> Rows:
    bad = []
    check = decode_cell if column.shape is None else array_in_cell
    for row, start, size in zip(rows.tolist(), starts.tolist(), sizes.tolist(), strict=True):
        try:
            check(column, payload[start : start + size])
        except CorruptionError:  # noqa: PERF203
            bad.append(row)
    return np.array(bad, np.intp)
