"""Columns of a directory that are dropped, renamed, or stored beside its parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ..errors import SchemaError
from ..format.schema import Schema
from ..snapshot import manifest
from ..snapshot.manifest import Manifest
from ..snapshot.rearranging import rearranged
from ..snapshot.versions import no_directory, published_as
from ..storage.registry import location_of, path_of_dataset
from ..storage.storage_options import use_storage
from .arguments import storage_to_write_to
from .republishing import OvertakenError, held, with_same_blocks

__all__ = [
    "ColumnsChanged",
    "as_columns_change",
    "drop_columns",
    "rename_columns",
]


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
        while True:
            with suppress(OvertakenError), held(folder) as claim:
                before = claim.before
                assert before is not None
                after = as_columns_change(change(before), before, command, folder)

                def publish(
                    now: Manifest | None, before: Manifest = before, after: Manifest = after
                ) -> bytes:
                    if now is not before:
                        raise OvertakenError
                    return manifest.encode(after)

                claim.publish(publish)
                return ColumnsChanged(after.generation, after.schema.names)


def as_columns_change(changed: Manifest, before: Manifest, command: str, folder: str) -> Manifest:
    """The version after ``before`` with other columns and the same rows: what is in play, and in which order, stays."""
    return with_same_blocks(published_as(changed, before, command, folder), before, folder)
