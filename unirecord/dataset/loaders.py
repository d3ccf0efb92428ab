"""What reads a dataset ahead: batches as arrays, pipelines of operators, TensorFlow's datasets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ..loading.options import LoaderOptions, ReadAhead
from .batch_loader import BatchLoader
from .excluding import DatasetExcluding
from .receipts import receipts_of
from .views import UNCHANGED, Given, Sample, Unchanged

if TYPE_CHECKING:
    import datasets
    import mindspore.dataset
    import tensorflow
    from typing_extensions import Unpack

    from ..pipeline.pipeline import Pipeline
    from ..pipeline.tuner import PipelinePlan

__all__ = ["DatasetLoaders"]

New = TypeVar("New")


class DatasetLoaders(DatasetExcluding[Given]):
    """The ways to iterate over a dataset that read ahead."""

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
        self: DatasetLoaders[Sample],
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
        receipts: str | PathLike[str] | None = None,
        random: bool = False,
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
            receipts: a folder to which every rank writes what it hands out, for ``unirecord audit`` (docs/order.md).
            random: ``transform`` gets a ``numpy.random.Generator`` as its second argument, keyed by seed, epoch and
                row: the same for a sample on any number of threads or ranks, and after any resume. Each draw of a row
                that may come again in an epoch has one of its own.
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
            ),
        )

    def replay(
        self,
        step: int,
        batch_size: int,
        *,
        epoch: int | None = None,
        start: int = 0,
        drop_last: bool = False,
        transform: Callable[[Sample], Any] | Unchanged | None = UNCHANGED,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        random: bool = False,
        rank: int | None = None,
        num_shards: int | None = None,
    ) -> Any:
        """The batch that a rank gets in a step again, read and transformed as ``batches`` does; nothing moves.

        ``loader.replay`` has the loader's own options, and ``pipeline.replay`` runs a pipeline's operators.

        Args:
            step: as for ``rows_of``.
            batch_size: as for ``batches``.
            epoch, start: as for ``rows_of``.
            drop_last, transform, collate_fn, batch_transform, random: as for ``batches``.
            rank, num_shards: of which rank, of how many; by default this dataset's.

        Raises:
            IndexError: the rank has no batch in that step.
        """
        own = self._cursor.plan.order.sharding
        ranks = own.num_shards if num_shards is None else num_shards
        of = (own.shard_id if ranks == own.num_shards else 0) if rank is None else rank
        view = (
            self.view(shard_id=of, num_shards=ranks)
            if (of, ranks) != (own.shard_id, own.num_shards)
            else self
        )
        options = LoaderOptions(
            batch_size,
            drop_last=drop_last,
            num_threads=1,
            transform=self._transform if isinstance(transform, Unchanged) else transform,
            collate_fn=collate_fn,
            batch_transform=batch_transform,
            on_corrupt=self._on_corrupt,
            random=random,
        )
        loader: BatchLoader[Any] = BatchLoader(view, options)
        return loader.replay(step, epoch=epoch, start=start)

    def pipeline(
        self,
        *,
        cpus: int | None = None,
        memory: int | str | None = None,
        plan: PipelinePlan | None = None,
        rewrite: bool | Collection[str] = True,
        receipts: str | PathLike[str] | None = None,
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
        """
        from ..pipeline.budget import Budget
        from ..pipeline.graph import check_rules
        from ..pipeline.pipeline import Pipeline
        from ..pipeline.source import DatasetOrigin

        made = None if receipts is None else partial(receipts_of, receipts)
        if made is not None:
            made(1, False)  # refuses what is no folder
        origin = DatasetOrigin(self._cursor, self._on_corrupt, made)
        pipeline = Pipeline(origin, Budget.of(cpus, memory), plan, check_rules(rewrite))
        return pipeline if self._transform is None else pipeline.map(self._transform)

    def to_tf(
        self,
        batch_size: int,
        *,
        drop_last: bool = False,
        prefetch: int | None = None,
        num_threads: int | None = None,
    ) -> tensorflow.data.Dataset[Any]:
        """This shard as a ``tf.data.Dataset`` of batches (docs/tensorflow.md).

        ``batch_size``, ``drop_last``, ``prefetch`` and ``num_threads`` are as for ``batches``.
        """
        from ..frameworks.tf import to_tf

        dataset: Any = self
        return to_tf(dataset, batch_size, drop_last=drop_last, prefetch=prefetch, num_threads=num_threads)

    def to_mindspore(
        self,
        batch_size: int,
        *,
        drop_last: bool = False,
        prefetch: int | None = None,
        num_threads: int | None = None,
    ) -> mindspore.dataset.GeneratorDataset:
        """This shard as a ``mindspore.dataset.GeneratorDataset`` whose rows are batches (docs/frameworks.md).

        ``batch_size``, ``drop_last``, ``prefetch`` and ``num_threads`` are as for ``batches``.
        """
        from ..frameworks.mindspore import to_mindspore

        dataset: Any = self
        return to_mindspore(
            dataset, batch_size, drop_last=drop_last, prefetch=prefetch, num_threads=num_threads
        )

    def to_hf(self, num_shards: int | None = None) -> datasets.IterableDataset:
        """This shard as a Hugging Face ``datasets.IterableDataset`` with typed features (docs/frameworks.md).

        ``num_shards``: into how many stretches its workers and nodes can divide it; the parts, or 64, by default.
        """
        from ..frameworks.hf import to_hf

        dataset: Any = self
        return to_hf(dataset, num_shards)

    def to_hf_table(self) -> datasets.Dataset:
        """The scalar columns of this shard as an Arrow-backed ``datasets.Dataset``, in the order of ``ds[i]``."""
        from ..frameworks.hf import to_hf_table

        dataset: Any = self
        return to_hf_table(dataset)
