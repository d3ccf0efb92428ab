"""What one writer does to a directory: the manifest that it has seen, files that it writes, and one publication."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from ..errors import StaleError, UniRecordError
from ..sizes import many
from ..snapshot.dataset_path import resolve
from ..snapshot.manifest import Manifest, PartEntry
from ..snapshot.part_set import PartSet, Verify
from ..snapshot.readable import check_readable
from ..snapshot.versions import files_identity
from ..storage.local import FULL
from ..storage.location import Undecided
from ..storage.schemes import location_of
from .directory_change import DirectoryChange
from .directory_claim import DirectoryClaim, Unfinished
from .journal import Journal, entry_from_json, entry_to_json
from .part_writer import Delivery
from .single_writer import check_target_folder

__all__ = [
    "Change",
    "Interrupted",
    "OvertakenError",
    "PartTasks",
    "begin_change",
    "changing",
    "check_columns",
    "give_up",
    "opened",
    "say_kept",
]


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
        journal: what is done of a job that writes here, and can be gone on with.
        dropped: how many finished parts of an unfinished job were given up.
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
        """Begins the journal of a job."""

    def drop_earlier(self, what: dict[str, str]) -> None:
        """Removes what stopped jobs that do ``what`` have left, on a disk, where nobody else is at them."""

    def earlier(self, what: dict[str, str]) -> dict[str, Any] | None:
        """The plan of a stopped job: of one that does ``what``, or else of another one of the same source; or None."""

    def go_on(self, plan: dict[str, Any]) -> None:
        """Takes that job over, with its id, its parts and its journal; StaleError when another run has."""

    def published_before(self) -> bool:
        """Whether an earlier run of the job that is gone on with has published it, and did not live to say so."""

    def whole(self, entries: Sequence[PartEntry]) -> set[str]:
        """The names of those parts that are in their place, both files, as they were written."""

    def not_opened(self, entries: Sequence[PartEntry]) -> Sequence[PartEntry]:
        """Those of these parts that are to be opened before they are published."""

    def renew(self) -> None:
        """Has `before` be what is there now; StaleError where that is another dataset."""

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""

    def lock_number(self) -> int:
        """The file descriptor that holds the lock: whoever inherits it holds it too."""

    def publish(self, after: Callable[[Manifest | None], Manifest]) -> None:
        """Publishes the manifest that ``after`` makes of the one that is there, durably and at once, its pieces first.

        ``after`` is called with what is there when this publishes, which may not be ``before``: it makes the change of
        that, or raises StaleError; in an object store again, when another one was faster. The manifest that was there
        is kept as a version; where the dataset is replaced, it goes with all of its versions and parts. What ``after``
        raises comes through; ``before`` is then what it was called with.
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
def changing(path: str, own: bytes | None = None, *, resume: bool = False) -> Iterator[Change]:
    """A change of the dataset at ``path``, given up behind the block where that has not published it.

    ``own``: of what its parts' ids are made, where a job may be gone on with.
    """
    own = secrets.token_bytes(16) if own is None else own
    unfinished: Unfinished = "resume" if resume else "refuse"
    change = begin_change(path, own, overwrite=False, append=True, unfinished=unfinished)
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
            "published: run it again, of the columns that are there now"
        )


# What is left of a job that is stopped, and how the next one goes on with it.


class Interrupted(KeyboardInterrupt):
    """Ctrl-C came when some parts were finished; the message says how to go on."""


def give_up(
    change: Change,
    error: BaseException,
    noun: str = "finished part",
    retryable: tuple[type[UniRecordError], ...] = (UniRecordError,),
) -> str | None:
    """Leaves finished parts to a later run where that can go on, and says how; else removes all, and None.

    What ended it is raised again, with what is kept in the message. ``retryable``: the errors of the package behind
    which the same may come through when it is run again; others are of wrong data.
    """
    wrong_data = isinstance(error, UniRecordError) and type(error) not in retryable
    try:
        parts, tasks = len(change.journal.parts()), len(change.journal.tasks())
    except OSError:  # of a store that does not answer: what is finished there stays
        change.suspend()
        return None
    if change.published or wrong_data or not (parts or tasks):
        change.abandon()
        return None
    change.suspend()
    kept = (
        f"nothing was published, and {many(parts, noun, 'are')} kept: the same with --resume (resume=True in Python) "
        "goes on, without it begins anew"
    )
    say_kept(error, kept, change.path)
    return kept


def say_kept(error: BaseException, kept: str, path: str) -> None:
    """Raises what ended it again, with what is kept and how it goes on; what others have raised gets a note of it."""
    if isinstance(error, KeyboardInterrupt):
        raise Interrupted(f"interrupted; {kept}") from None
    if isinstance(error, UniRecordError):
        raise type(error)(f"{error}; {kept}") from error.__cause__ or error
    if isinstance(error, OSError) and error.errno is not None and not isinstance(error, Undecided):
        text, first = error.strerror or "", getattr(error.__cause__, "strerror", None)
        if error.errno in FULL:
            text = f"{os.strerror(error.errno)}; make room"
        elif first and text.startswith(first):
            text = first  # without what has been said of another stage
        raise OSError(error.errno, f"{text}; {kept}", error.filename or path) from error
    error.add_note(kept)


class PartTasks:
    """A job of a part a task: what is finished of it, by a text for each task that tells what its part is made of.

    With ``resume``, a stopped run that does the same is gone on with, and the parts that it has finished are there from
    the beginning. StaleError where what was stopped was another one of the same source, BusyError where one is at work.

    Attributes:
        id, first: what the names and ids of the parts are made of.
        entries: the finished parts, by what they are made of.
        resumed: which of them an earlier run had finished.
        goes_on: whether a stopped run is gone on with.
    """

    def __init__(
        self, change: Change, own: bytes, what: dict[str, str], *, resume: bool, journalled: bool = True
    ) -> None:
        """``what`` tells the job from others; one that is not ``journalled`` cannot be gone on with.

        ``own``: the id with which the change was begun.
        """
        assert change.before is not None
        self._change, self._journalled = change, journalled
        self.entries: dict[str, PartEntry] = {}
        self.resumed: set[str] = set()
        self._numbers: dict[str, int] = {}
        plan = change.earlier(what) if resume and journalled else None
        self.goes_on: bool = plan is not None and "published" not in plan
        if plan is not None and self.goes_on:
            differs = [name for name in what if plan["what"].get(name) != what[name]]
            if differs:
                raise StaleError(
                    f"{change.path}: what an earlier call has left is of another one: {differs[0]} differ; without "
                    "resume it begins anew"
                )
            change.go_on(plan)
        else:
            plan = {
                "id": own.hex(),
                "first": change.before.next_part,
                "what": what,
                "files": [],
            }
            if journalled:
                change.begin(plan)
            else:
                change.drop_earlier(what)
        self.id, self.first = bytes.fromhex(plan["id"]), int(plan["first"])
        self._next = 0
        if self.goes_on:
            self._take_over()

    def _take_over(self) -> None:
        journal = self._change.journal
        records = journal.tasks()
        self._next = max(records, default=-1) + 1
        found = {
            task: entry_from_json(record["parts"][0])
            for task, record in records.items()
            if "of" in record and len(record["parts"]) == 1
        }
        whole = self._change.whole(list(found.values()))
        for task, record in records.items():
            if task in found and found[task].name in whole:
                self.entries[record["of"]], self._numbers[record["of"]] = found[task], task
            else:
                journal.forget(task)
        self.resumed = set(self.entries)

    def number(self, of: str) -> int:
        """The number of the task that makes this: of one that there was, or the next one."""
        if of not in self._numbers:
            self._numbers[of], self._next = self._next, self._next + 1
        return self._numbers[of]

    def part_number(self, of: str) -> int:
        """The number of the part that is made of this."""
        return self.first + self.number(of)

    @property
    def next_part(self) -> int:
        """The number that the part after all of these has at least."""
        return self.first + self._next

    def finish(self, of: str, entry: PartEntry) -> None:
        """Says that this part is complete, and in its place."""
        if self._journalled:
            record = {"rows": entry.rows, "parts": [entry_to_json(entry)], "left_out": [], "of": of}
            self._change.journal.record(self.number(of), record)
        self.entries[of] = entry

    def drop_others(self, wanted: Iterable[str]) -> None:
        """Removes the finished parts that are made of nothing that is ``wanted`` now."""
        gone = set(self.entries).difference(wanted)
        for of in gone if self._journalled else ():
            self._change.journal.forget(self._numbers[of])
        self._change.clear([self.entries.pop(of).name for of in gone])
        self.resumed -= gone

    def check_rows(self, of: str, rows: int) -> None:
        """StaleError where a part that an earlier run has finished has another number of rows than it is to have."""
        entry = self.entries.get(of)
        if entry is not None and entry.rows != rows:
            raise StaleError(
                f"{self._change.path}: {entry.name}, which an earlier run has left, has {many(entry.rows, 'row')} in "
                f"place of {rows:,}; without resume it begins anew"
            )

    def check_resumed(self) -> None:
        """Opens what an earlier run has finished, as a reader does; errors of reading, which name the file."""
        assert self._change.before is not None
        resumed = [self.entries[of] for of in self.resumed]
        check_readable(self._change.place, self._change.before.schema, self._change.not_opened(resumed))

    def keeps(self, name: str) -> bool:
        """Whether a part, by its name, is finished, so that it is not written again of the same rows."""
        return any(entry.name == name for entry in self.entries.values())

    def end(self) -> None:
        """Ends it where nothing is to be done, with all that an earlier run has left."""
        if self._journalled:
            self._change.abandon()

    def give_up(self, error: BaseException) -> str | None:
        """Leaves what is finished to a later run, where that can go on; see `give_up`."""
        if self._journalled:
            return give_up(self._change, error)
        self._change.clear([entry.name for entry in self.entries.values()])
        return None
