"""The values of batches as they will be stored, for what tells rows apart by them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...format.schema import Schema
from ...format.values import ColumnData, RecordEncoder
from ...order.split import Cells
from ..sources.base import RawBatch

__all__ = ["RowCells", "cells_of"]


class RowCells:
    """Encodes these columns of a schema."""

    def __init__(self, schema: Schema, names: Sequence[str]) -> None:
        self._names = tuple(names)
        self._encoder = RecordEncoder(Schema(schema[name] for name in self._names))

    def __call__(self, batch: RawBatch, first: int) -> list[Cells]:
        """Each column of a batch; `SchemaError` names the row, counted from ``first``, that does not fit."""
        encoded = self._encoder.encode_batch({name: batch.columns[name] for name in self._names}, first)
        return [cells_of(column) for column in encoded.columns]


def cells_of(column: ColumnData) -> Cells:
    """The values of an encoded column."""
    values: Any = column.values
    if isinstance(values, np.ndarray):
        return Cells.of_width(values, column.valid)
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return Cells(np.frombuffer(b"".join(values), np.uint8), ends, column.valid)
