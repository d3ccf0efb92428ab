"""The loader that a user iterates over: what is read, its options, its functions, epochs and state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from time import perf_counter_ns
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..loading.loader import (
    BatchMemory,
    BatchReader,
    BatchTransform,
    LoaderOptions,
    TrackedBatch,
    Transforming,
    close_after,
    closed_at_exit,
    staged,
)
from ..loading.plan import Plan
from ..loading.stats import Recorder, Stats
from ..order.permutation import EpochRun
from ..order.spec import JobSteps, check_integer
from ..pipeline.budget import Budget
from ..pipeline.chunk import Chunk
from ..pipeline.operators import Operator
from ..pipeline.scheduler import Running, StageQueue
from ..pipeline.stage import Stage
from ..pipeline.tuner import Tuner
from .cursor import Cursor
from .receipts import PassReceipts, Receipts
from .row_numbers import by_steps, named_rows

if TYPE_CHECKING:
    from ..format.schema import Schema
    from ..loading.loader import OnCorrupt, ReadAhead

__all__ = [
    "BatchLoader",
    "Batchable",
    "batch_options",
    "changed",
]


@runtime_checkable
class Batchable(Protocol):
    """What batches are read of: a dataset, whatever was drawn, or the batches that `balanced` and `bucketed` draw."""

    read_cursor: Cursor

    @property
    def transform(self) -> Callable[[Any], Any] | None:
        """What is called with every sample."""

    @property
    def on_corrupt(self) -> OnCorrupt:
        """What becomes of corrupt rows."""

    @property
    def schema(self) -> Schema:
        """The schema of the data."""

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""

    @property
    def epoch(self) -> int:
        """The current epoch."""


def batch_options(
    ds: Batchable,
    batch_size: int | None,
    transform: Callable[[Any], Any] | None,
    collate_fn: Callable[[list[Any]], Any] | None,
    batch_transform: Callable[[Any], Any] | None,
    read_ahead: ReadAhead,
    instead: str = "",
) -> LoaderOptions:
    """The options of a loader: a dataset needs a size of batches, and of batches that have been drawn none is taken.

    Raises:
        TypeError: a dataset is given no ``batch_size``; the message goes on with what may be given ``instead``.
        ValueError: drawn batches are given a size, ``drop_last`` or ``receipts``.
    """
    order = ds.read_cursor.plan.order
    if order.batched:
        if batch_size is not None:
            raise ValueError(
                f"batch_size={batch_size}: these batches have been drawn, and have the size that they have"
            )
        if read_ahead.get("drop_last", False):
            raise ValueError(
                "drop_last: batches have been drawn already; unirecord.bucketed(…, drop_last=True) leaves small ones "
                "out"
            )
        if read_ahead.get("receipts") is not None:
            raise ValueError(
                "receipts count samples, and ranks share batches here: there are none for drawn batches"
            )
        batch_size = order.order(0).largest
    elif batch_size is None:
        raise TypeError(f"give a batch_size{instead}: how many samples a batch has")
    return LoaderOptions(
        batch_size,
        transform=transform,
        collate_fn=collate_fn,
        batch_transform=batch_transform,
        on_corrupt=ds.on_corrupt,
        **read_ahead,
    )


# The functions of a batch loader as the one stage of a pass, behind the reader.


_UNBOUNDED = 1 << 62  # the number of batches under way is what bounds memory


def changed(
    batches: Iterator[TrackedBatch[Any]],
    change: Callable[[TrackedBatch[Any]], TrackedBatch[Any]],
    workers: int,
    recorder: Recorder,
) -> Iterator[TrackedBatch[Any]]:
    """What ``change`` makes of the batches, in their order, on ``workers`` threads; 0: the thread that asks.

    At most ``workers`` + 1 tasks are under way or not taken, and one more has been read: a batch each, or several of
    1 MiB and 1 ms together. Once the pass has been left, no other batch is begun.
    """
    left = False

    def call(chunk: Chunk, slots: Sequence[Any]) -> Chunk:
        made: list[Any] = []
        try:
            for delivered in chunk.values:
                if left:
                    break
                made.append(change(delivered))
        except BaseException as error:  # those before it are handed out first, whatever it is
            return chunk.only(range(len(made)), made).until(len(made), error)
        return chunk.with_values(made)

    reading = StageQueue(Stage((), under_way=1))
    stage = Stage((Operator("map_batch", "transform", threads=max(1, workers)),), under_way=workers + 1)
    tuner = Tuner(Budget(max(1, workers), _UNBOUNDED), frozen=True)
    stage_queues = [reading, StageQueue(stage, call, reading)]
    results = iter(Running(_chunks(batches), stage_queues, _UNBOUNDED, tuner, recorder, workers))
    try:
        for chunk in results:
            values, error = chunk.values, chunk.error
            values.reverse()
            del chunk
            while values:
                yield values.pop()  # the user alone holds it
            if error is not None:
                raise error
    finally:
        left = True
        results.close()


def _chunks(batches: Iterator[TrackedBatch[Any]]) -> Iterator[Chunk]:
    with close_after(batches):
        for delivered in batches:
            place = (delivered.end,)
            chunk = Chunk([delivered], place, place, place, ())
            chunk.size = delivered.size
            del delivered
            yield chunk
            del chunk


Batch = TypeVar("Batch")
_LOG = logging.getLogger("unirecord")


class BatchLoader(Generic[Batch]):
    """Iterates over the batches of a dataset's shard: each iteration is one epoch.

    The next iteration is the next epoch, with its order. ``len`` is the number of batches of the next iteration.
    Nothing begins before the first batch is asked for. Leaving an iteration early, or dropping it, ends its threads.
    """

    def __init__(
        self,
        dataset: Any,
        options: LoaderOptions,
        *,
        stages: Sequence[BatchTransform] = (),
        memory: Callable[[int], NDArray[np.uint8] | None] | None = None,
        cursor: Cursor | None = None,
    ) -> None:
        """For a dataset. ``stages`` take and give delivered batches, one behind the other, after the transforms.

        ``cursor`` stands in for the dataset's own where its passes are others.
        ``memory`` gives a piece of memory of a size to put batches into, or None for ordinary memory.
        """
        self._dataset = dataset
        self.read_cursor: Cursor = dataset.read_cursor if cursor is None else cursor
        self.read_cursor.plan.data.cropped(options.crops, options.return_places)  # refuses wrong ones now
        self._options = options
        self._stages = tuple(stages)
        self._memory = BatchMemory(memory)
        self._recorder = Recorder()
        self._receipts = None if options.receipts is None else Receipts(options.receipts, options)
        self._whole_for = ""  # who must not get batches that are smaller

    @property
    def batch_size(self) -> int:
        """Samples in a batch (the last one may be smaller)."""
        return self._options.batch_size

    @property
    def dataset(self) -> Any:
        """The dataset that is read."""
        return self._dataset

    def whole_for(self, who: str) -> None:
        """From now on refuses skipped slots, which would make batches smaller or fewer than ``who`` has been told."""
        self._whole_for = who

    def __len__(self) -> int:
        return self.read_cursor.batches_left(self._options.batch_size, self._options.drop_last)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batches of {self.batch_size:,} of {self._dataset!r})"

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration that of ``epoch``."""
        self.read_cursor.position.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, by the batches handed out; what has been read ahead is not counted.

        The receipts of these batches are made durable first.
        """
        if self._receipts is not None:
            self._receipts.sync()
        return self.read_cursor.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken, on any number of ranks."""
        self.read_cursor.load_state_dict(state)

    def exclude(
        self,
        steps: int | Sequence[int] | None = None,
        *,
        epoch: int | None = None,
        start: int = 0,
        rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
        where: str | None = None,
        fill: bool = False,
    ) -> int:
        """Leaves rows out from the next batch on, in this epoch and all later ones: those of all ranks in some steps.

        Call it on every rank between the same two steps. All other samples keep their step and slot (docs/order.md). It
        is part of the state. Batches that have been read ahead are made anew.

        Args:
            steps: steps of the whole job, past or to come, whose rows are left out; a step that is empty now is passed
                over. Counted as for ``replay``.
            epoch, start: as for ``replay``.
            rows, where: rows by number, or by a condition, as for ``UniRecordDataset.exclude``; in place of ``steps``.
            fill: as for ``UniRecordDataset.exclude``.

        Returns:
            How many rows are named.

        Raises:
            IndexError: there is no such step or row.
            ValueError: not exactly one of ``steps``, ``rows`` and ``where`` is given; nothing would be left; or batches
                have been drawn.
        """
        cursor, options = self.read_cursor, self._options
        if sum(given is not None for given in (steps, rows, where)) != 1:
            raise ValueError("give one of steps, rows and where")
        if steps is None:
            if epoch is not None or start:
                raise ValueError("epoch and start say in which epoch steps count: give steps as well")
            return cursor.exclude(named_rows(cursor.plan, rows, where), fill)
        job = cursor.steps(check_integer("start", start, 0), options.batch_size, options.drop_last)
        return cursor.exclude(by_steps(cursor.plan, job, steps, epoch), fill)

    def replay(self, step: int, *, epoch: int | None = None, start: int = 0) -> Batch:
        """The batch of a step again, as this rank's iteration gives it, transforms and all; no iteration moves.

        Args:
            step: counted from 0 in ``epoch``; without an epoch, over all epochs from the start of epoch 0.
            epoch: which epoch.
            start: the position at which the epoch was taken up, as for ``OrderQueries.rows_of``; with ``epoch``.

        Raises:
            IndexError: this rank has no batch in that step, or all of its rows are corrupt and left out.
        """
        self.read_cursor.check_repeatable()
        plan, options = self.read_cursor.plan, self._options
        if plan.order.batched:
            options = replace(options, batch_size=1)  # what stands at a position is a batch
        steps = JobSteps(plan.order.sharding.resumed(start), options.batch_size, options.drop_last)
        epoch, step = steps.located(step, epoch)
        rank, ranks = plan.order.sharding.shard_id, plan.order.sharding.num_shards
        samples = len(steps.positions(step, rank))
        front = start + step * options.batch_size * ranks
        alone: Any = SimpleNamespace(read_cursor=self.read_cursor.standing_at(epoch, front))
        again: BatchLoader[Batch] = BatchLoader(
            alone, replace(options, receipts=None, prefetch=1), stages=self._stages
        )
        with closing(iter(again)) as batches:
            for batch in batches if samples else ():
                if again.state_dict()["position"] <= front + samples * ranks:
                    return batch
                break
        raise IndexError(f"rank {rank} has no batch in step {step} of epoch {epoch}")

    def stats(self) -> Stats:
        """Rates and times since the loader was made."""
        options = self._options
        threads = options.threads(self.read_cursor.plan.data.parts.is_fetched)
        workers = options.workers() if options.changes_batches else None
        return self._recorder.of_loader(threads, workers, self._memory.allocations)

    @closed_at_exit
    def __iter__(self) -> Generator[Batch, None, None]:
        # A generator: the pass begins when the first batch is asked for.
        cursor = self.read_cursor
        plan = cursor.plan
        run = cursor.begin(plan)
        receipts = self._receipts_of(plan, run)
        rest: EpochRun | None = run
        while rest is not None:
            rest = yield from self._read(plan, run, rest, receipts)
        if receipts is not None:
            receipts.end()

    def _read(
        self, plan: Plan, run: EpochRun, rest: EpochRun, receipts: PassReceipts | None
    ) -> Generator[Batch, None, EpochRun | None]:
        """The rest of a pass; what is left of it when rows are excluded meanwhile, None when it is over."""
        cursor, recorder, clock = self.read_cursor, self._recorder, perf_counter_ns
        mark, counted, exclusions = cursor.position.mark, recorder.delivered, cursor.exclusions
        options = self._options
        if self._whole_for:
            cursor.refuse_skipped_slots(self._whole_for)
        steps = cursor.steps(run.start, options.batch_size, options.drop_last) if exclusions else None
        exclusion_mask = cursor.exclusion_mask(run.epoch, steps)
        if receipts is not None:
            receipts.exclusion_mask = exclusion_mask
        reader = BatchReader(plan, rest, options, self._memory, exclusion_mask)
        with ExitStack() as open_stages:
            open_stages.callback(self._count_reading, reader)
            start = clock()
            for delivered in staged(iter(reader), self._all_stages(plan, rest), open_stages):
                now = clock()
                left_out, end = delivered.left_out, delivered.end
                if receipts is not None:
                    receipts.batch(delivered)
                recorder.waited(now - start)
                counted(1, delivered.samples, delivered.size, len(left_out))
                mark(run, end)
                if left_out:
                    _name_left_out(plan, left_out)
                batch = delivered.batch
                del delivered  # the user alone holds the batch
                yield batch
                del batch
                if cursor.exclusions is not exclusions and cursor.plan is plan:
                    return plan.order.run(run.epoch, end)
                start = clock()
                recorder.consumed(start - now)
            if reader.trailing or exclusion_mask:
                if receipts is not None:
                    receipts.left_out(reader.trailing, reader.end)
                counted(0, 0, 0, len(reader.trailing))
                if reader.trailing:
                    _name_left_out(plan, reader.trailing)
                mark(run, reader.end)
        return None

    def _receipts_of(self, plan: Plan, run: EpochRun) -> PassReceipts | None:
        if self._receipts is None:
            return None
        cursor = self.read_cursor
        return self._receipts.begin(plan, run, cursor.state_at_front(), cursor.position.from_state)

    def _all_stages(self, plan: Plan, run: EpochRun) -> Iterator[BatchTransform]:
        """The functions, as one stage, and those behind them."""
        options = self._options
        if options.changes_batches:
            change = Transforming(plan, run, options)
            yield partial(changed, change=change, workers=options.workers(), recorder=self._recorder)
        yield from self._stages

    def _count_reading(self, reader: BatchReader) -> None:
        self._recorder.read(reader.read_ns, reader.part_times)


def _name_left_out(plan: Plan, rows: Sequence[int]) -> None:
    places = [plan.data.parts.locate(row) for row in rows]
    _LOG.warning(
        "left out %d corrupt row(s): %s",
        len(places),
        ", ".join(f"row {row} of {path}" for path, row in places),
    )
