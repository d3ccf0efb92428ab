"""A task of several parts that is not finished: which of them are, and where the next one goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import FormatError
from ..format.layout import Shape, check_shape
from ..format.schema import Schema
from ..parts.manifest import PartEntry
from ..writing.conversion_journal import entry_from_json, entry_to_json
from ..writing.part_writer import PartContent
from .sources.left_out import LeftOut, left_out_from_json, left_out_to_json

__all__ = ["BegunTask", "RowsWritten"]


@dataclass(frozen=True)
class BegunTask:
    """How far a task is.

    Attributes:
        unit: the unit of the source to go on with.
        skip: how many of its rows are written.
        entries: the finished parts.
        left_out: what was left out of the units before it.
        shape, dictionaries: what the rows to come are laid out and compressed by, as those before them.
    """

    unit: int
    skip: int = 0
    entries: tuple[PartEntry, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    shape: Shape | None = None
    dictionaries: tuple[tuple[int, bytes], ...] = ()

    @property
    def rows(self) -> int:
        """How many rows are written."""
        return sum(entry.rows for entry in self.entries)

    def content(self, content: PartContent) -> PartContent:
        """What the parts to come have in common with those that are finished."""
        return replace(content, dictionaries=self.dictionaries)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "unit": self.unit,
            "skip": self.skip,
            "parts": [entry_to_json(entry) for entry in self.entries],
            "left_out": left_out_to_json(self.left_out),
            "shape": None if self.shape is None else vars(self.shape),
            "dictionaries": [[column, content.hex()] for column, content in self.dictionaries],
        }

    @classmethod
    def from_json(cls, value: dict[str, Any], units: tuple[int, int], schema: Schema) -> BegunTask | None:
        """The same back, of a task of these units [start, stop); None where it does not go with them, or the schema."""
        found = cls(
            value["unit"],
            value["skip"],
            tuple(entry_from_json(entry) for entry in value["parts"]),
            tuple(left_out_from_json(value["left_out"])),
            Shape(**value["shape"]),
            tuple((column, bytes.fromhex(content)) for column, content in value["dictionaries"]),
        )
        assert found.shape is not None
        try:
            check_shape(found.shape, blobs=bool(schema.blobs))
        except FormatError:
            return None
        is_of_columns = all(column < len(schema) for column, _ in found.dictionaries)
        return found if units[0] <= found.unit < units[1] and is_of_columns else None


class RowsWritten:
    """Which rows of a task come from which unit, and what was left out before it: where a later run can go on."""

    def __init__(self, begun: BegunTask) -> None:
        self.rows: int = begun.rows
        self.left_out: list[LeftOut] = list(begun.left_out)
        self._starts = [(begun.rows - begun.skip, begun.unit, len(self.left_out))]

    def begin(self, unit: int) -> None:
        """Say that the rows to come are of this unit."""
        if unit != self._starts[-1][1]:
            self._starts.append((self.rows, unit, len(self.left_out)))

    def at(self, entries: Sequence[PartEntry], content: PartContent, shape: Shape) -> BegunTask:
        """Where to go on behind these parts; nobody asks for a place before it again."""
        rows = sum(entry.rows for entry in entries)
        before = [start for start in self._starts if start[0] <= rows]
        first, unit, left_out = before[-1]
        self._starts = self._starts[len(before) - 1 :]
        return BegunTask(
            unit, rows - first, tuple(entries), tuple(self.left_out[:left_out]), shape, content.dictionaries
        )
