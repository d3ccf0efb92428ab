"""Folders beside a dataset in which tasks write, each attempt its own: who wins is taken over, the rest is swept."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from typing import Final

from ..errors import MissingError
from . import local
from .own_directory import check_own_folder
from .staged import remove_tree

__all__ = ["ORPHAN_SECONDS", "Attempts"]

ORPHAN_SECONDS: Final = 24 * 3600.0  # without a change, after which nobody is at work on a run any more


class Attempts:
    """The attempts of one run that writes a dataset; picklable, for tasks on other machines.

    They lie in ``.NAME.attempts/RUN/`` beside the dataset, so that a winner is taken over by a rename, and so that a
    second attempt at a task, or one that was thought dead, can never write into what is published.
    """

    def __init__(self, path: str) -> None:
        folder, name = os.path.split(os.path.abspath(path))
        self.root: str = os.path.join(folder, f".{name}.attempts")
        self.run: str = os.path.join(self.root, secrets.token_hex(8))

    def start(self, orphan_seconds: float = ORPHAN_SECONDS) -> None:
        """Makes the run's folder, and removes those of runs in which nothing has changed for so long."""
        if not local.make_directory(self.root):
            check_own_folder(self.root)
        with os.scandir(self.root) as entries:
            for entry in list(entries):
                if time.time() - _last_change(entry.path) > orphan_seconds:
                    remove_tree(entry.path)
        local.make_directory(self.root)
        local.make_directory(self.run)

    def begin(self, task: int) -> str:
        """A new folder for an attempt at a task.

        MissingError when the run's folder is not there: another machine does not see it, or the run is over.
        """
        folder = os.path.join(self.run, f"task-{task:06d}-{secrets.token_hex(8)}")
        try:
            local.make_directory(folder)
        except FileNotFoundError:
            raise MissingError(
                f"{self.run}: not there on the machine of task {task}: the dataset must be on storage that all "
                "machines share, or the job that it belongs to has ended"
            ) from None
        return folder

    def take_over(self, attempt: str, names: Sequence[str], folder: str) -> None:
        """Gives files of an attempt their place in ``folder``, durably."""
        for name in names:
            local.give_name(os.path.join(attempt, name), os.path.join(folder, name))
        local.remove_directory(attempt)

    def finish(self) -> None:
        """Removes the run's folder, of which nothing can be published any more."""
        remove_tree(self.run)
        local.remove_directory(self.root)


def _last_change(folder: str) -> float:
    """The time of the last change at or below a folder, in seconds since 1970; now, when it changes at this moment."""
    latest = 0.0
    try:
        for place, entries in local.directories_below(folder):
            for path in (place, *(entry.path for entry in entries)):
                latest = max(latest, os.lstat(path).st_mtime)
    except FileNotFoundError:
        return time.time()
    return latest
