"""How far a long job has come: what is called with it, and what adds it up."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Progress", "Tracker"]

Progress = Callable[[int, int], None]  # (done, in all); in all 0: not known


class Tracker:
    """Adds up what is done and tells the caller; used from one thread."""

    total: int
    done: int

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self.done, self._progress = total, 0, progress

    def advance(self, size: int) -> None:
        """``size`` more is done."""
        self.reach(min(self.done + size, self.total))

    def reach(self, done: int) -> None:
        """So much is done, or more."""
        self.done = max(self.done, done)
        if self._progress is not None:
            self._progress(self.done, self.total)
