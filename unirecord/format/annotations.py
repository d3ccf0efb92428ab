"""What is said of a column beside its type (media type, unit, class names): plain values that readers ignore."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import msgpack

from ..errors import FormatError, SchemaError

__all__ = ["ARROW_KEY", "checked_annotations", "pack_annotations", "unpack_annotations"]

ARROW_KEY: Final = (
    b"unirecord.annotations"  # of the metadata of an Arrow field: the column's annotations, as JSON
)
MAX_DEPTH: Final = 16
# Of the keys with a meaning (docs/schema.md) those that say what a value stands for.
_MEANINGS: Final = ("classes", "box_format", "unit", "origin", "color_space", "scale_factor", "add_offset")
_MANIFEST_INTEGERS: Final = range(-(1 << 63), 1 << 64)


def pack_annotations(column: str, annotations: object) -> bytes:
    """The annotations that a user gives for a column, packed; nothing for none. SchemaError for what is not allowed."""
    if annotations is None:
        return b""
    if not isinstance(annotations, Mapping):
        raise SchemaError(
            f'column {column!r}: annotations are a dict such as {{"media_type": "image/jpeg"}}, '
            f"got {type(annotations).__name__}"
        )
    found = dict(annotations)
    problem = _problem(found, "annotations", 1)
    if problem is not None:
        raise SchemaError(f"column {column!r}: {problem}")
    return _packed(found)


def other_meaning(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """The annotation by which values of two columns are to be understood otherwise: both have it, and it differs."""
    return next((key for key in _MEANINGS if key in one and key in other and one[key] != other[key]), None)


def checked_annotations(column: str, stored: object) -> bytes:
    """The annotations in a stored schema, packed; FormatError when they are none."""
    if not isinstance(stored, dict):
        raise FormatError(f"the stored schema's column {column!r} has annotations that are no map")
    problem = _problem(stored, "annotations", 1)
    if problem is not None:
        raise FormatError(f"the stored schema's column {column!r}: {problem}")
    return _packed(stored)


def unpack_annotations(packed: bytes) -> dict[str, Any]:
    """What was packed, in objects of the caller's own."""
    return dict(msgpack.unpackb(packed)) if packed else {}


def _packed(annotations: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(_sorted(annotations), use_bin_type=True) if annotations else b""
    return packed


def _sorted(value: Any) -> Any:
    """The keys of all maps in the order of their code points, as the manifest has them."""
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list | tuple) else value


def _problem(value: object, place: str, depth: int) -> str | None:
    """What keeps a value from standing in msgpack and in JSON alike."""
    if value is None or type(value) is bool:
        return None
    if type(value) is int:
        return None if value in _MANIFEST_INTEGERS else f"{place}: {value} does not fit 64 bits"
    if type(value) is float:
        return None if math.isfinite(value) else f"{place}: {value} is no number"
    if type(value) is str:
        return None if _is_unicode(value) else f"{place}: the text has a lone surrogate"
    if not isinstance(value, dict | list | tuple):
        return f"{place}: {type(value).__name__} is not supported; None, bool, int, float, str, list and dict are"
    if depth > MAX_DEPTH:
        return f"{place}: nested more than {MAX_DEPTH} deep"
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str or not _is_unicode(key):
                return f"{place}: a key is a str, got {key!r}"
        items = [(f"{place}.{key}", item) for key, item in value.items()]
    else:
        items = [(f"{place}[{i}]", item) for i, item in enumerate(value)]
    return next((p for where, item in items if (p := _problem(item, where, depth + 1)) is not None), None)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
