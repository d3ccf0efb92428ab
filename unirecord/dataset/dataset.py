"""UniRecordDataset: the rows of parts, chosen, ordered and shared out over ranks, as samples and batches."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import index as as_integer
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypedDict, overload

import numpy as np
from numpy.typing import NDArray

from ..errors import MissingError, UniRecordError
from ..format.meaning import as_times
from ..format.schema import Schema
from ..loading.boxes import Crop, part_of_value
from ..loading.loader import (
    UNCHANGED,
    LoaderOptions,
    ReadAhead,
    Unchanged,
    check_callable,
    check_on_corrupt,
)
from ..loading.opened import OpenedData, PathLike
from ..loading.plan import Plan
from ..migration_hints import OF_DATASETS, READING_ARGUMENTS, explains_arguments, no_attribute
from ..order.selection import Selection
from ..order.spec import (
    OrderSpec,
    Remainder,
    Shuffle,
    check_integer,
    check_shard_arguments,
    shard_from_environment,
)
from ..query.columns import scalar_arrays
from ..sizes import many
from ..snapshot.cache import CacheOptions, CacheStats
from ..snapshot.part_set import Io, Snapshot, Verify, use_snapshot
from ..snapshot.versions import path_of_version
from ..storage.storage_options import storage_of, use_storage
from .batch_loader import BatchLoader
from .cursor import Cursor
from .order_queries import OrderQueries
from .position import Position
from .receipts import receipts_of
from .row_numbers import in_own_order, named_rows
from .samples import Samples
from .split import split_by_hash
from .tables import (
    rows_of_a_batch,
    scalar_batches,
    schema_capsule,
    shared_columns,
    stream_capsule,
    to_arrow,
    to_batches,
)

if TYPE_CHECKING:
    from typing import Self

    import pandas
    import pyarrow
    from typing_extensions import TypeVar, Unpack

    from ..inspect.notebook import Shown
    from ..loading.loader import (
        OnCorrupt,  # completion in notebooks fails at properties it finds to be a Literal
    )
    from ..pipeline.pipeline import Pipeline
    from ..pipeline.tuner import PipelinePlan
else:
    from typing import TypeVar

__all__ = ["Sample", "SampleList", "UniRecordDataset"]

Sample = dict[str, Any]

# What a dataset gives for a sample: what its transform returns, without one a `Sample`.
if TYPE_CHECKING:
    Given = TypeVar("Given", covariant=True, default=Sample)
else:
    Given = TypeVar("Given", covariant=True)

New = TypeVar("New")
_Item = TypeVar("_Item")
# Rows that a column's little chart in a notebook is made of.
_CHARTED_ROWS = 20_000


class SampleList(list[_Item]):
    """Samples as a list, which a notebook shows as a table with small pictures and lines.

    ``schema``: the columns of what is as it is stored, whose times, decimals and classes are shown as text.
    """

    def __init__(self, samples: Iterable[_Item] = (), schema: Schema | None = None) -> None:
        super().__init__(samples)
        self._schema = schema

    def _repr_html_(self) -> str | None:
        from ..inspect.notebook import samples_html

        # Without Jinja2 the text stays.
        with suppress(MissingError):
            return samples_html(self, self._schema)
        return None


class OpenOptions(TypedDict, total=False):
    """The options of a dataset that say nothing about what a sample is."""

    columns: Sequence[str] | None
    where: str | None
    shuffle: Shuffle
    seed: int
    remainder: Remainder
    io: Io
    verify: Verify
    on_corrupt: OnCorrupt
    block_rows: int | None
    window_blocks: int | None
    storage_options: Mapping[str, Any] | None
    cache: PathLike | None
    cache_bytes: int | str | None
    version: int | None


class ViewOptions(TypedDict, total=False):
    """The options of a view that say nothing about what a sample is."""

    columns: Sequence[str] | Unchanged | None
    where: str | None
    shuffle: Shuffle | Unchanged
    seed: int | None
    shard_id: int | None
    num_shards: int | None
    remainder: Remainder | None
    on_corrupt: OnCorrupt | None
    block_rows: int | None
    window_blocks: int | None


class UniRecordDataset(Generic[Given]):
    """A map-style dataset over one part, a directory of parts, or a list or glob of either.

    ``ds[i]`` is the i-th sample of this shard in the current epoch: a dict in the order of the schema, or of
    ``columns``. Scalars are numpy scalars, strings and text ``str``, null ``None``, bytes ``bytes``, arrays writable
    numpy arrays, objects what was stored. ``batches()`` gives the same samples as dicts of arrays, read ahead by C
    threads.

    Every rank that opens the same data with the same ``seed`` computes the same order, one permutation per epoch, and
    takes positions ``shard_id``, ``shard_id + num_shards``, … of it. Whatever is asked for, the rows are those that
    meet ``where``, then what is selected of them, then the order, then the shard: docs/order.md.

    Args:
        path: ``train.urec``, a directory, or a list or glob of either; their rows in that order. Also in an object
            store: ``s3://bucket/train``, ``gs://``, ``az://``, ``https://`` (docs/storage.md).
        shard_id, num_shards: this rank and the number of ranks; both or neither.
        columns: names of the columns to read, in this order; all by default. Only what is asked for is read. With "row"
            among them, where no column is called so, samples and batches have the number of their row too, int64, last.
        where: a condition on scalar columns (docs/query.md); the dataset consists of the rows that meet it.
        shuffle: ``True``, ``False``, ``"block"``, ``"parts"`` or ``"within-parts"``.
        seed: 0 … 2^64 − 1, the same on every rank. Without a shuffle it is kept, for views that have one.
        remainder: what becomes of the last rows when they do not share out evenly: ``"pad"``, ``"drop"``, ``"uneven"``.
            One rank alone has all rows, whichever it is.
        io: ``"auto"``, ``"mmap"``, ``"pread"``, ``"uring"``, ``"uring-direct"`` or ``"memory"``.
        verify: check digests at the ``"first"`` read of a row, ``"always"`` or ``"never"``. What an object store sends
            is checked each time, unless ``"never"``; what its cache has, at the first.
        transform: called with every sample; what it returns is given instead. In ``batches()`` it runs on threads.
        on_corrupt: ``"raise"``, or ``"skip"``: corrupt rows are left out of batches and iterations, logged and counted.
            ``ds[i]`` has no other sample to give, and raises.
        block_rows, window_blocks: sizes for ``shuffle="block"``, refused beside any other; chosen from the row groups
            by default.
        storage_options: how an object store is reached, and with what credentials (docs/storage.md); by default as the
            environment says. Refused for files.
        cache, cache_bytes: a directory on a local disk in which what an object store has sent is kept, and the bytes
            that all of it may take, as ``"200GB"`` (docs/storage.md).
        version: of a directory, what was published as this version, which `unirecord log` lists, in place of the
            newest; the path ``"train@7"`` is version 7 as well (docs/growing.md).

    Raises:
        MissingError, FormatError, CorruptionError, StaleError: a file is missing, not ours, damaged, or another one
            than expected.
        SchemaError, QueryError: an unknown column, or a wrong condition.
        ValueError, TypeError: another wrong argument.
    """

    # The plan and the position in it: what adapters of frameworks, the viewer and the commands read.
    read_cursor: Cursor
    _transform: Callable[[Sample], Any] | None
    _on_corrupt: OnCorrupt
    _samples: Samples

    @overload
    def __init__(
        self: UniRecordDataset[Sample],
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = ...,
        num_shards: int | None = ...,
        *,
        transform: None = ...,
        **options: Unpack[OpenOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: UniRecordDataset[New],
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = ...,
        num_shards: int | None = ...,
        *,
        transform: Callable[[Sample], New],
        **options: Unpack[OpenOptions],
    ) -> None: ...
    @explains_arguments(READING_ARGUMENTS)
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
        storage_options: Mapping[str, Any] | None = None,
        cache: PathLike | None = None,
        cache_bytes: int | str | None = None,
        version: int | None = None,
    ) -> None:
        if version is not None:
            path = path_of_version(path, version)
        kept = CacheOptions.of(cache, cache_bytes)
        shard = check_shard_arguments(shard_id, num_shards)
        blocks = (block_rows, window_blocks)
        spec = OrderSpec.parse(shuffle, seed, 0, *(1 if size is None else size for size in blocks))
        spec.check_blocks_given(blocks)
        check_callable("transform", transform)
        check_on_corrupt(on_corrupt)

        def plan_of(snapshot: Snapshot) -> Plan:
            data = OpenedData.open(path, columns, io, verify, snapshot, kept)
            return Plan.of(data, where, spec, shard, remainder, blocks)

        with use_storage(storage_of(storage_options)):
            plan = use_snapshot(path, plan_of)
        if storage_options and not plan.data.parts.is_fetched:
            plan.data.parts.close()
            raise ValueError(f"{path}: storage_options are of object stores, and this is on a disk")
        self._stand(Cursor(plan, Position(), shared=shard_id is not None), transform, on_corrupt)

    def _stand(
        self, cursor: Cursor, transform: Callable[[Sample], Any] | None, on_corrupt: OnCorrupt
    ) -> None:
        self.read_cursor = cursor
        self._transform = transform
        self._on_corrupt = on_corrupt
        self._samples = Samples(cursor, transform, on_corrupt)

    @overload
    @classmethod
    def distributed(
        cls,
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = ...,
        num_shards: int | None = ...,
        *,
        transform: None = ...,
        **options: Unpack[OpenOptions],
    ) -> UniRecordDataset[Sample]: ...
    @overload
    @classmethod
    def distributed(
        cls,
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = ...,
        num_shards: int | None = ...,
        *,
        transform: Callable[[Sample], New],
        **options: Unpack[OpenOptions],
    ) -> UniRecordDataset[New]: ...
    @classmethod
    def distributed(
        cls,
        path: PathLike | Sequence[PathLike],
        shard_id: int | None = None,
        num_shards: int | None = None,
        **options: Any,
    ) -> UniRecordDataset[Any]:
        """A dataset sharded as the launcher says: by Ray Train's context, or variables of torchrun, MPI or Slurm.

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
        return self.read_cursor.plan.path

    @property
    def schema(self) -> Schema:
        """The schema of the data, whatever ``columns`` has chosen."""
        return self.read_cursor.plan.data.snapshot.schema

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns that are read, in their order: not ``row``, nor the source in a mixture."""
        return tuple(column.name for _, column in self.read_cursor.plan.columns)

    @property
    def metadata(self) -> Any:
        """What the writer was given as ``metadata``."""
        return self.read_cursor.plan.data.snapshot.metadata

    @property
    def num_rows(self) -> int:
        """Rows after ``where`` and selections, before sharding; of a mixture those of all sources together."""
        return self.read_cursor.plan.order.selected_rows

    @property
    def shard_id(self) -> int:
        """The rank whose samples this dataset has."""
        return self.read_cursor.plan.order.sharding.shard_id

    @property
    def num_shards(self) -> int:
        """The number of ranks that share the rows."""
        return self.read_cursor.plan.order.sharding.num_shards

    @property
    def io(self) -> str:
        """The way of reading in use; before anything has been read, perhaps "auto"."""
        return self.read_cursor.plan.data.parts.io_name

    def cache_stats(self) -> CacheStats:
        """What ``cache=`` has saved in this process since the dataset was opened; zeros without one."""
        return self.read_cursor.plan.data.parts.cache_stats()

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self.read_cursor.position.epoch

    @property
    def transform(self) -> Callable[[Sample], Given] | None:
        """What is called with every sample; ``view(transform=...)`` has another."""
        return self._transform

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What batches and iterations do with corrupt rows: "raise" or "skip"."""
        return self._on_corrupt

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self).__name__, name, OF_DATASETS), name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name.startswith("__") or not name.startswith("_")]

    def __len__(self) -> int:
        return len(self.read_cursor.plan.order)

    def __repr__(self) -> str:
        plan = self.read_cursor.plan
        shown = [f"{len(plan.order):,} of {many(plan.data.snapshot.rows, 'row')}"]
        if plan.order.rule is not None:
            shown = [
                f"{plan.order.rule.name} of {many(self.num_rows, 'row')}, {many(len(plan.order), 'sample')}"
            ]
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
    def __getitem__(self, index: int) -> Given: ...
    @overload
    def __getitem__(self, index: str) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, index: tuple[int, int]) -> Given: ...
    @overload
    def __getitem__(self, index: slice | list[int] | range | NDArray[np.integer[Any]]) -> list[Given]: ...
    def __getitem__(self, index: Any) -> Any:
        """Sample ``index`` of this shard in the current epoch, or samples, or a column.

        ``ds[epoch, position]`` is a sample of any epoch, by its position in it, counted over all ranks: what
        ``unirecord.torch.EpochSampler`` gives a DataLoader.
        """
        if type(index) is int:
            return self._samples.one(index)
        if isinstance(index, slice):
            return self._samples.many(range(*index.indices(len(self.read_cursor.plan.order))))
        if isinstance(index, str):
            return self.scalars([index], order="samples")[index]
        if type(index) is tuple:
            if len(index) != 2:
                raise TypeError(
                    f"ds[epoch, position] takes two numbers, not {index!r:.100}; a list chooses samples"
                )
            return self._samples.at(*index)
        if hasattr(index, "__index__") and getattr(index, "ndim", 0) == 0:
            return self._samples.one(index.__index__())
        return self._samples.many(index)

    def read_part(self, index: int, column: str, part: Any) -> Any:
        """A part of the value that sample ``index`` has in a column, without the rest: docs/schema.md, "Chunks".

        Of a column in chunks, those chunks alone that the part touches are read and checked; of others, the value.
        ``ds.read_part(i, "field", np.s_[0, 100:164, 200:264])`` is ``ds[i]["field"][0, 100:164, 200:264]``, without the
        dataset's ``transform``.

        Args:
            index: number of the sample, as for ``ds[index]``.
            column: its name: one of arrays, or of bytes or text.
            part: integers, slices of step 1 and ``...``, as numpy's ``s_`` gives them; of bytes and text a slice, which
                counts bytes.

        Returns:
            An array with memory of its own; of bytes and text, bytes; None for null.

        Raises:
            SchemaError: there is no such column, or its values have no parts.
            IndexError: there is no such sample, or an integer lies outside of the value.
            TypeError, ValueError: ``part`` is no box: a list, a mask, a step.
        """
        plan = self.read_cursor.plan
        if plan.data.steps is not None:
            raise ValueError(
                "read_part is of rows, and these are sequences: ask the dataset that they are made of"
            )
        ordinal = plan.data.parts.schema.ordinal(column)
        return part_of_value(plan.data.parts, ordinal, self._samples.row(as_integer(index)), part)

    def __getitems__(self, indices: Sequence[int] | Sequence[tuple[int, int]]) -> list[Given]:
        """The samples at ``indices``, read with one call; with ``on_corrupt="skip"`` without those that are corrupt.

        ``indices`` are numbers, in the current epoch, or an epoch and a position each, as for ``ds[epoch, position]``.
        """
        return self._samples.for_collate(indices)

    def __iter__(self) -> Iterator[Given]:
        return self._samples.epoch()

    def head(self, n: int = 5) -> list[Given]:
        """The first ``n`` samples of this shard in this epoch, fewer if there are fewer: ``ds[:n]``.

        A notebook shows them as a table.
        """
        check_integer("n", n, 0)
        return self._listed(range(min(n, len(self.read_cursor.plan.order))))

    def sample(self, n: int = 5, *, seed: int | None = None) -> list[Given]:
        """``n`` samples of this shard in this epoch, drawn at random, none twice; fewer if there are fewer.

        Args:
            n: how many, 0 or more.
            seed: the same draws each time; by default others each time.
        """
        check_integer("n", n, 0)
        rows = len(self.read_cursor.plan.order)
        places: Any = np.random.default_rng(seed).choice(rows, min(n, rows), replace=False) if rows else []
        return self._listed([int(place) for place in places])

    def _listed(self, places: Sequence[int]) -> SampleList[Given]:
        return SampleList(self._samples.many(places), self.schema if self.transform is None else None)

    @overload
    def get(self, column: str, value: Any) -> Given: ...
    @overload
    def get(self, column: str, value: Any, default: New) -> Given | New: ...
    def get(self, column: str, value: Any, default: Any = UNCHANGED) -> Any:
        """The sample whose ``column`` has this value: of all rows here, whatever the shard, with the transform.

        Where the column is one of ``index=`` it is found by a binary search in the index (docs/loading.md); of others
        all values are gone through. Rows that are deleted, excluded, or not selected are not there.

        Args:
            column: the name of a scalar column of the data, whose values differ.
            value: a string, a number, a bool; of a column with a logical type what a query takes, such as
                ``"2025-06-01"`` or the name of a class, or a ``datetime``, a ``timedelta``, a ``Decimal``.
            default: what is given where no row has the value.

        Raises:
            NoRowError: no row has the value, and there is no ``default``. It is a ``KeyError``.
            QueryError: several rows have it, of which ``view(where=…)`` has all; or the column has no such values.
            SchemaError: there is no such scalar column.
        """
        from ..query.keys import keys_of, only_row

        plan = self.read_cursor.plan
        keys = keys_of(plan.data.parts, column)
        found = keys.rows(value)
        selections = [entry.rows for entry in self.read_cursor.exclusions.entries]
        if found and (selections or not plan.order.selection.is_all):
            rows = np.array(found, np.int64)
            kept = plan.order.selection.holds(rows)
            for left_out in selections:
                kept &= ~left_out.holds(rows)
            found = rows[kept].tolist()
        if not found and default is not UNCHANGED:
            return default
        return self._samples.of_row(only_row(found, keys, value))

    def locate(self, row: int) -> tuple[str, int]:
        """Path of the part that holds a row, and the row's number in that part; IndexError when there is none.

        ``row`` is its number in the dataset, before ``where`` and selections, as ``order.row_ids`` gives it.
        """
        return self.read_cursor.plan.data.parts.locate(row)

    def read_rows(self, row_ids: NDArray[np.int64]) -> dict[str, Any]:
        """The rows with these numbers (as ``order.row_ids`` gives them) as one batch, a dict of arrays, in that order.

        IndexError for numbers that no row has, or one that has been deleted.
        """
        rows = np.ascontiguousarray(row_ids, np.int64)
        self.read_cursor.plan.data.check_live(rows)
        return self.read_cursor.plan.data.reader.batch(rows)

    # ---- what reads ahead --------------------------------------------------------------------------------

    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: Callable[[Sample], Any] | Unchanged | None = ...,
        collate_fn: Callable[[list[Any]], Any] | None = ...,
        batch_transform: Callable[[Any], New],
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[New]: ...
    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: Callable[[Sample], Any] | Unchanged | None = ...,
        collate_fn: Callable[[list[Any]], New],
        batch_transform: None = ...,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[New]: ...
    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: None,
        collate_fn: None = ...,
        batch_transform: None = ...,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[dict[str, Any]]: ...
    @overload
    def batches(
        self: UniRecordDataset[Sample],
        batch_size: int,
        *,
        transform: Unchanged = ...,
        collate_fn: None = ...,
        batch_transform: None = ...,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[dict[str, Any]]: ...
    @overload
    def batches(
        self,
        batch_size: int,
        *,
        transform: Callable[[Sample], Any] | Unchanged = ...,
        collate_fn: None = ...,
        batch_transform: None = ...,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[Any]: ...
    @explains_arguments(READING_ARGUMENTS)
    def batches(
        self,
        batch_size: int,
        *,
        drop_last: bool = False,
        prefetch: int | None = None,
        num_threads: int | None = None,
        transform: Callable[[Sample], Any] | Unchanged | None = UNCHANGED,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        num_workers: int | None = None,
        receipts: str | os.PathLike[str] | None = None,
        random: bool = False,
        crops: Mapping[str, Crop] | None = None,
        return_places: bool = False,
    ) -> BatchLoader[Any]:
        """Batches of this shard as dicts of arrays, read ahead by C threads (docs/loading.md).

        Each iteration over what is returned is one epoch. Its type says what a batch is: a dict, or what
        ``batch_transform`` or ``collate_fn`` returns.

        Fixed-width columns are arrays [batch, …], nullable ones masked arrays, strings lists, other blobs
        ``RaggedArray``. Any batch may be kept for ever. Tensors: ``unirecord.torch.loader``, ``unirecord.tf.dataset``.

        Args:
            batch_size: samples in a batch.
            drop_last: leave out a last batch that is smaller.
            prefetch: batches kept ready; chosen by their size by default.
            num_threads: reading threads; one per core up to four by default.
            transform: called with every sample; the dataset's own by default.
            collate_fn: makes a batch of the list of samples, transformed or as stored; by default arrays are stacked.
            batch_transform: called with every batch, after the others.
            num_workers: Python threads for these functions; one per core by default. 0: the thread that asks.
            receipts: a folder to which every rank writes what it hands out, for ``unirecord audit`` (docs/order.md).
            random: ``transform`` gets a ``numpy.random.Generator`` as its second argument, keyed by seed, epoch and
                row: the same for a sample on any number of threads or ranks, and after any resume. Each draw of a row
                that may come again in an epoch has one of its own.
            crops: by the name of a column of bytes, or of arrays of one free dimension at most, a ``unirecord.Crop``:
                of each value, a box of that size is read, and no more of a column in chunks than it touches. Its place
                is drawn by seed, epoch, row and column: the same on any number of threads or ranks, and after any
                resume. A value that is smaller is a ValueError, which names its row.
            return_places: batches have where each crop begins, int64 [batch, dimensions], under the name of the column
                and ``_place``.
        """
        return BatchLoader(
            self,
            LoaderOptions(
                batch_size,
                drop_last=drop_last,
                prefetch=prefetch,
                num_threads=num_threads,
                transform=self._transform if isinstance(transform, Unchanged) else transform,
                collate_fn=collate_fn,
                batch_transform=batch_transform,
                num_workers=num_workers,
                on_corrupt=self._on_corrupt,
                receipts=receipts,
                random=random,
                crops=crops,
                return_places=return_places,
            ),
        )

    @explains_arguments(READING_ARGUMENTS)
    def pipeline(
        self,
        *,
        cpus: int | None = None,
        memory: int | str | None = None,
        plan: PipelinePlan | None = None,
        rewrite: bool | Collection[str] = True,
        receipts: str | os.PathLike[str] | None = None,
        crops: Mapping[str, Crop] | None = None,
        return_places: bool = False,
    ) -> Pipeline:
        """A pipeline over the samples of this shard: operators that run in parallel, in exact order (docs/pipeline.md).

        Its first operator is the dataset's ``transform``, where it has one.

        Args:
            cpus: cores that it may use; by default those of the process's affinity and cgroup.
            memory: what it may hold of results made ahead, in bytes or as "2GB"; by default a quarter of what is free,
                2 GiB at most.
            plan: what an earlier pipeline with these operators has chosen, ``loader.plan()``, to be used as it is.
            rewrite: whether it is given a faster form with the same results, or the names of the rules that may do so.
            receipts: a folder to which every rank writes what it hands out, as for ``batches``; for operators of which
                each sample gives one result, or a batch of so many.
            crops, return_places: as for ``batches``, of the samples that come to the first operator.
        """
        from ..pipeline.budget import Budget
        from ..pipeline.graph import check_rules
        from ..pipeline.pipeline import Pipeline
        from ..pipeline.source import DatasetOrigin

        made = None if receipts is None else partial(receipts_of, receipts)
        if made is not None:
            made(1, False)  # refuses what is no folder
        origin = DatasetOrigin(self.read_cursor, self._on_corrupt, made, crops, return_places)
        pipeline = Pipeline(origin, Budget.of(cpus, memory), plan, check_rules(rewrite))
        return pipeline if self._transform is None else pipeline.map(self._transform)

    # ---- the same data seen otherwise --------------------------------------------------------------------

    @overload
    def view(self, *, transform: Unchanged = ..., **options: Unpack[ViewOptions]) -> Self: ...
    @overload
    def view(self, *, transform: None, **options: Unpack[ViewOptions]) -> UniRecordDataset[Sample]: ...
    @overload
    def view(
        self, *, transform: Callable[[Sample], New], **options: Unpack[ViewOptions]
    ) -> UniRecordDataset[New]: ...
    @explains_arguments(READING_ARGUMENTS)
    def view(
        self,
        *,
        columns: Sequence[str] | Unchanged | None = UNCHANGED,
        where: str | None = None,
        shuffle: Shuffle | Unchanged = UNCHANGED,
        seed: int | None = None,
        shard_id: int | None = None,
        num_shards: int | None = None,
        remainder: Remainder | None = None,
        transform: Callable[[Sample], Any] | Unchanged | None = UNCHANGED,
        on_corrupt: OnCorrupt | None = None,
        block_rows: int | None = None,
        window_blocks: int | None = None,
    ) -> Any:
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
        plan = self.read_cursor.plan
        if not isinstance(columns, Unchanged):
            plan = plan.with_columns(columns)
        if where is not None:
            plan = plan.where_also(where)
        asked = None if isinstance(shuffle, Unchanged) else shuffle
        spec = plan.order.spec.changed(asked, seed, block_rows, window_blocks)
        spec.check_blocks_given((block_rows, window_blocks))
        own_rows, own_window = plan.blocks
        given = (
            own_rows if block_rows is None else block_rows,
            own_window if window_blocks is None else window_blocks,
        )
        chosen = given == plan.blocks and spec.mode == plan.order.spec.mode
        plan = plan.seeded(spec) if chosen else plan.ordered(spec, given)
        shard, old = (plan.order.sharding.shard_id, plan.order.sharding.num_shards), plan.order.sharding
        if shard_id is not None or num_shards is not None:
            shard = check_shard_arguments(shard_id, num_shards)
        plan = plan.sharded(*shard, old.remainder if remainder is None else remainder)
        if not isinstance(transform, Unchanged):
            check_callable("transform", transform)
        if on_corrupt is not None:
            check_on_corrupt(on_corrupt)
        other = self._over(plan, transform, on_corrupt)
        other.read_cursor.shared |= shard_id is not None
        return other

    def _over(
        self,
        plan: Plan,
        transform: Callable[[Sample], Any] | Unchanged | None = UNCHANGED,
        on_corrupt: OnCorrupt | None = None,
    ) -> Self:
        other: Self = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        own = self._transform if isinstance(transform, Unchanged) else transform
        other._stand(self.read_cursor.over(plan), own, on_corrupt or self._on_corrupt)
        return other

    def select(self, rows: Any) -> Self:
        """Only some of the ``num_rows`` rows here, before sharding and shuffling, in the order given.

        ``rows`` is a slice, a range, integers (negative ones count from the end), or a mask of one bool per row.
        """
        return self._narrowed(self.read_cursor.plan.order.selection.select(rows))

    def take(self, n: int) -> Self:
        """Only the first ``n`` rows as stored, before sharding and shuffling.

        Of a shuffled dataset these are not its first ``n`` samples, but the first ``n`` rows, shuffled.
        """
        return self._narrowed(self.read_cursor.plan.order.selection.take(n))

    def skip(self, n: int) -> Self:
        """All but the first ``n`` rows as stored, before sharding and shuffling."""
        return self._narrowed(self.read_cursor.plan.order.selection.skip(n))

    @overload
    def split(
        self, sizes: Mapping[str, float], seed: int = ..., *, by: str | None = ..., stratify: str | None = ...
    ) -> dict[str, Self]: ...
    @overload
    def split(self, sizes: float | Sequence[float], seed: int | None = ...) -> list[Self]: ...
    def split(
        self,
        sizes: float | Sequence[float] | Mapping[str, float],
        seed: int | None = 0,
        *,
        by: str | None = None,
        stratify: str | None = None,
    ) -> Any:
        """Disjoint datasets that together are this one (docs/order.md).

        With names, such as ``{"train": 0.9, "val": 0.1}``, a row's share hangs on a hash of the row alone, and is the
        one that ``unirecord write --split`` gives it: rows that are added later move no other, and equal rows stay
        together. What comes back has the same names. Without ``by`` the whole row is hashed, so all is read once.

        Args:
            sizes: fractions that sum to 1 by name; or without names fractions, or counts that sum to ``num_rows``; one
                size alone: that, and the rest.
            seed: rows are assigned at random, always in the same way for the same seed; None, without names, cuts runs
                of neighbours.
            by: with names: the column whose value alone is hashed, so that rows with one value stay together.
            stratify: with names: the rows with each value of this column have these shares, to within half a row. New
                rows move few others then. 12 bytes a row are kept meanwhile.

        Raises:
            SchemaError: there is no such column.
            ValueError, TypeError: another wrong argument.
        """
        if isinstance(seed, float) and isinstance(sizes, (int, float)):
            raise TypeError(f"split takes its sizes as one list: split([{sizes}, {seed}])")
        if isinstance(sizes, Mapping):
            if seed is None:
                raise ValueError("split: rows of named shares are told apart by a hash, which takes a seed")
            shares = split_by_hash(self.read_cursor.plan, sizes, seed, by, stratify)
            return {name: self._narrowed(selection) for name, selection in shares.items()}
        if by is not None or stratify is not None:
            raise ValueError(
                'split: by and stratify are for named shares, such as split({"train": 0.9, "val": 0.1}, by="user")'
            )
        return [self._narrowed(part) for part in self.read_cursor.plan.order.selection.split(sizes, seed)]

    def _narrowed(self, selection: Selection) -> Self:
        return self._over(self.read_cursor.plan.selected(selection))

    def __copy__(self) -> Self:
        """A copy goes its own ways from here: two that shared a position would move each other's."""
        return copy.deepcopy(self)

    # ---- columns and tables ------------------------------------------------------------------------------

    def scalars(self, columns: Sequence[str] | None = None, *, order: str = "rows") -> dict[str, Any]:
        """Scalar columns as a dict of arrays, from the index alone: no blob is read, and no transform called.

        ``columns``: by default the scalar ones of the dataset's columns; any of the data can be named.
        ``order="rows"``: of all selected rows, before sharding and shuffling, [num_rows]; views of the mapped index
        where a single part is selected whole (read-only), copies otherwise. ``order="samples"``: of the samples of this
        shard in this epoch, [len(ds)], so that value i belongs to ``ds[i]`` and to ``order.row_ids()[i]``. Nullable
        columns are masked arrays, strings arrays of ``str`` objects. Where value i is not that of row i of the data,
        the array refuses to be indexed with what ``order.row_ids`` gives (IndexError).

        ValueError where rows have been left out by ``exclude``, which an array would have again.
        """
        self.read_cursor.refuse_exclusions("an array of a column")
        plan = self.read_cursor.plan
        if order not in ("rows", "samples"):
            raise ValueError(f'order must be "rows" or "samples", got {order!r}')
        selection = plan.order.selection
        if order == "rows":
            self._check_rows_are_samples("scalars")
        if order == "samples" and (plan.order.shuffled or plan.order.sharding.num_shards > 1):
            selection = Selection(
                selection.rows, array=plan.order.row_ids(0, None, self.read_cursor.position.epoch)
            )
        schema = plan.data.snapshot.schema
        stored = scalar_arrays(plan.data.parts, self._column_names(columns), selection)
        found = {name: as_times(values, schema[name].time_dtype) for name, values in stored.items()}
        if selection.is_range and (selection.start, selection.step) == (0, 1):
            return found
        return {name: in_own_order(column) for name, column in found.items()}

    def _check_rows_are_samples(self, asked: str) -> None:
        rule = self.read_cursor.plan.order.rule
        if rule is not None:
            raise ValueError(
                f"{asked} is of rows as they are stored, and this is a {rule.name}: ask what it is made of, or "
                'scalars(order="samples") for the samples of this shard in this epoch'
            )

    def _check_has_table(self, asked: str) -> None:
        self._check_rows_are_samples(asked)
        if self.read_cursor.plan.data.steps is not None:
            raise ValueError(
                f"{asked} is of rows, and these are sequences: ask the dataset that they are made of, with its "
                "select(…) for the rows that order.row_ids() has, or batches() for the sequences"
            )

    def _column_names(self, columns: Sequence[str] | None) -> list[str]:
        schema = self.read_cursor.plan.data.snapshot.schema
        if columns is None:
            return self._scalar_names()
        if isinstance(columns, str):
            raise ValueError(
                f"columns must be a list of names, got the string {columns!r}: write [{columns!r}], "
                f"or ds[{columns!r}] for one column in the order of the samples"
            )
        return [schema.columns[schema.ordinal(name)].name for name in columns]

    def _scalar_names(self) -> list[str]:
        """The scalar ones of the dataset's columns; ValueError where only others have been chosen."""
        plan = self.read_cursor.plan
        names = [column.name for _, column in plan.columns if not column.is_blob]
        if (
            not names
            and len(plan.columns) < len(plan.data.snapshot.schema)
            and plan.data.snapshot.schema.scalars
        ):
            chosen = [column.name for _, column in plan.columns]
            raise ValueError(
                f"the dataset's columns are {chosen}, none of them scalar: name those that are wanted"
            )
        return names

    def to_arrow(self, columns: Sequence[str] | None = None) -> pyarrow.Table:
        """All selected rows as a ``pyarrow.Table``, before sharding and shuffling.

        Scalar columns come from the index alone; DuckDB and Polars query the table as it is. With blob columns among
        ``columns`` it takes the memory of all their values: ``to_batches`` does not.

        Args:
            columns: names of the columns; by default those that the dataset was opened with (``columns=``), and where
                none were named the scalar ones.

        Values are as they are stored: a transform is not called. ValueError where rows have been left out by
        ``exclude``, which a table would have again.
        """
        self._check_has_table("to_arrow")
        self.read_cursor.refuse_exclusions("a table")
        plan = self.read_cursor.plan
        if columns is None and plan.data.are_chosen:
            columns = plan.data.stored_names()
        names = self._column_names(columns)
        if any(plan.data.snapshot.schema[name].is_blob for name in names):
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

        Values are as they are stored: a transform is not called. ValueError where rows have been left out by
        ``exclude``, as of ``to_arrow``.
        """
        self._check_has_table("to_batches")
        self.read_cursor.refuse_exclusions("a table")
        names = self.read_cursor.plan.data.stored_names() if columns is None else self._column_names(columns)
        rows: Any = self.view(columns=names, shuffle=False, shard_id=0, num_shards=1, transform=None)
        plan = rows.read_cursor.plan
        found = [plan.data.snapshot.schema[name] for name in names]
        size = rows_of_a_batch(batch_size, plan.row_bytes)
        # a wrong size is refused here, and not at the first batch
        batches: list[Any] = [rows.batches(size)]
        shared = shared_columns(found, plan.data.parts, plan.order.selection)
        if shared and self._on_corrupt == "raise":
            batches = [scalar_batches(plan.data.parts, shared, plan.order.selection, size)]
            if len(shared) < len(names):
                rest = [name for name in names if name not in shared]
                batches.append(rows.view(columns=rest).batches(size))
        return to_batches(found, *batches)

    def __arrow_c_schema__(self) -> object:
        """The Arrow types of the dataset's columns, as a PyCapsule: those of `to_batches`."""
        return schema_capsule([column for _, column in self.read_cursor.plan.columns])

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows of `to_batches` as a PyCapsule, for ``pyarrow.table(ds)``, ``polars.DataFrame(ds)`` and DuckDB.

        Batches are read as the consumer asks for them, and each call begins anew (docs/exporting.md).

        Args:
            requested_schema: the capsule of a schema, whose types are given where values have a way to them.

        Raises:
            SchemaError: the requested schema has other columns.
            ClosedError: the dataset has been closed.
            MissingError: pyarrow is not installed.
        """
        self.read_cursor.plan.data.parts.check_open()
        return stream_capsule(self.to_batches(), requested_schema)

    # ---- epochs and state --------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the current one, here and in the worker processes of this one.

        It counts for ``ds[i]`` at once, and for the next iteration.
        """
        self.read_cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, as a small dict of plain values; what has been read ahead is not counted.

        The pass may be an iteration of this dataset, of a loader made from it, or of an ``EpochSampler``: whichever
        began last. ValueError while a DataLoader of PyTorch's reads by number, or ahead in worker processes: it alone
        knows how far it has come.
        """
        return self.read_cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of ranks.

        Raises StaleError when the state is of other data, ValueError when it is of other options; both name what
        differs.
        """
        self.read_cursor.load_state_dict(state)

    @property
    def order(self) -> OrderQueries:
        """The order, to be asked: which rows a step of the job gets, and when a row comes (docs/order.md)."""
        return OrderQueries(self, self.read_cursor)

    def exclude(
        self,
        rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
        *,
        where: str | None = None,
        fill: bool = False,
    ) -> int:
        """Leaves rows out from now on, here and in all loaders made from this dataset, in this epoch and later ones.

        From the place where the latest pass stands, what comes next. All other samples keep their step and slot, on any
        number of ranks: a batch is smaller, and a step that would be empty on all ranks is passed over (docs/order.md).
        Call it on every rank between the same two steps. It is part of the state. Views made later leave the rows out
        too. ``len(ds)`` stays as it is.

        Args:
            rows: row numbers in the dataset, as ``order.row_ids`` and ``order.rows_of`` give them.
            where: the rows that meet a condition (docs/query.md), in place of ``rows``.
            fill: another row, drawn for it, stands where one is left out: batches keep their size.

        Returns:
            How many rows are named.

        Raises:
            IndexError: there is no such row.
            QueryError: the condition is wrong.
            ValueError: not exactly one of ``rows`` and ``where`` is given, nothing would be left, or a DataLoader of
                PyTorch reads this dataset, and it alone knows where it stands.
        """
        return self.read_cursor.exclude(named_rows(self.read_cursor.plan, rows, where), fill)

    @property
    def excluded_rows(self) -> int:
        """How many rows have been named to ``exclude`` so far, some perhaps more than once."""
        return sum(len(entry.rows) for entry in self.read_cursor.exclusions.entries)

    # ---- life --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the files, for datasets derived from this one too; later reads raise ClosedError.

        Reads in flight finish first.
        """
        self.read_cursor.plan.data.parts.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def refresh(self) -> bool:
        """Takes in what has been published at ``path`` since it was opened; True if there was anything.

        Call it between epochs. The epoch stays as it is; ``where`` is evaluated again. Batches in hand stay good.

        Raises:
            ValueError: the dataset was made with ``select``, ``take``, ``skip`` or ``split``, and names rows of the
                old data, or with ``mix``: refresh the dataset that it was made from.
            StaleError: a column that it reads has gone, or has another type; open the dataset anew. Columns that came
                are for who opens it anew.
        """
        rule = self.read_cursor.plan.order.rule
        if rule is not None:
            raise ValueError(f"a {rule.name} is made of data as they were: refresh these, and make it anew")
        if self.read_cursor.plan.narrowed:
            raise ValueError(
                "a selection names rows of the data as it was: refresh the dataset it was made from, and select anew"
            )
        plan = self.read_cursor.plan.refreshed()
        if plan is None:
            return False
        samples = Samples(self.read_cursor, self._transform, self._on_corrupt)
        samples.read_from(plan)
        exclusions = self.read_cursor.refreshed(plan)
        # no signal is handled between the three
        self._samples, self.read_cursor.plan, self.read_cursor.exclusions = samples, plan, exclusions
        return True

    # ---- what a notebook shows ---------------------------------------------------------------------------

    def _shown(self) -> Shown:
        from ..inspect.notebook import dataset_html

        plan, about = (
            self.read_cursor.plan,
            repr(self).partition("; columns ")[0].removeprefix("UniRecordDataset("),
        )
        names = [column.name for _, column in plan.columns]
        selection = plan.order.selection
        picked = np.arange(min(_CHARTED_ROWS, len(selection)), dtype=np.int64) * len(selection)
        rows = np.sort(selection.row_ids(picked // max(1, len(picked))))
        first = (
            []
            if plan.order.rule is not None
            else plan.order.row_ids(0, 3, self.read_cursor.position.epoch).tolist()
        )
        return dataset_html(about, plan.data.parts, names, rows, first)

    def _repr_html_(self) -> str | None:
        try:
            return self._shown()._repr_html_()
        except (
            UniRecordError,
            OSError,
        ):  # closed, its files are gone, or no Jinja2: the text says what it was
            return None
