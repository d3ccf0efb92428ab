"""The folders in a directory that writers who append have their parts in until they publish them."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from ..errors import BusyError
from ..snapshot.manifest import PART_NAME, Manifest, PartEntry
from ..snapshot.rearranging import files_with_rows
from ..storage import local as store
from ..storage.registry import location_of
from ..storage.staged import StagedFolder, is_being_written
from .journal import Journal

__all__ = [
    "clear_dead_appends",
    "clear_old_appends",
    "clear_parts",
    "new_folder",
    "plans_of_appends",
    "settle_append",
    "take_append",
    "with_target",
]


_FOLDER: Final = re.compile(r"\.(append-[0-9a-f]{32})\.tmp")
_TARGET: Final = "to"  # in the plan: the id of the dataset that is appended to

_ATTEMPTS: Final = 100


def new_folder(path: str) -> StagedFolder:
    """One that no other writer has."""
    for _ in range(_ATTEMPTS):
        with suppress(BusyError):  # before it was locked, another one has taken it for a dead writer's
            return StagedFolder(os.path.join(path, f"append-{secrets.token_hex(16)}"), overwrite=False)
    raise BusyError(f"{path}: {_ATTEMPTS} folders that were made here to append were taken by other writers")


def with_target(plan: dict[str, Any], target: bytes) -> dict[str, Any]:
    """The plan of a conversion that appends to the dataset of this id."""
    return {**plan, _TARGET: target.hex()}


def plans_of_appends(path: str, target: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The conversions that append to this dataset, at work or stopped: where, and the plan."""
    for place, journal in _folders(path):
        plan = journal.plan()
        if plan is not None and plan.get(_TARGET) == target.hex() and isinstance(plan.get("what"), dict):
            yield place, plan


def take_append(place: str) -> StagedFolder | None:
    """Such a folder as its writer has left it; None when that lives, or it has gone."""
    try:
        return StagedFolder(place, overwrite=False, make=False, keep=True)
    except (BusyError, OSError):
        return None


def _folders(path: str) -> list[tuple[str, Journal]]:
    found = [_FOLDER.fullmatch(name) for name in location_of(path).names(path)]
    return [(os.path.join(path, one[1]), Journal(os.path.join(path, one[0]))) for one in found if one]


def clear_dead_appends(path: str, before: Manifest | None = None, *, drops: bool = False) -> int:
    """Removes what dead writers have left of appending to the directory at ``path``.

    What a conversion can go on with stays, unless it ``drops``: the number of finished parts that it did drop. With
    ``before``, the manifest that is there, of what that has published the plan alone stays, and nothing of what was to
    be appended to another dataset.
    """
    dropped = 0
    for place, journal in _folders(path):
        plan = journal.plan()
        is_of_other = plan is not None and before is not None and plan.get(_TARGET) != before.id.hex()
        is_published = (
            plan is not None and before is not None and journal.has_published(files_with_rows(before))
        )
        is_half_cleared = journal.published() and _has_parts(journal.folder)  # killed when it had said so
        if _is_begun(journal) and not (is_of_other or is_published or is_half_cleared or drops):
            continue
        aside = take_append(place)
        if aside is None:
            continue
        if is_published and before is not None:
            settle_append(journal, files_with_rows(before))
        elif is_half_cleared:
            journal.settle(())
            clear_parts(journal.folder)
        if is_of_other or drops or not _is_begun(journal):
            dropped += len(journal.parts())
            clear_parts(journal.folder)
            aside.discard()
        aside.leave()
    return dropped


def _is_begun(journal: Journal) -> bool:
    """Whether there is a plan, be it one that cannot be read now."""
    return location_of(journal.folder).is_taken(os.path.join(journal.folder, journal.plan_name))


def clear_old_appends(path: str, before: float, *, is_dry: bool) -> tuple[int, int]:
    """Removes what conversions that were stopped have left to append, where nothing has changed since this time.

    Finished parts and bytes of that.
    """
    parts = size = 0
    for place, journal in _folders(path):
        found = [
            location_of(place).find(os.path.join(journal.folder, name)) for name in _names(journal.folder)
        ]
        files = [one for one in found if one is not None]
        if (
            not _is_begun(journal)
            or is_being_written(place)
            or any(one.version[2] / 1e9 > before for one in files)
        ):
            continue
        finished = len(journal.parts())
        aside = None if is_dry else take_append(place)
        if aside is not None:
            clear_parts(journal.folder)
            aside.discard()
        elif not is_dry:
            continue
        parts, size = parts + finished, size + sum(one.size for one in files)
    return parts, size


def settle_append(journal: Journal, listed: Sequence[PartEntry]) -> None:
    """Has the plan alone stay of a conversion that has published some of these parts, and say so."""
    if journal.has_published(listed):
        journal.settle(listed)
        clear_parts(journal.folder)


def _has_parts(folder: str) -> bool:
    return any(PART_NAME.fullmatch(name.removesuffix(".idx")) for name in _names(folder))


def clear_parts(folder: str, keep: Container[str] = ()) -> None:
    """Removes the parts in such a folder but these."""
    for name in _names(folder):
        if PART_NAME.fullmatch(name.removesuffix(".idx")) and name.removesuffix(".idx") not in keep:
            store.clear(os.path.join(folder, name))


def _names(folder: str) -> list[str]:
    try:
        return location_of(folder).names(folder)
    except FileNotFoundError:  # its writer has removed it
        return []
