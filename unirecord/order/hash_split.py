"""Shares of rows by a hash: below which bound it is, one for all rows or one for those with each value of a column."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .row_hash import Cells

__all__ = ["Bounds", "Strata", "bounds_of", "exact_shares", "share_of_each"]

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
