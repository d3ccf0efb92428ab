"""Deletes rows of a directory: a small file for each part concerned, which the next version names; no part changes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from ..errors import MissingError, UniRecordError
from ..order.found_rows import FoundRows
from ..order.selection import Selection
from ..parts import manifest
from ..parts.dataset_path import deletion_of, resolve
from ..parts.deletions import deletion_name, encode_deletion, rows_deleted
from ..parts.manifest import DeletedRows, Manifest, PartEntry
from ..parts.part_set import PartSet
from ..parts.versions import published_as
from ..storage import local as store
from ..storage.registry import location_of
from ..storage.staged import StagedFile
from .republishing import held

__all__ = ["Deleted", "delete"]

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Deleted:
    """What `unirecord.delete` has done.

    Attributes:
        rows: how many rows have been deleted.
        version: the version without them; the one that was there where no row was concerned.
    """

    rows: int
    version: int


def delete(
    path: str | os.PathLike[str],
    *,
    where: str | None = None,
    rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
) -> Deleted:
    """Deletes rows of the directory at ``path``: from the next version on they are not there (docs/growing.md).

    The other rows keep their numbers. Jobs that run go on with what they have opened. The bytes stay on disk, for the
    versions before.

    Args:
        path: a directory of parts on a disk.
        where: a condition (docs/query.md): the rows that meet it.
        rows: row numbers in the dataset, as ``row_ids`` gives them, in place of ``where``.

    Raises:
        MissingError: there is no directory of parts.
        IndexError: there is no row of that number, or no more.
        QueryError: the condition is wrong.
        BusyError: a live writer is at work there.
        UniRecordError: the directory is in an object store.
        ValueError: not exactly one of ``where`` and ``rows`` is given.
    """
    folder = os.fspath(path)
    if (where is None) == (rows is None):
        raise ValueError("give either where, a condition, or rows, by their numbers")
    if not location_of(folder).in_file_system:
        raise UniRecordError(f"{folder}: rows are deleted on a disk only, not in an object store")
    if not location_of(folder).is_directory(folder):
        raise MissingError(
            f"{folder}: there is no directory of parts here, and only of those can rows be deleted; write a single "
            "part again without them"
        )
    with held(folder) as claim:
        before = claim.before
        assert before is not None
        made: list[str] = []
        found = _found(folder, where, rows)
        if not len(found):
            return Deleted(0, before.generation)
        try:
            entries = _without(folder, before, found, made)
            after = published_as(replace(before, parts=entries), before, "delete", folder)
            claim.publish(lambda _: manifest.encode(after))
        finally:
            if not claim.published:
                for name in made:
                    store.clear(os.path.join(folder, name))
    return Deleted(len(found), after.generation)


def _found(folder: str, where: str | None, rows: Any) -> Numbers:
    """The rows that are there and are to go, ascending."""
    parts = PartSet(resolve(folder), knows_deletions=True)
    try:
        live = Selection(parts.rows) if parts.live is None else Selection(parts.rows, bitmap=parts.live)
        if where is not None:
            from ..query import compile_query

            meeting = FoundRows(parts.rows)
            compile_query(where, parts.schema).find(parts, meeting.add)
            return live.where_rows(meeting.all()).every()
        return _asked(live, rows)
    finally:
        parts.close()


def _asked(live: Selection, rows: Any) -> Numbers:
    asked = np.atleast_1d(np.asarray(rows))
    if asked.size == 0 and asked.ndim == 1:
        return np.empty(0, np.int64)
    if asked.dtype.kind not in "iu" or asked.ndim != 1:
        raise TypeError(f"rows are integers, not {asked.dtype} of shape {asked.shape}")
    outside = asked[(asked < 0) | (asked >= live.rows)]
    if len(outside):
        raise IndexError(f"there is no row {outside[0]}: the dataset has {live.rows} rows")
    wanted: Numbers = np.sort(asked.astype(np.int64))  # np.unique may hash, which takes seconds for a million
    wanted = wanted[np.append(True, wanted[1:] != wanted[:-1])]
    there, _ = live.places(wanted)
    if len(there) < len(wanted):
        gone = np.setdiff1d(np.arange(len(wanted)), there)[0]
        raise IndexError(f"row {wanted[gone]} has been deleted already")
    return wanted


def _without(folder: str, before: Manifest, found: Numbers, made: list[str]) -> tuple[PartEntry, ...]:
    """The parts with their deletion files, which are written; ``made`` gets the names of these."""
    entries: list[PartEntry] = []
    start = 0
    for entry in before.parts:
        first, last = np.searchsorted(found, [start, start + entry.rows]).tolist()
        new = found[first:last] - start
        start += entry.rows
        if not len(new):
            entries.append(entry)
            continue
        before_it = rows_deleted(deletion_of(folder, entry), entry.id, entry.rows)
        deleted = np.sort(np.concatenate([before_it, new]))  # no row is in both
        content = encode_deletion(entry.id, entry.rows, deleted)
        name = deletion_name(entry.name, before.generation + 1)
        made.append(name)
        _write(os.path.join(folder, name), os.path.join(folder, manifest.NAME), content)
        gone = DeletedRows(name, len(deleted), len(content), f"{xxh3_64(content):016x}")
        entries.append(entry._replace(deleted=gone))
    return tuple(entries)


def _write(path: str, like: str, content: bytes) -> None:
    """A complete file under its name; that is durable once the folder is synced, before the manifest is published."""
    staged = StagedFile(path, like=like)
    try:
        staged.append([content])
        staged.sync()
        staged.publish(durable=False)
    finally:
        staged.discard()
