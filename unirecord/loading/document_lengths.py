"""How many elements the value of each selected row has, from the index alone, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from ..columns.part_columns import PartColumns, columns_of
from ..errors import CorruptionError
from ..format.column import Column
from ..order.selection import Selection
from ..parts.part_set import PartSet

__all__ = ["document_lengths"]

Numbers = NDArray[np.int64]


def document_lengths(parts: PartSet, column: str, selection: Selection, size: int) -> Iterator[Numbers]:
    """Elements of ``size`` bytes of the selected rows, in their order. CorruptionError where one is cut in two."""
    ordinal = parts.schema.ordinal(column)
    stored = parts.schema.columns[ordinal]
    for _, rows in selection.pieces():
        if stored.fixed_bytes:
            yield np.full(len(rows), stored.fixed_bytes // size, np.int64)
            continue
        lengths, left = np.divmod(_value_bytes(parts, ordinal, rows), size)
        if left.any():
            path, row = parts.locate(int(rows[np.flatnonzero(left)[0]]))
            raise _cut(path, row, stored)
        yield lengths


def _cut(path: str, row: int, column: Column) -> CorruptionError:
    message = f"{path}: row {row}, column {column.name!r}: its bytes are no whole number of {column.spec!r} elements"
    return CorruptionError(message, path=path, row=row, column=column.name)


def _value_bytes(parts: PartSet, ordinal: int, rows: Numbers) -> Numbers:
    every = cast("Sequence[PartColumns]", columns_of(parts))
    starts: Numbers = parts.starts
    if len(rows) and int(rows[-1]) - int(rows[0]) == len(rows) - 1 and bool(np.all(np.diff(rows) == 1)):
        first, stop = int(rows[0]), int(rows[-1]) + 1
        low, high = (np.searchsorted(starts, [first, stop - 1], side="right") - 1).tolist()
        found = [
            every[number].value_lengths(ordinal).span(max(first - base, 0), min(stop, end) - base)
            for number, base, end in zip(
                range(low, high + 1), starts[low:].tolist(), starts[low + 1 :].tolist(), strict=False
            )
            if base < end
        ]
        return np.concatenate(found).astype(np.int64)
    lengths = np.empty(len(rows), np.int64)
    number_of = np.searchsorted(starts, rows, side="right") - 1
    for number in np.unique(number_of).tolist():
        chosen = np.flatnonzero(number_of == number)
        lengths[chosen] = every[number].value_lengths(ordinal).at(rows[chosen] - starts[number])
    return lengths
