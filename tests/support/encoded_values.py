"""Values encoded alone, row by row and as a batch, for tests of all three."""

from __future__ import annotations

from typing import Any

import numpy as np

from unirecord.format.schema import Schema
from unirecord.format.values import ColumnBatch, RecordEncoder


def encode_one(spec: Any, value: Any) -> bytes:
    return plain(by_rows(spec, [value]))[1][-1]


def by_rows(spec: Any, values: list[Any]) -> ColumnBatch:
    encoder = RecordEncoder(Schema.parse({"x": spec}))
    for value in values:
        encoder.add({"x": value}, 0)
    return encoder.take()


def by_batch(spec: Any, values: Any, first_row: int = 0) -> ColumnBatch:
    return RecordEncoder(Schema.parse({"x": spec})).encode_batch({"x": values}, first_row)


def plain(batch: ColumnBatch) -> tuple[int, Any, Any]:
    column = batch.columns[0]
    if isinstance(column.values, np.ndarray):
        content: Any = (column.values.dtype, column.values.shape, column.values.tobytes())
    else:
        content = [bytes(cell) for cell in column.values]
    return batch.rows, content, None if column.valid is None else column.valid.tolist()


IMAGE = {"type": "uint8", "shape": [2, 2]}
