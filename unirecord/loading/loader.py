"""One pass of the C loader: batches read ahead by its threads, each with the place where it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import BatchPool, NativeBatch, NativeLoader, xxh3_64
from ..errors import CorruptionError
from ..order.exclusion import Leaving
from ..order.permutation import BatchOrder, EpochRun
from ..order.sampling import SampledOrder
from .at_exit import closed_at_exit
from .batch import BatchBuilder
from .delivered import Delivered
from .options import LoaderOptions
from .part_times import PartTimes
from .plan import Batches, Plan
from .windows_ahead import WindowsAhead

__all__ = ["BatchMemory", "BatchReader"]

_MOST_AHEAD = 16
_AHEAD_BYTES = 32 << 20


class BatchMemory:
    """Where the batches of a loader lie: the memory that all loaders of the data share, or memory of a special kind."""

    def __init__(self, get: Callable[[int], NDArray[np.uint8] | None] | None = None) -> None:
        """``get`` gives a piece of memory of a size to put batches into, or None for ordinary memory."""
        self._get = get
        self._pool: BatchPool | None = None
        self._of: object = None

    def pool(self, plan: Plan, options: LoaderOptions) -> BatchPool:
        """The pool, made when it is first needed in a process, or when the data have been opened anew."""
        if self._pool is None or not self._pool.is_own or self._of is not plan.data:
            self._pool, self._of = self._find(plan, options), plan.data
        return self._pool

    def _find(self, plan: Plan, options: LoaderOptions) -> BatchPool:
        fetched = plan.data.parts.is_fetched
        pieces = options.prefetch_for(plan.row_bytes, fetched) + options.threads(fetched) + 2
        if self._get is None:  # loaders made anew each epoch find it warm
            return plan.data.pool(pieces)
        pool = BatchPool(pieces)
        expected = int(plan.row_bytes * options.batch_size * 1.25) + (1 << 16)
        made_ahead = min(_MOST_AHEAD, _AHEAD_BYTES // expected)  # by a pipeline, of what is cheap
        for _ in range(pieces + made_ahead + 4):  # some are on their way to a device
            memory = self._get(-(-expected // 4096) * 4096)
            if memory is not None:
                pool.lend(memory)
        return pool

    @property
    def allocations(self) -> int:
        """Pieces of memory taken from the system so far."""
        return self._pool.allocations if self._pool else 0

    def __reduce__(self) -> tuple[Any, ...]:
        return BatchMemory, (self._get,)


class BatchReader:
    """Reads a pass.

    When it is over, ``trailing`` has the rows left out after the last batch because they are corrupt, and ``end`` is
    the position after these and what ``leaving`` leaves out there; ``read_ns`` is the time of all threads,
    and ``part_times`` how much of it was timed part by part.
    """

    def __init__(
        self,
        plan: Plan,
        run: EpochRun,
        options: LoaderOptions,
        memory: BatchMemory,
        leaving: Leaving | None = None,
    ) -> None:
        if isinstance(run.order, SampledOrder):
            options = replace(options, batch_size=run.order.usual_size())
        self.trailing: tuple[int, ...] = ()
        self.end: int = run.start
        self.read_ns: int = 0
        self.part_times: PartTimes = PartTimes()
        self._run = run
        self._batch_size = options.batch_size
        self._skip = options.on_corrupt == "skip"
        self._digests = options.receipts is not None
        self._reader = plan.data.reader
        self._builder = BatchBuilder([column for _, column in plan.columns])
        self._where_from = plan.data.where_from
        self._natives: Iterator[tuple[NativeLoader, Batches | None]] = iter(())
        self._windows: WindowsAhead | None = None
        self._ahead = 0  # batches that may be read beyond those handed out
        fetched = plan.data.parts.is_fetched
        if run.samples:  # else there may be no part, whose columns the C loader would ask for
            given: dict[str, Any] = {
                "pool": memory.pool(plan, options),
                "drop_last": options.drop_last,
                "prefetch": (most := options.prefetch_for(plan.row_bytes, fetched)),
                "threads": (threads := options.threads(fetched)),
                "near": (min(most, options.prefetch_for(plan.row_bytes)), min(threads, options.threads())),
                "skip_corrupt": self._skip,
            }
            if leaving is None:
                self._windows = WindowsAhead(plan, run, options.batch_size)
                self._ahead = given["prefetch"] + 2
                self._natives = ((n, None) for n in plan.open_loaders(run, options.batch_size, **given))
            else:
                self._natives = plan.open_leaving(run, leaving, options.batch_size, **given)
        rest = run.samples % options.batch_size if options.drop_last else 0
        self._last = run.start if leaving is None else run.after(run.samples - rest)

    @closed_at_exit  # whoever's generator it is read by
    def __iter__(self) -> Generator[Delivered[dict[str, Any]], None, None]:
        before = 0
        left_out: tuple[int, ...] = ()
        try:
            self._reach(0)
            for native, listed in self._natives:
                before, left_out = yield from self._read(native, listed, before, left_out)
        finally:
            if self._windows is not None:
                self._windows.close()
        self.trailing, self.end = left_out, max(self.end, self._last)

    def _reach(self, batches: int) -> None:
        """Asks for the windows of the batches that may be read while so many have been handed out."""
        if self._windows is not None:
            self._windows.reach(batches + self._ahead, batches)

    def _read(
        self, native: NativeLoader, listed: Batches | None, before: int, left_out: tuple[int, ...]
    ) -> Generator[Delivered[dict[str, Any]], None, tuple[int, tuple[int, ...]]]:
        """The batches of one loader, behind ``before`` positions of the pass and rows that were left out after them.

        Returns the same two of what comes behind.
        """
        build, run, size = self._builder.build, self._run, self._batch_size
        before = 0 if listed is not None else before
        epoch, start, stride = run.epoch, run.after(before), run.stride
        asked: NDArray[np.int64] | None = None
        draws: NDArray[np.int64] | None = None
        where_from, digests, read, digest = self._where_from, self._digests, 0, 0
        drawn = isinstance(run.order, BatchOrder)
        try:
            while (batch := native.next()) is not None:
                self._reach(batch.number + 1)
                rows, skipped = batch.rows, batch.skipped
                if listed is not None:
                    read, own = int(listed.ends[batch.number]), listed.of(batch.number)
                    asked = listed.rows[own]
                    draws = None if listed.draws is None else listed.draws[own]
                else:
                    read = batch.number + 1 if drawn else batch.number * size + rows + skipped
                end = start + read * stride
                if skipped:
                    left_out += tuple(batch.skipped_rows().tolist())
                    if not rows:
                        self.end = end
                        continue
                if digests:
                    digest = self._digest(batch, listed)
                try:
                    built = build(batch)
                except UnicodeDecodeError as error:
                    built, rows, no_text = self._without_no_text(batch, error)
                    if digests:
                        digest = self._digest(batch, listed, no_text)
                    left_out += no_text
                    if not rows:
                        self.end = end
                        continue
                if where_from is not None and where_from.column not in built:
                    where_from.add(built, batch.row_ids())
                delivered = Delivered(
                    built, epoch, end, left_out, rows, batch.data_bytes, digest, asked, draws
                )
                del built
                del batch  # the arrays alone keep the memory
                left_out = ()
                yield delivered
                del delivered
        finally:
            self.read_ns += native.close()
            self.part_times.add(native.paths, native.part_times())
        return before + read, left_out

    @staticmethod
    def _digest(batch: NativeBatch, listed: Batches | None, left_out: tuple[int, ...] = ()) -> int:
        """XXH3-64 of the rows of a batch, but for those left out and those that fill a hole."""
        if listed is None and not left_out:
            return batch.rows_digest()
        rows = batch.row_ids()
        kept = ~np.isin(rows, left_out) if left_out else np.ones(len(rows), np.bool_)
        if listed is not None and listed.drawn[listed.of(batch.number)].any():
            asked, drawn = listed.rows[listed.of(batch.number)], listed.drawn[listed.of(batch.number)]
            kept &= ~drawn[~np.isin(asked, batch.skipped_rows())]
        return xxh3_64(rows if kept.all() else rows[kept])

    def _without_no_text(
        self, native: NativeBatch, found: UnicodeDecodeError
    ) -> tuple[dict[str, Any], int, tuple[int, ...]]:
        """The batch without rows that cannot be decoded, how many are left, and which are left out.

        CorruptionError for the first of them where they are not to be skipped.
        """
        kept, left_out = [], []
        for row in native.row_ids().tolist():
            try:
                self._reader.one(row)
                kept.append(row)
            except CorruptionError:
                if not self._skip:
                    raise
                left_out.append(row)
        if not left_out:
            raise found
        return self._reader.batch(np.array(kept, np.int64)), len(kept), tuple(left_out)
