"""A file read at rising places: what is asked for is a view of a larger piece that was read at once."""

from __future__ import annotations

from typing import BinaryIO

__all__ = ["ReadAhead"]


class ReadAhead:
    """Views of a file; ``stop``: what is read ahead ends there, by default at the end of the file."""

    def __init__(self, file: BinaryIO, ahead: int, stop: int | None = None) -> None:
        """``ahead``: bytes of a piece, which stays in memory as long as a view of it."""
        self._file, self._ahead = file, ahead
        self.size: int = file.seek(0, 2)
        self._stop = self.size if stop is None else stop
        self._start, self._piece = 0, memoryview(b"")

    def at(self, offset: int, size: int) -> memoryview:
        """These bytes, or as many as there are before the end of the file."""
        begin = offset - self._start
        if begin < 0 or begin + size > len(self._piece):
            self._file.seek(offset)
            self._piece = memoryview(self._file.read(max(size, min(self._ahead, self._stop - offset))))
            self._start, begin = offset, 0
        return self._piece[begin : begin + size]
