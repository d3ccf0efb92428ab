"""How fast a job goes, and how long it will take yet."""

from __future__ import annotations

import time

__all__ = ["Pace"]


class Pace:
    """Rates since the job began, of what it has done itself: what an earlier run had done is not its own speed."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Seconds since the job began."""
        return time.monotonic() - self._start

    def rate(self, done: int, before: int = 0) -> float:
        """Units a second, of which ``before`` were there when the job began; 0 while that is not known."""
        seconds = self.seconds
        return max(0, done - before) / seconds if seconds > 0 else 0.0

    def left(self, done: int, total: int | None, before: int = 0) -> float | None:
        """Seconds until ``total`` is done at that rate; None where nobody can tell."""
        rate = self.rate(done, before)
        return None if not total or rate <= 0 else max(0, total - done) / rate
