"""How much memory elements take, about: what a budget of memory counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .chunk import Chunk

__all__ = ["size_of"]


def size_of(chunk: Chunk | None) -> int:
    """Bytes of the arrays and strings of all elements, as if all samples were like the first."""
    if chunk is None or not chunk.values:
        return 0
    return _bytes(chunk.values[0]) * len(chunk.values)


def _bytes(value: Any, depth: int = 3) -> int:
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(value, (bytes, str)):
        return len(value)
    data = getattr(value, "data", None)  # of a RaggedArray
    if data is not None:
        return _bytes(data, 0)
    if depth:
        if isinstance(value, Mapping):
            return sum(_bytes(item, depth - 1) for item in value.values())
        if isinstance(value, (list, tuple)) and value:
            return _bytes(value[0], depth - 1) * len(value)
    return 8
