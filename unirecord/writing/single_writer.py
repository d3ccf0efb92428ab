"""Writes a dataset that is one part: claims its path, and publishes both files of the part at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..errors import ExistsError
from ..format.layout import Shape
from ..format.values import ColumnBatch
from ..sizes import many
from ..snapshot.part import data_identity, index_identity
from ..storage import local as store
from ..storage.claim import check_unclaimed
from ..storage.publications import note_publication
from ..storage.schemes import location_of
from ..storage.staged import StagedFile
from .part_writer import FinishedPart, PartContent, PartWriter

_LONGEST_SUFFIX = len(".") + len(".idx.tmp")


class SinglePartWriter:
    """The target of a Writer whose path ends in ``.urec``. Holds the path's lock until close or abort."""

    def __init__(self, path: str, part_id: bytes, *, overwrite: bool) -> None:
        self.path = path
        self.id = part_id
        self.target_bytes: int | None = None
        self._part: PartWriter | None = None
        self.before_publishing: Callable[[FinishedPart], None] | None = (
            None  # when it raises, nothing is published
        )
        check_target_folder(path)
        check_part_free(path, overwrite)
        self._data = StagedFile(path, claims=path, like=path)
        try:
            check_unclaimed(path, path)  # its data file is out, its index is being renamed at this moment
            check_part_free(path, overwrite)
            finish_index(path)
        except BaseException:
            self._data.discard()
            raise

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""
        self._data.keep()

    @property
    def written(self) -> int:
        """Bytes of the data file so far."""
        return self._data.size

    def add(self, content: PartContent, shape: Shape, pieces: Sequence[ColumnBatch]) -> None:
        """Writes a row group."""
        if self._part is None:
            self._part = PartWriter(self._data, self.id, content, shape)
        self._part.add(pieces)

    def finish(self, content: PartContent, shape: Shape) -> None:
        """Completes both files and publishes them; the old ones stay until the rename of the data file."""
        if self._part is None:
            self._part = PartWriter(self._data, self.id, content, shape)
        part = self._part.finish(self.path + ".idx")
        try:
            part.sync()
            if self.before_publishing is not None:
                self.before_publishing(part)
            self._publish(part)
        finally:
            part.discard()

    def _publish(self, part: FinishedPart) -> None:
        waiting = self.path + ".idx.new"
        try:
            part.index.publish(waiting)
            part.data.publish()
            note_publication(self.path)
        except BaseException:
            if not part.data.published and part.index.has_name(waiting):
                store.clear(waiting)
            raise
        store.give_name(waiting, self.path + ".idx")

    @property
    def published(self) -> bool:
        """Whether the new data file has the dataset's name, as the disk says."""
        return self._data.published

    def abort(self) -> None:
        """Removes what has been written so far; what was published stays, before or by this writer."""
        self._data.discard()


def check_target_folder(path: str) -> None:
    """Refuses a path whose folder cannot hold it."""
    folder, name = os.path.split(path)
    folder = folder or "."
    found = location_of(path).find(folder)
    if found is None:
        raise FileNotFoundError(2, "the folder to write to does not exist; make it first", folder)
    if found.kind != "directory":
        raise NotADirectoryError(20, "not a directory, so nothing can be written into it", folder)
    longest = os.pathconf(folder, "PC_NAME_MAX") - _LONGEST_SUFFIX
    if len(os.fsencode(name)) > longest:
        raise ValueError(f"{path}: the file name is too long; at most {many(longest, 'byte', 'fit')}")


def check_part_free(path: str, overwrite: bool) -> None:
    """Refuses a path at which there is something that is not to be replaced."""
    location = location_of(path)
    if location.is_directory(path):
        raise ExistsError(f"{path}: a directory is in the way; a path that ends in .urec is a file")
    if overwrite:
        return
    for there in (path, path + ".idx"):
        if location.is_taken(there):
            raise ExistsError(
                f"{there} exists already; pass overwrite=True to replace the dataset, or choose another path"
            )


def finish_index(path: str) -> None:
    """Finishes or undoes what a writer that died while publishing left: an index under its waiting name."""
    waiting, final = path + ".idx.new", path + ".idx"
    location = location_of(path)
    if not location.is_taken(waiting):
        return
    wanted = data_identity(path)
    if wanted is None and location.is_taken(path):
        return  # a damaged part: what waits may be its index
    if wanted is not None and index_identity(waiting) == wanted:
        store.give_name(waiting, final)
    else:
        store.clear(waiting)
