"""One shelf of a cache: bytes of the objects of one folder in a file that only grows, and a journal that says which.

What the journal does not name is not there, and its records follow the bytes; so a process can end anywhere. Bytes stay
where they are until the shelf as a whole is cleared.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core import digest_ranges, xxh3_64
from . import system
from .claim import lock
from .own_directory import own_file, secret_of
from .system import Buffer, Descriptor

__all__ = [
    "DROPPED",
    "KEPT",
    "OBJECT",
    "PINNED",
    "RECORD",
    "Records",
    "Shelf",
    "ShelfError",
    "paths_of",
    "url_of",
]

RECORD: Final = np.dtype(
    [
        ("kind", "<u4"),
        ("object", "<u4"),  # number of an object of this shelf, drawn by lot
        ("offset", "<u8"),  # in the object; of OBJECT, its identity
        ("bytes", "<u8"),  # of the range; of OBJECT, the other half of its identity
        (
            "place",
            "<u8",
        ),  # of the range in the file of bytes; of OBJECT, the object's length; of PINNED, 1 or 0
        ("digest", "<u8"),  # XXH3-64 of the range with the shelf's seed
        ("check", "<u8"),  # XXH3-64 of this record, with the seed and its number
    ]
)
OBJECT, KEPT, DROPPED, PINNED = 1, 2, 3, 4  # kinds of records

_MAGIC: Final = b"URCACHE1"
_HEAD: Final = struct.Struct("<8sIIQQ")  # magic, bytes of the head, bytes of the URL, seed, digest of it all
_STEP: Final = 0x9E3779B97F4A7C15  # between the seeds of records, as between those of a part's digests
_MOST_HEAD: Final = 1 << 16

Records = npt.NDArray[Any]  # of RECORD


class ShelfError(Exception):
    """The files of a shelf are not those of one."""


def paths_of(folder: str, url: str, secret: bytes | None = None) -> tuple[str, str]:
    """The paths of a shelf's journal and of its bytes: who lacks the folder's secret cannot tell them from the URL."""
    key = secret_of(folder) if secret is None else secret
    digest = hashlib.blake2b(url.encode(), key=key, digest_size=8).hexdigest()
    name = os.path.join(folder, digest)
    return name + ".log", name + ".bytes"


def url_of(journal: str) -> str:
    """The URL that the shelf with this journal is for; ShelfError when it is none."""
    file = own_file(journal, os.O_RDONLY)
    try:
        return _read_head(file)[0]
    finally:
        file.close()


def _read_head(file: Descriptor) -> tuple[str, int, int]:
    """URL, seed, and bytes of the head of a journal."""
    head = os.pread(file.number, _MOST_HEAD, 0)
    if len(head) < _HEAD.size:
        raise ShelfError("its head is cut")
    magic, size, url_bytes, seed, digest = _HEAD.unpack_from(head)
    if magic != _MAGIC or not _HEAD.size + url_bytes <= size <= len(head):
        raise ShelfError("its head is another one")
    if xxh3_64(_HEAD.pack(magic, size, url_bytes, seed, 0) + head[_HEAD.size : size]) != digest:
        raise ShelfError("its head is damaged")
    return head[_HEAD.size : _HEAD.size + url_bytes].decode(errors="replace"), seed, size


def head_of(url: str) -> bytes:
    """The head of a new journal."""
    text = url.encode()
    size = -(-(_HEAD.size + len(text)) // 16) * 16
    seed = secrets.randbits(64)
    rest = text.ljust(size - _HEAD.size, b"\0")
    digest = xxh3_64(_HEAD.pack(_MAGIC, size, len(text), seed, 0) + rest)
    return _HEAD.pack(_MAGIC, size, len(text), seed, digest) + rest


class Shelf:
    """An open shelf, which nobody clears meanwhile. Whoever appends holds the cache's lock.

    FileNotFoundError when it is not there, ShelfError when its files are not those of a shelf.
    """

    journal: str
    path: str
    seed: int

    def __init__(self, folder: str, url: str, secret: bytes) -> None:
        self.url = url
        self.journal, self.path = paths_of(folder, url, secret)
        self._log = own_file(self.journal, os.O_RDWR | os.O_APPEND)
        try:
            self._bytes = own_file(self.path, os.O_RDWR | os.O_APPEND)
            self.seed, self._head = self._look_at_head()
        except BaseException:
            self._log.close()  # or whoever clears the shelf would find it in use
            raise
        self._read = 0  # records that have been read, damaged ones included
        self.damaged: int = 0
        self.objects: dict[tuple[int, int], int] = {}  # number of each identity; the latest counts
        self.pinned: bool = False

    def _look_at_head(self) -> tuple[int, int]:
        if lock(self._log, self.journal, shared=True) is not True:
            raise OSError(errno.ENOLCK, "it is being cleared, or this file system has no locks", self.journal)
        url, seed, size = _read_head(self._log)
        if url != self.url:
            raise ShelfError(f"it is for {url}")
        return seed, size

    @property
    def bytes_descriptor(self) -> int:
        """A descriptor of the file of bytes, which the caller closes."""
        return os.dup(self._bytes.number)

    def sizes(self) -> tuple[int, int]:
        """Bytes of both files: the one of bytes, and the journal."""
        return os.fstat(self._bytes.number).st_size, os.fstat(self._log.number).st_size

    @property
    def is_linked(self) -> bool:
        """Whether its files still have their names: what was removed by hand is not written to."""
        return os.fstat(self._bytes.number).st_nlink > 0 and os.fstat(self._log.number).st_nlink > 0

    def news(self) -> Records:
        """The records that have come since the last call, of ranges only; damaged ones are left out and counted."""
        whole = (os.fstat(self._log.number).st_size - self._head) // RECORD.itemsize
        count = max(whole - self._read, 0)
        if count == 0:
            return np.empty(0, RECORD)
        data = _read_all(self._log.number, count * RECORD.itemsize, self._head + self._read * RECORD.itemsize)
        found = np.frombuffer(data, RECORD, len(data) // RECORD.itemsize)
        right = self._checks(found, self._read) == found["check"]
        self._read += len(found)
        self.damaged += int(len(found) - right.sum())
        found = found[right]
        for record in found[found["kind"] == OBJECT]:
            self.objects[int(record["offset"]), int(record["bytes"])] = int(record["object"])
        for record in found[found["kind"] == PINNED]:
            self.pinned = bool(record["place"])
        ranges: Records = found[(found["kind"] == KEPT) | (found["kind"] == DROPPED)]
        return ranges

    def _checks(self, records: Records, first: int) -> npt.NDArray[np.uint64]:
        starts = np.arange(len(records), dtype=np.uint64) * np.uint64(RECORD.itemsize)
        lengths = np.full(len(records), RECORD.itemsize - 8, np.uint64)
        seed = (self.seed + first * _STEP) % 2**64
        return digest_ranges(np.ascontiguousarray(records).view(np.uint8), starts, lengths, seed, _STEP)

    def number_of(self, identity: tuple[int, int], size: int) -> int:
        """The number of an object, which gets one if it has none."""
        number = self.objects.get(identity)
        if number is None:
            number = secrets.randbits(32)  # none that a damaged record may have given out
            record = np.zeros(1, RECORD)
            record["kind"], record["object"] = OBJECT, number
            record["offset"], record["bytes"], record["place"] = identity[0], identity[1], size
            self.note(record)
            self.news()
        return number

    def append(self, pieces: Sequence[Buffer], records: Records) -> None:
        """Puts the bytes of KEPT records, which follow each other in ``pieces``, and then the records.

        Fills in places and digests. OSError when they do not fit; then nothing has changed.
        """
        place = os.fstat(self._bytes.number).st_size
        data = b"".join(pieces)
        ends = np.cumsum(records["bytes"], dtype=np.uint64)
        starts = ends - records["bytes"]
        records["place"] = starts + np.uint64(place)
        records["digest"] = digest_ranges(data, starts, records["bytes"], self.seed, 0)
        _append(self._bytes, [data], place)
        try:
            self.note(records)
        except OSError:
            system.os_calls.ftruncate(self._bytes.number, place)  # nobody has been told of them
            raise

    def note(self, records: Records) -> None:
        """Appends records, all that was there having been read."""
        size = os.fstat(self._log.number).st_size
        whole = (size - self._head) // RECORD.itemsize
        end = self._head + whole * RECORD.itemsize
        if end != size:  # a record of a process that died while it wrote it
            system.os_calls.ftruncate(self._log.number, end)
        records["check"] = self._checks(records, whole)
        _append(self._log, [records.view(np.uint8)], end)

    def read(self, place: int, size: int) -> bytes:
        """Bytes of a range, or as many as there are."""
        return os.pread(self._bytes.number, size, place)

    def close(self) -> None:
        """Gives both files up."""
        self._log.close()
        self._bytes.close()


def _read_all(fd: int, size: int, at: int) -> bytes:
    pieces = []
    while size > 0 and (piece := os.pread(fd, min(size, 1 << 24), at)):
        pieces.append(piece)
        size, at = size - len(piece), at + len(piece)
    data = b"".join(pieces)
    return data[: len(data) // RECORD.itemsize * RECORD.itemsize]


def _append(file: Descriptor, pieces: Sequence[Buffer], end: int) -> None:
    """Appends to a file that is ``end`` bytes long; OSError when it does not fit, and then it is that long again."""
    try:
        for piece in pieces:
            view = memoryview(piece).cast("B")
            while len(view):
                view = view[system.os_calls.writev(file.number, [view]) :]
    except OSError:
        system.os_calls.ftruncate(file.number, end)
        raise
