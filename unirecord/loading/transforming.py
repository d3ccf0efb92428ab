"""The stage that calls a user's functions on samples and batches, on threads; the order stays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, nullcontext
from time import perf_counter_ns
from typing import Any

from ..core import LeavablePool
from ..errors import CorruptionError, TransformError
from ..order.shard_order import EpochRun
from .batch import split_batch
from .delivered import Delivered
from .options import LoaderOptions, Transform
from .plan import Plan
from .stats import StatsRecorder

__all__ = ["Transforming", "close_after", "on_threads", "transformed"]


def close_after(batches: Iterator[Any]) -> Any:
    """A context at whose end an iterator that can be closed is closed, and with it what it holds."""
    return closing(batches) if hasattr(batches, "close") else nullcontext()


def on_threads(
    batches: Iterator[Delivered[Any]],
    change: Callable[[Delivered[Any]], Delivered[Any]],
    workers: int,
    waited: Callable[[int], None] = lambda ns: None,
) -> Iterator[Delivered[Any]]:
    """What ``change`` makes of the batches, in their order; at most ``workers`` + 1 are under way, none with 0.

    ``waited`` is told the nanoseconds for which a change had to be waited for.
    """
    if workers == 0:
        with close_after(batches):
            while (delivered := next(batches, None)) is not None:
                start = perf_counter_ns()
                changed = change(delivered)
                waited(perf_counter_ns() - start)
                del delivered
                yield changed
                del changed
        return
    waiting: deque[Future[Delivered[Any]]] = deque()
    pool = LeavablePool(workers, "unirecord-transform")
    with close_after(batches):
        try:
            more = True
            while True:
                while more and len(waiting) <= workers:
                    taken = next(batches, None)
                    more = taken is not None
                    if taken is not None:
                        waiting.append(pool.submit(change, taken))
                    del taken
                if not waiting:
                    return
                if not pool.is_own:
                    raise ValueError(
                        "a loader made before fork() cannot be used in the child: make a new one"
                    )
                start = perf_counter_ns()
                changed = waiting.popleft().result()
                waited(perf_counter_ns() - start)
                yield changed
                del changed
        finally:
            pool.leave()


class Transforming:
    """``transform``, ``collate_fn`` and ``batch_transform`` of one pass, applied to a batch that was read."""

    def __init__(self, plan: Plan, run: EpochRun, options: LoaderOptions, recorder: StatsRecorder) -> None:
        self._plan, self._run = plan, run
        self._options = options
        self._recorder = recorder

    def __call__(self, delivered: Delivered[dict[str, Any]]) -> Delivered[Any]:
        start = perf_counter_ns()
        options = self._options
        result: Any = delivered.batch
        if options.transform is not None or options.collate_fn is not None:
            samples: list[Any] = self._split(result, delivered)
            if options.transform is not None:
                samples = self._transformed(options.transform, samples, delivered)
            try:
                result = options.collate(samples)
            except StopIteration as error:  # would end the epoch without a word
                raise TransformError(f"collate_fn failed on {self._named(delivered)}: {error!r}") from error
        if options.batch_transform is not None:
            try:
                result = options.batch_transform(result)
            except Exception as error:
                raise TransformError(
                    f"batch_transform failed on {self._named(delivered)}: {error!r}"
                ) from error
        self._recorder.transformed(perf_counter_ns() - start)
        return delivered.with_batch(result)

    def _split(self, batch: dict[str, Any], delivered: Delivered[dict[str, Any]]) -> list[Any]:
        try:
            return split_batch(batch, delivered.samples)
        except CorruptionError:
            for row in self._rows(delivered):  # finds the row that cannot be decoded, and says where it is
                self._plan.data.reader.one(row)
            raise

    def _transformed(
        self, transform: Transform, samples: list[Any], delivered: Delivered[dict[str, Any]]
    ) -> list[Any]:
        done: list[Any] = []
        try:
            for sample in samples:  # not map(): a StopIteration would end it
                done.append(transform(sample))  # noqa: PERF401
        except Exception as error:
            row = self._rows(delivered)[len(done)]
            path, row_in_part = self._plan.data.parts.locate(row)
            message = f"transform failed on row {row} (row {row_in_part} of {path}): {error!r}"
            raise TransformError(message, row, path) from error
        return done

    def _rows(self, delivered: Delivered[Any]) -> list[int]:
        """The rows of the samples of a batch."""
        run = self._run
        stop = (delivered.end - run.start) // run.stride
        start = stop - delivered.samples - len(delivered.left_out)
        left_out = set(delivered.left_out)  # a corrupt row is left out wherever it comes
        rows: list[int] = self._plan.rows_of(run, start, stop).tolist()
        return [row for row in rows if row not in left_out]

    def _named(self, delivered: Delivered[Any]) -> str:
        batch = (delivered.end - self._run.start) // self._run.stride
        return f"batch {-(-batch // self._options.batch_size) - 1} of epoch {delivered.epoch}"


def transformed(
    batches: Iterator[Delivered[Any]],
    plan: Plan,
    run: EpochRun,
    options: LoaderOptions,
    recorder: StatsRecorder,
) -> Iterator[Delivered[Any]]:
    """The stage for the options of a loader."""
    change = Transforming(plan, run, options, recorder)
    return on_threads(batches, change, options.workers(), recorder.waited_for_transform)
