"""Chunks that go from the source through all stages at once, on the thread that asks: no tasks, no queues."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import perf_counter_ns

from .chunk import Chunk
from .lane import Lane

__all__ = ["Straight", "run_alone"]

_MOST_NS = 50_000  # for a chunk: what it costs that another thread makes it, about
_KNOWN = 4  # tasks after which it is known what they take


class Straight:
    """The way for what is known to be cheap, where no stage gathers elements or writes into slots."""

    def __init__(self, source: Iterator[Chunk], lanes: Sequence[Lane]) -> None:
        self._source = source
        self._reading, *self._stages = lanes
        apart = any(lane.processes for lane in lanes)
        self._is_there = not apart and not any(lane.stage.group or lane.slots for lane in self._stages)

    def is_open(self) -> bool:
        """Whether the next chunk may take it: what is known is cheap, and nothing is on the way through the queues."""
        if not self._is_there or self._reading.ended or self._reading.ready:
            return False
        for lane in self._stages:
            if lane.tasks <= _KNOWN or lane.element_ns > _MOST_NS or not lane.is_empty:
                return False
        return True

    def next(self, start: int) -> Chunk | None:
        """What is made of the next chunk; ``start``: the clock.

        None where that has been left to the queues: it would take long, or it is the end, or an error.
        """
        reading = self._reading
        try:
            chunk = next(self._source, None)
        except Exception as error:
            chunk = Chunk.failed(error)
        read = perf_counter_ns()
        reading.busy_ns += read - start
        if chunk is None or chunk.error is not None:
            reading.ended = True
        if chunk is None:
            return None
        count = len(chunk.values)
        reading.elements += count
        takes = 0.0
        for lane in self._stages:
            takes += lane.element_ns
        chunk.size = 0  # nothing of it is kept ready
        if not count or chunk.error is not None or count * takes > _MOST_NS:
            reading.ready.append(chunk)
            return None
        return self._through(chunk, read)

    def _through(self, chunk: Chunk, now: int) -> Chunk:
        for lane in self._stages:
            count = len(chunk.values)
            if not count:
                break
            try:
                chunk = lane.call(chunk, ())
            except Exception as error:
                chunk = Chunk.failed(error)
            begun, now = now, perf_counter_ns()
            lane.passed(count, begun, now)
        chunk.size = 0
        return chunk


def run_alone(source: Iterator[Chunk], reading: Lane) -> Iterator[Chunk]:
    """A pass without stages: nothing is gained by threads, for the source reads ahead itself."""
    try:
        while True:
            start = perf_counter_ns()
            chunk = next(source, None)
            reading.busy_ns += perf_counter_ns() - start
            if chunk is None:
                return
            reading.elements += len(chunk)
            yield chunk
            del chunk
    finally:
        if hasattr(source, "close"):
            source.close()
