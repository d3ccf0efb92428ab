"""The quality of the shuffle, beside numpy's on the same tests: no statistic of any key set strays from chance.

Every statistic is a standard normal number under chance. Chance passes LEVEL = 4.5 once in 150,000 statistics, and
about 4,000 are looked at here; keys are fixed, so what passes once passes always.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import order_statistics as statistics
import pytest

from unirecord.core import Order
from unirecord.order.spec import OrderSpec

LEVEL = 4.5
SIZES = [100, 1000, 2048, 2049, 4096, 5000, 8193]


def ours(n: int, salt: int = 0) -> statistics.Source:
    """One seed, a key an epoch: what a training job does."""

    def draw(key: int, positions: statistics.Array | None) -> statistics.Array:
        order = Order(n, OrderSpec("shuffle", 42 + salt, key + 1))
        return order.range(0, 1, n) if positions is None else order.at(positions)

    return draw


def by_seed(n: int) -> statistics.Source:
    """One epoch, a key a seed."""

    def draw(key: int, positions: statistics.Array | None) -> statistics.Array:
        order = Order(n, OrderSpec("shuffle", key + 1, 0))
        return order.range(0, 1, n) if positions is None else order.at(positions)

    return draw


def with_equal_sums(n: int) -> statistics.Source:
    """(seed, epoch) with one sum: the same key over and over, were they added."""

    def draw(key: int, positions: statistics.Array | None) -> statistics.Array:
        order = Order(n, OrderSpec("shuffle", 1_000_000 - key, 1 + key))
        return order.range(0, 1, n) if positions is None else order.at(positions)

    return draw


def numpys(n: int) -> statistics.Source:
    generator = np.random.default_rng(12345)

    def draw(_: int, positions: statistics.Array | None) -> statistics.Array:
        order = generator.permutation(n)
        return order if positions is None else order[positions]

    return draw


def affine(n: int) -> statistics.Source:
    """A bad shuffle: a multiplication and an addition."""

    def draw(key: int, positions: statistics.Array | None) -> statistics.Array:
        factor = 2 * np.random.default_rng(key + 1).integers(1, n) + 1
        order = (np.arange(n) * factor + key) % n
        return order if positions is None else order[positions]

    return draw


def strays(results: Iterable[tuple[str, float]]) -> dict[str, float]:
    return {name: round(value, 1) for name, value in results if not abs(value) < LEVEL}


@pytest.mark.parametrize("make", [ours, by_seed, with_equal_sums, numpys])
@pytest.mark.parametrize("n", SIZES)
def test_whole_orders_look_like_chance(n: int, make: type) -> None:
    assert strays(statistics.whole_orders(make(n), n, max(1_000_000 // n, 200))) == {}


@pytest.mark.parametrize("make", [ours, by_seed, with_equal_sums, numpys])
@pytest.mark.parametrize("n", [100, 2049, 4096])
def test_rows_at_chosen_places_look_like_chance(n: int, make: type) -> None:
    assert strays(statistics.chosen_places(make(n), n, 8000)) == {}


@pytest.mark.parametrize("n", [10**6, 2**20 + 1, 2**32 + 1, 10**12, 2**53])
def test_rows_at_chosen_places_of_large_orders_look_like_chance(n: int) -> None:
    order = statistics_of_large(n)
    assert strays(order) == {}


def statistics_of_large(n: int) -> list[tuple[str, float]]:
    """Places alone and in pairs, by high and by low digits, where whole orders are too long to look at."""
    places = np.array([0, 1, 2, 3, 256, n // 2, n - 2, n - 1])
    rows = np.array([ours(n)(key, places) for key in range(8000)])
    found = []
    for name, kind in (("high", (rows * (64 / n)).astype(np.int64)), ("low", rows % 64)):
        for i in range(len(places)):
            counts = np.bincount(kind[:, i], minlength=64)
            found.append((f"{name} {places[i]}", statistics.goodness(counts, np.full(64, 8000 / 64))))
            for j in range(i):
                cells = statistics.crossed(kind[:, i] // 8, kind[:, j] % 8, 8, 8).ravel()
                found.append(
                    (f"{name} {places[i]}, {places[j]}", statistics.goodness(cells, np.full(64, 125.0)))
                )
    return found


@pytest.mark.parametrize("make", [ours, numpys])
@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("n", [1000, 2049, 4096])
def test_each_ranks_own_subsequence_looks_like_chance(n: int, ranks: int, make: type) -> None:
    assert strays(statistics.rank_subsequences(make(n), n, 400_000 // n, ranks)) == {}


@pytest.mark.parametrize("make", [ours, by_seed, with_equal_sums, numpys])
@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_small_orders_take_every_permutation_equally_often(n: int, make: type) -> None:
    keys = {2: 4000, 3: 6000, 4: 9600, 5: 12_000, 6: 36_000}[n]
    assert abs(statistics.every_permutation(make(n), n, keys)) < LEVEL


@pytest.mark.parametrize("n", [2048, 4096])
def test_a_bad_shuffle_is_found_out(n: int) -> None:
    assert len(strays(statistics.whole_orders(affine(n), n, 100))) > 3
    assert len(strays(statistics.rank_subsequences(affine(n), n, 100, 2))) > 0


def block_windows(rows: int, block: int, window: int, key: int) -> statistics.Array:
    return Order(rows, OrderSpec("block", 7, key, block, window)).range(0, 1, rows)


@pytest.mark.parametrize(("block", "window"), [(64, 16), (500, 8)])
def test_block_order_takes_blocks_like_chance(block: int, window: int) -> None:
    """Which blocks share the first window, over many keys: every two blocks equally often in it, or not."""
    blocks, keys = 64, 600
    counts = np.zeros((blocks // window, blocks), np.int64)
    for key in range(keys):
        order = block_windows(blocks * block, block, window, key)
        starts = np.arange(blocks // window) * window * block
        for w, start in enumerate(starts):
            counts[w, np.unique(order[start : start + window * block] // block)] += 1
    assert counts.sum() == blocks * keys
    assert abs(statistics.contingency(counts, blocks)) < LEVEL


@pytest.mark.parametrize(("block", "window"), [(64, 16), (64, 64), (500, 8)])
def test_rows_inside_a_window_of_blocks_look_like_chance(block: int, window: int) -> None:
    rows, size = 4 * window * block, window * block

    def inside(key: int, positions: statistics.Array | None) -> statistics.Array:
        """A window's order, its rows numbered anew by their rank among the window's rows."""
        order = Order(rows, OrderSpec("block", 7, key + 1, block, window))
        local = np.argsort(np.argsort(order.range(size, 1, size)))
        return local if positions is None else local[positions]

    assert strays(statistics.whole_orders(inside, size, 300)) == {}
    assert strays(statistics.rank_subsequences(inside, size, 150, 8)) == {}
