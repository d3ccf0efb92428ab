"""Which rows a step of a job gets, and at which steps a row comes: asked of the order, past and future."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from ..loading.loader import UNCHANGED, Unchanged
from ..order.exclusion import ExclusionMask
from ..order.selection import Selection, row_numbers
from ..order.spec import JobSteps, Sharding, check_integer
from .cursor import Cursor
from .row_numbers import as_row_numbers

__all__ = [
    "OrderQueries",
]


Numbers = NDArray[np.int64]
# (epoch, places in the selection) → which of these, and step, rank and slot of every time that one comes.
Deliveries = Callable[[int, Numbers], tuple[Numbers, Numbers, Numbers, Numbers]]

_NAMES = ("row", "epoch", "step", "rank", "slot")


def delivery_table(
    rows: int | Sequence[int] | Numbers, selection: Selection, epochs: Iterable[int], deliveries: Deliveries
) -> dict[str, Numbers]:
    """A dict of int64 arrays ``row``, ``epoch``, ``step``, ``rank``, ``slot``; −1 where a row does not come.

    By epoch, and as the rows were given within one. TypeError and IndexError for what are no rows of the dataset.
    """
    asked = row_numbers(rows, selection.rows)
    selected, places = selection.places(asked)
    wanted = list(epochs)
    for epoch in wanted:
        check_integer("epoch", epoch, 0, (1 << 63) - 1)
    found = [
        _of_epoch(asked, selected, epoch, [np.asarray(one) for one in deliveries(epoch, places)])
        for epoch in wanted
    ]
    table = np.concatenate(found, axis=1) if found else np.empty((len(_NAMES), 0), np.int64)
    return dict(zip(_NAMES, table, strict=True))


def _of_epoch(asked: Numbers, selected: Numbers, epoch: int, came: list[Any]) -> NDArray[np.int64]:
    """row, epoch, step, rank, slot of one epoch: [5, entries]."""
    which, *when = came
    given = selected[which]
    absent = np.setdiff1d(np.arange(len(asked)), given)
    nothing = np.full(len(absent), -1)
    step, rank, slot = (np.concatenate([values, nothing]) for values in when)
    given = np.concatenate([given, absent])
    in_turn = np.lexsort((slot, rank, step, given))
    entries = np.stack([asked[given], np.full(len(given), epoch), step, rank, slot])
    return np.asarray(entries[:, in_turn], np.int64)


class OrderQueries:
    """The order of a dataset, or of batches drawn from one, asked forwards and backwards (docs/order.md).

    Nothing moves, and no data are read but by ``rows_of(read=True)`` and ``replay``: what is asked is computed, for
    past and future steps alike, as the loaders of every rank deliver it. Where batches have been drawn, they have the
    sizes that they have: ``batch_size`` and ``drop_last`` are not given, and positions and ``start`` count batches of
    all ranks.
    """

    def __init__(self, made_of: Any, cursor: Cursor) -> None:
        """Of a dataset or of drawn batches, ``made_of``, and of what they share with their loaders."""
        self._made_of = made_of
        self._cursor = cursor

    def __repr__(self) -> str:
        return f"the order of {self._made_of!r}"

    def row_ids(self, start: int = 0, stop: int | None = None) -> Numbers:
        """Row numbers in the dataset of the samples of this shard in this epoch, int64[stop − start].

        ``start`` and ``stop`` are clipped like those of a slice. They number all rows of the data, also after ``where``
        and selections: ``read_rows`` and ``locate`` take them. ``scalars()`` of a selection has only its rows, and
        refuses them as indexes: ``scalars(order="samples")`` is in the order of ``ds[i]``.

        Raises ValueError where batches have been drawn, which ``rows_of`` gives one by one.
        """
        if self._cursor.plan.order.batched:
            raise ValueError("row_ids: these are drawn batches: order.rows_of(step) gives the rows of one")
        return as_row_numbers(self._cursor.plan.order.row_ids(start, stop, self._cursor.position.epoch))

    def steps_in_epoch(
        self,
        batch_size: int | None = None,
        *,
        num_shards: int | None = None,
        drop_last: bool = False,
        start: int = 0,
    ) -> int:
        """How many steps an epoch of the job has: the batches of rank 0, which has most.

        ``batch_size``, ``num_shards``, ``drop_last`` and ``start`` are as for ``rows_of``.
        """
        return len(self._job(batch_size, num_shards, drop_last, start))

    @overload
    def rows_of(
        self,
        step: int,
        batch_size: int | None = ...,
        *,
        epoch: int | None = ...,
        rank: int | None = ...,
        num_shards: int | None = ...,
        drop_last: bool = ...,
        start: int = ...,
        read: Literal[False] = ...,
    ) -> Numbers: ...
    @overload
    def rows_of(
        self,
        step: int,
        batch_size: int | None = ...,
        *,
        epoch: int | None = ...,
        rank: int | None = ...,
        num_shards: int | None = ...,
        drop_last: bool = ...,
        start: int = ...,
        read: Literal[True],
    ) -> dict[str, Any]: ...
    def rows_of(
        self,
        step: int,
        batch_size: int | None = None,
        *,
        epoch: int | None = None,
        rank: int | None = None,
        num_shards: int | None = None,
        drop_last: bool = False,
        start: int = 0,
        read: bool = False,
    ) -> Numbers | dict[str, Any]:
        """The rows that a step of the job gets, as numbers that ``read_rows`` takes, int64[rows of the step].

        A whole job's rows come in the order of the epoch: the first samples of all ranks, then the second ones; drawn
        batches one rank after the other.

        Args:
            step: counted from 0 in ``epoch``; without an epoch, over all epochs from the start of epoch 0.
            batch_size: samples in a batch of one rank.
            epoch: which epoch.
            rank: only this rank's batch; by default the rows of all ranks.
            num_shards: how many ranks the job has; by default those of this dataset.
            drop_last: whether the loaders leave out a last batch that is smaller.
            start: where the epoch was taken up: the ``position`` of the state that was loaded. Steps count from there.
            read: the rows themselves, as one batch, in place of their numbers.

        Raises:
            IndexError: the epoch has no such step.
            ValueError: ``start`` without ``epoch``, or another wrong argument.
            TypeError: no ``batch_size``, and batches have not been drawn.
        """
        steps = self._job(batch_size, num_shards, drop_last, start)
        epoch, step = steps.located(step, epoch)
        order = self._cursor.plan.order
        if self._cursor.plan.order.batched:
            places, _ = order.order(epoch).batches(steps.positions(step, rank))
            found = order.selection.row_ids(places)
        else:
            found = self._cursor.exclusion_mask(epoch, steps).of_step(step, rank)
        rows = as_row_numbers(found)
        return self._cursor.plan.data.reader.batch(rows) if read else rows

    def steps_of(
        self,
        rows: int | Sequence[int] | Numbers,
        batch_size: int | None = None,
        *,
        epochs: Iterable[int] | None = None,
        num_shards: int | None = None,
        drop_last: bool = False,
        start: int = 0,
    ) -> dict[str, Numbers]:
        """When rows come: a dict of int64 arrays ``row``, ``epoch``, ``step``, ``rank``, ``slot``, an entry a delivery.

        The inverse of ``rows_of``: ``step`` counts in its epoch, ``slot`` is the place in the rank's batch. Entries
        come by epoch, and as the rows were given within one. A row that an epoch does not deliver (``where``, a
        selection, ``remainder="drop"`` or ``drop_last`` leaves it out) has one entry there with −1 as step, rank and
        slot; one that comes again, as padding or because it is drawn twice, has an entry for each time.

        Args:
            rows: row numbers in the dataset, as ``row_ids`` gives them.
            batch_size: as for ``rows_of``.
            epochs: which epochs; by default the current one.
            num_shards, drop_last: as for ``rows_of``.
            start: the position at which each of the epochs was taken up.
        """
        steps = self._job(batch_size, num_shards, drop_last, start)
        order = self._cursor.plan.order
        wanted = [self._cursor.position.epoch] if epochs is None else epochs

        def of_drawn_batches(epoch: int, places: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
            came, positions, slot = order.order(epoch).occurrences(places)
            which, step, rank, _ = steps.places(positions)
            return came[which], step, rank, slot[which]

        def of_samples(epoch: int, places: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
            came, positions = order.order(epoch).occurrences(places)
            which, step, rank, slot = steps.places(positions)
            found, exclusion_mask = (came[which], step, rank, slot), self._cursor.exclusion_mask(epoch, steps)
            if not exclusion_mask:
                return found
            return _with_skipped_slots(exclusion_mask, steps, epoch, order.selection.row_ids(places), found)

        deliveries = of_drawn_batches if self._cursor.plan.order.batched else of_samples
        return delivery_table(rows, order.selection, wanted, deliveries)

    def replay(
        self,
        step: int,
        batch_size: int | None = None,
        *,
        epoch: int | None = None,
        start: int = 0,
        drop_last: bool = False,
        transform: Callable[[dict[str, Any]], Any] | Unchanged | None = UNCHANGED,
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
        job = self._job(batch_size, num_shards, drop_last, start)
        own, ranks = self._cursor.plan.order.sharding, job.sharding.num_shards
        of = (own.shard_id if ranks == own.num_shards else 0) if rank is None else rank
        options: dict[str, Any] = {
            "collate_fn": collate_fn,
            "batch_transform": batch_transform,
            "random": random,
        }
        made_of = self._made_of
        if self._cursor.plan.order.batched:
            if (of, ranks) != (own.shard_id, own.num_shards):
                raise ValueError(
                    "replay of another rank: draw from ds.view(shard_id=..., num_shards=...), "
                    "and ask the order of that"
                )
            loader = made_of.batches(transform=transform, num_threads=1, **options)
        else:
            if (of, ranks) != (own.shard_id, own.num_shards):
                made_of = made_of.view(shard_id=of, num_shards=ranks)
            loader = made_of.batches(
                job.batch_size, transform=transform, drop_last=drop_last, num_threads=1, **options
            )
        return loader.replay(step, epoch=epoch, start=start)

    def _job(self, batch_size: int | None, num_shards: int | None, drop_last: bool, start: int) -> JobSteps:
        own = self._cursor.plan.order.sharding
        if self._cursor.plan.order.batched:
            if batch_size is not None or drop_last:
                raise ValueError(
                    "these batches have been drawn, and have the size that they have: "
                    "leave out batch_size and drop_last"
                )
            batch_size = 1  # what stands at a position is a batch
        elif batch_size is None:
            raise TypeError("say how many samples a batch of one rank has: batch_size")
        ranks = own.num_shards if num_shards is None else num_shards
        return JobSteps(Sharding(own.rows, 0, ranks, own.remainder, start), batch_size, drop_last)


def _with_skipped_slots(
    exclusion_mask: ExclusionMask,
    steps: JobSteps,
    epoch: int,
    asked: Numbers,
    found: tuple[Numbers, Numbers, Numbers, Numbers],
) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """(which of the rows, step, rank, slot) without those left out, and with those that fill a skipped slot."""
    given, step, rank, slot = found
    start, ranks, size = steps.sharding.start, steps.sharding.num_shards, steps.batch_size
    positions = start + (step * size + slot) * ranks + rank
    out, _ = exclusion_mask.exclusions.skipped(epoch, positions, asked[given])
    skipped, rows = exclusion_mask.fills()
    in_order = np.argsort(rows, kind="stable")
    wanted, place = np.unique(asked, return_index=True)  # a selection may have a row at several places
    first, last = (np.searchsorted(rows[in_order], wanted, side) for side in ("left", "right"))
    filling = [in_order[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    more = skipped[np.concatenate(filling)] if filling else skipped[:0]
    sample, more_rank = np.divmod(more - start, ranks)
    own = np.repeat(place, last - first)
    return (
        np.concatenate([given[~out], own]),
        np.concatenate([step[~out], sample // size]),
        np.concatenate([rank[~out], more_rank]),
        np.concatenate([slot[~out], sample % size]),
    )
