"""The rows of a dataset as a source, in another order: shuffled by a seed, or sorted by a column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ..core import Order
from ..format.schema import Schema
from ..order.spec import OrderSpec
from ..progress import Progress
from ..query.ordered import rows_in_order
from ..snapshot.part_set import PartSet, resolve
from .sources.base import LeftOut, Options, RawBatch, Source, Unit
from .sources.stored_dataset import rows_at_once, stored_rows

__all__ = ["RowOrder", "StoredRows"]

_UNIT_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class RowOrder:
    """The order of the rows: by ``sort``, a scalar column, nulls last, equal ones as they come; or by a seed."""

    sort: str | None = None
    shuffle_seed: int | None = None

    def __post_init__(self) -> None:
        if (self.sort is None) == (self.shuffle_seed is None):
            raise ValueError("sort and shuffle_seed exclude each other")
        seed = self.shuffle_seed
        if seed is not None and (type(seed) is not int or not 0 <= seed < 1 << 64):
            raise ValueError(f"shuffle_seed is a number of 64 bits, 0 or more, got {seed!r}")


class StoredRows(Source):
    """The rows of the dataset at ``folder`` in an order, with what is said of ``like``, the source that they are of.

    ``content`` tells this dataset from others. A shuffled order is computed; of a sorted one each process keeps 8 bytes
    a row, and 16 more of numbers while it sorts.
    """

    path: str
    metadata: dict[str, Any] | None
    notes: list[str]

    kind: ClassVar[str] = "rows in order"
    about: ClassVar[str] = "rows of a dataset"

    def __init__(self, folder: str, order: RowOrder, like: Source, content: str) -> None:
        self.path, self.metadata, self.notes = like.path, like.metadata, like.notes
        self.left_out: list[LeftOut] = []
        self._left_out_at_first = ()
        self._folder, self._order = folder, order
        self._opened: tuple[PartSet, Any] | None = None
        self.when_done: Callable[[], None] | None = None
        parts, _ = self._open()
        self.schema: Schema = parts.schema
        step = rows_at_once(parts, _UNIT_BYTES)
        self.units: Sequence[Unit] = [
            Unit(
                f"rows from {start:,} of {self.path} in order",
                (start, content),
                min(step, parts.rows - start),
            )
            for start in range(0, parts.rows, step)
        ]

    def look_through(self, options: Options, progress: Progress | None) -> None:
        """Nothing: a dataset says what it holds."""

    def files(self) -> tuple[str, ...]:
        """None: ``content`` tells of those of ``like``."""
        return ()

    def __getstate__(self) -> dict[str, Any]:
        """All but the open files, and what only this process does at the end."""
        return {**self.__dict__, "_opened": None, "when_done": None}

    def read(self, unit: Unit) -> Iterator[RawBatch]:
        """Yield the rows at a range of places."""
        parts, at = self._open()
        assert unit.rows is not None
        yield stored_rows(parts, at(unit.place[0], unit.rows))

    def done(self) -> None:
        """Close the files, and do what was asked for then."""
        self.close()
        if self.when_done is not None:
            self.when_done()

    def close(self) -> None:
        """Close the files."""
        if self._opened is not None:
            self._opened[0].close()
            self._opened = None

    def _open(self) -> tuple[PartSet, Any]:
        """The parts, and what gives the rows at so many places from one on."""
        if self._opened is None:
            parts = PartSet(resolve(self._folder))
            if self._order.sort is not None:
                order = rows_in_order(parts, self._order.sort)
                self._opened = parts, lambda start, count: order[start : start + count]
            else:
                shuffled = Order(parts.rows, OrderSpec("shuffle", self._order.shuffle_seed or 0))
                self._opened = parts, lambda start, count: shuffled.range(start, 1, count)
        return self._opened
