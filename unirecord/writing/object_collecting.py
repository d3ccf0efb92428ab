"""Removes versions from an object store, where nobody holds a lock: what is deleted is said in the manifest before."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from ..errors import BusyError, MissingError
from ..parts import manifest
from ..parts.deletions import NAME as DELETION
from ..parts.manifest import PART_NAME, Manifest
from ..parts.versions import files_of, given_up, giving_up, kept_name, kept_versions, publication_of
from ..storage.object_writes import Listed, ObjectWrites, Outrun, Versioned
from ..storage.storage_options import current_storage
from .collected import Collected
from .object_plans import Plans, is_of

__all__ = ["collect_objects"]

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
            fence = _said(found, found.version, found.given_up | set(found.parts), url, writes)
        except Outrun:  # somebody has published meanwhile
            continue
        _delete(folder, [kept_name(number) for number in found.removed], writes)  # before what they name
        _delete(folder, found.objects, writes)
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
    versions = _versions(folder, url, writes, newest, there)
    ended = _ended(folder, {**versions, newest.generation: newest}, there)
    old = [n for n in sorted(versions)[: max(0, len(versions) - (keep - 1))] if ended[n] <= before]
    staying = [newest, *(listing for number, listing in versions.items() if number not in old)]
    named = {name for listing in staying for name in files_of(listing)}
    plans = Plans(folder, there, writes).there
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
    )


def _may_go(name: str, newest: Manifest) -> bool:
    """Whether it is a file of the dataset; not one of deleted rows whose name may be given again."""
    if PART_NAME.fullmatch(name):
        return True
    return bool(DELETION.fullmatch(name)) and int(name.rpartition("-")[2]) <= newest.generation


def _versions(
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
