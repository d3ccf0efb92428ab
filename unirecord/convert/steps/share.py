"""The step that keeps one share of a split: rows by a hash of themselves or a key, so that new rows move no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ...format.schema import Schema
from ...format.values import RecordEncoder
from ..sources.base import RawBatch, Unit
from .base import Change, Step, chosen_rows
from .row_hash import RowHash, cells_of

__all__ = ["Division", "KeepShare", "stratified"]

Bounds = tuple[int, ...]
_ALL = 1 << 64


@dataclass(frozen=True)
class Division:
    """How rows are told apart: the hash of ``columns``, below which bound it is.

    ``bounds`` has the upper bound of each share but the last. With ``stratify``, a column, each of its values has
    bounds of its own, in ``of_value``.
    """

    schema: Schema
    columns: tuple[str, ...]
    seed: int
    bounds: Bounds
    stratify: str | None = None
    of_value: Mapping[bytes | None, Bounds] = field(default_factory=dict)

    @staticmethod
    def bounds_of(shares: Sequence[Fraction], rows: int = _ALL) -> Bounds:
        """Where so many rows, or all hashes, are cut."""
        ends = [sum(shares[: i + 1], Fraction(0)) for i in range(len(shares) - 1)]
        return tuple(int(end * rows + Fraction(1, 2)) for end in ends)


class KeepShare(Step):
    """Keeps the rows of share ``number``."""

    chooses = True

    def __init__(self, division: Division, number: int) -> None:
        self._division, self._number = division, number

    def begin(self, unit: Unit) -> Change:
        """The same for all units, but for the number of the row that an error names."""
        division, first = self._division, 0
        of_rows = _Hashes(division)

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal first
            hashes, values = of_rows(batch, first)
            first += batch.rows
            share = np.zeros(batch.rows, np.int64)
            if values is None:
                share = _shares(hashes, division.bounds)
            else:
                for value in set(values):
                    rows = np.array([i for i, one in enumerate(values) if one == value])
                    share[rows] = _shares(hashes[rows], division.of_value[value])
            return chosen_rows(batch, np.flatnonzero(share == self._number))

        return keep


class _Hashes:
    """The hashes of rows, and with ``stratify`` the values of that column."""

    def __init__(self, division: Division) -> None:
        self._hash = RowHash(division.schema, division.columns, division.seed)
        self._column = division.stratify
        names = () if self._column is None else (self._column,)
        self._encoder = RecordEncoder(Schema(division.schema[name] for name in names))

    def __call__(
        self, batch: RawBatch, first: int
    ) -> tuple[npt.NDArray[np.uint64], list[bytes | None] | None]:
        hashes = self._hash(batch, first)
        if self._column is None:
            return hashes, None
        encoded = self._encoder.encode_batch({self._column: batch.columns[self._column]}, first)
        return hashes, cells_of(encoded.columns[0])


def _shares(hashes: npt.NDArray[np.uint64], bounds: Bounds) -> npt.NDArray[np.int64]:
    """The share of each row: how many bounds its hash has reached; a bound of 2^64 is never reached."""
    share = np.zeros(len(hashes), np.int64)
    for bound in bounds:
        if bound < _ALL:
            share += hashes >= np.uint64(bound)
    return share


def stratified(division: Division, shares: Sequence[Fraction], batches: Iterable[RawBatch]) -> Division:
    """The division that gives each value of the column ``stratify`` its shares, to within half a row.

    ``batches`` are all rows; 8 bytes are kept of each. Rows with the same hash stay together.
    """
    of_rows, found = _Hashes(division), dict[bytes | None, list[npt.NDArray[np.uint64]]]()
    for batch in batches:
        hashes, values = of_rows(batch, 0)
        assert values is not None
        for value in set(values):
            rows = np.array([i for i, one in enumerate(values) if one == value])
            found.setdefault(value, []).append(hashes[rows])
    of_value = {}
    for value, pieces in found.items():
        ordered = np.sort(np.concatenate(pieces))
        cuts = Division.bounds_of(shares, len(ordered))
        of_value[value] = tuple(int(ordered[cut]) if cut < len(ordered) else _ALL for cut in cuts)
    return Division(
        division.schema, division.columns, division.seed, division.bounds, division.stratify, of_value
    )
