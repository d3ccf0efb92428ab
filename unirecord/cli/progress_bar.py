"""A progress bar with rate and time left on a terminal, and silence anywhere else."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, TextIO

__all__ = ["ProgressBar", "ProgressLines", "duration"]

_EVERY_SECONDS: Final = 0.1
_LINES_SECONDS: Final = 0.5
_BAR: Final = 24


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
        self._shown = self._stream.isatty()
        self._start = time.monotonic()
        self._drawn = 0.0
        self._done = 0

    def update(self, done: int, total: int | None = None) -> None:
        """Say how much is done by now."""
        self._done = done
        if total is not None:
            self._total = total
        now = time.monotonic()
        if self._shown and now - self._drawn >= _EVERY_SECONDS:
            self._drawn = now
            self._draw(now - self._start)

    def _draw(self, seconds: float) -> None:
        rate = self._done / seconds if seconds > 0 else 0.0
        parts = [self._label]
        if self._total > 0:
            share = min(1.0, self._done / self._total)
            full = int(share * _BAR)
            parts.append(f"{'█' * full}{'░' * (_BAR - full)} {share:4.0%}")
        parts.append(self._amount(self._done))
        if seconds > 0.5 and rate > 0:
            parts.append(f"{self._amount(int(rate))}/s")
            if self._total > self._done:
                parts.append(f"{duration((self._total - self._done) / rate)} left")
        line = "  ".join(parts)[: max(20, shutil.get_terminal_size().columns - 1)]
        self._stream.write(f"\r{line}\x1b[K")
        self._stream.flush()

    def finish(self, label: str) -> None:
        """Say that all is done but for something of unknown length."""
        if self._shown and self._drawn:
            self._stream.write(f"\r{label} …\x1b[K")
            self._stream.flush()

    def close(self) -> None:
        """Clear the line."""
        if self._shown and self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __enter__(self) -> ProgressBar:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Clear the line."""
        self.close()


class ProgressLines:
    """Lines of JSON on stderr, one every half second and one at the end, for programs that watch."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._start = time.monotonic()
        self._told = -1.0

    def update(self, values: Mapping[str, Any], last: bool = False) -> None:
        """Say how much is done by now."""
        now = time.monotonic() - self._start
        if last or self._told < 0 or now - self._told >= _LINES_SECONDS:
            self._told = now
            self._stream.write(json.dumps({**values, "seconds": round(now, 3)}) + "\n")
            self._stream.flush()


def duration(seconds: float) -> str:
    """Return a time for people: ``0.4 s``, ``3:20``, ``2:03:20``."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds + 0.5)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
