"""Batches that a rule draws from a dataset: of classes in equal numbers, of rows of like length."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..elsewhere import OF_DRAWS, no_attribute
from ..format.schema import Schema
from ..loading.options import LoaderOptions, ReadAhead, check_callable
from ..order.spec import JobSteps, Sharding
from ..sizes import many
from .batch_loader import BatchLoader
from .cursor import Cursor
from .order_queries import delivery_table
from .row_numbers import as_row_numbers
from .views import UNCHANGED, Unchanged

if TYPE_CHECKING:
    import tensorflow
    from typing_extensions import Unpack

    from ..loading.options import (
        OnCorrupt,
    )  # completion in notebooks fails at properties it finds to be a Literal

__all__ = ["DrawnBatches"]

Numbers = NDArray[np.int64]


class DrawnBatches:
    """What ``ds.balanced`` and ``ds.bucketed`` give: batches with a length, epochs and a state (docs/drawing.md).

    ``batches()`` and ``unirecord.torch.loader`` read them ahead. Iterated over, it is a batch sampler as PyTorch knows
    them: lists of places in ``dataset``, for ``DataLoader(drawn.dataset, batch_sampler=drawn)``. Ranks share batches:
    rank r of N has the batches r, r + N, …, and ``remainder`` says what becomes of the last ones. A position in a state
    counts batches of all ranks.
    """

    def __init__(self, source: Any, cursor: Cursor) -> None:
        self._source = source
        self._cursor = cursor

    @property
    def dataset(self) -> Any:
        """The rows that batches are drawn from, in the order stored, on one rank: what the lists of places are of."""
        return self._source.view(shuffle=False, shard_id=0, num_shards=1)

    @property
    def transform(self) -> Callable[[dict[str, Any]], Any] | None:
        """What is called with every sample: the dataset's."""
        transform: Callable[[dict[str, Any]], Any] | None = self._source.transform
        return transform

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What becomes of corrupt rows: as the dataset says."""
        found: OnCorrupt = self._source.on_corrupt
        return found

    @property
    def schema(self) -> Schema:
        """The schema of the data."""
        return self._cursor.plan.data.snapshot.schema

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return tuple(column.name for _, column in self._cursor.plan.columns)

    @property
    def epoch(self) -> int:
        """The current epoch."""
        return self._cursor.position.epoch

    def __len__(self) -> int:
        return self._cursor.samples_left()

    def __repr__(self) -> str:
        rule = self._cursor.plan.order.rule
        assert rule is not None
        return f"DrawnBatches({rule.name}, {many(rule.samples, 'batch')} of {many(rule.rows, 'row')}: {self._source!r})"

    def batches(
        self,
        *,
        transform: Callable[[Any], Any] | Unchanged | None = UNCHANGED,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        batch_transform: Callable[[Any], Any] | None = None,
        **read_ahead: Unpack[ReadAhead],
    ) -> BatchLoader[Any]:
        """The batches of this rank, read ahead by C threads, as ``UniRecordDataset.batches`` gives its own.

        Args:
            transform, collate_fn, batch_transform: as for ``UniRecordDataset.batches``.
            **read_ahead: ``prefetch``, ``num_threads`` and ``num_workers``, likewise.
        """
        own = self.transform if isinstance(transform, Unchanged) else transform
        check_callable("transform", own)
        return BatchLoader(self, self._loader_options(own, collate_fn, batch_transform, **read_ahead))

    def to_tf(
        self, *, prefetch: int | None = None, num_threads: int | None = None
    ) -> tensorflow.data.Dataset[Any]:
        """The batches of this rank as a ``tf.data.Dataset``, as ``UniRecordDataset.to_tf`` gives its own.

        ``prefetch`` and ``num_threads`` are as for ``batches``.
        """
        from ..frameworks.tf import to_tf

        return to_tf(self, None, prefetch=prefetch, num_threads=num_threads)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise AttributeError(no_attribute(type(self).__name__, name, OF_DRAWS), name=name, obj=self)

    def _loader_options(
        self,
        transform: Callable[[Any], Any] | None,
        collate_fn: Callable[[list[Any]], Any] | None,
        batch_transform: Callable[[Any], Any] | None,
        **read_ahead: Unpack[ReadAhead],
    ) -> LoaderOptions:
        """The options of a loader of these batches; ValueError for ``drop_last`` and ``receipts``, which are none."""
        if read_ahead.pop("drop_last", False):
            raise ValueError(
                "drop_last: batches have been drawn already; bucketed(drop_last=True) leaves small ones out"
            )
        if read_ahead.get("receipts") is not None:
            raise ValueError(
                "receipts count samples, and ranks share batches here: there are none for drawn batches"
            )
        largest = self._cursor.plan.order.order(0).largest
        return LoaderOptions(
            largest,
            transform=transform,
            collate_fn=collate_fn,
            batch_transform=batch_transform,
            on_corrupt=self.on_corrupt,
            **read_ahead,
        )

    def steps_in_epoch(self, *, num_shards: int | None = None, start: int = 0) -> int:
        """How many steps an epoch of the job has: the batches of rank 0, which has most.

        ``num_shards`` and ``start`` are as for ``rows_of``.
        """
        return len(self._job(num_shards, start))

    def rows_of(
        self,
        step: int,
        *,
        epoch: int | None = None,
        rank: int | None = None,
        num_shards: int | None = None,
        start: int = 0,
        read: bool = False,
    ) -> NDArray[np.int64] | dict[str, Any]:
        """The rows that a step of the job gets, as ``UniRecordDataset.rows_of`` says it of other batches.

        Args:
            step: counted from 0 in ``epoch``; without an epoch, over all epochs from the start of epoch 0.
            epoch: which epoch.
            rank: only this rank's batch; by default those of all ranks, one after the other.
            num_shards: how many ranks the job has; by default those of the dataset.
            start: the ``position`` of the state that was loaded, in batches of all ranks. Steps count from there.
            read: the rows themselves, as one batch, in place of their numbers.

        Raises:
            IndexError: the epoch has no such step.
            ValueError: ``start`` without ``epoch``, or another wrong argument.
        """
        steps = self._job(num_shards, start)
        epoch, step = steps.located(step, epoch)
        plan = self._cursor.plan
        places, _ = plan.order.order(epoch).batches(steps.positions(step, rank))
        rows = as_row_numbers(plan.order.selection.row_ids(places))
        return plan.data.reader.batch(rows) if read else rows

    def steps_of(
        self,
        rows: int | Sequence[int] | NDArray[np.int64],
        *,
        epochs: Iterable[int] | None = None,
        num_shards: int | None = None,
        start: int = 0,
    ) -> dict[str, NDArray[np.int64]]:
        """When rows come: the inverse of ``rows_of``, as ``UniRecordDataset.steps_of`` gives it.

        A row that comes again has an entry for each time; one that an epoch does not deliver one with −1.

        Args:
            rows: row numbers in the dataset, as ``row_ids`` gives them.
            epochs: which epochs; by default the current one.
            num_shards, start: as for ``rows_of``.
        """
        steps, order = self._job(num_shards, start), self._cursor.plan.order

        def deliveries(epoch: int, places: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
            came, positions, slot = order.order(epoch).occurrences(places)
            which, step, rank, _ = steps.places(positions)
            return came[which], step, rank, slot[which]

        return delivery_table(rows, order.selection, [self.epoch] if epochs is None else epochs, deliveries)

    def _job(self, num_shards: int | None, start: int) -> JobSteps:
        own = self._cursor.plan.order.sharding
        ranks = own.num_shards if num_shards is None else num_shards
        return JobSteps(Sharding(own.rows, 0, ranks, own.remainder, start), 1)

    def __iter__(self) -> Generator[list[int], None, None]:
        # A generator: the pass begins when the first batch is asked for.
        run, position = self._cursor.begin(self._cursor.plan), self._cursor.position
        for number in range(run.samples):
            places: list[int] = run.positions(number, number + 1).tolist()
            position.mark(run, run.after(number + 1))
            yield places

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``."""
        self._cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands; of a ``DataLoader``, which asks ahead, by the batches that it has asked for."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on where ``state`` was taken, on any number of ranks."""
        self._cursor.load_state_dict(state)
