"""Wraps the prose of docs/*.md at one width: `make docs` runs it, a test holds that it has nothing to do."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100

_GLUE = "\x01"  # in place of a blank in code, which stays on one line
_ITEM = re.compile(r"(\s*)([-*]|\d+\.) +")
# Headings, tables, comments, pictures, rules and definitions of links stay as they are.
_KEPT = re.compile(r"\s*(#|\||<|!\[|---+$|\[[^\]]+\]: )")


def paragraphs(lines: list[str]) -> Iterator[tuple[bool, list[str]]]:
    """Runs of lines: True with a paragraph or an item of a list, False with lines to keep."""
    waiting: list[str] = []
    fence = ""
    for line in lines:
        opened = re.match(r"\s*(```+|~~~+)", line)
        special = bool(fence) or opened is not None or not line.strip() or _KEPT.match(line) is not None
        indented = not waiting and line.startswith("    ") and _ITEM.match(line) is None
        if waiting and (special or _ITEM.match(line) or line.lstrip().startswith("> ")):
            yield True, waiting
            waiting = []
        if special or indented:
            yield False, [line]
        else:
            waiting.append(line)
        if opened is not None:
            fence = "" if fence else opened[1]
    if waiting:
        yield True, waiting


def wrapped(text: str) -> str:
    """The page with every paragraph and item filled to WIDTH; code, tables and headings as they are."""
    out: list[str] = []
    for prose, lines in paragraphs(text.split("\n")):
        if not prose:
            out += lines
            continue
        start = _ITEM.match(lines[0])
        first = start[0] if start else re.match(r"\s*(?:> )?", lines[0])[0]  # type: ignore[index]
        rest = " " * len(first) if start else first
        words = " ".join(line.strip().removeprefix("> ") for line in lines)
        words = words[len(first.strip()) :].strip() if start else words
        words = re.sub(r"`[^`]{1,60}`", lambda code: code[0].replace(" ", _GLUE), words)
        filled = textwrap.fill(
            words, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False,
            break_on_hyphens=False,
        )  # fmt: skip
        out += _no_accidental_markup(filled.replace(_GLUE, " ").split("\n"), rest)
    return "\n".join(out)


def _no_accidental_markup(lines: list[str], indent: str) -> list[str]:
    """Moves a dash, number or mark that would begin a line, and so a list or a heading, to the line before."""
    for i in range(1, len(lines)):
        while re.match(r"([-*+|#>]|\d+\.)( |$)", lines[i].strip()):
            word, _, left = lines[i].strip().partition(" ")
            lines[i - 1] += f" {word}"
            lines[i] = indent + left
    return [line for line in lines if line.strip()]


def pages() -> list[Path]:
    """The README and every page of docs/ and the folders in it."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or pages():
        path.write_text(wrapped(path.read_text(encoding="utf-8")), encoding="utf-8")
