"""Which rows a step of a job gets, and at which steps a row comes: asked of the order, past and future."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from ..order.exclusion import Leaving
from ..order.permutation import occurrences
from ..order.selection import Selection, row_numbers
from ..order.spec import JobSteps, Sharding, check_integer
from .preview import DatasetLooking
from .row_numbers import as_row_numbers
from .views import Given

__all__ = [
    "DatasetAsking",
    "delivery_table",
]


# When rows come, as a table: an entry for every delivery of a row that was asked for, and one where there is none.


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


RowIds = NDArray[np.int64]


class DatasetAsking(DatasetLooking[Given]):
    """The order of a dataset as a function that can be asked, forwards and backwards (docs/order.md)."""

    def steps_in_epoch(
        self, batch_size: int, *, num_shards: int | None = None, drop_last: bool = False, start: int = 0
    ) -> int:
        """How many steps an epoch of the job has: the batches of rank 0, which has most.

        ``batch_size``, ``num_shards``, ``drop_last`` and ``start`` are as for ``rows_of``.
        """
        return len(self._job(batch_size, num_shards, drop_last, start))

    @overload
    def rows_of(
        self,
        step: int,
        batch_size: int,
        *,
        epoch: int | None = ...,
        rank: int | None = ...,
        num_shards: int | None = ...,
        drop_last: bool = ...,
        start: int = ...,
        read: Literal[False] = ...,
    ) -> RowIds: ...
    @overload
    def rows_of(
        self,
        step: int,
        batch_size: int,
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
        batch_size: int,
        *,
        epoch: int | None = None,
        rank: int | None = None,
        num_shards: int | None = None,
        drop_last: bool = False,
        start: int = 0,
        read: bool = False,
    ) -> RowIds | dict[str, Any]:
        """The rows that a step of the job gets, as numbers that ``read_rows`` takes, int64[rows of the step].

        Nothing is read and nothing moves: it is computed, for past and future steps alike, as ``batches(batch_size)``
        on every rank delivers them. A whole job's rows come in the order of the epoch: the first samples of all ranks,
        then the second ones.

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
        """
        steps = self._job(batch_size, num_shards, drop_last, start)
        epoch, step = steps.located(step, epoch)
        order, leaving = self._cursor.plan.order, self._cursor.leaving(epoch, steps)
        if leaving is None:
            found = order.selection.row_ids(order.order(epoch).at(steps.positions(step, rank)))
        else:
            found = leaving.of_step(step, rank)
        rows = as_row_numbers(found)
        return self._cursor.plan.data.reader.batch(rows) if read else rows

    def steps_of(
        self,
        rows: int | Sequence[int] | RowIds,
        batch_size: int,
        *,
        epochs: Iterable[int] | None = None,
        num_shards: int | None = None,
        drop_last: bool = False,
        start: int = 0,
    ) -> dict[str, NDArray[np.int64]]:
        """When rows come: a dict of int64 arrays ``row``, ``epoch``, ``step``, ``rank``, ``slot``, an entry a delivery.

        The inverse of ``rows_of``: ``step`` counts in its epoch, ``slot`` is the place in the rank's batch. Entries
        come by epoch, and as the rows were given within one. A row that an epoch does not deliver (``where``, a
        selection, ``remainder="drop"`` or ``drop_last`` leaves it out) has one entry there with −1 as step, rank and
        slot; one that is padded has two.

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

        def deliveries(epoch: int, places: RowIds) -> tuple[RowIds, RowIds, RowIds, RowIds]:
            came, positions = occurrences(order.order(epoch), places)
            which, step, rank, slot = steps.places(positions)
            found, leaving = (came[which], step, rank, slot), self._cursor.leaving(epoch, steps)
            if leaving is None:
                return found
            return _with_holes(leaving, steps, epoch, order.selection.row_ids(places), found)

        return delivery_table(rows, order.selection, wanted, deliveries)

    def _job(self, batch_size: int, num_shards: int | None, drop_last: bool, start: int) -> JobSteps:
        own = self._cursor.plan.order.sharding
        ranks = own.num_shards if num_shards is None else num_shards
        return JobSteps(Sharding(own.rows, 0, ranks, own.remainder, start), batch_size, drop_last)


def _with_holes(
    leaving: Leaving, steps: JobSteps, epoch: int, asked: RowIds, found: tuple[RowIds, RowIds, RowIds, RowIds]
) -> tuple[RowIds, RowIds, RowIds, RowIds]:
    """(which of the rows, step, rank, slot) without those left out, and with those that fill a hole."""
    given, step, rank, slot = found
    start, ranks, size = steps.sharding.start, steps.sharding.num_shards, steps.batch_size
    positions = start + (step * size + slot) * ranks + rank
    out, _ = leaving.exclusions.holes(epoch, positions, asked[given])
    holes, rows = leaving.fills()
    in_order = np.argsort(rows, kind="stable")
    wanted, place = np.unique(asked, return_index=True)  # a selection may have a row at several places
    first, last = (np.searchsorted(rows[in_order], wanted, side) for side in ("left", "right"))
    filling = [in_order[a:b] for a, b in zip(first.tolist(), last.tolist(), strict=True)]
    more = holes[np.concatenate(filling)] if filling else holes[:0]
    sample, more_rank = np.divmod(more - start, ranks)
    own = np.repeat(place, last - first)
    return (
        np.concatenate([given[~out], own]),
        np.concatenate([step[~out], sample // size]),
        np.concatenate([rank[~out], more_rank]),
        np.concatenate([slot[~out], sample % size]),
    )
