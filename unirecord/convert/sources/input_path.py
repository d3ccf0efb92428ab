"""Where raw data is read from: a path, or a copy of what a pipe delivers once, since sources are read twice."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from typing import Any, BinaryIO, Final

from ...errors import MissingError, SchemaError, StaleError
from ...progress import Progress
from ...sizes import format_size

__all__ = ["MAX_SPOOL_BYTES", "InputPath", "open_input"]

MAX_SPOOL_BYTES: Final = 16_000_000_000
_PIECE: Final = 1 << 20


class InputPath:
    """A folder or a regular file. ``name`` is what the user called it, ``path`` what is opened."""

    def __init__(self, name: str, path: str, spool: BinaryIO | None = None) -> None:
        """``spool`` is an unnamed temporary file that holds the content, kept as long as this object."""
        self.name = name
        self.path = path
        self._spool = spool
        self._stamp: tuple[int, int] | None = None
        self.notes: list[str] = []
        if spool is not None:
            size = os.fstat(spool.fileno()).st_size
            self.notes.append(f"{name} was copied first ({format_size(size)}), since data is read twice")

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder; else it is a file."""
        return os.path.isdir(self.path)

    @property
    def suffix(self) -> str:
        """The end of the name, ``.csv``, in lower case."""
        return os.path.splitext(self.name)[1].lower()

    def size(self) -> int:
        """Bytes of the file."""
        return os.path.getsize(self.path)

    def open(self) -> BinaryIO:
        """Open the file from its beginning; `StaleError` when it has changed since it was first opened."""
        file = open(self.path, "rb")  # noqa: SIM115 (the caller closes it)
        found = os.fstat(file.fileno())
        stamp = found.st_size, found.st_mtime_ns
        if self._stamp is None:
            self._stamp = stamp
        elif self._stamp != stamp:
            file.close()
            raise StaleError(
                f"{self.name} changes while it is read, so nothing was published: convert a copy that stays as it is"
            )
        return file

    def __getstate__(self) -> dict[str, Any]:
        """All but the open file; other processes reach that through this one."""
        return {**self.__dict__, "_spool": None}


def open_input(name: str, spool_bytes: int = MAX_SPOOL_BYTES, progress: Progress | None = None) -> InputPath:
    """Return what is at the path ``name``; a pipe, and ``-`` for standard input, are copied to a temporary file.

    Raises `MissingError`, and `SchemaError` for a device or for a pipe that delivers more than ``spool_bytes``.
    """
    if name == "-":
        return _spooled("standard input", 0, spool_bytes, progress)
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        raise MissingError(_explain_missing(name)) from None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return InputPath(name, name)
    if not stat.S_ISFIFO(mode) and not _is_terminal(name):
        raise SchemaError(f"{name} is a device or a socket; data is read from files, folders, pipes and -")
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)  # waits until somebody writes to the pipe
    try:
        return _spooled(name, fd, spool_bytes, progress)
    finally:
        os.close(fd)


def _explain_missing(name: str) -> str:
    if not name:
        return "the source is an empty path; name a file or a folder, or - for standard input"
    if os.path.lexists(name):
        return f"{name} is a link to {os.readlink(name)}, which does not exist"
    if name.startswith("~"):
        return f"{name} does not exist; the shell replaces ~ only when it is not quoted"
    return f"{name} does not exist"


def _is_terminal(name: str) -> bool:
    with suppress(OSError):
        fd = os.open(name, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.isatty(fd)
        finally:
            os.close(fd)
    return False


def _spooled(name: str, fd: int, most: int, progress: Progress | None) -> InputPath:
    spool = tempfile.TemporaryFile(prefix="unirecord-")  # noqa: SIM115 (lives as long as its InputPath)
    size = 0
    try:
        while piece := os.read(fd, _PIECE):
            size += len(piece)
            if size > most:
                raise SchemaError(
                    f"{name} delivers more than {format_size(most)}, which is more than is copied from a pipe; "
                    f"write it to a file and convert that"
                )
            spool.write(piece)
            if progress is not None:
                progress(size, 0)
        spool.flush()
    except BaseException:
        spool.close()
        raise
    return InputPath(name, f"/proc/{os.getpid()}/fd/{spool.fileno()}", spool)
