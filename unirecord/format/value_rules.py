"""Whether stored bytes can be values of their column, whatever their digests say: for all rows of a column at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import CorruptionError
from .column import Column
from .values import array_in_cell, decode_cell

__all__ = ["BROKEN", "NO_TEXT", "NULL_WITH_BYTES", "Values", "broken_scalars", "filled_nulls", "no_texts", "no_values",
           "takes_any_bytes"]  # fmt: skip

NO_TEXT: Final = "the string is not UTF-8"
BROKEN: Final = "the stored value breaks the rules of its type"
NULL_WITH_BYTES: Final = "the value is null, and has bytes"

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Values:
    """Values of some rows of a column: they lie in ``data``; ``good``: which could be decompressed."""

    rows: Rows
    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    good: npt.NDArray[np.bool_]


def broken_scalars(column: Column, values: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None) -> Rows:
    """Which rows hold a bool other than 0 or 1, or are null and not stored as zero; ``values``: lengths of strings."""
    wrong = np.zeros(len(values), bool)
    if valid is not None and len(values):
        raw = np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)
        wrong |= ~valid & raw.any(axis=1)
    if column.type == "bool":
        wrong |= values.view(np.uint8) > 1
    return np.flatnonzero(wrong)


def no_texts(lengths: npt.NDArray[Any], joined: Any) -> Rows:
    """Which of the strings that lie in ``joined``, one after the other, are not UTF-8."""
    raw = bytes(joined)
    if raw.isascii():
        return np.empty(0, np.intp)
    ends = np.cumsum(lengths, dtype=np.int64)
    starts = ends - lengths
    begun = np.frombuffer(raw, np.uint8)[starts[lengths > 0]]
    if (
        _is_text(raw) and not ((begun & 0xC0) == 0x80).any()
    ):  # all of it is, and none begins inside of a character
        return np.empty(0, np.intp)
    bounds = zip(starts.tolist(), ends.tolist(), strict=True)
    return np.array([row for row, (a, b) in enumerate(bounds) if not _is_text(raw[a:b])], np.intp)


def _is_text(raw: Any) -> bool:
    try:
        str(raw, "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def takes_any_bytes(column: Column) -> bool:
    """Whether all bytes of the right number are a value of the blob column."""
    return column.fixed_bytes > 0 or column.type == "bytes" or not column.is_known


def filled_nulls(column: Column, values: Values) -> Rows:
    """Which rows do not hold what stands for null: no bytes, or zeros where all values have the same width."""
    filled: npt.NDArray[np.bool_] = values.sizes != 0
    width = column.fixed_bytes
    if width:
        each = (values.data[start : start + width].any() for start in values.starts.tolist())
        filled = np.fromiter(each, np.bool_, len(filled))
    rows: Rows = values.rows[filled]
    return rows


def no_values(column: Column, values: Values) -> Rows:
    """Which rows hold bytes that are no value of the column."""
    if takes_any_bytes(column) or _are_texts(column, values):
        return np.empty(0, np.intp)
    if column.free_dims == 1:
        assert column.dtype is not None
        assert column.shape is not None
        entry = column.dtype.itemsize * math.prod(d for d in column.shape if d != -1)
        odd: Rows = values.rows[(values.sizes % entry != 0) & values.good]
        return odd
    return _undecodable(column, values)


def _are_texts(column: Column, values: Values) -> bool:
    """Whether all bytes around the values of a text column are text, and no value is a part of a character.

    Not asked where most of the bytes are of other columns.
    """
    if column.type != "text" or 2 * int(values.sizes.sum()) < len(values.data):
        return False
    if (values.data < 0x80).all():
        return True
    there = values.sizes > 0
    ends = values.starts[there] + values.sizes[there]
    edges = np.concatenate([values.starts[there], ends[ends < len(values.data)]])
    return not ((values.data[edges] & 0xC0) == 0x80).any() and _is_text(values.data)


def _undecodable(column: Column, values: Values) -> Rows:
    bad = []
    check = decode_cell if column.shape is None else array_in_cell
    payload = memoryview(values.data)
    each = (a[values.good].tolist() for a in (values.rows, values.starts, values.sizes))
    for row, start, size in zip(*each, strict=True):
        try:
            check(column, payload[start : start + size])
        except CorruptionError:
            bad.append(row)
    return np.array(bad, np.intp)
