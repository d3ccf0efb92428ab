"""docs/api.md from the docstrings of all public names: `make docs` writes it, a test holds that it is up to date."""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import unirecord  # noqa: E402  (the package beside this file, wherever it is run from)

PAGE = ROOT / "docs" / "api.md"

# Titles of the page, and the rooms whose public names stand below them.
SECTIONS = {
    "Writing": ("writing",),
    "Converting": ("convert",),
    "Reading": ("dataset", "loading", "order", "snapshot"),
    "Pipelines": ("pipeline",),
    "Schemas": ("format",),
    "Looking after files": ("inspect",),
}
SHOWN_SPECIAL = {"__len__", "__getitem__", "__getitems__", "__iter__", "__contains__"}
DOORS = {"PyTorch": "unirecord.torch", "TensorFlow": "unirecord.tf", "Ray Data": "unirecord.ray"}

HEAD = """# Python API

Written by `make docs` from the docstrings. Everything public is an attribute of `unirecord`;
`unirecord.torch`, `unirecord.tf` and `unirecord.ray` are imported when they are first used. What stands in other
modules, and what begins with an underscore, may change. Members whose docstring begins with
"Internal" are left out here and may change as well.

```python
import numpy as np
import unirecord

with unirecord.Writer("train.urec", {"x": "int32", "image": "bytes"}, index=["x"]) as writer:
    for i in range(100):
        writer.write({"x": i % 10, "image": bytes(i)})

with unirecord.UniRecordDataset("train.urec", where="x >= 5", shuffle=True, seed=1) as ds:
    assert len(ds) == 50
    assert ds[0]["x"] >= 5
    for batch in ds.batches(16):
        assert batch["x"].dtype == np.int32
        first = batch["image"][0]  # a memoryview of one value
```
"""
ERRORS = """## Errors

Every error is a `UniRecordError`, except `IndexError`, `TypeError` and `ValueError` for wrong calls,
`OSError` and `MemoryError`. The message names file, row and column where there is one, what was
expected, what was found, and what to do.
"""


def public_names() -> dict[str, Any]:
    """Every name of `unirecord.__all__` with what it stands for, in that order."""
    return {name: getattr(unirecord, name) for name in unirecord.__all__ if name != "__version__"}


def is_error(thing: Any) -> bool:
    """Whether it is one of our exceptions or warnings."""
    return inspect.isclass(thing) and issubclass(thing, unirecord.UniRecordError | Warning)


def room(thing: Any) -> str:
    """The folder of the package in which a public thing is defined."""
    return str(getattr(thing, "__module__", "")).split(".")[1]


def is_part_of_the_face(base: type) -> bool:
    """Whether a class of the package stands only behind public ones."""
    return base.__module__.startswith("unirecord.") and base.__name__ not in unirecord.__all__


def members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties of a class with a docstring of their own, in the order of the source.

    Those of bases that are not public themselves are its own.
    """
    own = [base for base in kind.__mro__ if base is kind or is_part_of_the_face(base)]
    for name, member in (entry for base in own for entry in vars(base).items()):
        plain = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
        plain = getattr(plain, "func", plain)  # functools.cached_property
        special = name in SHOWN_SPECIAL
        text = inspect.getdoc(plain) if callable(plain) or isinstance(plain, property) else None
        if text is None or text.startswith("Internal") or (name.startswith("_") and not special):
            continue
        yield name, plain


def fields(kind: type) -> list[tuple[str, str]]:
    """Names and types of a dataclass's public fields."""
    if not dataclasses.is_dataclass(kind):
        return []
    return [(one.name, str(one.type)) for one in dataclasses.fields(kind) if not one.name.startswith("_")]


def signature(name: str, called: Any) -> str:
    """A call as a reader writes it: names and defaults, no types."""
    found = inspect.signature(called)
    kept = [one for one in found.parameters.values() if one.name not in ("self", "cls")]
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in kept]
    shown = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return name + re.sub(r"<function (\w+) at [^>]*>", r"\1", shown)


def heading(level: int, name: str, called: Any, *, returns: bool) -> str:
    """A title with the call in it, or above it where it is long."""
    call, result = signature(name, called), returned(called) if returns else ""
    if len(call) + len(result) <= 90:
        return f"{'#' * level} `{call}`{result}"
    lines = [name + "("]
    lines += [f"    {part}," for part in _split(call[len(name) + 1 : -1])]
    shown = "\n".join([*lines, ")" + result.replace("`", "").replace("→", "->")])
    return f"{'#' * level} `{name}`\n\n```text\n{shown}\n```"


def _split(arguments: str) -> list[str]:
    """Arguments at the commas between them, not at those within defaults."""
    parts, depth = [""], 0
    for letter in arguments:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def types(called: Any) -> dict[str, str]:
    """The annotation of every argument, as written in the source."""
    found = inspect.signature(called).parameters.values()
    return {one.name: str(one.annotation) for one in found if one.annotation is not inspect.Parameter.empty}


def returned(called: Any) -> str:
    """The annotation of what a function returns, or nothing when it returns nothing."""
    shown = inspect.signature(called).return_annotation
    if isinstance(shown, str):
        shown = re.sub(r"\bSelf\b", "UniRecordDataset", shown)
    return "" if shown in (inspect.Signature.empty, "None", None) else f" → `{shown}`"


def markdown(text: str) -> str:
    """The markup of docstrings as Markdown: double backticks single, pages of docs/ as links."""
    text = text.replace("``", "`")
    return re.sub(r"\bdocs/([\w-]+)\.md\b", r"[\1](\1.md)", text)


def items(block: str) -> list[tuple[str, str]]:
    """(names, text) of the entries of an ``Args:`` or ``Raises:`` block; what is indented deeper goes on."""
    found: list[tuple[str, str]] = []
    for line in block.splitlines():
        if line and not line.startswith(" "):
            names, _, text = line.partition(": ")
            found.append((names, text.strip()))
        elif line.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {line.strip()}")
    return found


def sections(text: str) -> tuple[str, dict[str, list[tuple[str, str]]]]:
    """A docstring's prose, and its ``Args:``, ``Raises:`` and ``Attributes:`` blocks."""
    head, *rest = re.split(r"^(Args|Raises|Attributes):\n", text, flags=re.M)
    blocks = {}
    for title, body in zip(rest[::2], rest[1::2], strict=True):
        inside = re.match(r"(?:[ ]+.*\n?|\n)*", body)
        assert inside is not None
        blocks[title] = items(textwrap.dedent(inside[0]))
        head += body[inside.end() :]
    return head.strip(), blocks


def described(text: str, kinds: dict[str, str]) -> str:
    """A docstring as Markdown; `kinds` gives the types of arguments."""
    prose, blocks = sections(text)
    parts = [markdown(prose)]
    for title, entries in blocks.items():
        lines = []
        for names, what in entries:
            shown = ", ".join(f"`{name}`" for name in names.split(", "))
            own = {kinds[name.lstrip("*")] for name in names.split(", ") if name.lstrip("*") in kinds}
            kind = f" (`{own.pop()}`)" if len(own) == 1 else ""
            lines.append(f"- {shown}{kind}: {markdown(what)}")
        parts.append(("" if title == "Args" else f"{title}:\n\n") + "\n".join(lines))
    return "\n\n".join(parts)


def function(name: str, called: Any, level: int) -> str:
    """A function or method under a heading."""
    text = inspect.getdoc(called) or ""
    return f"{heading(level, name, called, returns=True)}\n\n{described(text, types(called))}"


def class_page(name: str, kind: type) -> str:
    """A class: how it is made, its fields, properties and methods."""
    text = inspect.getdoc(kind) or ""
    made = "Args:" in text
    title = heading(3, name, kind, returns=False) if made else f"### `{name}`"
    parts = [title, described(text, types(kind) if made else {})]
    if not made and fields(kind) and "Attributes:" not in text:
        parts.append("Fields: " + ", ".join(f"`{field}: {shown}`" for field, shown in fields(kind)) + ".")
    own = list(members(kind))
    properties = [(n, one) for n, one in own if isinstance(one, property) or not inspect.isroutine(one)]
    lines = []
    for prop, one in properties:
        got = getattr(one, "fget", one)
        shown = returned(got).removeprefix(" → ")
        lines.append(f"- `{prop}` ({shown}): {markdown(' '.join((inspect.getdoc(one) or '').split()))}")
    for prop, plain in vars(kind).items():
        getter = getattr(plain, "func", None)
        if getter is not None and not prop.startswith("_") and (prop, getter) in own:
            shown = returned(getter).removeprefix(" → ")
            lines.append(
                f"- `{prop}` ({shown}): {markdown(' '.join((inspect.getdoc(getter) or '').split()))}"
            )
    if lines:
        parts += ["Properties:", "\n".join(lines)]
    cached = {prop for prop, plain in vars(kind).items() if hasattr(plain, "func")}
    for method, one in own:
        if inspect.isroutine(one) and method not in cached:
            parts.append(function(method, one, 4))
    return "\n\n".join(parts)


def entry(name: str, thing: Any) -> str:
    """What the page says about one public name."""
    return class_page(name, thing) if inspect.isclass(thing) else function(name, thing, 3)


def errors() -> str:
    """The table of exceptions, from their bases and docstrings."""
    lines = ["| Exception or warning | Also a | When |", "|---|---|---|"]
    for name, kind in public_names().items():
        if is_error(kind):
            other = [base.__name__ for base in kind.__bases__ if not is_error(base) and base is not Exception]
            when = markdown(" ".join((inspect.getdoc(kind) or "").split()))
            lines.append(f"| `{name}` | {', '.join(f'`{one}`' for one in other)} | {when} |")
    return "\n".join(lines)


def page() -> str:
    """The whole of docs/api.md."""
    names = {name: thing for name, thing in public_names().items() if not is_error(thing)}
    homeless = {name: room(thing) for name, thing in names.items()}
    parts = [HEAD]
    for title, rooms in SECTIONS.items():
        chosen = [name for name in names if homeless.get(name) in rooms]
        if chosen:
            parts.append(f"## {title}")
            parts += [entry(name, names[name]) for name in chosen]
        for name in chosen:
            del homeless[name]
    if homeless:
        raise SystemExit(f"docs/build_api.py: give these rooms a place in SECTIONS: {homeless}")
    for title, door in DOORS.items():
        module = import_module(door)
        parts += [f"## {title}", f"`import {door}`"]
        parts += [entry(f"{door}.{name}", getattr(module, name)) for name in module.__all__]
    parts += [ERRORS, errors(), "`unirecord.__version__` is the version of the package."]
    return "\n\n".join(part.strip() for part in parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
