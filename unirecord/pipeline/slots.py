"""Memory of batches that is written sample by sample, and used again when the last array into it is gone."""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SlotMemory", "Slots", "gathered"]

_KEPT = 8  # pieces of a size, about what is made ahead; of smaller ones more
_MOST_KEPT = 32
_KEPT_BYTES = 32 << 20


class SlotMemory:
    """Memory of batches that nobody holds any more, for those to come, of this epoch and the next.

    ``get`` gives new memory, uint8[size]; None for ordinary memory.
    """

    def __init__(self, get: Callable[[int], NDArray[np.uint8]] | None = None) -> None:
        self._get = get
        self._free: defaultdict[int, deque[NDArray[np.uint8]]] = defaultdict(deque)
        self.allocations: int = 0

    def lend(self, size: int) -> NDArray[np.uint8]:
        """``size`` bytes, which come back when the last view of them is gone."""
        free = self._free[size]
        try:
            memory = free.popleft()
        except IndexError:
            memory = np.empty(size, np.uint8) if self._get is None else self._get(size)
            self.allocations += 1
        # Every view of an array over a buffer has this array as its base: when it goes, no view is left.
        lent = np.frombuffer(memoryview(memory), np.uint8)
        weakref.finalize(lent, _take_back, free, memory).atexit = False
        return lent

    def __reduce__(self) -> tuple[Any, ...]:
        return SlotMemory, (self._get,)


def _take_back(free: deque[NDArray[np.uint8]], memory: NDArray[np.uint8]) -> None:
    if len(free) < max(_KEPT, min(_MOST_KEPT, _KEPT_BYTES // len(memory))):
        free.append(memory)


class Slots:
    """Deals out slots for samples in their order: slot after slot of a batch, and then the next batch's.

    So samples that stay together in a batch already lie one behind the other.
    """

    size: int

    def __init__(self, size: int, dtype: np.dtype[Any], shape: tuple[int, ...], memory: SlotMemory) -> None:
        self.size, self._dtype, self._shape = size, dtype, shape
        self._bytes = max(1, size * int(np.prod(shape)) * dtype.itemsize)
        self._memory = memory
        self._batch: NDArray[Any] | None = None
        self._next = 0

    @property
    def left(self) -> int:
        """Slots up to the end of a batch."""
        return self.size - self._next

    def take(self, count: int) -> list[NDArray[Any]]:
        """The next ``count`` slots, at most ``left``."""
        if self._batch is None:
            lent = self._memory.lend(self._bytes)
            self._batch = np.ndarray((self.size, *self._shape), self._dtype, lent)
        slots = list(self._batch[self._next : self._next + count])
        self._next += count
        if self._next == self.size:
            self._batch, self._next = None, 0
        return slots


def gathered(values: list[Any]) -> NDArray[Any] | None:
    """The values as one array where they are the slots of one batch, all from its first on; None: they are not."""
    base = values[0].base
    if base is None or any(value.base is not base for value in values):
        return None
    first, start = values[0], base.__array_interface__["data"][0]
    if first.__array_interface__["data"][0] != start:
        return None
    if values[-1].__array_interface__["data"][0] != start + (len(values) - 1) * first.nbytes:
        return None
    return np.ndarray((len(values), *first.shape), first.dtype, base)
