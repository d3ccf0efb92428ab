"""A change of a directory on a disk: files are written aside, and the directory is held to publish them."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from shlex import quote
from typing import Any

from ..errors import BusyError, ExistsError, StaleError
from ..snapshot import manifest
from ..snapshot.deletions import deletion_name
from ..snapshot.manifest import Manifest, PartEntry, files_with_rows
from ..snapshot.part import is_whole
from ..snapshot.versions import files_of, kept_name, kept_versions, read_newest
from ..storage import local as store
from ..storage.claim import HeldHereError
from ..storage.local import temporary_name
from ..storage.schemes import location_of
from ..storage.staged import StagedFolder, is_being_written, write_staged
from .directory_claim import (
    DirectoryClaim,
    check_directory_free,
    clear_dead_appends,
    clear_parts,
    finish_append,
    new_folder,
    plans_of_appends,
    take_append,
    with_indexes,
    with_target,
)
from .journal import Journal
from .part_writer import Delivery, stays

__all__ = ["DirectoryChange", "hold"]

_LOCKLESS_SECONDS = 60.0  # to wait for a file that may be a dead writer's
_SAY_SECONDS = 10.0  # of waiting before that is said
_PAUSE_SECONDS = 0.02  # at most, between two looks


class DirectoryChange:
    """Who has it writes files into a folder of its own within the directory; any number of processes may.

    To publish, each holds the directory for a moment, and gives its files their names there and what follows from the
    newest manifest its name. A folder whose writer is dead is removed by the next one. That of a conversion that was
    stopped stays, for the run that ``resumes`` it; one that begins it anew drops it: ``dropped`` is how many parts.
    """

    folder: str
    journal: Journal
    last_kept: int
    parts: list[str]
    published: bool

    deliver: Delivery = staticmethod(stays)

    def __init__(self, path: str, dataset_id: bytes = b"", *, resumes: bool = False) -> None:
        self.path = path
        self.dropped: int = 0
        self._id, self._resumes = dataset_id, resumes
        self._is_kept = False  # the folder, if this is stopped
        self._is_left = False  # and it was
        self._found: StagedFolder | None = None  # that of an earlier run, held and not taken over yet
        check_directory_free(path, overwrite=False, append=True)
        names = location_of(path).names(path)
        clear_dead_appends(path, names)
        self._aside = new_folder(path)
        try:
            self.folder = self._aside.folder
            self.journal = Journal(self.folder)
            self.before: Manifest | None = read_newest(path)
            self.last_kept = max(kept_versions(names), default=0)
            self.parts = []  # those that are there are of the manifest
            self.published = False
        except BaseException:
            self._aside.discard()
            raise

    @property
    def place(self) -> str:
        """Where parts are until they are published."""
        return self.folder

    def begin(self, plan: dict[str, Any]) -> None:
        """Begins the journal of a job; what a stopped run of the same one has left is dropped.

        BusyError when this ``resumes`` and another run of it has begun at the same moment.
        """
        assert self.before is not None
        self._leave_found()
        self.drop_earlier(plan["what"])
        self.journal.begin(with_target(plan, self.before.id))
        self._is_kept = True
        if self._resumes:
            for place, there in plans_of_appends(self.path, self.before.id):
                if place != self._aside.path and there.get("what") == plan["what"]:
                    self._is_kept = False
                    raise self._busy()

    def drop_earlier(self, what: dict[str, str]) -> None:
        """Removes what stopped jobs that do ``what`` have left, where nobody else is at them."""
        assert self.before is not None
        for place, there in plans_of_appends(self.path, self.before.id):
            if there.get("what") == what:
                self._drop(place)

    def _drop(self, place: str) -> None:
        aside = take_append(place)
        if aside is not None:
            self.dropped += len(Journal(aside.folder).parts())
            aside.discard()

    def _busy(self) -> BusyError:
        return BusyError(
            f"{self.path}: another run of the same is at work, or goes on with it at this moment; wait until it has "
            "ended"
        )

    def earlier(self, what: dict[str, str]) -> dict[str, Any] | None:
        """The plan of a stopped job that does ``what``, or else of another one of the same source; or None.

        BusyError when one that does the same is at work.
        """
        assert self.before is not None
        plans = list(plans_of_appends(self.path, self.before.id))
        same = [(place, plan) for place, plan in plans if plan.get("what") == what]
        for place, plan in sorted(same, key=lambda one: one[1].get("id") != self._id.hex()):
            self._found = take_append(place)
            if self._found is not None:
                journal = Journal(self._found.folder)
                finish_append(journal, self._listed)
                return journal.plan() or plan
        if same:
            raise self._busy()
        for place, plan in plans:
            of_same = plan["what"].get("the source") == what["the source"]
            if of_same and not is_being_written(place) and not self._is_over(place, plan):
                return plan
        return None

    def _is_over(self, place: str, plan: dict[str, Any]) -> bool:
        return "published" in plan or Journal(temporary_name(place)).has_published(self._listed)

    def _listed(self) -> list[PartEntry]:
        """The parts of all versions that are there."""
        names = location_of(self.path).names(self.path)
        listings = [read_newest(self.path)]
        for number in kept_versions(names):
            with suppress(FileNotFoundError):
                listings.append(manifest.read(os.path.join(self.path, kept_name(number))))
        return [entry for listing in listings for entry in files_with_rows(listing)]

    def go_on(self, plan: dict[str, Any]) -> None:
        """Takes that job over, with its parts and its journal."""
        assert self._found is not None
        self._aside.discard()
        self._aside, self._found = self._found, None
        self.folder = self._aside.folder
        self.journal = Journal(self.folder)
        self._is_kept = True
        clear_parts(self.folder, keep=self.journal.parts())

    def published_before(self) -> bool:
        """Never of what is gone on with: of what was published the plan says so."""
        return False

    def _leave_found(self) -> None:
        if self._found is not None:
            self._found.leave()
        self._found = None

    def whole(self, entries: Sequence[PartEntry]) -> set[str]:
        """The names of those parts that are in their place, both files, as they were written."""
        return {entry.name for entry in entries if is_whole(self.folder, entry)}

    def not_opened(self, entries: Sequence[PartEntry]) -> Sequence[PartEntry]:
        """All of them, which costs little on a disk."""
        return entries

    def keep(self) -> None:
        """Its folder is held from the beginning."""

    def lock_number(self) -> int:
        """The file descriptor that holds the lock: whoever inherits it holds it too."""
        return self._aside.lock_number()

    def publish(self, after: Callable[[Manifest | None], Manifest]) -> None:
        """Waits until no other writer holds the directory, and publishes what ``after`` makes of its manifest then."""
        claim = hold(self.path, None if self._aside.has_locks else _LOCKLESS_SECONDS)
        moved: list[str] = []
        try:
            claim.keep()
            self._take_newer(claim.before)
            self.last_kept = claim.last_kept
            found = after(self.before)
            self._move(files_of(found), moved)
            claim.publish(lambda _: found)
            if self._is_kept:
                self._say_published()
        finally:
            self.published = claim.published
            if not self.published:
                self._take_back(claim, moved)
            claim.suspend()

    def _say_published(self) -> None:
        """Has the journal say so before another writer can publish: it may lay these parts out anew."""
        try:
            newest = read_newest(self.path)
            finish_append(self.journal, partial(files_with_rows, newest))
        except OSError:  # such as a full disk: without a plan nothing is gone on with
            store.clear(os.path.join(self.folder, self.journal.plan_name))

    def renew(self) -> None:
        """Has `before` be what is there now; StaleError where that is another dataset."""
        self._take_newer(read_newest(self.path))

    def _take_newer(self, now: Manifest | None) -> None:
        """Goes on from what others have published meanwhile, where that is the same dataset."""
        if now is None or self.before is None or now.id != self.before.id:
            raise StaleError(
                f"{self.path}: another writer has published another dataset here while this one was at work; nothing "
                f"of this one was published: see `unirecord log {quote(self.path)}`, and run it again if it is meant "
                "of that"
            )
        self.before = now

    def _move(self, named: set[str], moved: list[str]) -> None:
        """The files that are ``named`` get their names in the directory, indexes first; durable when this returns."""
        names = set(location_of(self.folder).names(self.folder))
        for name in sorted(names & named):
            files = [file for file in (name + ".idx", name) if file in names]
            target = os.path.join(self.path, name)
            if any(location_of(target).is_taken(os.path.join(self.path, file)) for file in files):
                raise ExistsError(
                    f"{target}: another writer has given a part this name, with the same id=; leave id out, or append "
                    "again; nothing was published"
                )
            moved.append(name)
            for file in files:
                there, new = os.path.join(self.folder, file), os.path.join(self.path, file)
                if not (self._is_kept and store.give_second_name(there, new)):
                    store.give_name(there, new, durable=False)
        store.sync_folder(self.path)

    def _take_back(self, claim: DirectoryClaim, moved: Sequence[str]) -> None:
        """Parts that were not published are in the folder alone again."""
        for name in moved:
            for file in (name, name + ".idx"):
                there, new = os.path.join(self.folder, file), os.path.join(self.path, file)
                if (
                    self._is_kept
                    and location_of(new).is_taken(new)
                    and not location_of(there).is_taken(there)
                ):
                    with suppress(OSError):
                        store.give_name(new, there, durable=False)
        claim.clear(moved)

    def put_file(self, part: str, number: int, content: bytes, made: list[str]) -> str:
        """Writes which rows of a part have been deleted; the file's name, of that number."""
        name = deletion_name(part, number)
        made.append(name)
        write_staged(os.path.join(self.folder, name), os.path.join(self.path, manifest.NAME), content)
        return name

    def clear(self, names: Iterable[str]) -> None:
        """Removes these files, unless they have been published."""
        for file in with_indexes(names):
            store.clear(os.path.join(self.folder, file))

    def abort(self, parts: Iterable[str]) -> None:
        """Gives all up that is not published."""
        self.release()

    def abandon(self) -> None:
        """The same."""
        self.release()

    def suspend(self) -> None:
        """Leaves what a job can go on with."""
        self._leave_found()
        (self._aside.leave if self._is_kept else self._aside.discard)()
        self._is_left = self._is_kept

    def release(self) -> None:
        """Removes the folder of its own, the plan last, unless it was left to a later run."""
        if self._is_left:
            return
        self._leave_found()
        if self._is_kept:
            clear_parts(self.folder)
            self.journal.clear()
        self._aside.discard()


def hold(path: str, patience: float | None = None) -> DirectoryClaim:
    """The directory, once no other writer holds it: what a stopped conversion has left stays as it is.

    BusyError where this thread is the one that holds it, and after ``patience``, in seconds.
    """
    began, is_said = time.monotonic(), False
    while True:
        try:
            return DirectoryClaim(path, append=True, unfinished="resume")
        except HeldHereError:
            raise  # by this thread, which would wait for itself
        except BusyError:
            waited = time.monotonic() - began
            if patience is not None and waited > patience:
                raise
            if waited > _SAY_SECONDS and not is_said and sys.stderr is not None:
                is_said = True
                print(f"unirecord: {path}: waiting for another writer, which holds it", file=sys.stderr)
        time.sleep(random.uniform(0, _PAUSE_SECONDS))
