"""A directory in an object store while it is written: parts are uploaded, and one conditional put publishes them."""

from __future__ import annotations

import os
import posixpath
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from shlex import quote
from typing import Any

from ..errors import ExistsError, StaleError, UniRecordError
from ..snapshot import manifest
from ..snapshot.dataset_path import no_directory
from ..snapshot.deletions import deletion_name
from ..snapshot.manifest import Manifest, PartEntry, divided, keep_pieces
from ..snapshot.versions import (
    files_of,
    given_up,
    kept_name,
    kept_versions,
    parts_of,
    same_version,
)
from ..storage import local as store
from ..storage.location import Undecided
from ..storage.object_store import ObjectWrites, Outrun, Versioned
from ..storage.publications import note_publication
from ..storage.schemes import location_of
from ..storage.staged import Spool
from ..storage.storage_options import current_storage
from .directory_claim import KEPT, check_directory_free, with_indexes
from .journal import Journal
from .object_journal import (
    NOT_KNOWN,
    ObjectJournal,
    Plans,
    StoredPlan,
    how_it_ends,
    is_of,
    kind_of,
    say,
    tag_of,
    uploaded,
)
from .part_writer import Delivery

__all__ = [
    "ObjectChange",
    "upload_part",
]


# Takes parts that are complete in a folder of this machine to a directory of an object store.


def upload_part(folder: str, url: str, writes: ObjectWrites, name: str) -> None:
    """Uploads both files of a part that is complete in a folder of this machine, the index first, and removes them."""
    for file in (name + ".idx", name):
        here = os.path.join(folder, file)
        writes.upload(here, posixpath.join(url, file))
        store.clear(here)


class ObjectChange:
    """Who has it writes parts under names that are nobody else's: nothing is locked, and others may write as well.

    The first of them to publish wins. Another one that appends does so to what the first has published; one that makes
    or replaces the dataset is told, and has published nothing. Objects that no manifest names, be they of a writer that
    is at work or of one that was killed, are told of on stderr and left. Those of a conversion that was stopped are
    gone on with when it ``resumes``, and deleted when the dataset is replaced.
    """

    def __init__(
        self, path: str, dataset_id: bytes, *, overwrite: bool, append: bool, resumes: bool = False
    ) -> None:
        self.path = path
        self.dropped = 0
        self._id, self._append = dataset_id, append
        self._writes, self._location = ObjectWrites(current_storage()), location_of(path)
        self._url = posixpath.join(path, manifest.NAME)
        check_directory_free(path, overwrite=overwrite, append=append, resume=resumes)
        self._version = self._writes.read_versioned(self._url)
        if append and self._version is None:
            raise no_directory(
                path, ", so no such dataset to change or append to", "; use Writer to make one"
            )
        self.before = self._decoded(damaged_is_fine=overwrite)
        names = self._names()
        self._may_be_published = False  # by an earlier run of this conversion
        self._plans = Plans(path, names, self._writes)
        if not overwrite and not append and self._version is not None:
            self._check_resumed(resumes)
        self.last_kept: int = max(kept_versions(names), default=0)
        self.parts: list[str] = [] if self.before is None else sorted(files_of(self.before))
        self._say_unnamed(names, resumes=resumes, overwrite=overwrite)
        self._asked: bytes | None = None  # what is being published, or was when the answer was lost
        self._published = False
        self._taken_over: set[str] = set()  # parts of an earlier run
        self._spool = Spool(path)
        self.folder: str = self._spool.folder
        self.deliver: Delivery = partial(upload_part, self.folder, path, self._writes)
        self.journal: Journal = ObjectJournal(path, tag_of(dataset_id), self._writes)

    def _check_resumed(self, resumes: bool) -> None:
        """A run that was killed may have published what this one would: all others are in the way of a dataset."""
        if (
            not resumes
            or self.before is None
            or self.before.id not in [plan.id for plan in self._plans.there]
        ):
            raise ExistsError(
                f"{self.path}: a dataset is there already, published by another writer; pass overwrite=True to "
                "replace it, or use unirecord.append() to add to it"
            )

    def begin(self, plan: dict[str, Any]) -> None:
        """Begins the journal of a job."""
        self._plans.begin(plan, self.journal)

    def drop_earlier(self, what: dict[str, str]) -> None:
        """Nothing: nobody can see in a store who is at work, so that stays until `gc` finds it old."""

    def earlier(self, what: dict[str, str]) -> dict[str, Any] | None:
        """The plan of a stopped job: of one that does ``what``, or else of another one of the same source; or None."""
        return self._plans.earlier(what, same_source=self._append)

    def go_on(self, plan: dict[str, Any]) -> None:
        """Takes that job over, with its id, its parts and its journal; StaleError when another run has."""
        found = self._plans.go_on(plan)
        self._id, self._may_be_published = found.id, found.may_be_published
        self.journal = found.journal(self._writes)

    def whole(self, entries: Sequence[PartEntry]) -> set[str]:
        """The names of those parts that are there, both objects, as they were written."""
        found = uploaded(location_of(self.path), self.path, entries)
        self._taken_over |= found
        return found

    def not_opened(self, entries: Sequence[PartEntry]) -> Sequence[PartEntry]:
        """Those that an earlier run has uploaded: what this one has, it has made itself."""
        return [entry for entry in entries if entry.name in self._taken_over]

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

    def _say_unnamed(self, names: Sequence[str], *, resumes: bool, overwrite: bool) -> None:
        parts = {name for name in names if manifest.PART_NAME.fullmatch(name.removesuffix(".idx"))}
        for plan in self._plans.there:
            of_plan = {name for name in parts if is_of(plan, name)}
            parts -= of_plan
            unnamed = _without(of_plan, self.parts)
            if unnamed and not resumes and not overwrite:
                what = f"{kind_of(plan.content)} that is at work, or was stopped: {how_it_ends(plan.content)}"
                say(self.path, unnamed, f"which are of {what}")
        unnamed = _without(parts, self.parts)
        if unnamed:
            unnamed = _without(parts, [*self.parts, *self._named_by_versions()])
        if unnamed:
            say(self.path, unnamed, "which no manifest names: of a writer that is at work, or was killed")

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

    def renew(self) -> None:
        """Has `before` be what is there now; StaleError where that is another dataset."""
        self._take_newer(self._writes.read_versioned(self._url))

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""
        self._spool.lock.keep()

    def lock_number(self) -> int:
        """The descriptor that holds the lock of the folder of this machine."""
        return self._spool.lock.fileno()

    def publish(self, after: Callable[[Manifest | None], Manifest]) -> None:
        """Puts the manifest, on the condition that the one before is still there; tried again by who appends."""
        self._plans.publishing()
        while not self._published and not self.published_before():
            found, pieces = divided(after(self.before), self.before, salt=secrets.randbits(64))
            try:
                for name, content in pieces.items():
                    self._writes.put_if(posixpath.join(self.path, name), content, None)
                self._put(found)
            finally:
                if pieces and self._asked is None:
                    self._delete(list(pieces))
            if self._published:
                note_publication(self.path)
                keep_pieces(self.path, found)
                self._prune(found)
                self.before = found
        self._published = True
        if not self._append and self.before is not None:
            self._clear_replaced(files_of(self.before))

    def _put(self, found: Manifest) -> None:
        """Puts this manifest, all that it names being there; what another one has published is `before` then."""
        self._check_there(found)
        self._keep_version()
        self._asked = manifest.encode(found)
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

    def published_before(self) -> bool:
        """Whether an earlier run of the job that is gone on with has published it, and did not live to say so."""
        if self._plans.own is None or self.before is None:
            return False
        named = files_of(self.before) | (self._named_by_versions() if self._may_be_published else set())
        return any(self._is_own(name) for name in named)

    def _check_there(self, after: Manifest) -> None:
        """StaleError when a file that this names, and the version before does not, is deleted, or will be: by a `gc`.

        Whoever deletes has said so in the version before, on the condition of which this is published.
        """
        new = files_of(after) - (set() if self.before is None else files_of(self.before))
        new |= {f"{name}.idx" for name in new if manifest.PART_NAME.fullmatch(name)}
        there = set(self._names()) - (set() if self.before is None else given_up(self.before)) if new else new
        for name in sorted(new - there):
            raise StaleError(
                f"{posixpath.join(self.path, name)}: this was deleted meanwhile, by a gc that took it for that of a "
                "writer that was killed, or of a version of no use; nothing was published. Give gc an age that no "
                "writer reaches"
            )

    def _prune(self, newest: Manifest) -> None:
        """Deletes the version that is one too many, where what has been published names all of its parts."""
        if not self._append or self.before is None or self.before.generation <= KEPT:
            return
        url = posixpath.join(self.path, kept_name(self.before.generation - KEPT))
        with suppress(OSError, UniRecordError):
            if parts_of(manifest.read(url)) <= parts_of(newest):
                self._writes.delete([url])

    def _keep_version(self) -> None:
        """Puts the manifest that is there under a name of its own, where the dataset is not replaced."""
        if not self._append or self.before is None or self._version is None:
            return
        url = posixpath.join(self.path, kept_name(self.before.generation))
        try:
            self._writes.put_if(url, self._version.content, None)
        except Outrun as error:
            if error.now is None or not self._is_of_before(error.now.content, url):
                raise UniRecordError(
                    f"{url}: another object has the name that the manifest of version {self.before.generation} is to "
                    "get; move that away, and append again"
                ) from None

    def _is_of_before(self, content: bytes, url: str) -> bool:
        try:
            return self.before is not None and same_version(manifest.decode(content, url), self.before)
        except UniRecordError:
            return False

    def _take_newer(self, now: Versioned | None) -> None:
        """Goes on from what another writer has published meanwhile, where that is the dataset that is appended to."""
        before, self._version = self.before, now
        newer = self._decoded(damaged_is_fine=False)
        if newer is not None and any(self._is_own(name) for name in files_of(newer)):
            self.before = newer
            return
        if before is not None and newer is not None and same_version(newer, before):
            self.before = newer  # a gc has been there
            return
        if not self._append or newer is None or before is None or newer.id != before.id:
            what = "has removed the dataset" if newer is None else "has published another dataset here"
            raise StaleError(
                f"{self.path}: another writer {what} while this one was writing; nothing of this one was published: "
                f"see `unirecord log {quote(self.path)}`, and run it again if it is meant of that"
            )
        self.before = newer

    def put_file(self, part: str, number: int, content: bytes, made: list[str]) -> str:
        """Puts which rows of a part have been deleted, under a name that is nobody else's; its name."""
        while True:
            name = deletion_name(part, number)
            made.append(name)
            try:
                self._writes.put_if(posixpath.join(self.path, name), content, None)
            except Outrun:  # another one deletes of the same version, or did not live to publish it
                made.remove(name)
                number += 1
            else:
                return name

    def clear(self, names: Iterable[str]) -> None:
        """Deletes these files, unless they have been published since they were written, or may yet be."""
        names, is_over = list(names), self._published
        self._settle()
        if self._asked is None or is_over:
            self._delete(list(with_indexes(names)))
        elif not self._published:
            say(self.path, sorted(names), NOT_KNOWN)

    @property
    def published(self) -> bool:
        """Whether the manifest was seen to be there."""
        return self._published

    def _clear_replaced(self, named: set[str]) -> None:
        """Deletes the versions of the dataset that was replaced, and their parts; says which are left."""
        kept = [kept_name(number) for number in kept_versions(self._names())]
        parts = {*self.parts, *(self._named_by_versions() if kept else ())} - named
        self._delete([*kept, *with_indexes(sorted(parts))])
        for plan in self._plans.there:
            if plan is not self._plans.own:
                self._sweep(plan)

    def _sweep(self, plan: StoredPlan) -> None:
        """Deletes what a stopped conversion has left, unless a run has gone on with it since it was looked at."""
        try:
            own = self._plans.give_up(plan, self._names())
            if own is not None:
                self._delete(own)
                plan.journal(self._writes).clear()
        except OSError as error:
            what = f"{kind_of(plan.content)} that was stopped"
            say(self.path, [], f"what is left of {what} could not be deleted ({error})")

    def _delete(self, names: Sequence[str]) -> None:
        if not names:
            return
        urls = [posixpath.join(self.path, name) for name in names]
        try:
            left = [posixpath.basename(url) for url in self._writes.delete(urls)]
        except (OSError, UniRecordError):
            left = list(names)
        if left:
            say(self.path, left, "which are of no use any more, and could not be deleted")

    def abort(self, parts: Iterable[str]) -> None:
        """Deletes these parts, unless they are published, or may yet be."""
        try:
            if not self._published:
                self.clear(parts)
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
        """Deletes all that this writer and its workers have uploaded: what has a name made of its id.

        Not where another run has gone on with the conversion, whose parts they are then.
        """
        if not self._published and not self._gives_up():
            self.release()
            return
        try:
            own = {name.removesuffix(".idx") for name in self._names() if self._is_own(name)}
            own -= self._named_now() if own else set()  # which another run may have published
        except (OSError, UniRecordError) as error:
            say(self.path, [], f"parts of this writer may be left there, since it does not answer ({error})")
            own = set()
        self.abort(own)

    def _named_now(self) -> set[str]:
        """The parts that are published now; errors of reading the manifest."""
        now = self._writes.read_versioned(self._url)
        newest = set() if now is None else files_of(manifest.decode(now.content, self._url))
        return newest | self._named_by_versions()

    def _gives_up(self) -> bool:
        """Lets the plan say that its parts are being deleted; False when they are not this one's to delete."""
        self._settle()
        return self._asked is not None or self._plans.give_up_own()

    def _is_own(self, name: str) -> bool:
        found = manifest.PART_NAME.fullmatch(name.removesuffix(".idx"))
        return found is not None and manifest.part_id(self._id, int(found[1]))[:4].hex() == found[2]

    def suspend(self) -> None:
        """Gives the folder of this machine up, and leaves what is in the store."""
        if self._plans.own is not None:
            say(self.path, [], f"what is finished stays there; {how_it_ends(self._plans.own.content)}")
        self._spool.discard()

    def release(self) -> None:
        """Gives the folder of this machine up; what has been published needs no journal any more."""
        try:
            if self._plans.own is not None and (self._published or self._plans.own.is_given_up):
                self.journal.clear()
        except OSError as error:
            say(self.path, [], f"its journal is of no use any more, and could not be deleted ({error})")
        finally:
            self._spool.discard()


def _without(parts: set[str], named: Sequence[str]) -> list[str]:
    there = set(named)
    return sorted(name for name in parts if name.removesuffix(".idx") not in there)
