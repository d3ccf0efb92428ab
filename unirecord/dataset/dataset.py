"""UniRecordDataset: the rows of parts, chosen, ordered and shared out over ranks, as samples and batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from ..elsewhere import OF_DATASETS, no_attribute
from ..format.schema import Schema
from ..loading.opened import OpenedData, PathLike
from ..loading.options import check_callable, check_on_corrupt
from ..loading.plan import Plan
from ..order.spec import OrderSpec, Remainder, Shuffle, check_shard_arguments, shard_from_environment
from ..parts.cache import CacheOptions, CacheStats
from ..parts.part_set import Io, Snapshot, Verify, use_snapshot
from ..parts.versions import path_of_version
from ..sizes import many
from ..storage.storage_options import storage_of, use_storage
from .cursor import Cursor
from .draws import DatasetDrawing
from .position import Position
from .row_numbers import as_row_numbers
from .samples import Samples
from .views import Given, Sample, Unchanged, ViewOptions

if TYPE_CHECKING:
    from typing import Self

    from typing_extensions import Unpack

    from ..loading.options import (
        OnCorrupt,
    )  # completion in notebooks fails at properties it finds to be a Literal

__all__ = ["UniRecordDataset"]

New = TypeVar("New")


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


class UniRecordDataset(DatasetDrawing[Given]):
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
        columns: names of the columns to read, in this order; all by default. Only what is asked for is read.
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
        """Rows after ``where`` and selections, before sharding; of a mixture those of all sources together."""
        return self._cursor.plan.order.rows_in_play

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

    def cache_stats(self) -> CacheStats:
        """What ``cache=`` has saved in this process since the dataset was opened; zeros without one."""
        return self._cursor.plan.data.parts.cache_stats()

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._cursor.position.epoch

    @property
    def transform(self) -> Callable[[Sample], Given] | None:
        """What is called with every sample; ``view(transform=...)`` has another."""
        return self._transform

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What batches and iterations do with corrupt rows: "raise" or "skip"."""
        return self._on_corrupt

    if TYPE_CHECKING:  # `view` knows no class but its own

        @overload  # type: ignore[override]
        def view(self, *, transform: Unchanged = ..., **options: Unpack[ViewOptions]) -> Self: ...
        @overload
        def view(self, *, transform: None, **options: Unpack[ViewOptions]) -> UniRecordDataset[Sample]: ...
        @overload
        def view(
            self, *, transform: Callable[[Sample], New], **options: Unpack[ViewOptions]
        ) -> UniRecordDataset[New]: ...
        def view(self, **options: Any) -> Any: ...

    else:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self).__name__, name, OF_DATASETS), name=name, obj=self)

    def __len__(self) -> int:
        return len(self._cursor.plan.order)

    def __repr__(self) -> str:
        plan = self._cursor.plan
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
    def __getitem__(self, index: str) -> Any: ...
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
            return self._samples.many(range(*index.indices(len(self._cursor.plan.order))))
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

    def __getitems__(self, indices: Sequence[int] | Sequence[tuple[int, int]]) -> list[Given]:
        """The samples at ``indices``, read with one call; with ``on_corrupt="skip"`` without those that are corrupt.

        ``indices`` are numbers, in the current epoch, or an epoch and a position each, as for ``ds[epoch, position]``.
        """
        return self._samples.for_collate(indices)

    def __iter__(self) -> Iterator[Given]:
        return self._samples.epoch()

    def row_ids(self, start: int = 0, stop: int | None = None) -> NDArray[np.int64]:
        """Row numbers in the dataset of the samples of this shard in this epoch, int64[stop − start].

        ``start`` and ``stop`` are clipped like those of a slice. They number all rows of the data, also after ``where``
        and selections: ``read_rows`` and ``locate`` take them. ``scalars()`` of a selection has only its rows, and
        refuses them as indexes: ``scalars(order="samples")`` is in the order of ``ds[i]``.
        """
        return as_row_numbers(self._cursor.plan.order.row_ids(start, stop, self.epoch))

    def locate(self, row: int) -> tuple[str, int]:
        """Path of the part that holds a row, and the row's number in that part; IndexError when there is none.

        ``row`` is its number in the dataset, before ``where`` and selections, as ``row_ids`` gives it.
        """
        return self._cursor.plan.data.parts.locate(row)

    def read_rows(self, row_ids: NDArray[np.int64]) -> dict[str, Any]:
        """The rows with these numbers (as ``row_ids`` gives them) as one batch, a dict of arrays, in that order.

        IndexError for numbers that no row has, or one that has been deleted.
        """
        rows = np.ascontiguousarray(row_ids, np.int64)
        self._cursor.plan.data.check_live(rows)
        return self._cursor.plan.data.reader.batch(rows)

    # ---- epochs and state --------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """Makes ``epoch`` the current one, here and in the worker processes of this one.

        It counts for ``ds[i]`` at once, and for the next iteration.
        """
        self._cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands, as a small dict of plain values; what has been read ahead is not counted.

        The pass may be an iteration of this dataset, of a loader made from it, or of an ``EpochSampler``: whichever
        began last. ValueError while a DataLoader of PyTorch's reads by number, or ahead in worker processes: it alone
        knows how far it has come.
        """
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of ranks.

        Raises StaleError when the state is of other data, ValueError when it is of other options; both name what
        differs.
        """
        self._cursor.load_state_dict(state)

    # ---- life --------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the files, for datasets derived from this one too; later reads raise ClosedError.

        Reads in flight finish first.
        """
        self._cursor.plan.data.parts.close()

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
        rule = self._cursor.plan.order.rule
        if rule is not None:
            raise ValueError(f"a {rule.name} is made of data as they were: refresh these, and make it anew")
        if self._cursor.plan.narrowed:
            raise ValueError(
                "a selection names rows of the data as it was: refresh the dataset it was made from, and select anew"
            )
        plan = self._cursor.plan.refreshed()
        if plan is None:
            return False
        samples = Samples(self._cursor, self._transform, self._on_corrupt)
        samples.read_from(plan)
        exclusions = self._cursor.refreshed(plan)
        # no signal is handled between the three
        self._samples, self._cursor.plan, self._cursor.exclusions = samples, plan, exclusions
        return True
