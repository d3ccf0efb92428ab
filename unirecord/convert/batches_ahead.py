"""What tasks are made of, read while what came before is written: within a task, and from one to the next."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from types import TracebackType
from typing import Final

from .sources.ahead import taken_ahead
from .sources.base import RawBatch, Source

__all__ = ["BatchesAhead", "batches_of_units"]

_END: Final = None  # of a task


def batches_of_units(source: Source, start: int, stop: int) -> Iterator[tuple[int, RawBatch]]:
    """Yield the batches of units [start, stop) of a source, each with the number of its unit."""
    for number in range(start, stop):
        for batch in source.batches_of(source.units[number]):
            yield number, batch


class BatchesAhead:
    """Batches of tasks that one process runs one after the other; at most one is read before it is asked for.

    The first one of a task is read while the part before it is finished and the rest of it synced.
    """

    def __init__(self, source: Source, ranges: Iterable[tuple[int, int]]) -> None:
        """``ranges``: the units [start, stop) of each task, in the order in which they are asked for."""
        batches = _each(source, ranges)
        self._batches = taken_ahead(batches) if source.reads_ahead else batches

    def of_next_task(self) -> Iterator[tuple[int, RawBatch]]:
        """Yield what is left of the next task; all of it is to be taken before the one behind it is asked for."""
        while (found := next(self._batches, _END)) is not _END:
            yield found

    def __enter__(self) -> BatchesAhead:
        """Return itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Read no more; nobody waits for what is being read."""
        self._batches.close()


def _each(
    source: Source, ranges: Iterable[tuple[int, int]]
) -> Generator[tuple[int, RawBatch] | None, None, None]:
    for start, stop in ranges:
        yield from batches_of_units(source, start, stop)
        yield _END
