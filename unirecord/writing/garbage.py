"""Removes versions no longer to be kept, with the parts that no other version names, on a disk or in a store."""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any, Final

from ..errors import BusyError, MissingError
from ..snapshot import manifest
from ..snapshot.dataset_path import no_directory
from ..snapshot.deletions import NAME as DELETION
from ..snapshot.manifest import PART_NAME, PIECE_NAME, Manifest
from ..snapshot.versions import (
    files_of,
    given_up,
    giving_up,
    kept_name,
    kept_versions,
    publication_of,
    read_newest,
)
from ..storage import local as store
from ..storage.claim import is_leased, unless_leased
from ..storage.object_store import Listed, ObjectWrites, Outrun, Versioned
from ..storage.schemes import location_of, path_of_dataset
from ..storage.storage_options import current_storage, use_storage
from .directory_change import hold
from .directory_claim import clear_old_appends
from .journal import JOURNAL_FILE, OWN_PARTS, Journal
from .object_journal import Plans, StoredPlan, is_of
from .target import storage_to_write_to

__all__ = [
    "Collected",
    "collect_objects",
    "gc",
]


# What collecting versions has removed, on a disk or in an object store.


@dataclass(frozen=True)
class Collected:
    """What `unirecord.gc` has removed, or would.

    Attributes:
        removed: versions whose manifests are gone, ascending.
        in_use: versions that would have been removed, and that somebody on this machine reads, ascending.
        unknown: versions likewise of which no lock could tell, since the file system has none, ascending.
        kept: all other versions, the newest last.
        parts: parts, files of deleted rows and lists of parts that are gone: those that only removed versions named,
            those that a writer that was killed has left, and those that a conversion that was stopped had finished to
            append them.
        bytes: of these files, with indexes.
    """

    removed: tuple[int, ...]
    in_use: tuple[int, ...]
    unknown: tuple[int, ...]
    kept: tuple[int, ...]
    parts: int
    bytes: int


# Removes versions from an object store, where nobody holds a lock: what is deleted is said in the manifest before.


_ATTEMPTS: Final = 100


@dataclass(frozen=True)
class _Found:
    """What is to go, by what the manifest said that was there."""

    newest: Manifest
    version: Versioned
    removed: tuple[int, ...]
    kept: tuple[int, ...]
    parts: tuple[str, ...]
    objects: tuple[str, ...]  # of these parts, by their names
    bytes: int
    given_up: set[str]  # by another one, and still there
    ended: tuple[StoredPlan, ...]  # rewrites that were stopped, and are not gone on with any more

    def said(self) -> Collected:
        """The same as it is told."""
        return Collected(self.removed, (), (), self.kept, len(self.parts), self.bytes)


def collect_objects(folder: str, keep: int, before: float, *, is_dry: bool) -> Collected:
    """Removes versions that were not the newest since ``before``, and the parts that no other version names.

    What is deleted is named in the newest manifest first, by a conditional put. Whoever publishes does so on the
    condition of the manifest that it has read: of one without these names, and then it is told, and looks again; or of
    this one, and then it does not name them. So nothing is deleted that is published, or will be.
    """
    writes = ObjectWrites(current_storage())
    url = posixpath.join(folder, manifest.NAME)
    for _ in range(_ATTEMPTS):
        found = _found(folder, url, writes, keep, before)
        if is_dry:
            return found.said()
        try:
            for plan in found.ended:
                if not plan.is_given_up:
                    plan.put("given up", writes)
            fence = _said(found, found.version, found.given_up | set(found.parts), url, writes)
        except Outrun:  # somebody has published meanwhile, or goes on with one
            continue
        _delete(folder, [kept_name(number) for number in found.removed], writes)  # before what they name
        _delete(folder, found.objects, writes)
        for plan in found.ended:
            plan.journal(writes).clear()
        with suppress(Outrun, OSError):  # else the next one does it
            _said(found, fence, found.given_up, url, writes)
        return found.said()
    raise BusyError(
        f"{folder}: others have published here {_ATTEMPTS} times while this looked; try again later"
    )


def _said(found: _Found, version: Versioned, files: set[str], url: str, writes: ObjectWrites) -> Versioned:
    """The manifest, put in the place of ``version``, says that these files are given up."""
    if not found.parts:
        return version
    return writes.put_if(url, manifest.encode(giving_up(found.newest, files)), version)


def _delete(folder: str, names: Sequence[str], writes: ObjectWrites) -> None:
    left = writes.delete([posixpath.join(folder, name) for name in names])
    if left:
        raise OSError(f"{left[0]}: the store did not say that this was deleted; run it again once it answers")


def _found(folder: str, url: str, writes: ObjectWrites, keep: int, before: float) -> _Found:
    version = writes.read_versioned(url)
    if version is None:
        raise MissingError(f"{folder}: there is no {manifest.NAME} here, so it is not a dataset")
    newest = manifest.decode(version.content, url)
    there = writes.listed(folder)
    versions = _object_versions(folder, url, writes, newest, there)
    ended = _ended(folder, {**versions, newest.generation: newest}, there)
    old = [n for n in sorted(versions)[: max(0, len(versions) - (keep - 1))] if ended[n] <= before]
    staying = [newest, *(listing for number, listing in versions.items() if number not in old)]
    named = {name for listing in staying for name in files_of(listing)}
    every = Plans(folder, there, writes).there
    stopped = [plan for plan in every if _is_ended(plan, there, before)]
    plans = [plan for plan in every if plan not in stopped]
    objects: dict[str, list[str]] = {}
    for name in there:
        part = name.removesuffix(".idx")
        if (
            part not in named
            and _may_go(part, newest)
            and not any(is_of(plan, part) for plan in plans if not plan.is_given_up)
        ):
            objects.setdefault(part, []).append(name)
    gone = {
        part: names for part, names in objects.items() if all(there[name].when <= before for name in names)
    }
    going = tuple(sorted(name for names in gone.values() for name in names))
    return _Found(
        newest,
        version,
        tuple(old),
        (*(number for number in versions if number not in old), newest.generation),
        tuple(sorted(gone)),
        going,
        sum(there[name].bytes for name in going),
        given_up(newest) & there.keys() - gone.keys(),
        tuple(stopped),
    )


def _is_ended(plan: StoredPlan, there: Mapping[str, Listed], before: float) -> bool:
    """Whether it is of a rewrite of which nothing has been put since: what it has finished can be made again."""
    tag = posixpath.basename(plan.url).removeprefix(".conversion").removesuffix(".json")
    own = [
        one.when
        for name, one in there.items()
        if is_of(plan, name) or (JOURNAL_FILE.fullmatch(name) and tag in name)
    ]
    return plan.content["what"].get("the source") == OWN_PARTS and max(own, default=before) <= before


def _may_go(name: str, newest: Manifest) -> bool:
    """Whether it is a file of the dataset; not one of deleted rows whose name may be given again."""
    if PART_NAME.fullmatch(name) or PIECE_NAME.fullmatch(name):
        return True
    return bool(DELETION.fullmatch(name)) and int(name.rpartition("-")[2]) <= newest.generation


def _object_versions(
    folder: str, url: str, writes: ObjectWrites, newest: Manifest, there: Mapping[str, Listed]
) -> dict[int, Manifest]:
    """The versions before the newest that are kept, ascending; errors where a manifest cannot be read."""
    first = publication_of(newest, url).first
    numbers = [number for number in kept_versions(there) if first <= number < newest.generation]
    urls = [posixpath.join(folder, kept_name(number)) for number in numbers]
    found = {}
    for number, name, one in zip(numbers, urls, writes.read_each(urls), strict=True):
        listing = None if one is None else manifest.decode(one.content, name)
        if listing is not None and listing.id == newest.id:
            found[number] = listing
    return found


def _ended(folder: str, versions: Mapping[int, Manifest], there: Mapping[str, Listed]) -> dict[int, float]:
    """When each version but the last was followed by another one: until then a reader may have opened it as the newest.

    By what the next one says, and by when its own manifest was put aside, whichever is later.
    """
    ended = {}
    for number, following in pairwise(versions):
        name = manifest.NAME if following == max(versions) else kept_name(following)
        said = publication_of(versions[following], posixpath.join(folder, name)).when
        aside = there[kept_name(number)].when
        ended[number] = aside if said is None else max(aside, said)
    return ended


# Removes versions that are not to be kept any longer, with the parts that no other version names.


_PATIENCE_SECONDS: Final = (
    60.0  # to wait for who holds the directory, which is a moment but for who replaces it
)
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
            none; and so does what a stopped job (a conversion that appends, `add_columns`, `compact`, …) has written
            since then, by default for 7 days. In an object store it must be given: a version that was the newest since
            then stays, and so do files that no version names and that were put since then.
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
        # with the event loop of requests, which few need

        return collect_objects(folder, keep, before, is_dry=dry_run)


def _on_disk(folder: str, keep: int, before: float, stopped_before: float, *, is_dry: bool) -> Collected:
    if is_dry:
        found = _collected(folder, read_newest(folder), keep, before, is_dry=True)
    else:
        claim = hold(folder, _PATIENCE_SECONDS)
        try:
            claim.keep()
            assert claim.before is not None
            found = _collected(folder, claim.before, keep, before, is_dry=False)
        finally:
            claim.suspend()
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
        if name not in named
        and any(kind.fullmatch(name) for kind in (PART_NAME, DELETION, PIECE_NAME))
        and not own(name)
    )


def _size(path: str) -> int:
    found = location_of(path).find(path)
    return 0 if found is None else found.size
