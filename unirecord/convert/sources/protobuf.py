"""The wire format of Protocol Buffers, as far as tf.train.Example needs it: fields of a message, packed numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

__all__ = ["WireError", "fields", "floats", "integers"]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_MOST_BYTES: Final = 10  # of a varint
_FEW: Final = 24  # bytes of varints that are faster read one by one


class WireError(ValueError):
    """The bytes are no message."""


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    try:
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFF_FFFF_FFFF_FFFF, at
            shift += 7
            if shift >= 7 * _MOST_BYTES:
                raise WireError("a number has more than 64 bits")
    except IndexError:
        raise WireError("it is cut off within a number") from None


def fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, wire type and value of each field: a view for bytes, an int for a varint, 4 or 8 bytes."""
    at, end = 0, len(data)
    while at < end:
        key = data[at]
        if key < 0x80:
            at += 1
        else:
            key, at = _varint(data, at)
        kind = key & 7
        if kind == _LENGTH:
            size = data[at] if at < end else 0x80
            if size < 0x80:
                at += 1
            else:
                size, at = _varint(data, at)
            value: Any = data[at : at + size]
            at += size
        elif kind == _VARINT:
            value, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            value = data[at : at + size]
            at += size
        else:
            raise WireError(f"a field has the wire type {kind}, which is none")
        if at > end:
            raise WireError("it is cut off within a field")
        if not key >> 3:
            raise WireError("a field has the number 0")
        yield key >> 3, kind, value


def floats(data: memoryview) -> Any:
    """Return the float32 values of a FloatList, packed or not."""
    found = []
    for number, kind, value in fields(data):
        if number != 1:
            continue
        if kind not in (_LENGTH, _FIXED32) or len(value) % 4:
            raise WireError("a list of floats holds something else")
        found.append(np.frombuffer(value, "<f4"))
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.zeros(0, np.float32)


def integers(data: memoryview) -> Any:
    """Return the int64 values of an Int64List, packed or not."""
    found: list[Any] = []
    for number, kind, value in fields(data):
        if number != 1:
            continue
        if kind == _VARINT:
            found.append(np.array([_signed(value)], np.int64))
        elif kind == _LENGTH:
            found.append(_packed(value))
        else:
            raise WireError("a list of integers holds something else")
    if len(found) == 1:
        return found[0]
    return np.concatenate(found) if found else np.zeros(0, np.int64)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _packed(data: memoryview) -> Any:
    if len(data) <= _FEW:
        values, at = [], 0
        while at < len(data):
            value, at = _varint(data, at)
            values.append(_signed(value))
        return np.array(values, np.int64)
    raw = np.frombuffer(data, np.uint8)
    last = raw < 0x80
    if not last[-1]:
        raise WireError("it is cut off within a number")
    if last.all():
        return raw.astype(np.int64)
    ends = np.flatnonzero(last)
    starts = np.concatenate(([0], ends[:-1] + 1))
    if (ends - starts >= _MOST_BYTES).any():
        raise WireError("a number has more than 64 bits")
    place = np.arange(len(raw)) - np.repeat(starts, ends - starts + 1)
    pieces = (raw & 0x7F).astype(np.uint64) << (7 * place).astype(np.uint64)
    return np.add.reduceat(pieces, starts).view(np.int64)
