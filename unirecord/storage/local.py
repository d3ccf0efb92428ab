"""A local file system, and whatever is mounted as one: names made durable, regular files opened, ranges read whole."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from glob import glob, has_magic
from typing import Any, Final

from ..errors import FormatError
from ..sizes import many
from . import system
from .location import Entry, Location, OpenFile
from .system import Buffer, Descriptor

__all__ = [
    "AppendedFile",
    "FULL",
    "FULL_ADVICE",
    "LocalDisk",
    "LocalFile",
    "forget_cached",
    "make_directories",
    "read_at",
]


# Names of files and directories on a local file system: made, given, made durable, removed.


FULL = (errno.ENOSPC, errno.EDQUOT)
FULL_ADVICE = "nothing has been published; make room and write again"
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def temporary_name(path: str) -> str:
    """The name under which the file or directory at ``path`` is written until it is complete."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmp")


def located(error: OSError, path: str) -> OSError:
    """The same error with the file's name in it, and for a full disk what it means."""
    text = error.strerror or str(error)
    if error.errno in FULL:
        text += f" ({FULL_ADVICE})"
    return type(error)(error.errno, text, path)


def same_file(there: os.stat_result, path: str) -> bool:
    """Whether ``path`` names this very file or directory."""
    try:
        return os.path.samestat(there, os.lstat(path))
    except (FileNotFoundError, NotADirectoryError):
        return False


def sync(fd: int, path: str) -> None:
    """Makes the contents of an open file, or the names in an open directory, durable."""
    while True:
        try:
            system.os_calls.fsync(fd)
        except InterruptedError:
            continue
        except OSError as error:
            raise located(error, path) from error
        return


def give_name(old: str, target: str, *, durable: bool = True) -> None:
    """Renames a file or directory within its folder, replacing what had the name, and makes that durable.

    Not ``durable``: the next name that is given in the folder makes it so.

    A rename that took effect though it reported an error, as network file systems may, is no error. When only the
    sync fails, the error says that the new name stands.
    """
    there = os.lstat(old)
    try:
        system.os_calls.rename(old, target)
    except OSError as error:
        if not same_file(there, target):
            raise located(error, target) from error
    if not durable:
        return
    try:
        sync_folder(os.path.dirname(target) or ".")
    except OSError as error:
        text = (
            f"{os.strerror(error.errno or 0)}: the new file has this name, but its folder could not be synced, "
            "so that a power cut may bring the old state back"
        )
        raise type(error)(error.errno, text, target) from error


def give_second_name(there: str, name: str) -> bool:
    """Has a file be called ``name`` as well, in place of what has that name; not durable by itself.

    Of a link it is the file that it leads to. False where the file system has no hard links, or ``name`` is on another
    one.
    """
    try:
        if same_file(os.stat(there), name):
            return True
        if os.path.lexists(name):
            system.os_calls.unlink(name)
        system.os_calls.link(os.path.realpath(there), name)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise located(error, name) from error
    return True


def sync_folder(folder: str) -> None:
    """Makes the names in a directory durable."""
    with Descriptor(folder, os.O_RDONLY | os.O_DIRECTORY) as directory:
        sync(directory.number, folder)


def clear(path: str) -> None:
    """Removes a file that is of no use any more; what cannot be removed is left to the next writer."""
    with suppress(OSError):
        system.os_calls.unlink(path)


def make_directory(path: str) -> bool:
    """Makes a directory whose parent exists; False when it was there."""
    while True:
        try:
            system.os_calls.mkdir(path)
            return True
        except FileExistsError:
            if os.path.isdir(path):
                return False
            if os.path.lexists(path):
                raise


def remove_directory(path: str) -> bool:
    """Removes an empty directory; False when it is not empty or not there."""
    try:
        system.os_calls.rmdir(path)
    except OSError:
        return False
    return True


def directories_below(folder: str) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """A directory and those below it, each behind the one that it is in, with all entries; links are not followed.

    However deep they are: whoever puts them there decides that.
    """
    waiting = [folder]
    while waiting:
        place = waiting.pop()
        with os.scandir(place) as entries:
            found = list(entries)
        yield place, found
        waiting += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]


def write_all(file: Descriptor, data: Buffer) -> None:
    """Appends all of ``data``, in as many calls as the system asks for."""
    view = memoryview(data).cast("B")
    while len(view):
        view = view[system.os_calls.writev(file.number, [view]) :]


def write_new(path: str, data: Buffer) -> None:
    """Writes a file that nobody depends on: not synced, and `FileExistsError` when there is anything of that name."""
    try:
        with Descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) as file:
            write_all(file, data)
    except OSError as error:
        raise located(error, path) from error


def length_of(path: str) -> int:
    """Bytes of a file; 0 where it is gone, or has just got another name."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def other_names(path: str) -> int:
    """How many other names a file has, by hard links; 0 where there is no file."""
    try:
        return os.stat(path).st_nlink - 1
    except FileNotFoundError:
        return 0


# Local file systems, and whatever is mounted as one: names looked up, regular files opened, ranges read whole.


_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


class LocalDisk(Location):
    """The storage of paths without a scheme."""

    def absolute(self, path: str) -> str:
        """The path from the root on."""
        return os.path.abspath(path)

    def find(self, path: str) -> Entry | None:
        """What is at ``path``; ``version`` is its device, inode and time of change."""
        try:
            there = os.stat(path)
        except (OSError, ValueError):
            return None
        version = (there.st_dev, there.st_ino, there.st_mtime_ns)
        if stat.S_ISDIR(there.st_mode):
            return Entry("directory", there.st_size, version)
        return Entry("file" if stat.S_ISREG(there.st_mode) else "other", there.st_size, version)

    def is_taken(self, path: str) -> bool:
        """Whether there is anything of this name."""
        return os.path.lexists(path)

    def link(self, path: str) -> str | None:
        """Where a link leads."""
        try:
            return os.readlink(path)
        except (OSError, ValueError):
            return None

    def names(self, folder: str) -> list[str]:
        """The names in a directory; the empty path is the working directory."""
        return os.listdir(folder or ".")

    def matching(self, pattern: str) -> list[str] | None:
        """The paths that match."""
        return sorted(glob(pattern)) if has_magic(pattern) and not os.path.lexists(pattern) else None

    def open(self, path: str) -> OpenFile:
        """Opens a regular file."""
        return LocalFile(path)


class LocalFile(OpenFile):
    """A regular file open for reading. FormatError says what else is there; OSError as of ``os.open``."""

    def __init__(self, path: str) -> None:
        self._fd = _open_regular(path)
        self.size: int = os.fstat(self._fd).st_size

    def close(self) -> None:
        """Gives the file up."""
        os.close(self._fd)

    def read_at(self, offset: int, size: int) -> bytes:
        """These bytes, or as many as there are before the end."""
        return read_at(self._fd, offset, size)

    def read_into(self, buffer: Any, offset: int) -> int:
        """Fills ``buffer``; returns how many bytes there were before the file's end."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view):
            read = os.preadv(self._fd, [view[done:]], offset + done)
            if not read:
                break
            done += read
        return done


def _open_regular(path: str) -> int:
    """A descriptor of the file at ``path``; a named pipe without a writer is not waited for."""
    flags = os.O_RDONLY | os.O_CLOEXEC
    try:
        fd = os.open(path, flags | os.O_NONBLOCK)
    except BlockingIOError:  # someone holds a lease on it, which only regular files have: wait for that
        fd = os.open(path, flags)
    try:
        kind = stat.S_IFMT(os.fstat(fd).st_mode)
        if kind != stat.S_IFREG:
            raise FormatError(f"{path}: it is {_KINDS.get(kind, 'no file')}; expected a regular file")
        os.set_blocking(fd, True)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_at(fd: int, offset: int, size: int) -> bytes:
    """These bytes of an open file, or as many as there are before its end."""
    raw = os.pread(fd, size, offset)
    while len(raw) < size:
        more = os.pread(fd, size - len(raw), offset + len(raw))
        if not more:
            break
        raw += more
    return raw


def forget_cached(path: str) -> None:
    """Asks the kernel to drop a file that has been synced from its cache; pages that are mapped somewhere stay."""
    fd = _open_regular(path)
    try:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


# A file that grows record by record: each is in the kernel's hands before the writer goes on.


_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW


class AppendedFile:
    """A new file, to whose end this process alone writes: one system call an append, which a kill does not undo.

    FileExistsError when there is anything of that name. A forked child cannot write to it: ``is_open`` is False there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._file = Descriptor(path, _FLAGS)

    @property
    def is_open(self) -> bool:
        """Whether this process can write to it."""
        return self._file.number >= 0

    def append(self, data: bytes) -> None:
        """Writes ``data`` as a whole; OSError when it does not fit, and then the file takes no more."""
        try:
            written = system.os_calls.write(self._file.number, data)
        except OSError as error:
            self.close()
            raise type(error)(error.errno, error.strerror, self.path) from error
        if written != len(data):
            self.close()
            raise OSError(0, f"only {written} of {many(len(data), 'byte')} could be written", self.path)

    def sync(self) -> None:
        """Makes what has been written durable."""
        if self.is_open:
            sync(self._file.number, self.path)

    def close(self) -> None:
        """Gives the file up; closing twice is closing once."""
        self._file.close()


def make_directories(path: str) -> None:
    """Makes a directory, and those above it that are missing."""
    if os.path.isdir(path):
        return
    above = os.path.dirname(path)
    if above and above != path:
        make_directories(above)
    make_directory(path)
