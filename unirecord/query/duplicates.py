"""Rows with the same key: digests of what they have in some columns, and which rows have the key of an earlier one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..core.output import wide_digests
from ..order.split import Cells
from ..snapshot.part_set import PartSet
from ..storage.staged import Buckets, temporary_folder
from .columns import stored_cells

__all__ = ["KEY", "KEYS_AT_ONCE", "KeyTable", "keys_of", "stored_keys"]


Numbers = NDArray[np.int64]
Keys = NDArray[Any]  # of KEY

KEY: Final = np.dtype([("low", "<u8"), ("high", "<u8"), ("row", "<i8")])
# Rows whose keys are in memory together, at 24 bytes each, and twice while they are sorted.
KEYS_AT_ONCE: Final = 4 << 20
_PAIR: Final = np.dtype([("row", "<i8"), ("of", "<i8")])
_BUCKETS: Final = 256  # so that a billion rows are in memory 4 Mi at a time
_NULL: Final = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)


def keys_of(columns: Sequence[Cells], rows: Numbers, seed: int) -> Keys:
    """The keys of rows of these numbers: 128 bits of XXH3 of their values, one column at least; null is like null."""
    found: NDArray[np.uint64] | None = None
    for cells in columns:
        starts = cells.ends[:-1].astype(np.uint64)
        _, digests = wide_digests(cells.data, starts, np.diff(cells.ends).astype(np.uint64), seed, 0)
        if cells.valid is not None:
            digests[~cells.valid] = _NULL
        if found is not None:
            both = np.concatenate([found, digests], axis=1).view(np.uint8)
            sizes = np.full(len(rows), both.shape[1], np.uint64)
            starts = np.arange(len(rows), dtype=np.uint64) * sizes
            _, digests = wide_digests(both.reshape(-1), starts, sizes, seed, 0)
        found = digests
    assert found is not None
    keys = np.empty(len(rows), KEY)
    keys["low"], keys["high"], keys["row"] = found[:, 0], found[:, 1], rows
    return keys


def stored_keys(parts: PartSet, names: Sequence[str], rows: Iterable[Numbers], seed: int) -> Iterator[Keys]:
    """Yield the keys of rows of a dataset, of these columns, some at a time."""
    ordinals = [parts.schema.ordinal(name) for name in names]
    for numbers in rows:
        for some, columns in stored_cells(parts, ordinals, numbers):
            yield keys_of(columns, numbers[some], seed)


class KeyTable:
    """The keys of any number of rows, of more than `KEYS_AT_ONCE` in files of a temporary folder."""

    def __init__(self) -> None:
        self._folder: str | None = None
        self._open = ExitStack()
        self._keys = Buckets(None, "keys", KEY)
        self._count, self._end = 0, 0

    def __enter__(self) -> KeyTable:
        """Itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove the files."""
        self._open.close()

    def add(self, keys: Keys) -> None:
        """Add the keys of rows, whose numbers are greater than those that are there."""
        if not len(keys):
            return
        self._count, self._end = self._count + len(keys), int(keys["row"][-1]) + 1
        if self._folder is None and self._count > KEYS_AT_ONCE:
            self._folder = self._open.enter_context(temporary_folder())
            here, self._keys = self._keys.take(0), Buckets(self._folder, "keys", KEY)
            self._put(here)
        self._put(keys)

    def duplicates(self) -> Iterator[tuple[Numbers, Numbers]]:
        """Yield rows that have the key of an earlier row, ascending, each with the first row of that key; once."""
        count = 1 if self._folder is None else _BUCKETS
        pairs = Buckets(self._folder, "pairs", _PAIR)
        stretch = max(-(-self._end // count), 1)
        for bucket in range(count):
            firsts = np.empty(0, KEY)
            # a key that most rows have makes one bucket large, and not the keys that differ in it
            for keys in self._keys.pieces(bucket, KEYS_AT_ONCE):
                firsts, found = _told_apart(np.concatenate([firsts, keys]))
                pairs.add(found["row"] // stretch, found)
        for bucket in range(count):
            found = pairs.take(bucket)
            if len(found):
                found = found[np.argsort(found["row"])]
                yield found["row"].copy(), found["of"].copy()

    def _put(self, keys: Keys) -> None:
        self._keys.add((keys["high"] % np.uint64(_BUCKETS)).astype(np.int64), keys)


def _told_apart(keys: Keys) -> tuple[Keys, NDArray[Any]]:
    """Of keys whose rows ascend among equal ones, the first of each, and the other rows with that first one."""
    keys = keys[np.lexsort((keys["low"], keys["high"]))]  # which leaves equal ones in their order
    is_first = np.ones(len(keys), np.bool_)
    is_first[1:] = (keys["low"][1:] != keys["low"][:-1]) | (keys["high"][1:] != keys["high"][:-1])
    later = np.flatnonzero(~is_first)
    firsts = keys[is_first]
    found = np.empty(len(later), _PAIR)
    found["row"], found["of"] = keys["row"][later], firsts["row"][np.cumsum(is_first)[later] - 1]
    return firsts, found
