"""Where raw data is read from: a path, several, a copy of what a pipe delivers; and what folders say."""

from __future__ import annotations

import glob
import io
import os
import re
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, BinaryIO, ClassVar, Final

from ...core import Locked, cached_property
from ...errors import MissingError, SchemaError, StaleError, UniRecordError
from ...progress import Progress
from ...sizes import format_size
from ...storage.schemes import location_of
from .compression import SUFFIXES, decompressed, inner_name, is_marked
from .folder_walk import natural_order, utf8_name, walk

__all__ = [
    "InputPath",
    "MAX_SPOOL_BYTES",
    "open_input",
]


_BRACES: Final = re.compile(r"\{([^{}/]*(?:\.\.|,)[^{}/]*)\}")  # {0000..0099}, {a,b}
_MOST_NAMES: Final = 1_000_000  # that braces stand for
_MOST_SHOWN: Final = 4  # files that are nearly what was named

MAX_SPOOL_BYTES: Final = 16_000_000_000
_PIECE: Final = 1 << 20
_HEAD_BYTES: Final = 6
_PYTHON: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_MOST_COPIES: Final = 4
_PEEK: Final = 2_000  # files of a folder that are looked at to tell what it is


class InputPath:
    """A folder, a regular file, or several files. ``name`` is what the user called it, ``path`` what is opened.

    ``opened`` is told the name of each file that is opened, in a process that has to say which one it was at.
    """

    opened: ClassVar[Callable[[str], None] | None] = None

    def __init__(
        self,
        name: str,
        path: str,
        spool: BinaryIO | None = None,
        spool_bytes: int = MAX_SPOOL_BYTES,
        members: tuple[str, ...] | None = None,
    ) -> None:
        """``spool`` is an unnamed temporary file that holds the content, kept as long as this object.

        ``members`` are the files when there are several.
        """
        self.name = name
        self.path = path
        self._members = members
        self._spool = spool
        self.spool_bytes = spool_bytes
        self._stamp: tuple[int, int] | None = None
        self._piped = spool is not None
        self.packed = False  # whether it is compressed though its name does not say so
        self.notes: list[str] = []
        self.watched_by: Callable[[float], None] | None = None  # is told which share of it has been read
        if spool is not None:
            size = os.fstat(spool.fileno()).st_size
            self.notes.append(f"{name} was copied first ({format_size(size)}), since data is read twice")

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder; else it is a file."""
        return self._members is None and os.path.isdir(self.path)

    @property
    def is_file(self) -> bool:
        """Whether it is one file."""
        return self._members is None and not os.path.isdir(self.path)

    @property
    def fixed_folder(self) -> str | None:
        """The folder that its files lie below, of a pattern what is before its first star; None of one file."""
        if self.is_folder:
            return self.path
        if self._members is None:
            return None
        fixed = re.split(r"[\[{]", glob.escape(self.name))[0]
        return os.path.dirname(fixed) or "."

    @property
    def is_elsewhere(self) -> bool:
        """Whether it is in an object store, where datasets alone are read."""
        return "://" in self.path and not location_of(self.path).in_file_system

    @property
    def suffix(self) -> str:
        """The end of the name, ``.csv``, in lower case; of ``x.csv.gz`` too."""
        return os.path.splitext(inner_name(self.name))[1].lower()

    def size(self) -> int:
        """Bytes of the file, as `open` gives it."""
        with self.open() as file:
            return os.fstat(file.fileno()).st_size

    def stored_size(self) -> int:
        """Bytes of the file as it lies there; 0 where it does not."""
        with suppress(OSError):
            return os.stat(self.path).st_size
        return 0

    def head(self, size: int) -> bytes:
        """Return the first bytes of the file, decompressed; of a folder, or of what is damaged, none."""
        if not self.is_file:
            first = self._first_without_suffix()
            return b"" if first is None else first.head(size)
        if not os.path.isfile(self.path):
            return b""
        with suppress(SchemaError, MissingError), self._open_as_it_is() as file:
            if self._is_packed:
                return next(decompressed(self.name, file), b"")[:size]
            return file.read(size)
        return b""

    @property
    def says_no_kind(self) -> bool:
        """Whether it is a pattern, which means what it names, or a folder of files without suffix alone."""
        return self._members is not None or (self.is_folder and self._endings == {""})

    def _first_without_suffix(self) -> InputPath | None:
        """The first file of a folder or pattern whose files have no suffix (``part-00000``), None of any other."""
        if self._endings - {""} or not self._endings:
            return None
        return self.all_files()[0]

    @property
    def _is_packed(self) -> bool:
        return not self._piped and (self.packed or self.name.lower().endswith(SUFFIXES))

    def open(self) -> BinaryIO:
        """Open the file from its beginning; what it holds decompressed, if its name says that it is compressed.

        Raises `StaleError` when it has changed since it was first opened.
        """
        file = self._open_as_it_is()
        if not self._is_packed:
            return file
        with file:
            while True:
                spool = self._spool or _COPIES.made(self, file)
                with _COPIES.lock:
                    if not spool.closed:  # as it is where its room was needed meanwhile
                        return self._watched(f"/proc/self/fd/{spool.fileno()}", 0.5, 1.0)
                file.seek(0)

    def content(self, most: int, what: str) -> bytes:
        """All bytes of the file; `SchemaError` where they are more than ``most``, which is not ``what`` it should be.

        Memory is taken for what is there, not for what might be.
        """
        with self.open() as file:
            pieces, left = [], most + 1
            while left and (piece := file.read(min(left, 1 << 20))):
                pieces.append(piece)
                left -= len(piece)
        if not left:
            raise SchemaError(f"{self.name} is larger than {format_size(most)}, which is no {what}")
        return b"".join(pieces)

    def _watched(self, path: str, first: float, last: float) -> BinaryIO:
        """Open what has the content, or with the content becomes: that is the work from one share to another."""
        if self.watched_by is None:
            return open(path, "rb")
        return io.BufferedReader(_WatchedFile(path, self.watched_by, first, last))

    def local_path(self) -> str:
        """A path that other libraries open, to what `open` gives."""
        with self.open():
            pass
        return f"/proc/self/fd/{self._spool.fileno()}" if self._is_packed and self._spool else self.path

    def _open_as_it_is(self) -> BinaryIO:
        if InputPath.opened is not None:
            InputPath.opened(self.name)
        file = self._watched(self.path, 0.0, 0.5 if self._is_packed else 1.0)
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

    def release(self) -> None:
        """Give back the room of a decompressed copy; `open` makes it anew."""
        with _COPIES.lock:
            if self._is_packed and self._spool is not None:
                self._spool.close()
                self._spool = None
                _COPIES.forget(id(self))

    def __getstate__(self) -> dict[str, Any]:
        """All but the open file, and who watches; other processes reach that of a pipe through this one."""
        return {**self.__dict__, "_spool": None, "watched_by": None}

    @cached_property
    def peek(self) -> frozenset[str]:
        """The suffixes, in lower case, of the files (of the first ones of a large folder); and their whole names."""
        names = self._members or (islice(self._below(), _PEEK) if self.is_folder else (self.name,))
        return frozenset(
            text.lower()
            for name in names
            for text in (os.path.splitext(inner_name(name))[1], os.path.basename(name))
        )

    def holds(self, suffixes: Iterable[str]) -> bool:
        """Whether it is, or holds, a file whose name ends like that (or is that)."""
        return not self.peek.isdisjoint(suffixes)

    def holds_only(self, suffixes: Iterable[str]) -> bool:
        """Whether it is such a file, or a folder or pattern of no others."""
        if self.is_file:
            return self.suffix in suffixes
        return bool(self._endings) and self._endings <= set(suffixes)

    @cached_property
    def _endings(self) -> frozenset[str]:
        """The suffixes of the names in `peek`."""
        return frozenset(
            os.path.splitext(inner_name(name))[1] for name in self.peek if name and not _is_mark(name)
        )

    def _below(self) -> Iterator[str]:
        return (path for path, reason in walk(self.path) if reason is None)

    def files_called(self, marks: Sequence[str]) -> list[str]:
        """The paths of the files it stands for: of a folder those whose names hold one of ``marks``; all, if none does.

        LMDB's file of locks, which readers write to, is never among them; a copy of a pipe, and an object in memory,
        have no path.
        """
        if not self.is_folder:
            return [] if self._piped or not self.path else list(self._members or (self.path,))
        below = [path for path in self._below() if os.path.basename(path) != "lock.mdb"]
        called = [path for path in below if any(mark in os.path.basename(path).lower() for mark in marks)]
        return [os.path.join(self.path, path) for path in called or below]

    def files(self, suffixes: Iterable[str]) -> list[InputPath]:
        """The files it stands for, in natural order: itself, or those below a folder whose names end like that."""
        if self.is_file:
            return [self]
        if self._members is not None:
            return [InputPath(name, name, None, self.spool_bytes) for name in self._members]
        ends = tuple(suffixes)
        return self._files_at([path for path in self._below() if inner_name(path).lower().endswith(ends)])

    def all_files(self) -> list[InputPath]:
        """The files it stands for, whatever they are called, but for marks such as ``_SUCCESS``, in natural order."""
        if not self.is_folder:
            return self.files(())
        return self._files_at([path for path in self._below() if not _is_mark(os.path.basename(path))])

    def _files_at(self, found: list[str]) -> list[InputPath]:
        return [
            InputPath(
                f"{self.name.rstrip('/')}/{utf8_name(path)}",
                os.path.join(self.path, path),
                None,
                self.spool_bytes,
            )
            for path in sorted(found, key=natural_order)
        ]


def _is_mark(name: str) -> bool:
    """Whether a file says something of those beside it, as ``_SUCCESS`` does, and is none of them."""
    return name.startswith(".") or (name.startswith("_") and not os.path.splitext(name)[1])


class _WatchedFile(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: str, tell: Callable[[float], None], first: float, last: float) -> None:
        super().__init__(path)
        self._tell, self._first = tell, first
        self._a_byte = (last - first) / max(os.fstat(self.fileno()).st_size, 1)

    def readinto(self, buffer: Any) -> int | None:
        """Read as much as there is room for."""
        found = super().readinto(buffer)
        self._tell(self._first + self.tell() * self._a_byte)
        return found


class _NoRoomError(Exception):
    """Copies that are being made have not all room at the same time."""


class _Copies(Locked):
    """The decompressed copies that this process has on the disk: few, and together of no more bytes than were allowed.

    Few are read side by side, and a folder may have thousands of files. The oldest one goes when room is needed; of
    those that are being made, one for which there is no room begins anew alone.
    """

    def __init__(self) -> None:
        super().__init__()
        self._there: dict[int, tuple[weakref.ref[InputPath], int]] = {}  # by the file's id, the oldest first
        self._making: dict[tuple[int, int], int] = {}  # bytes so far, by process and thread
        self._alone = Locked()  # held by one that is made alone, and while another begins
        self._waits: SimpleQueue[None] | None = None  # of one that is to be made alone

    def made(self, file: InputPath, packed: BinaryIO) -> BinaryIO:
        """Return what ``packed`` holds as a temporary file; `SchemaError` where that alone is more than is allowed."""
        with self._alone.lock:
            self._begin()
        try:
            return self._make(file, packed)
        except _NoRoomError:
            packed.seek(0)
        with self._alone.lock:
            while (others := self._others()) is not None:
                others.get()
            self._begin()
            return self._make(file, packed)

    def forget(self, file: int) -> None:
        """Told that a file, by its id, has given back the room of its copy, or is no more."""
        with self.lock:
            self._there.pop(file, None)

    def _begin(self) -> None:
        with self.lock:
            self._making[_here()] = 0

    def _others(self) -> SimpleQueue[None] | None:
        """What is put to when one of those that are being made is done; None where there are none."""
        with self.lock:
            self._waits = SimpleQueue() if self._sizes() else None
            return self._waits

    def _make(self, file: InputPath, packed: BinaryIO) -> BinaryIO:
        try:
            pieces = self._counted(decompressed(file.name, packed), file.spool_bytes)
            copy = _copied(file.name, pieces, file.spool_bytes, None)
            with self.lock:
                file._spool = copy  # at once, so that whoever needs its room can have it back
                self._there[id(file)] = (
                    weakref.ref(file, partial(self._gone, id(file))),
                    self._making[_here()],
                )
                while len(self._there) > _MOST_COPIES and self._release_oldest(file):
                    pass
            return copy
        finally:
            with self.lock:
                del self._making[_here()]
                if self._waits is not None:
                    self._waits.put(None)

    def _gone(self, file: int, _: weakref.ref[InputPath]) -> None:
        self.forget(file)

    def _counted(self, pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
        for piece in pieces:
            with self.lock:
                self._making[_here()] += len(piece)
                while sum(size for _, size in self._there.values()) + sum(self._sizes()) > most:
                    if self._release_oldest(None):
                        continue
                    if len(self._sizes()) > 1:
                        raise _NoRoomError
                    break  # `_copied` says that it is too much
            yield piece

    def _sizes(self) -> list[int]:
        """The bytes of those that threads of this process are making."""
        return [size for (process, _), size in self._making.items() if process == os.getpid()]

    def _release_oldest(self, kept: InputPath | None) -> bool:
        for number, (file, _) in list(self._there.items()):
            found = file()
            if found is not None and found is not kept:
                found.release()
                self.forget(number)
                return True
        return False


def _here() -> tuple[int, int]:
    return os.getpid(), threading.get_ident()


_COPIES: Final = _Copies()


def open_input(name: str, spool_bytes: int = MAX_SPOOL_BYTES, progress: Progress | None = None) -> InputPath:
    """Return what is at the path ``name``; a pipe, and ``-`` for standard input, are copied to a temporary file.

    What is compressed there is decompressed. A name with ``*``, ``?`` or ``[`` that is no file's own stands for all
    files it matches, and one with braces, as ``{0000..0099}`` or ``{a,b}``, for all files that it names. Raises
    `MissingError`, and `SchemaError` for a device or for a pipe that delivers more than ``spool_bytes``.
    """
    if name == "-":
        return _spooled("standard input", 0, spool_bytes, progress)
    try:
        mode = os.stat(name).st_mode
    except FileNotFoundError:
        matches = tuple(sorted(filter(os.path.isfile, glob.glob(name, recursive=True)), key=natural_order))
        if matches:
            return InputPath(name, matches[0], None, spool_bytes, matches)
        if _BRACES.search(name):
            files = tuple(_files_named(name))
            return InputPath(name, files[0], None, spool_bytes, files)
        found = InputPath(name, name)
        if _PYTHON.fullmatch(name) or found.is_elsewhere:  # what a program gives, which lies nowhere; a store
            return found
        raise MissingError(_explain_missing(name)) from None
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return InputPath(name, name, None, spool_bytes)
    if not stat.S_ISFIFO(mode) and not _is_terminal(name):
        raise SchemaError(f"{name} is a device or a socket; data is read from files, folders, pipes and -")
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)  # waits until somebody writes to the pipe
    try:
        return _spooled(name, fd, spool_bytes, progress)
    finally:
        os.close(fd)


def _files_named(name: str) -> Iterator[str]:
    """Yield the files that a name with braces stands for, in its order; `MissingError` for one that is not there."""
    numbers = 1
    for braces in _BRACES.findall(name):
        numbers *= len(_words(braces))
        if numbers > _MOST_NAMES:
            raise SchemaError(
                f"{name} names more than {_MOST_NAMES:,} files; a pattern with a star names any number"
            )
    for file in _expanded(name):
        if not os.path.isfile(file):
            raise MissingError(f"{file} does not exist, which {name} names")
        yield file


def _expanded(name: str) -> Iterator[str]:
    braces = _BRACES.search(name)
    if braces is None:
        yield name
        return
    for word in _words(braces[1]):
        for rest in _expanded(name[braces.end() :]):
            yield f"{name[: braces.start()]}{word}{rest}"


def _words(braces: str) -> Sequence[str]:
    """What braces stand for: the words between commas, or the numbers between two, as wide as they are written."""
    first, dots, last = braces.partition("..")
    if not dots:
        return braces.split(",")
    if not (first.isascii() and first.isdigit() and last.isascii() and last.isdigit()):
        raise SchemaError(f"{{{braces}}} is no range of numbers such as {{0000..0099}}")
    start, stop, width = int(first), int(last), len(first) if first.startswith("0") else 0
    if abs(stop - start) >= _MOST_NAMES:
        raise SchemaError(f"{{{braces}}} stands for more than {_MOST_NAMES:,} files")
    numbers = range(start, stop + 1) if start <= stop else range(start, stop - 1, -1)
    return [f"{number:0{width}d}" for number in numbers]


def _explain_missing(name: str) -> str:
    if not name:
        return "the source is an empty path; name a file or a folder, or - for standard input"
    if os.path.lexists(name):
        return f"{name} is a link to {os.readlink(name)}, which does not exist"
    if name.startswith("~"):
        return f"{name} does not exist; the shell replaces ~ only when it is not quoted"
    if glob.has_magic(name):
        return f"{name}: no file matches"
    longer = sorted(glob.glob(glob.escape(name) + ".*"))
    if longer:  # Megatron's own way to name its two files
        return f"{name} does not exist, but {' and '.join(longer[:_MOST_SHOWN])}: name one of them"
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
    spool = _copied(name, iter(lambda: os.read(fd, _PIECE), b""), most, progress)
    spool.seek(0)
    if name.lower().endswith(SUFFIXES) or is_marked(spool.read(_HEAD_BYTES)):
        with spool as packed:
            packed.seek(0)
            spool = _copied(name, decompressed(name, packed), most, progress)
    return InputPath(name, f"/proc/{os.getpid()}/fd/{spool.fileno()}", spool)


def _copied(name: str, pieces: Iterator[bytes], most: int, progress: Progress | None) -> BinaryIO:
    """Return an unnamed temporary file with all pieces; `SchemaError` when they are more than ``most`` bytes."""
    spool = tempfile.TemporaryFile(prefix="unirecord-")  # noqa: SIM115 (lives as long as its InputPath)
    size = 0
    try:
        for piece in pieces:
            size += len(piece)
            if size > most:
                raise SchemaError(
                    f"{name} delivers more than {format_size(most)}, which is more than is copied to a temporary "
                    f"file (--max-spool-bytes); write it to a file and convert that"
                )
            spool.write(piece)
            if progress is not None:
                progress(size, 0)
        spool.flush()
    except OSError as error:
        with suppress(OSError):  # it would write again what did not fit
            spool.close()
        if error.filename is not None or isinstance(
            error, UniRecordError
        ):  # such as a package that is lacking
            raise
        where = f"a temporary copy of {name} in {tempfile.gettempdir()} (TMPDIR says where)"
        raise type(error)(error.errno or 0, f"{error.strerror or error}, for {where}") from error
    except BaseException:
        spool.close()
        raise
    return spool
