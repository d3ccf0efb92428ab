"""The names under which frameworks get the masks of nullable columns: refused where a column has one already."""

from __future__ import annotations

from typing import Any

from ..dataset.dataset import UniRecordDataset
from ..dataset.draws import DrawnBatches
from ..errors import SchemaError

__all__ = ["check_valid_names"]


def check_valid_names(ds: UniRecordDataset[Any] | DrawnBatches) -> None:
    """SchemaError where the mask ``x_valid`` of a nullable column ``x`` would hide a column ``x_valid``."""
    columns = ds._cursor.plan.data.sample_columns
    names = {column.name for column in columns}
    for name in (column.name for column in columns if column.nullable):
        if f"{name}_valid" in names:
            raise SchemaError(
                f"column {name!r} is nullable, and its mask would have the name of the column {name + '_valid'!r}: "
                "choose one of the two with columns=[...], or read both with ds.batches()"
            )
