"""What every source is: a schema, a number of rows, and batches of columns in a fixed order."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...errors import SchemaError, StaleError
from ...format.schema import Schema
from ...progress import Progress
from .input_path import InputPath

__all__ = ["Flag", "LeftOut", "Options", "RawBatch", "Source", "WrongSourceError", "column_names"]


class WrongSourceError(SchemaError):
    """The path is not what this kind of source is read from, or an option is not for it: the call is wrong."""


@dataclass(frozen=True)
class RawBatch:
    """Some rows as a source gives them: column name → list or array, all of one length, nothing checked yet.

    ``position`` is where the source goes on after them: `Source.batches` takes it, in another process too.
    """

    columns: dict[str, Any]
    rows: int
    position: int


@dataclass(frozen=True)
class LeftOut:
    """A file that is not in the dataset. ``expected``: it was not meant for it, as its name shows."""

    name: str
    reason: str
    expected: bool = False


@dataclass(frozen=True)
class Flag:
    """A field of `Options` that is on or off, as the command line offers it."""

    name: str
    help: str


@dataclass(frozen=True)
class Options:
    """What a user may ask of a source. All sources obey ``overrides``; each names in ``takes`` what else it obeys."""

    overrides: Mapping[str, Any] = field(default_factory=dict)
    classes: Sequence[str] | None = None
    check_pictures: bool = False
    folders_are_classes: bool = False

    def given(self) -> list[str]:
        """The names of the options that differ from their default, without ``overrides``."""
        default = Options()
        names = ("classes", "check_pictures", "folders_are_classes")
        return [name for name in names if getattr(self, name) != getattr(default, name)]


class Source(ABC):
    """Raw data that has been looked through: its schema and size are known, its values are not yet in memory.

    A kind of source is one subclass in one file, and one entry in the registry.
    """

    kind: ClassVar[str]
    about: ClassVar[str]  # what it reads, in the help
    item: ClassVar[str] = "row"  # what one row is made of, in messages
    reads: ClassVar[str]  # "a folder", "a file": what messages call its input
    suffixes: ClassVar[tuple[str, ...]] = ()  # of the names of files of this kind
    takes: ClassVar[frozenset[str]] = frozenset()
    flags: ClassVar[tuple[Flag, ...]] = ()  # those of ``takes`` that are flags
    path: str
    schema: Schema
    rows: int
    metadata: dict[str, Any] | None = None

    def __init__(self, source: InputPath, options: Options, progress: Progress | None = None) -> None:
        """Look through ``source``; ``progress`` is told how far it is. Raises `SchemaError` about its content."""
        self.input = source
        self.path = source.name
        self.left_out: list[LeftOut] = []
        self.notes: list[str] = list(source.notes)
        self.look_through(options, progress)
        self._left_out_at_first = tuple(self.left_out)

    @classmethod
    @abstractmethod
    def recognises(cls, source: InputPath) -> bool:
        """Whether what lies at the path is of this kind, by its name or its kind of file."""

    @classmethod
    @abstractmethod
    def can_read(cls, source: InputPath) -> bool:
        """Whether this kind can be read from there when it is asked for by name."""

    @abstractmethod
    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Set ``schema``, ``rows``, ``metadata`` and ``notes``."""

    @abstractmethod
    def read(self, position: int) -> Iterator[RawBatch]:
        """Yield the rows from a position on, a few MB at a time, and add to ``left_out`` what cannot be read."""

    def batches(self, position: int = 0) -> Iterator[RawBatch]:
        """Yield every row once, in the same order each time, a few MB at a time.

        ``position`` is that of a batch of an earlier pass, which this one continues. Raises `StaleError` at the end
        of a whole pass when there were other rows than when the source was looked through.
        """
        self.left_out = list(self._left_out_at_first)
        rows = 0
        for batch in self.read(position):
            rows += batch.rows
            yield batch
        seen = rows + len(self.left_out) - len(self._left_out_at_first)
        if not position and seen != self.rows:
            raise StaleError(
                f"{self.path}: {seen:,} rows were read, but {self.rows:,} were there when it was looked through; "
                f"it changes while it is read, so nothing was published: convert a copy that stays as it is"
            )


def column_names(given: Sequence[str], where: str) -> tuple[list[str], list[str]]:
    """Return column names made from a file's own field names, and a note for each that had to change.

    Characters other than ASCII letters, digits and underscores become underscores. Raises `SchemaError` when two
    fields end up with one name.
    """
    names: dict[str, str] = {}
    notes: list[str] = []
    for i, field_name in enumerate(given):
        name = re.sub(r"[^0-9A-Za-z_]+", "_", field_name.strip()).strip("_") or f"column_{i}"
        if re.fullmatch(r"[0-9A-Za-z_]+", field_name):
            name = field_name
        elif name != field_name.strip():
            notes.append(f"field {field_name!r} is called {name!r}")
        if name in names:
            raise SchemaError(
                f"{where}: the fields {names[name]!r} and {field_name!r} both make the column name {name!r}; "
                f"rename one"
            )
        names[name] = field_name
    return list(names), notes
