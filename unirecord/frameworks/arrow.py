"""Rows as Arrow: scalar columns as a table from the index alone, any columns as a stream of record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..columns.scalars import scalar_arrays
from ..order.selection import Selection
from ..parts.part_set import PartSet
from .arrow_values import arrow_array, arrow_schema

if TYPE_CHECKING:
    import pyarrow

    from ..dataset.dataset import UniRecordDataset

__all__ = ["to_arrow", "to_batches"]

_BATCH_BYTES = 8 << 20
_BATCH_ROWS = 1 << 16


def to_arrow(parts: PartSet, selection: Selection, names: Sequence[str]) -> pyarrow.Table:
    """The columns as a table; arrays are shared with the mapped index, strings and bools are copied."""
    import pyarrow

    arrays = {}
    for name, values in scalar_arrays(parts, names, selection).items():
        if parts.schema[name].is_string:
            arrays[name] = pyarrow.array(values, pyarrow.string())
        elif isinstance(values, np.ma.MaskedArray):
            arrays[name] = pyarrow.array(values.data, mask=np.ma.getmaskarray(values))
        else:
            arrays[name] = pyarrow.array(values)
    return pyarrow.table(arrays)


def to_batches(ds: UniRecordDataset, batch_size: int | None, row_bytes: float) -> pyarrow.RecordBatchReader:
    """All rows of a dataset in its order, read ahead by C threads; ``row_bytes`` of an average row sizes the batches.

    docs/query.md has the Arrow type of each column.
    """
    import pyarrow

    if batch_size is None:
        batch_size = max(1, min(_BATCH_ROWS, int(_BATCH_BYTES / max(row_bytes, 1.0))))
    columns = [ds.schema[name] for name in ds.column_names]
    schema = arrow_schema(columns)
    loader = ds.batches(batch_size)  # refuses a wrong size now, not at the first batch

    def batches() -> Iterator[pyarrow.RecordBatch]:
        for batch in loader:
            arrays = [arrow_array(column, batch[column.name]) for column in columns]
            yield pyarrow.RecordBatch.from_arrays(arrays, schema=schema)

    return pyarrow.RecordBatchReader.from_batches(schema, batches())
