"""Docstrings keep their form: a summary on one line, and arguments one to an entry."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "unirecord"
BLOCK = re.compile(r"^(Args|Raises|Attributes):\n((?:[ ]+.*\n?|\n)+)", re.M)

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def documented(source: str) -> Iterator[tuple[Documented, str]]:
    """Every module, class and function with its docstring."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text is not None:
                yield node, text


def arguments(node: Documented) -> list[str]:
    """Names of the arguments of a function, or of what makes a class."""
    if isinstance(node, ast.ClassDef):
        made = [one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
        return arguments(made[-1]) if made else []  # overloads stand before it
    if isinstance(node, ast.Module):
        return []
    found = node.args
    names = [one.arg for one in (*found.posonlyargs, *found.args, *found.kwonlyargs)]
    names += [f"{stars}{one.arg}" for stars, one in (("*", found.vararg), ("**", found.kwarg)) if one]
    return [name for name in names if name not in ("self", "cls")]


def faults(source: str) -> Iterator[str]:
    """What is wrong with the docstrings of a source text."""
    for node, text in documented(source):
        name = getattr(node, "name", "the module")
        summary, *rest = text.split("\n")
        if not summary.rstrip().endswith((".", "?", "!", ":")) or (rest and rest[0].strip()):
            yield f"{name}: the first line is not a whole sentence with a blank line after it: {summary!r}"
        for title, body in BLOCK.findall(text + "\n"):
            lines = textwrap.dedent(body).splitlines()
            entries = [line for line in lines if line and not line.startswith(" ")]
            for line in entries:
                if not re.match(r"\*{0,2}\w+(, \*{0,2}\w+)*: \S", line):
                    yield f"{name}: {title}: not the beginning of an entry (go on indented deeper): {line!r}"
            if title == "Args":
                named = [word for line in entries for word in line.split(": ")[0].split(", ")]
                wanted = arguments(node)
                if named != wanted:
                    yield f"{name}: Args are {named}, the arguments {wanted}"
                joined = re.findall(rf"\S[.;] ({'|'.join(map(re.escape, wanted or ['$']))}): ", body)
                if joined:
                    yield f"{name}: these begin in the middle of a line: {joined}"


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.relative_to(PACKAGE).as_posix()
)
def test_docstrings_keep_their_form(path: Path) -> None:
    assert list(faults(path.read_text(encoding="utf-8"))) == []


GOOD = '''
def read(path, mode, **options):
    """Reads.

    Args:
        path: where; what
            goes on is indented.
        mode, **options: how.
    """
'''


def test_a_sound_docstring_passes() -> None:
    assert list(faults(GOOD)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Reads.\n", "Reads the file of this name, and what\n    is in it.\n"),
        ("goes on is indented.\n        mode", "goes on is indented. mode"),
        ("    goes on is", "goes on is"),
        ("mode, **options: how", "mode: how"),
    ],
    ids=["two-line summary", "entry in mid-line", "not deeper", "argument left out"],
)
def test_the_check_on_docstrings_sees(before: str, after: str) -> None:
    assert before in GOOD
    assert list(faults(GOOD.replace(before, after))) != []
