"""Parts in an object store: the ranges that the reader wants, brought in few requests, many of them at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from ..core import Fetch, FetchError, Range
from ..errors import MissingError
from ..format.layout import BLOCK_BYTES
from ..storage.registry import location_of

__all__ = ["fetch_for"]

_NEW: Final = ".new"  # of an index that was being published when its writer died
_GAP_BYTES: Final = (
    32 << 10
)  # between two ranges that come faster with what lies between them than by two requests
_RUN_BYTES: Final = 4 << 20  # that one request brings at most, unless a single range is longer
_HEAD_BYTES: Final = 16 << 10  # of a file, that opening it most likely needs
_END_BYTES: Final = 64  # of a data file: its end page
_JUST_CAME: Final = 64  # blocks of indexes, and heads, kept for threads that asked before they were there
_HEADS_KEPT: Final = 64  # openings under way at once, at the most likely

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True)
class _PartFiles:
    """The two files of a part, and their sizes."""

    data: str
    index: str
    data_bytes: int
    index_bytes: int


def fetch_for(parts: Sequence[tuple[str, int, int]]) -> tuple[Fetch | None, list[tuple[int, int]]]:
    """What brings the bytes of these parts, given by path and sizes of data file and index; and both sizes of each.

    Sizes that are not known, -1, are looked up. None for files that the C core opens by itself. ValueError when there
    are both kinds.
    """
    elsewhere = [not location_of(path).in_file_system for path, _, _ in parts]
    if not any(elsewhere):
        return None, []
    if not all(elsewhere):
        raise ValueError(
            f"{parts[elsewhere.index(True)][0]} is in an object store, and {parts[elsewhere.index(False)][0]} on a "
            "disk: parts that are read together lie in one kind of storage"
        )
    files = [_files(path, data, index) for path, data, index in parts]
    return _Fetcher(files), [(found.data_bytes, found.index_bytes) for found in files]


def _files(path: str, data_bytes: int, index_bytes: int) -> _PartFiles:
    if data_bytes >= 0 and index_bytes >= 0:
        return _PartFiles(path, path + ".idx", data_bytes, index_bytes)
    names = [path, path + ".idx", path + ".idx" + _NEW]
    data, index, new = location_of(path).find_each(names)
    if data is None:
        raise MissingError(f"{path}: this part does not exist; check the path")
    found = index or new
    if found is None:
        raise MissingError(
            f"{names[1]}: this index is missing; copy it beside the part, whose rows are found by it"
        )
    return _PartFiles(path, names[1] if index is not None else names[2], data.size, found.size)


@dataclass
class _Run:
    """A request: bytes [start, stop) of one file of a part."""

    part: int
    in_index: bool
    start: int
    stop: int


class _Fetcher:
    """Shared by all threads: what several of them want of heads and indexes at once comes once."""

    def __init__(self, parts: Sequence[_PartFiles]) -> None:
        self._parts = list(parts)
        self._location = location_of(self._parts[0].data)  # of whatever scheme: their paths say which
        self._heads: dict[int, list[tuple[_Run, Any]]] = {}  # of parts that are being opened
        self._coming: dict[Hashable, Future[Any]] = {}  # and what has just come
        self._came: deque[Hashable] = deque()
        self._lock = threading.Lock()

    def __call__(self, ranges: Sequence[Range]) -> list[Any]:
        if ranges[0].in_index:
            return self._of_index(ranges)
        if len(ranges) == 1 and (found := self._from_head(ranges[0])) is not None:
            return [found]
        return self._joined(ranges)

    def _joined(self, ranges: Sequence[Range]) -> list[Any]:
        """The bytes of ranges, of which neighbours come by one request."""
        runs: list[_Run] = []
        places = []
        for wanted in ranges:  # they are sorted
            stop = wanted.offset + wanted.size
            run = runs[-1] if runs else None
            if run is None or not _joins(run, wanted, stop):
                runs.append(run := _Run(wanted.part, wanted.in_index, wanted.offset, stop))
            run.stop = max(run.stop, stop)
            places.append((len(runs) - 1, wanted.offset - run.start))
        brought = [memoryview(found) for found in self._bring(runs)]
        return [
            brought[number][at : at + wanted.size]
            for (number, at), wanted in zip(places, ranges, strict=True)
        ]

    def _of_index(self, ranges: Sequence[Range]) -> list[Any]:
        """Blocks of an index, which all threads want when an epoch begins."""
        found = [self._from_head(wanted) for wanted in ranges]
        units = [
            Range(wanted.part, True, at, min(BLOCK_BYTES, wanted.offset + wanted.size - at))
            for wanted, there in zip(ranges, found, strict=True)
            if there is None
            for at in range(wanted.offset, wanted.offset + wanted.size, BLOCK_BYTES)
        ]
        blocks = iter(self._once(units, self._joined) if units else ())
        for i, wanted in enumerate(ranges):
            if found[i] is None:
                parts = [next(blocks) for _ in range(-(-wanted.size // BLOCK_BYTES))]
                found[i] = parts[0] if len(parts) == 1 else b"".join(parts)
        return found

    def _once(self, keys: Sequence[_Key], bring: Callable[[Sequence[_Key]], Sequence[Any]]) -> list[Any]:
        """What ``bring`` gives for each key: for those that another thread is bringing, what it will give to that.

        Or has just given: that thread may not have come to say so in the C core.
        """
        with self._lock:
            mine = [key for key in keys if key not in self._coming]
            self._coming.update((key, Future()) for key in mine)
            futures = [self._coming[key] for key in keys]
        try:
            brought = bring(mine) if mine else ()
        except BaseException as error:
            # an interrupt is of this thread alone
            why = error if isinstance(error, Exception) else ConnectionError("the request was given up")
            with self._lock:
                for key in mine:
                    self._coming.pop(key).set_exception(why)
            raise
        with self._lock:
            for key, found in zip(mine, brought, strict=True):
                self._coming[key].set_result(found)
            self._came.extend(mine)
            while len(self._came) > _JUST_CAME:
                del self._coming[self._came.popleft()]
        return [future.result() for future in futures]

    def _from_head(self, wanted: Range) -> Any | None:
        """Bytes that opening a part needs: all such bytes of both files come together when the first are asked for."""
        heads = self._heads.get(wanted.part)
        if heads is None:
            if wanted.offset or wanted.in_index:
                return None
            [heads] = self._once([wanted.part], lambda parts: [self._bring_heads(part) for part in parts])
        for run, found in heads:
            at = wanted.offset - run.start
            if run.in_index == wanted.in_index and at >= 0 and wanted.offset + wanted.size <= run.stop:
                return memoryview(found)[at : at + wanted.size]
        return None

    def _bring_heads(self, part: int) -> list[tuple[_Run, Any]]:
        known = self._heads.get(part)
        if known is not None:
            return known
        files = self._parts[part]
        digests = files.index_bytes // BLOCK_BYTES * 8 + 8
        runs = [
            _Run(part, False, 0, min(_HEAD_BYTES, files.data_bytes)),
            _Run(part, False, max(0, files.data_bytes - _END_BYTES), files.data_bytes),
            _Run(part, True, 0, min(BLOCK_BYTES, files.index_bytes)),
            _Run(part, True, max(0, files.index_bytes - digests), files.index_bytes),
        ]
        heads = list(zip(runs, self._bring(runs), strict=True))
        with self._lock:
            while len(self._heads) >= _HEADS_KEPT:
                del self._heads[next(iter(self._heads))]
            self._heads[part] = heads
        return heads

    def _bring(self, runs: Sequence[_Run]) -> list[Any]:
        found = self._ask(runs)
        for i, run in enumerate(runs):
            if run.in_index and isinstance(found[i], FileNotFoundError) and self._rename(run.part):
                found = self._ask(runs)
        for run, brought in zip(runs, found, strict=True):
            if isinstance(brought, Exception):
                raise self._failure(run, brought)
            if isinstance(brought, BaseException):
                raise brought
            if len(brought) != run.stop - run.start:
                why = f"{len(brought)} bytes came for {run.stop - run.start}: the object has been cut"
                raise FetchError(run.part, run.in_index, why)
        return found

    def _ask(self, runs: Sequence[_Run]) -> list[Any]:
        return self._location.read_ranges(
            [(self._path(run), run.start, run.stop - run.start) for run in runs]
        )

    def _rename(self, part: int) -> bool:
        """Takes the index of a part to have its other name; False when it has been taken so already."""
        if self._parts[part].index.endswith(_NEW):
            return False
        self._parts[part] = replace(self._parts[part], index=self._parts[part].index + _NEW)
        return True

    def _path(self, run: _Run) -> str:
        return self._parts[run.part].index if run.in_index else self._parts[run.part].data

    def _failure(self, run: _Run, error: Exception) -> FetchError:
        if isinstance(error, FileNotFoundError):
            return FetchError(run.part, run.in_index, "it is not there", MissingError(str(error)))
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return FetchError(run.part, run.in_index, f"bytes {run.start} to {run.stop} could not be had: {why}")


def _joins(run: _Run, wanted: Range, stop: int) -> bool:
    return (
        run.part == wanted.part
        and run.in_index == wanted.in_index
        and wanted.offset - run.stop <= _GAP_BYTES
        and stop - run.start <= _RUN_BYTES
    )
