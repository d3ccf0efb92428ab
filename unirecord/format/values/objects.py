"""Objects (nested dicts and lists) to msgpack and back and to JSON; an unsupported value is named by its place."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any, Final

import msgpack
import numpy as np

from ...core import check_object
from ...errors import CorruptionError, SchemaError

__all__ = [
    "MAX_DEPTH",
    "base64_text",
    "json_object",
    "object_text",
    "pack_object",
    "unpack_object",
]


# Objects (nested dicts and lists) to msgpack and back; an unsupported value is named by its place.


MAX_DEPTH: Final = 64
_PLAIN: Final = frozenset((type(None), bool, float, bytes))
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 64) - 1


def pack_object(value: object, place: str = "object", level: int = 1) -> bytes:
    """Return ``value`` as msgpack, to stand at this level of nesting.

    Allowed are None, bool, int of 64 bits, float, str, bytes, list, tuple (comes back as list) and dict with
    str, int or bytes keys, nested up to 64 deep; numpy scalars are stored as the Python value. Raises
    `SchemaError` that names the place, such as ``meta.boxes[3]``.
    """
    _check(value, place, level)
    packed = msgpack.packb(value, use_bin_type=True, default=_plain_scalar)
    assert isinstance(packed, bytes)
    return packed


def unpack_object(data: bytes | memoryview) -> Any:
    """Return the object that msgpack ``data`` holds; `CorruptionError` when it breaks the rules of docs/spec/format.md.

    The rules: one value, strings of UTF-8, no extension types (timestamps neither), no key twice in a map, nested up to
    64 deep. Memory and time are in proportion to the length of ``data``, whatever counts it claims.
    """
    raw = bytes(data)
    check_object(raw)
    try:
        return msgpack.unpackb(raw, raw=False, strict_map_key=False)
    except UnicodeDecodeError as error:
        raise CorruptionError(f"the object holds a string that is not UTF-8 ({error.reason})") from None


def _plain_scalar(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is not supported")  # _check has refused all others


def _check(value: object, place: str, depth: int) -> None:
    kind = type(value)
    if kind in _PLAIN:
        return
    if isinstance(value, str):
        _check_text(value, place)
    elif isinstance(value, int | np.integer):
        if not _INT_MIN <= int(value) <= _INT_MAX:
            raise SchemaError(f"{place}: {value} does not fit 64 bits; store it as a string")
    elif isinstance(value, dict | list) or kind is tuple:
        if depth > MAX_DEPTH:
            raise SchemaError(f"{place}: nested more than {MAX_DEPTH} deep")
        _check_items(value, place, depth)
    elif not isinstance(value, float | bytes | np.bool_ | np.float16 | np.float32):
        raise SchemaError(f"{place}: {_kind_name(value)} is not supported{_advice(value)}")


def _check_items(value: Any, place: str, depth: int) -> None:
    if not isinstance(value, dict):
        for i, item in enumerate(value):
            if type(item) not in _PLAIN:
                _check(item, f"{place}[{i}]", depth + 1)
        return
    for key, item in value.items():
        if isinstance(key, bool) or not isinstance(key, str | int | bytes):
            raise SchemaError(f"{place}: a key is a str, int or bytes, got {_kind_name(key)} {key!r}")
        _check(key, f"{place} key {key!r}", depth)
        if type(item) not in _PLAIN:
            _check(item, f"{place}.{key}" if isinstance(key, str) else f"{place}[{key!r}]", depth + 1)


def _check_text(value: str, place: str) -> None:
    if value.isascii():
        return
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise SchemaError(
            f"{place}: the text has a lone surrogate at {error.start}, not valid Unicode"
        ) from None


def _kind_name(value: object) -> str:
    kind = type(value)
    return (
        kind.__name__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__name__}"
    )


def _advice(value: object) -> str:
    if isinstance(value, np.ndarray):
        return "; give it a column of its own, or store value.tolist()"
    if isinstance(value, set | frozenset):
        return "; store a list"
    if hasattr(value, "isoformat"):
        return "; store value.isoformat()"
    return "; an object holds None, bool, int, float, str, bytes, list and dict"


# Objects as JSON can hold them, with no key lost and no number that JSON does not have.


def json_object(value: Any, of_bytes: Callable[[bytes], Any]) -> Any:
    """The object with bytes as ``of_bytes`` shows them, and NaN and infinities as strings.

    A map whose keys are all strings stays one; any other becomes a list of [key, value], so that 1 and "1" stay two.
    """
    if isinstance(value, dict):
        items = [(key, json_object(item, of_bytes)) for key, item in value.items()]
        if all(type(key) is str for key in value):
            return dict(items)
        return [[key.hex() if isinstance(key, bytes) else key, item] for key, item in items]
    if isinstance(value, list):
        return [json_object(item, of_bytes) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return of_bytes(value) if isinstance(value, bytes) else value


def object_text(value: Any, of_bytes: Callable[[bytes], Any]) -> str:
    """The same as JSON text."""
    return json.dumps(json_object(value, of_bytes), ensure_ascii=False)


def base64_text(value: bytes) -> str:
    """Bytes as base64 (RFC 4648)."""
    return base64.b64encode(value).decode()
