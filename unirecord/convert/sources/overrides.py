"""What the user says of a source: types of columns, and splits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from shlex import quote
from typing import Any, Final

from ...errors import SchemaError, did_you_mean
from ...format.schema import Schema
from .media_types import of_other_type
from .text_values import parse_json

__all__ = [
    "SPLITS",
    "TypesThere",
    "apply_overrides",
    "parse_overrides",
    "refuse_split_files",
]


# Files and folders that by their names are parts of a split (train, val, test).


SPLITS: Final = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val", "eval": "val",
    "test": "test", "testing": "test", "holdout": "test",
}  # fmt: skip
_FIRST_WORD: Final = re.compile(r"([A-Za-z]+)(?=[-_.0-9])")


def refuse_split_files(path: str, files: Iterable[str]) -> None:
    """Raise `SchemaError` when files that would become one dataset are train and test by their names."""
    found: dict[str, str] = {}
    for name in files:
        word = _FIRST_WORD.match(os.path.basename(name))
        role = SPLITS.get(word[1].lower()) if word else None
        if role is None:
            return
        found.setdefault(role, os.path.join(os.path.dirname(name), f"{word[1] if word else ''}*"))
    if len(found) > 1:
        steps = " and ".join(
            f"`unirecord write {quote(pattern)} {quote(role)}`" for role, pattern in found.items()
        )
        raise SchemaError(
            f"{path}: by their names the files are parts of a split ({', '.join(found)}); write each to a dataset of "
            f"its own: {steps}"
        )


# The ``--schema`` option: text, a JSON file or ``name=type`` pairs to column types that replace inferred
# ones.


def parse_overrides(text: str) -> dict[str, Any]:
    """Return ``{name: type}`` from JSON text, the path of a JSON file, or ``label=int32,name=string``.

    In the short form an array is written with its shape: ``tokens=int32[128]``, ``boxes=float32[-1,4]``.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        return _from_json(stripped, "--schema")
    if "=" in stripped:
        return _named_once([_pair(piece) for piece in _split(stripped)])
    path = Path(stripped)
    if not _is_file(path):
        raise SchemaError(
            f"--schema {text!r} is neither a file nor a schema; write label=int32,name=string or JSON "
            f'such as {{"label": "int32"}}'
        )
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise SchemaError(f"{path} is not UTF-8, so it is no schema in JSON") from None
    return _from_json(content, str(path))


def _named_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, spec in pairs:
        if name in found:
            raise SchemaError(f"--schema names {name!r} twice")
        found[name] = spec
    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a name, say
        return False


class TypesThere(dict[str, Any]):
    """The types of the dataset that rows are appended to, with those that were ``asked`` for."""

    def __init__(self, there: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
        super().__init__({**there, **asked})
        self.asked = frozenset(asked)


def apply_overrides(inferred: Mapping[str, Any], overrides: Mapping[str, Any]) -> Schema:
    """Return the schema with some of the inferred types replaced; an unknown name is an error.

    But of `TypesThere`: what rows are appended to may have columns that they lack.
    """
    if isinstance(overrides, TypesThere):
        asked = {
            name: spec for name, spec in overrides.items() if name in inferred or name in overrides.asked
        }
        overrides = asked
    for name in overrides:
        if name not in inferred:
            raise SchemaError(
                f"there is no column {name!r} in the data{did_you_mean(name, inferred)}; it has {', '.join(inferred)}"
            )
    return Schema.parse(
        {**inferred, **{name: of_other_type(spec, inferred[name]) for name, spec in overrides.items()}}
    )


def _from_json(text: str, where: str) -> dict[str, Any]:
    try:
        found = parse_json(text)
    except ValueError as error:
        raise SchemaError(f"{where} is not valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise SchemaError(
            f'{where}: a schema is an object such as {{"label": "int32"}}, got {type(found).__name__}'
        )
    Schema.parse(found)
    return found


_QUOTED_NAME: Final = re.compile(r"\s*`((?:[^`]|``)+)`\s*=")


def _split(text: str) -> list[str]:
    """Split at commas outside brackets, and outside of names in backticks."""
    pieces, depth, start, behind = [], 0, 0, 0
    for i, char in enumerate(text):
        if i == start and (quoted := _QUOTED_NAME.match(text, i)) is not None:
            behind = quoted.end()
        if i < behind:
            continue
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            pieces.append(text[start:i])
            start = i + 1
    return [*pieces, text[start:]]


def _pair(piece: str) -> tuple[str, Any]:
    quoted = _QUOTED_NAME.match(piece)
    behind = piece if quoted is None else piece[quoted.end() - 1 :]
    name, equals, type_name = (part.strip() for part in behind.partition("="))
    if quoted is not None:
        name = quoted[1].replace("``", "`")
    if not equals or not name or not type_name:
        raise SchemaError(f"--schema: {piece.strip()!r} is not of the form name=type")
    column = Schema.parse({name: type_name})[0]
    return name, column.spec
