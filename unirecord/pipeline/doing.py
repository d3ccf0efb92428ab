"""Doing one task: chunks read from the source, or what a stage makes of some; what it took, of a processor too."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter_ns, thread_time_ns

from .chunk import Chunk
from .dispatch import Job
from .gathering import make_ahead
from .memory_size import size_of

__all__ = ["do"]

_MOST_READ = 16  # chunks read by one task, if they come fast
_READ_BYTES = 1 << 20
_READ_NS = 300_000


def do(job: Job, source: Iterator[Chunk], caught: type[BaseException]) -> tuple[list[Chunk], bool, int]:
    """The results of a job, whether they are the source's last, and the nanoseconds that it took.

    An error that is ``caught`` becomes the last of them.
    """
    lane, task = job
    sampled = lane.samples_cpu  # not for each: on some systems the call takes as long as many a task
    start, cpu = perf_counter_ns(), thread_time_ns() if sampled else 0
    ended = False
    if lane.upstream is None:
        chunks, ended = _read(source, lane.stage.prefetch or _MOST_READ, start, caught)
    else:
        try:
            chunk = lane.call(task.chunk, task.slots)
        except caught as error:
            chunk = Chunk.failed(error)
        chunk.size = chunk.size or size_of(chunk)
        if task.group and lane.ahead is not None and len(chunk.values) == len(task.chunk.values):
            make_ahead(chunk, task.group, lane.ahead.call, caught)
        chunks = [chunk]
    wall = perf_counter_ns() - start
    if sampled:
        lane.note_cpu(thread_time_ns() - cpu, wall)
    return chunks, ended, wall


def _read(
    source: Iterator[Chunk], most: int, start: int, caught: type[BaseException]
) -> tuple[list[Chunk], bool]:
    """Some chunks of the source, while they come fast; and whether they are the last."""
    chunks: list[Chunk] = []
    size = 0
    while len(chunks) < most and size < _READ_BYTES and perf_counter_ns() - start < _READ_NS:
        try:
            chunk = next(source, None)
        except caught as error:
            return [*chunks, Chunk.failed(error)], True
        if chunk is None:
            return chunks, True
        chunk.size = chunk.size or size_of(chunk)
        size += chunk.size
        chunks.append(chunk)
    return chunks, False
