"""Batches that somebody else's batch sampler names: lists of places, taken as they are needed, one pass of it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from .batch_rule import BatchOrder
from .shard_order import whole_numbers
from .spec import OrderSpec

__all__ = ["SampledOrder"]

Numbers = NDArray[np.int64]


class SampledOrder(BatchOrder):
    """What stands at position i is the i-th list of a sampler, as rows of the selection.

    Lists are kept from the time they are taken until their batch has been delivered; which places have come, a bit
    for each of the selection. ``digests[i]`` is that of the first i lists: each the XXH3-64 of a list, seeded with the
    one before.
    """

    def __init__(self, spec: OrderSpec, sampler: Iterable[object], places: int, skipped: int) -> None:
        """For a selection of ``places`` rows; the first ``skipped`` lists are not to be read."""
        super().__init__(spec)
        self.rows = 1 << 62  # nobody knows
        self.largest = 1
        self.digests: dict[int, int] = {0: 0}
        self._places = places
        self._lists = iter(sampler)
        self._held: dict[int, Numbers] = {}
        self._draws: dict[int, Numbers] = {}
        self._came: NDArray[np.uint8] = np.zeros(-(-places // 8), np.uint8)
        self._kept = self._taken = 0
        self._failure: Exception | None = None
        self._ended = False
        while self._taken < skipped and self._take_one():
            self.delivered(self._taken)
        self._asked = self._taken

    @property
    def taken(self) -> int:
        """How many lists the sampler has given."""
        return self._taken

    def usual_size(self) -> int:
        """Rows of the next list; 1 where there is none."""
        if self._taken == self._asked:
            self._take_one()
        return len(self._held[self._asked]) if self._asked < self._taken else 1

    def take(self, count: int) -> Numbers:
        """The numbers of ``count`` lists more; of fewer at the end, which a failure of the sampler is too."""
        begin = self._asked
        while self._taken < begin + count and self._take_one():
            pass
        self._asked = min(self._taken, begin + count)
        return np.arange(begin, self._asked)

    def batches(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """(the rows of these lists one after the other, where each ends)."""
        lists = [self._held[number] for number in positions.tolist()]
        ends = np.cumsum([len(rows) for rows in lists], dtype=np.int64)
        return np.concatenate(lists) if lists else np.empty(0, np.int64), ends

    def draws_again(self, positions: Numbers) -> Numbers:
        """The draws of these lists where a place has come before in the epoch; −1 where it has not."""
        return np.concatenate([self._draws[number] for number in positions.tolist()])

    def occurrences(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Refused: lists are known as they are taken."""
        raise ValueError("when rows come, only the batch sampler knows")

    def delivered(self, end: int) -> None:
        """Lets go of the lists before number ``end``."""
        while self._kept < end:  # another thread may be taking lists
            del self._held[self._kept], self._draws[self._kept], self.digests[self._kept]
            self._kept += 1

    def raise_failure(self) -> None:
        """Raises what the sampler has failed with, if it has."""
        if self._failure is not None:
            raise self._failure

    def _take_one(self) -> bool:
        if self._ended:
            return False
        try:
            places = self._checked(next(self._lists))
        except StopIteration:
            self._ended = True
        except Exception as error:
            self._ended, self._failure = True, error
        else:
            self._held[self._taken] = places
            self._draws[self._taken] = np.where(
                self._come_again(places), (self._taken << 32) + np.arange(len(places), dtype=np.int64), -1
            )
            before = self.digests[self._taken]
            self._taken += 1
            self.digests[self._taken] = xxh3_64(places, before)
        return not self._ended

    def _come_again(self, places: Numbers) -> NDArray[np.bool_]:
        """Which of the places of a list have come before, in a list before it or in this one; all have come now."""
        byte, bit = places >> 3, np.left_shift(1, places & 7).astype(np.uint8)
        before = (self._came[byte] & bit) != 0
        np.bitwise_or.at(self._came, byte, bit)
        again = np.ones(len(places), np.bool_)
        again[np.unique(places, return_index=True)[1]] = False
        again |= before
        return again

    def _checked(self, given: object) -> Numbers:
        try:
            places = whole_numbers(given)
        except TypeError as error:
            raise TypeError(f"a batch sampler gives lists of places, and this one gave {given!r}") from error
        if not len(places):
            raise ValueError(f"the batch sampler's list {self._taken} is empty")
        wrong = places[(places < -self._places) | (places >= self._places)]
        if len(wrong):
            raise IndexError(
                f"the batch sampler's list {self._taken} has {wrong[0]}, and there are {self._places} samples"
            )
        return np.where(places < 0, places + self._places, places)
