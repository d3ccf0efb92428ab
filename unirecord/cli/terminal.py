"""The only way out of the command line: text for people is escaped here, JSON and CSV follow their own rules."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TextIO, cast

__all__ = [
    "escaped",
    "print_csv",
    "print_json",
    "print_json_list",
    "say",
    "shows_progress",
    "silence",
    "to_json",
    "to_nowhere",
    "unread",
    "warn",
]

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
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return _SUSPECT.sub(_json_escape, text)


def _json_escape(match: re.Match[str]) -> str:
    char = match[0]
    # Outside strings JSON has no such character but the line feeds of ``indent``.
    return char if char == "\n" or _shown(char, "") == char else json.dumps(char)[1:-1]


def print_json(value: Any, indent: int | None = None) -> None:
    """Print the value as JSON on stdout."""
    sys.stdout.write(to_json(value, indent) + "\n")


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
    stream = out or sys.stdout
    shown = escaped if stream.isatty() else str
    minimal, quoted = (
        csv.writer(stream, lineterminator="\n"),
        csv.writer(stream, lineterminator="\n", quoting=csv.QUOTE_ALL),
    )
    for row in rows:
        cells = [_csv_text(cell, quote_formulas) for cell in row]
        texts = [shown(cell) if isinstance(cell, str) else cell for cell in cells]
        # The csv module leaves a bare carriage return unquoted, which ends a row for whoever reads it.
        breaks = any(isinstance(text, str) and "\r" in text for text in texts)
        (quoted if breaks else minimal).writerow(texts)


def _csv_text(cell: Any, quote_formulas: bool) -> Any:
    if quote_formulas and isinstance(cell, str) and cell.startswith(_FORMULA):
        return "'" + cell
    return cell
