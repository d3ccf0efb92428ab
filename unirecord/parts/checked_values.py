"""Looks whether what was read of parts can be values of its columns: digests only say that it is what was written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..format.column import Column
from ..format.value_rules import (
    BROKEN,
    NO_TEXT,
    NULL_WITH_BYTES,
    Values,
    broken_scalars,
    filled_nulls,
    no_texts,
    no_values,
    takes_any_bytes,
)
from .part_set import ColumnResult, PartSet

__all__ = ["check_values", "refuse_value"]


def check_values(
    parts: PartSet, rows: NDArray[np.int64], found: Sequence[ColumnResult], *, blobs: bool = True
) -> None:
    """CorruptionError where ``found``, all columns of these rows, holds what is no value; it names the first one.

    ``blobs``: whether those of blob columns are looked at, too; not where they are decoded anyway.
    """
    for column, one in zip(parts.schema, found, strict=True):
        if column.is_blob and not blobs:
            continue
        for what, wrong in _problems(column, one, len(rows)):
            if len(wrong):
                path, row = parts.locate(int(rows[wrong[0]]))
                raise refuse_value(path, row, column.name, what)


def refuse_value(path: str, row: int, column: str, what: str) -> CorruptionError:
    """The error of who was to write this value anew."""
    return CorruptionError(
        f"{path}: row {row} of this part, column {column!r}: {what}, so nothing was published: `unirecord repair` "
        "keeps the other rows; or delete what `unirecord verify` lists and run `unirecord compact --drop-deleted`",
        path=path,
        row=row,
    )


def _problems(column: Column, found: ColumnResult, rows: int) -> Iterator[tuple[str, NDArray[np.intp]]]:
    if column.is_blob:
        yield from _blob_problems(column, found, rows)
        return
    values = found.data
    if column.is_string:
        assert found.offsets is not None
        values = np.diff(found.offsets)
        yield NO_TEXT, no_texts(values, found.data)
    yield BROKEN, broken_scalars(column, values, found.valid)


def _blob_problems(column: Column, found: ColumnResult, rows: int) -> Iterator[tuple[str, NDArray[np.intp]]]:
    if found.valid is None and takes_any_bytes(column):
        return
    data = np.ascontiguousarray(found.data).reshape(-1).view(np.uint8)
    starts = (
        np.arange(rows, dtype=np.int64) * column.fixed_bytes if found.offsets is None else found.offsets[:-1]
    )
    sizes = np.full(rows, column.fixed_bytes, np.int64) if found.offsets is None else np.diff(found.offsets)

    def some(chosen: NDArray[np.intp]) -> Values:
        return Values(chosen, data, starts[chosen], sizes[chosen], np.ones(len(chosen), bool))

    if found.valid is not None:
        yield NULL_WITH_BYTES, filled_nulls(column, some(np.flatnonzero(~found.valid)))
    there = np.arange(rows) if found.valid is None else np.flatnonzero(found.valid)
    yield f"the bytes are no value of {column}", no_values(column, some(there))
