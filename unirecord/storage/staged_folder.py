"""A directory of files written under a temporary name: published by a rename, or discarded without a trace."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ..errors import BusyError, ExistsError
from . import local, system
from .claim import check_unclaimed
from .local import temporary_name
from .own_directory import check_own_folder
from .staged import StagedFile
from .system import Descriptor

__all__ = ["MARK", "StagedFolder", "check_replaceable", "is_being_written", "remove_tree"]

MARK: Final = ".unirecord.json"  # says that a directory is an export, and which files it wrote
_FEW_FILES: Final = 1_000  # are synced one by one; of more, all that the system holds is


class StagedFolder:
    """A directory being written. A live writer holds a lock inside; what a dead one left is removed.

    With ``overwrite``, an earlier export at ``path`` is replaced at the end, if it still holds its own files and no
    others: ExistsError for anything else that is there. BusyError names a live writer. Without ``make``, one that is
    there already is taken, with ``keep`` as its dead writer has left it: FileNotFoundError when there is none.
    """

    def __init__(self, path: str, *, overwrite: bool, make: bool = True, keep: bool = False) -> None:
        self.path = path
        self._make = make
        self.folder: str = temporary_name(path)
        self._old = temporary_name(path + ".old")
        self._overwrite = overwrite
        self.bytes: int = 0  # of all files, once published
        self._mark = self._take()
        try:
            self._mark.keep()
            if keep:
                return
            _remove_below(self.folder, keep=os.path.basename(self._mark.temporary))
            self._restore_old()
            check_replaceable(path, overwrite=overwrite)
        except BaseException:
            (self.leave if keep else self.discard)()
            raise

    def _take(self) -> StagedFile:
        while True:
            try:
                if not (self._make and local.make_directory(self.folder)):
                    check_own_folder(self.folder)
                mark = StagedFile(os.path.join(self.folder, MARK), claims=self.path)
            except FileNotFoundError:  # its writer has published or removed it at this moment
                if not self._make:
                    raise
                continue
            try:
                check_unclaimed(os.path.join(self.folder, MARK), self.path)  # it is being given its name
                if mark.has_name(mark.temporary):
                    return mark
            except BaseException:
                mark.discard()
                raise
            mark.discard()

    def _restore_old(self) -> None:
        """A writer died between its two renames: what it was to replace gets its name back."""
        if os.path.lexists(self._old):
            check_own_folder(self._old)
            if os.path.lexists(self.path):
                remove_tree(self._old)
            else:
                local.give_name(self._old, self.path)

    def lock_number(self) -> int:
        """The file descriptor that holds the lock: whoever inherits it holds it too."""
        return self._mark.fileno()

    @property
    def has_locks(self) -> bool:
        """Whether the file system has locks, which tell a live writer from a dead one."""
        return self._mark.is_locked

    def place(self, name: str) -> str:
        """Where the file ``name`` (with ``/``) is to be written; the folders above it are made."""
        *folders, _ = name.split("/")
        place = self.folder
        for folder in folders:
            place = os.path.join(place, folder)
            local.make_directory(place)
        return os.path.join(self.folder, name)

    def publish(self) -> int:
        """Makes all files durable, and then visible at once; the number of files."""
        names = sorted(_files_below(self.folder, self._own()))
        self.bytes = sum(os.lstat(os.path.join(self.folder, name)).st_size for name in names)
        self._sync(names)
        self._mark.append([json.dumps({"files": len(names), "names": _digest(names)}).encode() + b"\n"])
        self._mark.sync()
        self._mark.publish()
        if os.path.isdir(self.path):
            check_replaceable(self.path, overwrite=self._overwrite)
            local.give_name(self.path, self._old)
        local.give_name(self.folder, self.path)
        self.discard()
        return len(names)

    def _own(self) -> tuple[str, ...]:
        return MARK, os.path.basename(self._mark.temporary)

    def _sync(self, names: list[str]) -> None:
        if len(names) > _FEW_FILES:
            system.os_calls.sync()
            return
        folders = {os.path.dirname(os.path.join(self.folder, name)) for name in names} | {self.folder}
        for place in [*(os.path.join(self.folder, name) for name in names), *sorted(folders)]:
            file = Descriptor(place, os.O_RDONLY)
            try:
                local.sync(file.number, place)
            finally:
                file.close()

    @property
    def published(self) -> bool:
        """Whether the directory stands at ``path``, as the disk says."""
        return self._mark.has_name(os.path.join(self.path, MARK))

    def leave(self) -> None:
        """Gives it up as it is, for who takes it to go on with."""
        self._mark.discard()

    def discard(self) -> None:
        """Removes everything that was written, unless it has been published; what it was to replace stays."""
        if self._mark.fileno() < 0 or self._mark.place.process != os.getpid():
            return
        if self.published:
            remove_tree(self._old)
        else:
            keep = os.path.basename(self._mark.temporary)
            if self._mark.has_name(self._mark.temporary) or self._mark.has_name(
                os.path.join(self.folder, MARK)
            ):
                _remove_below(self.folder, keep=keep)
            with suppress(OSError):
                self._restore_old()
        self._mark.discard()
        if not os.path.lexists(os.path.join(self.folder, MARK)):
            local.remove_directory(self.folder)


def is_being_written(path: str) -> bool:
    """Whether a live writer holds the directory that is to be at ``path``, as far as locks tell; nothing is changed."""
    try:
        check_unclaimed(temporary_name(os.path.join(temporary_name(path), MARK)), path)
    except BusyError:
        return True
    return False


def check_replaceable(path: str, *, overwrite: bool) -> None:
    """Refuses what is at ``path``, unless it is to be replaced and is an earlier export with its own files alone."""
    if not os.path.lexists(path):
        return
    if not overwrite:
        raise ExistsError(
            f"{path}: there is something already; pass overwrite=True to replace an earlier export"
        )
    if os.path.islink(path) or not os.path.isdir(path):
        raise ExistsError(f"{path}: a file is in the way of a directory; choose another path")
    names = sorted(_files_below(path, (MARK,)))
    try:
        with open(os.path.join(path, MARK), encoding="utf-8") as file:
            written = json.load(file)
    except (OSError, ValueError, RecursionError):
        if not names and not os.listdir(path):
            return
        raise ExistsError(
            f"{path}: the directory is no earlier export, so it is not replaced; choose another path, or remove it"
        ) from None
    if not isinstance(written, dict) or written.get("names") != _digest(names):
        raise ExistsError(
            f"{path}: the directory holds other files than the export wrote ({len(names):,} now), so it is not "
            "replaced; choose another path, or remove it"
        )


def _digest(names: list[str]) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogateescape")).hexdigest()


def _files_below(folder: str, own: tuple[str, ...]) -> Iterator[str]:
    for place, entries in local.directories_below(folder):
        below = os.path.relpath(place, folder)
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False) and (below != "." or entry.name not in own):
                yield os.path.normpath(os.path.join(below, entry.name))


def _remove_below(folder: str, keep: str | None = None) -> None:
    """Removes what is in a directory; links are removed, never followed."""
    places = []
    with suppress(OSError):
        for place, entries in local.directories_below(folder):
            places.append(place)
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False) and (place != folder or entry.name != keep):
                    local.clear(entry.path)
    for place in reversed(places[1:]):
        local.remove_directory(place)


def remove_tree(folder: str) -> None:
    """Removes a directory and all in it, as far as that goes; links are removed, never followed."""
    with suppress(OSError):
        if stat.S_ISDIR(os.lstat(folder).st_mode):
            _remove_below(folder)
            local.remove_directory(folder)
