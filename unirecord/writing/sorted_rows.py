"""The sorted rows of a column: row numbers by value and then by row, in bounded memory however many rows there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

MAX_SORTED = 1 << 24  # rows sorted at once
_CHUNK = 1 << 22
_SAMPLE = 4_096

Array = npt.NDArray[Any]
ReadValues = Callable[[int, int], Array]  # rows [start, stop) -> sortable keys
ReadValid = Callable[[int, int], "npt.NDArray[np.bool_] | None"]
Refine = Callable[
    [Array], Array
]  # rows whose keys are equal, ascending -> the same rows in their final order


def sorted_rows(
    rows: int, values: ReadValues, valid: ReadValid, refine: Refine | None = None, limit: int = MAX_SORTED
) -> Iterator[Array]:
    """Row numbers in order, a run at a time: by value, equal values by row (or by ``refine``), then NaN, then nulls."""
    yield from _Sorter(rows, values, valid, refine, limit).run()


class _Sorter:
    def __init__(
        self, rows: int, values: ReadValues, valid: ReadValid, refine: Refine | None, limit: int
    ) -> None:
        self.rows, self.values, self.valid, self.refine, self.limit = rows, values, valid, refine, limit

    def run(self) -> Iterator[Array]:
        yield from self._between(None, None)
        yield from self._select(
            lambda keys, valid: np.isnan(keys) & valid if keys.dtype.kind == "f" else None
        )
        yield from self._select(lambda keys, valid: ~valid)

    def _chunks(self) -> Iterator[tuple[int, Array, npt.NDArray[np.bool_]]]:
        for start in range(0, self.rows, _CHUNK):
            stop = min(start + _CHUNK, self.rows)
            valid = self.valid(start, stop)
            yield start, self.values(start, stop), np.ones(stop - start, bool) if valid is None else valid

    def _select(self, choose: Callable[[Array, Array], Array | None]) -> Iterator[Array]:
        for start, keys, valid in self._chunks():
            chosen = choose(keys, valid)
            if chosen is None:
                return
            found = np.flatnonzero(chosen)
            if len(found):
                yield found + start

    def _equal(self, key: Any) -> Iterator[Array]:
        runs = self._select(lambda keys, valid: (keys == key) & valid)
        if self.refine is None:
            yield from runs
        else:
            yield self.refine(np.concatenate(list(runs)))

    def _between(self, low: Any, high: Any) -> Iterator[Array]:
        """Rows whose key lies strictly between two keys (None: unbounded)."""
        kept: list[tuple[Array, Array]] = []
        count = 0
        sample: list[Array] = []
        for start, keys, valid in self._chunks():
            chosen = valid.copy()
            if keys.dtype.kind == "f":
                chosen &= ~np.isnan(keys)
            if low is not None:
                chosen &= keys > low
            if high is not None:
                chosen &= keys < high
            found = np.flatnonzero(chosen)
            count += len(found)
            if not len(found):
                continue
            inside = keys[found]
            sample.append(inside[:: max(1, len(inside) // _SAMPLE)])
            if count <= self.limit:
                kept.append((inside, found + start))
            else:
                kept = []
        if not count:
            return
        if count <= self.limit:
            yield self._sort(kept)
            return
        yield from self._divide(low, high, count, np.sort(np.concatenate(sample)))

    def _divide(self, low: Any, high: Any, count: int, sample: Array) -> Iterator[Array]:
        buckets = 2 * count // self.limit + 2
        splitters = np.unique(sample[np.linspace(0, len(sample) - 1, buckets + 1).astype(int)[1:-1]])
        for splitter in splitters:
            yield from self._between(low, splitter)
            yield from self._equal(splitter)
            low = splitter
        yield from self._between(low, high)

    def _sort(self, kept: list[tuple[Array, Array]]) -> Array:
        keys = np.concatenate([k for k, _ in kept])
        rows = np.concatenate([r for _, r in kept])
        order = np.argsort(keys, kind="stable")
        rows = rows[order]
        if self.refine is not None:
            keys = keys[order]
            edges = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1], [True]]))
            for start, stop in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
                if stop - start > 1:
                    rows[start:stop] = self.refine(rows[start:stop])
        return rows
