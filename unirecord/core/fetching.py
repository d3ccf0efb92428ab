"""Bytes that the C core asks Python for, when a part's files lie on no file system."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import CLOCK_MONOTONIC, clock_gettime_ns
from typing import Any, Final

import numpy as np

from ..errors import MissingError, StaleError, UniRecordError
from .library import ffi, lib

__all__ = ["Fetch", "FetchError", "Fetching", "Put", "Range"]

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


class FetchError(OSError):
    """Bytes of a part that could not be had: which part and file, and why in one sentence."""

    part: int
    in_index: bool
    why: str
    cause: Exception | None

    def __init__(self, part: int, in_index: bool, why: str, cause: Exception | None = None) -> None:
        super().__init__(errno.EIO, why)
        self.part, self.in_index, self.why, self.cause = part, in_index, why, cause


# Takes the bytes of a range, by its number: a buffer of exactly its size. In any thread, until the function returns; so
# long the bytes are in what this gives.
Put = Callable[[int, Any], Any]
# Puts the bytes of each range, in any order. Raises FetchError. Ranges without a byte say that their parts are going to
# be opened; of an index, that what came of them was wrong, and is to come anew: nothing is put.
Fetch = Callable[[Sequence[Range], Put], None]


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
        wanted = np.frombuffer(ffi.buffer(ranges, count * _RANGE.itemsize), _RANGE, count)
        asked = [
            Range(part, file == lib.UR_FILE_INDEX, offset, size, keep == 1)
            for part, file, offset, size, keep in zip(
                *(wanted[name].tolist() for name in ("part", "file", "offset", "bytes", "keep")), strict=True
            )
        ]
        if asked[0].size and ranges[0].to == ffi.NULL:
            if self.ahead is not None:
                self.ahead(asked)
            return
        missing = {i for i, range_ in enumerate(asked) if range_.size}

        def put(number: int, found: Any) -> Any:
            range_ = asked[number]
            if len(found) != range_.size:
                raise FetchError(range_.part, range_.in_index, f"{len(found)} bytes came for {range_.size}")
            to = ffi.buffer(ranges[number].to, range_.size)
            ffi.memmove(to, found, range_.size)
            if ranges[number].came:
                ranges[number].came[0] = clock_gettime_ns(CLOCK_MONOTONIC)
            missing.discard(number)
            return to

        self.fetch(asked, put)
        for number in missing:
            range_ = asked[number]
            raise FetchError(range_.part, range_.in_index, f"none of {range_.size} bytes came")

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
