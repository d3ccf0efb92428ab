"""Options of a framework's loader: of batches of a dataset, or of those that have been drawn of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dataset.dataset import UniRecordDataset
from ..dataset.drawn_batches import DrawnBatches
from ..loading.options import LoaderOptions

if TYPE_CHECKING:
    from ..loading.options import ReadAhead

__all__ = ["batch_options"]


def batch_options(
    ds: UniRecordDataset[Any] | DrawnBatches,
    batch_size: int | None,
    transform: Callable[[Any], Any] | None,
    collate_fn: Callable[[list[Any]], Any] | None,
    read_ahead: ReadAhead,
    instead: str = "",
) -> LoaderOptions:
    """The options; ValueError where drawn batches are given a size, TypeError where others are given none."""
    if isinstance(ds, DrawnBatches):
        if batch_size is not None:
            raise ValueError(
                f"batch_size={batch_size}: these batches have been drawn, and have the size that they have"
            )
        return ds._loader_options(transform, collate_fn, None, **read_ahead)
    if batch_size is None:
        raise TypeError(f"loader() needs a batch_size{instead}")
    return LoaderOptions(
        batch_size, transform=transform, collate_fn=collate_fn, on_corrupt=ds.on_corrupt, **read_ahead
    )
