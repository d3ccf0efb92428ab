"""The manifests of earlier versions in a directory on a disk: kept before a newer one is published, and removed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from ..errors import UniRecordError
from ..snapshot import manifest
from ..snapshot.deletions import NAME as DELETION
from ..snapshot.manifest import Manifest
from ..snapshot.versions import files_of, kept_name, kept_versions, publication_of
from ..storage import local as store
from ..storage.claim import unless_leased
from ..storage.registry import location_of, read_file
from ..storage.staged import write_staged

__all__ = ["KEPT", "check_only_grew", "clear_stale", "keep_version", "named_by_versions", "prune"]

KEPT: Final = 32  # versions before the newest that a publication keeps


def keep_version(folder: str, number: int) -> None:
    """Has the manifest in its place, of version ``number``, stay under a name of its own when the next one comes.

    It is durable when this returns. Where the file system has no hard links, it is a copy.
    """
    newest, kept = os.path.join(folder, manifest.NAME), os.path.join(folder, kept_name(number))
    if not store.give_second_name(newest, kept):
        _copy(newest, kept)
    store.sync_folder(folder)


def _copy(newest: str, kept: str) -> None:
    write_staged(kept, newest, read_file(newest, manifest.MAX_BYTES))


def clear_stale(folder: str, names: Iterable[str], newest: Manifest) -> None:
    """Removes manifests that are of no version of this dataset: of what was overwritten, or published again since."""
    first = publication_of(newest, os.path.join(folder, manifest.NAME)).first
    for number in kept_versions(names):
        if not first <= number <= newest.generation:
            store.clear(os.path.join(folder, kept_name(number)))


def named_by_versions(folder: str, newest: Manifest) -> set[str] | None:
    """The parts that the kept versions of a dataset name; None when one cannot be read, and may name any."""
    named: set[str] = set()
    for number in kept_versions(location_of(folder).names(folder)):
        try:
            found = manifest.read(os.path.join(folder, kept_name(number)))
        except FileNotFoundError:
            continue
        except (OSError, UniRecordError):
            return None
        if found.id == newest.id:
            named |= files_of(found)
    return named


def check_only_grew(folder: str) -> None:
    """UniRecordError where the newest manifest is lost, and the parts that are there cannot all be the dataset's.

    They may be, where each version that is kept names all parts of the one before, in the same order.
    """
    before: tuple[str, ...] = ()
    names = location_of(folder).names(folder)
    rows_have_gone = any(DELETION.fullmatch(name) for name in names)
    if rows_have_gone and not kept_versions(names):
        raise UniRecordError(
            f"{folder}: rows have been deleted, and the manifest that says which is lost, and all versions; open the "
            "parts by name to have all of their rows"
        )
    for number in kept_versions(names):
        name = os.path.join(folder, kept_name(number))
        found = manifest.read(name)
        parts = tuple(part.name for part in found.parts)
        if found.layouts:
            raise UniRecordError(
                f"{folder}: columns were added, dropped or renamed before the manifest was lost, which does not "
                f"follow from the parts that are there; copy that of the newest version that is kept, as {name}, to "
                f"{manifest.NAME}"
            )
        if rows_have_gone or parts[: len(before)] != before:
            raise UniRecordError(
                f"{folder}: parts or rows have come and gone before the manifest was lost, so it does not follow from "
                f"those that are there; copy the manifest of the newest version that is kept, as {name}, to "
                f"{manifest.NAME}"
            )
        before = parts


def prune(folder: str, text: bytes) -> None:
    """Removes the version that is one too many, once ``text`` is published, where that names all of its parts.

    A version that alone names parts stays, as does one that a reader holds: `unirecord gc` looks after those.
    """
    newest_path = os.path.join(folder, manifest.NAME)
    newest = manifest.decode(text, newest_path)
    path = os.path.join(folder, kept_name(newest.generation - KEPT - 1))
    try:
        if newest.generation > KEPT + 1 and files_of(manifest.read(path)) <= files_of(newest):
            unless_leased(path)
    except (OSError, UniRecordError):
        return
