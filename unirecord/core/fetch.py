"""Bytes of parts that lie elsewhere: ranges that are asked for together, and what the C core asks for and keeps."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import CLOCK_MONOTONIC, clock_gettime_ns
from typing import Any, Final, Protocol, overload

import numpy as np
import numpy.typing as npt

from ..errors import MissingError, StaleError, UniRecordError
from ..sizes import many
from .library import Handle, buffer_of, ffi, lib

__all__ = [
    "Answer",
    "CACHE_RANGE",
    "CACHE_STRETCH",
    "Fetch",
    "FetchError",
    "Fetching",
    "NativeCache",
    "PUT",
    "Put",
    "Range",
    "Ranges",
]


# Bytes of parts that are asked for, as arrays, and where they lie in what has come: no step of Python for
# each.


# Range number `range` lies at byte `place` of answer number `answer`.
PUT: Final = np.dtype([("range", "<i8"), ("answer", "<i8"), ("place", "<u8")])
assert PUT.itemsize == ffi.sizeof("ur_put")

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Range:
    """Bytes [offset, offset + size) of the data file, or of the index, of a part.

    ``keep``: cells or blocks of an index, which a cache may keep.
    """

    part: int
    in_index: bool
    offset: int
    size: int
    keep: bool = False


class Ranges(Sequence[Range]):
    """Ranges, sorted by part, file and offset: a `Range` is made where one is looked at."""

    __slots__ = ("in_index", "keeps", "offsets", "parts", "sizes")

    def __init__(
        self,
        parts: I64,
        in_index: npt.NDArray[np.bool_],
        offsets: I64,
        sizes: I64,
        keeps: npt.NDArray[np.bool_],
    ) -> None:
        self.parts, self.offsets, self.sizes = parts, offsets, sizes
        self.in_index, self.keeps = in_index, keeps

    @classmethod
    def of(cls, ranges: Sequence[Range]) -> Ranges:
        """The same as arrays."""
        if isinstance(ranges, Ranges):
            return ranges
        numbers = np.array([(r.part, r.in_index, r.offset, r.size, r.keep) for r in ranges], np.int64)
        parts, in_index, offsets, sizes, keeps = numbers.reshape(-1, 5).T
        return cls(parts, in_index != 0, offsets, sizes, keeps != 0)

    def __len__(self) -> int:
        return len(self.parts)

    @overload
    def __getitem__(self, at: int) -> Range: ...
    @overload
    def __getitem__(self, at: slice) -> Ranges: ...
    def __getitem__(self, at: int | slice) -> Range | Ranges:
        if isinstance(at, slice):
            return self._at(at)
        part, in_index = int(self.parts[at]), bool(self.in_index[at])
        return Range(part, in_index, int(self.offsets[at]), int(self.sizes[at]), bool(self.keeps[at]))

    def __iter__(self) -> Iterator[Range]:
        columns = (self.parts, self.in_index, self.offsets, self.sizes, self.keeps)
        return (Range(*each) for each in zip(*(column.tolist() for column in columns), strict=True))

    def only(self, numbers: I64) -> Ranges:
        """Those of these numbers."""
        return self if len(numbers) == len(self) else self._at(numbers)

    def _at(self, at: Any) -> Ranges:
        return Ranges(self.parts[at], self.in_index[at], self.offsets[at], self.sizes[at], self.keeps[at])


class Answer:
    """Bytes that have come, and where they lie; held as long as this is."""

    __slots__ = ("address", "data", "size")

    def __init__(self, data: Any) -> None:
        self.data: Any = data
        view = ffi.from_buffer(buffer_of(data))
        self.address: int = int(ffi.cast("uintptr_t", view))
        self.size: int = len(view)


class Put(Protocol):
    """Takes the bytes of ranges, in any order and any thread, until the function that was given it returns."""

    def __call__(self, number: int, found: Any) -> Any:
        """Takes those of a range, by its number: a buffer of its size. Gives the memory that they are in now."""

    def many(self, answers: Sequence[Answer], puts: npt.NDArray[Any]) -> None:
        """Takes those of several (`PUT`)."""

    def there(self, number: int) -> Any:
        """The memory of a range whose bytes have been taken."""


# What fetches the bytes that the C core reads: a store, and the cache before it.


# What a cache on the disk holds of the files of a set, as the C core looks it up and reads it.


CACHE_RANGE: Final = np.dtype(
    [("file", "<i8"), ("offset", "<u8"), ("bytes", "<u8"), ("place", "<u8"), ("digest", "<u8")]
)
assert CACHE_RANGE.itemsize == ffi.sizeof("ur_cache_range")
CACHE_STRETCH: Final = int(lib.UR_CACHE_STRETCH)  # bytes of a file, in which a kept range lies as a whole

_ROOM: Final = 256

CachedRanges = npt.NDArray[Any]  # of CACHE_RANGE


class NativeCache:
    """The ranges of ``files`` files that lie in ``segments`` segments. Thread-safe once both have been set."""

    def __init__(self, files: int, segments: int) -> None:
        pointer = lib.ur_cache_new(files, segments)
        if pointer == ffi.NULL:
            raise MemoryError("no memory for what a cache holds")
        self.pointer = pointer
        self.handle: Handle = Handle(pointer, lib.ur_cache_release)

    def set_segment(self, segment: int, fd: int, seed: int) -> None:
        """The file that segment's ranges lie in, whose descriptor is taken over."""
        lib.ur_cache_set_segment(self.pointer, segment, fd, seed)

    def set_file(self, file: int, segment: int, size: int) -> None:
        """The segment that a file's ranges lie on, and the length of the file."""
        if lib.ur_cache_set_file(self.pointer, file, segment, size) != lib.UR_OK:
            raise MemoryError("no memory for what a cache holds")

    def add(self, ranges: CachedRanges) -> None:
        """Takes ranges in, but for impossible ones, and those that overlap what is there."""
        if lib.ur_cache_add(self.pointer, _pointer(ranges), len(ranges)) != lib.UR_OK:
            raise MemoryError("no memory for what a cache holds")

    def remove(self, ranges: CachedRanges) -> None:
        """Takes these ranges out, if they are there, at these places."""
        lib.ur_cache_remove(self.pointer, _pointer(ranges), len(ranges))

    def gaps(self, file: int, offset: int, size: int) -> list[tuple[int, int]]:
        """Offset and size of each piece of bytes [offset, offset + size) of a file that is not there."""
        wanted = ffi.new("ur_cache_range *", (file, offset, size, 0, 0))
        at, found = ffi.new("uint64_t *", offset), ffi.new("ur_cache_range[]", _ROOM)
        pieces: list[tuple[int, int]] = []
        while at[0] < offset + size:
            count = lib.ur_cache_gaps(self.pointer, wanted, at, found, _ROOM)
            pieces += [(found[i].offset, found[i].bytes) for i in range(count)]
        return pieces

    def read(self, file: int, offset: int, size: int) -> bytearray | None:
        """Bytes [offset, offset + size) of a file, checked; None when they are not all there."""
        found = bytearray(size)
        to = ffi.from_buffer("uint8_t[]", found, True)
        return found if lib.ur_cache_has(self.pointer, file, offset, size, to) else None

    def take_dropped(self) -> CachedRanges:
        """Ranges that were damaged, and are not there any more; each is given out once."""
        found = np.empty(_ROOM, CACHE_RANGE)
        count = lib.ur_cache_take_dropped(self.pointer, _pointer(found), _ROOM)
        return found[:count]

    def counts(self) -> tuple[int, int, int]:
        """Ranges that were read, their bytes, and ranges that were damaged."""
        counts = ffi.new("uint64_t[3]")
        lib.ur_cache_counts(self.pointer, counts)
        return counts[0], counts[1], counts[2]


def _pointer(ranges: CachedRanges) -> Any:
    return ffi.cast("ur_cache_range *", ffi.from_buffer(ranges, require_writable=False))


# Bytes that the C core asks Python for, when a part's files lie on no file system.


_RANGE: Final = np.dtype(
    [
        ("part", "<i8"),
        ("offset", "<u8"),
        ("bytes", "<u8"),
        ("to", "<u8"),
        ("file", "<i4"),
        ("keep", "<i4"),
        ("came", "<u8"),
    ]
)
assert _RANGE.itemsize == ffi.sizeof("ur_range")
_WHAT_BYTES: Final = 159  # of a sentence in a ur_error


class FetchError(OSError):
    """Bytes of a part that could not be had: which part and file, and why in one sentence."""

    part: int
    in_index: bool
    why: str
    cause: Exception | None

    def __init__(self, part: int, in_index: bool, why: str, cause: Exception | None = None) -> None:
        super().__init__(errno.EIO, why)
        self.part, self.in_index, self.why, self.cause = part, in_index, why, cause


# Puts the bytes of each range, in any order. Raises FetchError. Ranges without a byte say that their parts are going to
# be opened; of an index, that what came of them was wrong, and is to come anew: nothing is put.
Fetch = Callable[[Sequence[Range], Put], None]


class _Places:
    """Where the ranges of a call are wanted, and which are there."""

    def __init__(self, ranges: Any, asked: Ranges) -> None:
        self._ranges, self._asked = ranges, asked
        self._is_there = asked.sizes == 0

    def __call__(self, number: int, found: Any) -> Any:
        """One range, without letting others have Python's lock."""
        range_ = self._ranges[number]
        if len(found) != range_.bytes:
            raise self._failure(number, f"{many(len(found), 'byte')} came for {range_.bytes}")
        to = ffi.buffer(range_.to, len(found))
        ffi.memmove(to, found, len(found))
        if range_.came:
            range_.came[0] = clock_gettime_ns(CLOCK_MONOTONIC)
        self._is_there[number] = True
        return to

    def many(self, answers: Sequence[Answer], puts: npt.NDArray[Any]) -> None:
        """Several ranges, by one call; others run meanwhile. All of them, or none."""
        if not len(puts):
            return
        table = np.array([(answer.address, answer.size) for answer in answers], np.uint64)
        status = lib.ur_ranges_put(
            self._ranges,
            len(self._asked),
            ffi.from_buffer("ur_answer[]", table),
            len(answers),
            ffi.from_buffer("ur_put[]", np.ascontiguousarray(puts)),
            len(puts),
            ffi.NULL,
        )
        if status != lib.UR_OK:
            raise self._failure(int(puts["range"][0]), "other bytes came than were asked for")
        self._is_there[puts["range"]] = True

    def there(self, number: int) -> Any:
        """The memory of a range."""
        return ffi.buffer(self._ranges[number].to, self._ranges[number].bytes)

    def check_all(self) -> None:
        """FetchError where the bytes of a range have not come."""
        missing = np.flatnonzero(~self._is_there)
        if len(missing):
            number = int(missing[0])
            raise self._failure(number, f"none of {many(self._asked.sizes[number], 'byte')} came")

    def _failure(self, number: int, why: str) -> FetchError:
        of = self._asked[number]
        return FetchError(of.part, of.in_index, why)


def _ranges_of(ranges: Any, count: int) -> Ranges:
    wanted = np.frombuffer(ffi.buffer(ranges, count * _RANGE.itemsize), _RANGE, count)
    return Ranges(
        wanted["part"].copy(),
        wanted["file"] == lib.UR_FILE_INDEX,
        wanted["offset"].astype(np.int64),
        wanted["bytes"].astype(np.int64),
        wanted["keep"] == 1,
    )


class Fetching:
    """A function that brings bytes, as the C core calls it: from any of its threads, several at once."""

    def __init__(self, fetch: Fetch, ahead: Callable[[Sequence[Range]], None] | None = None) -> None:
        self.fetch: Fetch = fetch
        # Told of ranges that will be read soon.
        self.ahead: Callable[[Sequence[Range]], None] | None = ahead
        self.context: Any = ffi.new_handle(self)
        self._interrupts: dict[
            int, BaseException
        ] = {}  # what came in a call, by thread, to be raised after it
        self.refusal: UniRecordError | None = None  # why nothing can be brought, in whatever thread

    def deliver(self, ranges: Any, count: int) -> None:
        """Puts the bytes of the ranges where they are wanted."""
        asked = _ranges_of(ranges, count)
        if asked.sizes[0] and ranges[0].to == ffi.NULL:
            if self.ahead is not None:
                self.ahead(asked)
            return
        places = _Places(ranges, asked)
        self.fetch(asked, places)
        places.check_all()

    def keep(self, interrupt: BaseException) -> None:
        """Remembers what cannot be said in a ur_error: Ctrl-C, say, which comes in the main thread alone."""
        if threading.current_thread() is threading.main_thread():
            self._interrupts[threading.get_ident()] = interrupt

    def raise_kept(self) -> None:
        """Raises what came in the last call of this thread, if anything did, or why all calls are refused."""
        interrupt = self._interrupts.pop(threading.get_ident(), None)
        if interrupt is not None:
            raise interrupt
        if self.refusal is not None:
            raise self.refusal


@ffi.def_extern(error=lib.UR_IO)  # type: ignore[untyped-decorator]
def ur_python_fetch(context: Any, ranges: Any, count: int, error: Any) -> int:
    """What the C core calls."""
    fetching: Fetching = ffi.from_handle(context)
    try:
        fetching.deliver(ranges, count)
    except FetchError as failure:
        return _tell(error, failure)
    except MemoryError:
        return int(lib.UR_NO_MEMORY)
    except UniRecordError as refusal:
        fetching.refusal = refusal
        return _tell(error, FetchError(-1, False, str(refusal)))
    except BaseException as interrupt:
        fetching.keep(interrupt)
        return _tell(error, FetchError(-1, False, f"{type(interrupt).__name__}: {interrupt}"))
    return int(lib.UR_OK)


def _tell(error: Any, failure: FetchError) -> int:
    error.part = failure.part
    error.file = lib.UR_FILE_INDEX if failure.in_index else lib.UR_FILE_DATA
    text = failure.why.encode()[:_WHAT_BYTES].decode(errors="ignore").encode()
    ffi.memmove(error.what, text + b"\0", len(text) + 1)
    if isinstance(failure.cause, MissingError):
        return int(lib.UR_NOT_FOUND)
    if isinstance(failure.cause, StaleError):
        return int(lib.UR_STALE)
    error.os_errno = errno.EIO
    return int(lib.UR_IO)
