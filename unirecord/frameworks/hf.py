"""Hugging Face datasets: a shard as an IterableDataset of stretches with exact states, or its scalars as a Dataset."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset.dataset import UniRecordDataset
from ..order.spec import check_integer
from .hf_features import feature_array, features_of

if TYPE_CHECKING:
    import datasets

__all__ = ["register", "to_hf", "to_hf_table"]

_SHARDS = 64  # of a dataset that is shuffled or has one part: enough for the workers of a machine


def register() -> None:
    """Adds ``"unirecord"``, and files that end with ``.urec``, to what ``datasets.load_dataset`` knows.

    ``import unirecord.hf`` does so. Options are those of `hf_builder.UnirecordConfig`: ``columns``, ``where``,
    ``features``.
    """
    import inspect

    from datasets import packaged_modules

    from . import hf_builder

    name = "unirecord"
    lines = inspect.getsource(hf_builder).splitlines()
    packaged_modules._PACKAGED_DATASETS_MODULES[name] = (
        hf_builder.__name__,
        packaged_modules._hash_python_lines(lines),
    )
    packaged_modules._EXTENSION_TO_MODULE[".urec"] = (name, {})
    packaged_modules._MODULE_TO_EXTENSIONS[name] = [".urec"]
    packaged_modules._MODULE_TO_METADATA_FILE_NAMES[name] = [hf_builder.MANIFEST]
    packaged_modules._MODULE_TO_METADATA_EXTENSIONS[name] = []
    # Lists that other modules of datasets have taken by name: what is not in them is no data file of a folder, and
    # a manifest that is not metadata is a file of JSON, which wins over as many parts.
    for known, added in (
        (packaged_modules._ALL_EXTENSIONS, ".urec"),
        (packaged_modules._ALL_ALLOWED_EXTENSIONS, ".urec"),
        (packaged_modules._ALL_METADATA_FILENAMES, hf_builder.MANIFEST),
    ):
        if added not in known:
            known.append(added)


def to_hf(ds: UniRecordDataset, num_shards: int | None = None) -> datasets.IterableDataset:
    """A dataset's shard as a ``datasets.IterableDataset``, in the order of its current epoch.

    Its shards, which workers and nodes share out, are stretches of that order: the parts where a dataset of several is
    not shuffled, else ``num_shards`` of equal size. ``set_epoch(n)`` is epoch ``ds.epoch + n``, with the order of that
    epoch, also behind ``take``, ``skip`` and all other methods of ``datasets``; without a shuffle it changes nothing.
    ``state_dict()`` is exact, and loading one, in the epoch in which it was taken, reads nothing that was delivered. A
    transform is not called: use ``.map()`` on what is returned.

    Raises ValueError for a dataset with a transform.
    """
    import datasets

    from .hf_stream import ShardStream, UniRecordExamples

    if ds.transform is not None:
        raise ValueError(
            "the dataset has a transform, which to_hf would not call: its features are not known. "
            "Use ds.view(transform=None).to_hf(), and .map() on what it gives"
        )
    if num_shards is not None:
        check_integer("num_shards", num_shards, 1)
    view = ds.view()
    features = features_of(view._cursor.plan.data.sample_columns)
    examples = UniRecordExamples(view, ds, features, _stretches(view, num_shards))
    stream: datasets.IterableDataset = ShardStream(examples, info=datasets.DatasetInfo(features=features))
    return stream


def to_hf_table(ds: UniRecordDataset) -> datasets.Dataset:
    """The scalar columns of a dataset's shard as an Arrow-backed ``datasets.Dataset``, in the order of its epoch.

    They come from the index alone. Raises ValueError for a dataset with a transform or without scalar columns.
    """
    import datasets
    import pyarrow

    if ds.transform is not None:
        raise ValueError("the dataset has a transform, which a table would not call: ds.view(transform=None)")
    columns = [ds.schema[name] for name in ds.column_names if not ds.schema[name].is_blob]
    if not columns:
        raise ValueError("a table holds scalar columns, and there are none among those of the dataset")
    ds._cursor.refuse_exclusions("a table")
    values = ds.scalars([column.name for column in columns], order="samples")
    features = features_of(columns)
    schema = features.arrow_schema
    arrays = [
        pyarrow.array(values[column.name], pyarrow.string())
        if column.is_string
        else feature_array(column, values[column.name], schema.field(column.name).type)
        for column in columns
    ]
    return datasets.Dataset(pyarrow.Table.from_arrays(arrays, schema=schema))


def _stretches(ds: UniRecordDataset, num_shards: int | None) -> list[tuple[int, int]]:
    """Where the shards begin and end, in samples of this rank's epoch."""
    plan, samples = ds._cursor.plan, len(ds)
    bounds: Any = None
    if num_shards is None and not plan.order.shuffled and ds.num_shards == 1:
        sizes = plan.order.selection.part_rows(plan.data.parts.starts)
        if np.count_nonzero(sizes) > 1:
            bounds = [0, *np.cumsum(sizes[np.flatnonzero(sizes)]).tolist()]
    if bounds is None:
        count = max(1, min(num_shards or _SHARDS, samples))
        bounds = [samples * shard // count for shard in range(count + 1)]
    return list(pairwise(bounds))
