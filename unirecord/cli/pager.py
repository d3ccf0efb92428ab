"""Long output on a terminal goes through a pager, which starts with the line that a screen no longer holds."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, TextIO, cast

from .terminal import warn

__all__ = ["paged"]

# Ends where one screen is enough, and leaves the text on the screen.
_LESS: Final = "FX"


@contextmanager
def paged(wanted: bool) -> Iterator[None]:
    """What is printed within goes through the pager, where it is longer than the terminal."""
    command = _command() if wanted and sys.stdout.isatty() and os.environ.get("TERM") != "dumb" else []
    if not command:
        yield
        return
    terminal = sys.stdout
    output = _Paged(terminal, command)
    sys.stdout = cast(TextIO, output)
    try:
        yield
    finally:
        sys.stdout = terminal
        output.close()


def _command() -> list[str]:
    """The user's pager, else less; nothing for an empty one, one that is not there, or one that only copies."""
    given = os.environ.get("UNIRECORD_PAGER", os.environ.get("PAGER", "less"))
    try:
        words = shlex.split(given)
    except ValueError:
        return []
    return words if words and words != ["cat"] and shutil.which(words[0]) else []


class _Paged:
    """A stream that keeps the first screen back until it is known whether there is more."""

    def __init__(self, terminal: TextIO, command: list[str]) -> None:
        self._terminal, self._command = terminal, command
        self._lines = shutil.get_terminal_size().lines - 1  # the prompt takes one
        self._kept: list[str] = []
        self._pager: subprocess.Popen[str] | None = None

    def isatty(self) -> bool:
        """What is written is seen on a terminal, and escaped for it."""
        return True

    def flush(self) -> None:
        """Nothing: a screen is shown when it is full, or at the end."""

    def write(self, text: str) -> int:
        """Take text; BrokenPipeError when the pager has been left."""
        if self._pager is not None:
            assert self._pager.stdin is not None
            self._pager.stdin.write(text)
            return len(text)
        self._kept.append(text)
        self._lines -= text.count("\n")
        if self._lines < 0:
            self._start()
        return len(text)

    def _start(self) -> None:
        kept = "".join(self._kept)
        self._kept.clear()
        try:
            self._pager = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, text=True, errors="backslashreplace",
                env={"LESS": _LESS, **os.environ},
            )  # fmt: skip
        except OSError as error:
            warn(f"unirecord: the pager {self._command[0]} cannot be run: {error.strerror or error}")
            self._lines = sys.maxsize
            self._terminal.write(kept)
        else:
            self.write(kept)

    def close(self) -> None:
        """Print what was kept back, or wait until the pager is left; Ctrl-C is the pager's then."""
        if self._pager is None:
            self._terminal.write("".join(self._kept))
            self._terminal.flush()
            return
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            assert self._pager.stdin is not None
            with suppress(BrokenPipeError):
                self._pager.stdin.close()
            self._pager.wait()
        finally:
            signal.signal(signal.SIGINT, before)
