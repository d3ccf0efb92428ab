"""What one writer does to a directory: the manifest that it has seen, files that it writes, and one publication."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ..errors import StaleError
from ..snapshot.dataset_path import resolve
from ..snapshot.manifest import Manifest, PartEntry
from ..snapshot.part_set import PartSet, Verify
from ..snapshot.versions import files_identity
from ..storage.schemes import location_of
from .directory_change import DirectoryChange
from .directory_claim import DirectoryClaim, Unfinished
from .journal import Journal
from .part_writer import Delivery
from .single_writer import check_target_folder

__all__ = ["OvertakenError", "Change", "changing", "check_columns", "begin_change", "opened"]


class Change(Protocol):
    """A directory that is being written. Nothing of it is seen before `publish`, and then all.

    Attributes:
        path: where the dataset is to be.
        folder: where parts are written, on a disk of this machine.
        place: where they are once they have been delivered: ``folder``, or elsewhere.
        deliver: takes the name of a part, both files of which are complete in ``folder``, to its place; picklable.
        before: the manifest that is there, None when there is none that can be read.
        last_kept: the newest version whose manifest is kept beside that one, 0 without one.
        parts: names of parts that are there.
        journal: what is done of a conversion that writes here.
        dropped: how many finished parts of an unfinished conversion were given up.
    """

    path: str
    folder: str
    before: Manifest | None
    last_kept: int
    parts: list[str]
    journal: Journal
    dropped: int

    @property
    def place(self) -> str: ...

    @property
    def deliver(self) -> Delivery: ...

    def begin(self, plan: dict[str, Any]) -> None:
        """Begins the journal of a conversion."""

    def earlier(self, what: dict[str, str]) -> dict[str, Any] | None:
        """The plan of a stopped conversion: of one that does ``what``, or else of another that is there; or None."""

    def go_on(self, plan: dict[str, Any]) -> None:
        """Takes that conversion over, with its id, its parts and its journal; StaleError when another run has."""

    def whole(self, entries: Sequence[PartEntry]) -> set[str]:
        """The names of those parts that are in their place, both files, as they were written."""

    def not_opened(self, entries: Sequence[PartEntry]) -> Sequence[PartEntry]:
        """Those of these parts that are to be opened before they are published."""

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""

    def lock_number(self) -> int:
        """The file descriptor that holds the lock: whoever inherits it holds it too."""

    def publish(self, after: Callable[[Manifest | None], Manifest]) -> None:
        """Publishes the manifest that ``after`` makes of the one that is there, durably and at once, its pieces first.

        ``after`` is called with what is there when this publishes, which may not be ``before``: it makes the change of
        that, or raises StaleError; in an object store again, when another one was faster. The manifest that was there
        is kept as a version; where the dataset is replaced, it goes with all of its versions and parts.
        """

    def put_file(self, part: str, number: int, content: bytes, made: list[str]) -> str:
        """Writes which rows of a part have been deleted; the file's name, with that number or a later one.

        ``made`` gets the name before the file is written.
        """

    @property
    def published(self) -> bool:
        """Whether the manifest stands where readers find it."""

    def clear(self, names: Iterable[str]) -> None:
        """Removes files that this has written, and the indexes of parts, unless they have been published, or may be."""

    def abort(self, parts: Iterable[str]) -> None:
        """Removes these parts, except what a published manifest names, and gives the directory up."""

    def abandon(self) -> None:
        """Gives the directory up, and removes all that a conversion and its workers have written there."""

    def suspend(self) -> None:
        """Gives the directory up and leaves what the journal names, for a writer that goes on."""

    def release(self) -> None:
        """Gives the directory up; what has been published stays."""


def begin_change(
    path: str, dataset_id: bytes, *, overwrite: bool, append: bool, unfinished: Unfinished
) -> Change:
    """What publishes at ``path``.

    On a disk a DirectoryClaim, of who makes or replaces a dataset, holds the directory from then on; a DirectoryChange,
    of who changes what is there (``append``), holds it while it publishes.
    """
    if location_of(path).in_file_system:
        check_target_folder(path)
        if append:
            return DirectoryChange(path, dataset_id, resumes=unfinished == "resume")
        return DirectoryClaim(path, overwrite=overwrite, unfinished=unfinished)
    from .object_change import ObjectChange  # with the event loop of requests, which few need

    return ObjectChange(path, dataset_id, overwrite=overwrite, append=append, resumes=unfinished == "resume")


# A dataset that is there, and what others may do to it while it is being changed.


class OvertakenError(Exception):
    """Another writer has published since the dataset was looked at, and the change does not follow from what it was."""


@contextmanager
def changing(path: str) -> Iterator[Change]:
    """A change of the dataset at ``path``, given up behind the block where that has not published it."""
    change = begin_change(path, secrets.token_bytes(16), overwrite=False, append=True, unfinished="refuse")
    try:
        change.keep()
        yield change
    finally:
        change.release()


@contextmanager
def opened(folder: str, change: Change, *, verify: Verify = "first") -> Iterator[PartSet]:
    """The parts of what is changed, opened, so that `gc` leaves them; OvertakenError where others have published."""
    parts = PartSet(resolve(folder), verify=verify, knows_deletions=True)
    try:
        if change.before is None or parts.snapshot.identity != files_identity(change.before):
            raise OvertakenError
        yield parts
    finally:
        parts.close()


def check_columns(path: str, now: Manifest, seen: Manifest) -> None:
    """StaleError where others have changed the columns of the dataset since it was ``seen``."""
    if (now.schema, now.index) != (seen.schema, seen.index):
        raise StaleError(
            f"{path}: another writer has published other columns while this one was at work; nothing of this one was "
            "published"
        )
