"""Erases rows of a directory for good: deletes them, writes their parts anew, removes earlier versions, and looks."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import BusyError, UniRecordError
from ..format.column import Column
from ..parts import manifest
from ..parts.dataset_path import resolve
from ..parts.manifest import Manifest, PartEntry
from ..parts.part_set import ColumnResult, PartSet
from ..parts.versions import kept_name, kept_versions, no_directory, publication_of, read_newest
from ..progress import Progress
from ..storage import local as store
from ..storage.lease import is_leased
from ..storage.registry import location_of
from .collecting import gc
from .compacting import bare_deletions, deleted_rows, relay
from .deleting import delete, rows_that_go
from .erased_traces import Dictionaries, Traces, dictionaries_of, trace_rows
from .relaying import joined_small

__all__ = ["Purged", "purge"]

Numbers = NDArray[np.int64]

_NONE: Final = np.empty(0, np.int64)


@dataclass(frozen=True)
class Purged:
    """What `unirecord.purge` has erased and looked for, or would erase.

    Attributes:
        rows: rows whose bytes were erased, those that had been deleted before among them.
        version: the only version that is left.
        parts: parts that were written anew.
        lost: earlier versions that are gone with all that they named, ascending.
        looked_for: digests and runs of bytes of the erased rows that were looked for in every file that is left.
        too_plain: values too short (of fewer than 8 bytes) or too even to be looked for.
        unread: rows whose values could not be looked for, since they were damaged; their digests were.
        files, bytes: that were searched, all that the directory has.
        shared: how many of them other rows have as well, so that they stand in parts that have none of the erased rows.
        elsewhere: files of parts that have been removed here and have another name on this disk, where the bytes are.
    """

    rows: int
    version: int
    parts: int
    lost: tuple[int, ...]
    looked_for: int = 0
    too_plain: int = 0
    unread: int = 0
    files: int = 0
    bytes: int = 0
    shared: int = 0
    elsewhere: tuple[str, ...] = ()


def purge(
    path: str | os.PathLike[str],
    *,
    where: str | None = None,
    rows: int | Sequence[int] | NDArray[np.integer[Any]] | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Purged:
    """Erases rows of the directory at ``path`` for good, and all that had been deleted before (docs/growing.md).

    The rows are deleted, the parts that have deleted rows written anew without their bytes, and all earlier versions
    removed: nothing can be restored. All other rows keep their numbers. When that is done, every file of the directory
    is searched for bytes of the erased rows. Killed anywhere, the same call again does what is left.

    Args:
        path: a directory of parts on a disk.
        where: a condition (docs/query.md): the rows that meet it.
        rows: row numbers in place of ``where``; those that have been deleted already may be among them. With neither,
            what has been deleted is erased.
        dry_run: change nothing, and say what would be erased.
        progress: called with (bytes done, bytes in all) while parts are written.

    Raises:
        BusyError: somebody reads a version, so that it cannot be removed, or a live writer is at work.
        CorruptionError: a part that must be written anew is damaged in another row: it is as `compact` says.
        MissingError, IndexError, QueryError: as of `delete`.
        UniRecordError: bytes of erased rows are still there, in a file that the error names; the directory is in an
            object store; or its file system has no locks that tell who reads.
        ValueError: both ``where`` and ``rows`` are given.
    """
    folder = os.fspath(path)
    if where is not None and rows is not None:
        raise ValueError("give where, a condition, or rows, by their numbers, not both")
    if not location_of(folder).in_file_system:
        raise UniRecordError(
            f"{folder}: rows are purged on a disk only: in an object store nobody can see who reads, nor what old "
            "objects the store keeps; delete the rows, `unirecord write` what is left to another place, and remove this"
        )
    if not location_of(folder).is_directory(folder):
        raise no_directory(folder)
    _refuse_readers(folder)
    newest = read_newest(folder)
    _refuse_column_parts(folder, newest)
    asked = None if rows is None else _not_yet(folder, newest, rows)
    if dry_run:
        return _planned(folder, newest, where, asked)
    if where is not None or (asked is not None and np.size(asked)):
        delete(folder, where=where, rows=asked)
    return _erased(folder, progress)


def _refuse_column_parts(folder: str, newest: Manifest) -> None:
    """Purge searches for what was in parts, and not for what was in column parts."""
    if newest.layouts:
        raise UniRecordError(
            f"{folder}: columns were added, dropped or renamed, and purge does not search column parts; put them into "
            "the parts first: unirecord compact --join-columns, and then unirecord gc --keep 1"
        )
    for number in kept_versions(location_of(folder).names(folder)):
        if manifest.read(os.path.join(folder, kept_name(number))).layouts:
            raise UniRecordError(
                f"{folder}: version {number} has column parts, which purge does not search; remove it first: "
                "unirecord gc --keep 1"
            )


def _erased(folder: str, progress: Progress | None) -> Purged:
    newest = read_newest(folder)
    rows = _count(folder, newest)
    leaving = _leaving(folder, newest)
    traces, stale = Traces(), {entry.name for entry, _ in leaving}
    dictionaries = Dictionaries(
        found
        for entry in newest.parts
        if entry.name not in stale
        for found in dictionaries_of(os.path.join(folder, entry.name), entry.name)
    )
    for entry, gone in leaving:
        trace_rows(folder, entry, gone, traces, dictionaries)
    elsewhere = tuple(_linked(folder, stale | dictionaries.concerned))
    done = relay(
        folder,
        lambda parts: joined_small(parts, 1),  # each for itself
        "purge",
        False,
        progress,
        drop=True,
        without_dictionaries=dictionaries.concerned,
    )
    collected = gc(folder, keep=1)
    if collected.in_use or collected.unknown:
        held = ", ".join(map(str, collected.in_use or collected.unknown))
        raise BusyError(
            f"{folder}: somebody has begun to read version {held} meanwhile, which has the rows that are to be erased: "
            "they are deleted, and their bytes stay until the same purge is run again"
        )
    newest = read_newest(folder)
    _check_blank(folder, newest)
    files, size, shared = _searched(folder, newest, traces)
    return Purged(
        rows, newest.generation, done.written, collected.removed, traces.looked_for,
        traces.too_plain, traces.unread, files, size, shared, elsewhere,
    )  # fmt: skip


def _refuse_readers(folder: str) -> None:
    """Before anything is changed: no version may be open that would have to go."""
    names = [kept_name(number) for number in kept_versions(location_of(folder).names(folder))]
    for name in (*names, manifest.NAME):
        leased = is_leased(os.path.join(folder, name))
        if leased is None:
            raise UniRecordError(
                f"{folder}: this file system has no locks that tell who reads, so that nothing is erased here; copy "
                "the directory to a local disk, purge it there, and replace this"
            )
        if leased:
            version = read_newest(folder).generation if name == manifest.NAME else int(name.split("-")[1])
            raise BusyError(
                f"{folder}: somebody reads version {version}, whose rows cannot be erased meanwhile; nothing was "
                "changed: end what has it open on this machine, and purge again"
            )


def _not_yet(folder: str, newest: Manifest, rows: Any) -> Any:
    """Those that have not been deleted yet, so that a purge that was killed can be run again; all else as it is."""
    asked = np.atleast_1d(np.asarray(rows))
    if asked.dtype.kind not in "iu" or asked.ndim != 1:
        return rows
    start, gone = 0, [np.empty(0, np.int64)]
    for entry in newest.parts:
        if entry.deleted is not None:
            gone.append(deleted_rows(folder, entry) + start)
        start += entry.rows
    return asked[~np.isin(asked, np.concatenate(gone))]


def _planned(folder: str, newest: Manifest, where: str | None, asked: Any) -> Purged:
    more = rows_that_go(folder, where, asked) if where is not None or asked is not None else np.empty(0)
    start, parts, known = 0, 0, bare_deletions(newest)
    for entry in newest.parts:
        first, last = np.searchsorted(more, [start, start + entry.rows])
        parts += bool(first < last) or (entry.deleted is not None and entry.deleted.digest not in known)
        start += entry.rows
    gone = _count(folder, newest, np.asarray(more, np.int64))
    lost = kept_versions(location_of(folder).names(folder))
    lost += [newest.generation] if parts else []
    return Purged(gone, newest.generation + bool(len(more)) + bool(parts), parts, tuple(lost))


def _listings(folder: str, newest: Manifest) -> list[Manifest]:
    """The newest version, and those that are kept."""
    kept = kept_versions(location_of(folder).names(folder))
    return [newest, *(manifest.read(os.path.join(folder, kept_name(number))) for number in kept)]


def _count(folder: str, newest: Manifest, more: Numbers = _NONE) -> int:
    """How many rows have bytes that go, each once, in however many parts; ``more`` are deleted of the newest as well.

    A row is known by its number in the dataset, which it keeps but where rows were sorted. Blank ones, of which an
    earlier call has left no bytes in their part, are not counted there.
    """
    listings = sorted(_listings(folder, newest), key=lambda listing: listing.generation)
    blank: dict[str, Numbers] = {}
    for listing in listings:
        known = bare_deletions(listing)
        for entry in listing.parts:
            if entry.deleted is not None and entry.deleted.digest in known:
                blank[entry.name] = np.union1d(blank.get(entry.name, _NONE), deleted_rows(folder, entry))
    numbered, counted = [_NONE], 0
    current = {entry.name for entry in newest.parts}
    for listing in listings:
        if (
            publication_of(listing, os.path.join(folder, manifest.NAME)).command == "sort"
            and listing is not listings[0]
        ):
            counted += len(np.unique(np.concatenate(numbered)))
            numbered = [_NONE]
        start = 0
        for entry in listing.parts:
            stays = entry.deleted is None or (listing is not newest and entry.name in current)
            gone = _NONE if stays else deleted_rows(folder, entry)
            numbered.append(np.setdiff1d(gone, blank.get(entry.name, _NONE)) + start)
            start += entry.rows
    return counted + len(np.unique(np.concatenate([*numbered, more])))


def _leaving(folder: str, newest: Manifest) -> list[tuple[PartEntry, Numbers]]:
    """The parts that have bytes of deleted rows, by any version that is kept, and these rows."""
    listings = _listings(folder, newest)
    current = {entry.name for entry in newest.parts}
    found: dict[str, tuple[PartEntry, Numbers]] = {}
    for listing in listings:
        bare = bare_deletions(listing)
        for entry in listing.parts:
            is_current = listing is newest or entry.name not in current
            if entry.deleted is None or entry.deleted.digest in bare or not is_current:
                continue
            rows = deleted_rows(folder, entry)
            before = found.get(entry.name)
            found[entry.name] = entry, rows if before is None else np.union1d(before[1], rows)
    return list(found.values())


def _linked(folder: str, names: set[str]) -> list[str]:
    paths = [os.path.join(folder, file) for name in sorted(names) for file in (name, name + ".idx")]
    return [path for path in paths if store.other_names(path)]


def _check_blank(folder: str, newest: Manifest) -> None:
    """Reads what is stored in place of the erased rows: nothing."""
    for entry in newest.parts:
        if entry.deleted is None:
            continue
        parts = PartSet(resolve(os.path.join(folder, entry.name)))
        try:
            rows = deleted_rows(folder, entry)
            for first in range(0, len(rows), 1 << 16):
                found = parts.read(rows[first : first + (1 << 16)], range(len(parts.schema)))
                for column, one in zip(parts.schema, found, strict=True):
                    if not _is_blank(column, one):
                        raise UniRecordError(
                            f"{os.path.join(folder, entry.name)}: deleted rows of it still have values in column "
                            f"{column.name!r}; run the same purge again"
                        )
        finally:
            parts.close()


def _is_blank(column: Column, found: ColumnResult) -> bool:
    if found.valid is not None and not found.valid.any():
        return True
    if found.offsets is not None and (np.diff(found.offsets) <= 1).all():  # an object of nothing has a byte
        return True
    return not found.data.view(np.uint8).any()


def _searched(folder: str, newest: Manifest, traces: Traces) -> tuple[int, int, int]:
    """The files, their bytes, and how many of the traces other rows have; an error names a file that is no part."""
    named = {entry.name + ending for entry in newest.parts for ending in ("", ".idx")}
    files = size = shared = 0
    for file in _files_below(folder):
        found = traces.found_in(file)
        files += 1
        size += location_of(file).size(file)
        if os.path.relpath(file, folder) in named:
            shared += found
        elif found:
            raise UniRecordError(
                f"{file}: bytes of erased rows are in this file, which no version names: of a conversion that was "
                "stopped, or of somebody else; all else is erased: remove it, and run the same purge again"
            )
    return files, size, shared


def _files_below(folder: str) -> list[str]:
    found, waiting = [], [folder]
    while waiting:
        place = waiting.pop()
        for name in location_of(place).names(place):
            path = os.path.join(place, name)
            there = location_of(path).find(path)
            if there is not None and there.kind == "directory" and location_of(path).link(path) is None:
                waiting.append(path)
            elif there is not None and there.kind == "file":
                found.append(path)
    return sorted(found)
