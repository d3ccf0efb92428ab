"""Object stores and web servers: objects looked up, listed, and read by ranges, by obstore (the extra ``remote``)."""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from collections.abc import Awaitable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..core import xxh3_64
from ..errors import MissingError
from .location import Entry, Location, OpenFile
from .requests import Read, requests
from .storage_options import StorageOptions
from .store import Store, client_module
from .store_failures import failure

if TYPE_CHECKING:
    from obstore.store import RetryConfig

__all__ = ["ObjectFile", "ObjectStore", "store_and_key"]

_LEAST_AHEAD: Final = 64 << 10  # bytes that are read of an object at once at least, …
_MOST_AHEAD: Final = 8 << 20  # … and at most, unless more are asked for
_OBJECTS: Final = (".urec", ".idx", ".new")
_MAGIC: Final = "*?["
_TOGETHER: Final = 4  # ranges that one call of the client reads, of those that are no longer …
_SMALL: Final = 1 << 20
_MANY: Final = 16  # … where so many are wanted at once

RETRIES: RetryConfig | None = None  # where the options say nothing; None: for three minutes

_stores: dict[tuple[int, str, StorageOptions | None], Store] = {}
_making = threading.Lock()


class ObjectStore(Location):
    """The storage of ``s3://bucket/key``, ``gs://``, ``az://`` and ``https://``; no names lead elsewhere."""

    in_file_system = False

    def __init__(self, options: StorageOptions | None = None) -> None:
        self._options = options

    def absolute(self, path: str) -> str:
        """The path, which is complete, without empty parts at its end."""
        return path.rstrip("/")

    def find(self, path: str) -> Entry | None:
        """An object; or a directory, which is any name that others begin with, or that has a manifest.

        A name of one of a part's files is that of an object.
        """
        if path.endswith(_OBJECTS):
            return self.find_each([path])[0]
        names = (path, posixpath.join(path, "manifest.json"))
        found, manifest = requests().all([self._look(name) for name in names])
        if isinstance(found, dict):
            return Entry("file", int(found["size"]), _version(found))
        if isinstance(manifest, dict):
            return Entry("directory", 0, _version(manifest))
        for answer in (found, manifest):
            if not isinstance(answer, FileNotFoundError):
                raise failure(path, answer)
        return Entry("directory", 0, ()) if self._lists(path) and self._listed(path) else None

    def find_each(self, paths: Sequence[str]) -> list[Entry | None]:
        """The object of each name, or None; no directories."""
        answers = requests().all([self._look(path) for path in paths])
        found: list[Entry | None] = []
        for path, answer in zip(paths, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, FileNotFoundError):
                raise failure(path, answer)
            is_there = isinstance(answer, dict)
            found.append(Entry("file", int(answer["size"]), _version(answer)) if is_there else None)
        return found

    def _look(self, path: str) -> Read:
        store, key = self._store_and_key(path)
        return Read(store, partial(_head, key), 0)

    def is_taken(self, path: str) -> bool:
        """Whether there is anything of this name."""
        return self.find(path) is not None

    def link(self, path: str) -> str | None:
        """Objects are no links."""
        return None

    def names(self, folder: str) -> list[str]:
        """The names in a directory; NotADirectoryError where the store cannot list them."""
        if not self._lists(folder):
            raise NotADirectoryError(errno.ENOTDIR, "a web server does not say what it has", folder)
        found = self._listed(folder)
        if not found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        return found

    def _lists(self, path: str) -> bool:
        return not path.lower().startswith("http")

    def _listed(self, folder: str) -> list[str]:
        store, key = self._store_and_key(folder)
        [found] = requests().all([Read(store, partial(_list, key), 0)])
        if isinstance(found, BaseException):
            raise failure(folder, found)
        objects = [posixpath.basename(item["path"]) for item in found["objects"] if item["path"] != key]
        return objects + [posixpath.basename(str(prefix).rstrip("/")) for prefix in found["common_prefixes"]]

    def matching(self, pattern: str) -> list[str] | None:
        """The paths that match: wildcards stand in the last part of a path alone."""
        folder, name = posixpath.split(pattern)
        if not any(sign in pattern.partition("://")[2] for sign in _MAGIC):
            return None
        if any(sign in folder for sign in _MAGIC):
            raise MissingError(
                f"{pattern}: in an object store, wildcards stand in the last part of a path alone"
            )
        return sorted(f"{folder}/{found}" for found in self.names(folder) if fnmatchcase(found, name))

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
        """The first ``most`` bytes of an object, by one request."""
        [found] = self.read_ranges([(path, 0, most)])
        if isinstance(found, BaseException):
            raise found
        return bytes(found)

    def read_heads(self, wanted: Sequence[tuple[str, int]]) -> list[Any]:
        """Of each (path, size) the first bytes and the size of the whole, by one request, or the exception."""
        calls = []
        for path, size in wanted:
            store, key = self._store_and_key(path)
            calls.append(Read(store, partial(_get_head, key, size), size))
        return [
            failure(path, answer) if isinstance(answer, BaseException) else answer
            for (path, _), answer in zip(wanted, requests().all(calls), strict=True)
        ]

    def read_ranges(self, wanted: Sequence[tuple[str, int, int]]) -> list[Any]:
        """Bytes [offset, offset + size) of each object, or the exception that says why they could not be had."""
        units = self._units(wanted)
        found: list[Any] = [None] * len(wanted)
        again = self._read_units(wanted, units, found)
        self._read_units(wanted, [[number] for number in again], found)
        return found

    def _units(self, wanted: Sequence[tuple[str, int, int]]) -> list[list[int]]:
        """The numbers of ranges that are read by one call of the client: it takes a third less work than as many."""
        units: list[list[int]] = []
        last = None
        for number, (path, _, size) in enumerate(wanted):
            together = len(wanted) >= _MANY and size <= _SMALL and self._store_and_key(path)[0].budget is None
            if together and path == last and len(units[-1]) < _TOGETHER:
                units[-1].append(number)
            else:
                units.append([number])
            last = path if together else None
        return units

    def _read_units(
        self, wanted: Sequence[tuple[str, int, int]], units: Sequence[list[int]], found: list[Any]
    ) -> list[int]:
        """Reads the ranges of each unit; gives the numbers of units of several that failed: one of them did."""
        calls = []
        for unit in units:
            store, key = self._store_and_key(wanted[unit[0]][0])
            offsets, sizes = [wanted[number][1] for number in unit], [wanted[number][2] for number in unit]
            ask = partial(_get_ranges, key, offsets, sizes)
            if len(unit) == 1:
                ask = partial(_get_range, key, offsets[0], sizes[0])
            calls.append(Read(store, ask, sum(sizes), len(unit)))
        again = []
        for unit, answer in zip(units, requests().all(calls), strict=True):
            if len(unit) == 1:
                is_failure = isinstance(answer, BaseException)
                found[unit[0]] = failure(wanted[unit[0]][0], answer) if is_failure else answer
            elif isinstance(answer, BaseException):
                again += unit
            else:
                for number, brought in zip(unit, answer, strict=True):
                    found[number] = brought
        return again

    def _store_and_key(self, path: str) -> tuple[Store, str]:
        return store_and_key(path, self._options)


class ObjectFile:
    """An object, read by ranges; more with each of them, as long as they follow each other."""

    def __init__(self, path: str, location: ObjectStore) -> None:
        self._path, self._location = path, location
        self._ahead, self._start, self._bytes = _LEAST_AHEAD, 0, b""  # what came last, and how much came
        [found] = requests().all([location._look(path)])
        if not isinstance(found, dict):
            raise failure(path, found)
        self.size = int(found["size"])

    def __enter__(self) -> ObjectFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Nothing is held."""

    def read_at(self, offset: int, size: int) -> bytes:
        """These bytes, or as many as there are before the end."""
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        at, stop = offset - self._start, self._start + len(self._bytes)
        if at < 0 or offset + size > stop:
            follows = self._bytes and 0 <= offset - stop <= self._ahead
            self._ahead = min(self._ahead * 2, _MOST_AHEAD) if follows else _LEAST_AHEAD
            most = min(max(size, self._ahead), self.size - offset)
            [found] = self._location.read_ranges([(self._path, offset, most)])
            if isinstance(found, BaseException):
                raise found
            self._start, self._bytes, at = offset, bytes(found), 0
        return self._bytes[at : at + size]

    def read_into(self, buffer: Any, offset: int) -> int:
        """Fills ``buffer``; returns how many bytes there were before the object's end."""
        view = memoryview(buffer).cast("B")
        found = self.read_at(offset, len(view))
        view[: len(found)] = found
        return len(found)


def _head(key: str, client: Any) -> Awaitable[Any]:
    return client_module().head_async(client, key)  # type: ignore[no-any-return]


async def _get_head(key: str, size: int, client: Any) -> tuple[Any, int]:
    found = await client_module().get_async(client, key, options={"range": (0, size)})
    return await found.bytes_async(), int(found.meta["size"])


def _list(key: str, client: Any) -> Awaitable[Any]:
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
        with _making:
            store = _stores.get(at) or Store(at[1], options, RETRIES)
            _ = store.once  # options that are wrong are said here
            _stores[at] = store
    return store, key.rstrip("/")


def _version(found: dict[str, Any]) -> tuple[int, ...]:
    tag = str(found.get("e_tag") or found.get("last_modified"))
    return (xxh3_64(tag.encode()), int(found["size"]))
