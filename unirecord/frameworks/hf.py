"""Hugging Face datasets: a shard as an IterableDataset of stretches with exact states, or its scalars as a Dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from ..dataset.dataset import UniRecordDataset
from ..loading.loader import BatchMemory, BatchReader
from ..loading.options import LoaderOptions
from ..order.spec import check_integer
from .hf_features import feature_array, features_of

if TYPE_CHECKING:
    import datasets
    import pyarrow

__all__ = ["register", "to_hf", "to_hf_table"]

_TABLE_BYTES = 4 << 20
_TABLE_ROWS = 1000  # what datasets itself reads at a time
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
    epoch; without a shuffle it changes nothing. ``state_dict()`` is exact, and loading one reads nothing that was
    delivered. A transform is not called: use ``.map()`` on what is returned.

    Raises ValueError for a dataset with a transform.
    """
    import datasets

    if ds.transform is not None:
        raise ValueError(
            "the dataset has a transform, which to_hf would not call: its features are not known. "
            "Use ds.view(transform=None).to_hf(), and .map() on what it gives"
        )
    if num_shards is not None:
        check_integer("num_shards", num_shards, 1)
    view = ds.view()
    features = features_of(view._cursor.plan.data.sample_columns)
    stretches = _stretches(view, num_shards)
    examples = _examples(_Tables(view, ds, features), stretches, ds.epoch)
    info = datasets.DatasetInfo(features=features)
    return datasets.IterableDataset(examples, info=info)


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


class _Tables:
    """Stretches of epochs as Arrow tables, read ahead by C threads; picklable, as the dataset is."""

    def __init__(self, ds: UniRecordDataset, given: UniRecordDataset, features: datasets.Features) -> None:
        self._ds = ds
        self._given = given
        self._features = features

    @property
    def shuffled(self) -> bool:
        """Whether epochs differ."""
        return self._ds._cursor.plan.order.shuffled

    def read(self, epoch: int, first: int, last: int) -> Iterator[tuple[int, pyarrow.Table]]:
        """The samples [first, last) of an epoch, each table with the number behind its last sample."""
        import pyarrow

        self._ds._cursor.refuse_later_exclusions(self._given._cursor, "to_hf()")
        plan, schema = self._ds._cursor.plan, self._features.arrow_schema
        columns = plan.data.sample_columns
        size = max(1, min(_TABLE_ROWS, int(_TABLE_BYTES / max(plan.row_bytes, 1.0))))
        run = plan.order.run(epoch, first * self._ds.num_shards)
        run = replace(run, samples=last - first)
        options = LoaderOptions(size, on_corrupt=self._ds.on_corrupt)
        leaving = self._ds._cursor.leaving(epoch)
        for delivered in BatchReader(plan, run, options, BatchMemory(), leaving):
            batch = delivered.batch
            arrays = [
                feature_array(column, batch[column.name], schema.field(column.name).type)
                for column in columns
            ]
            yield (delivered.end // run.stride, pyarrow.Table.from_arrays(arrays, schema=schema))


def _examples(tables: _Tables, stretches: list[tuple[int, int]], epoch: int) -> Any:
    return _examples_class()(tables, stretches, epoch)


@cache
def _examples_class() -> Any:
    """The class that ``datasets`` iterates over, derived when it is first needed."""
    from datasets.formatting import PythonFormatter
    from datasets.iterable_dataset import _BaseExamplesIterable

    class UniRecordExamples(_BaseExamplesIterable):  # type: ignore[misc]
        _sleep_on_threads_shutdown = False

        def __init__(self, tables: _Tables, stretches: list[tuple[int, int]], epoch: int) -> None:
            super().__init__()
            self._tables = tables
            self._stretches = stretches
            self._epoch = epoch

        def __reduce__(self) -> tuple[Any, ...]:
            return _examples, (self._tables, self._stretches, self._epoch)

        @property
        def num_shards(self) -> int:
            return len(self._stretches)

        @property
        def iter_arrow(self) -> Any:
            return self._iter_arrow

        def _init_state_dict(self) -> dict[str, Any]:
            kind = type(self).__name__
            self._state_dict = {"shard_idx": 0, "shard_example_idx": 0, "epoch": self._epoch, "type": kind}
            return self._state_dict

        def _iter_arrow(self) -> Iterator[tuple[str, pyarrow.Table]]:
            # A loaded state stands in the dict that _init_state_dict gave; `datasets` tells nobody.
            state: dict[str, Any] = self._state_dict or self._init_state_dict()
            if state["epoch"] != self._epoch:
                raise ValueError(
                    f"the state is of epoch {state['epoch']}, and this is epoch {self._epoch}: call set_epoch(), or "
                    "ds.set_epoch() before to_hf(), with the epoch in which it was taken"
                )
            for number in range(state["shard_idx"], len(self._stretches)):
                first, last = self._stretches[number]
                for end, table in self._tables.read(self._epoch, first + state["shard_example_idx"], last):
                    state["shard_example_idx"] = end - first
                    yield f"{number}_{end}", table
                state["shard_idx"] = number + 1
                state["shard_example_idx"] = 0

        def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
            formatter = PythonFormatter()
            for key, table in self._iter_arrow():
                for row in range(len(table)):
                    yield f"{key}_{row}", formatter.format_row(table.slice(row, 1))

        def shuffle_data_sources(self, generator: np.random.Generator) -> Any:
            """What ``datasets`` calls with ``default_rng(epoch)`` in epochs after the first."""
            seed = getattr(generator.bit_generator.seed_seq, "entropy", None)
            if not self._tables.shuffled or not isinstance(seed, int):
                return self
            return UniRecordExamples(self._tables, self._stretches, self._epoch + seed % (1 << 62))

        def shard_data_sources(self, num_shards: int, index: int, contiguous: bool = True) -> Any:
            kept = self.split_shard_indices_by_worker(num_shards, index, contiguous=contiguous)
            return UniRecordExamples(self._tables, [self._stretches[i] for i in kept], self._epoch)

        def reshard_data_sources(self) -> Any:
            return self

    return UniRecordExamples
