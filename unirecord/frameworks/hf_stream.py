"""The stream that ``to_hf`` gives: a shard's order in stretches, in the epoch of each pass, with exact states."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import datasets
import numpy as np
from datasets.formatting import PythonFormatter
from datasets.iterable_dataset import _BaseExamplesIterable

from ..dataset.dataset import UniRecordDataset
from ..dataset.position import SharedEpoch
from ..loading.loader import BatchMemory, BatchReader
from ..loading.options import LoaderOptions
from .hf_features import feature_array

if TYPE_CHECKING:
    import pyarrow

__all__ = ["ShardStream", "UniRecordExamples"]

_TABLE_BYTES = 4 << 20
_TABLE_ROWS = 1000  # what datasets itself reads at a time


class ShardStream(datasets.IterableDataset):  # type: ignore[misc]
    """An ``IterableDataset`` whose epoch is also that of what is made of it later.

    Each method of datasets makes a stream that begins in epoch 0, whatever has been set before; here
    ``set_epoch(2)`` and then ``with_format("arrow")`` give epoch 2.
    """

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``; also over streams made of this one, unless they are given another."""
        super().set_epoch(epoch)
        self._ex_iterable.set_epoch(epoch)


class UniRecordExamples(_BaseExamplesIterable):  # type: ignore[misc]
    """What datasets iterates over, whatever stands before it: stretches of the order of the pass's epoch."""

    _sleep_on_threads_shutdown = False

    def __init__(
        self,
        ds: UniRecordDataset,
        given: UniRecordDataset,
        features: datasets.Features,
        stretches: list[tuple[int, int]],
    ) -> None:
        """``ds`` is a view of the dataset that was ``given``; its current epoch is the stream's epoch 0."""
        super().__init__()
        self._ds, self._given = ds, given
        self._features, self._stretches = features, stretches
        self._first = ds.epoch
        self._set = SharedEpoch()  # by set_epoch of the stream that to_hf gave
        self._own = 0  # of the pass, where the stream that is iterated has been given one
        self._for_worker = False  # whether the next call of shift_rngs is about a worker's number

    def set_epoch(self, epoch: int) -> None:
        """Names the epoch of passes that are not given another."""
        self._set.set(epoch)

    @property
    def _epoch(self) -> int:
        if not self._ds._cursor.plan.order.shuffled:
            return self._first
        return self._first + (self._own or self._set.get())

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
        epoch = self._epoch
        # A loaded state stands in the dict that _init_state_dict gave; `datasets` tells nobody.
        state: dict[str, Any] = self._state_dict or self._init_state_dict()
        if state["epoch"] != epoch:
            raise ValueError(
                f"the state is of epoch {state['epoch']}, and this is epoch {epoch}: call set_epoch(), or "
                "ds.set_epoch() before to_hf(), with the epoch in which it was taken"
            )
        for number in range(state["shard_idx"], len(self._stretches)):
            first, last = self._stretches[number]
            for end, table in self._read(epoch, first + state["shard_example_idx"], last):
                state["shard_example_idx"] = end - first
                yield f"{number}_{end}", table
            state["shard_idx"] = number + 1
            state["shard_example_idx"] = 0

    def _read(self, epoch: int, first: int, last: int) -> Iterator[tuple[int, pyarrow.Table]]:
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

    def __iter__(self) -> Iterator[tuple[str, dict[str, Any]]]:
        formatter = PythonFormatter()
        for key, table in self._iter_arrow():
            for row in range(len(table)):
                yield f"{key}_{row}", formatter.format_row(table.slice(row, 1))

    def shift_rngs(self, value: int) -> UniRecordExamples:
        """What datasets calls for everything in a stream: with the epoch of a pass, then with a worker's number.

        ``shuffle_data_sources`` is also called by ``.shuffle()``, and not behind ``take`` and ``skip``.
        """
        shifted = copy(self)
        if self._for_worker:
            shifted._for_worker = False
        else:
            shifted._own = value
        return shifted

    def shuffle_data_sources(self, generator: np.random.Generator) -> UniRecordExamples:
        """The order is the dataset's own."""
        return self

    def shard_data_sources(self, num_shards: int, index: int, contiguous: bool = True) -> UniRecordExamples:
        kept = self.split_shard_indices_by_worker(num_shards, index, contiguous=contiguous)
        sharded = copy(self)
        sharded._stretches = [self._stretches[number] for number in kept]
        sharded._for_worker = (num_shards, index) == _worker()
        return sharded

    def reshard_data_sources(self) -> UniRecordExamples:
        return self


def _worker() -> tuple[int, int] | None:
    """(number of workers, this one's number) in a worker of a DataLoader."""
    if "torch" not in sys.modules:
        return None
    from torch.utils.data import get_worker_info

    info = get_worker_info()
    return None if info is None else (info.num_workers, info.id)
