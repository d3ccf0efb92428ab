"""A file that grows record by record: each is in the kernel's hands before the writer goes on."""

from __future__ import annotations

import os
from typing import Final

from . import system
from .local import make_directory, sync
from .system import Descriptor

__all__ = ["AppendedFile", "make_directories"]

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
            raise OSError(0, f"only {written} of {len(data)} bytes could be written", self.path)

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
