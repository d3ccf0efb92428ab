"""The shares of a split: sizes of consecutive parts, or a hash of each row that no row added later changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..core.output import digest_ranges
from ..sizes import many
from .randomness import mixed
from .spec import check_integer

__all__ = [
    "Bounds",
    "Cells",
    "Strata",
    "bounds_of",
    "exact_shares",
    "row_hashes",
    "share_of_each",
    "split_bounds",
    "with_rest",
]


# The sizes of a split: fractions or counts become the bounds of its parts.


def with_rest(sizes: float | Sequence[float], length: int) -> Sequence[float]:
    """Sizes as a list; a single number is the first of two."""
    if isinstance(sizes, bool):
        raise TypeError(
            f"split({sizes}): a size is a fraction from 0.0 to 1.0, or a count from 0 to {length}"
        )
    if not isinstance(sizes, (int, float, np.integer, np.floating)):
        return sizes
    whole = isinstance(sizes, (int, np.integer))
    if not 0 <= sizes <= (length if whole else 1):
        raise ValueError(f"split({sizes}) must be a fraction from 0.0 to 1.0, or a count from 0 to {length}")
    return [sizes, (length if whole else 1) - sizes]


def split_bounds(sizes: Sequence[float], length: int) -> list[int]:
    """0, the ends of the parts, ..., length. It is the ends that are rounded, so the sizes sum up exactly."""
    if len(sizes) == 0:
        raise ValueError("split() needs at least one size")
    if all(isinstance(size, (int, np.integer)) and not isinstance(size, bool) for size in sizes):
        counts = [check_integer("a size of split()", size, 0) for size in sizes]
        if sum(counts) == length:
            return [sum(counts[:k]) for k in range(len(counts) + 1)]
        if counts != [1]:
            raise ValueError(
                f"split() has sizes that sum to {sum(counts)}, but there are {many(length, 'row')}"
            )
    exact = [Fraction(float(size)).limit_denominator(10**9) for size in sizes]
    total = sum(exact, Fraction(0))
    if min(exact) < 0 or abs(total - 1) > Fraction(1, 10**6):
        raise ValueError(
            f"split() has the fractions {list(sizes)}, which sum to {float(total):g}; "
            "they must be ≥ 0 and sum to 1"
        )
    ends = [int(sum(exact[:k], Fraction(0)) * length + Fraction(1, 2)) for k in range(1, len(exact))]
    return [0, *(min(end, length) for end in ends), length]


# A hash of each row, of its values in some columns alone: the same in any file, batch, process and order.


@dataclass(frozen=True)
class Cells:
    """The values of a column as they are stored: value i is ``data[ends[i] : ends[i + 1]]``, uint8.

    ``valid`` bool[n] of nullable columns, else None; what is null has no bytes, or zeros.
    """

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    valid: NDArray[np.bool_] | None

    @classmethod
    def of_width(cls, values: NDArray[Any], valid: NDArray[np.bool_] | None) -> Cells:
        """Those of an array, a value for each of its first entries."""
        width = values.nbytes // max(len(values), 1)
        data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        return cls(data, np.arange(len(values) + 1, dtype=np.int64) * width, valid)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def each(self) -> list[bytes | None]:
        """The values one by one, None where null."""
        memory = memoryview(self.data)
        values = [bytes(memory[start:stop]) for start, stop in pairwise(self.ends.tolist())]
        if self.valid is None:
            return list(values)
        return [value if there else None for value, there in zip(values, self.valid.tolist(), strict=True)]


def row_hashes(columns: Sequence[Cells], seed: int) -> NDArray[np.uint64]:
    """64 bits for each row, of one column at least."""
    found = np.zeros(len(columns[0]), np.uint64)
    for cells in columns:
        starts = cells.ends[:-1].astype(np.uint64)
        digests = digest_ranges(cells.data, starts, np.diff(cells.ends).astype(np.uint64), 0, 0)
        found = mixed(found ^ digests, seed)
        if cells.valid is not None:
            found = mixed(found ^ cells.valid.astype(np.uint64), seed)
    return found


# Shares of rows by a hash: below which bound it is, one for all rows or one for those with each value of a column.


Bounds = tuple[int, ...]
Hashes = NDArray[np.uint64]
Codes = NDArray[np.int32]

_ALL: Final = 1 << 64
_SORTED_AT_ONCE: Final = 1 << 24  # hashes, where no single value has more
_WHOLE: Final = (1, 2, 4, 8)


def exact_shares(shares: Iterable[float | str | Fraction]) -> tuple[Fraction, ...]:
    """The shares, exactly as they are written; ValueError where they are not more than 0 or do not add up to 1."""
    given = list(shares)
    try:
        found = tuple(share if isinstance(share, Fraction) else Fraction(str(share)) for share in given)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"split: the shares are numbers, got {given}") from None
    if any(share <= 0 for share in found) or abs(sum(found, Fraction(-1))) > Fraction(1, 10**9):
        raise ValueError(f"split: the shares {given} must be more than 0 and add up to 1")
    return found


def bounds_of(shares: Sequence[Fraction], rows: int = _ALL) -> Bounds:
    """Where so many rows, or all hashes, are cut: the upper bound of each share but the last."""
    ends = [sum(shares[: i + 1], Fraction(0)) for i in range(len(shares) - 1)]
    return tuple(min(int(end * rows + Fraction(1, 2)), rows) for end in ends)


def share_of_each(hashes: Hashes, bounds: Sequence[Bounds], codes: Codes | None = None) -> NDArray[np.int64]:
    """The share of each row: how many bounds its hash has reached; a bound of 2^64 is never reached.

    ``bounds`` has one entry for all rows, or with ``codes`` those of the stratum that is the code of a row.
    """
    share = np.zeros(len(hashes), np.int64)
    for one in zip(*bounds, strict=True):
        least = np.array([min(bound, _ALL - 1) for bound in one], np.uint64)
        reached = np.array([bound < _ALL for bound in one], np.bool_)
        of_row: Codes | int = 0 if codes is None else codes
        share += (hashes >= least[of_row]) & reached[of_row]
    return share


class Strata:
    """The rows with each value of a column, of which each stratum is cut into shares to within half a row.

    It keeps 12 bytes a row; while a stratum is cut, 8 more for each of its rows (up to 32 where it has fewer than
    2^24). Rows with the same hash stay together.
    """

    def __init__(self, numbers: Mapping[bytes | None, int] | None = None) -> None:
        """``numbers`` are the codes of values that are known; a value that is not is an error then."""
        self._fixed = numbers is not None
        self._number_of: dict[bytes | None, int] = dict(numbers or {})
        self.pieces: list[tuple[Hashes, Codes]] = []

    def add(self, hashes: Hashes, values: Cells) -> None:
        """Some rows more."""
        self.pieces.append((hashes, self.codes(values)))

    def codes(self, values: Cells) -> Codes:
        """The number of each row's stratum."""
        width = int(values.ends[1]) if len(values) else 0
        if width not in _WHOLE or not np.all(np.diff(values.ends) == width):
            return np.fromiter(map(self._code, values.each()), np.int32, len(values))
        numbers = np.frombuffer(values.data, f"<u{width}", len(values))
        valid = np.ones(len(values), np.bool_) if values.valid is None else values.valid
        different, place = np.unique(numbers[valid], return_inverse=True)
        codes = np.empty(len(values), np.int32)
        codes[valid] = np.array([self._code(one.tobytes()) for one in different], np.int32)[place]
        if not valid.all():
            codes[~valid] = self._code(None)
        return codes

    def _code(self, value: bytes | None) -> int:
        if self._fixed:
            return self._number_of[value]
        return self._number_of.setdefault(value, len(self._number_of))

    def bounds(self, shares: Sequence[Fraction]) -> dict[bytes | None, Bounds]:
        """The bounds of each value, in the order of their codes."""
        counts = np.zeros(len(self._number_of), np.int64)
        for _, codes in self.pieces:
            counts += np.bincount(codes, minlength=len(counts))
        found: list[Bounds] = []
        for low, high in _stretches(counts.tolist()):
            ordered = self._in_order(low, high)
            start = 0
            for count in counts[low:high].tolist():
                cuts = bounds_of(shares, count)
                found.append(tuple(int(ordered[start + cut]) if cut < count else _ALL for cut in cuts))
                start += count
        return dict(zip(self._number_of, found, strict=True))

    def _in_order(self, low: int, high: int) -> Hashes:
        """The hashes of strata low … high − 1, one stratum after the other, each sorted."""
        if high - low == 1:
            alone = np.concatenate([hashes[codes == low] for hashes, codes in self.pieces])
            alone.sort()
            return alone
        chosen = [np.flatnonzero((codes >= low) & (codes < high)) for _, codes in self.pieces]
        hashes = np.concatenate([piece[0][some] for piece, some in zip(self.pieces, chosen, strict=True)])
        codes = np.concatenate([piece[1][some] for piece, some in zip(self.pieces, chosen, strict=True)])
        return np.asarray(hashes[np.lexsort((hashes, codes))], np.uint64)


def _stretches(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring strata [low, high) of not too many rows together, or of one stratum."""
    low, rows = 0, 0
    for number, count in enumerate(counts):
        if number > low and rows + count > _SORTED_AT_ONCE:
            yield low, number
            low, rows = number, 0
        rows += count
    if counts:
        yield low, len(counts)
