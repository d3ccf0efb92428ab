"""Storage that fsspec knows and we do not: looked up, listed and read by ranges, several at a time; never written."""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, TypeVar

from ..core import xxh3_64
from ..errors import UniRecordError
from .location import Entry, Location, OpenFile
from .storage_options import StorageOptions

__all__ = ["FsspecStore", "is_known"]

_AT_ONCE: Final = 16  # requests of a call to a file system without a loop of its own
_OURS: Final = ("credential_provider", "max_requests_per_second", "retry_config")
_KEPT_KEYS: Final = 64

_T = TypeVar("_T")
_made: dict[
    tuple[int, str, StorageOptions | None], Any
] = {}  # file systems, by process and beginning of the path


def is_known(scheme: str) -> bool:
    """Whether fsspec is installed, and knows this scheme."""
    try:
        from fsspec.registry import available_protocols, registry
    except ImportError:
        return False
    return scheme in available_protocols() or scheme in registry


class FsspecStore(Location):
    """The storage of ``scheme://…`` as a file system of fsspec, made with the options; no names lead elsewhere."""

    in_file_system = False

    def __init__(self, options: StorageOptions | None = None) -> None:
        self._options = options
        self._versions: dict[str, tuple[int, ...]] = {}  # of files, when they were first read

    def find(self, path: str) -> Entry | None:
        """A file, or a directory; what has a manifest changes with it."""
        found = self._info(path)
        if found is None or found.kind != "directory":
            return found
        manifest = self._info(posixpath.join(path, "manifest.json"))
        return Entry("directory", 0, () if manifest is None else manifest.version)

    def find_each(self, paths: Sequence[str]) -> list[Entry | None]:
        """What is at each of the paths."""
        return _all([lambda path=path: self._info(path) for path in paths])  # type: ignore[misc]

    def names(self, folder: str) -> list[str]:
        """The names in a directory, as they are now."""
        system, inside = self._at(folder)
        system.invalidate_cache()
        found = self._done(folder, lambda: system.ls(inside, detail=False))
        return [posixpath.basename(str(name).rstrip("/")) for name in found]

    def open(self, path: str) -> OpenFile:
        """A file."""
        return _File(path, self)

    def read(self, path: str, most: int) -> bytes:
        """The first ``most`` bytes of a file as it is now."""
        return self._bytes(path, 0, most)

    def read_heads(self, wanted: Sequence[tuple[str, int]]) -> list[Any]:
        """Of each (path, size) the first bytes and the size of the whole, or the exception."""

        def head(path: str, size: int) -> tuple[bytes, int]:
            found = self._info(path)
            if found is None or found.kind != "file":
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            self._versions.setdefault(path, found.version)
            return self._bytes(path, 0, min(size, found.size)), found.size

        return _all([lambda each=each: _or_error(lambda: head(*each)) for each in wanted])  # type: ignore[misc]

    def read_ranges(self, wanted: Sequence[tuple[str, int, int]], *, checked: bool = True) -> list[Any]:
        """Bytes [offset, offset + size) of each file, or the exception that says why they could not be had."""
        if not wanted:
            return []
        system = self._at(wanted[0][0])[0]
        if not system.async_impl:
            return _all([lambda each=each: _or_error(lambda: self._bytes(*each)) for each in wanted])  # type: ignore[misc]
        paths = [self._at(path)[1] for path, _, _ in wanted]
        starts, ends = [offset for _, offset, _ in wanted], [offset + size for _, offset, size in wanted]

        def all_of_them() -> Any:
            return system.cat_ranges(paths, starts, ends, max_gap=None, on_error="return")

        found = self._done(wanted[0][0], all_of_them)
        return [
            self._failure(path, one) if isinstance(one, BaseException) else one
            for (path, _, _), one in zip(wanted, found, strict=True)
        ]

    def has_changed(self, path: str) -> bool:
        """Whether the file is another now than when its head was read."""
        before, now = self._versions.get(path), self._info(path)
        return before is not None and now is not None and now.version != before

    def goes_on_from(self, before: Location) -> None:
        """What has been read by ``before`` is what is to be read here."""
        if isinstance(before, FsspecStore):
            self._versions.update(before._versions)

    def _bytes(self, path: str, offset: int, size: int) -> bytes:
        system, inside = self._at(path)
        return (
            bytes(self._done(path, lambda: system.cat_file(inside, offset, offset + size))) if size else b""
        )

    def _info(self, path: str) -> Entry | None:
        system, inside = self._at(path)
        system.invalidate_cache()
        try:
            found = self._done(path, lambda: system.info(inside))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if found["type"] == "directory":
            return Entry("directory", 0, ())
        version = xxh3_64(repr(sorted((str(name), str(value)) for name, value in found.items())).encode())
        is_file = found["type"] == "file" and found.get("size") is not None
        return Entry("file" if is_file else "other", int(found.get("size") or 0), (version,))

    def _at(self, path: str) -> tuple[Any, str]:
        """The file system that a path is in, made once for a process and the options, and the name there."""
        scheme, _, rest = path.partition("://")
        at = (os.getpid(), f"{scheme.lower()}://{rest.partition('/')[0]}", self._options)
        system = _made.get(at)
        if system is None:
            system = self._make(path)
            while len(_made) >= _KEPT_KEYS:
                _made.pop(next(iter(_made)), None)
            _made[at] = system
        return system, str(system._strip_protocol(path))

    def _make(self, path: str) -> Any:
        from fsspec.core import url_to_fs

        given = {} if self._options is None else dict(self._options.given)
        for name in _OURS:
            if name in given:
                raise ValueError(f"{path}: {name!r} is no option of storage that is read by fsspec")
        try:
            return url_to_fs(path, **given)[0]
        except (ImportError, TypeError, ValueError) as error:
            raise UniRecordError(f"{path}: fsspec cannot read it: {self._said(error)}") from None
        except Exception as error:  # it may have asked the host
            raise self._failure(path, error) from error

    def _done(self, path: str, call: Callable[[], _T]) -> _T:
        try:
            return call()
        except Exception as error:
            raise self._failure(path, error) from error

    def _failure(self, path: str, error: BaseException) -> BaseException:
        """What a file system raised, as the exception that readers know; it names the path."""
        if not isinstance(error, Exception):
            return error
        for kind in (FileNotFoundError, NotADirectoryError, PermissionError):
            if isinstance(error, kind):
                number = error.errno or (errno.ENOENT if kind is FileNotFoundError else errno.EACCES)
                return kind(number, os.strerror(number), path)
        return OSError(errno.EIO, self._said(error), path)

    def _said(self, error: BaseException) -> str:
        text = (str(error).splitlines() or [""])[0] or type(error).__name__
        return text if self._options is None else self._options.hidden(text)


class _File(OpenFile):
    """A file, read by ranges."""

    def __init__(self, path: str, location: FsspecStore) -> None:
        self._path, self._location = path, location
        self.size = location.size(path)

    def read_at(self, offset: int, size: int) -> bytes:
        """These bytes, or as many as there are before the end."""
        return self._location._bytes(self._path, offset, max(min(size, self.size - offset), 0))


def _or_error(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except OSError as error:
        return error


def _all(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """What each call gives; they are made at once."""
    if len(calls) < 2:
        return [call() for call in calls]
    with ThreadPoolExecutor(min(_AT_ONCE, len(calls))) as pool:
        return [future.result() for future in [pool.submit(copy_context().run, call) for call in calls]]
