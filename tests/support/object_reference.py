"""The rules of docs/spec/format.md for objects, in Python and slow: what csrc/base/object.c and msgpack come to."""

from __future__ import annotations

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import msgpack

import unirecord

MAX_DEPTH = 64
FLOATS = {0xCA: ">f", 0xCB: ">d"}
INTEGERS = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: -1, 0xD1: -2, 0xD2: -4, 0xD3: -8}
SIZED = {
    0xC4: ("bin", 1),
    0xC5: ("bin", 2),
    0xC6: ("bin", 4),
    0xD9: ("str", 1),
    0xDA: ("str", 2),
    0xDB: ("str", 4),
}
# Bytes of the size, and a size that needs none.
EXTENSIONS = {
    0xC7: (1, 0),
    0xC8: (2, 0),
    0xC9: (4, 0),
    0xD4: (0, 1),
    0xD5: (0, 2),
    0xD6: (0, 4),
    0xD7: (0, 8),
    0xD8: (0, 16),
}
COUNTED = {0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4)}


class Refused(Exception):
    """The bytes break a rule, which the message names."""


def read_object(raw: bytes) -> Any:
    """The value, or `Refused`; written from the msgpack specification."""
    value, end = _value(raw, 0, 0)
    if end != len(raw):
        raise Refused("more than one value")
    return value


def _take(raw: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(raw):
        raise Refused("it ends early")
    return raw[at : at + size], at + size


def _value(raw: bytes, at: int, depth: int) -> tuple[Any, int]:
    first, at = _take(raw, at, 1)
    code = first[0]
    if code < 0x80 or code >= 0xE0:
        return code if code < 0x80 else code - 256, at
    if code < 0xA0:
        return _container(raw, at, depth, "map" if code < 0x90 else "array", code & 15)
    if code < 0xC0:
        return _text(raw, at, code & 31)
    if code in (0xC0, 0xC2, 0xC3):
        return {0xC0: None, 0xC2: False, 0xC3: True}[code], at
    if code in FLOATS:
        data, at = _take(raw, at, struct.calcsize(FLOATS[code]))
        return struct.unpack(FLOATS[code], data)[0], at
    if code in INTEGERS:
        data, at = _take(raw, at, abs(INTEGERS[code]))
        return int.from_bytes(data, "big", signed=INTEGERS[code] < 0), at
    if code in SIZED:
        kind, width = SIZED[code]
        data, at = _take(raw, at, width)
        return (_text if kind == "str" else _take)(raw, at, int.from_bytes(data, "big"))
    if code in COUNTED:
        kind, width = COUNTED[code]
        data, at = _take(raw, at, width)
        return _container(raw, at, depth, kind, int.from_bytes(data, "big"))
    if code in EXTENSIONS:
        width, fixed = EXTENSIONS[code]
        size, at = _take(raw, at, width)
        kind, at = _take(raw, at, 1)
        data, at = _take(raw, at, fixed or int.from_bytes(size, "big"))
        return _extension(kind[0], data), at
    raise Refused("no msgpack")


def _extension(kind: int, data: bytes) -> Any:
    if kind != 0xFF:
        return unirecord.Extension(kind - 256 if kind > 127 else kind, data)
    if len(data) not in (4, 8, 12):
        raise Refused("a time of another length")
    whole = int.from_bytes(data, "big")
    nanoseconds, seconds = (0, whole) if len(data) == 4 else (whole >> 34, whole & (1 << 34) - 1)
    if len(data) == 12:
        nanoseconds, seconds = whole >> 64, int.from_bytes(data[4:], "big", signed=True)
    if nanoseconds > 999_999_999:
        raise Refused("nanoseconds of a time")
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(0, seconds, nanoseconds // 1000)
    except OverflowError:
        found = None
    return msgpack.Timestamp(seconds, nanoseconds) if found is None or nanoseconds % 1000 else found


def _text(raw: bytes, at: int, size: int) -> tuple[str, int]:
    data, at = _take(raw, at, size)
    try:
        return data.decode(), at
    except UnicodeDecodeError:
        raise Refused("not UTF-8") from None


def _container(raw: bytes, at: int, depth: int, kind: str, count: int) -> tuple[Any, int]:
    if depth == MAX_DEPTH:
        raise Refused("too deep")
    if kind == "array":
        items = []
        for _ in range(count):
            item, at = _value(raw, at, depth + 1)
            items.append(item)
        return items, at
    found: dict[Any, Any] = {}
    for _ in range(count):
        key, at = _value(raw, at, depth + 1)
        if type(key) not in (str, int, bytes) or key in found:
            raise Refused("a key of another type, or there twice")
        found[key], at = _value(raw, at, depth + 1)
    return found, at
