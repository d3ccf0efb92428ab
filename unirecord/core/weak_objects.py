"""Objects that are known for as long as somebody else holds them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar
from weakref import ref

__all__ = ["WeakObjects"]

T = TypeVar("T")


class WeakObjects(Generic[T]):
    """As weakref.WeakSet, which cannot be looked through while another thread, or a finalizer, adds to it.

    Each change and each copy is one call of C: nothing comes between, neither a thread nor a signal nor a fork.
    """

    def __init__(self) -> None:
        self._references: set[ref[T]] = set()

    def __len__(self) -> int:
        return len(self._references)

    def __iter__(self) -> Iterator[T]:
        """Those that are there now."""
        found = (reference() for reference in self._references.copy())
        return iter([thing for thing in found if thing is not None])

    def add(self, thing: T) -> None:
        """Knows one more, by its identity or what its class takes as that."""
        self._references.add(ref(thing, self._references.discard))
