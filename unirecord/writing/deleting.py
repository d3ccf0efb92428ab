"""Deletes rows of a directory: a small file for each part concerned, which the next version names; no part changes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from ..order.selection import Selection, each_once, row_numbers
from ..parts import manifest
from ..parts.dataset_path import deletion_of, resolve
from ..parts.deletions import encode_deletion, rows_deleted
from ..parts.manifest import DeletedRows, Manifest, PartEntry
from ..parts.part_set import PartSet
from ..parts.versions import no_directory, published_as
from ..storage.registry import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from .arguments import storage_to_write_to
from .publisher import Publisher
from .republishing import OvertakenError, held

__all__ = ["Deleted", "delete", "rows_that_go"]

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
    storage_options: Mapping[str, Any] | None = None,
) -> Deleted:
    """Deletes rows of the directory at ``path``: from the next version on they are not there (docs/growing.md).

    The other rows keep their numbers. Jobs that run go on with what they have opened. The bytes stay on disk, for the
    versions before.

    Args:
        path: a directory of parts, also in an object store.
        where: a condition (docs/query.md): the rows that meet it.
        rows: row numbers in the dataset, as ``ds.order.row_ids`` gives them, in place of ``where``.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        MissingError: there is no directory of parts.
        IndexError: there is no row of that number, or no more.
        QueryError: the condition is wrong.
        BusyError: a live writer is at work there.
        StaleError: in an object store, another writer has replaced the dataset meanwhile.
        UniRecordError: the directory is in storage that is only read.
        ValueError: not exactly one of ``where`` and ``rows`` is given, or ``storage_options`` for a disk.
    """
    folder = path_of_dataset(os.fspath(path))
    if (where is None) == (rows is None):
        raise ValueError("give either where, a condition, or rows, by their numbers")
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(
                folder,
                ", and only of those can rows be deleted; write a single part again without them",
            )
        while True:
            with suppress(OvertakenError), held(folder) as claim:
                return _delete(folder, claim, where, rows)


def _delete(folder: str, claim: Publisher, where: str | None, rows: Any) -> Deleted:
    before = claim.before
    assert before is not None
    found = rows_that_go(folder, where, rows)
    if not len(found):
        return Deleted(0, before.generation)
    after = before

    def without_them(now: Manifest | None) -> bytes:
        nonlocal after
        if now is not before:
            raise OvertakenError
        after = published_as(replace(before, parts=entries), before, "delete", folder)
        return manifest.encode(after)

    made: list[str] = []
    try:
        entries = _without(folder, claim, found, made)
        claim.publish(without_them)
    finally:
        if not claim.published:
            claim.clear_files(made)
    return Deleted(len(found), after.generation)


def rows_that_go(folder: str, where: str | None, rows: Any) -> Numbers:
    """The rows that are there and are to go, ascending."""
    parts = PartSet(resolve(folder), knows_deletions=True)
    try:
        from ..query import compile_query
        from ..query.query import live_rows, live_rows_that_meet

        if where is not None:
            return live_rows_that_meet(parts, compile_query(where, parts.schema))
        return _asked(live_rows(parts), rows)
    finally:
        parts.close()


def _asked(live: Selection, rows: Any) -> Numbers:
    wanted = each_once(row_numbers(rows, live.rows))
    there, _ = live.places(wanted)
    if len(there) < len(wanted):
        gone = np.setdiff1d(np.arange(len(wanted)), there)[0]
        raise IndexError(f"row {wanted[gone]} has been deleted already")
    return wanted


def _without(folder: str, claim: Publisher, found: Numbers, made: list[str]) -> tuple[PartEntry, ...]:
    """The parts with their deletion files, which are written; ``made`` gets the names of these."""
    before = claim.before
    assert before is not None
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
        name = claim.put_file(entry.name, before.generation + 1, content, made)
        gone = DeletedRows(name, len(deleted), len(content), f"{xxh3_64(content):016x}")
        entries.append(entry._replace(deleted=gone))
    return tuple(entries)
