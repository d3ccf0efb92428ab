"""Statistics that tell a shuffle from chance: each is standard normal when every permutation is equally likely.

A source is a function from a key to positions' rows: source(key, positions) -> rows, or the whole order for None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.int64]
Source = Callable[[int, "Array | None"], Array]

BUCKETS = 16


def normal_of_chi_square(statistic: float, freedom: int) -> float:
    """Wilson and Hilferty: the cube root of a chi-square number is nearly normal."""
    variance = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - variance)) / math.sqrt(variance)


def goodness(counts: Array, expected: npt.NDArray[np.float64]) -> float:
    """Counts of independent draws against what chance gives; cells that cannot occur must be empty."""
    possible = expected > 0
    assert counts[~possible].sum() == 0
    statistic = float(((counts - expected)[possible] ** 2 / expected[possible]).sum())
    return normal_of_chi_square(statistic, int(possible.sum()) - 1)


def contingency(counts: Array, n: int) -> float:
    """Counts of (class of place, class of row) over whole permutations of n: both margins are fixed by the sizes."""
    expected = np.outer(counts.sum(1), counts.sum(0)) / counts.sum()
    statistic = float(((counts - expected) ** 2 / expected).sum()) * (n - 1) / n
    return normal_of_chi_square(statistic, (counts.shape[0] - 1) * (counts.shape[1] - 1))


def crossed(a: Array, b: Array, kinds_a: int, kinds_b: int) -> Array:
    return np.bincount(a * kinds_b + b, minlength=kinds_a * kinds_b).reshape(kinds_a, kinds_b)


def whole_orders(source: Source, n: int, keys: int) -> Iterator[tuple[str, float]]:
    """Neighbours at several distances, place against row (high and low digits), order against order."""
    kinds = min(BUCKETS, n)
    place = np.arange(n)
    bucket, digit = place * kinds // n, place % kinds
    lags = sorted({1, 2, 3, 8, n // 3} & set(range(1, n)))  # at n/2 every pair would count twice
    differences = {lag: np.zeros(kinds, np.int64) for lag in lags}
    tables = {name: np.zeros((kinds, kinds), np.int64) for name in ("high", "low", "epochs")}
    correlations, ascents, fixed = [], [], []
    before = source(-1, None)
    for key in range(keys):
        order = source(key, None)
        for lag in lags:
            distance = (np.roll(order, -lag) - order) % n - 1
            differences[lag] += np.bincount(distance * kinds // (n - 1), minlength=kinds)
        tables["high"] += crossed(bucket, bucket[order], kinds, kinds)
        tables["low"] += crossed(digit, digit[order], kinds, kinds)
        tables["epochs"] += crossed(bucket[before], bucket[order], kinds, kinds)
        correlations.append(np.corrcoef(before, order)[0, 1] * math.sqrt(n - 1))
        ascents.append(((np.diff(order) > 0).sum() - (n - 1) / 2) / math.sqrt((n + 1) / 12))
        fixed.append((order == place).sum() - 1.0)
        before = order
    chance = np.bincount(np.arange(n - 1) * kinds // (n - 1), minlength=kinds) * (n * keys / (n - 1))
    yield from ((f"neighbours at {lag}", goodness(differences[lag], chance)) for lag in lags)
    yield from ((f"table {name}", contingency(table, n)) for name, table in tables.items())
    for name, values in (
        ("order against order", correlations),
        ("ascents", ascents),
        ("fixed points", fixed),
    ):
        yield name, float(np.sum(values)) / math.sqrt(keys)


def chosen_places(source: Source, n: int, keys: int) -> Iterator[tuple[str, float]]:
    """Rows at a few places over many keys: each alone, and every two of them as a pair and by their difference."""
    places = np.unique(np.array([0, 1, 2, 3, 8, 64 % n, n // 2, n // 2 + 1, n - 2, n - 1]))
    rows = np.array([source(key, places) for key in range(keys)])
    sizes = np.bincount(np.arange(n) * 8 // n, minlength=8)
    for i, place in enumerate(places):
        yield f"place {place}", goodness(np.bincount(rows[:, i] * 8 // n, minlength=8), sizes * (keys / n))
    two = (np.outer(sizes, sizes) - np.diag(sizes)).ravel() * (keys / (n * (n - 1)))
    apart = np.bincount(np.arange(n - 1) * 32 // (n - 1), minlength=32) * (keys / (n - 1))
    for i, first in enumerate(places):
        for j in range(i):
            cells = crossed(rows[:, i] * 8 // n, rows[:, j] * 8 // n, 8, 8).ravel()
            yield f"pair {places[j]}, {first}", goodness(cells, two)
            distance = ((rows[:, i] - rows[:, j]) % n - 1) * 32 // (n - 1)
            yield f"difference {places[j]}, {first}", goodness(np.bincount(distance, minlength=32), apart)


def rank_subsequences(source: Source, n: int, keys: int, ranks: int) -> Iterator[tuple[str, float]]:
    """What each rank sees: its neighbours, and whether its rows are of one kind (by place in the dataset, by digit)."""
    kinds = min(BUCKETS, n)
    place = np.arange(n)
    tables = {"high": np.zeros((ranks, kinds), np.int64), "low": np.zeros((ranks, kinds), np.int64)}
    differences = np.zeros((ranks, kinds), np.int64)
    for key in range(keys):
        order = source(key, None)
        tables["high"] += crossed(place % ranks, order * kinds // n, ranks, kinds)
        tables["low"] += crossed(place % ranks, order % kinds, ranks, kinds)
        for rank in range(ranks):
            own = order[rank::ranks]
            distance = (own[1:] - own[:-1]) % n - 1
            differences[rank] += np.bincount(distance * kinds // (n - 1), minlength=kinds)
    chance = np.bincount(np.arange(n - 1) * kinds // (n - 1), minlength=kinds) / (n - 1)
    for rank in range(ranks):
        yield f"rank {rank} neighbours", goodness(differences[rank], chance * differences[rank].sum())
    yield from ((f"rank against {name}", contingency(table, n)) for name, table in tables.items())


def every_permutation(source: Source, n: int, keys: int) -> float:
    """Small n: how often each of the n! permutations came."""
    weights = n ** np.arange(n)
    codes = np.array([int(source(key, None) @ weights) for key in range(keys)])
    _, counts = np.unique(codes, return_counts=True)
    total = math.factorial(n)
    padded = np.concatenate([counts, np.zeros(total - len(counts), np.int64)])
    return goodness(padded, np.full(total, keys / total))
