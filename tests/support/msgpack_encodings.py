"""Msgpack in other encodings than the shortest ones: what any of them says is the same."""

from __future__ import annotations

import random
import struct
from typing import Any

import msgpack

__all__ = ["packed_otherwise"]

WIDTHS = (8, 16, 32, 64)


def packed_otherwise(value: Any, r: random.Random) -> bytes:
    """The value as msgpack, each integer, string, array and map with any head that holds it."""
    if value is None or isinstance(value, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[value]
    if isinstance(value, int):
        return _integer(value, r)
    if isinstance(value, float):
        narrow = struct.pack(">f", value) if abs(value) < 3e38 or value != value else b""
        if narrow and struct.unpack(">f", narrow)[0] == value and r.random() < 0.5:
            return b"\xca" + narrow
        return b"\xcb" + struct.pack(">d", value)
    if isinstance(value, str):
        raw = value.encode()
        return _sized(len(raw), r, (0xA0, 32), (0xD9, 0xDA, 0xDB)) + raw
    if isinstance(value, bytes):
        return _sized(len(value), r, None, (0xC4, 0xC5, 0xC6)) + value
    if isinstance(value, msgpack.Timestamp):
        return _extension(-1, _timestamp(value, r), r)
    if isinstance(value, msgpack.ExtType):
        return _extension(value.code, value.data, r)
    if isinstance(value, list):
        items = [packed_otherwise(item, r) for item in value]
        return _sized(len(value), r, (0x90, 16), (None, 0xDC, 0xDD)) + b"".join(items)
    pairs = [packed_otherwise(item, r) for both in value.items() for item in both]
    return _sized(len(value), r, (0x80, 16), (None, 0xDE, 0xDF)) + b"".join(pairs)


def _timestamp(value: msgpack.Timestamp, r: random.Random) -> bytes:
    """Any of its forms that hold it."""
    seconds, nanoseconds = value.seconds, value.nanoseconds
    forms = [struct.pack(">Iq", nanoseconds, seconds)]
    if 0 <= seconds < 2**34:
        forms.append((nanoseconds << 34 | seconds).to_bytes(8, "big"))
    if 0 <= seconds < 2**32 and nanoseconds == 0:
        forms.append(seconds.to_bytes(4, "big"))
    return r.choice(forms)


def _extension(code: int, data: bytes, r: random.Random) -> bytes:
    kind, fixed = struct.pack("b", code), {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}.get(len(data))
    if fixed is not None and r.random() < 0.5:
        return bytes([fixed]) + kind + data
    return _sized(len(data), r, None, (0xC7, 0xC8, 0xC9)) + kind + data


def _integer(value: int, r: random.Random) -> bytes:
    heads = [bytes([value & 255])] if -32 <= value < 128 else []
    for place, bits in enumerate(WIDTHS):
        if 0 <= value < 1 << bits:
            heads.append(bytes([0xCC + place]) + value.to_bytes(bits // 8, "big"))
        if -(1 << bits - 1) <= value < 1 << bits - 1:
            heads.append(bytes([0xD0 + place]) + value.to_bytes(bits // 8, "big", signed=True))
    return r.choice(heads)


def _sized(
    size: int, r: random.Random, fixed: tuple[int, int] | None, heads: tuple[int | None, int, int]
) -> bytes:
    found = [bytes([fixed[0] | size])] if fixed is not None and size < fixed[1] else []
    for width, head in zip((1, 2, 4), heads, strict=True):
        if head is not None and size < 1 << 8 * width:
            found.append(bytes([head]) + size.to_bytes(width, "big"))
    return r.choice(found)
