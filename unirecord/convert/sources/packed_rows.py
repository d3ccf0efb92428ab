"""Rows that lie one behind another: ranges of them by where each ends, and the cells of one by their sizes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from ...errors import SchemaError

__all__ = ["CellField", "add_cells", "cut_cells", "ranges"]


class CellField(Protocol):
    """A field whose type shows as its cells come."""

    @property
    def name(self) -> str:
        """What the file calls it."""

    def add(self, cell: memoryview, row: int) -> None:
        """Take a cell into account; `ValueError` says why it cannot be one."""


def ranges(
    ends: Any, most_bytes: int, first: int = 0, stop: int | None = None, most_rows: int | None = None
) -> Iterator[tuple[int, int]]:
    """Yield (first row, row after the last) of ranges of at most ``most_bytes`` and ``most_rows``, but a row at least.

    ``ends``: where each row begins, then where the last ends (int64, ascending); the ranges cover ``first`` to
    ``stop``, by default all.
    """
    end = len(ends) - 1 if stop is None else stop
    while first < end:
        last = int(np.searchsorted(ends, ends[first] + most_bytes, "right")) - 1
        last = min(max(last, first + 1), end)
        if most_rows is not None:
            last = min(last, first + most_rows)
        yield first, last
        first = last


def cut_cells(row: memoryview, sizes: Sequence[int | None], where: str) -> list[memoryview]:
    """Return the cells of a row: it begins with the sizes (uint32) of those whose ``sizes`` is None, then come all."""
    at = 4 * sum(size is None for size in sizes)
    if at > len(row):
        raise SchemaError(f"{where} is damaged: the sizes of its cells are cut off")
    given = iter(struct.unpack_from(f"<{at // 4}I", row))
    found = []
    for size in sizes:
        length = next(given) if size is None else size
        found.append(row[at : at + length])
        at += length
    if at != len(row):
        raise SchemaError(f"{where} is damaged: {len(row):,} bytes where its cells say {at:,}")
    return found


def add_cells(fields: Sequence[CellField], cells: Sequence[memoryview], row: int, where: str) -> None:
    """Take the cells of a row into account, a field each; `SchemaError` names the one that cannot be read."""
    for field, cell in zip(fields, cells, strict=True):
        try:
            field.add(cell, row)
        except ValueError as error:
            raise SchemaError(f"{where}, column {field.name!r}: {error}") from None
