"""Batches of columns -> a dataset: row groups are put together and handed to the part or directory being written."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

from ..format.layout import Shape
from ..format.values import ColumnBatch
from .directory_writer import DirectoryWriter
from .part_writer import Compressor, PartContent
from .row_groups import TARGET_BYTES, Grouper
from .single_writer import SinglePartWriter

__all__ = ["PART_BYTES", "BatchWriter", "Target", "open_target", "write_batches"]

PART_BYTES = 20_000_000_000  # after which a directory begins a new part

Target = SinglePartWriter | DirectoryWriter


class GroupTarget(Protocol):
    """What takes row groups: a target, or what writes some of its parts."""

    target_bytes: int | None

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group."""

    def finish(self, content: PartContent, shape: Shape) -> None:
        """Completes what was written."""


def open_target(
    path: str,
    part_id: bytes,
    *,
    max_part_bytes: int = PART_BYTES,
    overwrite: bool = False,
    append: bool = False,
) -> Target:
    """What writes at ``path``: one part where it ends in ``.urec``, else a directory; it holds the path's lock."""
    if path.endswith(".urec"):
        return SinglePartWriter(path, part_id, overwrite=overwrite)
    return DirectoryWriter(path, part_id, max_part_bytes=max_part_bytes, overwrite=overwrite, append=append)


class BatchWriter:
    """Writes batches of one schema to a target. After a failure the target is to be aborted by whoever opened it."""

    content: PartContent

    def __init__(self, target: GroupTarget, content: PartContent, shape: Shape | None = None) -> None:
        """``shape``: where rows follow others of theirs; the dictionaries in ``content`` are then those of these."""
        self._target, self.content = target, content
        self._compressor = Compressor(content.schema, None if shape is None else content.dictionaries)
        target_bytes = min(target.target_bytes or TARGET_BYTES, TARGET_BYTES)
        self._grouper = Grouper(content.schema, target_bytes, shape)

    def add(self, batch: ColumnBatch, *, owned: bool) -> None:
        """Writes what is full; ``owned``: nobody else will change the memory of what has to wait."""
        self._group(self._compressor.add(batch, owned=owned))

    def finish(self) -> None:
        """Writes the rest, and lets the target finish."""
        self._group(self._compressor.finish())
        self._write(self._grouper.finish())
        assert self._grouper.shape is not None
        self._target.finish(self.content, self._grouper.shape)

    def _group(self, batches: list[tuple[ColumnBatch, bool]]) -> None:
        if batches and not self.content.dictionaries:
            self.content = replace(self.content, dictionaries=self._compressor.dictionaries)
        for batch, owned in batches:
            self._write(self._grouper.add(batch, owned=owned))

    def _write(self, groups: Iterator[list[ColumnBatch]]) -> None:
        for pieces in groups:
            assert self._grouper.shape is not None
            self._target.add(self.content, self._grouper.shape, pieces)


def write_batches(path: str, content: PartContent, batches: Iterable[ColumnBatch]) -> None:
    """Publishes a new dataset at ``path`` of batches whose memory is given away; nothing, when anything fails.

    Raises what `Writer` does: ExistsError, BusyError, OSError.
    """
    target = open_target(path, secrets.token_bytes(16))
    try:
        writer = BatchWriter(target, content)
        for batch in batches:
            writer.add(batch, owned=True)
        writer.finish()
    except BaseException:
        target.abort()
        raise
