"""The step by which rows that do not fit are left out; and what a source leaves out as an error."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ...errors import SchemaError
from ...format.schema import Schema
from ...format.values import RecordEncoder
from ..sources.base import LeftOut, RawBatch, Unit
from ..sources.convert import Misfit
from .base import Change, Places, Step, chosen_rows

__all__ = ["LeaveOutMisfits", "refuse_left_out"]


class LeaveOutMisfits(Step):
    """Leaves out the rows whose values are not of the types of their columns."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def begin(self, unit: Unit, places: Places) -> Change:
        """Encodes each batch, and where that fails each row."""
        encoder = RecordEncoder(self._schema)

        def keep(batch: RawBatch) -> RawBatch:
            try:
                encoder.encode_batch(batch.columns, 0)
            except SchemaError:
                misfits = self._misfits(batch)
            else:
                return batch
            fitting = np.array([i for i in range(batch.rows) if i not in misfits], np.int64)
            found = zip(places(unit, batch, list(misfits)), misfits.values(), strict=True)
            left_out = (
                LeftOut(at.name, why.reason if isinstance(why, Misfit) else at.why(why)) for at, why in found
            )
            return chosen_rows(batch, fitting, tuple(left_out))

        return keep

    def _misfits(self, batch: RawBatch) -> dict[int, Misfit | str]:
        """The rows that do not fit, and why: what the source has noticed, or what the encoder says of each alone."""
        encoder = RecordEncoder(self._schema)
        found: dict[int, Misfit | str] = {}
        for i in range(batch.rows):
            record = {column: batch.columns[column][i] for column in self._schema.names}
            misfit = next((value for value in record.values() if isinstance(value, Misfit)), None)
            if misfit is not None:
                found[i] = misfit
                continue
            try:
                encoder.add(record, 0)
            except SchemaError as error:
                found[i] = str(error)
            encoder.clear()
        return found


def refuse_left_out(left_out: Iterable[LeftOut]) -> None:
    """Raise `SchemaError` about the first that was meant to be in the dataset."""
    for one in left_out:
        if not one.expected:
            raise SchemaError(f"{one.name}: {one.reason}; --on-error skip leaves it out")
