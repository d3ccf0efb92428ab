"""A dataset that is there, held for a change of what it names: what a stopped conversion has left stays as it is."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..errors import MissingError
from ..snapshot import manifest
from ..snapshot.dataset_path import resolve
from ..snapshot.manifest import Manifest
from ..snapshot.part_set import PartSet
from ..snapshot.versions import (
    BlockFacts,
    block_facts,
    files_of,
    kept_rows,
    path_of_version,
    published_as,
    read_version,
)
from ..storage.registry import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from .arguments import storage_to_write_to
from .directory_claim import DirectoryClaim
from .publisher import Publisher, open_publisher
from .single_writer import check_target_folder

__all__ = ["OvertakenError", "held", "restore", "with_same_blocks"]


class OvertakenError(Exception):
    """Another writer has published since the dataset was looked at; only in an object store can one."""


@contextmanager
def held(path: str) -> Iterator[Publisher]:
    """The directory at ``path``, whose manifest can be read, held by this writer within."""
    on_disk = location_of(path).in_file_system
    claim: Publisher
    if on_disk:
        check_target_folder(path)
        claim = DirectoryClaim(path, append=True, unfinished="resume")
    else:
        claim = open_publisher(
            path, secrets.token_bytes(16), overwrite=False, append=True, unfinished="refuse"
        )
    try:
        claim.keep()
        yield claim
    finally:
        (claim.suspend if on_disk else claim.release)()


def with_same_blocks(after: Manifest, before: Manifest, folder: str) -> Manifest:
    """``after``, which follows ``before`` with the same rows, saying by what blocks are chosen: as before."""
    named = os.path.join(folder, manifest.NAME)
    known = block_facts(before, named)
    if known is None:
        parts = PartSet(resolve(folder), knows_deletions=True)
        try:
            size = round(parts.mean_block_row_bytes * parts.rows)
            known = BlockFacts(parts.group_rows(), parts.rows, size)
        finally:
            parts.close()
    return replace(after, optional=kept_rows(after, before, known, named))


def restore(
    path: str | os.PathLike[str], version: int, *, storage_options: Mapping[str, Any] | None = None
) -> int:
    """Publishes the content of an earlier version of the directory at ``path`` anew; nothing is copied.

    Args:
        path: a directory of parts, also in an object store.
        version: one that is kept, as ``unirecord.versions(path)`` lists them.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Returns:
        The number of the new version.

    Raises:
        MissingError: there is no directory of parts, the version is not kept, or a part of it is missing.
        ValueError: the version is the newest, or ``storage_options`` are given for a disk.
        BusyError: a live writer is at work there.
        StaleError: in an object store, another writer has replaced the dataset meanwhile.
    """
    folder = path_of_dataset(os.fspath(path))
    with use_storage(storage_to_write_to(folder, storage_options)):
        return _restore(folder, version)


def _restore(folder: str, version: int) -> int:
    path_of_version(folder, version)
    published = 0

    def again(before: Manifest | None) -> bytes:
        nonlocal published
        assert before is not None
        after = published_as(listing, before, "restore", folder, of=version)
        published = after.generation
        return manifest.encode(after)

    with held(folder) as claim:
        assert claim.before is not None
        if version == claim.before.generation:
            raise ValueError(f"{folder}: version {version} is the newest; there is nothing to restore")
        listing = read_version(folder, version)
        _check_there(folder, listing, version)
        claim.publish(again)
    return published


def _check_there(folder: str, listing: Manifest, version: int) -> None:
    """Refuses a version of which a file has gone, which only something else than this package removes."""
    there = set(location_of(folder).names(folder))
    for name in sorted(files_of(listing)):
        for file in (name, name + ".idx") if manifest.PART_NAME.fullmatch(name) else (name,):
            if file not in there and file + ".new" not in there:
                raise MissingError(
                    f"{os.path.join(folder, file)}: this file is missing, so that version {version} cannot be restored"
                )
