"""Folders of this machine in which parts are written that are then uploaded: one for each writer, gone with it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from glob import escape, glob
from typing import Final

from ..errors import BusyError
from .staged import StagedFile, remove_tree

__all__ = ["Spool"]

_PREFIX: Final = "unirecord-upload-"
_LOCK: Final = "writer"


class Spool:
    """A folder where the system keeps temporary files (``TMPDIR``). What dead writers left there is removed."""

    folder: str
    lock: StagedFile

    def __init__(self, target: str) -> None:
        _remove_dead()
        while True:
            self.folder = tempfile.mkdtemp(prefix=_PREFIX)
            with suppress(BusyError, FileNotFoundError):  # another one takes it for a dead writer's
                self.lock = StagedFile(os.path.join(self.folder, _LOCK), claims=target)
                if self.lock.has_name(self.lock.temporary):
                    self.lock.keep()
                    return
                self.lock.discard()

    def discard(self) -> None:
        """Removes the folder and all in it; in a forked child it is the parent's."""
        if self.lock.place.process == os.getpid():
            remove_tree(self.folder)
        self.lock.discard()


def _remove_dead() -> None:
    for folder in glob(os.path.join(escape(tempfile.gettempdir()), f"{_PREFIX}*")):
        with suppress(BusyError, OSError):
            if os.lstat(folder).st_uid != os.getuid():
                continue
            lock = StagedFile(os.path.join(folder, _LOCK), claims=folder)
            try:
                remove_tree(folder)
            finally:
                lock.discard()
