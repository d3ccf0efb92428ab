"""The step that keeps one share of a split: rows by a hash of themselves or a key, so that new rows move no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ...format.schema import Schema
from ...order.split import Bounds, Cells, Strata, row_hashes, share_of_each
from ..sources.base import RawBatch, Unit
from .base import Change, Step, chosen_rows
from .row_cells import RowCells

__all__ = ["Division", "KeepShare", "stratified"]


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


class KeepShare(Step):
    """Keeps the rows of share ``number``."""

    chooses = True

    def __init__(self, division: Division, number: int) -> None:
        self._division, self._number = division, number

    def begin(self, unit: Unit) -> Change:
        """The same for all units, but for the number of the row that an error names."""
        division, first = self._division, 0
        of_rows = _Hashes(division)
        strata = Strata({value: number for number, value in enumerate(division.of_value)})
        of_strata = list(division.of_value.values())

        def keep(batch: RawBatch) -> RawBatch:
            nonlocal first
            hashes, values = of_rows(batch, first)
            first += batch.rows
            if values is None:
                share = share_of_each(hashes, [division.bounds])
            else:
                share = share_of_each(hashes, of_strata, strata.codes(values))
            return chosen_rows(batch, np.flatnonzero(share == self._number))

        return keep


class _Hashes:
    """The hashes of rows, and with ``stratify`` the values of that column."""

    def __init__(self, division: Division) -> None:
        self._hashed = RowCells(division.schema, division.columns)
        self._seed = division.seed
        self._strata = None if division.stratify is None else RowCells(division.schema, [division.stratify])

    def __call__(self, batch: RawBatch, first: int) -> tuple[npt.NDArray[np.uint64], Cells | None]:
        hashes = row_hashes(self._hashed(batch, first), self._seed)
        return hashes, None if self._strata is None else self._strata(batch, first)[0]


def stratified(division: Division, shares: Sequence[Fraction], batches: Iterable[RawBatch]) -> Division:
    """The division that gives each value of the column ``stratify`` its shares; ``batches`` are all rows."""
    of_rows, strata = _Hashes(division), Strata()
    for batch in batches:
        if batch.rows:
            hashes, values = of_rows(batch, 0)
            assert values is not None
            strata.add(hashes, values)
    return replace(division, of_value=strata.bounds(shares))
