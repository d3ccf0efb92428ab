"""Splits that tell rows apart by their values: rows that are added later move no other, rows of a key stay together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..loading.plan import Plan
from ..loading.streams import StreamData
from ..order.selection import Selection
from ..order.spec import check_integer
from ..order.split import Strata, bounds_of, exact_shares, row_hashes, share_of_each
from ..query.columns import stored_cells

__all__ = [
    "split_by_hash",
]


Rows = NDArray[np.int64]


def split_by_hash(
    plan: Plan, shares: Mapping[str, Any], seed: int, by: str | None, stratify: str | None
) -> dict[str, Selection]:
    """The selected rows of each share, as ``unirecord write --split`` divides them (docs/spec/order.md)."""
    if by is not None and stratify is not None:
        raise ValueError("split: by and stratify exclude each other: rows with one key stay together")
    if isinstance(plan.data, StreamData):
        raise ValueError("these are windows or packed samples: split the documents that they are made of")
    plan.order.check_rows()
    if not shares or not all(isinstance(name, str) for name in shares):
        raise ValueError(f"split: shares are named by strings, got {dict(shares)}")
    fractions = exact_shares(shares.values())
    check_integer("seed", seed, 0, (1 << 64) - 1)
    rule = _Hashed(plan, seed, by)
    if stratify is None:
        bounds = [bounds_of(fractions)]
        found = plan.order.selection.dealt(
            lambda _, rows: share_of_each(rule.of(rows), bounds), len(fractions)
        )
    else:
        strata = Strata()
        ordinal = plan.data.snapshot.schema.ordinal(stratify)
        sizes = [_add(strata, rule, ordinal, rows) for _, rows in plan.order.selection.pieces()]
        of_value = list(strata.bounds(fractions).values())
        stored = iter(strata.pieces)
        pieces = iter(sizes)

        def deal(_: int, rows: Rows) -> Rows:
            several = [next(stored) for _ in range(next(pieces))]
            return np.concatenate([share_of_each(hashes, of_value, codes) for hashes, codes in several])

        found = plan.order.selection.dealt(deal, len(fractions))
    return dict(zip(shares, found, strict=True))


class _Hashed:
    """The hashes of rows, by a column or by all that are stored."""

    def __init__(self, plan: Plan, seed: int, by: str | None) -> None:
        schema = plan.data.snapshot.schema
        self.parts, self._seed = plan.data.parts, seed
        self.parts.check_open()
        self._ordinals = list(range(len(schema))) if by is None else [schema.ordinal(by)]

    def of(self, rows: Rows) -> NDArray[np.uint64]:
        """A hash of each row."""
        found = np.empty(len(rows), np.uint64)
        for some, columns in stored_cells(self.parts, self._ordinals, rows):
            found[some] = row_hashes(columns, self._seed)
        return found


def _add(strata: Strata, rule: _Hashed, ordinal: int, rows: Rows) -> int:
    """Adds these rows to their strata; in how many pieces."""
    hashes, before = rule.of(rows), len(strata.pieces)
    for some, (values,) in stored_cells(rule.parts, [ordinal], rows):
        strata.add(hashes[some], values)
    return len(strata.pieces) - before
