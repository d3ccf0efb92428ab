"""Rows of two datasets by the values of key columns: who belongs to whom, in bounded memory by parting the keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.digests import digest_ranges
from ..errors import UniRecordError
from ..parts.part_set import ColumnResult
from ..storage.buckets import Buckets
from ..storage.temporary_folder import temporary_folder
from .diff_side import Side
from .diff_values import values_of

__all__ = ["KEYS_AT_ONCE", "KeyMatch", "Matched"]

Numbers = NDArray[np.int64]
Digests = NDArray[np.uint64]
KEYS_AT_ONCE = (
    4 << 20
)  # rows of both whose keys are in memory together, at 24 bytes each, and twice while sorted
_READ_BYTES = 8 << 20  # of key values
_KEY = np.dtype([("low", "<u8"), ("high", "<u8"), ("row", "<i8")])
_PAIR = np.dtype([("first", "<i8"), ("second", "<i8")])
_NULL = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Matched:
    """Rows that belong together, and those that have no other, each ascending."""

    first: Numbers
    second: Numbers
    gone: Numbers
    added: Numbers


class KeyMatch:
    """Finds for each row of ``a`` the row of ``b`` with the same key.

    Keys are compared by 128 bits of XXH3; whoever reads the pairs compares the key columns too. With more than
    ``at_once`` rows, keys and then pairs are put aside in a temporary folder: 24 bytes a row, 16 a pair.
    """

    def __init__(self, a: Side, b: Side, key: Sequence[str], at_once: int = KEYS_AT_ONCE) -> None:
        self._sides, self._key = (a, b), tuple(key)
        self._count = max(1, -(-(a.count + b.count) // at_once))

    def matched(self) -> Iterator[Matched]:
        """All rows, those of the first dataset ascending. UniRecordError names a key that two rows of one have."""
        if self._count == 1:
            yield from self._matched(None)
            return
        with temporary_folder() as folder:
            yield from self._matched(folder)

    def _matched(self, folder: str | None) -> Iterator[Matched]:
        keys = [Buckets(folder, name, _KEY) for name in ("a", "b")]
        for side, buckets in zip(self._sides, keys, strict=True):
            for records in self._keys_of(side):
                buckets.add((records["high"] % np.uint64(self._count)).astype(np.int64), records)
        pairs, gone, added = (
            Buckets(folder, name, dtype)
            for name, dtype in (("pairs", _PAIR), ("gone", np.dtype("<i8")), ("added", np.dtype("<i8")))
        )
        a, b = self._sides
        for bucket in range(self._count):
            first, second = (
                self._sorted(side, one.take(bucket)) for side, one in zip(self._sides, keys, strict=True)
            )
            both, left, right = _joined(first, second)
            pairs.add(self._place(a, both["first"]), both)
            gone.add(self._place(a, left), left)
            added.add(self._place(b, right), right)
        for bucket in range(self._count):
            found = np.sort(pairs.take(bucket), order="first")
            yield Matched(
                found["first"].copy(),
                found["second"].copy(),
                np.sort(gone.take(bucket)),
                np.sort(added.take(bucket)),
            )

    def _place(self, side: Side, rows: Numbers) -> Numbers:
        """The bucket of rows by their numbers: of equal stretches of them."""
        result: Numbers = rows // max(1, -(-side.parts.rows // self._count))
        return result

    def _keys_of(self, side: Side) -> Iterator[NDArray[Any]]:
        ordinals = [side.parts.schema.ordinal(name) for name in self._key]
        step = int(min(max(_READ_BYTES // max(side.parts.mean_row_bytes(ordinals), 16), 1), 1 << 18))
        for rows in side.numbers():
            for i in range(0, len(rows), step):
                some = rows[i : i + step]
                results = side.parts.read(some, ordinals)
                records = np.empty(len(some), _KEY)
                records["row"] = some
                for field, seed in (("low", 1), ("high", 2)):
                    records[field] = _digests(results, len(some), seed)
                yield records

    def _sorted(self, side: Side, records: NDArray[Any]) -> NDArray[Any]:
        found = records[np.lexsort((records["row"], records["low"], records["high"]))]
        same = np.flatnonzero(
            (found["low"][1:] == found["low"][:-1]) & (found["high"][1:] == found["high"][:-1])
        )
        if len(same):
            rows = found["row"][same[0] : same[0] + 2].tolist()
            shown = ", ".join(
                f"{name} = {value!r}"
                for name, value in zip(self._key, values_of(side, rows[0], self._key), strict=True)
            )
            raise UniRecordError(
                f"{side.name}: rows {rows[0]} and {rows[1]} have the same key, {shown}; choose key columns that tell "
                "all rows apart, or compare by row number, without a key"
            )
        return found


def _joined(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], Numbers, Numbers]:
    """Pairs of the same key, and the rows that have none; each side has a key once."""
    both = np.concatenate([first, second])
    of_second = np.arange(len(both)) >= len(first)
    order = np.lexsort((of_second, both["low"], both["high"]))
    both, of_second = both[order], of_second[order]
    meets = (both["low"][1:] == both["low"][:-1]) & (both["high"][1:] == both["high"][:-1])
    at = np.flatnonzero(meets)
    pairs = np.empty(len(at), _PAIR)
    pairs["first"], pairs["second"] = both["row"][at], both["row"][at + 1]
    alone = np.ones(len(both), np.bool_)
    alone[at] = alone[at + 1] = False
    return pairs, both["row"][alone & ~of_second].copy(), both["row"][alone & of_second].copy()


def _digests(results: Sequence[ColumnResult], rows: int, seed: int) -> Digests:
    """One digest for the key of each row."""
    digests = np.zeros(rows, np.uint64)
    for result in results:
        if result.offsets is None:
            data = np.ascontiguousarray(result.data)
            width = data.nbytes // max(rows, 1)
            starts = np.arange(rows, dtype=np.uint64) * np.uint64(width)
            lengths = np.full(rows, width, np.uint64)
        else:
            data = result.data
            starts, lengths = result.offsets[:-1].astype(np.uint64), np.diff(result.offsets).astype(np.uint64)
        of_value = digest_ranges(data, starts, lengths, seed, 0)
        if result.valid is not None:
            of_value = np.where(result.valid, of_value, _NULL)
        both = np.stack([digests, of_value], axis=1)
        digests = digest_ranges(
            both, np.arange(rows, dtype=np.uint64) * np.uint64(16), np.full(rows, 16, np.uint64), seed, 0
        )
    return digests
