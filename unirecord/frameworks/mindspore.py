"""MindSpore: a shard as a GeneratorDataset whose rows are batches, read ahead by C threads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SchemaError
from ..format.column import Column
from ..format.meaning import as_stored
from ..migration_hints import READING_ARGUMENTS, explains_arguments
from .arguments import check_dataset, check_valid_names
from .array_trees import filled_and_valid

if TYPE_CHECKING:
    import mindspore.dataset

    from ..dataset.dataset import UniRecordDataset
    from ..loading.boxes import Crop

__all__ = ["dataset"]


@explains_arguments(READING_ARGUMENTS)
def dataset(
    ds: UniRecordDataset,
    batch_size: int,
    *,
    drop_last: bool = False,
    prefetch: int | None = None,
    num_threads: int | None = None,
    crops: Mapping[str, Crop] | None = None,
    return_places: bool = False,
) -> mindspore.dataset.GeneratorDataset:
    """A dataset's shard as a ``mindspore.dataset.GeneratorDataset``; each of its rows is a batch.

    Its columns are those of the dataset, arrays [batch, …] of their types; strings and text are arrays of ``str``,
    bfloat16 the uint16 of its bits. A nullable column ``x`` comes with ``x_valid`` (bool [batch]); where that is False,
    ``x`` is NaN, 0 or "". Each complete pass is followed by the next epoch; ``ds.set_epoch`` chooses one. ``crops`` and
    ``return_places`` are as for ``UniRecordDataset.batches``.

    Raises:
        ValueError: the dataset has a transform, which would not be called: use ``.map()`` on what is returned.
        SchemaError: a column has no form in MindSpore (bytes, objects, complex numbers, arrays with free dimensions).
    """
    check_dataset(ds, "mindspore.dataset.GeneratorDataset takes drawn.batches() as it is, once an epoch")
    from mindspore.dataset import GeneratorDataset

    if ds.transform is not None:
        raise ValueError(
            "the dataset has a transform, which a GeneratorDataset would not call: use "
            "unirecord.mindspore.dataset(ds.view(transform=None), …), and .map() on what it gives"
        )
    check_valid_names(ds)
    ds.read_cursor.refuse_skipped_slots("MindSpore")
    columns = list(ds.read_cursor.plan.data.batch_columns(crops, return_places))
    for column in columns:
        _check_form(column)
    options = {
        "drop_last": drop_last,
        "prefetch": prefetch,
        "num_threads": num_threads,
        "crops": crops,
        "return_places": return_places,
    }
    ds.batches(batch_size, **options)  # type: ignore[call-overload]  # refuses wrong options now
    names = [name for column in columns for name in _names(column)]
    source = _Batches(ds, columns, batch_size, options)
    return GeneratorDataset(
        source, names, shuffle=False, num_parallel_workers=1, python_multiprocessing=False
    )


def _check_form(column: Column) -> None:
    column.check_known()
    text = column.type in ("string", "text") and not column.is_array
    if not text and (column.fixed_bytes == 0 or column.type.startswith("complex")):
        raise SchemaError(
            f"column {column.name!r} is {column.spec!r}, which MindSpore has no form for: leave it out with "
            "columns=[...], or convert it in a pipeline, and give its batches to a GeneratorDataset as tuples of arrays"
        )


def _names(column: Column) -> tuple[str, ...]:
    return (column.name, f"{column.name}_valid") if column.nullable else (column.name,)


class _Batches:
    """What MindSpore iterates over; it may begin passes that it leaves, to see types and shapes."""

    def __init__(
        self, ds: UniRecordDataset, columns: list[Column], batch_size: int, options: dict[str, Any]
    ) -> None:
        self._ds = ds
        self._columns = columns
        self._batch_size = batch_size
        self._options = options

    def __len__(self) -> int:
        samples, size = len(self._ds), self._batch_size
        return samples // size if self._options["drop_last"] else -(-samples // size)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        view = self._ds.view()
        epoch = view.epoch
        view.read_cursor.refuse_skipped_slots("MindSpore")
        for batch in view.batches(self._batch_size, **self._options):
            yield tuple(part for column in self._columns for part in _parts(column, batch[column.name]))
        if self._ds.epoch == epoch:
            self._ds.set_epoch(epoch + 1)


def _parts(column: Column, values: Any) -> tuple[Any, ...]:
    """The arrays of a column of a batch, and its mask."""
    if column.type in ("string", "text") and not column.is_array:
        texts = list(values)
        if any(text is not None and text.endswith("\0") for text in texts):
            raise ValueError(
                f"column {column.name!r}: a text ends with a zero character, which numpy's arrays of str, and so "
                "MindSpore, would leave out"
            )
        array = np.array([text or "" for text in texts], np.str_)
        return (array, np.array([text is not None for text in texts])) if column.nullable else (array,)
    if isinstance(values, np.ma.MaskedArray):
        return filled_and_valid(values)
    return (as_stored(values),)
