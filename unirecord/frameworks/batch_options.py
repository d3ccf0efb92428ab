"""What a framework is given: a dataset, or batches that have been drawn of one, and options of a loader."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dataset.dataset import UniRecordDataset
from ..dataset.draws import DrawnBatches
from ..loading.options import LoaderOptions

if TYPE_CHECKING:
    from ..loading.options import ReadAhead

__all__ = ["batch_options", "check_batch_size", "check_dataset"]


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
