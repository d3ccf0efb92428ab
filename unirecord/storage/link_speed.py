"""How long a store takes to answer, and to send: from that, the gap up to which two ranges come faster as one."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import Final

__all__ = ["GAP_BYTES", "LinkSpeed"]

GAP_BYTES: Final = 32 << 10  # while nothing is known: 25 ms at a megabyte a second and connection
_LEAST_GAP: Final = 4 << 10  # a request has a head and work of its own
_MOST_GAP: Final = 1 << 20
_KEPT: Final = 64  # answers
_ENOUGH: Final = 16  # of them
_RENEWED: Final = 16  # answers after which the gap is found anew
_SHORT: Final = 1e-6  # seconds: an answer that came at once came as fast as this clock tells


class LinkSpeed:
    """What the latest answers of a store say. Noted in one thread, asked for in any.

    A request more costs the time that the store takes until it answers; the bytes of a gap cost theirs. They are equal
    at latency × bandwidth of a connection, the bandwidth-delay product, under the load that there is.
    """

    def __init__(self) -> None:
        self._latencies: deque[float] = deque(maxlen=_KEPT)
        self._bodies: deque[tuple[int, float]] = deque(maxlen=_KEPT)
        self._noted = 0
        self.gap: int = GAP_BYTES

    def note(self, size: int, answered: float, sent: float) -> None:
        """An answer began after so many seconds, and its ``size`` bytes took ``sent`` more."""
        self._latencies.append(answered)
        self._bodies.append((size, sent))
        self._noted += 1
        if self._noted >= _ENOUGH and self._noted % _RENEWED == 0:
            size, seconds = map(sum, zip(*self._bodies, strict=True))
            gap = median(self._latencies) * size / max(seconds, _SHORT)
            self.gap = int(min(max(gap, _LEAST_GAP), _MOST_GAP))
