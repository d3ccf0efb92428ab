"""Several datasets as one: their parts under one manifest, by link where the file system can, so that nothing moves."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from ..errors import ExistsError, SchemaError, UniRecordError
from ..format.metadata import pack_user, say_the_same
from ..format.schema import Schema
from ..parts import manifest
from ..parts.layouts import ColumnFile, Layout, PartColumns
from ..parts.manifest import DeletedRows, Manifest, PartEntry
from ..parts.part_set import PartRef, PartSet, Snapshot, resolve
from ..parts.rearranging import pruned
from ..parts.snapshot import join_snapshots
from ..parts.versions import begun_by
from ..progress import Progress, Tracker
from ..sizes import many
from ..storage import local as store
from ..storage.registry import location_of
from ..storage.staged import give_again
from .arguments import check_path
from .publisher import open_publisher

__all__ = ["Merged", "merge"]

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class Merged:
    """What `unirecord.merge` has made, or would.

    Attributes:
        rows: of the dataset, those that have been deleted too.
        parts: how many it has.
        linked: how many of them are links, which take no room; the others were copied.
        bytes: of their data files and indexes.
    """

    rows: int
    parts: int
    linked: int
    bytes: int


def merge(
    paths: Sequence[Path],
    dst: Path,
    *,
    link: bool = True,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Merged:
    """Makes one dataset at ``dst`` of several, whose rows follow each other in the order of ``paths``.

    Parts stay as they are, byte for byte, and what is damaged in them stays found out. They are linked where the file
    system can, so that nothing is copied, and later changes of either dataset do not touch the other. Rows are numbered
    anew: those of the first as they were, then those of the second. Rows that have been deleted stay so.

    Args:
        paths: directories of parts and single parts on a disk; ``data@7`` is a version.
        dst: where the new directory is to be.
        link: False: copy all files.
        dry_run: change nothing, and say what would be done.
        progress: called with (bytes done, bytes in all).

    Raises:
        SchemaError: schemas, annotations, index columns or metadata differ; the error names the first difference.
        ExistsError: there is something at ``dst``, or the same part is in two of the datasets.
        MissingError, FormatError, CorruptionError: of what is at ``paths``.
        BusyError: a live writer is at work at ``dst``.
        UniRecordError: something is in an object store.
        ValueError: ``paths`` is empty.
    """
    given = [os.fspath(path) for path in paths]
    if isinstance(paths, (str, bytes)) or not given:
        raise ValueError("paths is a list of one dataset or more")
    folder = check_path(dst)
    for path in (*given, folder):
        if not location_of(path).in_file_system:
            raise UniRecordError(f"{path}: datasets are merged on a disk only, not in an object store")
    if folder.endswith(".urec"):
        raise ValueError(f"{folder}: what is merged is a directory of parts; choose a name without .urec")
    location = location_of(folder)
    if location.is_directory(folder) and manifest.NAME in location.names(folder):
        raise ExistsError(
            f"{folder}: a dataset is there already; merge replaces nothing: choose another name"
        )
    with ExitStack() as stack:
        found: list[tuple[str, Snapshot]] = []
        refs: list[PartRef] = []
        layouts: list[Layout] = []
        for path in given:  # open, so that `gc` leaves them
            parts = PartSet(resolve(path), knows_deletions=True)
            stack.callback(parts.close)
            found.append((path, parts.snapshot))
            refs += [_known(parts, number, len(layouts)) for number in range(len(parts))]
            layouts += parts.snapshot.layouts
        _check_alike(found)
        _check_different(refs)
        size = sum(file.bytes + file.index_bytes for ref in refs for file in (ref, *ref.files))
        counts = sum(ref.rows for ref in refs), max(len(refs), 1)
        if dry_run:
            return Merged(*counts, len(refs) if link else 0, size)
        linked = _publish(folder, found[0][1], refs, layouts, link, Tracker(size, progress).advance)
        return Merged(*counts, linked, size)


def _known(parts: PartSet, number: int, layouts: int) -> PartRef:
    """A part with its content digest, which only a manifest names, and its layout behind so many others."""
    ref = parts.snapshot.parts[number]
    ref = replace(ref, layout=ref.layout + layouts) if ref.layout else ref
    return ref if ref.content else replace(ref, content=parts.part(number).info.content_digest)


def _check_alike(found: Sequence[tuple[str, Snapshot]]) -> None:
    first_path, first = found[0]
    for path, other in found[1:]:
        why = _difference(first, other)
        if why is not None:
            raise SchemaError(
                f"{path} and {first_path}: {why}; all parts of a dataset have the same: write one of them anew with "
                f"what the other has (unirecord write){_or_opened(first, other)}"
            )


def _or_opened(first: Snapshot, other: Snapshot) -> str:
    """The other way where there is one: what may differ in datasets that are opened together."""
    try:
        join_snapshots([first, other])
    except SchemaError:
        return ""
    return ", or open both as a list of paths"


def _difference(first: Snapshot, other: Snapshot) -> str | None:
    for one, two in zip(first.schema, other.schema, strict=False):
        if one != two:
            return f"one has the column {two.name!r} ({two}), the other {one.name!r} ({one})"
        if one.packed_annotations != two.packed_annotations:
            return f"the annotations of column {one.name!r} are {two.annotations} and {one.annotations}"
    if len(first.schema) != len(other.schema):
        return f"one has {many(len(other.schema), 'column')}, the other {len(first.schema)}"
    if first.index != other.index:
        return f"one has the index columns {list(other.index)}, the other {list(first.index)}"
    if not say_the_same(first.metadata, other.metadata):
        return "their metadata differ"
    return None


def _check_different(refs: Sequence[PartRef]) -> None:
    seen: dict[bytes, str] = {}
    for ref in refs:
        assert ref.id is not None
        if ref.id in seen:
            raise ExistsError(
                f"{ref.path} and {seen[ref.id]} are the same part, which a dataset has once: leave one of the two out"
            )
        seen[ref.id] = ref.path


def _publish(
    folder: str,
    first: Snapshot,
    refs: Sequence[PartRef],
    layouts: Sequence[Layout],
    link: bool,
    advance: Callable[[int], None],
) -> int:
    new_id = secrets.token_bytes(16)
    claim = open_publisher(folder, new_id, overwrite=False, append=False, unfinished="refuse")
    names: list[str] = []
    try:
        claim.keep()
        entries, linked, next_part = [], 0, len(refs)
        for number, ref in enumerate(refs):
            named = [(ref, _name_of(ref, number))]
            for file in ref.files:
                named.append((file, _name_of(file, next_part)))
                next_part += 1
            names += [name for _, name in named]
            by_link = [
                give_again(old, os.path.join(claim.folder, new), link=link)
                for file, name in named
                for old, new in _files(file, name)
            ]
            linked += all(by_link)
            entries.append(_entry(named, first.schema, layouts))
            advance(sum(file.bytes + file.index_bytes for file, _ in named))
        store.sync_folder(claim.folder)
        user = None if first.metadata is None else pack_user(first.metadata)
        listing = Manifest(
            new_id, claim.last_kept + 1, next_part, first.schema, first.index, user, tuple(entries),
            layouts=tuple(layouts),
        )  # fmt: skip
        claim.publish(lambda _: manifest.encode(pruned(begun_by(listing, "merge"))))
    except BaseException:
        claim.abort([*names, *map(_deletion_name, names)])
        raise
    claim.release()
    return linked


def _files(ref: PartRef, name: str) -> Iterator[tuple[str, str]]:
    """The files of a part, and what they are called in the new directory."""
    index = ref.path + ".idx"
    yield ref.path, name
    yield (index if location_of(index).is_taken(index) else index + ".new"), name + ".idx"
    if ref.deletion is not None:
        yield ref.deletion.path, _deletion_name(name)


def _deletion_name(name: str) -> str:
    return f"{name}.del-000001"


def _name_of(ref: PartRef, number: int) -> str:
    assert ref.id is not None
    return manifest.part_name(number, ref.id)


def _entry(named: Sequence[tuple[PartRef, str]], schema: Schema, layouts: Sequence[Layout]) -> PartEntry:
    """A part with its column parts, by the names that they have now."""
    [(ref, name), *more] = named
    assert ref.id is not None
    columns = None
    if ref.layout:
        schema = layouts[ref.layout - 1].files[0]
        files = [
            ColumnFile(new, file.id or b"", file.bytes, file.index_bytes, f"{file.content:016x}")
            for file, new in more
        ]
        columns = PartColumns(ref.layout - 1, tuple(files))
    gone = ref.deletion
    deleted = None if gone is None else DeletedRows(_deletion_name(name), gone.rows, gone.bytes, gone.digest)
    return PartEntry(
        name, ref.id, ref.rows, ref.bytes, ref.index_bytes, manifest.schema_digest(schema), f"{ref.content:016x}",
        deleted, columns,
    )  # fmt: skip
