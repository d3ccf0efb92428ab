"""Aligned columns of text for a terminal."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from .terminal import escaped, say

__all__ = ["clipped", "print_table", "table", "width"]

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


def print_table(rows: Sequence[Sequence[str]], align: str = "") -> None:
    """Print a table; on a terminal each line is cut at its width, and it is said how many columns that cuts."""
    lines = table(rows, align)
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    if room is None or all(width(line) <= room for line in lines):
        say(*lines)
        return
    say(*(line if width(line) <= room else clipped(line, room) for line in lines))
    ends = accumulate(wide + _GAP for wide in _widths(rows))
    cut = sum(end - _GAP > room for end in ends)
    say(f"{cut} {'column' if cut == 1 else 'columns'} cut: … | less -S shows {'it' if cut == 1 else 'them'}")


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
