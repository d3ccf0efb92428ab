"""The step by which rows that do not fit are left out; and what a source leaves out as an error."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...format.values import RecordEncoder
from ..sources.base import LeftOut, RawBatch, Unit
from ..sources.convert import Misfit
from .base import Change, Step, chosen_rows

__all__ = ["LeaveOutMisfits", "refuse_left_out"]


class LeaveOutMisfits(Step):
    """Leaves out the rows whose values are not of the types of their columns."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def begin(self, unit: Unit) -> Change:
        """Encodes each batch, and where that fails each row."""
        encoder = RecordEncoder(self._schema)
        first = 0

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal first
            number, first = first, first + batch.rows
            try:
                encoder.encode_batch(batch.columns, number)
            except SchemaError:
                return self._fitting(batch, number, unit.name)
            return batch

        return keep

    def _fitting(self, batch: RawBatch, first: int, name: str) -> RawBatch:
        encoder = RecordEncoder(self._schema)
        places, left_out = [], []
        for i in range(batch.rows):
            record = {column: batch.columns[column][i] for column in self._schema.names}
            misfit = next((value for value in record.values() if isinstance(value, Misfit)), None)
            if misfit is not None:
                left_out.append(LeftOut(name, misfit.reason))
                continue
            try:
                encoder.add(record, first + i)
            except SchemaError as error:
                left_out.append(LeftOut(name, str(error)))
            else:
                places.append(i)
            encoder.clear()
        return chosen_rows(batch, np.array(places, np.int64), tuple(left_out))


def refuse_left_out(left_out: Iterable[LeftOut]) -> None:
    """Raise `SchemaError` about the first that was meant to be in the dataset."""
    for one in left_out:
        if not one.expected:
            raise SchemaError(f"{one.name}: {one.reason}; --on-error skip leaves it out")
