"""Arguments of the functions of frameworks: datasets and drawn batches, sizes, names of masks, options of loaders."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dataset.dataset import UniRecordDataset
from ..dataset.draws import DrawnBatches
from ..errors import SchemaError
from ..loading.loader import LoaderOptions

if TYPE_CHECKING:
    from ..loading.loader import ReadAhead

__all__ = [
    "batch_options",
    "check_batch_size",
    "check_dataset",
    "check_valid_names",
]


# The names under which frameworks get the masks of nullable columns: refused where a column has one
# already.


def check_valid_names(ds: UniRecordDataset[Any] | DrawnBatches) -> None:
    """SchemaError where the mask ``x_valid`` of a nullable column ``x`` would hide a column ``x_valid``."""
    columns = ds.read_cursor.plan.data.sample_columns
    names = {column.name for column in columns}
    for name in (column.name for column in columns if column.nullable):
        if f"{name}_valid" in names:
            raise SchemaError(
                f"column {name!r} is nullable, and its mask would have the name of the column {name + '_valid'!r}: "
                "choose one of the two with columns=[...], or read both with ds.batches()"
            )


# What a framework is given: a dataset, or batches that have been drawn of one, and options of a loader.


def check_dataset(ds: object, instead: str) -> None:
    """TypeError for what is no dataset, and for drawn batches, with what their user can do ``instead``."""
    if isinstance(ds, DrawnBatches):
        raise TypeError(f"samples of a dataset are taken here, and these batches have been drawn: {instead}")
    if not isinstance(ds, UniRecordDataset):
        raise TypeError(f"expected a UniRecordDataset, got {ds!r:.100}: open one with UniRecordDataset(path)")


def check_batch_size(
    ds: UniRecordDataset[Any] | DrawnBatches, batch_size: int | None, instead: str = ""
) -> None:
    """ValueError where drawn batches are given a size, TypeError where a dataset is given none."""
    if isinstance(ds, DrawnBatches):
        if batch_size is not None:
            raise ValueError(
                f"batch_size={batch_size}: these batches have been drawn, and have the size that they have"
            )
    elif batch_size is None:
        raise TypeError(f"give a batch_size{instead}: how many samples a batch has")


def batch_options(
    ds: UniRecordDataset[Any] | DrawnBatches,
    batch_size: int | None,
    transform: Callable[[Any], Any] | None,
    collate_fn: Callable[[list[Any]], Any] | None,
    read_ahead: ReadAhead,
    instead: str = "",
) -> LoaderOptions:
    """The options; ValueError where drawn batches are given a size, TypeError where a dataset is given none."""
    check_batch_size(ds, batch_size, instead)
    if isinstance(ds, DrawnBatches):
        return ds._loader_options(transform, collate_fn, None, **read_ahead)
    assert batch_size is not None
    return LoaderOptions(
        batch_size, transform=transform, collate_fn=collate_fn, on_corrupt=ds.on_corrupt, **read_ahead
    )
