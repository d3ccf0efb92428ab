"""Objects written: files uploaded in pieces, small ones put under a condition, some deleted (the extra ``remote``)."""

from __future__ import annotations

import errno
import posixpath
import time
import warnings
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from .local import LocalFile
from .object_store import list_folder, store_and_key
from .requests import Read, requests
from .storage_options import StorageOptions
from .store import Store, client_module, failure

__all__ = ["Listed", "ObjectWrites", "Outrun", "Undecided", "Versioned"]

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


class Undecided(OSError):
    """Whether a put has taken effect, or will yet, is not known: neither it nor a look at the object was answered."""


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
            pieces = _Pieces(file, size)
            if file.size <= size:
                put = partial(_put, store, key, file.read_at(0, file.size), "overwrite")
            else:
                put = partial(_put_in_pieces, store, key, pieces, size)
            [found] = requests().all([put], pieces.stop)
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
        answers = requests().all([Read(store, partial(_get, key), 0) for store, key in stores])
        found: list[Versioned | None] = []
        for url, answer in zip(urls, answers, strict=True):
            if isinstance(answer, BaseException) and not isinstance(answer, FileNotFoundError):
                raise failure(url, answer) from answer
            found.append(answer if isinstance(answer, Versioned) else None)
        return found

    def listed(self, url: str) -> dict[str, Listed]:
        """The objects directly in a folder, by name; OSError when that cannot be had."""
        store, key = store_and_key(url, self.options)
        [found] = requests().all([Read(store, partial(list_folder, key), 0)])
        if isinstance(found, BaseException):
            raise failure(url, found) from found
        return {
            posixpath.basename(one["path"]): Listed(int(one["size"]), one["last_modified"].timestamp())
            for one in found["objects"]
        }

    def put(self, url: str, content: bytes) -> None:
        """Puts an object that nobody else puts; OSError says what the store said."""
        store, key = store_and_key(url, self.options)
        [found] = requests().all([partial(_put, store, key, content, "overwrite")])
        if isinstance(found, BaseException):
            raise failure(url, found) from found

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


def _head(key: str, client: Any) -> Awaitable[Any]:
    return client_module().head_async(client, key)  # type: ignore[no-any-return]


async def _get(key: str, client: Any) -> Versioned:
    answer = await client_module().get_async(client, key)
    return Versioned(bytes(await answer.bytes_async()), _version_in(answer.meta))


def _version_in(said: Any) -> dict[str, str]:
    return {name: said[name] for name in ("e_tag", "version") if said.get(name) is not None}


def _put(store: Store, key: str, content: bytes, mode: Any) -> Awaitable[Any]:
    return client_module().put_async(store.patient, key, content, mode=mode, use_multipart=False)  # type: ignore[no-any-return]


def _put_in_pieces(store: Store, key: str, pieces: _Pieces, size: int) -> Awaitable[Any]:
    return client_module().put_async(  # type: ignore[no-any-return]
        store.patient, key, pieces, use_multipart=True, chunk_size=size, max_concurrency=_PIECES_AT_ONCE
    )


def _delete(store: Store, key: str) -> Awaitable[Any]:
    return client_module().delete_async(store.patient, key)  # type: ignore[no-any-return]


class _Pieces:
    """The content of a file, piece by piece, until it is stopped."""

    def __init__(self, file: LocalFile, size: int) -> None:
        self._file, self._size, self._at, self._stopped = file, size, 0, False

    def stop(self) -> None:
        self._stopped = True

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._stopped:
            raise ConnectionAbortedError(errno.ECONNABORTED, "it was given up")
        piece = self._file.read_at(self._at, self._size)
        self._at += len(piece)
        if not piece:
            raise StopIteration
        return piece


_REFUSALS: Final = ("PermissionDeniedError", "UnauthenticatedError", "InvalidPathError")


def _has_no_conditions(error: BaseException) -> bool:
    return (
        isinstance(error, NotImplementedError)
        or type(error).__name__ == "NotSupportedError"
        or ("501 Not Implemented" in str(error))
    )


def _version(found: Versioned | None) -> dict[str, str] | None:
    return None if found is None else found.version
