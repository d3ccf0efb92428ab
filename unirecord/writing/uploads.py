"""Takes parts that are complete in a folder of this machine to a directory of an object store."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass

from ..storage import local as store
from ..storage.object_writes import ObjectWrites

__all__ = ["Uploads"]


@dataclass(frozen=True)
class Uploads:
    """Takes parts that are complete in a folder of this machine to a directory of an object store."""

    folder: str
    url: str
    writes: ObjectWrites

    def __call__(self, name: str) -> None:
        """Uploads both files of a part, the index first, and removes them here."""
        for file in (name + ".idx", name):
            here = os.path.join(self.folder, file)
            self.writes.upload(here, posixpath.join(self.url, file))
            store.clear(here)
