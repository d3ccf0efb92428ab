"""Has the oldest parts of a directory go until it is small enough, as one publication."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..errors import UniRecordError
from ..parts import manifest
from ..parts.manifest import Manifest, PartEntry
from ..parts.rearranging import bytes_of_part, files_of_part
from ..parts.versions import files_of, kept_name, kept_versions, no_directory, published_as, read_newest
from ..sizes import parse_size
from ..storage.registry import location_of
from .collecting import Collected, gc
from .republishing import held

__all__ = ["Evicted", "evict"]


@dataclass(frozen=True)
class Evicted:
    """What `unirecord.evict` has done, or would do.

    Attributes:
        version: the version without the parts; the one that was there where none had to go.
        parts: how many parts have gone.
        rows: their rows, those that had been deleted too.
        bytes: of their files.
        left: bytes of the files that the version names.
        kept_by: earlier versions that still name such a part, whose bytes stay on disk until `gc` removes these.
        collected: what `gc` has removed then, if it was asked for.
    """

    version: int
    parts: int
    rows: int
    bytes: int
    left: int
    kept_by: tuple[int, ...]
    collected: Collected | None = None


def evict(
    path: str | os.PathLike[str], max_bytes: int | str, *, collect: bool = False, dry_run: bool = False
) -> Evicted:
    """Removes the oldest parts of the directory at ``path`` until the others are within a limit (docs/growing.md).

    The oldest are the first ones, as appending puts them. The numbers of the rows that stay go down by as many as have
    gone. One part always stays.

    Args:
        path: a directory of parts on a disk.
        max_bytes: of data files, indexes and files of deleted rows: a number, or text like ``"200GB"``.
        collect: remove all earlier versions as well (`gc` with ``keep=1``): until then they keep the bytes on disk.
        dry_run: change nothing, and say what would be done.

    Raises:
        MissingError: there is no directory of parts.
        BusyError: a live writer is at work there.
        UniRecordError: the directory is in an object store, or its last part alone is larger than the limit.
        ValueError: ``max_bytes`` is no size.
    """
    folder, limit = os.fspath(path), parse_size(max_bytes)
    if not location_of(folder).in_file_system:
        raise UniRecordError(f"{folder}: parts are evicted on a disk only, not in an object store")
    if not location_of(folder).is_directory(folder):
        raise no_directory(folder)
    if dry_run:
        return _planned(folder, read_newest(folder), limit)[0]
    with held(folder) as claim:
        before = claim.before
        assert before is not None
        found, parts = _planned(folder, before, limit)
        if found.parts:
            after = published_as(replace(before, parts=parts), before, "evict", folder)
            claim.publish(lambda _: manifest.encode(after))
    return replace(found, collected=gc(folder, keep=1)) if collect else found


def _planned(folder: str, before: Manifest, limit: int) -> tuple[Evicted, Sequence[PartEntry]]:
    sizes = list(map(bytes_of_part, before.parts))
    left, gone = sum(sizes), 0
    while left > limit and gone < len(sizes) - 1:
        left -= sizes[gone]
        gone += 1
    if left > limit:
        raise UniRecordError(
            f"{folder}: its last part alone has {left:,} bytes, more than {limit:,}, and one part always stays; "
            "`unirecord reshard` makes smaller parts"
        )
    parts = before.parts[:gone]
    names = {file.name for part in parts for file in files_of_part(before, part)}
    version = before.generation + bool(gone)
    kept_by = tuple(
        [n for n in _kept(folder, before) if names & files_of(manifest.read(_kept_path(folder, n)))]
    )
    if gone:
        kept_by = (*kept_by, before.generation)
    rows = sum(part.rows for part in parts)
    return Evicted(version, gone, rows, sum(sizes[:gone]), left, kept_by), before.parts[gone:]


def _kept(folder: str, before: Manifest) -> list[int]:
    return [n for n in kept_versions(location_of(folder).names(folder)) if n < before.generation]


def _kept_path(folder: str, number: int) -> str:
    return os.path.join(folder, kept_name(number))
