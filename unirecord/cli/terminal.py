"""The terminal: tables, colours, paging, and a progress bar with rate and time left."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, cast

if TYPE_CHECKING:
    import subprocess

    import numpy as np
    from numpy.typing import NDArray

    from ..format.values.strings import Texts

__all__ = [
    "answer",
    "Rates",
    "ProgressBar",
    "ProgressLines",
    "clipped",
    "duration",
    "escaped",
    "fitted_table",
    "paged",
    "print_csv",
    "print_csv_counts",
    "print_json",
    "print_json_list",
    "say",
    "shows_progress",
    "silence",
    "table",
    "to_json",
    "to_nowhere",
    "unread",
    "warn",
    "width",
]


# The only way out of the command line: text for people is escaped here, JSON and CSV follow their own
# rules.


# csv and what runs a pager are imported where they are used: `unirecord --version` and a shell that starts wait for
# none of them.

# A superset of what may need an escape, so that plain text costs one pass of the regular expression.
_SUSPECT: Final = re.compile(r"[^\x20-\x7e]")
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def escaped(text: str, keep: str = "") -> str:
    r"""Return the text with everything that can steer a terminal as an escape such as ``\x1b`` or ``\u202e``.

    That is control characters (C0, DEL, C1), line and paragraph separators, format characters (direction marks,
    zero width), lone surrogates, and code points that have no character; ``keep`` names exceptions. Escaping twice
    is escaping once.
    """
    return _SUSPECT.sub(lambda match: _shown(match[0], keep), text)


def _shown(char: str, keep: str) -> str:
    if char.isprintable() or char in keep or unicodedata.category(char) == "Zs":
        return char
    return repr(char)[1:-1]


_silent = False


@contextmanager
def silence(wanted: bool) -> Iterator[None]:
    """Within, `say` prints nothing if it is ``wanted``, and progress is not shown."""
    global _silent
    before, _silent = _silent, _silent or wanted
    try:
        yield
    finally:
        _silent = before


@contextmanager
def unread(wanted: bool) -> Iterator[None]:
    """Within, if it is ``wanted``, text whose reader has gone (`… | head`) goes nowhere, and what runs goes on."""
    streams = sys.stdout, sys.stderr
    if wanted:
        sys.stdout, sys.stderr = (cast(TextIO, _Unread(stream)) for stream in streams)
    try:
        yield
    finally:
        if wanted:
            sys.stdout.flush()
        sys.stdout, sys.stderr = streams


class _Unread:
    """A stream that is turned to nowhere when its pipe is closed at the other end."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write it, or have it go nowhere."""
        try:
            return self._stream.write(text)
        except BrokenPipeError:
            to_nowhere(self._stream)
            return len(text)

    def flush(self) -> None:
        """Flush what was written, or drop it."""
        try:
            self._stream.flush()
        except BrokenPipeError:
            to_nowhere(self._stream)


def to_nowhere(stream: TextIO) -> None:
    """What the stream still holds, and what is written to it from now on, is dropped."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def shows_progress(stream: TextIO) -> bool:
    """Whether a line that is drawn over again is wanted there, and can be: on a terminal that can go back."""
    return stream.isatty() and not _silent and os.environ.get("TERM") != "dumb"


def say(*lines: str) -> None:
    """Print lines for a person on stdout."""
    for line in () if _silent else lines:
        sys.stdout.write(escaped(line) + "\n")


def warn(*lines: str) -> None:
    """Print lines for a person on stderr, after what stdout still holds."""
    sys.stdout.flush()
    for line in lines:
        sys.stderr.write(escaped(line) + "\n")


def to_json(value: Any, indent: int | None = None) -> str:
    r"""Return the value as JSON in which what `escaped` would escape is a ``\uNNNN`` of JSON."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=_fields)
    return _SUSPECT.sub(_json_escape, text)


def _fields(value: Any) -> Any:
    """What JSON has of a record: what it says of itself, else its fields."""
    from dataclasses import asdict

    return value.to_dict() if hasattr(value, "to_dict") else asdict(value)


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    # Outside strings JSON has no such character but the line feeds of ``indent``.
    return char if char == "\n" or _shown(char, "") == char else json.dumps(char)[1:-1]


def print_json(value: Any) -> None:
    """Print the value as JSON on stdout."""
    sys.stdout.write(to_json(value, 2) + "\n")


def answer(args: argparse.Namespace, found: Any, lines: Iterable[str], ok: bool = True) -> int:
    """Print what was found, as JSON where ``--json`` asks for it, else as lines for people; return the exit code."""
    if args.json:
        print_json(found)
    else:
        for line in lines:  # as they come: some say more on stderr
            say(line)
    return 0 if ok else 1


def print_json_list(head: Mapping[str, Any], name: str, items: Iterable[Any]) -> None:
    """Print a JSON object of the fields of ``head`` and a list ``name`` on stdout, one item a line as they come."""
    fields = "".join(f"{to_json(key)}: {to_json(value)}, " for key, value in head.items())
    sys.stdout.write(f"{{{fields}{to_json(name)}: [")
    for place, item in enumerate(items):
        sys.stdout.write(f"{',' if place else ''}\n  {to_json(item)}")
    sys.stdout.write("\n]}\n")


def print_csv(rows: Iterable[Sequence[Any]], quote_formulas: bool = False, out: TextIO | None = None) -> None:
    """Print rows as CSV (RFC 4180, lines ended by a line feed) on stdout; on a terminal every cell is escaped.

    With ``quote_formulas`` a text that a spreadsheet would run (it begins with ``=``, ``+``, ``-``, ``@``, a tab or a
    carriage return) gets an apostrophe before it.
    """
    import csv

    stream = out or sys.stdout
    on_terminal = stream.isatty()

    def shown(cell: Any) -> Any:
        if not isinstance(cell, str):
            return cell
        text = "'" + cell if quote_formulas and cell.startswith(_FORMULA) else cell
        return escaped(text) if on_terminal else text

    # The csv module quotes what has a character of its own end of line: so a bare carriage return too, which ends a
    # row for whoever reads it.
    lines = SimpleNamespace(write=lambda line: stream.write(line[:-2] + "\n"))
    cells = ([shown(cell) for cell in row] for row in rows) if on_terminal or quote_formulas else rows
    csv.writer(lines, lineterminator="\r\n").writerows(cells)


def print_csv_counts(pieces: Iterable[tuple[Texts, NDArray[np.int64]]], quote_formulas: bool = False) -> None:
    """Print texts and numbers as `print_csv` does, millions of rows of which most have nothing to be quoted."""
    import numpy as np

    from ..format.values.strings import PackedStrings, joined_strings

    for texts, counts in pieces:
        content = texts.strings.content.tobytes()
        if sys.stdout.isatty() or quote_formulas or len(content.translate(None, b'",\r\n')) < len(content):
            print_csv(zip(texts, counts.tolist(), strict=True), quote_formulas)
            continue
        kinds, which = np.unique(counts, return_inverse=True)
        ends = PackedStrings.of([b",%d\n" % count for count in kinds.tolist()])
        places = np.stack([np.arange(len(counts)), which + len(counts)], axis=1).reshape(-1)
        lines = joined_strings([texts.strings, ends]).take(places)
        sys.stdout.write(lines.content.tobytes().decode())


_GAP: Final = 2  # between columns


def table(rows: Sequence[Sequence[str]], align: str = "") -> list[str]:
    """Return the lines of a table whose first row is its header.

    ``align`` holds one of ``<`` and ``>`` per column; what is left out is ``<``.
    """
    if not rows:
        return []
    widths = _widths(rows)
    sides = align.ljust(len(widths), "<")
    lines = []
    for row in rows:
        cells = [_padded(escaped(cell), w, side) for cell, w, side in zip(row, widths, sides, strict=True)]
        lines.append((" " * _GAP).join(cells).rstrip())
    return lines


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    """How wide the columns of a table are."""
    return [max(width(escaped(cell)) for cell in column) for column in zip(*rows, strict=True)]


def fitted_table(rows: Sequence[Sequence[str]], align: str = "") -> list[str]:
    """The lines of a table; on a terminal each is cut at its width, and the last says how many columns that cuts."""
    lines = table(rows, align)
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if room is None or all(width(line) <= room for line in lines):
        return lines
    cut = sum(end - _GAP > room for end in accumulate(wide + _GAP for wide in _widths(rows)))
    said = (
        f"{cut} {'column' if cut == 1 else 'columns'} cut: … | less -S shows {'it' if cut == 1 else 'them'}"
    )
    return [*(line if width(line) <= room else clipped(line, room) for line in lines), said]


def width(text: str) -> int:
    """Return how many terminal cells the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def clipped(text: str, most: int) -> str:
    """Return the text in at most so many terminal cells, control characters made visible."""
    text = escaped(text[: most + 1])
    if width(text) <= most:
        return text
    out = ""
    for char in text:
        if width(out) + width(char) > most - 1:
            break
        out += char
    return out + "…"


def _padded(text: str, to: int, side: str) -> str:
    space = " " * (to - width(text))
    return space + text if side == ">" else text + space


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
    import shlex

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
        import subprocess

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
        import signal

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


# A progress bar with rate and time left on a terminal, lines of JSON for a program, silence anywhere else.


class Rates:
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
_PROGRESS_GAP: Final = "  "


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
        self._pace = Rates()
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
        least = len(_PROGRESS_GAP) + _SHORTEST_BAR if bar else 0
        while len(pieces) > 2 and len(_PROGRESS_GAP.join(pieces)) + least > room:
            pieces = pieces[:-1]
        width = min(_BAR, room - len(_PROGRESS_GAP.join(pieces)) - len(_PROGRESS_GAP))
        if bar and width >= _SHORTEST_BAR:
            full = int(min(1.0, share) * width)
            pieces = [pieces[0], "█" * full + "░" * (width - full) + f" {pieces[1]}", *pieces[2:]]
        return _PROGRESS_GAP.join(pieces)[:room]

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

    def __enter__(self) -> Self:
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
        self._pace = Rates()
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
