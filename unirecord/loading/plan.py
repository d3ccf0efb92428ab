"""The plan of a dataset: all that decides which row is sample i of epoch e, and nothing that changes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import Crops, NativeLoader, Order
from ..format.column import Column
from ..order.exclusion import ExclusionMask
from ..order.permutation import BatchOrder, EpochRun, Rule, ShardOrder
from ..order.randomness import sample_base
from ..order.sampling import SampledOrder
from ..order.selection import Selection
from ..order.spec import OrderSpec, Sharding
from ..snapshot.part_set import Snapshot, use_snapshot
from ..snapshot.versions import version_with
from ..storage.storage_options import use_storage
from .boxes import Crop
from .opened import OpenedData, PathLike

__all__ = ["Batches", "Plan"]

_BY_PARTS = ("parts", "within-parts")  # orders that the parts make
_STRETCH = 1 << 16  # samples whose rows are listed at a time where the core does not compute their order
_LONG_STRETCH = 1 << 17  # where they are many: each stretch is twice the one before, up to this


@dataclass(frozen=True)
class Batches:
    """Batches of a pass whose rows are listed: of each, the samples of the pass before its end, and where its rows end.

    ``drawn``: which of the ``rows`` fill a skipped slot. ``draws``: as ``ShardOrder.draws_at`` has them.
    """

    ends: NDArray[np.int64]
    row_ends: NDArray[np.int64]
    rows: NDArray[np.int64]
    drawn: NDArray[np.bool_]
    draws: NDArray[np.int64] | None

    def of(self, number: int) -> slice:
        """Where the rows of a batch are."""
        return slice(int(self.row_ends[number - 1]) if number else 0, int(self.row_ends[number]))


@dataclass(frozen=True)
class Plan:
    """Parts, columns, selection, order and shard; frozen, and picklable: then the same data are opened anew.

    The algebra is fixed: the rows that meet ``where``, then those that have been selected of them, then the order of
    the epoch, then this rank's share of it. ``condition`` is ``where`` in its one form; ``narrowed`` says whether rows
    have been selected by their numbers; ``blocks`` are the sizes given for the order "block".
    """

    data: OpenedData
    order: ShardOrder
    where: str | None
    condition: str | None
    narrowed: bool
    blocks: tuple[int | None, int | None]

    @classmethod
    def of(
        cls,
        data: OpenedData,
        where: str | None,
        spec: OrderSpec,
        shard: tuple[int, int],
        remainder: str,
        blocks: tuple[int | None, int | None],
    ) -> Plan:
        """The plan over the rows that meet ``where``; ``shard`` is (shard_id, num_shards)."""
        selection, condition = data.live_rows(), None
        if where is not None:
            selection, query = data.where_rows(selection, where)
            where, condition = query.text, str(query)
        sharding = Sharding(len(selection), *shard, remainder)
        spec = data.with_blocks(spec, len(selection), blocks)
        order = ShardOrder(selection, sharding, spec, data.parts.starts)
        return cls(data, order, where, condition, False, blocks)

    # ---- what it says ------------------------------------------------------------------------------------

    @property
    def columns(self) -> tuple[tuple[int, Column], ...]:
        """Ordinal and column of each output."""
        return self.data.columns

    @property
    def identity(self) -> str:
        """What a position in the order is bound to: the rows, and the parts too where these make the order."""
        snapshot = self.data.snapshot
        return snapshot.parts_identity if self.order.spec.mode in _BY_PARTS else snapshot.rows_identity

    @property
    def row_bytes(self) -> float:
        """Bytes of an average row in the output columns, about."""
        return self.data.row_bytes

    def row_bytes_with(self, crops: Mapping[str, Crop] | None) -> float:
        """The same where crops are taken."""
        return self.data.row_bytes_with(crops)

    def rows_of(self, run: EpochRun, start: int, stop: int) -> NDArray[np.int64]:
        """The rows of the dataset at samples [start, stop) of a pass; at batches where a rule makes these."""
        return self.order.selection.row_ids(run.positions(start, stop))

    def draws_of(self, run: EpochRun, start: int, stop: int) -> NDArray[np.int64] | None:
        """What tells samples of one row apart, of samples or batches [start, stop) of a pass; None: each comes once."""
        first, count = run.first + start * run.stride, stop - start
        if isinstance(run.order, BatchOrder):
            positions = run.order.positions(first, run.stride, count)
            return run.order.draws(positions, self.order.repeats)
        return self.order.draws_at(first + run.stride * np.arange(count, dtype=np.int64))

    def open_loaders(
        self, run: EpochRun, batch_size: int, draws: NDArray[np.int64] | None = None, **options: Any
    ) -> Iterator[NativeLoader]:
        """The C loaders of a pass, one after the other: one alone, where the core computes its order.

        ``draws``: of its samples, where they are those of listed rows and the order does not say them.
        """
        if isinstance(run.order, Order):
            period = self.order.samples if self.order.repeats else 0
            options = self._with_crops(options, run, draws, period)
            yield self._open_loader(run, run.order, batch_size=batch_size, **options)
            return
        if isinstance(run.order, SampledOrder):
            yield from self._open_sampled(run, run.order, **options)
            return
        if isinstance(run.order, BatchOrder):
            yield from self._open_drawn(run, run.order, **options)
            return
        stretch = batch_size * max(1, _STRETCH // batch_size)
        for start in range(0, run.samples, stretch):
            stop = min(start + stretch, run.samples)
            rows, draws = self.rows_of(run, start, stop), self.draws_of(run, start, stop)
            yield self._open_listed(rows, batch_size=batch_size, **self._with_crops(options, run, draws))

    @staticmethod
    def _with_crops(
        options: dict[str, Any], run: EpochRun, draws: NDArray[np.int64] | None = None, period: int = 0
    ) -> dict[str, Any]:
        """The options of a C loader, its crops with what places are drawn by."""
        if options.get("crops") is None:
            return options
        base = sample_base(run.order.spec.seed, run.epoch)
        return {**options, "crops": Crops(options["crops"], base, draws, period)}

    def _open_drawn(self, run: EpochRun, order: BatchOrder, **options: Any) -> Iterator[NativeLoader]:
        """The C loaders of a pass whose batches a rule makes."""
        stretch = max(1, _STRETCH // order.largest)
        for start in range(0, run.samples, stretch):
            count = min(stretch, run.samples - start)
            places, ends = order.batches(order.positions(run.first + start * run.stride, run.stride, count))
            rows, draws = self.order.selection.row_ids(places), None
            if options.get("crops") is not None:  # else nothing asks for them
                draws = self.draws_of(run, start, start + count)
            given = self._with_crops(options, run, draws)
            yield self._open_listed(rows, batch_size=order.largest, batch_ends=ends, **given)

    def _open_sampled(
        self, run: EpochRun, order: SampledOrder, *, prefetch: int, **options: Any
    ) -> Iterator[NativeLoader]:
        """The C loaders of a pass whose batches a sampler names: two at a time read ``prefetch`` of them each."""
        ahead: deque[NativeLoader] = deque()
        try:
            while True:
                while len(ahead) < 2 and len(numbers := order.take(prefetch)):
                    places, ends = order.batches(numbers)
                    rows, largest = self.order.selection.row_ids(places), int(np.diff(ends, prepend=0).max())
                    asked = {**options, "batch_size": largest, "batch_ends": ends, "prefetch": prefetch}
                    draws = order.draws(numbers, self.order.repeats)
                    ahead.append(self._open_listed(rows, **self._with_crops(asked, run, draws)))
                if not ahead:
                    break
                yield ahead.popleft()
        finally:
            for native in ahead:
                native.close()
        order.raise_failure()

    def open_exclusion_mask(
        self,
        run: EpochRun,
        exclusion_mask: ExclusionMask,
        batch_size: int,
        *,
        drop_last: bool,
        **options: Any,
    ) -> Iterator[tuple[NativeLoader, Batches]]:
        """C loaders of a pass with skipped slots, each with what its batches are; none for those without a row."""
        samples = run.samples // batch_size * batch_size if drop_last else run.samples
        start = stop = 0
        stretch = _STRETCH
        while stop < samples:
            start, stop = stop, min(stop + batch_size * max(1, stretch // batch_size), samples)
            stretch = min(2 * stretch, _LONG_STRETCH)
            found = exclusion_mask.of_rank(run.first, run.stride, start, stop)
            ends = np.minimum(np.arange(start, stop, batch_size, dtype=np.int64) + batch_size, stop)
            row_ends = np.cumsum(found.there)[ends - start - 1]
            some = np.diff(row_ends, prepend=0) > 0
            if not some.any():
                continue
            whole = row_ends[-1] == stop - start
            rows = found.given if whole else found.given[found.there]
            drawn = found.out if whole else found.out[found.there]
            positions = run.first + run.stride * np.arange(start, stop, dtype=np.int64)
            draws = self.order.draws_at(positions[found.there], drawn)
            listed = Batches(ends[some], row_ends[some], rows, drawn, draws)
            options["batch_size"] = batch_size
            given = self._with_crops(options, run, draws)
            yield self._open_listed(rows, batch_ends=listed.row_ends, drop_last=False, **given), listed

    def rows_before(
        self, run: EpochRun, end: int, count: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """The last ``count`` rows that a pass delivers before ``end``; of the last batch, where these are drawn.

        And what tells samples of one row apart, as ``draws_of`` has it.
        """
        number = (end - run.start) // run.stride
        first = number - (1 if run.order.batched else count)
        return self.rows_of(run, first, number), self.draws_of(run, first, number)

    def _open_listed(self, rows: NDArray[np.int64], **options: Any) -> NativeLoader:
        """The C loader for rows in the order given."""
        return self.data.open_loader(
            order=Order(len(rows), OrderSpec()),
            selection=rows,
            selection_start=0,
            selection_step=1,
            first=0,
            stride=1,
            samples=len(rows),
            **options,
        )

    def _open_loader(self, run: EpochRun, order: Order, **options: Any) -> NativeLoader:
        base, start, step, _ = self.order.selection.as_c()
        return self.data.open_loader(
            order=order,
            selection=base,
            selection_start=start,
            selection_step=step,
            first=run.first,
            stride=run.stride,
            samples=run.samples,
            **options,
        )

    # ---- other plans over the same data -------------------------------------------------------------------

    def selected(self, selection: Selection) -> Plan:
        """The same order and shards over rows that have been selected."""
        return replace(self, order=self.order.narrowed(selection), narrowed=True)

    def drawn(self, rule: Rule) -> Plan:
        """The same rows and ranks, drawn by a rule."""
        return replace(self, order=self.order.with_rule(rule))

    def listed(self, rows: NDArray[np.int64]) -> Plan:
        """These rows of the dataset alone, in the order given, on one rank."""
        return replace(self, order=self.order.listed(rows), narrowed=True)

    def where_also(self, where: str) -> Plan:
        """Over those rows alone that meet another condition as well."""
        selection, query = self.data.where_rows(self.order.selection, where)
        text = query.text if self.where is None else f"({self.where}) and ({query.text})"
        condition = str(query)
        if self.condition is not None:
            from ..query import compile_query

            condition = str(compile_query(text, self.data.snapshot.schema))
        narrower = replace(self, order=self.order.narrowed(selection), where=text, condition=condition)
        return narrower.ordered(narrower.order.spec)

    def ordered(self, spec: OrderSpec, blocks: tuple[int | None, int | None] | None = None) -> Plan:
        """The same rows in another order."""
        blocks = self.blocks if blocks is None else blocks
        spec = self.data.with_blocks(spec, len(self.order.selection), blocks)
        return replace(self, order=self.order.with_spec(spec), blocks=blocks)

    def seeded(self, spec: OrderSpec) -> Plan:
        """The same rows in the same kind of order: blocks keep the sizes that were chosen when there were more rows."""
        return replace(self, order=self.order.with_spec(spec))

    def sharded(self, shard_id: int, num_shards: int, remainder: str) -> Plan:
        """The same order shared out otherwise."""
        rows = self.order.samples
        return replace(self, order=self.order.with_sharding(Sharding(rows, shard_id, num_shards, remainder)))

    def with_columns(self, columns: Sequence[str] | None) -> Plan:
        """The same samples with other columns."""
        return replace(self, data=self.data.with_columns(columns))

    def refreshed(self) -> Plan | None:
        """The plan over what is published at the path now; None when that is this data."""
        with use_storage(self.data.snapshot.storage):
            return use_snapshot(self.path, self._over)

    def _over(self, snapshot: Snapshot) -> Plan | None:
        data = self.data.published(snapshot)
        if data is None:
            return None
        sharding = self.order.sharding
        shard = (sharding.shard_id, sharding.num_shards)
        return Plan.of(data, self.where, self.order.spec, shard, sharding.remainder, self.blocks)

    def version_with(self, identity: str, mode: str) -> str | None:
        """The version of what was opened that has this identity in an order of this kind, as a path; None without."""
        if not isinstance(self.path, (str, os.PathLike)):
            return None
        with use_storage(self.data.snapshot.storage):
            return version_with(os.fspath(self.path), identity, of_parts=mode in _BY_PARTS)

    @property
    def path(self) -> PathLike | Sequence[PathLike]:
        """What was opened."""
        return self.data.path
