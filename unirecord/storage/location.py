"""What a kind of storage has to give: what names stand for, and files opened for reading."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final, Literal, Protocol, Self

from ..errors import MissingError

__all__ = ["Entry", "Location", "OpenFile", "Readable", "Undecided"]

_MAGIC: Final = "*?["


@dataclass(frozen=True)
class Entry:
    """What a name stands for. ``version`` differs when another file has got the name since; ``size`` is in bytes.

    ``changed``: when it was written, in seconds since 1970, as an object store says; None elsewhere.
    """

    kind: Literal["file", "directory", "other"]
    size: int
    version: tuple[int, ...]
    changed: float | None = field(default=None, compare=False)


class Undecided(OSError):
    """Whether a put has taken effect, or will yet, is not known: neither it nor a look at the object was answered."""


class Readable(Protocol):
    """Bytes of which any range can be read."""

    size: int

    def read_at(self, offset: int, size: int) -> bytes:
        """These bytes, or as many as there are before the end; the caller has checked ``size`` against the length."""


class OpenFile(Readable, Protocol):
    """A file open for reading, closed by ``close`` or at the end of a ``with``."""

    def read_into(self, buffer: Any, offset: int) -> int:
        """Fills ``buffer`` with the bytes from ``offset`` on; returns how many there were before the file's end."""
        view = memoryview(buffer).cast("B")
        found = self.read_at(offset, min(len(view), self.size - offset))
        view[: len(found)] = found
        return len(found)

    def close(self) -> None:
        """Gives up what is held, if anything is."""
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Location(Protocol):
    """One kind of storage. Paths are complete, with the scheme, and joined as by ``os.path``.

    What it does not say for itself is as in storage that is no file system: nothing is a link, and nothing relative.
    ``in_file_system``: whether the C core can open the paths; if not, it is given bytes by ``read_ranges``.
    """

    in_file_system: bool = True

    def absolute(self, path: str) -> str:
        """The same path wherever the process goes, without empty parts at its end."""
        return path.rstrip("/")

    def find(self, path: str) -> Entry | None:
        """What is at ``path``, links followed; None when there is nothing, or nothing that may be looked at."""

    def is_taken(self, path: str) -> bool:
        """Whether there is anything of this name, be it a link that leads nowhere."""
        return self.find(path) is not None

    def link(self, path: str) -> str | None:
        """Where a link leads; None when the name is no link."""
        return None

    def names(self, folder: str) -> list[str]:
        """The names in a directory, in no order; FileNotFoundError and its like as of ``os.listdir``."""

    def matching(self, pattern: str) -> list[str] | None:
        """The paths that match, in order; None when ``pattern`` has no wildcards, or is itself a name.

        MissingError where they stand elsewhere than in the last part, in storage that is no file system.
        """
        folder, name = posixpath.split(pattern)
        if not any(sign in pattern.partition("://")[2] for sign in _MAGIC):
            return None
        if any(sign in folder for sign in _MAGIC):
            raise MissingError(
                f"{pattern}: in an object store, wildcards stand in the last part of a path alone"
            )
        return sorted(f"{folder}/{found}" for found in self.names(folder) if fnmatchcase(found, name))

    def open(self, path: str) -> OpenFile:
        """Opens a file; FormatError says what else is there, OSError as of ``os.open``."""

    def find_each(self, paths: Sequence[str]) -> list[Entry | None]:
        """What is at each of the paths, asked at once where asking takes time."""
        return [self.find(path) for path in paths]

    def read(self, path: str, most: int) -> bytes:
        """The first ``most`` bytes of the file at ``path``."""
        with self.open(path) as file:
            return file.read_at(0, min(file.size, most))

    def read_heads(self, wanted: Sequence[tuple[str, int]]) -> list[Any]:
        """Of each (path, size) the first bytes and the size of the whole, or the exception that says why not."""
        return [self._head(*each) for each in wanted]

    def _head(self, path: str, size: int) -> Any:
        try:
            with self.open(path) as file:
                return file.read_at(0, min(size, file.size)), file.size
        except OSError as error:
            return error

    def read_ranges(self, wanted: Sequence[tuple[str, int, int]], *, checked: bool = True) -> list[Any]:
        """Of each (path, offset, size) a buffer of these bytes, or the exception that says why there is none.

        ``checked``: whether digests are compared with them, so that a file that is another now is found out.
        """
        return [self._range(*each) for each in wanted]

    def take_ranges(
        self, wanted: Sequence[tuple[str, int, int]], take: Callable[[int, Any], Any], *, checked: bool = True
    ) -> list[Any]:
        """What ``take`` makes of each range's number and bytes, or the exception that says why they are not there.

        It is called once for each, as early as can be, in whatever thread; what it is given need not be kept.
        """
        return [
            found if isinstance(found, BaseException) else take(number, found)
            for number, found in enumerate(self.read_ranges(wanted, checked=checked))
        ]

    def begin_ranges(self, wanted: Sequence[tuple[str, int, int]]) -> list[Callable[[], Any]] | None:
        """Asks for (path, offset, size) without waiting: what waits for each, and gives its bytes or the exception.

        None where a request is waited for by whoever makes it.
        """
        return None

    def has_changed(self, path: str) -> bool:
        """Whether the file is another than `read_heads` and `read_ranges` have read; False where it cannot be known."""
        return False

    def goes_on_from(self, before: Location) -> None:
        """What has been read by ``before`` is what is to be read here."""
        return

    def _range(self, path: str, offset: int, size: int) -> Any:
        try:
            with self.open(path) as file:
                return file.read_at(offset, size)
        except OSError as error:
            return error

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory at ``path``."""
        found = self.find(path)
        return found is not None and found.kind == "directory"

    def size(self, path: str) -> int:
        """Bytes of what is at ``path``; FileNotFoundError when there is nothing."""
        found = self.find(path)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return found.size
