"""The folders in a directory that writers who append have their parts in until they publish them."""

from __future__ import annotations

import os
import re
import secrets
from contextlib import suppress
from typing import Final

from ..errors import BusyError
from ..storage.registry import location_of
from ..storage.staged_folder import StagedFolder

__all__ = ["clear_dead_appends", "new_folder"]

_FOLDER: Final = re.compile(r"\.(append-[0-9a-f]{32})\.tmp")

_ATTEMPTS: Final = 100


def new_folder(path: str) -> StagedFolder:
    """One that no other writer has."""
    for _ in range(_ATTEMPTS):
        with suppress(BusyError):  # before it was locked, another one has taken it for a dead writer's
            return StagedFolder(os.path.join(path, f"append-{secrets.token_hex(16)}"), overwrite=False)
    raise BusyError(f"{path}: {_ATTEMPTS} folders that were made here to append were taken by other writers")


def clear_dead_appends(path: str) -> None:
    """Removes what writers that are dead have left of appending to the directory at ``path``."""
    for name in location_of(path).names(path):
        found = _FOLDER.fullmatch(name)
        if found is None:
            continue
        try:
            StagedFolder(os.path.join(path, found[1]), overwrite=False, make=False).discard()
        except (BusyError, OSError):
            continue
