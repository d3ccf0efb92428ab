"""A directory on a disk that is appended to: parts are written aside, and the directory is held to publish them."""

from __future__ import annotations

import os
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import BusyError, ExistsError, StaleError, UniRecordError
from ..parts import manifest
from ..parts.manifest import Manifest, PartEntry
from ..parts.versions import kept_versions, read_newest
from ..storage import local as store
from ..storage.claim import HeldHereError
from ..storage.registry import location_of
from .appending_folders import clear_dead_appends, new_folder
from .conversion_journal import Journal, begins_anew
from .directory_claim import DirectoryClaim, check_directory_free
from .part_sequence import stays

__all__ = ["AppendClaim"]

_LOCKLESS_SECONDS = 60.0  # to wait for a file that may be a dead writer's
_SAY_SECONDS = 10.0  # of waiting before that is said
_PAUSE_SECONDS = 0.02  # at most, between two looks


class AppendClaim:
    """Who has it writes parts into a folder of its own within the directory; any number of processes may.

    To publish, each holds the directory for a moment, moves its parts into it, and puts them after those that the
    newest manifest names. A folder whose writer is dead is removed by the next one.
    """

    resumable = False
    dropped = 0
    deliver = staticmethod(stays)

    def __init__(self, path: str) -> None:
        self.path = path
        check_directory_free(path, overwrite=False, append=True)
        clear_dead_appends(path)
        self._aside = new_folder(path)
        try:
            self.folder = self.place = self._aside.folder
            self.journal = Journal(self.folder)
            self.before: Manifest | None = read_newest(path)
            names = location_of(path).names(path)
            self.last_kept = max(kept_versions(names), default=0)
            self.parts = [name for name in names if manifest.PART_NAME.fullmatch(name)]
            self.published = False
        except BaseException:
            self._aside.discard()
            raise

    def begin(self, plan: dict[str, Any]) -> None:
        """Begins the journal of a conversion, which goes with the folder."""
        self.journal.begin(plan)

    def earlier(self, what: dict[str, str]) -> dict[str, Any] | None:
        """No conversion that was stopped is gone on with here."""
        return None

    def go_on(self, plan: dict[str, Any]) -> None:
        """Nor is one taken over."""
        raise UniRecordError(f"{self.path}: no conversion that was stopped is gone on with here")

    def whole(self, entries: Sequence[PartEntry]) -> set[str]:
        """None of an earlier conversion."""
        return set()

    def keep(self) -> None:
        """Its folder is held from the beginning."""

    def lock_number(self) -> int:
        """The file descriptor that holds the lock: whoever inherits it holds it too."""
        return self._aside.lock_number()

    def publish(self, after: Callable[[Manifest | None], bytes]) -> None:
        """Waits until no other writer holds the directory, and publishes what ``after`` makes of its manifest then."""
        claim = self._held()
        moved: list[str] = []
        try:
            if claim.dropped:
                warnings.warn(f"{self.path} {begins_anew(claim.dropped)}", stacklevel=2)
            claim.keep()
            self._take_newer(claim)
            self._move(moved)
            claim.publish(after)
        finally:
            self.published = claim.published
            if not self.published:
                claim.clear(moved)
            claim.suspend()

    def _held(self) -> DirectoryClaim:
        began, is_said = time.monotonic(), False
        while True:
            try:
                return DirectoryClaim(self.path, append=True)
            except HeldHereError:
                raise  # by this thread, which would wait for itself
            except BusyError:
                waited = time.monotonic() - began
                if waited > _LOCKLESS_SECONDS and not self._aside.has_locks:
                    raise
                if waited > _SAY_SECONDS and not is_said and sys.stderr is not None:
                    is_said = True
                    print(
                        f"unirecord: {self.path}: waiting for another writer to publish the appended rows",
                        file=sys.stderr,
                    )
            time.sleep(random.uniform(0, _PAUSE_SECONDS))

    def _take_newer(self, claim: DirectoryClaim) -> None:
        """Goes on from what others have published meanwhile, where that is the dataset that is appended to."""
        if _what(claim.before) != _what(self.before):
            raise StaleError(
                f"{self.path}: another writer has published another dataset here, or other columns, while this one was "
                "writing; nothing of this one was published"
            )
        self.before, self.last_kept = claim.before, claim.last_kept

    def _move(self, moved: list[str]) -> None:
        """The parts get their names in the directory, their indexes first; that is durable when this returns."""
        names = sorted(
            name for name in location_of(self.folder).names(self.folder) if manifest.PART_NAME.fullmatch(name)
        )
        for name in names:
            target = os.path.join(self.path, name)
            if any(location_of(target).is_taken(file) for file in (target, target + ".idx")):
                raise ExistsError(
                    f"{target}: another writer has given a part this name, with the same id=; leave id out, or append "
                    "again; nothing was published"
                )
            moved.append(name)
            for file in (name + ".idx", name):
                store.give_name(os.path.join(self.folder, file), os.path.join(self.path, file), durable=False)
        store.sync_folder(self.path)

    def clear(self, parts: Iterable[str]) -> None:
        """Removes both files of these parts, which are not published."""
        for name in parts:
            for file in (name, name + ".idx"):
                store.clear(os.path.join(self.folder, file))

    def put_file(self, part: str, number: int, content: bytes, made: list[str]) -> str:
        """Nothing is deleted."""
        raise UniRecordError(f"{self.path}: who appends deletes no rows")

    def clear_files(self, names: Iterable[str]) -> None:
        """There are none such."""

    def clear_replaced(self, named: set[str]) -> None:
        """Nothing is replaced."""
        raise UniRecordError(f"{self.path}: who appends replaces nothing")

    def abort(self, parts: Iterable[str]) -> None:
        """Gives all up that is not published."""
        self.release()

    def abandon(self) -> None:
        """The same."""
        self.release()

    def suspend(self) -> None:
        """The same: nothing is left to go on with."""
        self.release()

    def release(self) -> None:
        """Removes the folder of its own."""
        self._aside.discard()


def _what(found: Manifest | None) -> object:
    """What stays the same of a dataset as long as it is appended to."""
    return None if found is None else (found.id, found.schema, found.index)
