"""The versions of a directory that are kept: when each was published, by what, and how many rows it has."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import MissingError, UniRecordError
from ..snapshot import manifest
from ..snapshot.dataset_path import no_directory
from ..snapshot.manifest import Manifest, bytes_of_part
from ..snapshot.versions import kept_name, kept_versions, publication_of, read_newest
from ..storage.schemes import location_of
from ..storage.storage_options import current_storage, storage_of, use_storage

__all__ = ["Version", "damaged_versions", "versions"]


@dataclass(frozen=True)
class Version:
    """One publication of a directory.

    Attributes:
        number: the version; ``UniRecordDataset(path, version=number)`` opens it.
        when: seconds since 1970, UTC; of a version that a writer made, not changed, the time of its file, in an
            object store that of its last part; None where nothing says.
        command: what published it: "write", "append", "restore", "repair"; "unknown" where its manifest is damaged.
        of: of "restore": the version that was restored; else None.
        rows: rows of the version; None where its manifest is damaged.
        parts: parts of the version; None likewise.
        bytes: of the data files and indexes that it names; None likewise.
        problem: why its manifest cannot be read, if it cannot.
    """

    number: int
    when: float | None
    command: str
    of: int | None
    rows: int | None
    parts: int | None
    bytes: int | None
    problem: str | None = None


def versions(
    path: str | os.PathLike[str], *, storage_options: Mapping[str, Any] | None = None
) -> list[Version]:
    """The versions of the directory at ``path`` that are kept, the newest last.

    Args:
        path: a directory of parts, also in an object store.
        storage_options: how that is reached, as for `UniRecordDataset`.

    Raises:
        MissingError: there is no directory of parts.
        FormatError, CorruptionError: the newest manifest is damaged.
        ValueError: ``storage_options`` are given for a disk, or make no sense.
    """
    folder = os.fspath(path)
    if storage_options and location_of(folder).in_file_system:
        raise ValueError(f"{folder}: storage_options are of object stores, and this is on a disk")
    with use_storage(storage_of(storage_options) or current_storage()):
        return _versions(folder)


def _versions(folder: str) -> list[Version]:
    newest, kept = _kept(folder)
    found = []
    for number in kept:
        name = os.path.join(folder, kept_name(number))
        try:
            listing = manifest.read(name)
            if listing.id == newest.id:
                found.append(_version(listing, name))
        except FileNotFoundError:  # it has been removed at this moment
            continue
        except (OSError, UniRecordError) as error:
            found.append(Version(number, None, "unknown", None, None, None, None, str(error)))
    return [*found, _version(newest, os.path.join(folder, manifest.NAME))]


def damaged_versions(folder: str) -> list[tuple[str, str]]:
    """(file, what is wrong) of each kept manifest that cannot be read; none where the newest cannot be."""
    try:
        damaged = [version for version in versions(folder) if version.problem is not None]
    except (OSError, UniRecordError):
        return []
    return [(os.path.join(folder, kept_name(one.number)), str(one.problem)) for one in damaged]


def _kept(folder: str) -> tuple[Manifest, list[int]]:
    name = os.path.join(folder, manifest.NAME)
    if not location_of(folder).is_directory(folder):
        raise no_directory(folder, ", and only those have versions")
    names = location_of(folder).names(folder)
    try:
        newest = read_newest(folder)
    except FileNotFoundError:
        raise MissingError(
            f"{folder}: there is no {manifest.NAME} in this directory, so it is not a dataset"
        ) from None
    first = publication_of(newest, name).first
    return newest, [number for number in kept_versions(names) if first <= number < newest.generation]


def _written(listing: Manifest, name: str) -> float | None:
    """When the files of a version were written that does not say when it was published."""
    location = location_of(name)
    if location.in_file_system:
        there = location.find(name)
        return None if there is None else there.version[2] / 1e9
    # A store's manifest is put anew beside that of a later version; the parts stay.
    last = os.path.join(os.path.dirname(name), listing.parts[-1].name) if len(listing.parts) else name
    there = location.find(last)
    return None if there is None else there.changed


def _version(listing: Manifest, name: str) -> Version:
    said = publication_of(listing, name)
    when: float | None = said.when
    if when is None:
        when = _written(listing, name)
    size = sum(map(bytes_of_part, listing.parts))
    rows = listing.rows - listing.deleted
    return Version(listing.generation, when, said.command, said.of, rows, len(listing.parts), size)
