"""Says what is wrong with a query, with the text and a mark under the place."""

from __future__ import annotations

from ..errors import QueryError

WIDTH = 100  # characters of a long query shown around the place


def misread(message: str, text: str, start: int, stop: int) -> QueryError:
    """A ``QueryError`` whose message shows ``text`` with ``text[start:stop]`` underlined."""
    line_start = text.rfind("\n", 0, start) + 1
    line_stop = text.find("\n", start)
    line_stop = len(text) if line_stop < 0 else line_stop
    first = max(line_start, start - WIDTH // 2)
    last = min(line_stop, first + WIDTH)
    shown = text[first:last].replace("\t", " ")
    before, after = "…" if first > line_start else "", "…" if last < line_stop else ""
    marks = "^" * max(1, min(stop, last) - start)
    return QueryError(f"{message}\n  {before}{shown}{after}\n  {' ' * (len(before) + start - first)}{marks}")
