"""Several conversions that are published together: the shares of a split."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from ..errors import ExistsError, MissingError, UniRecordError
from ..parts import manifest
from ..parts.versions import read_newest
from ..storage import local
from ..storage.registry import location_of, path_on_disk
from ..writing.conversion_journal import Journal
from ..writing.directory_claim import check_directory_free
from .conversion import Conversion, Standing
from .sources.left_out import LeftOut

__all__ = ["check_split_target", "share_id", "write_shares"]


def share_id(id: bytes | None, name: str) -> bytes | None:
    """The id of a share, made of that of the whole; None for None."""
    return None if id is None else hashlib.sha256(id + name.encode()).digest()[:16]


def check_split_target(path: str, names: Sequence[str], *, overwrite: bool, resume: bool) -> None:
    """Refuse a folder that is in the way of the shares, before any work is done."""
    if path.endswith(".urec"):
        raise ExistsError(
            f"{path}: a split makes several datasets; choose a name without .urec for their folder"
        )
    location = location_of(path_on_disk(path, "a split"))
    if not location.is_directory(path):
        if location.is_taken(path):
            raise ExistsError(f"{path}: a file is in the way of the folder for the shares")
        if not location.is_directory(os.path.dirname(os.path.abspath(path))):
            raise MissingError(f"{path}: the folder above does not exist; make it first")
        return
    if manifest.NAME in location.names(path):
        raise ExistsError(f"{path} is a dataset; the shares need a folder of their own")
    published = [name for name in names if location.is_directory(os.path.join(path, name))]
    if resume and len(published) < len(names):
        return
    for name in names:
        check_directory_free(os.path.join(path, name), overwrite=overwrite)


def write_shares(
    path: str, shares: Mapping[str, Conversion], progress: Callable[[str, Standing], None] | None = None
) -> tuple[dict[str, int], list[LeftOut]]:
    """Write all shares, and then publish all; the rows of each, and what was left out of any.

    Nothing is published before the last one is written. ``resume`` of the conversions goes on with any of them, and
    takes one for done that was published when the others were not yet, which its id tells.
    """
    made = not location_of(path).is_directory(path)
    if made:
        local.make_directory(path)
    try:
        rows = _published_before(shares)
        left_out: Counter[LeftOut] = Counter()  # each share reads all rows, and tells of the same once more
        waiting = [name for name in shares if name not in rows]

        def write(place: int) -> None:
            if place == len(waiting):
                return
            name = waiting[place]
            tell = None if progress is None else lambda standing: progress(name, standing)
            wish = shares[name]
            written, without = wish.run(tell, before_publishing=lambda: write(place + 1))
            rows[name] = written
            nonlocal left_out
            left_out |= Counter([*wish.source.left_out, *without])

        write(0)
        for name in set(shares) - set(waiting):
            Journal(shares[name].path).clear()  # its run died before it could
        return {name: rows[name] for name in shares}, list(left_out.elements())
    except BaseException:
        with suppress(OSError):
            if made and not location_of(path).names(path):
                local.remove_directory(path)
        raise


def _published_before(shares: Mapping[str, Conversion]) -> dict[str, int]:
    """The rows of shares that a run had published when it died before it could publish the others.

    Raises `ExistsError` for what is there and cannot be told to be such a share, before anything is touched.
    """
    begun = any(
        Journal(folder).plan() is not None
        for wish in shares.values()
        for folder in (wish.path, local.temporary_name(wish.path))
    )
    found = {}
    for name, wish in shares.items():
        rows = _rows_published(wish) if wish.resume and begun else None
        if rows is not None:
            found[name] = rows
        else:
            check_directory_free(wish.path, overwrite=wish.overwrite)
    return found


def _rows_published(wish: Conversion) -> int | None:
    """The rows of what an earlier run of the same conversion has published; None where there is no such thing."""
    try:
        there = read_newest(wish.path)
    except (OSError, UniRecordError):
        return None
    journal = Journal(wish.path)
    finished = {part["name"] for record in journal.tasks().values() for part in record["parts"]}
    replaced = wish.overwrite and journal.plan() is not None  # then the manifest may be the one before
    if there.id != wish.id or (replaced and not {part.name for part in there.parts} <= finished):
        return None
    return sum(part.rows for part in there.parts)
