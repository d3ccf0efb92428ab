"""The sizes of a split: fractions or counts become the bounds of its parts."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from .spec import check_integer

__all__ = ["split_bounds", "with_rest"]


def with_rest(sizes: float | Sequence[float], length: int) -> Sequence[float]:
    """Sizes as a list; a single number is the first of two."""
    if isinstance(sizes, bool) or not isinstance(sizes, (int, float, np.integer, np.floating)):
        return sizes  # type: ignore[return-value]
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
            raise ValueError(f"split() has sizes that sum to {sum(counts)}, but there are {length} rows")
    exact = [Fraction(float(size)).limit_denominator(10**9) for size in sizes]
    total = sum(exact, Fraction(0))
    if min(exact) < 0 or abs(total - 1) > Fraction(1, 10**6):
        raise ValueError(
            f"split() has the fractions {list(sizes)}, which sum to {float(total):g}; "
            "they must be ≥ 0 and sum to 1"
        )
    ends = [int(sum(exact[:k], Fraction(0)) * length + Fraction(1, 2)) for k in range(1, len(exact))]
    return [0, *(min(end, length) for end in ends), length]
