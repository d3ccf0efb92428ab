"""A directory held by one writer, in place or under a temporary name; its earlier versions, and what others append."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from shlex import quote
from typing import Any, Final, Literal

from ..errors import BusyError, ExistsError, MissingError, UniRecordError
from ..sizes import many
from ..snapshot import manifest
from ..snapshot.dataset_path import no_directory
from ..snapshot.deletions import NAME as DELETION
from ..snapshot.deletions import deletion_name
from ..snapshot.manifest import (
    PART_NAME,
    PIECE_NAME,
    Manifest,
    PartEntry,
    divided,
    files_with_rows,
    keep_pieces,
)
from ..snapshot.manifest_fields import DELETION_ENDING
from ..snapshot.part import is_whole
from ..snapshot.versions import (
    KEPT_NAME,
    files_of,
    kept_name,
    kept_versions,
    parts_of,
    publication_of,
    read_newest,
)
from ..storage import local as store
from ..storage.claim import check_unclaimed, unless_leased
from ..storage.own_directory import check_own_folder
from ..storage.publications import note_publication
from ..storage.schemes import location_of, read_file
from ..storage.staged import StagedFile, StagedFolder, is_being_written, write_staged
from .journal import JOURNAL_FILE, PLAN_FILE, Journal, owns, plan_of
from .part_writer import Delivery, stays

__all__ = [
    "DirectoryClaim",
    "KEPT",
    "Unfinished",
    "check_directory_free",
    "check_only_grew",
    "clear_dead_appends",
    "clear_old_appends",
    "clear_parts",
    "clear_stale",
    "keep_version",
    "named_by_versions",
    "new_folder",
    "plans_of_appends",
    "prune",
    "put_pieces",
    "finish_append",
    "take_append",
    "with_indexes",
    "with_target",
]


# The folders in a directory that writers who append have their parts in until they publish them.


_FOLDER: Final = re.compile(r"\.(append-[0-9a-f]{32})\.tmp")
_TARGET: Final = "to"  # in the plan: the id of the dataset that is appended to

_ATTEMPTS: Final = 100


def new_folder(path: str) -> StagedFolder:
    """One that no other writer has."""
    for _ in range(_ATTEMPTS):
        with suppress(BusyError):  # before it was locked, another one has taken it for a dead writer's
            return StagedFolder(os.path.join(path, f"append-{secrets.token_hex(16)}"), overwrite=False)
    raise BusyError(f"{path}: {_ATTEMPTS} folders that were made here to append were taken by other writers")


def with_target(plan: dict[str, Any], target: bytes) -> dict[str, Any]:
    """The plan of a conversion that appends to the dataset of this id."""
    return {**plan, _TARGET: target.hex()}


def plans_of_appends(path: str, target: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    """The conversions that append to this dataset, at work or stopped: where, and the plan."""
    for place, journal in _folders(path, location_of(path).names(path)):
        plan = journal.plan()
        if plan is not None and plan.get(_TARGET) == target.hex() and isinstance(plan.get("what"), dict):
            yield place, plan


def take_append(place: str) -> StagedFolder | None:
    """Such a folder as its writer has left it; None when that lives, or it has gone."""
    try:
        return StagedFolder(place, overwrite=False, make=False, keep=True)
    except (BusyError, OSError):
        return None


def _folders(path: str, names: Iterable[str]) -> list[tuple[str, Journal]]:
    # Names of parts, of which there may be very many, do not begin so.
    found = map(_FOLDER.fullmatch, (name for name in names if name.startswith(".")))
    return [(os.path.join(path, one[1]), Journal(os.path.join(path, one[0]))) for one in found if one]


def clear_dead_appends(
    path: str, names: Iterable[str], before: Manifest | None = None, *, drops: bool = False
) -> int:
    """Removes what dead writers have left of appending to the directory at ``path``, in which these ``names`` are.

    What a conversion can go on with stays, unless it ``drops``: the number of finished parts that it did drop. With
    ``before``, the manifest that is there, of what that has published the plan alone stays, and nothing of what was to
    be appended to another dataset.
    """
    dropped = 0
    for place, journal in _folders(path, names):
        plan = journal.plan()
        is_of_other = plan is not None and before is not None and plan.get(_TARGET) != before.id.hex()
        is_published = (
            plan is not None
            and before is not None
            and journal.has_published(partial(files_with_rows, before))
        )
        is_half_cleared = journal.published() and _has_parts(journal.folder)  # killed when it had said so
        if _is_begun(journal) and not (is_of_other or is_published or is_half_cleared or drops):
            continue
        aside = take_append(place)
        if aside is None:
            continue
        if is_published and before is not None:
            finish_append(journal, partial(files_with_rows, before))
        elif is_half_cleared:
            journal.note_published(list)
            clear_parts(journal.folder)
        if is_of_other or drops or not _is_begun(journal):
            dropped += len(journal.parts())
            clear_parts(journal.folder)
            aside.discard()
        aside.leave()
    return dropped


def _is_begun(journal: Journal) -> bool:
    """Whether there is a plan, be it one that cannot be read now."""
    return location_of(journal.folder).is_taken(os.path.join(journal.folder, journal.plan_name))


def clear_old_appends(path: str, before: float, *, is_dry: bool) -> tuple[int, int]:
    """Removes what conversions that were stopped have left to append, where nothing has changed since this time.

    Finished parts and bytes of that.
    """
    parts = size = 0
    for place, journal in _folders(path, location_of(path).names(path)):
        found = [
            location_of(place).find(os.path.join(journal.folder, name)) for name in _names(journal.folder)
        ]
        files = [one for one in found if one is not None]
        if (
            not _is_begun(journal)
            or is_being_written(place)
            or any(one.version[2] / 1e9 > before for one in files)
        ):
            continue
        finished = len(journal.parts())
        aside = None if is_dry else take_append(place)
        if aside is not None:
            clear_parts(journal.folder)
            aside.discard()
        elif not is_dry:
            continue
        parts, size = parts + finished, size + sum(one.size for one in files)
    return parts, size


def finish_append(journal: Journal, listed: Callable[[], Sequence[PartEntry]]) -> None:
    """Has the plan alone stay of a conversion that has published some of the parts that are listed, and say so."""
    if journal.has_published(listed):
        journal.note_published(listed)
        clear_parts(journal.folder)


def _has_parts(folder: str) -> bool:
    return any(PART_NAME.fullmatch(name.removesuffix(".idx")) for name in _names(folder))


def clear_parts(folder: str, keep: Container[str] = ()) -> None:
    """Removes the parts in such a folder but these."""
    for name in _names(folder):
        if PART_NAME.fullmatch(name.removesuffix(".idx")) and name.removesuffix(".idx") not in keep:
            store.clear(os.path.join(folder, name))


def _names(folder: str) -> list[str]:
    try:
        return location_of(folder).names(folder)
    except FileNotFoundError:  # its writer has removed it
        return []


def with_indexes(names: Iterable[str]) -> Iterator[str]:
    """The files of these names: parts are two, all others one."""
    for name in names:
        yield name
        if PART_NAME.fullmatch(name):
            yield name + ".idx"


# The manifests of earlier versions in a directory on a disk: kept before a newer one is published, and
# removed.


KEPT: Final = 32  # versions before the newest that a publication keeps


def keep_version(folder: str, number: int) -> None:
    """Has the manifest in its place, of version ``number``, stay under a name of its own when the next one comes.

    It is durable when this returns. Where the file system has no hard links, it is a copy.
    """
    newest, kept = os.path.join(folder, manifest.NAME), os.path.join(folder, kept_name(number))
    if not store.give_second_name(newest, kept):
        _copy(newest, kept)
    store.sync_folder(folder)


def _copy(newest: str, kept: str) -> None:
    write_staged(kept, newest, read_file(newest, manifest.MAX_BYTES))


def clear_stale(folder: str, versions: Iterable[int], newest: Manifest) -> None:
    """Removes manifests that are of no version of this dataset: of what was overwritten, or published again since."""
    first = publication_of(newest, os.path.join(folder, manifest.NAME)).first
    for number in versions:
        if not first <= number <= newest.generation:
            store.clear(os.path.join(folder, kept_name(number)))


def named_by_versions(folder: str, versions: Iterable[int], newest: Manifest) -> set[str] | None:
    """The parts that the kept versions of a dataset name; None when one cannot be read, and may name any."""
    named: set[str] = set()
    for number in versions:
        try:
            found = manifest.read(os.path.join(folder, kept_name(number)))
        except FileNotFoundError:
            continue
        except (OSError, UniRecordError):
            return None
        if found.id == newest.id:
            named |= files_of(found)
    return named


def _pieces_of_versions(folder: str, versions: Iterable[int]) -> set[str] | None:
    """The pieces that the kept versions name, which are not read; None when one cannot be read, and may name any."""
    named: set[str] = set()
    for number in versions:
        try:
            named |= manifest.pieces_named(os.path.join(folder, kept_name(number)))
        except FileNotFoundError:
            continue
        except (OSError, UniRecordError):
            return None
    return named


def check_only_grew(folder: str) -> None:
    """UniRecordError where the newest manifest is lost, and the parts that are there cannot all be the dataset's.

    They may be, where each version that is kept names all parts of the one before, in the same order.
    """
    before: tuple[str, ...] = ()
    names = location_of(folder).names(folder)
    rows_have_gone = any(DELETION.fullmatch(name) for name in names)
    if rows_have_gone and not kept_versions(names):
        raise UniRecordError(
            f"{folder}: rows have been deleted, and the manifest that says which is lost, and all versions; open the "
            "parts by name to have all of their rows"
        )
    kept = [os.path.join(folder, kept_name(number)) for number in kept_versions(names)]
    for name in kept:
        found = manifest.read(name)
        parts = tuple(part.name for part in found.parts)
        if found.layouts:
            raise UniRecordError(
                f"{folder}: columns were added, dropped or renamed, or values corrected, before the manifest was lost, "
                f"which does not follow from the parts that are there; copy that of the newest version that is kept, "
                f"{kept[-1]}, to {manifest.NAME}"
            )
        if rows_have_gone or parts[: len(before)] != before:
            raise UniRecordError(
                f"{folder}: parts or rows have come and gone before the manifest was lost, so it does not follow from "
                f"those that are there; copy the manifest of the newest version that is kept, {kept[-1]}, to "
                f"{manifest.NAME}"
            )
        before = parts
    if kept and not {name for name in names if PART_NAME.fullmatch(name)} - set(before):
        raise UniRecordError(
            f"{folder}: the version whose manifest is lost had no part that the one before has not, so it may have had "
            "other columns, or corrected values, which do not follow from the parts that are there; copy that of the "
            f"newest version that is kept, {kept[-1]}, to {manifest.NAME}"
        )


def put_pieces(folder: str, pieces: Mapping[str, bytes]) -> None:
    """Writes the pieces that a manifest is to name; they are durable when this returns."""
    for name, content in pieces.items():
        write_staged(os.path.join(folder, name), os.path.join(folder, manifest.NAME), content)
    if pieces:
        store.sync_folder(folder)


def prune(folder: str, newest: Manifest) -> None:
    """Removes the version that is one too many, once ``newest`` is published, where that names all of its parts.

    A version that alone names parts stays, as does one that a reader holds: `unirecord gc` looks after those.
    """
    path = os.path.join(folder, kept_name(newest.generation - KEPT - 1))
    try:
        if newest.generation > KEPT + 1 and parts_of(manifest.read(path)) <= parts_of(newest):
            unless_leased(path)
    except (OSError, UniRecordError):
        return


Unfinished = Literal["resume", "drop", "refuse"]

_PART_FILE = re.compile(
    rf"((?:{PART_NAME.pattern})(?:{DELETION_ENDING.pattern})?|parts-[0-9a-f]{{32}})(\.idx)?"
)
_TEMPORARY = re.compile(
    rf"\.((?:{PART_NAME.pattern})(\.idx|{DELETION_ENDING.pattern})?|parts-[0-9a-f]{{32}}|manifest(-[0-9]{{6,18}})?\.json|{JOURNAL_FILE.pattern})\.tmp"
)


class DirectoryClaim:
    """Who has it writes into ``folder``. The manifest to come holds the lock, under its temporary name.

    ``before``: the manifest that is there, None when there is none that can be read; ``last_kept``: the newest version
    whose manifest is beside it, 0 without one. ``parts``: names of the parts
    that are there. ``unfinished`` says what becomes of the finished parts that a stopped conversion has left: with
    ``"resume"`` they are among them, with ``"drop"`` removed, with ``"refuse"`` (where nothing is to be replaced) an
    ExistsError. ``dropped`` is how many were removed.
    """

    journal: Journal
    before: Manifest | None
    parts: list[str]
    last_kept: int

    deliver: Delivery = staticmethod(stays)  # they are where they belong

    def __init__(
        self, path: str, *, overwrite: bool = False, append: bool = False, unfinished: Unfinished = "refuse"
    ) -> None:
        self.path = path
        self.folder: str = path
        self.dropped: int = 0
        self._keeps = append
        self._unfinished = unfinished if unfinished != "refuse" or not (overwrite or append) else "drop"
        resume = unfinished == "resume"
        check_directory_free(path, overwrite=overwrite, append=append, resume=resume)
        self.manifest: StagedFile = self._take(append)
        try:
            self.journal = Journal(self.folder)
            if self.in_place:
                check_directory_free(path, overwrite=overwrite, append=append, resume=resume)
                self._clear_abandoned()
            self.before = self._read_before(damaged_is_fine=overwrite)
            if self.before is not None:
                self.journal.note_published(partial(files_with_rows, self.before))
                if not (overwrite or append or self.journal.published()):
                    raise ExistsError(_is_there(path))
            self.parts = self._clear_rest()
        except BaseException:
            self.journal = Journal(self.folder)  # an interrupt may have come before it
            if self.journal.parts():  # not this one's to give up
                self.suspend()
            else:
                self.release()
            raise

    @property
    def in_place(self) -> bool:
        """Whether the directory was there before."""
        return self.folder == self.path

    def _take(self, append: bool) -> StagedFile:
        final = os.path.join(self.path, manifest.NAME)
        while True:
            is_there = location_of(self.path).is_directory(self.path)
            self.folder = self.path if is_there else store.temporary_name(self.path)
            place = os.path.join(self.folder, manifest.NAME)
            try:
                if not self.in_place and not store.make_directory(self.folder):
                    check_own_folder(self.folder)
                staged = StagedFile(place, claims=self.path, like=final)
            except FileNotFoundError:  # its writer has published or removed it at this moment
                continue
            try:
                check_unclaimed(place, self.path)  # it is out, and its writer is removing old parts
                moved = not staged.has_name(staged.temporary)
                if not moved and (self.in_place or not location_of(self.path).is_taken(self.path)):
                    return staged
            except BaseException:
                staged.discard()
                raise
            staged.discard()

    def _read_before(self, *, damaged_is_fine: bool) -> Manifest | None:
        if not self.in_place:
            return None
        try:
            return read_newest(self.folder)
        except FileNotFoundError:
            return None
        except UniRecordError:
            if not damaged_is_fine:
                raise
            return None

    def _drop(self, journal: Journal) -> None:
        """Counts what a stopped conversion has left, which is given up; refuses to where that was not asked for."""
        parts = len(journal.parts())
        if parts and self._unfinished == "refuse":
            raise ExistsError(
                f"{self.path}: a conversion that was stopped has left {many(parts, 'finished part')}: the "
                "same `unirecord write` with --resume (resume=True in Python) goes on with it; pass overwrite=True to "
                "give that up"
            )
        self.dropped += parts

    def _clear_rest(self) -> list[str]:
        """Removes what dead writers left, but no finished part while no manifest tells which are the dataset's."""
        names = location_of(self.folder).names(self.folder)
        is_begun = self.journal.plan_name in names
        if is_begun and self._unfinished != "resume":
            self._drop(self.journal)
        versions = kept_versions(names)
        self.last_kept = max(versions, default=0)
        kept, owns = set(self.journal.parts() if is_begun else ()), self.journal.owner()
        self._clear_temporary(names)
        ends_appends = not self._keeps and self._unfinished == "drop"
        self.dropped += clear_dead_appends(self.folder, names, self.before, drops=ends_appends)
        listed = set() if self.before is None else files_of(self.before)
        # Most names are those of listed parts, and need not be looked at one by one.
        stems = {name.removesuffix(".idx") for name in names}
        parts = sorted((stems & listed) | set(filter(_PART_FILE.fullmatch, stems - listed)))
        if not self.in_place and manifest.NAME in names:
            store.clear(os.path.join(self.folder, manifest.NAME))
        if self._unfinished != "resume":
            if not (self._keeps and self.journal.published()):
                self.journal.clear()
            kept = set()
        self._foreign = {part for part in parts if part not in kept and not owns(part)}
        if self.before is not None:
            listed |= kept
            clear_stale(self.folder, versions, self.before)
            others = [part for part in parts if part not in listed]
            if all(map(PIECE_NAME.fullmatch, others)):
                named = _pieces_of_versions(self.folder, versions) if others else set()
            else:
                named = named_by_versions(self.folder, versions, self.before)
            self._remove(part for part in others if named is not None and part not in named)
        else:
            lost = {part for part in parts if part not in kept and (owns(part) or not self.in_place)}
            self._remove(lost)
            parts = [part for part in parts if part not in lost]
        return parts

    def _clear_abandoned(self) -> None:
        """Removes what a dead first writer left under the temporary name before somebody made the directory."""
        folder = store.temporary_name(self.path)
        location = location_of(folder)
        if not location.is_directory(folder):
            return
        try:
            check_own_folder(folder)
            lock = StagedFile(os.path.join(folder, manifest.NAME), claims=self.path)
        except (BusyError, OSError):
            return
        try:
            self._drop(Journal(folder))
            for name in location.names(folder):
                ours = (
                    _PART_FILE.fullmatch(name) or _TEMPORARY.fullmatch(name) or JOURNAL_FILE.fullmatch(name)
                )
                if ours or name == manifest.NAME:
                    store.clear(os.path.join(folder, name))
        finally:
            lock.discard()
        with suppress(OSError):
            store.remove_directory(folder)

    def begin(self, plan: dict[str, Any]) -> None:
        """Begins the journal of a conversion."""
        self.journal.begin(plan)

    def drop_earlier(self, what: dict[str, str]) -> None:
        """Nothing: what is there is this one's with the directory."""

    def earlier(self, what: dict[str, str]) -> dict[str, Any] | None:
        """The plan of a stopped conversion, whatever it does; None without one."""
        return self.journal.plan()

    def go_on(self, plan: dict[str, Any]) -> None:
        """It is this one's with the directory."""

    def published_before(self) -> bool:
        """Never of what is gone on with: of what was published the plan says so."""
        return False

    def whole(self, entries: Sequence[PartEntry]) -> set[str]:
        """The names of those parts that are in their place, both files, as they were written."""
        return {entry.name for entry in entries if is_whole(self.folder, entry)}

    def not_opened(self, entries: Sequence[PartEntry]) -> Sequence[PartEntry]:
        """All of them, which costs little on a disk."""
        return entries

    def renew(self) -> None:
        """Nothing: nobody else publishes while the directory is held."""

    @property
    def place(self) -> str:
        """Where parts are once they are complete."""
        return self.folder

    def keep(self) -> None:
        """Says that a writer has been made that will close or abort it."""
        self.manifest.keep()

    def lock_number(self) -> int:
        """The file descriptor that holds the lock: whoever inherits it holds it too."""
        return self.manifest.fileno()

    def publish(self, after: Callable[[Manifest | None], Manifest]) -> None:
        """Writes and syncs the manifest, its pieces first, and gives it its name, and the directory, if that is new.

        The one before is kept, unless the dataset is replaced: then all of it goes.
        """
        found, pieces = divided(after(self.before), self.before)
        keeps = self._keeps and self.before is not None
        try:
            put_pieces(self.folder, pieces)
            self.manifest.append([manifest.encode(found)])
            self.manifest.sync()
            if keeps and self.before is not None:
                keep_version(self.folder, self.before.generation)
            self.manifest.publish()
            if not self.in_place:
                store.give_name(self.folder, self.path)
        finally:
            if pieces:
                self.clear(pieces)
        note_publication(self.path)
        keep_pieces(self.path, found)
        if keeps:
            prune(self.folder, found)
        else:
            self._clear_replaced(files_of(found))

    def put_file(self, part: str, number: int, content: bytes, made: list[str]) -> str:
        """Writes which rows of a part have been deleted; the file's name, durable once the folder is synced."""
        name = deletion_name(part, number)
        made.append(name)
        write_staged(os.path.join(self.folder, name), os.path.join(self.folder, manifest.NAME), content)
        return name

    def clear(self, names: Iterable[str]) -> None:
        """Removes these files, unless they have been published."""
        if not self.published:
            self._remove(names)

    @property
    def published(self) -> bool:
        """Whether the manifest stands where readers find it, as the disk says."""
        return self.manifest.has_name(os.path.join(self.path, manifest.NAME))

    def _remove(self, names: Iterable[str]) -> None:
        for file in with_indexes(names):
            store.clear(os.path.join(self.folder, file))

    def _clear_replaced(self, named: set[str]) -> None:
        """Removes the versions of the dataset that was replaced, and what is not named of the parts that were there."""
        for number in kept_versions(location_of(self.path).names(self.path)):
            store.clear(os.path.join(self.path, kept_name(number)))
        self._remove(part for part in self.parts if part not in named)

    def abort(self, parts: Iterable[str]) -> None:
        """Removes these parts, except what a published manifest names, and gives the directory up."""
        self.manifest.given_up = True
        try:
            self.clear(set(parts) - self._named())
        finally:
            self.release()

    def _named(self) -> set[str]:
        """The parts that the manifest in its place names; all, if that cannot be read."""
        if not self.in_place:
            return set()
        try:
            return files_of(read_newest(self.folder))
        except FileNotFoundError:
            return set()
        except (OSError, UniRecordError):
            return set(location_of(self.folder).names(self.folder))

    def abandon(self) -> None:
        """Gives the directory up, and removes all that a conversion and its workers have written there."""
        self.manifest.given_up = True
        try:
            if not self.published:
                names = location_of(self.folder).names(self.folder)
                keep = self._named() | (self._foreign if self.in_place else set())
                self._remove({found[1] for name in names if (found := _PART_FILE.fullmatch(name))} - keep)
                self._clear_temporary(names)
        finally:
            self.release()

    def _clear_temporary(self, names: Iterable[str]) -> None:
        for name in names:
            if _TEMPORARY.fullmatch(name) and name != os.path.basename(self.manifest.temporary):
                store.clear(os.path.join(self.folder, name))

    def suspend(self) -> None:
        """Gives the directory up and leaves what the journal names, for a writer that goes on."""
        self.manifest.given_up = True
        self.manifest.discard()

    def release(self) -> None:
        """Gives the directory up; one that is new and was not published is removed."""
        self.manifest.given_up = True
        (Journal(self.path) if self.published else self.journal).clear()
        if not self.in_place and not self.published:
            if self.manifest.published:
                store.clear(os.path.join(self.folder, manifest.NAME))
            self.manifest.discard()
            store.remove_directory(self.folder)
        self.manifest.discard()


def check_directory_free(path: str, *, overwrite: bool, append: bool = False, resume: bool = False) -> None:
    """Refuses a path at which there is something that is not to be replaced, or nothing to append to.

    ``resume``: what a stopped conversion may just have published is no obstacle to it.
    """
    location = location_of(path)
    if not location.is_directory(path):
        if append:
            raise no_directory(
                path, ", so no such dataset to change or append to", "; use Writer to make one"
            )
        if location.is_taken(path):
            raise ExistsError(
                f"{path}: a file is in the way; a path that does not end in .urec is a directory of parts"
            )
        return
    # A dataset that is to be changed needs no look at its names, which may be very many.
    if append and location.is_taken(os.path.join(path, manifest.NAME)):
        return
    names = location.names(path)
    plans = _plans(path, names)  # what a stopped conversion has left is no dataset without its manifest
    parts = sorted(
        name
        for name in names
        if (found := _PART_FILE.fullmatch(name)) and not any(owns(plan, found[1]) for plan in plans)
    )
    if manifest.NAME in names:
        if not overwrite and not (resume and plans):
            raise ExistsError(_is_there(path))
        return
    if append and not parts:
        raise MissingError(
            f"{path}: there is no {manifest.NAME}, so no dataset to append to; use Writer to make one"
        )
    if append or (parts and not overwrite):
        raise (MissingError if append else ExistsError)(
            f"{path}: there are parts, such as {parts[0]}, and no {manifest.NAME} that names them: it was lost, or a "
            + (
                f"writer died; run `unirecord repair {quote(path)}` to make it anew from the parts, or pass "
                "overwrite=True to Writer to replace them"
                if location.in_file_system
                else "writer died, or is at work; pass overwrite=True to Writer to write beside them"
            )
        )
    ours = (_TEMPORARY, JOURNAL_FILE, KEPT_NAME)
    others = sorted(name for name in names if not any(p.fullmatch(name) for p in (_PART_FILE, *ours)))
    if others and not parts:
        raise ExistsError(
            f"{path}: the directory holds other files, such as {others[0]!r}; choose an empty or new one"
        )


def _is_there(path: str) -> str:
    ways = "pass overwrite=True to replace it, or use unirecord.append() to add to it"
    return f"{path}: a dataset is there already; {ways}"


def _plans(path: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """The plans of conversions that were stopped, as far as they can be read."""
    found = []
    for name in names:
        if PLAN_FILE.fullmatch(name):
            with suppress(OSError, UniRecordError):
                found.append(plan_of(read_file(os.path.join(path, name), manifest.MAX_BYTES)))
    return [plan for plan in found if plan is not None]
