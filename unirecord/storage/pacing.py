"""When a request to a store may be made: how many are in flight, how often, and how long after one that failed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Final

__all__ = [
    "RequestRate",
    "Durations",
    "InFlightLimit",
    "Retries",
    "STALLED",
    "retries_of",
]


# When a request to a store may be made: how many are in flight, how often, how long after one that failed.


_Like = tuple[int, int]  # bits of a size, and how many requests

_ROUNDS: Final = 64  # of answers, in which the number in flight comes back from one to the most
_ENOUGH: Final = (
    64  # durations of requests of about one size, to say what is long; older ones count less and less
)
STALLED: Final = 2.0  # seconds that are long before enough is known
_LEAST: Final = 0.02  # seconds below which nothing is long: what a scheduler makes of a busy machine


@dataclass(frozen=True)
class Retries:
    """How often a request that failed is made again: longer and longer apart, with jitter, for so many seconds.

    ``contact`` is for how many seconds a store is asked that has never answered: its name may be wrong.
    """

    most: int = 20
    first: float = 0.1
    longest: float = 15.0
    base: float = 2.0
    patience: float = 180.0
    contact: float = 12.0

    def pause(self, attempt: int, random: Random) -> float:
        """Seconds before attempt ``attempt``, from 1: between half and all of what has doubled each time."""
        return min(self.longest, self.first * self.base ** min(attempt - 1, 64)) * random.uniform(0.5, 1.0)

    def for_client(self) -> dict[str, Any]:
        """The same as obstore takes it, which knows no numbers of seconds."""
        backoff = {
            "init_backoff": timedelta(seconds=self.first),
            "max_backoff": timedelta(seconds=self.longest),
            "base": self.base,
        }
        patience = timedelta(seconds=self.patience)
        return {"max_retries": int(self.most), "retry_timeout": patience, "backoff": backoff}


class InFlightLimit:
    """How many requests may be in flight: half as many when a store says it is too much, then slowly more again.

    Additive increase and multiplicative decrease, by which several clients come to share what there is (Chiu and Jain,
    1989).
    """

    most: int
    limit: float

    def __init__(self, most: int) -> None:
        self.most, self.limit = most, float(most)
        self.in_flight = 0
        self.closed_until: float = -math.inf
        self._cut = -math.inf

    def may_start(self, now: float) -> bool:
        """Whether one more may start."""
        return self.in_flight < int(self.limit) and now >= self.closed_until

    def succeeded(self) -> None:
        """A request has had its answer."""
        self.limit = min(float(self.most), self.limit + self.most / _ROUNDS / self.limit)

    def was_too_much(self, began: float, now: float, pause: float) -> None:
        """A request that began then was told to slow down; those of before the last cut say nothing new."""
        if began >= self._cut:
            self.limit, self._cut = max(1.0, self.limit / 2), now
            self.closed_until = max(self.closed_until, now + pause)

    @property
    def is_cut(self) -> bool:
        """Whether fewer are in flight than could be."""
        return self.limit < self.most


class RequestRate:
    """At most so many requests a second, evenly."""

    def __init__(self, rate: float) -> None:
        self._apart = 1.0 / rate
        self._next = -math.inf

    def wait(self, now: float) -> float:
        """Seconds that one more request has to wait; it counts as made then."""
        at = max(now, self._next)
        self._next = at + self._apart
        return at - now


class Durations:
    """How long requests have lately taken, by size: and from when on one of them is late.

    By their mean and their mean deviation from it, as TCP tells a lost segment (RFC 6298).
    """

    def __init__(self) -> None:
        self._of: dict[
            _Like, tuple[int, float, float]
        ] = {}  # how many are known, their mean, their deviation

    def note(self, size: int, seconds: float, count: int = 1) -> None:
        """A request of so many bytes, or so many requests by one call, took so long."""
        like = size.bit_length(), count
        known, mean, apart = self._of.get(like, (0, seconds, 0.0))
        known = min(known + 1, _ENOUGH)
        apart += (abs(seconds - mean) - apart) / known
        self._of[like] = known, mean + (seconds - mean) / known, apart

    def long(self, size: int, count: int = 1) -> float:
        """Seconds after which such a request is late: well above nearly all of its like."""
        known, mean, apart = self._of.get((size.bit_length(), count), (0, 0.0, 0.0))
        return STALLED if known < _ENOUGH else max(_LEAST, 2 * mean + 4 * apart)


def retries_of(config: Any) -> Retries:
    """What a ``retry_config`` of obstore says; ValueError for what it has not."""
    given = dict(config or {})
    backoff = dict(given.pop("backoff", {}))
    told: dict[str, Any] = {}
    for names, where in (
        ({"max_retries": "most", "retry_timeout": "patience"}, given),
        ({"init_backoff": "first", "max_backoff": "longest", "base": "base"}, backoff),
    ):
        for name, ours in names.items():
            if name in where:
                value = where.pop(name)
                told[ours] = value.total_seconds() if isinstance(value, timedelta) else value
                if isinstance(told[ours], bool) or not isinstance(told[ours], (int, float)) or told[ours] < 0:
                    raise TypeError(f"{name} of retry_config is a number or a timedelta, 0 or more")
    if "patience" in told:
        told["contact"] = told["patience"]
    unknown = [*given, *backoff]
    if unknown:
        raise ValueError(
            f"retry_config has no {unknown[0]!r}; it has max_retries, retry_timeout, and backoff with "
            "init_backoff, max_backoff and base"
        )
    return Retries(**told)
