"""Aligned columns of text for a terminal."""

from __future__ import annotations

import shutil
import sys
import unicodedata
from collections.abc import Sequence

from .terminal import escaped, say

__all__ = ["clipped", "print_table", "table", "width"]


def table(rows: Sequence[Sequence[str]], align: str = "", gap: int = 2) -> list[str]:
    """Return the lines of a table whose first row is its header.

    ``align`` holds one of ``<`` and ``>`` per column; what is left out is ``<``.
    """
    if not rows:
        return []
    rows = [[escaped(cell) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(*rows, strict=True)]
    sides = align.ljust(len(widths), "<")
    lines = []
    for row in rows:
        cells = [_padded(cell, w, side) for cell, w, side in zip(row, widths, sides, strict=True)]
        lines.append((" " * gap).join(cells).rstrip())
    return lines


def print_table(rows: Sequence[Sequence[str]], align: str = "") -> None:
    """Print a table; on a terminal each line is cut at its width, elsewhere it is whole."""
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    for line in table(rows, align):
        say(line if room is None or width(line) <= room else clipped(line, room))


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
