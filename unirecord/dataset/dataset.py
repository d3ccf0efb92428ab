"""UniRecordDataset: the rows of parts, chosen, ordered and shared out over ranks, as samples and batches."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..columns.scalars import scalar_arrays
from ..elsewhere import OF_DATASETS, no_attribute
from ..format.schema import Schema
from ..loading.opened import OpenedData, PathLike
from ..loading.options import LoaderOptions, OnCorrupt, ReadAhead, check_callable, check_on_corrupt
from ..loading.plan import Plan
from ..order.selection import Selection
from ..order.spec import OrderSpec, Remainder, Shuffle, check_shard_arguments, shard_from_environment
from ..parts.part_set import Io, Snapshot, Verify, use_snapshot
from .batch_loader import BatchLoader
from .cursor import Cursor
from .position import Position
from .samples import Samples

if TYPE_CHECKING:
    import pandas
    import pyarrow
    import tensorflow
    from typing_extensions import Unpack

    from ..pipeline.pipeline import Pipeline
    from ..pipeline.tuning import PipelinePlan

__all__ = ["UniRecordDataset"]

Sample = dict[str, Any]
New = TypeVar("New")


class _Unchanged(Enum):
    UNCHANGED = "as it is"

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = _Unchanged.UNCHANGED


class UniRecordDataset:
    """A map-style dataset over one part, a directory of parts, or a list or glob of either.

    ``ds[i]`` is the i-th sample of this shard in the current epoch: a dict in the order of the schema, or of
    ``columns``. Scalars are numpy scalars, strings and text ``str``, null ``None``, bytes ``bytes``, arrays writable
    numpy arrays, objects what was stored. ``batches()`` gives the same samples as dicts of arrays, read ahead by C
    threads.

    Every rank that opens the same data with the same ``seed`` computes the same order, one permutation per epoch, and
    takes positions ``shard_id``, ``shard_id + num_shards``, … of it. Whatever is asked for, the rows are those that
    meet ``where``, then what is selected of them, then the order, then the shard: docs/order.md.

    Args:
        path: ``train.urec``, a directory, or a list or glob of either; their rows in that order.
        shard_id, num_shards: this rank and the number of ranks; both or neither.
        columns: names of the columns to read, in this order; all by default. Only what is asked for is read.
        where: a condition on scalar columns (docs/query.md); the dataset consists of the rows that meet it.
        shuffle: ``True``, ``False``, ``"block"``, ``"parts"`` or ``"within-parts"``.
        seed: 0 … 2^64 − 1, the same on every rank. Without a shuffle it is kept, for views that have one.
        remainder: what becomes of the last rows when they do not share out evenly: ``"pad"``, ``"drop"``, ``"uneven"``.
            One rank alone has all rows, whichever it is.
        io: ``"auto"``, ``"mmap"``, ``"pread"``, ``"uring"``, ``"uring-direct"`` or ``"memory"``.
        verify: check digests at the ``"first"`` read of a row, ``"always"`` or ``"never"``.
        transform: called with every sample; what it returns is given instead. In ``batches()`` it runs on threads.
        on_corrupt: ``"raise"``, or ``"skip"``: corrupt rows are left out of batches and iterations, logged and counted.
            ``ds[i]`` has no other sample to give, and raises.
        block_rows, window_blocks: sizes for ``shuffle="block"``, refused beside any other; chosen from the row groups
            by default.

    Raises:
        MissingError, FormatError, CorruptionError, StaleError: a file is missing, not ours, damaged, or another one
            than expected.
        SchemaError, QueryError: an unknown column, or a wrong condition.
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
        shuffle: Shuffle = False,
        seed: int = 0,
        remainder: Remainder = "pad",
        io: Io = "auto",
        verify: Verify = "first",
        transform: Callable[[Sample], Any] | None = None,
        on_corrupt: OnCorrupt = "raise",
        block_rows: int | None = None,
        window_blocks: int | None = None,
    ) -> None:
        shard = check_shard_arguments(shard_id, num_shards)
        blocks = (block_rows, window_blocks)
        spec = OrderSpec.parse(shuffle, seed, 0, *(1 if size is None else size for size in blocks))
        spec.check_blocks_given(blocks)
        check_callable("transform", transform)
        check_on_corrupt(on_corrupt)

        def plan_of(snapshot: Snapshot) -> Plan:
            data = OpenedData.open(path, columns, io, verify, snapshot)
            return Plan.of(data, where, spec, shard, remainder, blocks)

        plan = use_snapshot(path, plan_of)
        self._stand(Cursor(plan, Position()), transform, on_corrupt)

    def _stand(
        self, cursor: Cursor, transform: Callable[[Sample], Any] | None, on_corrupt: OnCorrupt
    ) -> None:
        self._cursor = cursor
        self._transform = transform
        self._on_corrupt: OnCorrupt = on_corrupt
        self._samples = Samples(cursor, transform, on_corrupt)

    @classmethod
    def distributed(
        cls,
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = None,
        num_shards: int | None = None,
        **options: Any,
    ) -> UniRecordDataset:
        """A dataset sharded by the launcher's environment variables (torchrun, MPI, Slurm).

        Args:
            path: as for the class.
            shard_id, num_shards: these win over the environment.
            **options: the other arguments of the class.
        """
        return cls(path, *shard_from_environment(shard_id, num_shards), **options)

    # ---- what it is --------------------------------------------------------------------------------------

    @property
    def path(self) -> PathLike | Sequence[PathLike]:
        """What was opened."""
        return self._cursor.plan.path

    @property
    def schema(self) -> Schema:
        """The schema of the data, whatever ``columns`` has chosen."""
        return self._cursor.plan.data.snapshot.schema

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns that samples have, in their order."""
        return tuple(column.name for _, column in self._cursor.plan.columns)

    @property
    def metadata(self) -> Any:
        """What the writer was given as ``metadata``."""
        return self._cursor.plan.data.snapshot.metadata

    @property
    def num_rows(self) -> int:
        """Rows after ``where`` and selections, before sharding."""
        return len(self._cursor.plan.order.selection)

    @property
    def shard_id(self) -> int:
        """The rank whose samples this dataset has."""
        return self._cursor.plan.order.sharding.shard_id

    @property
    def num_shards(self) -> int:
        """The number of ranks that share the rows."""
        return self._cursor.plan.order.sharding.num_shards

    @property
    def io(self) -> str:
        """The way of reading in use; before anything has been read, perhaps "auto"."""
        return self._cursor.plan.data.parts.io_name

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._cursor.position.epoch

    @property
    def transform(self) -> Callable[[Sample], Any] | None:
        """What is called with every sample; ``view(transform=...)`` has another."""
        return self._transform

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What batches and iterations do with corrupt rows: "raise" or "skip"."""
        return self._on_corrupt

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self).__name__, name, OF_DATASETS), name=name, obj=self)

    def __len__(self) -> int:
        if "torch.utils.data" in sys.modules:
            from ..frameworks.stock_dataloader import length_asked

            order = self._cursor.plan.order
            shard = (order.sharding.shard_id, order.sharding.num_shards)
            length_asked(self._cursor.position, order.shuffled, shard, sys._getframe(1))
        return len(self._cursor.plan.order)

    def __repr__(self) -> str:
        plan = self._cursor.plan
        shown = [f"{len(plan.order):,} of {plan.data.snapshot.rows:,} rows"]
        if self.num_shards > 1:
            shown.append(f"shard {self.shard_id} of {self.num_shards}")
        if plan.where is not None:
            shown.append(f"where {plan.where!r}")
        spec = plan.order.spec
        if spec.mode != "sequential":
            mode = "shuffled" if spec.mode == "shuffle" else f"shuffled by {spec.mode}"
            shown.append(f"{mode}, seed {spec.seed}, epoch {self.epoch}")
        shown.append(f"io {self.io}, verify {plan.data.parts.verify}")
        columns = ", ".join(f"{column.name}: {column.spec}" for _, column in plan.columns)
        path = self.path if isinstance(self.path, (list, tuple)) else os.fspath(self.path)  # type: ignore[arg-type]
        return f"UniRecordDataset({path!r}: {'; '.join(shown)}; columns {columns})"

    # ---- samples -----------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Sequence[int] | NDArray[np.integer[Any]]) -> list[Any]: ...
    @overload
    def __getitem__(self, index: str) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        if type(index) is int:
            return self._samples.one(index)
        if isinstance(index, slice):
            return self._samples.many(range(*index.indices(len(self._cursor.plan.order))))
        if isinstance(index, str):
            return self.scalars([index], order="samples")[index]
        if hasattr(index, "__index__") and getattr(index, "ndim", 0) == 0:
            return self._samples.one(index.__index__())
        return self._samples.many(index)

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples at ``indices``, read with one call; with ``on_corrupt="skip"`` without those that are corrupt."""
        return self._samples.for_collate(indices, sys._getframe(1))

    def __iter__(self) -> Iterator[Any]:
        return self._samples.epoch()

    def row_ids(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """Row numbers in the dataset of the samples of this shard in this epoch, int64[stop − start].

        ``start`` and ``stop`` are clipped like those of a slice. They number all rows of the data, also after ``where``
        and selections: ``read_rows`` and ``locate`` take them. ``scalars()`` has only the selected rows, so index it
        with none of them: ``scalars(order="samples")`` is in the order of ``ds[i]``.
        """
        return self._cursor.plan.order.row_ids(start, stop, self.epoch)

    def locate(self, row: int) -> tuple[str, int]:
        """Path of the part that holds a row, and the row's number in that part; IndexError when there is none.

        ``row`` is its number in the dataset, before ``where`` and selections, as ``row_ids`` gives it.
        """
        return self._cursor.plan.data.parts.locate(row)

    def read_rows(self, row_ids: NDArray[np.int64]) -> dict[str, Any]:
        """The rows with these numbers (as ``row_ids`` gives them) as one batch, a dict of arrays, in that order."""
        return self._cursor.plan.data.reader.batch(np.ascontiguousarray(row_ids, np.int64))

    # ---- epochs and state --------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the current one, here and in the worker processes of this one.

        It counts for ``ds[i]`` at once, and for the next iteration.
        """
        self._cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, as a small dict of plain values; what has been read ahead is not counted.

        The pass may be an iteration of this dataset or of a loader made from it: whichever began last. ValueError when
        that is one of PyTorch's DataLoader, which alone knows how far it has come.
        """
        if "torchdata" in sys.modules:
            from ..frameworks.stock_dataloader import asked_by_torchdata

            return self._cursor.state_dict(counted_outside=asked_by_torchdata(sys._getframe(1)))
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of ranks.

        Raises StaleError when the state is of other data, ValueError when it is of other options; both name what
        differs.
        """
        self._cursor.load_state_dict(state)

    # ---- batches -----------------------------------------------------------------------------------------

    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: Callable[[Sample], Any] | _Unchanged | None = ...,
        collate_fn: Callable[[list[Any]], Any] | None = ...,
        batch_transform: Callable[[Any], New],
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[New]: ...
    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: Callable[[Sample], Any] | _Unchanged | None = ...,
        collate_fn: Callable[[list[Any]], New],
        batch_transform: None = ...,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[New]: ...
    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: _Unchanged | None = ...,
        collate_fn: None = ...,
        batch_transform: None = ...,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[dict[str, Any]]: ...
    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: Callable[[Sample], Any],
        collate_fn: None = ...,
        batch_transform: None = ...,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[Any]: ...
    def batches(
        self,
        batch_size: int,
        *,
        drop_last: bool = False,
        prefetch: int | None = None,
        num_threads: int | None = None,
        transform: Callable[[Sample], Any] | _Unchanged | None = UNCHANGED,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        num_workers: int | None = None,
    ) -> BatchLoader[Any]:
        """Batches of this shard as dicts of arrays, read ahead by C threads (docs/loading.md).

        Each iteration over what is returned is one epoch. Its type says what a batch is: a dict, or what
        ``batch_transform`` or ``collate_fn`` returns.

        Fixed-width columns are arrays [batch, …], nullable ones masked arrays, strings lists, other blobs
        ``RaggedArray``. Any batch may be kept for ever. Tensors: ``unirecord.torch.loader``, ``to_tf``.

        Args:
            batch_size: samples in a batch.
            drop_last: leave out a last batch that is smaller.
            prefetch: batches kept ready; chosen by their size by default.
            num_threads: reading threads; one per core up to four by default.
            transform: called with every sample; the dataset's own by default.
            collate_fn: makes a batch of the list of samples, transformed or as stored; by default arrays are stacked.
            batch_transform: called with every batch, after the others.
            num_workers: Python threads for these functions; one per core by default. 0: the thread that asks.
        """
        return BatchLoader(
            self,
            LoaderOptions(
                batch_size,
                drop_last=drop_last,
                prefetch=prefetch,
                num_threads=num_threads,
                transform=self._transform if isinstance(transform, _Unchanged) else transform,
                collate_fn=collate_fn,
                batch_transform=batch_transform,
                num_workers=num_workers,
                on_corrupt=self._on_corrupt,
            ),
        )

    def pipeline(
        self,
        *,
        cpus: int | None = None,
        memory: int | str | None = None,
        plan: PipelinePlan | None = None,
        rewrite: bool | Collection[str] = True,
    ) -> Pipeline:
        """A pipeline over the samples of this shard: operators that run in parallel, in exact order (docs/pipeline.md).

        Its first operator is the dataset's ``transform``, where it has one.

        Args:
            cpus: cores that it may use; by default those of the process's affinity and cgroup.
            memory: what it may hold of results made ahead, in bytes or as "2GB"; by default a quarter of what is free,
                2 GiB at most.
            plan: what an earlier pipeline with these operators has chosen, ``loader.plan()``, to be used as it is.
            rewrite: whether it is given a faster form with the same results, or the names of the rules that may do so.
        """
        from ..pipeline.budget import Budget
        from ..pipeline.origin import DatasetOrigin
        from ..pipeline.pipeline import Pipeline
        from ..pipeline.rewriting import check_rules

        origin = DatasetOrigin(self._cursor, self._on_corrupt)
        pipeline = Pipeline(origin, Budget.of(cpus, memory), plan, check_rules(rewrite))
        return pipeline if self._transform is None else pipeline.map(self._transform)

    def to_tf(
        self,
        batch_size: int,
        *,
        drop_last: bool = False,
        prefetch: int | None = None,
        num_threads: int | None = None,
    ) -> tensorflow.data.Dataset:
        """This shard as a ``tf.data.Dataset`` of batches (docs/tensorflow.md).

        ``batch_size``, ``drop_last``, ``prefetch`` and ``num_threads`` are as for ``batches``.
        """
        from ..frameworks.tf import to_tf

        return to_tf(self, batch_size, drop_last=drop_last, prefetch=prefetch, num_threads=num_threads)

    # ---- scalars -----------------------------------------------------------------------------------------

    def scalars(self, columns: Sequence[str] | None = None, *, order: str = "rows") -> dict[str, Any]:
        """Scalar columns as a dict of arrays, from the index alone: no blob is read.

        ``order="rows"``: of all selected rows, before sharding and shuffling, [num_rows]; views of the mapped index
        where a single part is selected whole (read-only), copies otherwise. ``order="samples"``: of the samples of this
        shard in this epoch, [len(ds)], so that value i belongs to ``ds[i]``. Nullable columns are masked arrays,
        strings arrays of ``str`` objects.
        """
        plan = self._cursor.plan
        if order not in ("rows", "samples"):
            raise ValueError(f'order must be "rows" or "samples", got {order!r}')
        selection = plan.order.selection
        if order == "samples" and (plan.order.shuffled or plan.order.sharding.num_shards > 1):
            selection = Selection(selection.rows, array=self.row_ids())
        return scalar_arrays(plan.data.parts, self._column_names(columns), selection)

    def _column_names(self, columns: Sequence[str] | None) -> list[str]:
        if columns is None:
            return [column.name for _, column in self.schema.scalars]
        if isinstance(columns, str):
            raise ValueError(
                f"columns must be a list of names, got the string {columns!r}: write [{columns!r}], "
                f"or ds[{columns!r}] for one column in the order of the samples"
            )
        return [self.schema.columns[self.schema.position(name)].name for name in columns]

    def to_arrow(self, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """All selected rows as a ``pyarrow.Table``, before sharding and shuffling: the scalar columns, or those named.

        Scalar columns come from the index alone; DuckDB and Polars query the table as it is. With blob columns among
        ``columns`` it takes the memory of all their values: ``to_batches`` does not.

        Args:
            columns: names of the columns; by default all scalar ones.
        """
        from ..frameworks.arrow import to_arrow

        plan, names = self._cursor.plan, self._column_names(columns)
        if any(self.schema[name].is_blob for name in names):
            return self.to_batches(names).read_all()
        return to_arrow(plan.data.parts, plan.order.selection, names)

    def to_pandas(self, columns: Sequence[str] | None = None) -> pandas.DataFrame:
        """The same as ``to_arrow``, with the same ``columns``, as a ``pandas.DataFrame``."""
        return self.to_arrow(columns).to_pandas()

    def to_batches(
        self, columns: Sequence[str] | None = None, *, batch_size: int | None = None
    ) -> pyarrow.RecordBatchReader:
        """All selected rows as a ``pyarrow.RecordBatchReader``, before sharding and shuffling; DuckDB queries it.

        Blobs and arrays are read ahead by C threads, a few batches at a time (docs/query.md has the types).

        Args:
            columns: names of the columns; by default those of the dataset.
            batch_size: rows in a batch; by default about 8 MB.
        """
        from ..frameworks.arrow import to_batches

        names = UNCHANGED if columns is None else self._column_names(columns)
        rows = self.view(columns=names, shuffle=False, shard_id=0, num_shards=1, transform=None)
        return to_batches(rows, batch_size, rows._cursor.plan.row_bytes)

    # ---- the same data, seen otherwise ---------------------------------------------------------------------

    def view(
        self,
        *,
        columns: Sequence[str] | _Unchanged | None = UNCHANGED,
        where: str | None = None,
        shuffle: Shuffle | _Unchanged = UNCHANGED,
        seed: int | None = None,
        shard_id: int | None = None,
        num_shards: int | None = None,
        remainder: Remainder | None = None,
        transform: Callable[[Sample], Any] | _Unchanged | None = UNCHANGED,
        on_corrupt: OnCorrupt | None = None,
        block_rows: int | None = None,
        window_blocks: int | None = None,
    ) -> UniRecordDataset:
        """The same data with other options, without opening it again; what is not named stays as it is here.

        ``where`` narrows: the rows of this dataset that meet it as well. The rest is as if the dataset had been opened
        so: which rows meet ``where``, which of them are selected, their order, and this rank's share are always taken
        in that order. The view has an epoch and a position of its own, and begins in the current epoch.

        Args:
            columns: as for the class.
            where: a further condition.
            shuffle, seed, shard_id, num_shards, remainder: as for the class.
            transform, on_corrupt, block_rows, window_blocks: as for the class.
        """
        plan = self._cursor.plan
        if not isinstance(columns, _Unchanged):
            plan = plan.with_columns(columns)
        if where is not None:
            plan = plan.where_also(where)
        asked = None if isinstance(shuffle, _Unchanged) else shuffle
        spec = plan.order.spec.changed(asked, seed, block_rows, window_blocks)
        spec.check_blocks_given((block_rows, window_blocks))
        own_rows, own_window = plan.blocks
        plan = plan.ordered(
            spec,
            (
                own_rows if block_rows is None else block_rows,
                own_window if window_blocks is None else window_blocks,
            ),
        )
        shard, old = (plan.order.sharding.shard_id, plan.order.sharding.num_shards), plan.order.sharding
        if shard_id is not None or num_shards is not None:
            shard = check_shard_arguments(shard_id, num_shards)
        plan = plan.sharded(*shard, old.remainder if remainder is None else remainder)
        if not isinstance(transform, _Unchanged):
            check_callable("transform", transform)
        if on_corrupt is not None:
            check_on_corrupt(on_corrupt)
        return self._over(plan, transform, on_corrupt)

    def _over(
        self,
        plan: Plan,
        transform: Callable[[Sample], Any] | _Unchanged | None = UNCHANGED,
        on_corrupt: OnCorrupt | None = None,
    ) -> UniRecordDataset:
        other: UniRecordDataset = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        own = self._transform if isinstance(transform, _Unchanged) else transform
        other._stand(self._cursor.over(plan), own, on_corrupt or self._on_corrupt)
        return other

    def select(self, rows: Any) -> UniRecordDataset:
        """Only some of the ``num_rows`` rows here, before sharding and shuffling, in the order given.

        ``rows`` is a slice, a range, integers (negative ones count from the end), or a mask of one bool per row.
        """
        return self._narrowed(self._cursor.plan.order.selection.select(rows))

    def take(self, n: int) -> UniRecordDataset:
        """Only the first ``n`` rows as stored, before sharding and shuffling.

        Of a shuffled dataset these are not its first ``n`` samples, but the first ``n`` rows, shuffled.
        """
        return self._narrowed(self._cursor.plan.order.selection.take(n))

    def skip(self, n: int) -> UniRecordDataset:
        """All but the first ``n`` rows as stored, before sharding and shuffling."""
        return self._narrowed(self._cursor.plan.order.selection.skip(n))

    def split(self, sizes: float | Sequence[float], seed: int | None = 0) -> list[UniRecordDataset]:
        """Disjoint datasets that together are this one (docs/order.md).

        Args:
            sizes: fractions that sum to 1, or counts that sum to ``num_rows``; one size alone: that, and the rest.
            seed: rows are assigned at random, always in the same way for the same seed; None cuts runs of neighbours.
        """
        return [self._narrowed(part) for part in self._cursor.plan.order.selection.split(sizes, seed)]

    def _narrowed(self, selection: Selection) -> UniRecordDataset:
        return self._over(self._cursor.plan.selected(selection))

    def __copy__(self) -> UniRecordDataset:
        """A copy goes its own ways from here: two that shared a position would move each other's."""
        return copy.deepcopy(self)

    # ---- life --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the files, for datasets derived from this one too; later reads raise ClosedError.

        Reads in flight finish first.
        """
        self._cursor.plan.data.parts.close()

    def __enter__(self) -> UniRecordDataset:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def refresh(self) -> bool:
        """Takes in what has been published at ``path`` since it was opened; True if there was anything.

        Call it between epochs. The epoch stays as it is; ``where`` is evaluated again. Batches in hand stay good.

        Raises:
            ValueError: the dataset was made with ``select``, ``take``, ``skip`` or ``split``, and names rows of the
                old data: refresh the dataset that it was made from.
            StaleError: the schema has changed; open the dataset anew.
        """
        if self._cursor.plan.narrowed:
            raise ValueError(
                "a selection names rows of the data as it was: refresh the dataset it was made from, and select anew"
            )
        plan = self._cursor.plan.refreshed()
        if plan is None:
            return False
        samples = Samples(self._cursor, self._transform, self._on_corrupt)
        samples.read_from(plan)
        self._samples, self._cursor.plan = samples, plan  # no signal is handled between the two
        return True
