"""The functions of a batch loader as the one stage of a pass, behind the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter_ns
from typing import Any

from ..loading.loader import TrackedBatch, close_after
from ..loading.stats import StatsRecorder
from .budget import bytes_of
from .chunk import Chunk
from .operators import Operator
from .scheduler import Running, StageQueue
from .stage import Stage

__all__ = ["on_threads"]

_UNBOUNDED = 1 << 62  # the number of batches under way is what bounds memory


def on_threads(
    batches: Iterator[TrackedBatch[Any]],
    change: Callable[[TrackedBatch[Any]], TrackedBatch[Any]],
    workers: int,
    recorder: StatsRecorder,
) -> Iterator[TrackedBatch[Any]]:
    """What ``change`` makes of the batches, in their order, on ``workers`` threads; 0: the thread that asks.

    At most ``workers`` + 1 tasks are under way or not taken, and one more has been read: a batch each, or several of
    1 MiB and 1 ms together.
    """
    if not workers:
        yield from _here(batches, change, recorder)
        return
    changing = _Changing(change)
    operator = Operator("map_batch", "transform", threads=workers)
    reading = StageQueue(Stage((), under_way=1), changing, None)
    stage_queues = [reading, StageQueue(Stage((operator,), under_way=workers + 1), changing, reading)]
    results = iter(
        Running(_chunks(batches), stage_queues, _UNBOUNDED, _Waits(stage_queues[1], recorder), workers)
    )
    with changing, close_after(results):
        for chunk in results:
            values, error = chunk.values[::-1], chunk.error
            del chunk
            while values:
                yield values.pop()  # the user alone holds it
            if error is not None:
                raise error


def _here(
    batches: Iterator[TrackedBatch[Any]],
    change: Callable[[TrackedBatch[Any]], TrackedBatch[Any]],
    recorder: StatsRecorder,
) -> Iterator[TrackedBatch[Any]]:
    with close_after(batches):
        for delivered in batches:
            start = perf_counter_ns()
            changed = change(delivered)
            recorder.waited_for_transform(perf_counter_ns() - start)
            del delivered
            yield changed
            del changed


class _Changing:
    """Applies a function to the batches of a chunk; once the pass has been left, to no more."""

    def __init__(self, change: Callable[[TrackedBatch[Any]], TrackedBatch[Any]]) -> None:
        self._change = change
        self._left = False

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self._left = True

    def __call__(self, chunk: Chunk, slots: Sequence[Any]) -> Chunk:
        change, made = self._change, []
        size = 0
        for delivered in chunk.values:
            if self._left:
                break
            try:
                made.append(change(delivered))
            except BaseException as error:  # those before it are handed out first, whatever it is
                return chunk.only(range(len(made)), made).until(len(made), error)
            size += bytes_of(made[-1].batch)
        changed = chunk.with_values(made)
        changed.size = size
        return changed


def _chunks(batches: Iterator[TrackedBatch[Any]]) -> Iterator[Chunk]:
    with close_after(batches):
        for delivered in batches:
            place = (delivered.end,)
            chunk = Chunk([delivered], place, place, place, ())
            chunk.size = delivered.size
            del delivered
            yield chunk
            del chunk


class _Waits:
    """In place of a tuner: changes nothing, and tells for how long the functions were waited for, not the reader."""

    workers = 0
    counts_reading = False

    def __init__(self, stage_queue: StageQueue, recorder: StatsRecorder) -> None:
        self._stage_queue, self._recorder = stage_queue, recorder
        self._seen = 0

    def waited(self, start: int, end: int) -> None:
        """Notes when the consumer waited."""
        for_reading, self._seen = self._stage_queue.wait_in_ns - self._seen, self._stage_queue.wait_in_ns
        self._recorder.waited_for_transform(max(0, end - start - for_reading))

    def look(self, stage_queues: Sequence[StageQueue], now: int) -> None:
        """Nothing is tuned."""
