"""Lays the rows of a directory out anew, in fewer parts or more: one publication, the same rows in their order."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..core import xxh3_64
from ..errors import UniRecordError
from ..parts import manifest
from ..parts.dataset_path import deletion_of
from ..parts.deletions import deletion_name, encode_deletion, rows_deleted
from ..parts.manifest import DeletedRows, Manifest, PartEntry
from ..parts.versions import no_directory, published_as
from ..progress import Progress, Tracker
from ..sizes import many, parse_size
from ..storage import local as store
from ..storage.registry import location_of
from ..storage.staged import write_staged
from .batch_writer import PART_BYTES
from .relaying import NewPart, Relaying, cut_evenly, joined_small
from .republishing import held, with_same_blocks

__all__ = ["Relaid", "bare_deletions", "compact", "deleted_rows", "relay", "reshard", "without_bare"]

_BARE: Final = "rows_dropped"  # in the manifest's ``optional``

Layout = Callable[[Sequence[PartEntry]], "list[NewPart]"]


@dataclass(frozen=True)
class Relaid:
    """What `unirecord.compact`, `unirecord.reshard` or `unirecord.sort` has done, or would do.

    Attributes:
        version: the version with the new parts; the one that was there where nothing was to be done.
        parts_before, parts_after: how many parts there were, and are.
        written: how many of them are new; the others stay as they are.
        rows, bytes: of the data files that were copied from.
    """

    version: int
    parts_before: int
    parts_after: int
    written: int
    rows: int
    bytes: int


def compact(
    path: str | os.PathLike[str],
    *,
    part_bytes: int | str | None = None,
    rows_per_part: int | None = None,
    drop_deleted: bool = False,
    join_columns: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Relaid:
    """Puts small parts of the directory at ``path`` together, as the next version (docs/growing.md).

    Rows keep their numbers and their order, so that jobs go on where they stand. Each row is checked against its digest
    on the way. What was there stays, for the versions before, until `unirecord.gc`.

    Args:
        path: a directory of parts on a disk.
        part_bytes: neighbours are put together up to this size: a number, or text like ``"2GiB"``; 20 GB by default.
        rows_per_part: in place of it: parts of so many rows each, the last one of what is left.
        drop_deleted: leave out the bytes of rows that have been deleted: blank rows keep their numbers, deleted. Parts
            that have such rows are written anew whatever their size, their cells without compression dictionaries.
        join_columns: parts whose columns lie in column parts, or have other names than in their files, are written anew
            whatever their size, with all columns in one file; without it those that are written anyway are.
        dry_run: change nothing, and say what would be done.
        progress: called with (bytes done, bytes in all).

    Raises:
        CorruptionError: a part is damaged: the error names it and the row, and nothing is published.
        MissingError: there is no directory of parts.
        BusyError: a live writer is at work there.
        UniRecordError: the directory is in an object store.
        ValueError: a wrong argument.
    """
    if part_bytes is not None and rows_per_part is not None:
        raise ValueError("give part_bytes or rows_per_part, not both")
    if rows_per_part is not None:
        step = _count("rows_per_part", rows_per_part)
        return relay(
            path,
            lambda parts: cut_evenly(parts, _every(parts, step)),
            "compact",
            dry_run,
            progress,
            drop_deleted,
            join_columns=join_columns,
        )
    size = PART_BYTES if part_bytes is None else parse_size(part_bytes)
    if size < 1:
        raise ValueError(f"part_bytes is at least 1, got {part_bytes!r}")
    return relay(
        path,
        lambda parts: joined_small(parts, size),
        "compact",
        dry_run,
        progress,
        drop_deleted,
        join_columns=join_columns,
    )


def reshard(
    path: str | os.PathLike[str],
    parts: int,
    *,
    drop_deleted: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Relaid:
    """Lays the rows of the directory at ``path`` out in so many parts, of equal numbers of rows to within one.

    All else is as for `compact`.

    Args:
        path: as for `compact`.
        parts: how many; no more than there are rows.
        drop_deleted, dry_run, progress: as for `compact`.
    """
    wanted = _count("parts", parts)

    def layout(entries: Sequence[PartEntry]) -> list[NewPart]:
        rows = sum(entry.rows for entry in entries)
        if wanted > max(rows, 1):
            raise ValueError(f"{many(wanted, 'part')} of {many(rows, 'row')}: a part has one row at least")
        return cut_evenly(entries, [rows * (i + 1) // wanted for i in range(wanted)])

    return relay(path, layout, "reshard", dry_run, progress, drop_deleted)


def _count(name: str, value: object) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{name} is {value!r}; expected a number from 1")
    return value


def _every(parts: Sequence[PartEntry], step: int) -> list[int]:
    rows = sum(entry.rows for entry in parts)
    return [min(first + step, rows) for first in range(0, rows, step)]


def relay(
    path: str | os.PathLike[str],
    layout: Layout,
    command: str,
    dry_run: bool,
    progress: Progress | None,
    drop: bool = False,
    without_dictionaries: Collection[str] = (),
    join_columns: bool = False,
) -> Relaid:
    """Publishes the rows of the directory at ``path`` in the parts that ``layout`` makes of those that are there.

    With ``drop``, the bytes of deleted rows stay behind, and so do the dictionaries of the parts that are named; with
    ``join_columns``, all parts with a layout are written anew.
    """
    folder = os.fspath(path)
    if not location_of(folder).in_file_system:
        raise UniRecordError(f"{folder}: parts are laid out anew on a disk only, not in an object store")
    if not location_of(folder).is_directory(folder):
        raise no_directory(folder, ", and only of those can parts be put together")
    with held(folder) as claim:
        before = claim.before
        assert before is not None
        plan = layout(before.parts)
        bare = bare_deletions(before)
        layered = [entry.name for entry in before.parts if entry.columns is not None and join_columns]
        staying = [_stays(new, bare, drop, [*without_dictionaries, *layered]) for new in plan]
        moving = [new for new, entry in zip(plan, staying, strict=True) if entry is None]
        spans = [span for new in moving for span in new.spans]
        rows = sum(new.rows for new in moving)
        size = sum(span.entry.bytes * (span.stop - span.first) // span.entry.rows for span in spans)
        parts = len(before.parts)
        if not moving:
            return Relaid(before.generation, parts, parts, 0, 0, 0)
        counts = (parts, len(plan), len(moving), rows, size)
        if dry_run:
            return Relaid(before.generation + 1, *counts)
        dropped = (lambda entry: deleted_rows(folder, entry)) if drop else (lambda _: np.empty(0, np.int64))
        work = Relaying(
            folder, before, secrets.token_bytes(16), Tracker(size, progress).advance, dropped,
            without_dictionaries,
        )  # fmt: skip
        made: list[str] = []
        try:
            entries = [
                entry or _with_deleted(folder, before, new, work.write(new), made)
                for new, entry in zip(plan, staying, strict=True)
            ]
            after = replace(before, parts=tuple(entries), next_part=before.next_part + len(moving))
            after = published_as(after, before, command, folder)
            after = with_same_blocks(after, before, folder)
            after = _marked(
                after, [entry for entry, new in zip(entries, plan, strict=True) if _is_bare(new, bare, drop)]
            )
            claim.publish(lambda _: manifest.encode(after))
        finally:
            work.close()
            if not claim.published:
                claim.clear(work.named)
                for name in made:
                    store.clear(os.path.join(folder, name))
    return Relaid(after.generation, *counts)


def deleted_rows(folder: str, entry: PartEntry) -> NDArray[np.int64]:
    return rows_deleted(deletion_of(folder, entry), entry.id, entry.rows)


def bare_deletions(found: Manifest) -> set[str]:
    """The digests of the deletion files whose rows have left no bytes in their part."""
    said = found.optional.get(_BARE)
    return {digest for digest in said if type(digest) is str} if type(said) is list else set()


def _is_bare(new: NewPart, bare: set[str], drop: bool) -> bool:
    return drop or all(span.entry.deleted is None or span.entry.deleted.digest in bare for span in new.spans)


def _stays(new: NewPart, bare: set[str], drop: bool, never: Collection[str] = ()) -> PartEntry | None:
    """The part that it is already, and may stay."""
    if new.kept is not None and new.kept.name in never:
        return None
    return new.kept if not drop or _is_bare(new, bare, False) else None


def _marked(after: Manifest, bare: Sequence[PartEntry]) -> Manifest:
    digests = [entry.deleted.digest for entry in bare if entry.deleted is not None]
    others = {key: value for key, value in after.optional.items() if key != _BARE}
    return replace(after, optional={**others, _BARE: digests} if digests else others)


def without_bare(after: Manifest) -> Manifest:
    """The manifest of a dataset of which no row has been deleted."""
    return _marked(after, [])


def _with_deleted(
    folder: str, before: Manifest, new: NewPart, entry: PartEntry, made: list[str]
) -> PartEntry:
    """The new part, of which the same rows have been deleted."""
    found, start = [], 0
    for span in new.spans:
        old = span.entry
        rows = deleted_rows(folder, old)
        found.append(rows[(rows >= span.first) & (rows < span.stop)] - span.first + start)
        start += span.stop - span.first
    gone = np.concatenate(found)
    if not len(gone):
        return entry
    content = encode_deletion(entry.id, entry.rows, gone)
    name = deletion_name(entry.name, before.generation + 1)
    made.append(name)
    write_staged(os.path.join(folder, name), os.path.join(folder, manifest.NAME), content)
    return entry._replace(deleted=DeletedRows(name, len(gone), len(content), f"{xxh3_64(content):016x}"))
