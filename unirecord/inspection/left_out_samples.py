"""Samples that receipts leave out, however many: at most two bytes each, and one bit for each sample of the pass."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..order.coverage import PositionRange

__all__ = ["LeftOutSamples", "Placed", "ranges_left_out"]

_BITS = 16  # numbers of a block: those that are few are its u16s, the others a bit each
_BLOCK = 1 << _BITS
_AT_ONCE = 1 << 20  # positions that are looked at together, of all ranks
_MOST_LISTED = 10_000  # ranges that are named one by one
_NONE = np.empty(0, np.int64)


class LeftOutSamples:
    """Numbers of samples, ascending, as they come: blocks of 65,536 of them, as Roaring bitmaps have them."""

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._held: list[bytes] = []
        self._open = array("H")
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of memory, about."""
        return sum(map(len, self._held)) + len(self._open) * self._open.itemsize

    def add(self, number: int) -> None:
        """Takes a number above all before it."""
        block = number >> _BITS
        if not self._blocks or block != self._blocks[-1]:
            self._close()
            self._blocks.append(block)
        self._open.append(number & (_BLOCK - 1))
        self._count += 1

    def _close(self) -> None:
        if self._blocks:
            data = self._open.tobytes()
            self._held.append(data if len(data) < _BLOCK // 8 else _bits_of(self._open))
            self._open = array("H")

    def pieces(self, stop: int) -> Iterator[NDArray[np.int64]]:
        """Those below a number, block by block."""
        for place, block in enumerate(self._blocks):
            first = block << _BITS
            if first >= stop:
                return
            numbers = self._numbers(place) + first
            yield numbers[numbers < stop] if first + _BLOCK > stop else numbers

    def _numbers(self, place: int) -> NDArray[np.int64]:
        if place == len(self._held):
            return np.array(self._open, np.int64)
        data = self._held[place]
        if len(data) < _BLOCK // 8:
            return np.frombuffer(data, np.uint16).astype(np.int64)
        return np.flatnonzero(np.unpackbits(np.frombuffer(data, np.uint8)))


def _bits_of(numbers: array[int]) -> bytes:
    bits = np.zeros(_BLOCK, np.bool_)
    bits[np.frombuffer(numbers, np.uint16)] = True
    return np.packbits(bits).tobytes()


@dataclass(frozen=True)
class Placed:
    """Samples left out, at the positions first + i · stride; of them those below ``stop``."""

    found: LeftOutSamples
    first: int
    stride: int
    stop: int

    def pieces(self, size: int) -> Iterator[NDArray[np.int64]]:
        """The positions, ascending, about ``size`` at a time; no piece is empty."""
        held: list[NDArray[np.int64]] = []
        for numbers in self.found.pieces(-(-(self.stop - self.first) // self.stride)):
            for start in range(0, len(numbers), size):
                held.append(self.first + numbers[start : start + size] * self.stride)
                if sum(map(len, held)) >= size:
                    yield np.concatenate(held)
                    held = []
        if held:
            yield np.concatenate(held)


def ranges_left_out(found: Sequence[Placed], but: Sequence[PositionRange]) -> list[PositionRange]:
    """All of their positions, each once, without some; where there are many runs of neighbours, as one range."""
    runs: list[PositionRange] = []
    first, count = -1, 0
    stop = first
    for merged in _merged(found):
        positions = _without(merged, but)
        if not len(positions):
            continue
        first = int(positions[0]) if first < 0 else first
        stop, count = int(positions[-1]) + 1, count + len(positions)
        if len(runs) <= _MOST_LISTED:
            _append(runs, positions)
    return [PositionRange(first, stop, 0, count)] if len(runs) > _MOST_LISTED else runs


def _append(runs: list[PositionRange], positions: NDArray[np.int64]) -> None:
    """Appends runs of neighbours; the first may go on from the last one."""
    cuts = np.flatnonzero(np.diff(positions) > 1)[: _MOST_LISTED + 1]
    firsts = [positions[0], *positions[cuts + 1]]
    lasts = [*positions[cuts], positions[-1]]
    for begin, last in zip(map(int, firsts), map(int, lasts), strict=True):
        begin = runs.pop().first if runs and runs[-1].stop == begin else begin
        runs.append(PositionRange(begin, last + 1, 1, last + 1 - begin))


def _without(positions: NDArray[np.int64], but: Sequence[PositionRange]) -> NDArray[np.int64]:
    """Those that lie in none of some ranges; of one that is scattered, nowhere between its ends."""
    for one in but:
        wrong = (positions >= one.first) & (positions < one.stop)
        if one.stride:
            wrong &= (positions - one.first) % one.stride == 0
        positions = positions[~wrong]
    return positions


def _merged(found: Sequence[Placed]) -> Iterator[NDArray[np.int64]]:
    """All positions, each once, in ascending order."""
    size = max(_AT_ONCE // max(len(found), 1), 1024)
    coming = [one.pieces(size) for one in found]
    held = [next(pieces, _NONE) for pieces in coming]
    while any(map(len, held)):
        upto = min(int(piece[-1]) for piece in held if len(piece))  # of what no later piece has any below
        cuts = [int(np.searchsorted(piece, upto, "right")) for piece in held]
        yield np.unique(np.concatenate([piece[:cut] for piece, cut in zip(held, cuts, strict=True)]))
        held = [
            piece[cut:] if cut < len(piece) else next(pieces, _NONE)
            for piece, cut, pieces in zip(held, cuts, coming, strict=True)
        ]
