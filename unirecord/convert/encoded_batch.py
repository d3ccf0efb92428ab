"""A batch of a source as what pages store; a value that does not fit is named by its place in the source."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ..errors import SchemaError
from ..format.schema import Schema
from ..format.values import ColumnBatch, RecordEncoder
from .sources.base import RawBatch, Source, Unit
from .steps.base import chosen_rows

__all__ = ["encoded_batch"]

_FIRST: Final = re.compile(r"(?:batch at )?row 0(?:, |: )")


def encoded_batch(
    encoder: RecordEncoder, schema: Schema, source: Source, unit: Unit, batch: RawBatch, first: int
) -> ColumnBatch:
    """Return the columns of ``schema``; ``first`` is the number of the batch's first row in its unit.

    Raises `SchemaError` that names file and line, or unit and row, of the first row that does not fit.
    """
    columns = {name: batch.columns[name] for name in schema.names}
    try:
        return encoder.encode_batch(columns, first)
    except SchemaError as error:
        row, text = _refused(encoder, RawBatch(columns, batch.rows)) or (None, str(error))
    if row is None:
        raise SchemaError(f"{unit.name}: {text}")
    number = first + row if batch.numbers is None else int(batch.numbers[row])
    raise SchemaError(f"{source.place_of(unit, number)}, {_FIRST.sub('', text, count=1)}")


def _refused(encoder: RecordEncoder, batch: RawBatch) -> tuple[int, str] | None:
    """The first row that is refused by itself, and why; None where only all together are."""
    start, stop = 0, batch.rows
    while start < stop:
        middle = (start + stop) // 2 if stop - start > 1 else stop
        try:
            encoder.encode_batch(chosen_rows(batch, np.arange(start, middle)).columns, 0)
        except SchemaError as error:
            if middle - start == 1:
                return start, str(error)
            stop = middle
        else:
            start = middle
    return None
