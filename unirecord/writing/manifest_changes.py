"""Changes of a directory that write a manifest alone: an older version again, columns renamed or dropped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import MissingError, SchemaError
from ..format.schema import Schema
from ..snapshot import manifest
from ..snapshot.dataset_path import no_directory, resolve
from ..snapshot.manifest import Manifest, rearranged
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
from ..storage.schemes import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from .change import changing
from .target import storage_to_write_to

__all__ = [
    "ColumnsChanged",
    "as_columns_change",
    "drop_columns",
    "rename_columns",
    "restore",
    "with_same_blocks",
]


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
    return kept_rows(after, before, known, named)


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
    if not location_of(folder).is_directory(folder):
        raise no_directory(folder, ", and only those have versions")
    published = 0

    def again(before: Manifest | None) -> Manifest:
        nonlocal published
        assert before is not None
        _check_there(folder, listing, version)
        after = published_as(listing, before, "restore", folder, of=version)
        published = after.generation
        return after

    with changing(folder) as change:
        assert change.before is not None
        if version == change.before.generation:
            raise ValueError(f"{folder}: version {version} is the newest; there is nothing to restore")
        listing = read_version(folder, version)
        _check_there(folder, listing, version)
        change.publish(again)
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


# Columns of a directory that are dropped, renamed, or stored beside its parts.


@dataclass(frozen=True)
class ColumnsChanged:
    """What a change of columns has done.

    Attributes:
        version: the version with these columns.
        columns: their names, in order.
    """

    version: int
    columns: tuple[str, ...]


def drop_columns(
    path: str | os.PathLike[str],
    columns: str | Sequence[str],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> ColumnsChanged:
    """Drops columns of the directory at ``path``, from the next version on (docs/growing.md).

    No file is written but the manifest; the bytes stay on disk, for the versions before and in the parts' own files.
    Rows, their numbers and every order stay as they are.

    Args:
        path: a directory of parts, also in an object store.
        columns: the names of one or more columns; one at least must stay.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        SchemaError: there is no such column, or none would stay.
        MissingError: there is no directory of parts.
        BusyError: a live writer is at work there.
        StaleError: in an object store, another writer has replaced the dataset meanwhile.
        UniRecordError: the directory is in storage that is only read.
        ValueError: no column is named, or ``storage_options`` are given for a disk.
    """
    names = [columns] if isinstance(columns, str) else list(columns)
    if not names:
        raise ValueError("columns names no column; expected one or more to drop")

    def without(before: Manifest) -> Manifest:
        gone = {before.schema.ordinal(name) for name in names}
        places = [place for place in range(len(before.schema)) if place not in gone]
        if not places:
            raise SchemaError(f"{path}: no column would stay; a dataset has one at least")
        schema = Schema(before.schema.columns[place] for place in places)
        return rearranged(
            _indexed(before, [name for name in before.index if name not in names]), schema, places
        )

    return _change(path, "drop-columns", without, storage_options)


def rename_columns(
    path: str | os.PathLike[str],
    names: Mapping[str, str],
    *,
    storage_options: Mapping[str, Any] | None = None,
) -> ColumnsChanged:
    """Gives columns of the directory at ``path`` other names, from the next version on (docs/growing.md).

    No file is written but the manifest. Columns keep their places, rows and every order stay as they are. The versions
    before have the names of before.

    Args:
        path: a directory of parts, also in an object store.
        names: old name -> new name; two columns may change names with each other.
        storage_options: how an object store is reached, as for `UniRecordDataset`.

    Raises:
        SchemaError: there is no such column, a new name is no name of a column, or another column has it.
        MissingError: there is no directory of parts.
        BusyError: a live writer is at work there.
        StaleError: in an object store, another writer has replaced the dataset meanwhile.
        UniRecordError: the directory is in storage that is only read.
        ValueError: ``names`` is empty, or ``storage_options`` are given for a disk.
    """
    if not names:
        raise ValueError("names is empty; expected {old name: new name}")

    def renamed(before: Manifest) -> Manifest:
        for name in names:
            before.schema.ordinal(name)
        new = [names.get(name, name) for name in before.schema.names]
        twice = sorted({name for name in new if new.count(name) > 1})
        if twice:
            raise SchemaError(
                f"{path}: two columns would be called {twice[0]!r}; give one of them another name"
            )
        Schema.parse(dict.fromkeys(new, "int8"))  # which refuses what is no name
        columns = zip(before.schema, new, strict=True)
        schema = Schema(replace(column, name=name) for column, name in columns)
        indexed = _indexed(before, [names.get(name, name) for name in before.index])
        return rearranged(indexed, schema, range(len(schema)))

    return _change(path, "rename-columns", renamed, storage_options)


def _indexed(before: Manifest, index: Iterable[str]) -> Manifest:
    return replace(before, index=tuple(index))


def _change(
    path: str | os.PathLike[str],
    command: str,
    change: Callable[[Manifest], Manifest],
    storage_options: Mapping[str, Any] | None,
) -> ColumnsChanged:
    folder = path_of_dataset(os.fspath(path))
    with use_storage(storage_to_write_to(folder, storage_options)):
        if not location_of(folder).is_directory(folder):
            raise no_directory(
                folder,
                ", and only of those can columns change; write a single "
                "part again: unirecord write --columns, --rename",
            )
        after: Manifest | None = None

        def changed(before: Manifest | None) -> Manifest:
            nonlocal after
            assert before is not None
            after = as_columns_change(change(before), before, command, folder)
            return after

        with changing(folder) as claim:
            assert claim.before is not None
            change(claim.before)  # errors before anything is held
            claim.publish(changed)
        assert after is not None
        return ColumnsChanged(after.generation, after.schema.names)


def as_columns_change(changed: Manifest, before: Manifest, command: str, folder: str) -> Manifest:
    """The version after ``before`` with other columns and the same rows: what is in play, and in which order, stays."""
    return with_same_blocks(published_as(changed, before, command, folder), before, folder)
