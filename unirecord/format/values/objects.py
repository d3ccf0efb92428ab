"""Objects (nested dicts and lists) to msgpack and back; an unsupported value is named by its place."""

from __future__ import annotations

import re
from typing import Any, Final

import msgpack
import numpy as np

from ...errors import CorruptionError, SchemaError

__all__ = ["MAX_DEPTH", "pack_object", "unpack_object"]

MAX_DEPTH: Final = 64
_PLAIN: Final = frozenset((type(None), bool, float, bytes))
_KEYS: Final = frozenset((str, int, bytes))
_CONTAINERS: Final = bytes((*range(0x80, 0xA0), *range(0xDC, 0xE0)))  # first bytes of arrays and maps
_COUNTED: Final = bytes(range(0xDC, 0xE0))  # those of arrays and maps that may claim more than 15 items
_TIMESTAMP: Final = re.compile(rb"[\xd6\xd7]\xff|\xc7.\xff|\xc8..\xff|\xc9....\xff", re.DOTALL)
_INT_MIN: Final = -(1 << 63)
_INT_MAX: Final = (1 << 64) - 1


def pack_object(value: object, place: str = "object") -> bytes:
    """Return ``value`` as msgpack.

    Allowed are None, bool, int of 64 bits, float, str, bytes, list, tuple (comes back as list) and dict with
    str, int or bytes keys, nested up to 64 deep; numpy scalars are stored as the Python value. Raises
    `SchemaError` that names the place, such as ``meta.boxes[3]``.
    """
    _check(value, place, 1)
    packed = msgpack.packb(value, use_bin_type=True, default=_plain_scalar)
    assert isinstance(packed, bytes)
    return packed


def unpack_object(data: bytes | memoryview) -> Any:
    """Return the object that msgpack ``data`` holds; `CorruptionError` when it breaks the rules of docs/format.md.

    The rules: one value, strings of UTF-8, no extension types (timestamps neither), no key twice in a map, nested up to
    64 deep. Memory and time are in proportion to the length of ``data``, whatever counts it claims.
    """
    raw = bytes(data)
    try:
        if _holds(raw, _COUNTED):
            _walk_over(raw)
        found = msgpack.unpackb(
            raw, raw=False, strict_map_key=False, ext_hook=_refuse_extension, object_pairs_hook=_map_of
        )
    except CorruptionError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException) as error:
        raise CorruptionError(
            f"the object is not well-formed msgpack ({error or type(error).__name__})"
        ) from None
    if len(raw) - len(raw.translate(None, _CONTAINERS)) > MAX_DEPTH or _TIMESTAMP.search(raw):
        _check_stored(found)
    return found


def _holds(raw: bytes, wanted: bytes) -> bool:
    """Whether any of these bytes is there, be it inside of a string or number."""
    return len(raw.translate(None, wanted)) < len(raw)


def _walk_over(raw: bytes) -> None:
    """Finds arrays and maps that claim more items than there are, before memory is taken for the items."""
    unpacker = msgpack.Unpacker(max_buffer_size=len(raw))
    unpacker.feed(raw)
    unpacker.skip()


def _map_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise CorruptionError("the object holds a map with the same key twice")
    if not _KEYS.issuperset(map(type, found)):
        raise CorruptionError("the object holds a map whose keys are not all strings, integers or bytes")
    return found


def _check_stored(value: object) -> None:
    """Nesting, and timestamps, which msgpack makes of an extension by itself."""
    pending: list[tuple[Any, int]] = [([value], 0)]
    while pending:
        items, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise CorruptionError(f"the object is nested more than {MAX_DEPTH} deep")
        values = items.values() if type(items) is dict else items
        kinds = set(map(type, values))
        if msgpack.Timestamp in kinds or (values is not items and msgpack.Timestamp in map(type, items)):
            _refuse_extension(-1, b"")
        if dict in kinds or list in kinds:
            pending += [(each, depth + 1) for each in values if type(each) is dict or type(each) is list]


def _refuse_extension(code: int, data: bytes) -> object:
    raise CorruptionError(f"the object holds the msgpack extension {code}, which UniRecord never writes")


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
