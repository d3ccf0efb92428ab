"""Where the parts of a directory go and how they are published together: on a disk, or in an object store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from ..snapshot.manifest import Manifest, PartEntry
from ..storage.schemes import location_of
from .append_claim import AppendClaim
from .directory_claim import DirectoryClaim, Unfinished
from .journal import Journal
from .part_writer import Delivery
from .single_writer import check_target_folder

__all__ = ["Publisher", "open_publisher"]


class Publisher(Protocol):
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

        Where the dataset is not replaced, the manifest that was there is kept as a version.
        """

    def put_file(self, part: str, number: int, content: bytes, made: list[str]) -> str:
        """Writes which rows of a part have been deleted; the file's name, with that number or a later one.

        ``made`` gets the name before the file is written.
        """

    def clear_files(self, names: Iterable[str]) -> None:
        """Removes such files again, unless they have been published, or may be."""

    @property
    def published(self) -> bool:
        """Whether the manifest stands where readers find it."""

    def clear_replaced(self, named: set[str]) -> None:
        """Removes all versions of the dataset that was replaced, and their parts but those that are named."""

    def clear(self, parts: Iterable[str]) -> None:
        """Removes both files of these parts."""

    def abort(self, parts: Iterable[str]) -> None:
        """Removes these parts, except what a published manifest names, and gives the directory up."""

    def abandon(self) -> None:
        """Gives the directory up, and removes all that a conversion and its workers have written there."""

    def suspend(self) -> None:
        """Gives the directory up and leaves what the journal names, for a writer that goes on."""

    def release(self) -> None:
        """Gives the directory up; what has been published stays."""


def open_publisher(
    path: str, dataset_id: bytes, *, overwrite: bool, append: bool, unfinished: Unfinished
) -> Publisher:
    """What publishes at ``path``.

    On a disk a DirectoryClaim holds the lock of the directory from then on; an AppendClaim, of who appends, holds it
    while it publishes.
    """
    if location_of(path).in_file_system:
        check_target_folder(path)
        if append:
            return AppendClaim(path, dataset_id, resumes=unfinished == "resume")
        return DirectoryClaim(path, overwrite=overwrite, unfinished=unfinished)
    from .object_claim import ObjectClaim  # with the event loop of requests, which few need

    return ObjectClaim(path, dataset_id, overwrite=overwrite, append=append, resumes=unfinished == "resume")
