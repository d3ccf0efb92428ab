"""Names of files and directories on a local file system: made, given, made durable, removed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

from . import system
from .system import Buffer, Descriptor

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV)


def temporary_name(path: str) -> str:
    """The name under which the file or directory at ``path`` is written until it is complete."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".{name}.tmp")


def located(error: OSError, path: str) -> OSError:
    """The same error with the file's name in it, and for a full disk what it means."""
    text = error.strerror or str(error)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text += " (nothing has been published; make room and write again)"
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

    False where the file system has no hard links, or ``name`` is on another one.
    """
    try:
        if same_file(os.stat(there), name):
            return True
        if os.path.lexists(name):
            system.os_calls.unlink(name)
        system.os_calls.link(there, name)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise located(error, name) from error
    return True


def sync_folder(folder: str) -> None:
    """Makes the names in a directory durable."""
    directory = Descriptor(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(directory.number, folder)
    finally:
        directory.close()


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


def write_new(path: str, data: Buffer) -> None:
    """Writes a file that nobody depends on: not synced, and `FileExistsError` when there is anything of that name."""
    try:
        file = Descriptor(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW)
        try:
            view = memoryview(data).cast("B")
            while len(view):
                view = view[system.os_calls.writev(file.number, [view]) :]
        finally:
            file.close()
    except OSError as error:
        raise located(error, path) from error


def other_names(path: str) -> int:
    """How many other names a file has, by hard links; 0 where there is no file."""
    try:
        return os.stat(path).st_nlink - 1
    except FileNotFoundError:
        return 0
