"""What a pipeline reads and where it stands in it: stored samples of a dataset, or whole batches, as chunks."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptionError
from ..format.column import Column
from ..loading.batch import RaggedArray, items_of
from ..loading.boxes import Crop
from ..loading.loader import MOST_PREFETCH, BatchMemory, BatchReader, LoaderOptions, OnCorrupt, TrackedBatch
from ..loading.plan import Plan
from ..loading.stats import PartTimes
from ..order.exclusion import ExclusionMask
from ..order.permutation import EpochRun, ShardOrder
from ..order.randomness import pass_key, sample_keys
from ..order.rest import Rest, RestOrder
from ..order.selection import Selection
from ..order.spec import JobSteps, Sharding
from .budget import Budget
from .chunk import Bounds, Chunk, ElementPlace, Note, position_of
from .graph import Graph
from .stage import Named

__all__ = [
    "DatasetCursor",
    "DatasetOrigin",
    "DatasetSource",
    "Lend",
    "Origin",
    "OriginPass",
    "ResultReceipts",
    "RowNames",
    "rows_at_once",
]


# What a pipeline over a dataset reads: stored samples, or whole batches of them, as chunks with their places.


_Draws = Callable[[int, int], "NDArray[np.int64] | None"]
_Places = Callable[[int, int], tuple[Sequence[int], Sequence[int]]]

_CHUNK_BYTES = 1 << 20
_MOST_ROWS, _FEWEST_ROWS = 256, 8
_WINDOW = 1 << 20  # samples whose rows are looked up at a time where some are known not to be read


def rows_at_once(row_bytes: float) -> int:
    """How many samples are read together: a kept one pins them all."""
    return max(_FEWEST_ROWS, min(_MOST_ROWS, int(_CHUNK_BYTES / max(1.0, row_bytes))))


class RowNames:
    """Says where the rows of a plan lie, and which of them meet a condition."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.meeting: Callable[[str], NDArray[np.bool_]] = lru_cache(maxsize=None)(self._meeting)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._plan,)

    def locate(self, row: int) -> tuple[str, str]:
        """Path of a row's part, and words that name the row in a message."""
        path, row_in_part = self._plan.data.parts.locate(row)
        return path, f"row {row} (row {row_in_part} of {path})"

    def _meeting(self, condition: str) -> NDArray[np.bool_]:
        rows = self._plan.data.snapshot.rows
        meets = np.zeros(rows, np.bool_)
        selection, _ = self._plan.data.where_rows(Selection(rows), condition)
        meets[selection.row_ids(np.arange(len(selection)))] = True
        return meets


class DatasetSource:
    """One pass over the shard of a plan.

    ``batched``: each chunk is one batch as ``ds.batches`` gives it, else some samples. ``keyed``: with keys for
    randomness. ``raw`` are columns given as stored bytes, uint8[n]. ``conditions`` are met by the rows that are read;
    the others are passed over. ``exclusion_mask`` says which rows are left out, and what stands in their place. Where
    batches are made of so many samples, ``aligned``, those of one have all of its places among themselves; 0: each
    sample has its own.
    ``times`` counts how long reading took of each part.
    """

    def __init__(
        self,
        plan: Plan,
        run: EpochRun,
        options: LoaderOptions,
        memory: BatchMemory,
        times: PartTimes,
        *,
        batched: bool,
        keyed: bool,
        raw: frozenset[str] = frozenset(),
        conditions: Sequence[NDArray[np.bool_]] = (),
        exclusion_mask: ExclusionMask,
        aligned: int = 0,
    ) -> None:
        self._plan, self._run, self._options, self._memory = plan, run, options, memory
        self._batched, self._keyed, self._raw, self._conditions = batched, keyed, raw, tuple(conditions)
        self._exclusion_mask, self._aligned = exclusion_mask, aligned
        self._times = times

    def __iter__(self) -> Iterator[Chunk]:
        if not self._batched and (self._conditions or self._exclusion_mask):
            return self._passing_over()
        plan, run = self._plan, self._run

        def places(start: int, stop: int) -> tuple[Sequence[int], Sequence[int]]:
            begin, end = run.after(start), run.after(stop)
            return range(begin, end, run.stride), range(begin + run.stride, end + run.stride, run.stride)

        return self._read(plan, run, places, lambda start, stop: plan.draws_of(run, start, stop))

    def _read(
        self,
        plan: Plan,
        run: EpochRun,
        places: _Places,
        draws: _Draws,
        listed: NDArray[np.int64] | None = None,
    ) -> Iterator[Chunk]:
        """The samples of a run.

        ``places`` says where samples from one to another of it begin and end, ``draws`` what tells those of one row
        apart; ``listed`` are all draws of a run over listed rows.
        """
        exclusion_mask = self._exclusion_mask if self._batched else None
        reader = BatchReader(plan, run, self._options, self._memory, exclusion_mask, draws=listed)
        batches = iter(reader)
        begin = run.start
        try:
            for delivered in batches:
                rows, told = delivered.rows, delivered.draws
                stop = (delivered.end - run.start) // run.stride
                start = stop - delivered.samples - len(delivered.left_out)
                if rows is None:
                    rows = plan.rows_of(run, start, stop)
                    told = draws(start, stop) if self._keyed else None
                between = ((begin,), (delivered.end,)) if self._batched else places(start, stop)
                begin = delivered.end
                yield self._chunk(delivered, rows, told, *between)
                del delivered
            if reader.trailing:
                yield Chunk([], (), (), (), (), tuple(Note(row, None) for row in reader.trailing))
        finally:
            batches.close()
            self._times.merge(reader.part_times)

    def _passing_over(self) -> Iterator[Chunk]:
        """Reads those rows alone that come: each window of the pass as a selection of its own."""
        plan, run = self._plan, self._run
        unit = self._aligned or self._options.batch_size
        window = unit * max(1, _WINDOW // unit)
        for start in range(0, run.samples, window):
            stop = min(start + window, run.samples)
            found = self._exclusion_mask.of_rank(run.first, run.stride, start, stop)
            kept = np.flatnonzero(found.there)
            for condition in self._conditions:
                kept = kept[condition[found.given[kept]]]
            if len(kept):
                chosen = plan.listed(found.given[kept])
                positions = run.first + run.stride * (kept + start)
                draws = None
                if self._keyed or self._options.crops:
                    draws = plan.order.draws_at(positions, found.out[kept])
                places = self._places(kept + start)
                yield from self._read(chosen, chosen.order.run(run.epoch, 0), places, _sliced(draws), draws)

    def _places(self, numbers: NDArray[np.int64]) -> _Places:
        """Where these samples of the pass begin and end: those of a batch have all of its places among themselves."""
        run, size, ends = self._run, self._aligned, numbers + 1
        if size:
            batch = numbers // size
            alone = np.diff(batch, prepend=-1, append=-1) != 0  # from the sample before the first one on
            ends = np.minimum(np.where(alone[1:], (batch + 1) * size, np.append(numbers[1:], 0)), run.samples)
            numbers = np.where(alone[:-1], batch * size, numbers)
        begins_ends = [(run.start + of * run.stride).tolist() for of in (numbers, ends)]
        return lambda start, stop: (begins_ends[0][start:stop], begins_ends[1][start:stop])

    def _chunk(
        self,
        delivered: TrackedBatch[dict[str, Any]],
        rows: NDArray[np.int64],
        draws: NDArray[np.int64] | None,
        begins: Sequence[int],
        ends: Sequence[int],
    ) -> Chunk:
        left_out = delivered.left_out
        if left_out:  # a corrupt row is left out wherever it comes
            kept = np.flatnonzero(~np.isin(rows, left_out))
            rows, draws = rows[kept], None if draws is None else draws[kept]
            if not self._batched:
                begins, ends = ([of[i] for i in kept.tolist()] for of in (begins, ends))
        notes = tuple(Note(row, None) for row in left_out)
        ids: list[int] = rows.tolist()
        keys = sample_keys(self._run.order.spec.seed, self._run.epoch, rows, draws) if self._keyed else ()
        if self._batched:
            return Chunk([delivered.batch], begins, ends, [ids], [keys] if self._keyed else (), notes)
        return Chunk(self._samples(delivered, ids), begins, ends, ids, keys, notes)

    def _samples(self, delivered: TrackedBatch[dict[str, Any]], rows: list[int]) -> list[Any]:
        batch = delivered.batch
        raw = {
            name: value
            for name, value in batch.items()
            if name in self._raw and isinstance(value, RaggedArray)
        }
        try:
            columns = items_of({name: value for name, value in batch.items() if name not in raw})
        except CorruptionError:
            for row in rows:  # finds the row that cannot be decoded, and says where it is
                self._plan.data.reader.one(row)
            raise
        for name, value in raw.items():
            places = value.offsets.tolist()
            columns[name] = [value.data[a:b] for a, b in itertools.pairwise(places)]
        names = list(batch)
        return [
            dict(zip(names, values, strict=True)) for values in zip(*(columns[n] for n in names), strict=True)
        ]


def _sliced(values: Any) -> Callable[[int, int], Any]:
    return lambda start, stop: None if values is None else values[start:stop]


# Where the elements of a pipeline come from: what any origin can say and do, and a dataset as one.


Lend = Callable[[int], NDArray[np.uint8]]


class ResultReceipts(Protocol):
    """What a pass writes down of its results (dataset/receipts.py)."""

    exclusion_mask: ExclusionMask

    def result(self, end: int, rows: Any, left_out: Mapping[int, str | None]) -> None:
        """Notes a result that is about to be handed out."""

    def rest(self, end: int, left_out: Mapping[int, str | None]) -> None:
        """Notes the end of the pass, and what was left out behind the last result."""

    def sync(self) -> None:
        """Makes what has been written durable."""


class OriginPass(Protocol):
    """One pass: elements from position ``start`` of ``epoch`` on."""

    epoch: int
    start: int
    names: Named
    processes: Any  # those that make the elements, to be started, ended and waited for; None: there are none
    calls_user: bool  # whether a user's function makes them here, for as long as that takes

    @property
    def worker_key(self) -> int:
        """What the global random generators of its worker processes hang on."""

    @property
    def followed(self) -> bool:
        """Whether it is the latest one, which a state is about."""

    def bounds(self, graph: Graph) -> Bounds | None:
        """Says where batches begin and end, where some are smaller; None: as many samples make one as are asked for."""

    def end(self, graph: Graph) -> int:
        """The position behind the last element; of batches that have their places, behind the last that is whole."""

    def chunks(
        self, graph: Graph, budget: Budget, times: PartTimes, lend: Lend | None = None
    ) -> Iterator[Chunk]:
        """The elements, as the graph wants them read; batches into memory that ``lend(size)`` gives.

        ``times`` counts how long reading took of each part."""

    def mark(self, position: int) -> None:
        """Notes that what lies before a position has been handed out."""

    def receipts(self, graph: Graph) -> ResultReceipts | None:
        """What writes receipts of the pass; None where none have been asked for."""

    @property
    def is_outdated(self) -> bool:
        """Whether what has been made ahead is not to be handed out any more."""

    def going_on(self, position: int) -> OriginPass:
        """The rest of the pass from a position on, as it is to be now."""

    def over(self, rest: Rest) -> OriginPass:
        """The same pass, whose places are those of the rest of its epoch."""


class Origin(Protocol):
    """What is iterated, epoch after epoch."""

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns of its samples; None: not known."""

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns as they are stored; none where samples are not."""

    @property
    def shard(self) -> tuple[int, int]:
        """This rank and the number of ranks."""

    def condition(self, text: str) -> str:
        """The one form of a condition on rows; QueryError, ValueError where it is wrong, or there are no rows."""

    @property
    def samples(self) -> int:
        """Samples of an epoch, those of all ranks; 0 where that is not known, for one rank alone."""

    def samples_left(self) -> int | None:
        """Samples of the next pass; None: not known."""

    def batches_left(self, size: int, drop_last: bool) -> int | None:
        """Batches of the next pass, were they made of its samples as they come; None: not known."""

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass."""

    def state_dict(self) -> dict[str, Any]:
        """The state of the latest pass, with ``epoch`` and ``position``."""

    def load_state_dict(self, state: Any) -> None:
        """Makes the next pass go on from a state."""

    def places_after(
        self,
        state: dict[str, Any],
        rest: Rest,
        ranks: int,
        conditions: Sequence[str],
        samples: int,
        unit: int,
    ) -> list[tuple[int, bool]]:
        """Where each of so many ranks stands after so many samples that meet conditions, and whether more come to it.

        ``state``: of the dataset, in the epoch that all took up as ``rest`` says. ``unit``: a rank hands out whole
        batches of so many alone. StaleError, ValueError for a state of something else.
        """

    def begin(self) -> OriginPass:
        """Starts a pass."""


class DatasetCursor(Protocol):
    """What is needed of a dataset: its plan, and the position in it (dataset/cursor.py)."""

    plan: Plan
    position: Any
    exclusions: Any

    def begin(self, plan: Plan) -> EpochRun:
        """Starts a pass over a plan that it had."""

    def samples_left(self) -> int:
        """Samples of the next pass."""

    def skipped_left(self) -> int:
        """Those of them that are left out without others in their place."""

    def batches_left(self, size: int, drop_last: bool) -> int:
        """Batches of the next pass."""

    def exclusion_mask(self, epoch: int, steps: JobSteps | None = None) -> ExclusionMask:
        """Which rows come in a pass, and in which slots none does."""

    def steps(self, start: int, batch_size: int, drop_last: bool) -> JobSteps:
        """The steps of a pass from a position on."""

    def standing_at(self, epoch: int, position: int) -> DatasetCursor:
        """The same plan, which goes on from a place."""

    def state_dict(self) -> dict[str, Any]:
        """The state of the latest pass."""

    def state_at_front(self) -> dict[str, Any]:
        """What of a state is not a place."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next pass go on from a state."""


class DatasetOrigin:
    """The samples of a dataset's shard."""

    def __init__(
        self,
        cursor: DatasetCursor,
        on_corrupt: OnCorrupt,
        receipts: Any = None,
        crops: Mapping[str, Crop] | None = None,
        return_places: bool = False,
    ) -> None:
        """``receipts``: makes what writes receipts, of batches of a size and with ``drop_last``."""
        self._cursor, self._receipts = cursor, None if receipts is None else lru_cache(receipts)
        self._on_corrupt: OnCorrupt = on_corrupt
        # checks them, whatever the size of batches
        LoaderOptions(1, crops=crops, return_places=return_places)
        cursor.plan.data.cropped(crops, return_places)
        self._crops, self._return_places = crops, return_places
        self._memories: dict[Lend | None, BatchMemory] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        receipts = None if self._receipts is None else self._receipts.__wrapped__
        return DatasetOrigin, (self._cursor, self._on_corrupt, receipts, self._crops, self._return_places)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns that are read."""
        return tuple(column.name for column in self.stored)

    @property
    def stored(self) -> tuple[Column, ...]:
        """The columns that are read, those that say where crops begin, and the row's number if it is asked for."""
        shown, places = self._cursor.plan.data.cropped(self._crops, self._return_places)
        numbered = [Column("row", "int64")] if self._cursor.plan.data.tells_row else []
        return (*shown, *places.values(), *numbered)

    @property
    def shard(self) -> tuple[int, int]:
        """This rank and the number of ranks."""
        sharding = self._cursor.plan.order.sharding
        return sharding.shard_id, sharding.num_shards

    @property
    def writes_receipts(self) -> bool:
        """Whether results are written down."""
        return self._receipts is not None

    @property
    def skips(self) -> bool:
        """Whether corrupt rows are left out."""
        return self._on_corrupt == "skip"

    def steps(self, start: int, batch_size: int, drop_last: bool) -> JobSteps:
        """The steps of a pass from a position on, of batches of this size."""
        return self._cursor.steps(start, batch_size, drop_last)

    def gives(self, step: int, epoch: int, steps: JobSteps, batched: bool) -> bool:
        """Whether a step of ``batched`` samples, or of one, is not left out."""
        exclusion_mask = self._cursor.exclusion_mask(epoch, steps)
        if batched:
            return not exclusion_mask.is_empty(step)
        return bool(exclusion_mask.rows_at(steps.unwrapped(step, self.shard[0])).there.any())

    def standing_at(self, epoch: int, position: int) -> DatasetOrigin:
        """The same samples, of which the next pass begins at a place."""
        standing = self._cursor.standing_at(epoch, position)
        return DatasetOrigin(standing, self._on_corrupt, None, self._crops, self._return_places)

    def condition(self, text: str) -> str:
        """The one form of a condition; QueryError where it is wrong."""
        from ..query import compile_query

        return str(compile_query(text, self._cursor.plan.data.snapshot.schema))

    @property
    def samples(self) -> int:
        """Samples of an epoch, those of all ranks."""
        return self._cursor.plan.order.samples

    def samples_left(self) -> int | None:
        """Samples of the next pass."""
        return self._cursor.samples_left() - self._cursor.skipped_left()

    def batches_left(self, size: int, drop_last: bool) -> int | None:
        """Batches of the next pass."""
        return self._cursor.batches_left(size, drop_last)

    def set_epoch(self, epoch: int) -> None:
        """Chooses the epoch of the next pass."""
        self._cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """The state of the dataset."""
        return self._cursor.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Makes the next pass go on from a state of the dataset."""
        self._cursor.load_state_dict(state)

    def places_after(
        self,
        state: dict[str, Any],
        rest: Rest,
        ranks: int,
        conditions: Sequence[str],
        samples: int,
        unit: int,
    ) -> list[tuple[int, bool]]:
        """Where each of so many ranks stands after so many samples that meet conditions, and whether more come."""
        self.standing_at(0, 0).load_state_dict(state)
        plan = self._cursor.plan
        names, mine = RowNames(plan), plan.order.sharding
        met = np.logical_and.reduce([names.meeting(condition) for condition in conditions])
        found = []
        for rank in range(ranks):
            sharding = Sharding(mine.rows, rank, ranks, mine.remainder)
            order = RestOrder(plan.order.with_sharding(sharding), rest)
            found.append(_place_after(order, order.run(state["epoch"], rest.start), met, samples, unit))
        return found

    def begin(self) -> OriginPass:
        """Starts a pass of the dataset."""
        crops = self._crops, self._return_places
        return DatasetPass(self._cursor, self._on_corrupt, self._memories, self._receipts, *crops)


def _place_after(
    order: ShardOrder, run: EpochRun, met: NDArray[np.bool_], samples: int, unit: int
) -> tuple[int, bool]:
    """The place of a run behind so many samples whose rows are ``met``, in whole units, and whether a unit follows."""
    found, count = [np.empty(0, np.int64)], 0
    for start in range(0, run.samples, _WINDOW):
        window = np.arange(start, min(start + _WINDOW, run.samples), dtype=np.int64)
        rows = order.rows_at(run.first + run.stride * window, run.epoch)
        found.append(window[met[rows]])
        count += len(found[-1])
        if count >= samples + unit:
            break
    numbers = np.concatenate(found)
    goes_on = len(numbers) >= samples + unit
    given = samples if goes_on else min(samples, len(numbers) // unit * unit)
    return run.after(int(numbers[given - 1]) + 1 if given else 0), goes_on


class DatasetPass:
    """One pass over the shard."""

    epoch: int
    start: int
    calls_user: bool

    def __init__(
        self,
        cursor: DatasetCursor,
        on_corrupt: OnCorrupt,
        memories: dict[Lend | None, BatchMemory],
        receipts: Any = None,
        crops: Mapping[str, Crop] | None = None,
        return_places: bool = False,
    ) -> None:
        self._crops, self._return_places = crops or {}, return_places
        self._opened, self._position = cursor.plan, cursor.position
        self._plan = self._opened
        self._run = cursor.begin(self._plan)
        self._rest = self._run  # what is read; of the run, as far as that has been handed out, a state tells
        self._cursor, self._exclusions = cursor, cursor.exclusions
        self._on_corrupt: OnCorrupt = on_corrupt
        self._memories = memories
        self.epoch, self.start = self._run.epoch, self._run.start
        self._make_receipts = receipts
        self._of_pass: ResultReceipts | None = None
        self.names: Named = RowNames(self._plan)
        self.processes: None = None
        self.calls_user: bool = False

    @property
    def worker_key(self) -> int:
        """Another for each rank, and behind a resume, which has made the samples before it already."""
        order = self._plan.order
        return pass_key(order.spec.seed, self.epoch, order.sharding.shard_id, self.start)

    @property
    def followed(self) -> bool:
        """Whether no other pass over the dataset has begun since."""
        followed: bool = self._position.follows(self._run)
        return followed

    def end(self, graph: Graph) -> int:
        """The position behind the last sample that can come; a last batch that is left out may be behind it."""
        samples = self._rest.samples
        return self._rest.after(
            samples - samples % graph.aligned if graph.drops_last and graph.aligned else samples
        )

    def bounds(self, graph: Graph) -> Bounds | None:
        """Says where batches begin and end, where rows have been left out of them without others in their place."""
        if graph.batch or not graph.aligned or all(entry.fill for entry in self._exclusions.entries):
            return None
        run, step = self._rest, graph.aligned * self._rest.stride
        last = run.after(run.samples + graph.aligned if graph.drops_last else run.samples)

        def bounds(place: ElementPlace) -> tuple[int, int]:
            begin = run.start + (position_of(place) - run.start) // step * step
            return begin, min(begin + step, last)

        return bounds

    def receipts(self, graph: Graph) -> ResultReceipts | None:
        """What writes receipts of the pass, and of its rest."""
        if self._make_receipts is None:
            return None
        receipts = self._of_pass
        if receipts is None:
            made = self._make_receipts(max(graph.aligned, 1), graph.drops_last)
            loaded = self._position.from_state
            receipts = made.begin(self._plan, self._run, self._cursor.state_at_front(), loaded)
            self._of_pass = receipts
        receipts.exclusion_mask = self._exclusion_mask(graph)
        return receipts

    @property
    def is_outdated(self) -> bool:
        """Whether rows have been excluded since it began: what has been made ahead has them."""
        return self._cursor.exclusions is not self._exclusions and self._cursor.plan is self._opened

    def going_on(self, position: int) -> OriginPass:
        """The rest of the pass, without what has been excluded by now."""
        rest = copy(self)
        rest._rest, rest._exclusions = self._plan.order.run(self.epoch, position), self._cursor.exclusions
        rest.start = position
        return rest

    def over(self, rest: Rest) -> OriginPass:
        """The same pass, whose places are those of the rest of its epoch."""
        over = copy(self)
        over._plan = replace(self._plan, order=RestOrder(self._plan.order, rest))
        over._rest = over._plan.order.run(self.epoch, self.start)
        return over

    def mark(self, position: int) -> None:
        """Notes that what lies before a position has been handed out."""
        self._position.mark(self._run, position)

    def chunks(
        self, graph: Graph, budget: Budget, times: PartTimes, lend: Lend | None = None
    ) -> Iterator[Chunk]:
        """Reads the pass, with threads of the C core; batches into memory that ``lend(size)`` gives."""
        lend = lend if graph.batch else None  # samples are put together elsewhere
        plan = self._plan if graph.columns is None else self._with_columns(graph.columns)
        read = {column.name for _, column in plan.columns}
        crops = {name: crop for name, crop in self._crops.items() if name in read}
        row_bytes = plan.row_bytes_with(crops)
        size, fetched = graph.batch or rows_at_once(row_bytes), plan.data.parts.is_fetched
        ahead = graph.prefetch or LoaderOptions(size).prefetch_for(row_bytes, fetched)
        if graph.prefetch and not graph.batch:
            size, ahead = min(size, graph.prefetch), 1
        fitting = int(budget.memory / 4 / max(1.0, row_bytes * size))
        options = LoaderOptions(
            size,
            drop_last=graph.drop_last,
            on_corrupt=self._on_corrupt,
            num_threads=None if fetched else min(4, budget.cpus),  # those of a store wait and do not compute
            prefetch=max(1, min(ahead, fitting, MOST_PREFETCH)),
            crops=crops,
            return_places=self._return_places and bool(crops),
        )
        return iter(
            DatasetSource(
                plan,
                self._rest,
                options,
                self._memories.setdefault(lend, BatchMemory(lend)),
                times,
                batched=bool(graph.batch),
                keyed=any(operator.random for operator in graph.operators),
                raw=graph.raw,
                conditions=[self.names.meeting(condition) for condition in graph.conditions],
                exclusion_mask=self._exclusion_mask(graph),
                aligned=graph.aligned,
            )
        )

    def _with_columns(self, names: Sequence[str]) -> Plan:
        """The plan with these columns of the stored ones; the places of crops come with their column."""
        crops = self._crops if self._return_places else {}
        read = [column.name for column in self._plan.data.sample_columns]
        return self._plan.with_columns(
            [name for name in read if name in names or (name in crops and f"{name}_place" in names)]
        )

    def _exclusion_mask(self, graph: Graph) -> ExclusionMask:
        steps = None
        if graph.aligned:
            steps = self._cursor.steps(self.start, graph.aligned, graph.drop_last)
        return ExclusionMask(self._cursor.exclusions, self._plan.order, self.epoch, steps)
