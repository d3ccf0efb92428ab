"""Objects as JSON can hold them, with no key lost and no number that JSON does not have."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from typing import Any

__all__ = ["base64_text", "json_object", "object_text"]


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
