"""The functions of a batch loader as the one stage of a pass, behind the reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..loading.delivered import Delivered, close_after
from ..loading.stats import StatsRecorder
from .chunk import Chunk
from .lane import Lane
from .operators import Operator
from .running import Running, run_alone
from .stage import Stage

__all__ = ["on_threads"]

_UNBOUNDED = 1 << 62  # the number of batches under way is what bounds memory


def on_threads(
    batches: Iterator[Delivered[Any]],
    change: Callable[[Delivered[Any]], Delivered[Any]],
    workers: int,
    recorder: StatsRecorder,
) -> Iterator[Delivered[Any]]:
    """What ``change`` makes of the batches, in their order, on ``workers`` threads; 0: the thread that asks.

    At most ``workers`` + 1 are under way, and one more has been taken from ``batches``.
    """

    def call(chunk: Chunk, slots: Sequence[Any]) -> Chunk:
        (delivered,) = chunk.values
        return chunk.with_values([change(delivered)])

    reading = Lane(Stage((), prefetch=1), call, None)
    operator = Operator("map_batch", "transform", threads=workers or 1)
    changing = Lane(Stage((operator,), prefetch=workers + 1), call, reading)
    lanes = [reading, changing]
    results = run_alone(_chunks(batches), lanes)
    if workers:
        results = iter(Running(_chunks(batches), lanes, _UNBOUNDED, _Waits(changing, recorder), workers))
    with close_after(results):
        for chunk in results:
            if chunk.error is not None:
                raise chunk.error
            delivered = chunk.values.pop()
            del chunk
            yield delivered
            del delivered


def _chunks(batches: Iterator[Delivered[Any]]) -> Iterator[Chunk]:
    with close_after(batches):
        for delivered in batches:
            place = (delivered.end,)
            chunk = Chunk([delivered], place, place, (), ())
            del delivered
            yield chunk
            del chunk


class _Waits:
    """In place of a tuner: changes nothing, and tells for how long the functions were waited for, not the reader."""

    workers = 0

    def __init__(self, lane: Lane, recorder: StatsRecorder) -> None:
        self._lane, self._recorder = lane, recorder
        self._seen = 0

    def waited(self, start: int, end: int) -> None:
        """Notes when the consumer waited."""
        for_reading, self._seen = self._lane.wait_in_ns - self._seen, self._lane.wait_in_ns
        self._recorder.waited_for_transform(max(0, end - start - for_reading))

    def look(self, lanes: Sequence[Lane], all_busy: bool, now: int) -> None:
        """Nothing is tuned."""
