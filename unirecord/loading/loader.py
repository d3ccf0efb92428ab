"""Batches read ahead by C threads: dataset and order in, dicts of arrays out, in order, at the speed of the
reader."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core import BatchPool, LeavablePool, NativeBatch, NativeLoader, submit, usable_cores
from ..errors import TransformError
from ..format.schema import Column
from ..order.shard_order import EpochRun
from .batch import BatchBuilder, collate, split_batch
from .stats import LoaderStats, StatsRecorder

__all__ = ["BatchLoader", "LoaderOptions", "LoaderSource"]

_LOG = logging.getLogger("unirecord")
_READ_AHEAD_BYTES = 32 << 20
_MOST_PREFETCH = 16
_MOST_THREADS = 4  # memory bandwidth, not cores, is what more threads would share

Transform = Callable[[Any], Any]


class LoaderSource(Protocol):
    """What a loader needs of a dataset."""

    @property
    def output_columns(self) -> tuple[tuple[int, Column], ...]:
        """Schema position and column of each output."""

    @property
    def mean_row_bytes(self) -> float:
        """Bytes of an average row in the output columns; a guess is enough."""

    def begin_epoch(self) -> EpochRun:
        """Starts the next pass, from where a loaded state says."""

    def samples_left(self) -> int:
        """How many samples the next pass will deliver."""

    def open_native(self, run: EpochRun, **options: Any) -> NativeLoader:
        """The C loader for a pass."""

    def batch_pool(self, pieces: int) -> BatchPool:
        """Memory for batches that all loaders of the dataset share, ``pieces`` of it kept when not in use."""

    def deliver(self, run: EpochRun, samples: int) -> None:
        """Notes that ``samples`` of a pass have been handed out."""

    def state_dict(self) -> dict[str, Any]:
        """Where the latest pass stands."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to where a state says."""

    def set_epoch(self, epoch: int) -> None:
        """Makes the next pass that of ``epoch``."""

    def locate(self, row: int) -> tuple[str, int]:
        """Part path and row in the part of a row."""


@dataclass(frozen=True)
class LoaderOptions:
    """How batches are made. ``transform`` gets one sample, ``batch_transform`` a whole batch (after
    ``transform`` and ``collate``)."""

    batch_size: int
    drop_last: bool = False
    prefetch: int | None = None
    num_threads: int | None = None
    transform: Transform | None = None
    batch_transform: Transform | None = None
    collate: Callable[[list[Any]], Any] = collate
    num_workers: int | None = None
    on_corrupt: str = "raise"

    def __post_init__(self) -> None:
        for name in ("batch_size", "prefetch", "num_threads", "num_workers"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise ValueError(f"{name} must be an int of 1 or more, got {value!r}")
        if self.on_corrupt not in ("raise", "skip"):
            raise ValueError(f'on_corrupt must be "raise" or "skip", got {self.on_corrupt!r}')

    def prefetch_for(self, row_bytes: float) -> int:
        """Batches to keep ready: as asked, or as many small ones as fit into a fixed amount of memory."""
        if self.prefetch is not None:
            return self.prefetch
        fitting = int(_READ_AHEAD_BYTES / max(1.0, row_bytes * self.batch_size))
        return max(2, min(_MOST_PREFETCH, fitting))

    def threads(self) -> int:
        """Reading threads: as asked, or one per usable core, up to four."""
        return self.num_threads or max(1, min(_MOST_THREADS, usable_cores()))

    def workers(self) -> int:
        """Transforming threads: as asked, or one per usable core."""
        return self.num_workers or usable_cores()


class BatchLoader:
    """Iterates over the batches of a dataset's shard; each iteration is one epoch, the next one with the
    next epoch's order.

    ``len`` is the number of batches of the next iteration. Leaving an iteration early, or dropping it, ends
    its threads.
    """

    def __init__(
        self,
        source: LoaderSource,
        options: LoaderOptions,
        memory: Callable[[int], NDArray[np.uint8] | None] | None = None,
    ) -> None:
        """``memory`` gives a piece of memory of a size to put batches into, or None for ordinary memory."""
        self._source = source
        self._options = options
        self._prefetch = options.prefetch_for(source.mean_row_bytes)
        self._builder = BatchBuilder([column for _, column in source.output_columns])
        self._memory = memory
        self._pool: BatchPool | None = None
        self._recorder = StatsRecorder()

    @property
    def batch_size(self) -> int:
        """Samples in a batch (the last one may be smaller)."""
        return self._options.batch_size

    @property
    def dataset(self) -> Any:
        """The dataset that is read."""
        return self._source

    def __len__(self) -> int:
        samples, size = self._source.samples_left(), self._options.batch_size
        return samples // size if self._options.drop_last else -(-samples // size)

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration that of ``epoch``."""
        self._source.set_epoch(epoch)

    def state_dict(self) -> dict[str, Any]:
        """Where the iteration stands, by the batches delivered; what has been read ahead is not counted."""
        return self._source.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration go on where ``state`` was taken."""
        self._source.load_state_dict(state)

    def stats(self) -> LoaderStats:
        """Rates and times since the loader was made."""
        return self._recorder.summary(self._pool.allocations if self._pool else 0)

    def __iter__(self) -> Iterator[Any]:
        run = self._source.begin_epoch()
        native = self._open(run)
        options = self._options
        plain = options.transform is None and options.batch_transform is None
        return self._plain(run, native) if plain else self._transformed(run, native)

    def _open(self, run: EpochRun) -> NativeLoader:
        options = self._options
        if self._pool is None or not self._pool.is_own:
            self._pool = self._find_pool()
        return self._source.open_native(
            run,
            pool=self._pool,
            batch_size=options.batch_size,
            drop_last=options.drop_last,
            prefetch=self._prefetch,
            threads=options.threads(),
            skip_corrupt=options.on_corrupt == "skip",
        )

    def _find_pool(self) -> BatchPool:
        """The dataset's pool, so that loaders made anew each epoch find its memory warm; or one over special memory."""
        pieces = self._prefetch + self._options.threads() + 2
        if self._memory is None:
            return self._source.batch_pool(pieces)
        pool = BatchPool(pieces)
        expected = int(self._source.mean_row_bytes * self._options.batch_size * 1.25) + (1 << 16)
        for _ in range(pieces + 4):  # some are on their way to a device
            memory = self._memory(-(-expected // 4096) * 4096)
            if memory is not None:
                pool.lend(memory)
        return pool

    def _count(self, run: EpochRun, batch: NativeBatch, waited: int) -> None:
        self._recorder.delivered(batch.rows, batch.skipped, batch.data_bytes, waited)
        end = batch.number * self._options.batch_size + batch.rows + batch.skipped
        self._source.deliver(run, end)
        if batch.skipped:
            places = [self._source.locate(int(row)) for row in batch.skipped_rows()]
            _LOG.warning(
                "left out %d corrupt row(s): %s",
                len(places),
                ", ".join(f"row {row} of {path}" for path, row in places),
            )

    def _plain(self, run: EpochRun, native: NativeLoader) -> Iterator[dict[str, Any]]:
        recorder, build = self._recorder, self._builder.build
        clock = perf_counter_ns
        try:
            start = clock()
            while (batch := native.next()) is not None:
                built = build(batch)
                now = clock()
                self._count(run, batch, now - start)
                del batch  # the arrays alone keep the memory
                yield built
                del built
                start = clock()
                recorder.consumer_ns += start - now
        finally:
            recorder.read_ns += native.close()

    def _transformed(self, run: EpochRun, native: NativeLoader) -> Iterator[Any]:
        recorder, workers = self._recorder, self._options.workers()
        waiting: deque[tuple[NativeBatch, Future[tuple[Any, int]]]] = deque()
        pool = LeavablePool(workers, "unirecord-transform")
        try:
            more = True
            start = perf_counter_ns()
            while True:
                while more and len(waiting) <= workers:
                    batch = native.next()
                    more = batch is not None
                    if batch is not None:
                        waiting.append((batch, submit(pool, self._transform, batch)))
                if not waiting:
                    return
                if not pool.is_own:
                    raise ValueError(
                        "a loader made before fork() cannot be used in the child: make a new one"
                    )
                batch, future = waiting.popleft()
                before = perf_counter_ns()
                result, took = future.result()
                now = perf_counter_ns()
                recorder.transform_ns += took
                recorder.wait_transform_ns += now - before
                self._count(run, batch, now - start)
                del batch, future
                yield result
                del result
                start = perf_counter_ns()
                recorder.consumer_ns += start - now
        finally:
            try:
                pool.leave()
            finally:  # whoever is interrupted (Ctrl-C) while it waits
                recorder.read_ns += native.close()

    def _transform(self, batch: NativeBatch) -> tuple[Any, int]:
        """The transformed batch and the nanoseconds it took; runs on a worker thread."""
        start = perf_counter_ns()
        result: Any = self._builder.build(batch)
        transform, batch_transform = self._options.transform, self._options.batch_transform
        if transform is not None and batch.rows:
            result = self._options.collate(self._transform_samples(transform, batch, result))
        if batch_transform is not None:
            try:
                result = batch_transform(result)
            except Exception as error:
                raise TransformError(f"batch_transform failed on batch {batch.number}: {error!r}") from error
        return result, perf_counter_ns() - start

    def _transform_samples(
        self, transform: Transform, batch: NativeBatch, built: dict[str, Any]
    ) -> list[Any]:
        samples: list[Any] = split_batch(built, batch.rows)
        transformed: list[Any] = []
        try:
            transformed.extend(map(transform, samples))
        except Exception as error:
            row = int(batch.row_ids()[len(transformed)])
            path, row_in_part = self._source.locate(row)
            message = f"transform failed on row {row} (row {row_in_part} of {path}): {error!r}"
            raise TransformError(message, row, path) from error
        return transformed
