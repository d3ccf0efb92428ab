"""Arguments of the functions of frameworks: datasets and drawn batches, and the names of masks."""

from __future__ import annotations

from ..dataset.batch_loader import Batchable
from ..dataset.dataset import UniRecordDataset
from ..errors import SchemaError

__all__ = [
    "check_dataset",
    "check_readable",
    "check_valid_names",
]


# The names under which frameworks get the masks of nullable columns: refused where a column has one
# already.


def check_valid_names(ds: Batchable) -> None:
    """SchemaError where the mask ``x_valid`` of a nullable column ``x`` would hide a column ``x_valid``."""
    columns = ds.read_cursor.plan.data.sample_columns
    names = {column.name for column in columns}
    for name in (column.name for column in columns if column.nullable):
        if f"{name}_valid" in names:
            raise SchemaError(
                f"column {name!r} is nullable, and its mask would have the name of the column {name + '_valid'!r}: "
                "choose one of the two with columns=[...], or read both with ds.batches()"
            )


# What a framework is given: a dataset, or batches that have been drawn of one.


def check_readable(ds: object, call: str) -> None:
    """TypeError for what neither is a dataset nor has been drawn of one."""
    if not isinstance(ds, Batchable):
        raise TypeError(
            f"{call}() takes a UniRecordDataset, not {ds!r}: {call}(UniRecordDataset(path), batch_size)"
        )


def check_dataset(ds: object, instead: str) -> None:
    """TypeError for what is no dataset, and for drawn batches, with what their user can do ``instead``."""
    if isinstance(ds, UniRecordDataset):
        return
    if isinstance(ds, Batchable):
        raise TypeError(f"samples of a dataset are taken here, and these batches have been drawn: {instead}")
    raise TypeError(f"expected a UniRecordDataset, got {ds!r:.100}: open one with UniRecordDataset(path)")
