"""How many windows documents have, and what comes before each of them: arithmetic on lengths alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .spec import check_integer

__all__ = ["WindowTable", "Windows"]

Numbers = NDArray[np.int64]

_MOST_ENTRIES = 1 << 22  # 32 MiB: of more documents, the table has each second, fourth, …
_MOST = 1 << 62


@dataclass(frozen=True)
class Windows:
    """Windows of ``length`` elements, ``stride`` apart: of each document if ``apart``, else of all as one stream.

    With ``padded``, what is left at the end makes one more.
    """

    length: int
    stride: int
    apart: bool
    padded: bool

    def __post_init__(self) -> None:
        check_integer("length", self.length, 1, 1 << 40)
        check_integer("stride", self.stride, 1, 1 << 40)

    def of(self, elements: Numbers) -> Numbers:
        """How many windows so many elements have."""
        if self.padded:  # windows go on until one reaches the end
            overlap = max(self.length - self.stride, 0)
            return np.where(elements > 0, -(-np.maximum(elements - overlap, 1) // self.stride), 0)
        return np.where(elements >= self.length, (elements - self.length) // self.stride + 1, 0)


@dataclass(frozen=True)
class WindowTable:
    """``before[k]``: elements (of windows apart: windows) before document k · every; the last entry: all of them."""

    before: Numbers
    every: int
    samples: int
    elements: int

    @classmethod
    def of(cls, windows: Windows, lengths: Iterable[Numbers], documents: int) -> WindowTable:
        """From the lengths of the documents, a piece at a time."""
        every = 1
        while documents // every >= _MOST_ENTRIES:
            every *= 2
        before = np.zeros(-(-documents // every) + 1, np.int64)
        elements, counted, at = 0, 0, 0
        for piece in lengths:
            elements += int(piece.sum())
            ends = counted + np.cumsum(windows.of(piece) if windows.apart else piece)
            if len(piece) and (elements > _MOST or int(ends[-1]) > _MOST):
                raise ValueError("the documents have more than 2^62 elements")
            first = -(at + 1) % every  # the document before the next multiple of `every`
            entries = ends[first::every]
            place = (at + first + 1) // every
            before[place : place + len(entries)] = entries
            at, counted = at + len(piece), int(ends[-1]) if len(piece) else counted
        before[-1] = counted
        samples = counted if windows.apart else int(windows.of(np.array([elements], np.int64))[0])
        return cls(before, every, samples, elements)
