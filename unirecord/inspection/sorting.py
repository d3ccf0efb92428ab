"""Puts chosen rows in the order of scalar columns, and picks rows at random, from the index alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..columns.ordered import text_ranks
from ..core import Order
from ..order.spec import OrderSpec
from ..parts.part_set import PartSet
from ..query.tree import Field
from .chunks import Rows, chunks, scalar_field


def sorted_rows(
    parts: PartSet, rows: Rows | None, keys: Sequence[tuple[str, bool]], most: int | None = None
) -> Rows:
    """``rows`` (None: all) by columns, each (name, descending); NaN after numbers, nulls last, equals by row.

    Only the first ``most`` of them, if given.
    """
    ranks = [_ranks(parts, scalar_field(parts.schema, name), rows, descending) for name, descending in keys]
    numbers = np.arange(parts.rows, dtype=np.int64) if rows is None else rows
    if most is not None and most < len(numbers) // 4:  # rows beyond by the first column alone are out
        places = _least(*ranks[0], most)
        ranks = [(values[places], last[places]) for values, last in ranks]
        numbers = numbers[places]
    columns = [column for values, last in reversed(ranks) for column in (values, last)]
    found: Rows = numbers[np.lexsort(columns)]
    return found if most is None else found[:most]


def _least(values: NDArray[Any], last: NDArray[np.uint8], most: int) -> NDArray[np.int64]:
    """Places of the least values, at least ``most`` of them, all that equal the greatest of these included."""
    proper = np.flatnonzero(last == 0)
    if len(proper) <= most:
        return np.arange(len(values))
    bound = np.partition(values[proper], most)[most]
    found: NDArray[np.int64] = proper[values[proper] <= bound]
    return found


def _ranks(
    parts: PartSet, field: Field, rows: Rows | None, descending: bool
) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Numbers that sort like the values, and 1 for NaN or 2 for null, which come after them all."""
    texts = text_ranks(parts, field.ordinal, rows) if field.type == "string" else None
    read = 0
    values, last = [], []
    for chunk in chunks(parts, rows):
        if texts is not None:
            found = texts[read : read + len(chunk)]
            read += len(chunk)
        else:
            found = chunk.fields.values(field, chunk.at)
            found = found.view(np.uint8) if found.dtype == np.bool_ else found
        nan = found != found
        late = np.where(chunk.valid(field), nan.astype(np.uint8), np.uint8(2))
        values.append(np.where(late > 0, found.dtype.type(0), found))
        last.append(late)
    joined: NDArray[Any] = np.concatenate(values) if values else np.empty(0)
    if descending:
        joined = -joined if joined.dtype.kind == "f" else ~joined
    return joined, np.concatenate(last) if last else np.empty(0, np.uint8)


def sampled_rows(rows: Rows | None, total: int, count: int, seed: int) -> Rows:
    """``count`` of the rows (None: of [0, total)), picked at random without repeats, as ``seed`` says; ascending."""
    length = total if rows is None else len(rows)
    if count >= length:
        return np.arange(total, dtype=np.int64) if rows is None else rows
    spec = OrderSpec.parse(True, seed, 0, 1, 1)
    places = np.sort(Order(length, spec).range(0, 1, count))
    return places if rows is None else rows[places]
