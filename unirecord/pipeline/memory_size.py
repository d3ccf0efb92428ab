"""How much memory elements take, about: what a budget of memory counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .chunk import Chunk

__all__ = ["bytes_of", "size_of"]


def size_of(chunk: Chunk | None) -> int:
    """Bytes of the arrays and strings of all elements, as if all samples were like the first."""
    if chunk is None or not chunk.values:
        return 0
    return bytes_of(chunk.values[0]) * len(chunk.values)


def bytes_of(value: Any, depth: int = 3) -> int:
    """Bytes of the arrays and strings of one element, about."""
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(value, (bytes, str)):
        return len(value)
    data = getattr(value, "data", None)  # of a RaggedArray
    if data is not None:
        return bytes_of(data, 0)
    if depth:
        if isinstance(value, Mapping):
            return sum(bytes_of(item, depth - 1) for item in value.values())
        if isinstance(value, (list, tuple)) and value:
            return bytes_of(value[0], depth - 1) * len(value)
    return 8
