"""A progress bar with rate and time left on a terminal, lines of JSON for a program, silence anywhere else."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, TextIO

from .terminal import shows_progress

__all__ = ["Pace", "ProgressBar", "ProgressLines", "duration"]


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


_EVERY_SECONDS: Final = 0.1
_LINES_SECONDS: Final = 0.5
_STEADY_SECONDS: Final = 0.5  # before that a rate says nothing of what follows
_BAR: Final = 24
_SHORTEST_BAR: Final = 6
_GAP: Final = "  "


class ProgressBar:
    """One line of stderr, redrawn at most ten times a second; cleared when the work is done or fails."""

    def __init__(
        self,
        label: str,
        total: int,
        amount: Callable[[int], str] = "{:,}".format,
        stream: TextIO | None = None,
    ) -> None:
        """``amount`` shows a number of units done, such as ``format_size``; ``total`` 0 means unknown."""
        self._label = label
        self._total = total
        self._amount = amount
        self._stream = stream or sys.stderr
        self._shown = shows_progress(self._stream)
        self._pace = Pace()
        self._drawn = 0.0

    def update(
        self,
        done: int,
        total: int | None = None,
        *,
        before: int = 0,
        more: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        """Say how much is done by now, ``before`` of it by an earlier run; ``more`` says what else there is to show."""
        if total is not None:
            self._total = total
        now = time.monotonic()
        if self._shown and now - self._drawn >= _EVERY_SECONDS:
            self._drawn = now
            self._draw(done, before, more())

    def _draw(self, done: int, before: int, more: Sequence[str]) -> None:
        pieces = [self._label]
        if self._total > 0:
            pieces.append(f"{min(1.0, done / self._total):4.0%}")
        pieces.append(self._amount(done))
        rate, left = self._pace.rate(done, before), self._pace.left(done, self._total, before)
        if self._pace.seconds > _STEADY_SECONDS and rate > 0:
            pieces.append(f"{self._amount(int(rate))}/s")
            if left:
                pieces.append(f"{duration(left)} left")
        self._write(self._fitted([*pieces, *more], bar=self._total > 0, share=done / max(1, self._total)))

    def _fitted(self, pieces: list[str], *, bar: bool, share: float) -> str:
        """A line that fits the terminal: what comes last is left out, and the bar shortened, for lack of room."""
        room = max(20, shutil.get_terminal_size().columns - 1)
        least = len(_GAP) + _SHORTEST_BAR if bar else 0
        while len(pieces) > 2 and len(_GAP.join(pieces)) + least > room:
            pieces = pieces[:-1]
        width = min(_BAR, room - len(_GAP.join(pieces)) - len(_GAP))
        if bar and width >= _SHORTEST_BAR:
            full = int(min(1.0, share) * width)
            pieces = [pieces[0], "█" * full + "░" * (width - full) + f" {pieces[1]}", *pieces[2:]]
        return _GAP.join(pieces)[:room]

    def _write(self, line: str) -> None:
        self._stream.write(f"\r{line}\x1b[K")
        self._stream.flush()

    def finish(self, label: str) -> None:
        """Say that all is done but for something of unknown length."""
        if self._shown and self._drawn:
            self._write(f"{label} …")

    def close(self) -> None:
        """Clear the line."""
        if self._shown and self._drawn:
            self._write("")

    def __enter__(self) -> ProgressBar:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line."""
        self.close()


class ProgressLines:
    """Lines of JSON on stderr, at most one every half second and those that must be told, for programs that watch."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._pace = Pace()
        self._told = -1.0

    def update(self, values: Callable[[], Mapping[str, Any]], last: bool = False) -> None:
        """Tell the ``values``, which are asked for only then, and the seconds since the first of all stages began."""
        now = self._pace.seconds
        if last or self._told < 0 or now - self._told >= _LINES_SECONDS:
            self._told = now
            self._stream.write(json.dumps({**values(), "seconds": round(now, 3)}) + "\n")
            self._stream.flush()


def duration(seconds: float) -> str:
    """Return a time for people: ``0.4 s``, ``3:20``, ``2:03:20``."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds + 0.5)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
