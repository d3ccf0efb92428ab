"""The blob fields of a MindRecord row: how they are laid out, and the packed integers of their arrays."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ...format.column import Column

__all__ = ["DecodeError", "blob_cells", "decoder"]

_CELL_SIZE: Final = struct.Struct(">Q")
_COUNT: Final = struct.Struct(">I")
# Codes of four elements by the byte that holds them, first element in the highest bits.
_CODES: Final = np.array(
    [[byte >> 6, byte >> 4 & 3, byte >> 2 & 3, byte & 3] for byte in range(256)], np.uint8
)


class DecodeError(ValueError):
    """The bytes of a row are damaged."""


def blob_cells(payload: memoryview, fields: int) -> list[memoryview]:
    """Cut a row's blobs into its fields: one alone takes all, several have their lengths before them."""
    if fields == 1:
        return [payload]
    cells, at = [], 0
    for _ in range(fields):
        if at + 8 > len(payload):
            raise DecodeError("the length of a field is cut off")
        (size,) = _CELL_SIZE.unpack_from(payload, at)
        at += 8
        if size > len(payload) - at:
            raise DecodeError(f"a field is said to have {size:,} bytes, more than the row holds")
        cells.append(payload[at : at + size])
        at += size
    if at != len(payload) and fields:
        raise DecodeError(f"{len(payload) - at:,} bytes are left over after the last field")
    return cells


def decoder(column: Column, version: str) -> Callable[[memoryview], Any]:
    """Return the function that makes a value of the bytes of a field."""
    if not column.is_array:
        return lambda cell: cell
    dtype = column.dtype
    assert dtype is not None
    packed = version != "2.0" and dtype.kind == "i"
    shape = column.shape or ()

    def decode(cell: memoryview) -> Any:
        if packed:
            flat = _unpacked(cell, dtype)
        elif len(cell) % dtype.itemsize:
            raise DecodeError(f"{len(cell):,} bytes are no whole number of {dtype} values")
        else:
            flat = np.frombuffer(cell, dtype)
        if not flat.size and -1 in shape:
            return flat.reshape([0 if d == -1 else d for d in shape])
        try:
            return flat.reshape(shape)
        except ValueError:
            raise DecodeError(
                f"column {column.name!r}: {flat.size:,} values do not make {list(shape)}"
            ) from None

    return decode


def _unpacked(cell: memoryview, dtype: Any) -> Any:
    """Integers, each of 1, 2, 4 or 8 bytes as a code of two bits says, after a count and the codes of all."""
    if not len(cell):
        return np.zeros(0, dtype)
    if len(cell) < 4:
        raise DecodeError("the number of values is cut off")
    (count,) = _COUNT.unpack_from(cell)
    start = 4 + (count + 3) // 4
    if start > len(cell):
        raise DecodeError(f"{count:,} values are said to be in {len(cell):,} bytes")
    codes = _CODES[np.frombuffer(cell, np.uint8, start - 4, 4)].reshape(-1)[:count]
    widths = np.left_shift(1, codes, dtype=np.int64)
    ends = start + np.cumsum(widths)
    if (int(ends[-1]) if count else start) != len(cell):
        raise DecodeError("the values of an array take more or fewer bytes than are there")
    if not count:
        return np.zeros(0, dtype)
    if (codes == codes[0]).all():
        found = np.frombuffer(cell, f"<i{widths[0]}", count, start)
        return found.astype(dtype)
    raw = np.frombuffer(cell, np.uint8)
    values = np.zeros(count, np.int64)
    for code in range(4):
        chosen = np.flatnonzero(codes == code)
        if len(chosen):
            width = 1 << code
            at = (ends[chosen] - width)[:, None] + np.arange(width)
            values[chosen] = np.ascontiguousarray(raw[at]).view(f"<i{width}")[:, 0]
    return values.astype(dtype)
