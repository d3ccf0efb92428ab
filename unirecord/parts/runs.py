"""Which ranges come by one request: neighbours, where what lies between comes sooner than another request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from ..core import Ranges

__all__ = ["RUN_BYTES", "Run", "join"]

RUN_BYTES: Final = 4 << 20  # that one request brings at most, unless a single range is longer
_LEAST_CAP: Final = (
    32 << 10
)  # bytes of a gap that are never too much; larger ones are half of a neighbour at most

_I64 = npt.NDArray[np.int64]


@dataclass
class Run:
    """Bytes [start, stop) of one file of a part, that come by one request."""

    part: int
    in_index: bool
    start: int
    stop: int


def join(ranges: Ranges, gap_of: Callable[[int], int]) -> tuple[list[Run], _I64, _I64]:
    """The runs that bring the ranges; the number of the first range of each, and of all; where each lies in its run.

    ``gap_of`` gives the bytes between two ranges of a part that come as soon as a second request.
    """
    if len(ranges) == 1:  # a single row: not worth a dozen calls of numpy
        one = ranges[0]
        return (
            [Run(one.part, one.in_index, one.offset, one.offset + one.size)],
            np.arange(2),
            np.zeros(1, np.int64),
        )
    stops = ranges.offsets + ranges.sizes
    first = np.array([*_firsts(ranges, stops, gap_of), len(ranges)], np.int64)
    starts = ranges.offsets[first[:-1]]
    ends = np.maximum.reduceat(stops, first[:-1])
    files = (ranges.parts[first[:-1]].tolist(), ranges.in_index[first[:-1]].tolist())
    runs = [Run(*each) for each in zip(*files, starts.tolist(), ends.tolist(), strict=True)]
    return runs, first, ranges.offsets - np.repeat(starts, np.diff(first))


def _firsts(ranges: Ranges, stops: _I64, gap_of: Callable[[int], int]) -> list[int]:
    files = 2 * ranges.parts + ranges.in_index
    is_next = files[1:] != files[:-1]
    at = [0, *(np.flatnonzero(is_next) + 1).tolist()]
    gaps = np.repeat([gap_of(part) for part in ranges.parts[at].tolist()], np.diff([*at, len(ranges)]))
    smaller = np.minimum(ranges.sizes[1:], ranges.sizes[:-1])
    most = np.minimum(gaps[1:], np.maximum(_LEAST_CAP, smaller // 2))
    is_far = is_next | (ranges.offsets[1:] - stops[:-1] > most)
    firsts: list[int] = []
    for begin, end in pairwise([0, *(np.flatnonzero(is_far) + 1).tolist(), len(ranges)]):
        start = begin
        while start < end:
            firsts.append(start)
            limit = int(ranges.offsets[start]) + RUN_BYTES
            if int(stops[end - 1]) <= limit:
                break
            start += max(1, int(np.searchsorted(stops[start:end], limit, side="right")))
    return firsts
