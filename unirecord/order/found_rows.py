"""Rows that are found piece by piece, in ascending order each once, kept in as little memory as holds them."""

from __future__ import annotations

import threading

import numpy as np
import numpy.typing as npt

from ..core import Bitmap, add_rows, bitmap_bytes, empty_words

__all__ = ["FoundRows"]

Rows = npt.NDArray[np.int64]


class FoundRows:
    """Some of ``rows`` rows: their numbers as long as they are few, from then on a bitmap.

    Pieces may come from several threads and in any order, but no two may have a row in common.
    """

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._lock = threading.Lock()
        self._pieces: list[Rows] = []
        self._count = 0
        self._words: npt.NDArray[np.uint64] | None = None

    def add(self, found: Rows) -> None:
        """Takes a piece, ascending; it is copied where it is kept."""
        with self._lock:
            if self._words is None:
                self._pieces.append(found.copy())
                self._count += len(found)
                if 8 * self._count > bitmap_bytes(self._rows, min(self._count, self._rows)):
                    self._words = empty_words(self._rows)
                    for piece in self._pieces:
                        add_rows(self._words, self._rows, piece)
                    self._pieces.clear()
                return
        add_rows(self._words, self._rows, found)

    def all(self) -> Rows | Bitmap:
        """What has been found, ascending; nothing more can be added."""
        if self._words is not None:
            return Bitmap(self._words, self._rows)
        pieces = sorted((piece for piece in self._pieces if len(piece)), key=lambda piece: int(piece[0]))
        return np.concatenate(pieces) if pieces else np.empty(0, np.int64)
