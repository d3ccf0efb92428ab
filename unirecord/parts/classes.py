"""The classes a dataset names in its metadata: label i is the i-th of them."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["class_difference", "classes_of"]


def classes_of(metadata: object) -> list[str] | None:
    """Return ``metadata["classes"]`` when it is a list of names, else None."""
    found = metadata.get("classes") if isinstance(metadata, dict) else None
    if isinstance(found, list) and all(isinstance(name, str) for name in found):
        return found
    return None


def class_difference(expected: Sequence[str], found: Sequence[str]) -> str:
    """Say where two lists of classes first differ."""
    for number, (a, b) in enumerate(zip(expected, found, strict=False)):
        if a != b:
            return f"label {number} is {b!r}, not {a!r}"
    return f"{len(found):,} classes, not {len(expected):,}"
