"""The order of an epoch: exact permutations at every size and in every mode, their inverses, and the frozen vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import order_reference as reference
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from process_counts import resident

from unirecord.core import Order
from unirecord.order.spec import OrderSpec

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "order_vectors.json").read_text())["vectors"]
U64 = st.integers(0, 2**64 - 1)


def shuffled(rows: int, seed: int = 0, epoch: int = 0) -> Order:
    return Order(rows, OrderSpec("shuffle", seed, epoch))


def assert_permutation(order: Order) -> None:
    """Every row once, and the inverse leads back; in chunks, so that 2^24 rows need little memory."""
    seen = np.zeros(order.rows, np.bool_)
    for first in range(0, order.rows, 1 << 20):
        count = min(1 << 20, order.rows - first)
        rows = order.range(first, 1, count)
        seen[rows] = True
        positions = order.inverse(rows)
        assert positions[0] == first
        assert np.all(np.diff(positions) == 1)
    assert seen.all()


def of_vector(vector: dict[str, Any]) -> Order:
    spec = OrderSpec(
        vector["mode"],
        vector["seed"],
        vector["epoch"],
        vector.get("block_rows", 1),
        vector.get("window_blocks", 1),
    )
    return Order(vector["rows"], spec, vector.get("part_rows"))


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: f"{v['mode']}-{v['rows']}-{v['seed']}-{v['epoch']}")
def test_frozen_vectors_are_reproduced(vector: dict[str, Any]) -> None:
    order = of_vector(vector)
    assert order.at(vector["positions"]).tolist() == vector["result"]
    assert order.inverse(vector["result"]).tolist() == vector["positions"]


def test_a_position_does_not_depend_on_how_it_is_asked_for() -> None:
    order = shuffled(100_003, 5, 2)
    whole = order.range(0, 1, 100_003)
    assert [int(order.range(p, 1, 1)[0]) for p in (0, 1, 255, 256, 257, 100_002)] == [
        int(whole[p]) for p in (0, 1, 255, 256, 257, 100_002)
    ]
    assert np.array_equal(order.range(7, 8, 12_000), whole[7::8][:12_000])
    assert np.array_equal(order.at(np.arange(100_002, -1, -1)), whole[::-1])


def test_shuffle_is_a_permutation_for_every_small_size() -> None:
    for rows in range(4097):
        order = shuffled(rows, rows * 0x9E3779B97F4A7C15 % 2**64, rows % 5)
        found = order.range(0, 1, rows)
        assert np.array_equal(np.bincount(found, minlength=rows), np.ones(rows)), rows
        assert np.array_equal(order.inverse(found), np.arange(rows)), rows


@pytest.mark.parametrize("power", range(12, 25))
def test_shuffle_is_a_permutation_around_powers_of_two(power: int) -> None:
    for rows in (2**power - 1, 2**power, 2**power + 1):
        assert_permutation(shuffled(rows, power, rows))


@pytest.mark.parametrize("rows", [2**40 - 1, 2**40, 2**40 + 1, 2**62 - 1, 2**62])
@pytest.mark.parametrize("mode", ["shuffle", "block"])
def test_the_inverse_leads_back_where_not_all_rows_can_be_tried(rows: int, mode: str) -> None:
    order = Order(rows, OrderSpec(mode, 11, 3, 100_003, 17))
    ends = np.array([0, 1, 2, rows - 2, rows - 1])
    # In block mode neighbours share a window; scattered positions would make a key each.
    middles = np.concatenate(
        [f + np.arange(2000) for f in np.random.default_rng(1).integers(0, rows - 2000, 50)]
    )
    positions = np.concatenate([ends, middles])
    found = order.at(positions)
    assert found.min() >= 0
    assert found.max() < rows
    assert np.array_equal(order.inverse(found), positions)
    assert np.array_equal(order.at(order.inverse(positions)), positions)
    assert len(np.unique(found)) == len(np.unique(positions))


@pytest.mark.parametrize("mode", ["shuffle", "sequential", "block", "parts", "within-parts"])
def test_an_empty_order_has_no_positions(mode: str) -> None:
    order = Order(0, OrderSpec(mode), [0, 0] if "parts" in mode else None)
    assert order.range(0, 1, 0).tolist() == []
    with pytest.raises(ValueError, match="0 rows"):
        order.range(0, 1, 1)
    with pytest.raises(IndexError, match="there are 0"):
        order.at([0])


def test_the_first_row_of_a_huge_order_comes_at_once() -> None:
    """Nothing of the size of the epoch is computed or kept: 10^12 rows take the memory of ten, whatever the mode."""
    for mode in ("shuffle", "block"):
        Order(10**4, OrderSpec(mode, 1, 0, 8192, 16)).range(0, 1, 1)
        before = resident()
        firsts = [
            int(Order(10**12, OrderSpec(mode, 1, epoch, 8192, 16)).range(0, 1, 1)[0]) for epoch in range(20)
        ]
        assert resident() - before < 1 << 20
        assert len(set(firsts)) == 20


def test_positions_wrap_at_the_end_of_the_epoch() -> None:
    order = shuffled(10, 3)
    epoch = order.range(0, 1, 10)
    assert np.array_equal(order.range(7, 2, 9), epoch[(7 + 2 * np.arange(9)) % 10])
    assert np.array_equal(order.range(2**62, 1, 3), epoch[(2**62 + np.arange(3)) % 10])


def test_wrong_positions_are_refused() -> None:
    order = shuffled(10)
    for start, stride, count in ((-1, 1, 1), (0, 0, 1), (0, 1, -1), (2**62, 2**32, 3), (0, 2**62, 3)):
        with pytest.raises(ValueError, match=r"^no -?\d+ positions? -?\d+ apart from -?\d+ on, in 10 rows$"):
            order.range(start, stride, count)
    for position in (-1, 10, 2**62):
        with pytest.raises(IndexError):
            order.at([position])
        with pytest.raises(IndexError):
            order.inverse([3, position])


def test_wrong_orders_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2\^62"):
        shuffled(2**62 + 1)
    with pytest.raises(ValueError, match="9 rows together, not 10"):
        Order(10, OrderSpec("parts"), [4, 5])
    with pytest.raises(ValueError, match="part 1 of the order has 7 rows, with 6 left of 10"):
        Order(10, OrderSpec("within-parts"), [4, 7])
    with pytest.raises(ValueError, match="part 0 of the order has -1 rows"):
        Order(10, OrderSpec("parts"), [-1, 11])


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 5000), U64, U64)
def test_shuffle_agrees_with_the_reference(rows: int, seed: int, epoch: int) -> None:
    image = reference.permutation(rows, seed, epoch, reference.ROWS)
    positions = np.unique(np.array([0, rows // 3, rows // 2, rows - 1]))
    assert shuffled(rows, seed, epoch).at(positions).tolist() == [image(int(p)) for p in positions]


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 9000), U64, U64, st.integers(1, 4000), st.integers(1, 40), st.integers(1, 64))
def test_block_order_agrees_with_the_reference(
    rows: int, seed: int, epoch: int, block: int, window: int, stride: int
) -> None:
    order = Order(rows, OrderSpec("block", seed, epoch, block, window))
    expected = np.array(reference.block_order(rows, seed, epoch, block, window))
    assert np.array_equal(order.range(0, 1, rows), expected)
    assert np.array_equal(order.inverse(expected), np.arange(rows))
    assert np.array_equal(order.range(3, stride, rows), expected[(3 + stride * np.arange(rows)) % rows])


@settings(deadline=None, max_examples=100)
@given(st.lists(st.integers(0, 60) | st.integers(2000, 2300), max_size=9), U64, st.integers(0, 99))
def test_parts_orders_agree_with_the_reference(part_rows: list[int], seed: int, epoch: int) -> None:
    rows = sum(part_rows)
    for mode, function in (("parts", reference.parts_order), ("within-parts", reference.within_parts_order)):
        order = Order(rows, OrderSpec(mode, seed, epoch), part_rows)
        expected = np.array(function(part_rows, seed, epoch), np.int64)
        assert np.array_equal(order.range(0, 1, rows), expected)
        assert np.array_equal(order.inverse(expected), np.arange(rows))
        assert np.array_equal(order.at(np.arange(rows)[::-1]), expected[::-1])


def test_rows_of_a_window_of_blocks_stay_together() -> None:
    order = Order(1000, OrderSpec("block", 1, 0, block_rows=50, window_blocks=4)).range(0, 1, 1000)
    for window in range(5):
        rows = order[window * 200 : (window + 1) * 200]
        assert len(np.unique(rows // 50)) == 4
    assert len(np.unique(order[:20] // 50)) == 4  # and are mixed inside it


def test_a_block_larger_than_the_dataset_is_one_shuffle() -> None:
    order = Order(100, OrderSpec("block", 1, 0, block_rows=2**62, window_blocks=2**62)).range(0, 1, 100)
    assert np.array_equal(np.sort(order), np.arange(100))
    assert not np.array_equal(order, np.arange(100))


def test_seed_and_epoch_are_not_added() -> None:
    assert not np.array_equal(
        shuffled(1000, 42, 1).range(0, 1, 1000), shuffled(1000, 43, 0).range(0, 1, 1000)
    )
    assert not np.array_equal(shuffled(9, 0, 1).range(0, 1, 9), shuffled(9, 1, 0).range(0, 1, 9))
