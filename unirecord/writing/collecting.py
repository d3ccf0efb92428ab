"""Removes versions that are not to be kept any longer, with the parts that no other version names."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from ..parts import manifest
from ..parts.deletions import NAME as DELETION
from ..parts.manifest import PART_NAME, Manifest
from ..parts.versions import files_of, kept_name, kept_versions, no_directory, publication_of, read_newest
from ..storage import local as store
from ..storage.lease import is_leased, unless_leased
from ..storage.registry import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from .appending_folders import clear_old_appends
from .arguments import storage_to_write_to
from .collected import Collected
from .conversion_journal import Journal
from .republishing import held

__all__ = ["gc"]

_STOPPED_SECONDS: Final = 7 * 86_400.0  # for which a conversion that was stopped can be gone on with at least


def gc(
    path: str | os.PathLike[str],
    *,
    keep: int = 10,
    older_than: float | timedelta | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Collected:
    """Removes versions of the directory at ``path``, and the parts that no other version names.

    A version that a process on this machine has open stays, with its parts. On network file systems whose locks reach
    other machines, as NFS's do, so does one that is open there. In an object store nobody can see who reads:
    ``older_than`` says for how long readers and writers may live (docs/growing.md).

    Args:
        path: a directory of parts.
        keep: how many versions stay in any case, the newest among them.
        older_than: seconds, or a timedelta. On a disk a version that was published since then stays as well, by default
            none; and so does what a conversion that appends and was stopped has written since then, by default for 7
            days. In an object store it must be given: a version that was the newest since then stays, and so do files
            that no version names and that were put since then.
        dry_run: change nothing, and say what would be done.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        MissingError: there is no directory of parts.
        FormatError, CorruptionError: the manifest of a version is damaged: it may name any part.
        BusyError: a live writer is at work there; in an object store, others publish without a pause.
        OSError: an object store did not answer; what is left is for the next `gc`.
        ValueError: ``keep`` is less than 1, ``older_than`` less than 0, or not given for an object store, or
            ``storage_options`` are given for a disk.
    """
    folder = path_of_dataset(os.fspath(path))
    seconds = older_than.total_seconds() if isinstance(older_than, timedelta) else float(older_than or 0)
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise ValueError(f"keep is {keep!r}; expected a number from 1: the newest version always stays")
    if not seconds >= 0:
        raise ValueError(f"older_than is {older_than!r}; expected seconds from 0")
    before = time.time() - seconds
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(folder, ", and only those have versions")
        if location_of(folder).in_file_system:
            stopped_before = before if older_than is not None else before - _STOPPED_SECONDS
            return _on_disk(folder, keep, before, stopped_before, is_dry=dry_run)
        if older_than is None:
            raise ValueError(
                f"{folder}: who reads a version in an object store cannot be seen: older_than says how long readers "
                "and writers may live, such as timedelta(days=7)"
            )
        from .object_collecting import collect_objects  # with the event loop of requests, which few need

        return collect_objects(folder, keep, before, is_dry=dry_run)


def _on_disk(folder: str, keep: int, before: float, stopped_before: float, *, is_dry: bool) -> Collected:
    if is_dry:
        found = _collected(folder, read_newest(folder), keep, before, is_dry=True)
    else:
        with held(folder) as claim:
            assert claim.before is not None
            found = _collected(folder, claim.before, keep, before, is_dry=False)
    parts, size = clear_old_appends(folder, stopped_before, is_dry=is_dry)
    return replace(found, parts=found.parts + parts, bytes=found.bytes + size)


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
