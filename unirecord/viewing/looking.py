"""The dataset that is looked at: which rows a condition leaves, in which order, and what its columns are to the eye."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..dataset.dataset import UniRecordDataset
from ..errors import CorruptionError
from ..format.column import Column
from ..format.schema import Schema
from ..inspection.cells_of_row import cells_of_row
from ..inspection.example_cells import is_picture
from ..inspection.sorting import sorted_rows
from ..loading.samples import SampleReader
from ..parts.part_set import PartSet

__all__ = ["ChosenRows", "Looking"]

_TRIED: Final = 12  # rows that are looked at for pictures
_KEPT: Final = 4  # answers to conditions
_SORTED: Final = 2  # orders that are kept
_FIRST_SORTED: Final = (
    10_000  # rows that are put in order at first; sixteen times as many whenever that is too few
)
_TABLE_COLUMNS: Final = 40
_TABLE_TEXTS: Final = 4  # columns of text and objects, whose cells are read one by one
_TEXT_CHARACTERS: Final = 4_000_000  # that are read for a page of rows, and a row more

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class ChosenRows:
    """Rows that meet a condition: how many, and the numbers of those on a page."""

    count: int
    first: int
    rows: Rows


class Looking:
    """A dataset, and what has been asked of it lately. Thread-safe."""

    def __init__(self, path: Any) -> None:
        self.path = path
        self.ds: UniRecordDataset[Any] = UniRecordDataset(path)
        self.parts: PartSet = self.ds._cursor.plan.data.parts
        self.schema: Schema = self.ds.schema
        self.scalars: list[tuple[int, Column]] = list(self.schema.scalars)[:_TABLE_COLUMNS]
        blobs = [column for column in self.schema if column.type in ("text", "object") and not column.shape]
        room = max(_TABLE_COLUMNS - len(self.scalars), 1)
        self.texts: list[Column] = blobs[: min(room, _TABLE_TEXTS)]
        self.more_scalars: int = (
            len(list(self.schema.scalars)) - len(self.scalars) + len(blobs) - len(self.texts)
        )
        self._values = SampleReader(self.parts, self.scalars)
        self._lock = threading.Lock()
        self._views: OrderedDict[str, UniRecordDataset[Any]] = OrderedDict()
        self._orders: OrderedDict[tuple[str, str, bool], Rows] = OrderedDict()
        self.pictures: list[int] = self._picture_columns()

    def close(self) -> None:
        """Close the dataset; nothing may be asked afterwards."""
        self.ds.close()

    def _picture_columns(self) -> list[int]:
        """Ordinals of the columns with a picture in one of some evenly spaced rows."""
        bytes_columns = [column.name for column in self.schema if column.type == "bytes" and not column.shape]
        there = self.ds._cursor.plan.order.selection
        wanted = min(len(there), _TRIED)
        rows = there.row_ids(np.array([place * len(there) // wanted for place in range(wanted)], np.int64))
        found = [cells_of_row(self.parts, bytes_columns, row) for row in rows.tolist()]
        return [
            self.schema.ordinal(name)
            for name in bytes_columns
            if any(is_picture(cells[name]) for cells in found)
        ]

    def view(self, where: str) -> UniRecordDataset[Any]:
        """The rows that meet a condition, as a dataset; QueryError for a wrong condition."""
        with self._lock:
            return self._view(where)

    def _view(self, where: str) -> UniRecordDataset[Any]:
        if not where:
            return self.ds
        if where not in self._views:
            self._views[where] = self.ds.view(where=where)
        self._views.move_to_end(where)
        while len(self._views) > _KEPT:
            self._views.popitem(last=False)
        return self._views[where]

    def chosen(self, where: str, sort: str, down: bool, first: int, count: int) -> ChosenRows:
        """``count`` rows from the ``first`` on, of those that meet the condition, by a column or by their numbers."""
        with self._lock:
            selection = self._view(where)._cursor.plan.order.selection
            total = len(selection)
            first = min(first, (max(0, total - 1) // count) * count)
            stop = min(first + count, total)
            if not sort:
                return ChosenRows(total, first, selection.row_ids(np.arange(first, stop, dtype=np.int64)))
            return ChosenRows(total, first, self._ordered(where, sort, down, stop)[first:stop])

    def place(self, where: str, sort: str, down: bool, at: int) -> int | None:
        """The row at a place among those that `chosen` gives; None where there is no such place."""
        with self._lock:
            selection = self._view(where)._cursor.plan.order.selection
            if not 0 <= at < len(selection):
                return None
            if not sort:
                return int(selection.row_ids(np.array([at], np.int64))[0])
            return int(self._ordered(where, sort, down, at + 1)[at])

    def _ordered(self, where: str, sort: str, down: bool, stop: int) -> Rows:
        """The rows by a column, at least the first ``stop`` of them."""
        key = (where, sort, down)
        selection = self._view(where)._cursor.plan.order.selection
        ready = self._orders.get(key)
        if ready is None or len(ready) < stop:
            most = _FIRST_SORTED
            while most < stop:
                most *= 16
            rows = None if selection.is_all else selection.every()
            self._orders[key] = sorted_rows(self.parts, rows, [(sort, down)], min(most, len(selection)))
        self._orders.move_to_end(key)
        while len(self._orders) > _SORTED:
            self._orders.popitem(last=False)
        return self._orders[key]

    def values(self, rows: Rows) -> list[dict[str, Any]]:
        """The scalar columns of rows, from the index; of damaged ones what is said in place of their values."""
        if not self.scalars:
            return [{} for _ in rows]
        try:
            return self._values.many(np.ascontiguousarray(rows, np.int64))
        except CorruptionError:
            names = [column.name for _, column in self.scalars]
            return [cells_of_row(self.parts, names, row) for row in rows.tolist()]

    def beginnings(self, rows: Rows) -> list[dict[str, Any]]:
        """The columns of text and objects of rows; of damaged ones what is said in place of their values."""
        names = [column.name for column in self.texts]
        found: list[dict[str, Any]] = []
        left = _TEXT_CHARACTERS
        for row in rows.tolist():
            if not names or left <= 0:
                found.append(dict.fromkeys(names, "(open the row to see it)"))
                continue
            found.append(cells_of_row(self.parts, names, row))
            left -= sum(len(value) if isinstance(value, str) else 1_000 for value in found[-1].values())
        return found

    def is_there(self, row: int) -> bool:
        """Whether there is a row of this number, which has not been deleted."""
        there = self.ds._cursor.plan.order.selection
        return 0 <= row < self.parts.rows and bool(there.holds(np.array([row], np.int64))[0])
