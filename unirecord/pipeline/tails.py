"""What stands between the stages and the consumer, on its thread: copies to a device that are begun ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from ..loading.loader import Delivered, Stage, close_after
from .chunk import Chunk, Note

__all__ = ["through"]


def through(chunks: Iterator[Chunk], stages: Sequence[Stage]) -> Iterator[Chunk]:
    """Chunks of one batch each, behind stages that take and give delivered batches."""
    trailing: list[Note] = []
    with ExitStack() as open_stages:
        open_stages.enter_context(close_after(chunks))
        batches: Iterator[Delivered[Any]] = _delivered(chunks, trailing)
        for stage in stages:
            batches = stage(batches)
            open_stages.enter_context(close_after(batches))
        for delivered in batches:
            place, notes = delivered.end, delivered.left_out
            chunk = Chunk([delivered.batch], (place,), (place,), [delivered.rows], (), notes)  # type: ignore[arg-type]
            del delivered
            yield chunk
            del chunk
        if trailing:
            yield Chunk([], (), (), (), (), tuple(trailing))


def _delivered(chunks: Iterator[Chunk], trailing: list[Note]) -> Iterator[Delivered[Any]]:
    """The elements of chunks with the places where they end; ``trailing`` has what was left out behind the last."""
    for chunk in chunks:
        trailing += chunk.notes
        values, ends, rows, error = chunk.values, chunk.ends, chunk.rows, chunk.error
        del chunk
        for number, end in enumerate(ends):
            notes: Any = tuple(trailing)
            trailing.clear()
            value, values[number] = values[number], None
            place: Any = end
            yield Delivered(value, 0, place, notes, 1, 0, 0, rows[number])
            del value
        if error is not None:
            raise error
