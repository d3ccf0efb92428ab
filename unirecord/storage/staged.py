"""Files and folders that are written beside their target, and become it by one rename."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from glob import escape, glob
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..errors import BusyError, ExistsError, MissingError
from . import local, system
from .claim import ClaimPlace, check_unclaimed, clear_dead, holders, lock
from .local import located, read_at, same_file, temporary_name
from .own_directory import check_own_folder
from .system import Buffer, Descriptor

__all__ = [
    "Attempts",
    "Buckets",
    "MARK",
    "ORPHAN_SECONDS",
    "Spool",
    "StagedFolder",
    "check_replaceable",
    "is_being_written",
    "linked",
    "new_text",
    "remove_tree",
    "temporary_folder",
]


# A folder for files that nobody is to see, removed with all that is in it.


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[str]:
    """Give the path of an empty folder in ``parent``, or where the system keeps temporary files; then remove it."""
    with tempfile.TemporaryDirectory(prefix="unirecord-", dir=parent) as folder:
        yield folder


# Records that are put aside in files of a temporary folder, one for each bucket, and taken bucket by bucket.


class Buckets:
    """Records that are put aside in files, one for each bucket, or in memory when there is one bucket."""

    def __init__(self, folder: str | None, name: str, dtype: np.dtype[Any]) -> None:
        self._folder, self._name, self._dtype = folder, name, dtype
        self._here: list[NDArray[Any]] = []

    def add(self, buckets: NDArray[np.int64], records: NDArray[Any]) -> None:
        """Puts each record into its bucket."""
        if not len(records):
            return
        if self._folder is None:
            self._here.append(records)
            return
        order = np.argsort(buckets, kind="stable")
        found, starts = np.unique(buckets[order], return_index=True)
        for bucket, some in zip(found.tolist(), np.split(records[order], starts[1:]), strict=True):
            with open(self._path(bucket), "ab") as file:
                file.write(some.tobytes())

    def take(self, bucket: int) -> NDArray[Any]:
        """All records of a bucket, once."""
        if self._folder is None:
            found, self._here = self._here, []
            return np.concatenate(found) if found else np.empty(0, self._dtype)
        try:
            with open(self._path(bucket), "rb") as file:
                content = np.frombuffer(file.read(), self._dtype)
        except FileNotFoundError:
            return np.empty(0, self._dtype)
        os.unlink(self._path(bucket))
        return content

    def pieces(self, bucket: int, most: int) -> Iterator[NDArray[Any]]:
        """All records of a bucket, once, in the order in which they were added; of a file at most so many at a time."""
        if self._folder is None or not os.path.exists(self._path(bucket)):
            yield self.take(bucket)
            return
        with open(self._path(bucket), "rb") as file:
            while content := file.read(most * self._dtype.itemsize):
                yield np.frombuffer(content, self._dtype)
        os.unlink(self._path(bucket))

    def _path(self, bucket: int) -> str:
        assert self._folder is not None
        return os.path.join(self._folder, f"{self._name}-{bucket}")


# Other names for files that have none of their own yet, for who opens them by names that belong together.


@contextmanager
def linked(files: Mapping[str, str]) -> Iterator[str]:
    """Give the path of a temporary folder in which each name leads to a file, ``{name: path}``; then remove it."""
    with temporary_folder() as folder:
        for name, path in files.items():
            os.symlink(os.path.abspath(path), os.path.join(folder, name))
        yield folder


# Files written under temporary names: appended to, synced, published under their own name, or discarded.


_WRITEBACK_BYTES = 8 << 20  # appended before the disk is set to work on them
_NO_OWNERS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)  # what file systems without them say
_NO_FOLDER = {
    errno.ENOENT: "the folder to write to does not exist; make it first",
    errno.ENOTDIR: "not a directory, so nothing can be written into it",
}


class StagedFile:
    """A file being written under its temporary name. Not published until ``publish``; ``discard`` leaves no trace.

    With ``claims``, the dataset that is written, the temporary file also says who may write: a live writer holds a
    lock on it, and what a dead one left is removed; BusyError names a live one. ``like``: a file whose owner and mode
    the new one gets, if it is there. A file is synced once and whole: after a failed sync it can only be discarded.
    """

    _file: Descriptor | None = None

    def __init__(self, path: str, *, claims: str | None = None, like: str | None = None) -> None:
        self.path = path
        self.temporary: str = temporary_name(path)
        self.size: int = 0
        self.given_up: bool = True  # nobody has it yet: `keep`
        self.place: ClaimPlace = ClaimPlace()
        self._begun = 0  # bytes that the disk has been set to work on
        self._name = self.temporary
        holders.add(self)
        try:
            there = None if like is None else _stat(like)
            self._create(claims, 0o666 if there is None else 0o600)
            if there is not None:
                self._make_like(there)
        except OSError as error:
            self.discard()
            if error.errno in _NO_FOLDER:
                folder = os.path.dirname(path) or "."
                raise type(error)(error.errno, _NO_FOLDER[error.errno], folder) from None
            raise located(error, self.temporary) from error
        except BaseException:
            self.discard()
            raise

    def _create(self, claims: str | None, mode: int) -> None:
        """A new file, never one that was there: that one may have another owner, or be open elsewhere."""
        while True:
            if claims is not None:
                clear_dead(self.temporary, claims)
            try:
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                self._file = Descriptor(self.temporary, flags, mode)
            except FileExistsError:
                if claims is None:
                    system.os_calls.unlink(self.temporary)
                continue
            if claims is None:
                return
            held = lock(self._file, self.temporary)
            if held is not False and same_file(os.fstat(self._file.number), self.temporary):
                return
            self._file.close()  # another one took it for a dead writer's in between, and has removed it

    def _make_like(self, there: os.stat_result) -> None:
        """Gives the new file the owner and the mode of ``there``, and nobody more rights than that one gave."""
        mine, mode = os.fstat(self.fileno()), there.st_mode & 0o777
        if (mine.st_uid, mine.st_gid) != (there.st_uid, there.st_gid):
            try:
                system.os_calls.fchown(self.fileno(), there.st_uid, there.st_gid)
            except OSError as error:
                if error.errno not in _NO_OWNERS:
                    raise
                if mine.st_gid != there.st_gid:  # its group is another one: that gets what all others have
                    mode &= ~0o070 | (mode & 0o007) << 3
        try:
            system.os_calls.fchmod(self.fileno(), mode)
        except OSError as error:
            if error.errno not in _NO_OWNERS:
                raise

    def fileno(self) -> int:
        """The open file's number; -1 when it has been closed."""
        return -1 if self._file is None else self._file.number

    @property
    def is_locked(self) -> bool:
        """Whether it holds a lock; not, where the file system has none."""
        return self._file is not None and self._file.locked

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Writes all bytes of all buffers at the end of the file.

        The disk is set to work on those before, so that it has little left to do when the file is synced.
        """
        if self.size - self._begun >= _WRITEBACK_BYTES:
            system.os_calls.start_writeback(self.fileno(), self._begun, self.size - self._begun)
            self._begun = self.size
        left = sum(memoryview(buffer).nbytes for buffer in buffers)
        while left:
            written = self._call(system.os_calls.writev, buffers)
            self.size += written
            left -= written
            if left:  # a signal came, or the disk runs full
                buffers = _after(buffers, written)

    def write_at(self, offset: int, buffer: Buffer) -> None:
        """Writes all bytes of ``buffer`` at ``offset``, which may lie beyond the end; what is skipped reads as zero."""
        view = memoryview(buffer).cast("B")
        while len(view):
            written = self._call(system.os_calls.pwrite, view, offset)
            offset += written
            view = view[written:]
        self.size = max(self.size, offset)

    def read_at(self, offset: int, size: int) -> bytes:
        """Bytes that have been written; OSError when the file has been cut since."""
        raw = read_at(self.fileno(), offset, size)
        if len(raw) < size:
            raise OSError(errno.EIO, "the file was cut while it was being written", self.temporary)
        return raw

    def truncate(self, size: int) -> None:
        """Sets the file's length."""
        try:
            system.os_calls.ftruncate(self.fileno(), size)
        except OSError as error:
            raise located(error, self.temporary) from error
        self.size = size

    def take_note(self) -> None:
        """Takes note of how long the file is after another program has written it by its temporary name.

        OSError when that name is another file by now: what was written would not be what is published.
        """
        if not self.has_name(self.temporary):
            raise OSError(errno.EIO, "the file was replaced while it was being written", self.temporary)
        self.size = os.fstat(self.fileno()).st_size

    def _call(self, call: Callable[..., int], *arguments: Any) -> int:
        while True:
            try:
                written = call(self.fileno(), *arguments)
            except InterruptedError:
                continue
            except OSError as error:
                raise located(error, self.temporary) from error
            if written <= 0:
                raise OSError(errno.EIO, "the file system accepted no bytes", self.temporary)
            return written

    def sync(self) -> None:
        """Makes the contents durable."""
        local.sync(self.fileno(), self.temporary)

    def keep(self) -> None:
        """Says that a live writer has it. One that has not, or has discarded it, loses it to the next of its thread."""
        self.given_up = False

    def publish(self, path: str | None = None, *, durable: bool = True) -> None:
        """Gives the (synced) file its name, replacing what had it, and makes that durable. The lock stays held.

        Not ``durable``: a power cut may take the name back until the next one is given in the folder.
        """
        self._name = path or self.path
        local.give_name(self.temporary, self._name, durable=durable)

    @property
    def published(self) -> bool:
        """Whether the file, still open, has its name: as the disk says, for `publish` may have been interrupted."""
        return self._name != self.temporary and self.has_name(self._name)

    def has_name(self, path: str) -> bool:
        """Whether ``path`` names this file, which is still open."""
        return self.fileno() >= 0 and same_file(os.fstat(self.fileno()), path)

    def holds(self, file: os.stat_result) -> bool:
        """Whether this is the file, open here."""
        try:
            return os.path.samestat(os.fstat(self.fileno()), file)
        except OSError:
            return False

    def discard(self) -> None:
        """Removes the temporary file, if it is still there, and closes it; raises no OSError."""
        self.given_up = True
        if self._file is None or self._file.number < 0:
            return
        if self.place.process == os.getpid():  # in a forked child it is the parent's
            with suppress(OSError):  # what cannot be removed now is removed by the next writer
                if self.has_name(self.temporary):
                    system.os_calls.unlink(self.temporary)
        with suppress(OSError):
            self._file.close()

    def __del__(self) -> None:
        self.discard()


@contextmanager
def staged_file(path: str, like: str | None = None, *, durable: bool = True) -> Iterator[StagedFile]:
    """A file that has its name, complete, when all of it has been written here; not after an error.

    It has the owner and mode of ``like``. Not ``durable``: it is once the folder is synced.
    """
    staged = StagedFile(path, like=like)
    try:
        yield staged
        staged.sync()
        staged.publish(durable=durable)
    finally:
        staged.discard()


def write_staged(path: str, like: str | None, content: Buffer, *, durable: bool = False) -> None:
    """A complete file under its name, as by `staged_file`."""
    with staged_file(path, like, durable=durable) as staged:
        staged.append([content])


@contextmanager
def new_text(path: str) -> Iterator[Callable[[Iterable[str]], None]]:
    """Give what adds text to a file, which appears whole at the end, in place of what is there; not after an error."""
    with staged_file(path) as staged:
        yield lambda lines: staged.append(["".join(lines).encode()])


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _after(buffers: Sequence[Buffer], size: int) -> list[Buffer]:
    """What is left of the buffers after ``size`` bytes."""
    rest: list[Buffer] = []
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        rest.append(view[size:])
        size -= min(size, len(view))
    return rest


# A directory of files written under a temporary name: published by a rename, or discarded without a trace.


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
            with Descriptor(place, os.O_RDONLY) as file:
                local.sync(file.number, place)

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


# Folders of this machine in which parts are written that are then uploaded: one for each writer, gone with
# it.


_PREFIX: Final = "unirecord-upload-"
_LOCK: Final = "writer"


class Spool:
    """A folder where the system keeps temporary files (``TMPDIR``). What dead writers left there is removed."""

    folder: str
    lock: StagedFile

    def __init__(self, target: str) -> None:
        _remove_dead()
        while True:
            self.folder = tempfile.mkdtemp(prefix=_PREFIX)
            with suppress(BusyError, FileNotFoundError):  # another one takes it for a dead writer's
                self.lock = StagedFile(os.path.join(self.folder, _LOCK), claims=target)
                if self.lock.has_name(self.lock.temporary):
                    self.lock.keep()
                    return
                self.lock.discard()

    def discard(self) -> None:
        """Removes the folder and all in it; in a forked child it is the parent's."""
        if self.lock.place.process == os.getpid():
            remove_tree(self.folder)
        self.lock.discard()


def _remove_dead() -> None:
    for folder in glob(os.path.join(escape(tempfile.gettempdir()), f"{_PREFIX}*")):
        with suppress(BusyError, OSError):
            if os.lstat(folder).st_uid != os.getuid():
                continue
            lock = StagedFile(os.path.join(folder, _LOCK), claims=folder)
            try:
                remove_tree(folder)
            finally:
                lock.discard()


# Folders beside a dataset in which tasks write, each attempt its own: who wins is taken over, the rest is
# swept.


ORPHAN_SECONDS: Final = 24 * 3600.0  # without a change, after which nobody is at work on a run any more


class Attempts:
    """The attempts of one run that writes a dataset; picklable, for tasks on other machines.

    They lie in ``.NAME.attempts/RUN/`` beside the dataset, so that a winner is taken over by a rename, and so that a
    second attempt at a task, or one that was thought dead, can never write into what is published.
    """

    def __init__(self, path: str) -> None:
        folder, name = os.path.split(os.path.abspath(path))
        self.root: str = os.path.join(folder, f".{name}.attempts")
        self.run: str = os.path.join(self.root, secrets.token_hex(8))

    def start(self, orphan_seconds: float = ORPHAN_SECONDS) -> None:
        """Makes the run's folder, and removes those of runs in which nothing has changed for so long."""
        if not local.make_directory(self.root):
            check_own_folder(self.root)
        with os.scandir(self.root) as entries:
            for entry in list(entries):
                if time.time() - _last_change(entry.path) > orphan_seconds:
                    remove_tree(entry.path)
        local.make_directory(self.root)
        local.make_directory(self.run)

    def begin(self, task: int) -> str:
        """A new folder for an attempt at a task.

        MissingError when the run's folder is not there: another machine does not see it, or the run is over.
        """
        folder = os.path.join(self.run, f"task-{task:06d}-{secrets.token_hex(8)}")
        try:
            local.make_directory(folder)
        except FileNotFoundError:
            raise MissingError(
                f"{self.run}: not there on the machine of task {task}: the dataset must be on storage that all "
                "machines share, or the job that it belongs to has ended"
            ) from None
        return folder

    def take_over(self, attempt: str, names: Sequence[str], folder: str) -> None:
        """Gives files of an attempt their place in ``folder``, durably."""
        for name in names:
            local.give_name(os.path.join(attempt, name), os.path.join(folder, name))
        local.remove_directory(attempt)

    def finish(self) -> None:
        """Removes the run's folder, of which nothing can be published any more."""
        remove_tree(self.run)
        local.remove_directory(self.root)


def _last_change(folder: str) -> float:
    """The time of the last change at or below a folder, in seconds since 1970; now, when it changes at this moment."""
    latest = 0.0
    try:
        for place, entries in local.directories_below(folder):
            for path in (place, *(entry.path for entry in entries)):
                latest = max(latest, os.lstat(path).st_mtime)
    except FileNotFoundError:
        return time.time()
    return latest
