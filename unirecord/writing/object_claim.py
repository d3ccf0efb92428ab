"""A directory in an object store while it is written: parts are uploaded, and one conditional put publishes them."""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ..errors import ExistsError, MissingError, StaleError, UniRecordError
from ..parts import manifest
from ..parts.manifest import Manifest
from ..parts.versions import files_of, kept_name, kept_versions
from ..storage import local as store
from ..storage.object_writes import ObjectWrites, Outrun, Undecided, Versioned
from ..storage.registry import location_of
from ..storage.spool import Spool
from ..storage.storage_options import current_storage
from .conversion_journal import Journal
from .directory_claim import check_directory_free
from .version_files import KEPT

__all__ = ["ObjectClaim", "Uploads"]

_SHOWN = 3


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


class ObjectClaim:
    """Who has it writes parts under names that are nobody else's: nothing is locked, and others may write as well.

    The first of them to publish wins. Another one that appends does so to what the first has published; one that makes
    or replaces the dataset is told, and has published nothing. Objects that no manifest names, be they of a writer that
    is at work or of one that was killed, are told of on stderr and left.
    """

    resumable = False

    def __init__(self, path: str, dataset_id: bytes, *, overwrite: bool, append: bool) -> None:
        self.path = path
        self.dropped = 0
        self._id, self._append = dataset_id, append
        self._writes, self._location = ObjectWrites(current_storage()), location_of(path)
        self._url = posixpath.join(path, manifest.NAME)
        check_directory_free(path, overwrite=overwrite, append=append)
        self._version = self._writes.read_versioned(self._url)
        if append and self._version is None:
            raise MissingError(f"{path}: there is no such dataset; use Writer to make it")
        if not overwrite and not append and self._version is not None:
            raise ExistsError(f"{path}: another writer has published a dataset here at this moment")
        self.before = self._decoded(damaged_is_fine=overwrite)
        names = self._names()
        self.last_kept = max(kept_versions(names), default=0)
        self.parts = [] if self.before is None else sorted(files_of(self.before))
        self._say_unnamed(names)
        self._asked: bytes | None = None  # what is being published, or was when the answer was lost
        self._published = False
        self._spool = Spool(path)
        self.folder = self._spool.folder
        self.deliver = Uploads(self.folder, path, self._writes)
        self.journal = Journal(self.folder)

    @property
    def place(self) -> str:
        """Where parts are once they have been delivered."""
        return self.path

    def _decoded(self, *, damaged_is_fine: bool) -> Manifest | None:
        if self._version is None:
            return None
        try:
            return manifest.decode(self._version.content, self._url)
        except UniRecordError:
            if not damaged_is_fine:
                raise
            return None

    def _say_unnamed(self, names: Sequence[str]) -> None:
        parts = {name for name in names if manifest.PART_NAME.fullmatch(name.removesuffix(".idx"))}
        unnamed = _without(parts, self.parts)
        if unnamed:
            unnamed = _without(parts, [*self.parts, *self._named_by_versions()])
        if unnamed:
            _say(self.path, unnamed, "which no manifest names: of a writer that is at work, or was killed")

    def _named_by_versions(self) -> set[str]:
        """The parts that the kept versions name, as far as they can be read."""
        named: set[str] = set()
        for number in kept_versions(self._names()):
            url = posixpath.join(self.path, kept_name(number))
            with suppress(OSError, UniRecordError):
                named |= files_of(manifest.read(url))
        return named

    def _names(self) -> list[str]:
        try:
            return self._location.names(self.path)
        except FileNotFoundError:
            return []

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""
        self._spool.lock.keep()

    def lock_number(self) -> int:
        """The descriptor that holds the lock of the folder of this machine."""
        return self._spool.lock.fileno()

    def publish(self, after: Callable[[Manifest | None], bytes]) -> None:
        """Puts the manifest, on the condition that the one before is still there; tried again by who appends."""
        while True:
            self._keep_version()
            self._asked = after(self.before)
            try:
                self._writes.put_if(self._url, self._asked, self._version)
            except Outrun as error:
                self._asked = None
                self._take_newer(error.now)
            except Undecided:
                raise
            except OSError:
                self._asked = None
                raise
            else:
                self._published = True
                self._prune()
                return

    def _prune(self) -> None:
        """Deletes the version that is one too many, where what has been published names all of its parts."""
        if not self._append or self.before is None or self._asked is None or self.before.generation <= KEPT:
            return
        url = posixpath.join(self.path, kept_name(self.before.generation - KEPT))
        with suppress(OSError, UniRecordError):
            if files_of(manifest.read(url)) <= files_of(manifest.decode(self._asked, self._url)):
                self._writes.delete([url])

    def _keep_version(self) -> None:
        """Puts the manifest that is there under a name of its own, where the dataset is not replaced."""
        if not self._append or self.before is None or self._version is None:
            return
        url = posixpath.join(self.path, kept_name(self.before.generation))
        try:
            self._writes.put_if(url, self._version.content, None)
        except Outrun as error:
            if error.now is None or error.now.content != self._version.content:
                raise UniRecordError(
                    f"{url}: another object has the name that the manifest of version {self.before.generation} is to "
                    "get; move that away, and append again"
                ) from None

    def _take_newer(self, now: Versioned | None) -> None:
        """Goes on from what another writer has published meanwhile, where that is the dataset that is appended to."""
        before, self._version = self.before, now
        newer = self._decoded(damaged_is_fine=False)
        if not self._append or _what(newer) != _what(before):
            what = "has removed the dataset" if newer is None else "has published another dataset here"
            raise StaleError(
                f"{self.path}: another writer {what} while this one was writing; nothing of this one was published"
            )
        self.before = newer

    @property
    def published(self) -> bool:
        """Whether the manifest was seen to be there."""
        return self._published

    def clear_replaced(self, named: set[str]) -> None:
        """Deletes the versions of the dataset that was replaced, and their parts; says which are left."""
        kept = [kept_name(number) for number in kept_versions(self._names())]
        parts = {*self.parts, *(self._named_by_versions() if kept else ())} - named
        self._delete([*kept, *(file for name in sorted(parts) for file in (name, name + ".idx"))])

    def clear(self, parts: Iterable[str]) -> None:
        """Deletes both objects of these parts; says which are left."""
        self._delete([file for name in parts for file in (name, name + ".idx")])

    def _delete(self, names: Sequence[str]) -> None:
        if not names:
            return
        urls = [posixpath.join(self.path, name) for name in names]
        try:
            left = [posixpath.basename(url) for url in self._writes.delete(urls)]
        except (OSError, UniRecordError):
            left = list(names)
        if left:
            _say(self.path, left, "which are of no use any more, and could not be deleted")

    def abort(self, parts: Iterable[str]) -> None:
        """Deletes these parts, unless they are published, or may yet be."""
        try:
            self._settle()
            if self._asked is None:
                self.clear(parts)
            elif not self._published:
                _say(self.path, sorted(parts), "of which it is not known whether they are published")
        finally:
            self.release()

    def _settle(self) -> None:
        """Looks whether what was interrupted while it was published has been."""
        if self._asked is None or self._published:
            return
        with suppress(OSError):
            now = self._writes.read_versioned(self._url)
            self._published = now is not None and now.content == self._asked

    def abandon(self) -> None:
        """Deletes all that this writer and its workers have uploaded: what has a name made of its id."""
        try:
            names = self._names()
        except OSError as error:
            _say(self.path, [], f"parts of this writer may be left there, since it does not answer ({error})")
            names = []
        self.abort({name.removesuffix(".idx") for name in names if self._is_own(name)})

    def _is_own(self, name: str) -> bool:
        found = manifest.PART_NAME.fullmatch(name.removesuffix(".idx"))
        return found is not None and manifest.part_id(self._id, int(found[1]))[:4].hex() == found[2]

    def suspend(self) -> None:
        """Nothing is left here to go on with."""
        self.abandon()

    def release(self) -> None:
        """Gives the folder of this machine up."""
        self._spool.discard()


def _without(parts: set[str], named: Sequence[str]) -> list[str]:
    there = set(named)
    return sorted(name for name in parts if name.removesuffix(".idx") not in there)


def _what(found: Manifest | None) -> object:
    """What stays the same of a dataset as long as it is appended to."""
    return None if found is None else (found.id, found.schema, found.index)


def _say(path: str, names: Sequence[str], what: str) -> None:
    """A line on stderr: an error is on its way, or all is well but for what is left."""
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else "")
    if sys.stderr is not None:
        print(f"unirecord: {path}: {shown + ', ' if shown else ''}{what}", file=sys.stderr)
