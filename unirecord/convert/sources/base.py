"""What every source is: a schema, a number of rows, and batches of columns in a fixed order."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...errors import SchemaError
from ...format.schema import Schema

__all__ = ["Batch", "Scan", "Source", "column_names"]

Scan = Callable[[int, int], None]
"""Called while a source is looked through before it is read: (bytes done, bytes in all)."""


@dataclass(frozen=True)
class Batch:
    """Some rows: column name → list or array, all of one length."""

    columns: dict[str, Any]
    rows: int


@dataclass
class Skipped:
    """Files left out: how many were not meant for us, and which ones could not be read, with the reason."""

    others: int = 0
    unreadable: list[str] = field(default_factory=list)


class Source(ABC):
    """Raw data that has been looked through: its schema and size are known, its values are not yet in memory."""

    kind: ClassVar[str]
    path: str
    schema: Schema
    rows: int
    metadata: dict[str, Any] | None = None

    def __init__(self) -> None:
        """Start with nothing left out."""
        self.skipped = Skipped()
        self.notes: list[str] = []

    @abstractmethod
    def batches(self) -> Iterator[Batch]:
        """Yield every row once, in the same order each time, a few MB at a time."""


def column_names(given: Sequence[str], where: str) -> tuple[list[str], list[str]]:
    """Return column names made from a file's own field names, and a note for each that had to change.

    Characters other than ASCII letters, digits and underscores become underscores. Raises `SchemaError` when two
    fields end up with one name.
    """
    names: list[str] = []
    notes: list[str] = []
    for i, field_name in enumerate(given):
        name = re.sub(r"[^0-9A-Za-z_]+", "_", field_name.strip()).strip("_") or f"column_{i}"
        if re.fullmatch(r"[0-9A-Za-z_]+", field_name):
            name = field_name
        elif name != field_name.strip():
            notes.append(f"field {field_name!r} is called {name!r}")
        if name in names:
            first = given[names.index(name)]
            raise SchemaError(
                f"{where}: the fields {first!r} and {field_name!r} both make the column name {name!r}; rename one"
            )
        names.append(name)
    return names, notes
