"""Bytes of one blob cell back to the value that was written."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from ...errors import CorruptionError
from ..column import Column
from .objects import unpack_object

__all__ = ["array_in_cell", "decode_cell"]


def decode_cell(column: Column, data: bytes | memoryview) -> Any:
    """Return the value of a blob cell: bytes, str, an array with memory of its own, or the object.

    Raises `CorruptionError` when the bytes cannot be a value of the column; the caller adds the place.
    """
    if column.shape is not None:
        return array_in_cell(column, memoryview(data)).copy()
    if column.type == "bytes":
        return bytes(data)
    if column.type == "text":
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise CorruptionError(f"the text is not valid UTF-8 at byte {error.start}") from None
    return unpack_object(data)


def array_in_cell(column: Column, data: memoryview) -> np.ndarray[Any, Any]:
    """The array that a cell holds, as a view of it (docs/format.md, "Blob page"); raises like `decode_cell`."""
    shape, dtype = column.shape, column.dtype
    assert shape is not None
    assert dtype is not None
    if column.free_dims:
        shape = _actual_shape(shape, dtype.itemsize, data)
        data = data[: math.prod(shape) * dtype.itemsize]
    elif len(data) != column.fixed_bytes:
        raise CorruptionError(f"{column} takes {column.fixed_bytes:,} bytes, found {len(data):,}")
    try:
        if not len(data):
            return np.empty(shape, dtype)
        return np.frombuffer(data, dtype).reshape(shape)
    except ValueError as error:  # dimensions beyond what numpy can address
        raise CorruptionError(f"the shape {list(shape)} is impossible ({error})") from None


def _actual_shape(shape: tuple[int, ...], itemsize: int, data: memoryview) -> tuple[int, ...]:
    """Return the shape with its free dimensions: from the length if one is free, else from the cell's end."""
    free = shape.count(-1)
    fixed_bytes = itemsize * math.prod(d for d in shape if d != -1)
    if free == 1:
        count, rest = divmod(len(data), fixed_bytes)
        if rest:
            raise CorruptionError(f"{len(data):,} bytes are no whole number of {fixed_bytes:,}-byte entries")
        return tuple(count if d == -1 else d for d in shape)
    suffix = 8 * free
    if len(data) < suffix:
        raise CorruptionError(
            f"the cell has {len(data)} bytes, its {free} free dimensions alone take {suffix}"
        )
    dims = struct.unpack(f"<{free}Q", data[len(data) - suffix :])
    if fixed_bytes * math.prod(dims) != len(data) - suffix:
        raise CorruptionError(
            f"the stored dimensions {list(dims)} do not match the cell's {len(data):,} bytes"
        )
    left = iter(dims)
    return tuple(next(left) if d == -1 else d for d in shape)
