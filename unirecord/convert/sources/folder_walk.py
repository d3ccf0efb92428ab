"""A folder's files below it, each regular one once; what else lies there is named, never opened."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["UnreadableError", "natural_order", "read_regular_file", "utf8_name", "walk"]


_READ_BYTES: Final = 8 << 20


class UnreadableError(Exception):
    """A file or folder that cannot be read; the message is the reason."""


def walk(root: str) -> Iterator[tuple[str, str | None]]:
    """Yield the path below ``root`` of every file that is not hidden, and why it cannot be read (None: it can).

    Links are followed, each folder is entered once. A folder that cannot be listed is yielded with a ``/`` at its end.
    """
    visited: set[tuple[int, int]] = set()
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            info = os.stat(Path(root) / below)
            if (info.st_dev, info.st_ino) in visited:  # a link back up the tree
                continue
            visited.add((info.st_dev, info.st_ino))
            with os.scandir(Path(root) / below) as entries:
                found = [entry for entry in entries if not entry.name.startswith(".")]
        except OSError as error:
            if not below:
                raise
            yield below, _reason(error)
            continue
        for entry in found:
            name = entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(f"{below}{name}/")
                    continue
                if entry.is_file(follow_symlinks=False):
                    yield below + name, None
                    continue
                mode = entry.stat().st_mode
            except OSError as error:
                yield below + name, _broken_link(Path(root) / below / name) or _reason(error)
                continue
            if stat.S_ISDIR(mode):
                pending.append(f"{below}{name}/")
            else:
                yield below + name, _not_regular(mode)


def natural_order(name: str) -> tuple[list[str | int], str]:
    """Return a sort key by which ``2`` comes before ``10``, and ``fold2`` before ``fold10``."""
    pieces = re.split(r"([0-9]+)", name)
    return [int(piece) if i % 2 else piece for i, piece in enumerate(pieces)], name


def read_regular_file(path: str | Path) -> bytes:
    """Return a file's bytes; `UnreadableError` when it is no regular file or cannot be read.

    It is opened so that a pipe or device that took the file's place since it was listed does not wait. A file that
    has gone is a ``FileNotFoundError``.
    """
    if not _is_name(str(path)):
        raise UnreadableError("no file can be called so")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            status = os.fstat(fd)
            reason = _not_regular(status.st_mode)
            if reason is not None:
                raise UnreadableError(reason)
            return _read_all(fd, status.st_size)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(_reason(error)) from None


def _read_all(fd: int, size: int) -> bytes:
    """Read to the end, in one call where the file has the size that it is said to have."""
    data = os.read(fd, size + 1)
    if len(data) == size:
        return data
    pieces = [data]
    while data:
        data = os.read(fd, _READ_BYTES)
        pieces.append(data)
    return b"".join(pieces)


def utf8_name(name: str) -> str:
    """Return a file name as valid Unicode: bytes that are not UTF-8 become ``\\xNN``."""
    if name.isascii():
        return name
    # What is no byte of a name, as a file may say of another one, is shown by its number.
    return name.encode("utf-8", "surrogateescape" if _is_name(name) else "backslashreplace").decode(
        "utf-8", "backslashreplace"
    )


def _is_name(name: str) -> bool:
    """Whether a file may be called so here."""
    try:
        return b"\0" not in os.fsencode(name)
    except UnicodeEncodeError:
        return False


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _broken_link(path: Path) -> str | None:
    try:
        target = os.readlink(path)
    except OSError:
        return None
    return f"it is a link to {utf8_name(target)}, which leads to no file"


def _not_regular(mode: int) -> str | None:
    if stat.S_ISREG(mode):
        return None
    kinds = ((stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (stat.S_ISDIR, "a folder"))
    what = next((name for test, name in kinds if test(mode)), "a device")
    return f"it is {what}, not a regular file"
