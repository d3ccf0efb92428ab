"""Columns that the folders of files say: ``year=2024/cls=cat/part-0.parquet``, as Hive, Spark and pandas write them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from ...errors import SchemaError
from .input_path import InputPath
from .text_values import CellEvidence

__all__ = ["Partitions"]

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"


class Partitions:
    """What the folders between a source and its files say of the rows of each file.

    Attributes:
        types: the columns: int64 where all values are whole numbers, else string; null by Hive's name for it.
    """

    def __init__(self, source: InputPath, files: Sequence[InputPath], own: Sequence[str]) -> None:
        """``own``: fields that the files have themselves, which count. Raises `SchemaError` where folders differ."""
        above = source.fixed_folder
        said = [_pairs(os.path.relpath(file.path, above)) if above is not None else {} for file in files]
        names = list(said[0]) if said else []
        for file, pairs in zip(files, said, strict=True):
            if list(pairs) != names:
                raise SchemaError(
                    f"{file.name}: its folders say {', '.join(pairs) or 'no column'}, and those of {files[0].name} "
                    f"{', '.join(names) or 'none'}; write them to datasets of their own"
                )
        self.types: dict[str, str] = {}
        self._values: dict[str, list[Any]] = {}
        for name in (one for one in names if one not in own):
            evidence = CellEvidence()
            evidence.add([pairs[name] or "" for pairs in said])
            kind = evidence.type()
            is_whole = kind.rstrip("?") == "int64" and "" not in [pairs[name] for pairs in said]
            self.types[name] = ("int64" if is_whole else "string") + "?" * (None in [p[name] for p in said])
            self._values[name] = [
                int(value) if is_whole and value is not None else value
                for value in (pairs[name] for pairs in said)
            ]

    def columns(self, number: int, rows: int, names: Mapping[str, str]) -> dict[str, list[Any]]:
        """The columns of rows of a file, by the names that the columns have."""
        return {names.get(name, name): [values[number]] * rows for name, values in self._values.items()}


def _pairs(path: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for piece in path.split(os.sep)[:-1]:
        name, equals, value = piece.partition("=")
        if equals and name:
            text = unquote(value)
            found[unquote(name)] = None if text == _NULL else text
    return found
