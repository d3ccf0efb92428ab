"""Checks that what a row group stores can be values of its columns, whatever its digests say."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from ..format.column import Column
from ..format.page import ScalarColumn
from ..format.values import array_in_cell, decode_cell
from ..parts.data_file import DataHead, RowGroup
from .decompressing import CellValues, Decoders, Values
from .finding import Finding, findings_for

__all__ = ["check_blob_values", "check_scalar_values"]

Rows = npt.NDArray[np.intp]
_UNDONE = "the cell cannot be decompressed to the size that is stored for it"


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
    head: DataHead,
    group: RowGroup,
    payload: npt.NDArray[np.uint8],
    lost: npt.NDArray[np.bool_],
    decoders: Decoders,
) -> Iterator[Finding]:
    """Cells of the rows that are not ``lost`` can be decompressed and decoded, and nulls are empty or zero."""
    cells = CellValues(head, group, payload, decoders)
    for j, (ordinal, column) in enumerate(head.schema.blobs):
        valid = group.page.blob_valid[j]
        if ordinal in decoders.lost:
            span = (group.first_row, group.first_row + group.page.rows)
            what = f"the cells cannot be decompressed: {decoders.lost[ordinal]}"
            yield Finding(group.blob_payload, what, span, column.name)
        problems: dict[str, list[Rows]] = {}
        if valid is not None:
            for values in cells.of(j, np.flatnonzero(~valid & ~lost)):
                problems.setdefault(_UNDONE, []).append(values.rows[~values.good])
                problems.setdefault("the value is null, and has bytes", []).append(_filled(column, values))
        if valid is None and column.codec is None and _takes_any_bytes(column):
            continue
        rows = np.flatnonzero(~lost if valid is None else ~lost & valid)
        for values in cells.of(j, rows):
            problems.setdefault(_UNDONE, []).append(values.rows[~values.good])
            problems.setdefault(f"the bytes are no value of {column}", []).append(_no_values(column, values))
        for what, found in problems.items():
            every = np.concatenate(found)
            yield from findings_for(np.sort(every) + group.first_row, group.blob_payload, what, column.name)


def _takes_any_bytes(column: Column) -> bool:
    return column.fixed_bytes > 0 or column.type == "bytes"


def _filled(column: Column, values: Values) -> Rows:
    """Which rows do not hold what stands for null: no bytes, or zeros where all values have the same width."""
    filled: npt.NDArray[np.bool_] = values.sizes != 0
    width = column.fixed_bytes
    if width:
        each = (values.data[start : start + width].any() for start in values.starts.tolist())
        filled = np.fromiter(each, np.bool_, len(filled))
    rows: Rows = values.rows[filled]
    return rows


def _no_values(column: Column, values: Values) -> Rows:
    """Which rows hold bytes that are no value of the column."""
    if _takes_any_bytes(column) or _is_ascii(column, values):
        return np.empty(0, np.intp)
    if column.free_dims == 1:
        assert column.dtype is not None
        assert column.shape is not None
        entry = column.dtype.itemsize * math.prod(d for d in column.shape if d != -1)
        odd: Rows = values.rows[(values.sizes % entry != 0) & values.good]
        return odd
    return _undecodable(column, values)


def _is_ascii(column: Column, values: Values) -> bool:
    """Whether all bytes around the values of a text column are ASCII; not asked where most are of other columns."""
    if column.type != "text" or 2 * int(values.sizes.sum()) < len(values.data):
        return False
    return bool((values.data < 0x80).all())


def _undecodable(column: Column, values: Values) -> Rows:
    bad = []
    check = decode_cell if column.shape is None else array_in_cell
    payload = memoryview(values.data)
    each = (a[values.good].tolist() for a in (values.rows, values.starts, values.sizes))
    for row, start, size in zip(*each, strict=True):
        try:
            check(column, payload[start : start + size])
        except CorruptionError:  # noqa: PERF203
            bad.append(row)
    return np.array(bad, np.intp)
