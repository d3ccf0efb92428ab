"""Which source reads a path: by what was asked for, or by what lies there."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final

from ...errors import MissingError, SchemaError
from .base import Scan, Source
from .images import ImageFolder
from .jsonl import JsonLines
from .tables import CsvTable

__all__ = ["KINDS", "open_source"]

_SOURCES: Final[dict[str, type[Source]]] = {"images": ImageFolder, "csv": CsvTable, "jsonl": JsonLines}
_SUFFIXES: Final = {
    ".csv": "csv", ".tsv": "csv", ".tab": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".jsonlines": "jsonl",
}  # fmt: skip

KINDS: Final = tuple(_SOURCES)


def open_source(
    path: str, kind: str | None = None, overrides: Mapping[str, Any] | None = None, scan: Scan | None = None
) -> Source:
    """Look through the raw data at ``path`` and return it as a source.

    ``kind`` is one of `KINDS`, found from the path when left out; ``overrides`` replaces some of the inferred column
    types. Raises `MissingError` and `SchemaError`.
    """
    if not os.path.exists(path):
        raise MissingError(f"{path} does not exist")
    kind = kind or _kind_of(path)
    if kind not in _SOURCES:
        raise SchemaError(f"unknown kind of source {kind!r}; there are {', '.join(KINDS)}")
    if (kind == "images") != os.path.isdir(path):
        what = "a folder" if kind == "images" else "a file"
        raise SchemaError(f"{path} is not {what}, which {kind} are read from")
    make: Any = _SOURCES[kind]
    source: Source = make(path, overrides, scan)
    return source


def _kind_of(path: str) -> str:
    if os.path.isdir(path):
        return "images"
    suffix = os.path.splitext(path)[1].lower()
    if suffix not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise SchemaError(
            f"{path}: cannot tell what it is from its name ({known}); say so with --from csv or jsonl"
        )
    return _SUFFIXES[suffix]
