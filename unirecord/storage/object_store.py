"""Object stores: what is read of them, what is written to them, and what is told of a change."""

from __future__ import annotations

import errno
import os
import posixpath
import threading
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..core import Locked, xxh3_64
from ..errors import StaleError
from .local import LocalFile
from .location import Entry, Location, OpenFile, Undecided
from .requests import Call, Read, requests
from .storage_options import StorageOptions
from .store import Store, client_module, failure, is_past_the_end

if TYPE_CHECKING:
    from obstore.store import RetryConfig

__all__ = [
    "Listed",
    "ObjectFile",
    "ObjectStore",
    "ObjectWrites",
    "Outrun",
    "Versioned",
    "Versions",
    "list_folder",
    "replaced",
    "store_and_key",
    "version_of",
]


# What this process has published, so that a command that is interrupted does not say that nothing was.


# Object stores and web servers: objects looked up, listed, and read by ranges, by obstore (the extra
# ``remote``).


# Whether an object is still what it was when it was first read: compared by what each answer says of it.


Version = tuple[int, ...]


def version_of(said: Mapping[str, Any]) -> Version:
    """What an answer says of its object: the ETag, or, where there is none, the time of its change; and the size."""
    tag = str(said.get("e_tag") or said.get("last_modified")).removeprefix("W/")
    return (xxh3_64(tag.encode()), int(said["size"]))


class Versions:
    """The objects that are being read, each in the version of its first answer. Thread-safe."""

    def __init__(self) -> None:
        self._first: dict[str, Version] = {}

    def check(self, path: str, said: Mapping[str, Any]) -> None:
        """StaleError when the answer is of another version than the first one of this object."""
        version = version_of(said)
        if self._first.setdefault(path, version) != version:
            raise replaced(path)

    def differs(self, path: str, said: Mapping[str, Any]) -> bool:
        """Whether the answer is of another version than was read; False for what has not been read."""
        version = version_of(said)
        return self._first.get(path, version) != version

    def holds(self, path: str) -> bool:
        """Whether anything of this object has been read."""
        return path in self._first

    def take(self, other: Versions) -> None:
        """Objects that were read with ``other`` are the ones meant here too."""
        self._first.update(other._first)


def replaced(path: str) -> StaleError:
    """What is said of an object that is another now."""
    return StaleError(f"{path}: the object has been replaced since it was opened; open it again")


_LEAST_AHEAD: Final = 64 << 10  # bytes that are read of an object at once at least, …
_MOST_AHEAD: Final = 8 << 20  # … and at most, unless more are asked for
_ASKED_AHEAD: Final = 1 << 20  # from which on the next bytes are asked for before anybody wants them
_OBJECTS: Final = (".urec", ".idx", ".new")
_TOGETHER: Final = 4  # ranges that one call of the client reads, of those that are no longer …
_SMALL: Final = 1 << 20
_MANY: Final = 16  # … where so many are wanted at once: of these, one in so many tells its version

RETRIES: RetryConfig | None = None  # where the options say nothing; None: for three minutes

_stores: dict[tuple[int, str, StorageOptions | None], Store] = {}
_making = Locked()


class ObjectStore(Location):
    """The storage of ``s3://bucket/key``, ``gs://``, ``az://`` and ``https://``; no names lead elsewhere."""

    in_file_system = False

    def __init__(self, options: StorageOptions | None = None) -> None:
        self._options = options
        self._versions = Versions()

    def find(self, path: str) -> Entry | None:
        """An object; or a directory, which is any name that others begin with, or that has a manifest.

        A name of one of a part's files is that of an object.
        """
        if path.endswith(_OBJECTS):
            return self.find_each([path])[0]
        names = (path, posixpath.join(path, "manifest.json"))
        found, manifest = requests().all([self._look(name) for name in names])
        if isinstance(found, dict):
            return _entry(found)
        if isinstance(manifest, dict):
            return Entry("directory", 0, version_of(manifest))
        for answer in (found, manifest):
            if not isinstance(answer, FileNotFoundError):
                raise failure(path, answer)
        return Entry("directory", 0, ()) if self._lists(path) and self._listed(path) else None

    def find_each(self, paths: Sequence[str]) -> list[Entry | None]:
        """The object of each name, or None; no directories."""
        found = _come_each(paths, [self._look(path) for path in paths])
        return [None if said is None else _entry(said) for said in found]

    def _look(self, path: str) -> Read:
        store, key = self._store_and_key(path)
        return Read(store, partial(_head, key), 0)

    def names(self, folder: str) -> list[str]:
        """The names in a directory; NotADirectoryError where the store cannot list them."""
        if not self._lists(folder):
            raise NotADirectoryError(
                errno.ENOTDIR, "a web server does not say what it has: name the dataset, or its parts", folder
            )
        found = self._listed(folder)
        if not found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        return found

    def _lists(self, path: str) -> bool:
        return not path.lower().startswith("http")

    def _listed(self, folder: str) -> list[str]:
        store, key = self._store_and_key(folder)
        found = _come(folder, Read(store, partial(list_folder, key), 0))
        objects = [posixpath.basename(item["path"]) for item in found["objects"] if item["path"] != key]
        return objects + [posixpath.basename(str(prefix).rstrip("/")) for prefix in found["common_prefixes"]]

    def open(self, path: str) -> OpenFile:
        """An object."""
        return ObjectFile(path, self)

    def is_directory(self, path: str) -> bool:
        """Whether there is a directory at ``path``."""
        if path.endswith(".urec"):
            return False
        found = self.find(path)
        return found is not None and found.kind == "directory"

    def read(self, path: str, most: int) -> bytes:
        """The first ``most`` bytes of an object as it is now, by one request."""
        [found] = self._read([(path, 0, most)], Versions(), True)
        if isinstance(found, BaseException):
            raise found
        return bytes(found)

    def read_heads(self, wanted: Sequence[tuple[str, int]]) -> list[Any]:
        """Of each (path, size) the first bytes and the size of the whole, by one request, or the exception."""
        calls = []
        for path, size in wanted:
            store, key = self._store_and_key(path)
            calls.append(Read(store, partial(_get, key, 0, size), size))
        return [
            (data, int(said["size"])) if data is not None else said
            for data, said in self._answers([path for path, _ in wanted], calls, self._versions)
        ]

    def read_ranges(self, wanted: Sequence[tuple[str, int, int]], *, checked: bool = True) -> list[Any]:
        """Bytes [offset, offset + size) of each object, or the exception that says why they could not be had.

        StaleError is that of an object that is another than was read before. Where the bytes are ``checked`` by
        digests, and many are wanted, one range in 16 is asked for in the way that tells, which is twice the work.
        """
        return self._read(wanted, self._versions, not checked)

    def take_ranges(
        self, wanted: Sequence[tuple[str, int, int]], take: Callable[[int, Any], Any], *, checked: bool = True
    ) -> list[Any]:
        """What ``take`` makes of each range's number and bytes as soon as they come, or the exception."""
        return self._read(wanted, self._versions, not checked, take)

    def begin_ranges(self, wanted: Sequence[tuple[str, int, int]]) -> list[Callable[[], Any]] | None:
        """Asks for ranges, each in the way that tells the object's version, without waiting for any."""
        calls = []
        for path, offset, size in wanted:
            store, key = self._store_and_key(path)
            calls.append(Read(store, partial(_get, key, offset, size), size))
        begun = requests().begin(calls)
        return [partial(self._awaited, path, each) for (path, _, _), each in zip(wanted, begun, strict=True)]

    def _awaited(self, path: str, begun: Callable[[], Any]) -> Any:
        data, said = self._answer(path, begun(), self._versions)
        return said if data is None else data

    def has_changed(self, path: str) -> bool:
        """Whether an object is another now than was read."""
        if not self._versions.holds(path):
            return False
        [found] = requests().all([self._look(path)])
        return isinstance(found, dict) and self._versions.differs(path, found)

    def goes_on_from(self, before: Location) -> None:
        """What has been read from ``before`` is what is read here."""
        if isinstance(before, ObjectStore):
            self._versions.take(before._versions)

    def _read(
        self,
        wanted: Sequence[tuple[str, int, int]],
        versions: Versions,
        each_tells: bool,
        take: Callable[[int, Any], Any] | None = None,
    ) -> list[Any]:
        units = self._units(wanted, each_tells)
        found: list[Any] = [None] * len(wanted)
        again = self._read_units(wanted, units, found, versions, take)
        self._read_units(wanted, [([number], True) for number in again], found, versions, take)
        return found

    def _units(
        self, wanted: Sequence[tuple[str, int, int]], each_tells: bool
    ) -> list[tuple[list[int], bool]]:
        """The numbers of ranges that are read by one call of the client, and whether it tells the object's version.

        Several ranges by one call take a third less work than as many calls; it cannot tell.
        """
        units: list[tuple[list[int], bool]] = []
        last = None
        each_tells = each_tells or len(wanted) < _MANY
        for number, (path, _, size) in enumerate(wanted):
            tells = each_tells or number % _MANY == 0
            together = not tells and size <= _SMALL and self._store_and_key(path)[0].budget is None
            if together and path == last and len(units[-1][0]) < _TOGETHER:
                units[-1][0].append(number)
            else:
                units.append(([number], tells))
            last = path if together else None
        return units

    def _read_units(
        self,
        wanted: Sequence[tuple[str, int, int]],
        units: Sequence[tuple[list[int], bool]],
        found: list[Any],
        versions: Versions,
        take: Callable[[int, Any], Any] | None,
    ) -> list[int]:
        """Reads the ranges of each unit; gives the numbers of units of several that failed: one of them did."""
        calls = []
        for unit, tells in units:
            store, key = self._store_and_key(wanted[unit[0]][0])
            offsets, sizes = [wanted[number][1] for number in unit], [wanted[number][2] for number in unit]
            ask: Callable[[Any], Awaitable[Any]] = partial(_get_ranges, key, offsets, sizes)
            take_it: Callable[[Any], Any] | None = take and partial(_take_each, take, unit)
            if tells and sizes[0]:
                ask = partial(_get, key, offsets[0], sizes[0])
                take_it = take and partial(_take_first, take, unit[0])
            elif len(unit) == 1:
                ask = partial(_get_range, key, offsets[0], sizes[0])
                take_it = take and partial(take, unit[0])
            calls.append(Read(store, ask, sum(sizes), len(unit), take_it))
        again = []
        answers = self._answers([wanted[unit[0]][0] for unit, _ in units], calls, versions)
        for (unit, _), (data, said) in zip(units, answers, strict=True):
            if len(unit) == 1:
                found[unit[0]] = said if data is None else data
            elif data is None:
                again += unit
            else:
                for number, brought in zip(unit, data, strict=True):
                    found[number] = brought
        return again

    def _answers(
        self, paths: Sequence[str], calls: Sequence[Read], versions: Versions
    ) -> list[tuple[Any, Any]]:
        """What came of each call, and what was said of its object, if anything; or None, and the exception."""
        answers = requests().all(calls)
        return [self._answer(*each, versions) for each in zip(paths, answers, strict=True)]

    def _answer(self, path: str, answer: Any, versions: Versions) -> tuple[Any, Any]:
        data, said = answer if isinstance(answer, tuple) else (answer, None)
        if isinstance(answer, BaseException):
            data, said = None, failure(path, answer)
            if is_past_the_end(answer) and versions.holds(path):
                said = replaced(path)
        elif said is not None:
            try:
                versions.check(path, said)
            except StaleError as stale:
                data, said = None, stale
        return data, said

    def _store_and_key(self, path: str) -> tuple[Store, str]:
        return store_and_key(path, self._options)


class ObjectFile(OpenFile):
    """An object, read by ranges; more with each of them, as long as they follow each other, and the next one ahead."""

    def __init__(self, path: str, location: ObjectStore) -> None:
        self._path, self._location = path, location
        self._ahead, self._start, self._bytes = _LEAST_AHEAD, 0, b""  # what came last, and how much came
        self._next: Callable[[], Any] | None = None  # gives what follows that, which has been asked for
        found = _come(path, location._look(path))
        self.size: int = int(found["size"])
        self._versions = Versions()
        self._versions.check(path, found)

    def read_at(self, offset: int, size: int) -> bytes:
        """These bytes, or as many as there are before the end."""
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        at, stop = offset - self._start, self._start + len(self._bytes)
        if at < 0 or offset + size > stop:
            follows = bool(self._bytes) and 0 <= at <= len(self._bytes) + self._ahead
            self._ahead = min(self._ahead * 2, _MOST_AHEAD) if follows else _LEAST_AHEAD
            came = self._taken(follows)
            if came and offset + size <= stop + len(came):
                self._start, self._bytes = offset, self._bytes[at:] + came[max(offset - stop, 0) :]
            else:
                most = min(max(size, self._ahead), self.size - offset)
                [found] = self._location._read([(self._path, offset, most)], self._versions, True)
                if isinstance(found, BaseException):
                    raise found
                self._start, self._bytes = offset, bytes(found)
            at, stop = 0, self._start + len(self._bytes)
            more = min(self._ahead, self.size - stop)
            if self._ahead >= _ASKED_AHEAD and more > 0:
                store, key = self._location._store_and_key(self._path)
                [self._next] = requests().begin([Read(store, partial(_get, key, stop, more), more)])
        return self._bytes[at : at + size]

    def _taken(self, follows: bool) -> bytes:
        """What has been asked for behind what is here; nothing where that is not read, or failed: it is asked anew."""
        begun, self._next = self._next, None
        if begun is None or not follows:
            return b""
        data, _ = self._location._answer(self._path, begun(), self._versions)
        return b"" if data is None else bytes(data)


def _come(path: str, call: Read | Call) -> Any:
    """What comes of one request; raises what says why nothing did."""
    [found] = requests().all([call])
    if isinstance(found, BaseException):
        raise failure(path, found) from found
    return found


def _come_each(paths: Sequence[str], calls: Sequence[Read]) -> list[Any]:
    """What comes of each request, None for an object that is not there."""
    answers = requests().all(calls)
    for path, answer in zip(paths, answers, strict=True):
        if isinstance(answer, BaseException) and not isinstance(answer, FileNotFoundError):
            raise failure(path, answer) from answer
    return [None if isinstance(answer, BaseException) else answer for answer in answers]


def _head(key: str, client: Any) -> Awaitable[Any]:
    return client_module().head_async(client, key)  # type: ignore[no-any-return]


async def _get(key: str, offset: int, size: int, client: Any) -> tuple[Any, Any]:
    """Bytes, as many as there are, and what the same answer says of the object."""
    found = await client_module().get_async(client, key, options={"range": (offset, offset + size)})
    return await found.bytes_async(), found.meta


def _take_each(take: Callable[[int, Any], Any], numbers: Sequence[int], found: Sequence[Any]) -> list[Any]:
    return [take(number, data) for number, data in zip(numbers, found, strict=True)]


def _take_first(take: Callable[[int, Any], Any], number: int, found: tuple[Any, Any]) -> tuple[Any, Any]:
    return take(number, found[0]), found[1]


def _entry(said: Mapping[str, Any]) -> Entry:
    """An object, as a store says what it is."""
    return Entry("file", int(said["size"]), version_of(said), said["last_modified"].timestamp())


def list_folder(key: str, client: Any) -> Awaitable[Any]:
    """Asks for what is directly in a folder."""
    return client_module().list_with_delimiter_async(client, key or None)  # type: ignore[no-any-return]


def _get_range(key: str, offset: int, size: int, client: Any) -> Awaitable[Any]:
    return client_module().get_range_async(client, key, start=offset, length=size)  # type: ignore[no-any-return]


def _get_ranges(key: str, offsets: list[int], sizes: list[int], client: Any) -> Awaitable[Any]:
    get = client_module().get_ranges_async
    return get(client, key, starts=offsets, lengths=sizes, coalesce=0)  # type: ignore[no-any-return]


def store_and_key(path: str, options: StorageOptions | None) -> tuple[Store, str]:
    """The store that a path is in, made once for a process and its options, and the object's name there."""
    scheme, _, rest = path.partition("://")
    host, _, key = rest.partition("/")
    at = (os.getpid(), f"{scheme.lower()}://{host}", options)
    store = _stores.get(at)
    if store is None:
        with _making.lock:
            store = _stores.get(at) or Store(at[1], options, RETRIES)
            _ = store.once  # options that are wrong are said here
            _stores[at] = store
    return store, key.rstrip("/")


# Objects written: files uploaded in pieces, small ones put under a condition, some deleted (the extra
# ``remote``).


PIECE_BYTES = 8 << 20  # that one request of an upload carries, unless there would be too many of them
_PIECES_AT_ONCE: Final = 8
_MOST_PIECES: Final = 10_000  # of an upload, as S3 has it
_TRIES: Final = 4  # of a put whose answers are lost, each after the client's own
PAUSE_SECONDS = 0.5  # before the second of them, and twice as long before each next one


class Outrun(Exception):
    """The object is not the version that a put was to replace; ``now`` is what it is."""

    def __init__(self, now: Versioned | None) -> None:
        super().__init__("another one was faster")
        self.now = now


@dataclass(frozen=True)
class Versioned:
    """The content of an object, and what a put names to replace this version and no other."""

    content: bytes
    version: dict[str, str]


@dataclass(frozen=True)
class Listed:
    """An object in a listing: its bytes, and when it was put, in seconds since 1970."""

    bytes: int
    when: float


@dataclass(frozen=True)
class ObjectWrites:
    """Writes to stores that are reached by these options; picklable, as they are."""

    options: StorageOptions | None

    def upload(self, path: str, url: str) -> None:
        """Makes the file at ``path`` an object, in place of what had its name; it is there whole or not at all.

        At most 8 pieces are in flight, and in memory. What stops it, Ctrl-C too, aborts the upload, so that its pieces
        are not kept, nor paid for; a second Ctrl-C does not wait for that. OSError says what the store said.
        """
        store, key = store_and_key(url, self.options)
        with LocalFile(path) as file:
            size = max(PIECE_BYTES, -(-file.size // _MOST_PIECES))
            stopped = threading.Event()
            if file.size <= size:
                put = partial(_put, store, key, file.read_at(0, file.size), "overwrite")
            else:
                put = partial(_put_in_pieces, store, key, _pieces(file, size, stopped), size)
            [found] = requests().all([put], stopped.set)
            if isinstance(found, BaseException) and not self._arrived(url, file.size):
                raise failure(url, found) from found

    def _arrived(self, url: str, size: int) -> bool:
        """Whether an upload is there though its answer was lost: nobody else writes to its name."""
        store, key = store_and_key(url, self.options)
        [found] = requests().all([Read(store, partial(_head, key), 0)])
        return isinstance(found, dict) and int(found["size"]) == size

    def read_versioned(self, url: str) -> Versioned | None:
        """The object as it is now; None when there is none. OSError when that cannot be had."""
        return self.read_each([url])[0]

    def read_each(self, urls: Sequence[str]) -> list[Versioned | None]:
        """The same of several objects, asked for at once."""
        stores = [store_and_key(url, self.options) for url in urls]
        return _come_each(urls, [Read(store, partial(_get_parts, key), 0) for store, key in stores])

    def listed(self, url: str) -> dict[str, Listed]:
        """The objects directly in a folder, by name; OSError when that cannot be had."""
        store, key = store_and_key(url, self.options)
        found = _come(url, Read(store, partial(list_folder, key), 0))
        return {
            posixpath.basename(one["path"]): Listed(int(one["size"]), one["last_modified"].timestamp())
            for one in found["objects"]
        }

    def put(self, url: str, content: bytes) -> None:
        """Puts an object that nobody else puts; OSError says what the store said."""
        store, key = store_and_key(url, self.options)
        _come(url, partial(_put, store, key, content, "overwrite"))

    def put_if(self, url: str, content: bytes, before: Versioned | None) -> Versioned:
        """Puts an object in the place of the version ``before``, or, None, where there is none; by a conditional put.

        Lost answers are looked after: it returns what is there when the content is. Raises `Outrun` when another
        version is, `Undecided`, and OSError when the store refuses: then it is not there, and will not be.
        """
        store, key = store_and_key(url, self.options)
        mode: Any = "create" if before is None else before.version
        for number in range(_TRIES):
            if number:
                time.sleep(PAUSE_SECONDS * 2 ** (number - 1))
            [found] = requests().all([partial(_put, store, key, content, mode)])
            if not isinstance(found, BaseException):
                return Versioned(content, _version_in(found))
            if isinstance(found, PermissionError) or type(found).__name__ in _REFUSALS:
                if not number:
                    raise failure(url, found) from found
                break
            if _has_no_conditions(found) and mode != "overwrite":
                mode = self._without_conditions(url, before)
                continue
            with suppress(OSError):
                now = self.read_versioned(url)
                if now is not None and now.content == content:
                    return now
                if _version(now) != _version(before):
                    raise Outrun(now)
        raise Undecided(
            errno.EIO,
            f"the store did not say whether this was published, and may yet do it: {failure(url, found)}; look at it "
            "once the store answers again. The new parts stay where they are",
            url,
        ) from found

    def _without_conditions(self, url: str, before: Versioned | None) -> str:
        warnings.warn(
            f"{url}: this store has no conditional puts: of two writers at once, one may undo what the other publishes",
            stacklevel=2,
        )
        now = self.read_versioned(url)
        if _version(now) != _version(before):
            raise Outrun(now)
        return "overwrite"

    def delete(self, urls: Sequence[str]) -> list[str]:
        """Deletes objects; those of which the store did not say that they are gone."""
        calls = [partial(_delete, *store_and_key(url, self.options)) for url in urls]
        return [
            url
            for url, found in zip(urls, requests().all(calls), strict=True)
            if isinstance(found, BaseException) and not isinstance(found, FileNotFoundError)
        ]


async def _get_parts(key: str, client: Any) -> Versioned:
    answer = await client_module().get_async(client, key)
    return Versioned(bytes(await answer.bytes_async()), _version_in(answer.meta))


def _version_in(said: Any) -> dict[str, str]:
    return {name: said[name] for name in ("e_tag", "version") if said.get(name) is not None}


def _put(store: Store, key: str, content: bytes, mode: Any) -> Awaitable[Any]:
    return client_module().put_async(store.patient, key, content, mode=mode, use_multipart=False)  # type: ignore[no-any-return]


def _put_in_pieces(store: Store, key: str, pieces: Iterator[bytes], size: int) -> Awaitable[Any]:
    return client_module().put_async(  # type: ignore[no-any-return]
        store.patient, key, pieces, use_multipart=True, chunk_size=size, max_concurrency=_PIECES_AT_ONCE
    )


def _delete(store: Store, key: str) -> Awaitable[Any]:
    return client_module().delete_async(store.patient, key)  # type: ignore[no-any-return]


def _pieces(file: LocalFile, size: int, stopped: threading.Event) -> Iterator[bytes]:
    """The content of a file, piece by piece, until it is stopped."""
    at = 0
    while not stopped.is_set():
        piece = file.read_at(at, size)
        if not piece:
            return
        yield piece
        at += len(piece)
    raise ConnectionAbortedError(errno.ECONNABORTED, "it was given up")


_REFUSALS: Final = ("PermissionDeniedError", "UnauthenticatedError", "InvalidPathError")


def _has_no_conditions(error: BaseException) -> bool:
    return (
        isinstance(error, NotImplementedError)
        or type(error).__name__ == "NotSupportedError"
        or ("501 Not Implemented" in str(error))
    )


def _version(found: Versioned | None) -> dict[str, str] | None:
    return None if found is None else found.version
