"""What the values of a column are like: span, mean, quantiles, distinct values, a histogram; from the index alone."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..columns.flat import columns_of
from ..parts.part_set import PartSet
from ..query.tree import Field
from .chunks import Rows, chunks, count_rows, scalar_field
from .group_by import value_counts

QUANTILES: Final = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
BINS: Final = 20
_KEPT: Final = 4_000_000  # values that are sorted; of more, evenly spaced ones stand for all
_MOST_COMMON: Final = 5


@dataclass
class ColumnStatistics:
    """One column over the chosen rows.

    ``min``, ``max``, ``mean``, quantiles and histogram leave out nulls and NaN (and infinities, but for min and max).
    For strings these are those of the lengths in characters but for ``min`` and ``max``; for blob columns, of the sizes
    in bytes. ``exact`` is False where quantiles and histogram come from evenly spaced rows; ``distinct`` is then None,
    of strings ``min`` and ``max`` too, and ``common`` is estimated.
    ``bins`` are the histogram's edges, one more than its ``counts``; ``common`` the most frequent values.
    """

    name: str
    type: str
    rows: int = 0
    nulls: int = 0
    nans: int = 0
    min: Any = None
    max: Any = None
    mean: float | None = None
    distinct: int | None = None
    exact: bool = True
    quantiles: dict[str, float] = field(default_factory=dict)
    bins: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    common: list[tuple[Any, int]] = field(default_factory=list)

    def ranges(self) -> list[tuple[float, float]]:
        """The least and the greatest value that each of ``counts`` may hold; of whole numbers not the upper edge."""
        floats = self.type.startswith(("float", "bfloat")) and "[" not in self.type
        beyond = 0 if floats or len(self.counts) < 2 else 1
        return [(low, high - beyond) for low, high in pairwise(self.bins)]

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def column_statistics(
    parts: PartSet, name: str, rows: Rows | None = None, texts: int | None = None
) -> ColumnStatistics:
    """Statistics of one column over all rows that have not been deleted, or over ``rows`` (ascending).

    ``texts``: of strings without a dictionary no more than so many are looked at, in evenly spaced rows of all.
    """
    column = parts.schema[parts.schema.ordinal(name)]
    found = ColumnStatistics(column.name, str(column), rows=count_rows(parts, rows))
    if column.is_blob:
        _describe_sizes(found, parts, rows)
        return found
    chosen = scalar_field(parts.schema, name)
    if texts is not None and rows is None and found.rows > texts and _is_plain(parts, chosen):
        _describe_spaced(found, chosen, parts, texts)
    elif chosen.type in ("string", "bool"):
        _describe_values(found, chosen, value_counts(parts, chosen, rows))
    else:
        _describe_numbers(found, chosen, parts, rows)
    return found


def _is_plain(parts: PartSet, chosen: Field) -> bool:
    return chosen.type == "string" and any(
        columns.rows and columns.dictionary(chosen.ordinal) is None for columns in columns_of(parts)
    )


def _describe_spaced(found: ColumnStatistics, chosen: Field, parts: PartSet, most: int) -> None:
    """Strings by the distinct ones of evenly spaced rows, each of which stands for as many rows."""
    stride = -(-found.rows // most)
    spaced = np.arange(0, found.rows, stride)
    counts = value_counts(parts, chosen, spaced if parts.live is None else parts.live.select(spaced))
    _describe_values(found, chosen, counts)
    found.exact, found.distinct, found.min, found.max = False, None, None, None
    found.common = [(value, count * stride) for value, count in found.common if count > 1]
    found.nulls = sum(len(chunk) - int(chunk.valid(chosen).sum()) for chunk in chunks(parts, None))


def _describe_values(found: ColumnStatistics, chosen: Field, counts: dict[Any, int]) -> None:
    """Strings and bools, by their distinct values."""
    found.nulls = counts.pop(None, 0)
    found.distinct = len(counts)
    if not counts:
        return
    found.min, found.max = min(counts), max(counts)
    found.common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_COMMON]
    sizes = np.array([len(v) if chosen.type == "string" else int(v) for v in counts], np.int64)
    weights = np.array(list(counts.values()), np.int64)
    found.mean = float((sizes * weights).sum() / weights.sum())
    _spread(found, sizes.astype(np.float64), weights)


def _describe_numbers(found: ColumnStatistics, chosen: Field, parts: PartSet, rows: Rows | None) -> None:
    stride = -(-found.rows // _KEPT)
    kept: list[NDArray[Any]] = []
    total, finite = 0.0, 0
    for chunk in chunks(parts, rows):
        values = chunk.numbers(chosen)
        found.nulls += len(chunk) - len(values)
        if values.dtype.kind == "f":
            numbers = values[~np.isnan(values)]
            found.nans += len(values) - len(numbers)
            values = numbers
        if not len(values):
            continue
        low, high = values.min().item(), values.max().item()
        found.min = low if found.min is None else min(found.min, low)
        found.max = high if found.max is None else max(found.max, high)
        if values.dtype.kind == "f":
            values = values[np.isfinite(values)]
        total += float(values.sum(dtype=np.float64))
        finite += len(values)
        kept.append(values[::stride].copy() if stride > 1 else values)
    found.exact = stride <= 1
    if finite:
        found.mean = total / finite
        _describe_kept(found, np.concatenate(kept))


def _describe_kept(found: ColumnStatistics, kept: NDArray[Any]) -> None:
    distinct, weights = np.unique(kept, return_counts=True)
    if found.exact:
        infinite = {v for v in (found.min, found.max) if isinstance(v, float) and math.isinf(v)}
        found.distinct = len(distinct) + len(infinite)
        if len(distinct) <= len(kept) // 2:
            order = np.lexsort((np.arange(len(distinct)), -weights))[:_MOST_COMMON]
            found.common = [(distinct[i].item(), int(weights[i])) for i in order]
    _spread(found, distinct.astype(np.float64), weights, whole=kept.dtype.kind in "iu")


def _spread(
    found: ColumnStatistics, values: NDArray[np.float64], weights: NDArray[Any], whole: bool = True
) -> None:
    """Quantiles (the least value with that share of rows at or below it) and histogram of values with weights."""
    order = np.argsort(values, kind="stable")
    values, weights = values[order], weights[order]
    sums = np.cumsum(weights)
    for share in QUANTILES:
        place = int(np.searchsorted(sums, share * sums[-1], side="left"))
        found.quantiles[f"{share:g}"] = float(values[min(place, len(values) - 1)])
    low, high = float(values[0]), float(values[-1])
    if low == high or not math.isfinite(high - low):
        found.bins, found.counts = [low, high], [int(sums[-1])]
        return
    step = max(1, math.ceil((high - low + 1) / BINS))  # bins of integers hold the same number of them
    in_steps = whole and high - low < 1 << 52
    edges = (
        np.append(np.arange(low, high + 1, step), high + 1) if in_steps else np.linspace(low, high, BINS + 1)
    )
    counts, _ = np.histogram(values, edges, weights=weights)
    found.bins, found.counts = edges.tolist(), counts.astype(np.int64).tolist()


def _describe_sizes(found: ColumnStatistics, parts: PartSet, rows: Rows | None) -> None:
    """Sizes of blobs that are not null, from the lengths in the index."""
    ordinal = parts.schema.ordinal(found.name)
    column = parts.schema[ordinal]
    fixed, asked = column.fixed_bytes, Field(column.name, ordinal, column.type, column.nullable)
    stride = -(-found.rows // _KEPT)
    kept, total, low, high = [], 0, None, None
    for chunk in chunks(parts, rows):
        if fixed:
            sizes = np.full(len(chunk), fixed, np.uint64)
        else:
            sizes = chunk.at.read(chunk.fields.columns.value_lengths(ordinal))
        if column.nullable:
            sizes = sizes[chunk.valid(asked)]
            found.nulls += len(chunk) - len(sizes)
        if len(sizes):
            total += int(sizes.sum(dtype=np.uint64))
            low = int(sizes.min()) if low is None else min(low, int(sizes.min()))
            high = int(sizes.max()) if high is None else max(high, int(sizes.max()))
            kept.append(sizes[::stride].astype(np.int64))
    if kept:
        present = found.rows - found.nulls
        found.min, found.max, found.mean, found.exact = low, high, total / present, stride <= 1
        distinct, weights = np.unique(np.concatenate(kept), return_counts=True)
        _spread(found, distinct.astype(np.float64), weights)
