"""Object stores and web servers: objects looked up, listed, and read by ranges, by obstore (the extra ``remote``)."""

from __future__ import annotations

import errno
import os
import posixpath
import threading
from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..core import xxh3_64
from ..errors import MissingError, UniRecordError
from .location import Entry, Location, OpenFile
from .requests import requests

if TYPE_CHECKING:
    from obstore.store import RetryConfig

__all__ = ["ObjectFile", "ObjectStore"]

_LEAST_AHEAD: Final = 64 << 10  # bytes that are read of an object at once at least, …
_MOST_AHEAD: Final = 8 << 20  # … and at most, unless more are asked for
_METADATA_SERVER: Final = "169.254.169.254"
_OBJECTS: Final = (".urec", ".idx", ".new")
_MAGIC: Final = "*?["
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT", "AZURE_STORAGE_ENDPOINT")

RETRIES: RetryConfig | None = None  # None: ten times in three minutes, longer and longer apart

_stores: dict[tuple[int, str], Any] = {}
_making = threading.Lock()


class ObjectStore(Location):
    """The storage of ``s3://bucket/key``, ``gs://``, ``az://`` and ``https://``; no names lead elsewhere."""

    in_file_system = False

    def absolute(self, path: str) -> str:
        """The path, which is complete, without empty parts at its end."""
        return path.rstrip("/")

    def find(self, path: str) -> Entry | None:
        """An object; or a directory, which is any name that others begin with, or that has a manifest.

        A name of one of a part's files is that of an object.
        """
        if path.endswith(_OBJECTS):
            return self.find_each([path])[0]
        store, key = _store_and_key(path)
        head = _client().head_async
        names = (key, posixpath.join(key, "manifest.json"))
        found, manifest = requests().all([partial(head, store, name) for name in names])
        if isinstance(found, dict):
            return Entry("file", int(found["size"]), _version(found))
        if isinstance(manifest, dict):
            return Entry("directory", 0, _version(manifest))
        for answer in (found, manifest):
            if not isinstance(answer, FileNotFoundError):
                raise _failure(path, answer)
        return Entry("directory", 0, ()) if self._lists(path) and self._listed(path) else None

    def find_each(self, paths: Sequence[str]) -> list[Entry | None]:
        """The object of each name, or None; no directories."""
        head = _client().head_async
        answers = requests().all([partial(head, *_store_and_key(path)) for path in paths])
        found: list[Entry | None] = []
        for path, answer in zip(paths, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, FileNotFoundError):
                raise _failure(path, answer)
            is_there = isinstance(answer, dict)
            found.append(Entry("file", int(answer["size"]), _version(answer)) if is_there else None)
        return found

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
        store, key = _store_and_key(folder)
        try:
            found = _client().list_with_delimiter(store, key or None)
        except Exception as error:
            raise _failure(folder, error) from error
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
        return ObjectFile(path)

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

    def read_ranges(self, wanted: Sequence[tuple[str, int, int]]) -> list[Any]:
        """Bytes [offset, offset + size) of each object, or the exception that says why they could not be had."""
        calls = []
        for path, offset, size in wanted:
            store, key = _store_and_key(path)
            calls.append(partial(_client().get_range_async, store, key, start=offset, length=size))
        found = requests().all(calls)
        return [
            _failure(path, answer) if isinstance(answer, BaseException) else answer
            for (path, _, _), answer in zip(wanted, found, strict=True)
        ]


class ObjectFile:
    """An object, read by ranges; more with each of them, as long as they follow each other."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._ahead, self._start, self._bytes = _LEAST_AHEAD, 0, b""  # what came last, and how much came
        store, key = _store_and_key(path)
        [found] = requests().all([partial(_client().head_async, store, key)])
        if not isinstance(found, dict):
            raise _failure(path, found)
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
            [found] = ObjectStore().read_ranges([(self._path, offset, most)])
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


def _client() -> Any:
    try:
        import obstore
    except ImportError:
        raise UniRecordError(
            "object stores are read by the package obstore: pip install 'unirecord[remote]'"
        ) from None
    return obstore


def _store_and_key(path: str) -> tuple[Any, str]:
    """The client of the store that a path is in, made once for a process, and the object's name there."""
    scheme, _, rest = path.partition("://")
    host, _, key = rest.partition("/")
    at = (os.getpid(), f"{scheme.lower()}://{host}")
    store = _stores.get(at)
    if store is None:
        with _making:
            store = _stores.get(at) or _stores.setdefault(at, _open_store(at[1], path))
    return store, key.rstrip("/")


def _open_store(root: str, path: str) -> Any:
    _client()
    from obstore.store import from_url

    # an endpoint that the user has named without encryption is meant so
    plain = root.startswith("http://") or any(
        os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS
    )
    try:
        return from_url(root, client_options={"allow_http": True} if plain else None, retry_config=RETRIES)
    except Exception as error:
        raise _failure(path, error) from error


def _version(found: dict[str, Any]) -> tuple[int, ...]:
    tag = str(found.get("e_tag") or found.get("last_modified"))
    return (xxh3_64(tag.encode()), int(found["size"]))


def _failure(path: str, error: BaseException) -> BaseException:
    """The exception of a request, with the path and the first line of what the client says."""
    if not isinstance(error, Exception) or isinstance(error, UniRecordError):
        return error
    said = str(error).strip().splitlines() or [type(error).__name__]
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if isinstance(error, PermissionError):
        return PermissionError(errno.EACCES, said[0], path)
    if _METADATA_SERVER in said[0]:  # which the client asks for credentials when there are none
        said[0] = (
            "no credentials were found in the environment (docs/storage.md says which); for a public bucket, "
            f"AWS_SKIP_SIGNATURE=true or GOOGLE_SKIP_SIGNATURE=true: {said[0]}"
        )
    return OSError(errno.EIO, said[0], path)
