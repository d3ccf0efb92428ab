"""A hash of each row, of its values in some columns alone: the same in any file, batch, process and order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...core.digests import digest_ranges
from ...format.schema import Schema
from ...format.values import ColumnData, RecordEncoder
from ..sources.base import RawBatch
from .mixing import mixed

__all__ = ["RowHash", "cells_of"]


class RowHash:
    """Hashes the rows of batches by these columns of a schema."""

    def __init__(self, schema: Schema, names: Sequence[str], seed: int) -> None:
        self._names, self._seed = tuple(names), seed
        self._encoder = RecordEncoder(Schema(schema[name] for name in self._names))

    def __call__(self, batch: RawBatch, first: int) -> npt.NDArray[np.uint64]:
        """64 bits for each row; `SchemaError` names the row, counted from ``first``, that does not fit."""
        encoded = self._encoder.encode_batch({name: batch.columns[name] for name in self._names}, first)
        found = np.zeros(batch.rows, np.uint64)
        for column in encoded.columns:
            found = mixed(found ^ _digests(column, batch.rows), self._seed)
            if column.valid is not None:
                found = mixed(found ^ column.valid.astype(np.uint64), self._seed)
        return found


def _digests(column: ColumnData, rows: int) -> npt.NDArray[np.uint64]:
    values: Any = column.values
    if isinstance(values, np.ndarray):
        width = values.nbytes // rows
        lengths = np.full(rows, width, np.uint64)
        data: Any = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    else:
        lengths = np.fromiter(map(len, values), np.uint64, rows)
        data = np.frombuffer(b"".join(values), np.uint8)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.uint64)
    return digest_ranges(data, starts, lengths, 0, 0)


def cells_of(column: ColumnData) -> list[bytes | None]:
    """The values of a column as bytes, None where null."""
    values: Any = column.values
    fixed = isinstance(values, np.ndarray)
    cells = [value.tobytes() for value in values] if fixed else [bytes(value) for value in values]
    if column.valid is None:
        return list(cells)
    return [cell if valid else None for cell, valid in zip(cells, column.valid.tolist(), strict=True)]
