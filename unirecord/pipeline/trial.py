"""Two numbers of threads in turns, until it is clear which is better: others on the machine slow down both."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

__all__ = ["Trial"]

_GAIN = 1.05  # more threads are kept when they make the rate this much larger
_NO_LOSS = 0.98  # fewer are kept when the rate stays
_CLEAR = 1.2  # times what is needed: looked at once, between two looks at the other
_DOUBLE = 1.6  # at once, where the looks before say so too
_LEAST_PAIRS, _MOST_PAIRS = 2, 5


class Trial:
    """``tried`` threads beside ``before``: a look at one, a look at the other, from ``rates`` of the latter on.

    A look at ``tried`` is compared with those before and after it. What is gained must be more than by how much these
    ratios differ among themselves.
    """

    before: int
    tried: int

    def __init__(self, before: int, tried: int, rates: Sequence[float]) -> None:
        self.before, self.tried = before, tried
        self._known = max(rates)
        self._rates_before = [statistics.median(rates)]
        self._rates_tried: list[float] = []

    @property
    def workers(self) -> int:
        """The number for the next look."""
        return self.before if len(self._rates_tried) == len(self._rates_before) else self.tried

    def note(self, rate: float) -> bool | None:
        """Takes the rate of that look; whether ``tried`` is to be kept, None as long as it is not known."""
        (self._rates_before if self.workers == self.before else self._rates_tried).append(rate)
        if len(self._rates_tried) == len(self._rates_before):
            at_once = len(self._rates_tried) == 1 and rate >= _DOUBLE * self._known
            return True if at_once else None
        return self._verdict()

    @property
    def needed(self) -> float:
        """What the rate must be multiplied by."""
        return _GAIN if self.tried > self.before else _NO_LOSS

    @property
    def growth(self) -> float:
        """What the rate is multiplied by, about."""
        return statistics.median(self._ratios() or [self._rates_tried[0] / self._rates_before[0]])

    @property
    def rates(self) -> tuple[list[float], list[float]]:
        """Of the looks at the number before, and at the one that is tried."""
        return self._rates_before, self._rates_tried

    def _ratios(self) -> list[float]:
        pairs = zip(self._rates_before, self._rates_before[1:], strict=False)
        around = [(a + b) / 2 for a, b in pairs]
        return [rate / mean for rate, mean in zip(self._rates_tried, around, strict=False) if mean]

    def _verdict(self) -> bool | None:
        ratios, needed = self._ratios(), self.needed
        count = len(ratios)
        if count < _LEAST_PAIRS:
            rate = self._rates_tried[0]
            if rate >= _CLEAR * needed * max(self._rates_before):
                return True
            return False if rate * _CLEAR <= needed * min(self._rates_before) else None
        growth, unsure = self.growth, statistics.stdev(ratios) / count**0.5
        if min(growth, statistics.fmean(ratios)) - unsure >= needed:
            return True
        if growth + unsure < needed or (count >= _MOST_PAIRS and needed > 1.0):
            return False
        return growth >= needed if count >= _MOST_PAIRS else None
