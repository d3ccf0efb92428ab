"""The list of all files in docs/architecture.md, from the first line of each: `make docs` writes it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "architecture.md"


def first_line(path: Path) -> str:
    """What a file says of itself first."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        return " ".join((ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].split())
    comment = text.removeprefix(f"/* {path.name} - ").split("*/")[0].split("\n\n")[0]
    sentence = re.split(r"(?<=\.)\s", " ".join(comment.split()))[0]
    return sentence.removesuffix(" Internal.")


def table(paths: list[Path], root: Path) -> str:
    """Two columns: file and what it says."""
    lines = ["| file | |", "|---|---|"]
    for path in paths:
        said = first_line(path).replace("|", "\\|").replace("``", "`").replace("<->", "↔")
        lines.append(f"| `{path.relative_to(root).as_posix()}` | {said} |")
    return "\n".join(lines)


def content() -> str:
    """The tables of both languages."""
    package = ROOT / "unirecord"
    python = [path for path in sorted(package.rglob("*.py")) if path.name != "__init__.py"]
    c = sorted((ROOT / "csrc").rglob("*.[ch]"))
    return f"### unirecord/\n\n{table(python, package)}\n\n### csrc/\n\n{table(c, ROOT / 'csrc')}"


def page() -> str:
    """docs/architecture.md with its list as the files are now."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- begin map -->\n", "<!-- end map -->"
    head, tail = text.split(begin)[0], text.split(end)[1]
    return f"{head}{begin}\n{content()}\n\n{end}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
