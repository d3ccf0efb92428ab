"""UniRecordDataset: the rows of parts, chosen, ordered and shared out over ranks, as samples and batches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from ..columns.scalars import scalar_arrays
from ..core import BatchPool, NativeLoader
from ..errors import StaleError
from ..format.schema import Column, Schema
from ..loading.batch import collate as stack
from ..loading.loader import BatchLoader, LoaderOptions
from ..order.selection import Selection
from ..order.shard_order import EpochRun, ShardOrder
from ..order.spec import OrderSpec, Sharding, check_shard_arguments, shard_from_environment
from ..parts.part_set import Source, resolve
from .opened import OpenedData
from .progress import Progress
from .sampler_check import warn_if_sharded_again
from .state import ResumeState

if TYPE_CHECKING:
    import pandas
    import pyarrow
    import tensorflow

__all__ = ["UniRecordDataset"]

PathLike = str | os.PathLike[str]
Sample = dict[str, Any]
_CHUNK_BYTES = 256 << 10  # iteration reads this much at a time, so that a kept sample pins little memory
_CHUNK_ROWS = 256


class UniRecordDataset:
    """A map-style dataset over one part, a directory of parts, or a list or glob of either.

    ``ds[i]`` is the i-th sample of this shard in the current epoch: a dict in the order of the schema, or of
    ``columns``. Scalars are numpy scalars, strings and text ``str``, null ``None``, bytes ``bytes``, arrays
    writable numpy arrays, objects what was stored. ``batches()`` gives the same samples as dicts of arrays,
    read ahead by C threads.

    Every rank that opens the same data with the same ``seed`` computes the same order, one permutation per
    epoch, and takes positions
    ``shard_id``, ``shard_id + num_shards``, … of it. See docs/order.md.

    Args:
        path: ``train.urec``, a directory, or a list or glob of either; their rows in that order.
        shard_id, num_shards: this rank and the number of ranks; both or neither.
        columns: the columns to read, in this order; all by default. Only what is asked for is read.
        where: a condition on scalar columns (docs/query.md); the dataset then consists of the rows that meet
        it. shuffle: ``True``, ``False``, ``"block"``, ``"parts"`` or ``"within-parts"``.
        seed: 0 … 2^64 − 1, the same on every rank.
        remainder: what becomes of the last rows when they do not share out evenly: ``"pad"``, ``"drop"`` or
        ``"uneven"``. io: ``"auto"``, ``"mmap"``, ``"pread"``, ``"uring"``, ``"uring-direct"`` or
        ``"memory"``. verify: check digests at the ``"first"`` read of a row, ``"always"`` or ``"never"``.
        transform: called with every sample; what it returns is given instead. In ``batches()`` it runs on
        threads. on_corrupt: ``"raise"``, or ``"skip"``: loaders leave corrupt rows out, and log and count
        them. in_memory: the same as ``io="memory"``.
        block_rows, window_blocks: sizes for ``shuffle="block"``; chosen from the row groups by default.

    Raises:
        MissingError, FormatError, CorruptionError, StaleError: a file is missing, not ours, damaged, or
        another one than expected. SchemaError, QueryError: an unknown column, or a wrong condition.
        ValueError, TypeError: another wrong argument.
    """

    def __init__(
        self,
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = None,
        num_shards: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        shuffle: bool | str = False,
        seed: int = 0,
        remainder: str = "pad",
        io: str = "auto",
        verify: str = "first",
        transform: Callable[[Sample], Any] | None = None,
        on_corrupt: str = "raise",
        in_memory: bool = False,
        block_rows: int | None = None,
        window_blocks: int | None = None,
    ) -> None:
        shard_id, num_shards = check_shard_arguments(shard_id, num_shards)
        sizes = [1 if size is None else size for size in (block_rows, window_blocks)]
        spec = OrderSpec.parse(shuffle, seed, 0, *sizes)
        self.path = path
        self.transform = transform
        self._io = "memory" if in_memory else io
        self._verify = verify
        self._on_corrupt = LoaderOptions(1, on_corrupt=on_corrupt).on_corrupt
        self._where = where
        self._column_names = None if columns is None else list(columns)
        self._blocks = (block_rows, window_blocks)
        self._narrowed = False
        self._open(resolve(path))
        selection, self._condition = self._data.select(where)
        sharding = Sharding(len(selection), shard_id, num_shards, remainder)
        spec = self._data.with_blocks(spec, len(selection), self._blocks)
        self._order = ShardOrder(selection, sharding, spec, self._data.parts.starts)
        self._progress = Progress()

    def _open(self, source: Source) -> None:
        self._data = OpenedData(source, self._column_names, self._io, self._verify)

    @classmethod
    def distributed(
        cls,
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = None,
        num_shards: int | None = None,
        **options: Any,
    ) -> UniRecordDataset:
        """A dataset sharded by the launcher's environment variables (torchrun, MPI, Slurm); explicit
        arguments win."""
        return cls(path, *shard_from_environment(shard_id, num_shards), **options)

    # ---- what it is --------------------------------------------------------------------------------------

    @property
    def schema(self) -> Schema:
        """The schema of the data, whatever ``columns`` has chosen."""
        return self._data.source.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that samples have, in their order."""
        return tuple(column.name for _, column in self._data.columns)

    @property
    def metadata(self) -> Any:
        """What the writer was given as ``metadata``."""
        return self._data.source.metadata

    @property
    def num_rows(self) -> int:
        """Rows after ``where`` and selections, before sharding."""
        return len(self._order.selection)

    @property
    def shard_id(self) -> int:
        """The rank whose samples this dataset has."""
        return self._order.sharding.shard_id

    @property
    def num_shards(self) -> int:
        """The number of ranks that share the rows."""
        return self._order.sharding.num_shards

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._progress.epoch

    @property
    def io(self) -> str:
        """The way of reading in use; before any part is opened, the one asked for."""
        return self._data.parts.io_name

    @property
    def on_corrupt(self) -> str:
        """What loaders do with corrupt rows: "raise" or "skip"."""
        return self._on_corrupt

    @property
    def output_columns(self) -> tuple[tuple[int, Column], ...]:
        """Schema position and column of each output."""
        return self._data.columns

    @property
    def mean_row_bytes(self) -> float:
        """Bytes of an average row."""
        return self._data.parts.mean_row_bytes()

    def __len__(self) -> int:
        if self.num_shards > 1:
            warn_if_sharded_again(sys._getframe(1), self.shard_id, self.num_shards)
        return len(self._order)

    def __repr__(self) -> str:
        shown = [f"{len(self):,} of {self._data.source.rows:,} rows"]
        if self.num_shards > 1:
            shown.append(f"shard {self.shard_id} of {self.num_shards}")
        if self._where is not None:
            shown.append(f"where {self._where!r}")
        spec = self._order.spec
        if spec.mode != "sequential":
            mode = "shuffled" if spec.mode == "shuffle" else f"shuffled by {spec.mode}"
            shown.append(f"{mode}, seed {spec.seed}, epoch {self.epoch}")
        shown.append(f"io {self.io}, verify {self._verify}")
        columns = ", ".join(f"{column.name}: {column.spec}" for _, column in self._data.columns)
        path = self.path if isinstance(self.path, (list, tuple)) else os.fspath(self.path)  # type: ignore[arg-type]
        return f"UniRecordDataset({path!r}: {'; '.join(shown)}; columns {columns})"

    # ---- samples -----------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return self._transformed(self._data.reader.many(self._rows(range(*index.indices(len(self))))))
        order = self._order
        epoch = self._progress.epoch if order.shuffled else 0  # without a shuffle all epochs are alike
        sample = self._data.reader.one(order.row(index, epoch))
        return sample if self.transform is None else self.transform(sample)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples at ``indices``, read with one call."""
        rows = self._rows(indices)
        if self.transform is None:
            return list(self._data.reader.for_collate(rows))
        return self._transformed(self._data.reader.many(rows))

    def _rows(self, indices: Sequence[int]) -> NDArray[np.int64]:
        return self._order.rows(indices, self._progress.epoch)

    def _transformed(self, samples: list[Any]) -> list[Any]:
        transform = self.transform
        return samples if transform is None else [transform(sample) for sample in samples]

    def row_ids(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """Row numbers in the dataset of samples [start, stop) of this shard in this epoch, int64[k]; clipped
        like a slice."""
        return self._order.row_ids(start, stop, self._progress.epoch)

    def locate(self, row: int) -> tuple[str, int]:
        """Path of the part that holds a row of the dataset (before ``where`` and selections), and its number
        in the part."""
        return self._data.parts.locate(row)

    def read_rows(self, row_ids: NDArray[np.int64]) -> dict[str, Any]:
        """The rows with these numbers (as ``row_ids`` gives them) as one batch: a dict of arrays, in the
        order given."""
        return self._data.reader.batch(np.ascontiguousarray(row_ids, np.int64))

    # ---- epochs and state --------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the current one: for ``ds[i]``, and for the next iteration, here and in worker
        processes."""
        self._progress.set_epoch(epoch)

    def begin_epoch(self) -> EpochRun:
        """Starts a pass: over the current epoch if none has been started in it, else over the next; ``iter``
        does this."""
        self._data.parts.check_open()
        return self._progress.begin(self._order)

    def deliver(self, run: EpochRun, samples: int) -> None:
        """Notes that ``samples`` of a pass have been handed out, for ``state_dict``."""
        self._progress.deliver(run, samples)

    def samples_left(self) -> int:
        """How many samples the next pass will deliver: ``len(self)``, less what a loaded state has before
        it."""
        return self._order.sharding.resumed(self._progress.next_start).length

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(self.begin_epoch())

    def _iterate(self, run: EpochRun) -> Iterator[Any]:
        transform, progress, selection = self.transform, self._progress, self._order.selection
        chunk = max(1, min(_CHUNK_ROWS, int(_CHUNK_BYTES / max(1.0, self.mean_row_bytes))))
        for start in range(0, run.samples, chunk):
            count = min(chunk, run.samples - start)
            positions = run.order.range(run.first + start * run.stride, run.stride, count)
            for i, sample in enumerate(self._data.reader.many(selection.row_ids(positions)), start + 1):
                progress.deliver(run, i)
                yield sample if transform is None else transform(sample)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, as a small dict of plain values; what has been read ahead is not
        counted.

        The pass may be an iteration of this dataset or of a loader made from it: whichever began last.
        """
        return self._state(*self._progress.position()).to_dict()

    def _state(self, epoch: int, position: int) -> ResumeState:
        return ResumeState.of(
            self._order.spec.at_epoch(epoch),
            identity=self._data.source.identity,
            rows=self._data.source.rows,
            where=self._condition,
            selection=self._order.selection.digest(),
            remainder=self._order.sharding.remainder,
            position=position,
        )

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of ranks.

        Raises StaleError when the state is of other data, ValueError when it is of other options; both name
        what differs.
        """
        loaded = ResumeState.from_dict(state)
        loaded.check(self._state(0, 0))
        self._progress.resume(loaded.epoch, loaded.position)

    # ---- batches -----------------------------------------------------------------------------------------

    def batches(
        self,
        batch_size: int,
        *,
        drop_last: bool = False,
        prefetch: int | None = None,
        num_threads: int | None = None,
        device: Any = None,
        batch_transform: Callable[[Any], Any] | None = None,
        num_workers: int | None = None,
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> Any:
        """Batches of this shard as dicts of arrays, read ahead by C threads; iterate once per epoch. See
        docs/loading.md.

        Fixed-width columns are arrays [batch, …], nullable ones masked arrays, strings lists, other blobs
        ``RaggedArray``. Any batch may be kept for ever. With ``device`` (a torch device) the arrays are
        tensors there.

        Args:
            batch_size: samples in a batch.
            drop_last: leave out a last batch that is smaller.
            prefetch: batches kept ready; chosen by their size by default.
            num_threads: reading threads; one per core up to four by default.
            batch_transform: called with every batch, after the dataset's ``transform`` and ``collate``.
            num_workers: Python threads for the transforms; one per core by default.
            collate: makes a batch of transformed samples; stacks arrays by default.
        """
        if device is not None:
            from ..frameworks.torch import loader

            return loader(
                self,
                batch_size,
                drop_last=drop_last,
                prefetch=prefetch,
                num_threads=num_threads,
                device=device,
                num_workers=num_workers,
                collate_fn=collate,
            )
        options = LoaderOptions(
            batch_size,
            drop_last=drop_last,
            prefetch=prefetch,
            num_threads=num_threads,
            transform=self.transform,
            batch_transform=batch_transform,
            num_workers=num_workers,
            on_corrupt=self._on_corrupt,
            collate=collate or stack,
        )
        return BatchLoader(self, options)

    def open_native(self, run: EpochRun, **options: Any) -> NativeLoader:
        """The C loader for a pass; what ``batches()`` stands on."""
        array, start, step, _ = self._order.selection.as_c()
        return self._data.parts.open_loader(
            order=run.order,
            selection=array,
            selection_start=start,
            selection_step=step,
            first=run.first,
            stride=run.stride,
            samples=run.samples,
            columns=[position for position, _ in self._data.columns],
            **options,
        )

    def batch_pool(self, pieces: int) -> BatchPool:
        """Memory for batches that all loaders of this dataset share, ``pieces`` of it kept when not in use."""
        return self._data.pool(pieces)

    def to_tf(self, batch_size: int, **options: Any) -> tensorflow.data.Dataset:
        """This shard as a ``tf.data.Dataset`` of batches (docs/tensorflow.md)."""
        from ..frameworks.tf import to_tf

        return to_tf(self, batch_size, **options)

    # ---- scalars -----------------------------------------------------------------------------------------

    def scalars(self, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Scalar columns of all selected rows, before sharding and shuffling, as a dict of arrays [num_rows].

        From the index alone, no blob is read. Views of the mapped index where a single part is selected
        whole (read-only), copies otherwise. Nullable columns are masked arrays, strings arrays of ``str``
        objects.
        """
        chosen = self._scalar_names(columns)
        return scalar_arrays(self._data.parts, chosen, self._order.selection)

    def _scalar_names(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return [column.name for _, column in self.schema.scalars]
        return [self.schema.columns[self.schema.position(name)].name for name in columns]

    def to_arrow(self, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """The scalar columns of all selected rows as a ``pyarrow.Table``; DuckDB and Polars query it as it
        is."""
        from ..frameworks.arrow import to_arrow

        return to_arrow(self._data.parts, self._order.selection, self._scalar_names(columns))

    def to_pandas(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """The scalar columns of all selected rows as a ``pandas.DataFrame``."""
        return self.to_arrow(columns).to_pandas()

    # ---- narrower datasets -------------------------------------------------------------------------------

    def _derived(self, selection: Selection) -> UniRecordDataset:
        derived = object.__new__(UniRecordDataset)
        derived.__dict__.update(self.__dict__)
        derived._order = self._order.narrowed(selection)
        derived._progress = Progress(self.epoch)
        derived._narrowed = True
        return derived

    def select(self, rows: Any) -> UniRecordDataset:
        """Only the rows with these numbers among the ``num_rows`` rows here (before sharding and shuffling),
        in the order given."""
        return self._derived(self._order.selection.select(rows))

    def take(self, n: int) -> UniRecordDataset:
        """Only the first ``n`` rows, before sharding and shuffling."""
        return self._derived(self._order.selection.take(n))

    def skip(self, n: int) -> UniRecordDataset:
        """All but the first ``n`` rows, before sharding and shuffling."""
        return self._derived(self._order.selection.skip(n))

    def split(self, sizes: Sequence[float], seed: int | None = 0) -> list[UniRecordDataset]:
        """Disjoint datasets that together are this one: fractions that sum to 1, or counts; random but
        stable under ``seed``.

        ``seed=None`` cuts runs of neighbours instead.
        """
        return [self._derived(part) for part in self._order.selection.split(sizes, seed)]

    def without_transform(self) -> UniRecordDataset:
        """The same dataset, epoch and progress shared, whose samples are as stored."""
        twin = object.__new__(UniRecordDataset)
        twin.__dict__.update(self.__dict__)
        twin.transform = None
        return twin

    # ---- life --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the files; reads in flight finish, later ones raise ClosedError. Datasets derived from this
        one close too."""
        self._data.parts.close()

    def __enter__(self) -> UniRecordDataset:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def refresh(self) -> bool:
        """Takes in what has been published at ``path`` since it was opened; True if there was anything.
        Between epochs only.

        The epoch goes on as it was; ``where`` is evaluated again. Batches in hand stay good. Datasets made
        with ``select``, ``take``,
        ``skip`` or ``split`` name rows of the old data: ValueError; refresh the dataset they came from.
        """
        if self._narrowed:
            raise ValueError(
                "a selection names rows of the data as it was: refresh the dataset it was made from, and select anew"
            )
        source = resolve(self.path)
        if source.identity == self._data.source.identity:
            return False
        if source.schema != self._data.source.schema:
            raise StaleError(f"{self.path}: the schema has changed; open the dataset anew")
        self._open(source)
        (selection, self._condition), old = self._data.select(self._where), self._order
        sharding = Sharding(len(selection), self.shard_id, self.num_shards, old.sharding.remainder)
        spec = self._data.with_blocks(old.spec, len(selection), self._blocks)
        self._order = ShardOrder(selection, sharding, spec, self._data.parts.starts)
        return True

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        del state["_data"], state["_order"]
        order = self._order
        return {
            **state,
            "_identity": self._data.source.identity,
            "_rows": (order.selection, order.sharding, order.spec),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        identity, rows = state.pop("_identity"), state.pop("_rows")
        self.__dict__.update(state)
        source = resolve(self.path)
        if source.identity != identity:
            raise StaleError(
                f"{self.path}: the dataset has changed since it was pickled "
                f"(it was {identity}, it is {source.identity}); open it anew"
            )
        self._open(source)
        selection, sharding, spec = rows
        self._order = ShardOrder(selection, sharding, spec, self._data.parts.starts)
