"""Removes versions that are not to be kept any longer, with the parts that no other version names."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from ..errors import MissingError, UniRecordError
from ..parts import manifest
from ..parts.deletions import NAME as DELETION
from ..parts.manifest import PART_NAME, Manifest
from ..parts.versions import files_of, kept_name, kept_versions, publication_of, read_newest
from ..storage import local as store
from ..storage.lease import is_leased, unless_leased
from ..storage.registry import location_of
from .conversion_journal import Journal
from .republishing import held

__all__ = ["Collected", "gc"]


@dataclass(frozen=True)
class Collected:
    """What `unirecord.gc` has removed, or would.

    Attributes:
        removed: versions whose manifests are gone, ascending.
        in_use: versions that would have been removed, and that somebody on this machine reads, ascending.
        unknown: versions likewise of which no lock could tell, since the file system has none, ascending.
        kept: all other versions, the newest last.
        parts: parts, and files of deleted rows, that are gone: those that only removed versions named.
        bytes: of these parts' data files and indexes.
    """

    removed: tuple[int, ...]
    in_use: tuple[int, ...]
    unknown: tuple[int, ...]
    kept: tuple[int, ...]
    parts: int
    bytes: int


def gc(
    path: str | os.PathLike[str],
    *,
    keep: int = 10,
    older_than: float | timedelta = 0,
    dry_run: bool = False,
) -> Collected:
    """Removes versions of the directory at ``path``, and the parts that no other version names.

    A version that a process on this machine has open stays, with its parts. On network file systems whose locks reach
    other machines, as NFS's do, so does one that is open there.

    Args:
        path: a directory of parts on a disk.
        keep: how many versions stay in any case, the newest among them.
        older_than: a version that was published since so many seconds, or a timedelta, stays as well.
        dry_run: change nothing, and say what would be done.

    Raises:
        MissingError: there is no directory of parts.
        FormatError, CorruptionError: the manifest of a version is damaged: it may name any part.
        BusyError: a live writer is at work there.
        UniRecordError: the directory is in an object store, where nobody can see who reads.
        ValueError: ``keep`` is less than 1, or ``older_than`` than 0.
    """
    folder = os.fspath(path)
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else float(older_than)
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise ValueError(f"keep is {keep!r}; expected a number from 1: the newest version always stays")
    if not seconds >= 0:
        raise ValueError(f"older_than is {older_than!r}; expected seconds from 0")
    if not location_of(folder).in_file_system:
        raise UniRecordError(
            f"{folder}: who reads a version in an object store cannot be seen, so none is removed there by this; copy "
            "what is to stay with `unirecord write`, and delete the folder"
        )
    if not location_of(folder).is_directory(folder):
        raise MissingError(f"{folder}: there is no directory of parts here, and only those have versions")
    before = time.time() - seconds
    if dry_run:
        return _collected(folder, read_newest(folder), keep, before, is_dry=True)
    with held(folder) as claim:
        assert claim.before is not None
        return _collected(folder, claim.before, keep, before, is_dry=False)


def _collected(folder: str, newest: Manifest, keep: int, before: float, *, is_dry: bool) -> Collected:
    found = _versions(folder, newest)
    old = [
        n for n in sorted(found)[: max(0, len(found) - (keep - 1))] if _moment(folder, n, found[n]) <= before
    ]
    removed: list[int] = []
    in_use: list[int] = []
    unknown: list[int] = []
    for number in old:
        name = os.path.join(folder, kept_name(number))
        leased = is_leased(name)
        if leased is False and not is_dry:
            leased = {True: False, False: True, None: None}[unless_leased(name)]
        {True: in_use, False: removed, None: unknown}[leased].append(number)
    staying = [listing for number, listing in found.items() if number not in removed]
    parts = _unnamed(folder, [newest, *staying])
    size = sum(
        _size(os.path.join(folder, part)) + _size(os.path.join(folder, part + ".idx")) for part in parts
    )
    if not is_dry:
        if removed:
            store.sync_folder(folder)
        for part in parts:
            store.clear(os.path.join(folder, part))
            store.clear(os.path.join(folder, part + ".idx"))
    kept = [number for number in found if number not in old]
    return Collected(
        tuple(removed), tuple(in_use), tuple(unknown), (*kept, newest.generation), len(parts), size
    )


def _versions(folder: str, newest: Manifest) -> dict[int, Manifest]:
    """The versions before the newest that are kept, ascending."""
    first = publication_of(newest, os.path.join(folder, manifest.NAME)).first
    found = {}
    for number in kept_versions(location_of(folder).names(folder)):
        if first <= number < newest.generation:
            listing = manifest.read(os.path.join(folder, kept_name(number)))
            if listing.id == newest.id:
                found[number] = listing
    return found


def _moment(folder: str, number: int, listing: Manifest) -> float:
    name = os.path.join(folder, kept_name(number))
    when = publication_of(listing, name).when
    if when is not None:
        return when
    there = location_of(name).find(name)
    return time.time() if there is None else there.version[2] / 1e9


def _unnamed(folder: str, listings: Sequence[Manifest]) -> list[str]:
    """The parts that are of none of these versions, nor of a conversion that may go on."""
    journal = Journal(folder)
    named = {name for listing in listings for name in files_of(listing)} | set(journal.parts())
    own = journal.owner()
    names = {name.removesuffix(".idx") for name in location_of(folder).names(folder)}
    return sorted(
        name
        for name in names
        if (PART_NAME.fullmatch(name) or DELETION.fullmatch(name)) and name not in named and not own(name)
    )


def _size(path: str) -> int:
    found = location_of(path).find(path)
    return 0 if found is None else found.size
