"""Brings the rows of a directory into the order of a column: one publication, other numbers for the rows."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..columns.ordered import rows_in_order
from ..errors import UniRecordError
from ..format.schema import Schema
from ..parts import manifest
from ..parts.data_file import DataFile
from ..parts.manifest import Manifest, PartEntry
from ..parts.part_set import PartSet, resolve
from ..parts.versions import no_directory, published_as
from ..progress import Progress, Tracker
from ..sizes import parse_size
from ..storage.registry import location_of
from .batch_writer import PART_BYTES, BatchWriter
from .compacting import Relaid, without_bare
from .encoded_rows import rows_as_batch
from .part_writer import PartContent, PartSequence
from .republishing import held
from .row_groups import shape_without_rows
from .verified_rows import open_verified

__all__ = ["sort"]

_AT_ONCE: Final = 8 << 20  # bytes that are read for one batch
_MOST_ROWS: Final = 1 << 16

Rows = NDArray[np.int64]


def sort(
    path: str | os.PathLike[str],
    by: str,
    *,
    descending: bool = False,
    cluster: bool = False,
    part_bytes: int | str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Relaid:
    """Brings the rows of the directory at ``path`` into the order of a column, as the next version (docs/growing.md).

    Rows get other numbers, and those that have been deleted stay behind: a state that was taken before is refused, and
    goes on with the version that it is of. Each row is checked against its digest on the way. What was there stays, for
    the versions before, until `unirecord.gc`. Needs 8 bytes of memory a row, and for a moment 16 more and the values of
    the column; cells are compressed anew.

    Args:
        path: a directory of parts on a disk.
        by: a scalar column: numbers, NaN after them, null last; equal ones in their order.
        descending: the greatest first; NaN and null are last all the same.
        cluster: rows with the same value side by side, and the values in the order in which they first come.
        part_bytes: greatest size of a part: a number, or text like ``"2GiB"``; 20 GB by default.
        dry_run: change nothing, and say what would be done.
        progress: called with (bytes done, bytes in all).

    Returns:
        What was done; nothing is ``written`` where the rows lie so already and none is deleted. With ``dry_run``,
        ``parts_after`` and ``written`` are what their sizes now let expect.

    Raises:
        CorruptionError: a part is damaged: the error names it and the row, and nothing is published.
        SchemaError: there is no such column, or it is not scalar.
        MissingError: there is no directory of parts.
        BusyError: a live writer is at work there.
        UniRecordError: the directory is in an object store.
        ValueError: a wrong argument.
    """
    folder, most = os.fspath(path), PART_BYTES if part_bytes is None else parse_size(part_bytes)
    if most < 1:
        raise ValueError(f"part_bytes is at least 1, got {part_bytes!r}")
    if descending and cluster:
        raise ValueError("descending and cluster exclude each other: clusters come as their first rows do")
    if not location_of(folder).in_file_system:
        raise UniRecordError(f"{folder}: rows are sorted on a disk only, not in an object store")
    if not location_of(folder).is_directory(folder):
        raise no_directory(folder, ", and only those have versions")
    with held(folder) as claim:
        before = claim.before
        assert before is not None
        parts = PartSet(resolve(folder), verify="always", knows_deletions=True)
        try:
            order = _order(parts, by, descending=descending, cluster=cluster)
            count, size = len(before.parts), sum(entry.bytes for entry in before.parts)
            if len(order) == parts.rows and (np.diff(order) == 1).all():
                return Relaid(before.generation, count, count, 0, 0, 0)
            if dry_run:
                made = max(-(-size // most), 1)
                return Relaid(before.generation + 1, count, made, made, len(order), size)
            entries: list[PartEntry] = []
            writing = _Writing(folder, before, parts, most)
            try:
                entries = writing.write(order, Tracker(size, progress).advance)
                after = replace(before, parts=tuple(entries), next_part=before.next_part + len(entries))
                after = without_bare(published_as(after, before, "sort", folder))
                claim.publish(lambda _: manifest.encode(after))
            finally:
                writing.close()
                if not claim.published:
                    claim.clear(writing.named)
        finally:
            parts.close()
    return Relaid(after.generation, count, len(entries), len(entries), len(order), size)


def _order(parts: PartSet, by: str, *, descending: bool, cluster: bool) -> Rows:
    live = parts.live
    among = None if live is None else live.range(0, live.ones)
    return rows_in_order(parts, by, descending=descending, cluster=cluster, among=among)


class _Writing:
    """Writes rows of opened parts into new ones."""

    def __init__(self, folder: str, before: Manifest, parts: PartSet, part_bytes: int) -> None:
        self._before, self._rows = before, parts
        for entry in before.parts:
            with DataFile(os.path.join(folder, entry.name)) as data:
                open_verified(data, entry)
        like = os.path.join(folder, manifest.NAME)
        first = before.next_part
        self._parts = PartSequence(folder, secrets.token_bytes(16), lambda i: first + i, part_bytes, like)

    @property
    def named(self) -> list[str]:
        """The names that may have been given."""
        return self._parts.named

    def write(self, order: Rows, advance: Callable[[int], None]) -> list[PartEntry]:
        """The parts, complete."""
        content = PartContent(self._schema(), self._before.index, self._before.metadata or b"\xc0")
        writer = BatchWriter(self._parts, content)
        row_bytes = sum(entry.bytes for entry in self._before.parts) / max(len(order), 1)
        step = min(max(int(_AT_ONCE / max(self._rows.mean_row_bytes(), 1.0)), 1), _MOST_ROWS)
        for start in range(0, len(order), step):
            some = order[start : start + step]
            writer.add(rows_as_batch(self._rows, some), owned=True)
            advance(int(row_bytes * len(some)))
        writer.finish()
        if not self._parts.entries:
            self._parts.write_empty(writer.content, shape_without_rows(content.schema))
        return self._parts.entries

    def _schema(self) -> Schema:
        """Compressed as the part with the most rows is."""
        sizes = [entry.rows for entry in self._before.parts]
        stored = self._rows.part(int(np.argmax(sizes))).stored_schema
        return Schema(replace(column, codec=stored[column.name].codec) for column in self._before.schema)

    def close(self) -> None:
        """Removes the part that is not complete."""
        self._parts.discard()
