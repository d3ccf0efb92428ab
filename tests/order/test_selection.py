"""Selections: each method against the same on a plain list, composed in any way."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unirecord.core import Bitmap
from unirecord.order.randomness import scaled
from unirecord.order.selection import Selection


def rows_of(selection: Selection) -> list[int]:
    return selection.row_ids(np.arange(len(selection), dtype=np.int64)).tolist()


def expanded_from_c(selection: Selection) -> list[int]:
    held, start, step, length = selection.as_c()
    places = start + np.arange(length) * step
    if held is None:
        return places.tolist()
    return (held.select(places) if isinstance(held, Bitmap) else held[places]).tolist()


@st.composite
def steps(draw: st.DrawFn) -> Callable[[Selection, list[int]], tuple[Selection, list[int]]]:
    kind = draw(st.sampled_from(["take", "skip", "slice", "range", "select", "mask", "where", "split"]))
    n = draw(st.integers(0, 60))
    seed = draw(st.integers(0, 99))
    cut = draw(st.slices(50))

    def apply(selection: Selection, rows: list[int]) -> tuple[Selection, list[int]]:
        random, length = np.random.default_rng(seed), len(rows)
        if kind == "take":
            return selection.take(n), rows[:n]
        if kind == "skip":
            return selection.skip(n), rows[n:]
        if kind == "slice":
            return selection.select(cut), rows[cut]
        if kind == "range":
            chosen = range(length)[cut]
            return selection.select(chosen), [rows[i] for i in chosen]
        if kind == "select":
            picked = random.integers(-length, length, n) if length else np.empty(0, np.int64)
            return selection.select(picked), [rows[i] for i in picked]
        if kind == "mask":
            mask = random.random(length) < 0.6
            return selection.select(mask), [row for row, kept in zip(rows, mask, strict=True) if kept]
        if kind == "where":
            found = np.flatnonzero(random.random(selection.rows) < 0.7)
            return selection.where_rows(found), [row for row in rows if row in set(found.tolist())]
        return selection.split([0.3, 0.7], seed=None)[1], rows[(3 * length + 5) // 10 :]

    return apply


@settings(max_examples=400)
@given(st.integers(0, 60), st.lists(steps(), max_size=5))
def test_selections_compose_like_lists(
    n: int, chain: list[Callable[..., tuple[Selection, list[int]]]]
) -> None:
    selection, expected = Selection(n), list(range(n))
    for step in chain:
        selection, expected = step(selection, expected)
        assert rows_of(selection) == expected
        assert expanded_from_c(selection) == expected
        assert len(selection) == len(expected)
        assert [selection[i] for i in range(-len(expected), len(expected))] == expected * 2


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([1, 60, 5000, 1 << 40]),
    st.lists(st.integers(0, (1 << 40) - 1), max_size=30),
    st.integers(0, 99),
    steps(),
)
def test_what_a_selection_holds_is_said_of_each_row(
    n: int, chosen: list[int], seed: int, step: Callable[[Selection, list[int]], tuple[Selection, list[int]]]
) -> None:
    """Also of those that have the lowest digits of a selected one."""
    rows = sorted({row % n for row in chosen})
    selection = Selection(n).select(np.array(rows, np.int64))
    if n < 1 << 40:
        selection, rows = step(selection, rows)
    asked = np.random.default_rng(seed).integers(0, n, 200)
    asked = np.concatenate([asked, np.array(rows, np.int64), (np.array(rows, np.int64) + 256) % n])
    assert selection.holds(asked).tolist() == [row in set(rows) for row in asked.tolist()]


@given(st.lists(st.integers(0, (1 << 64) - 1), max_size=20), st.integers(0, 1 << 62))
def test_scaled_words_are_the_upper_half_of_the_product(words: list[int], count: int) -> None:
    assert scaled(np.array(words, np.uint64), count).tolist() == [word * count >> 64 for word in words]


@settings(max_examples=200)
@given(
    st.integers(0, 60), st.lists(steps(), max_size=3), st.lists(st.integers(0, 20), min_size=1, max_size=6)
)
def test_parts_of_a_selection_cover_it(
    n: int, chain: list[Callable[..., tuple[Selection, list[int]]]], sizes
) -> None:
    selection, rows = Selection(n), list(range(n))
    for step in chain:
        selection, rows = step(selection, rows)
    starts = np.minimum(np.cumsum([0, *sizes]), n)
    starts[-1] = n
    counts = selection.part_rows(starts)
    assert counts.sum() == len(rows)
    first = 0
    for count in counts.tolist():
        parts = np.searchsorted(starts, rows[first : first + count], side="right") - 1
        assert len(set(parts.tolist())) <= 1
        first += count
    if rows == sorted(rows):
        assert len(counts) == len(sizes)


def test_every_row_selected_costs_nothing() -> None:
    selection = Selection(2**62)
    assert len(selection) == 2**62
    assert selection.is_all
    assert selection.skip(5).take(2**61)[-1] == 2**61 + 4
    assert selection.select(range(2**62 - 1, -1, -(2**60))).as_c() == (None, 2**62 - 1, -(2**60), 4)
    assert not selection.skip(1).is_all


def test_selected_numbers_are_kept_in_order_and_may_repeat() -> None:
    """S1."""
    ten = Selection(10)
    assert rows_of(ten.select([1, 2, 3, 5, 7])) == [1, 2, 3, 5, 7]
    assert rows_of(ten.select([1, 2, 2, 5, 7, 9])) == [1, 2, 2, 5, 7, 9]
    assert rows_of(ten.select([])) == []
    assert rows_of(ten.select([1, 2, 4, -1, -2])) == [1, 2, 4, 9, 8]


@pytest.mark.parametrize(
    ("rows", "bad"),
    [([1, 2, 4, 11, 13], 11), ([-11], -11), (range(5, 12), 11), (np.array([2**63], np.uint64), 2**63)],
)
def test_numbers_out_of_range_are_named(rows: object, bad: int) -> None:
    with pytest.raises(IndexError, match=f"row {bad} is out of range: there are 10 rows"):
        Selection(10).select(rows)


def test_selecting_by_something_else_is_refused() -> None:
    with pytest.raises(TypeError, match="must be integers, not float64"):
        Selection(10).select([0.5])
    with pytest.raises(ValueError, match="mask has 3 values, but there are 10 rows"):
        Selection(10).select(np.array([True, False, True]))
    with pytest.raises(ValueError, match="flat"):
        Selection(10).select([[1, 2]])
    with pytest.raises(ValueError, match="take"):
        Selection(10).take(-1)
    with pytest.raises(IndexError, match="row 10"):
        Selection(10)[10]
    with pytest.raises(IndexError, match="not all among the 10 rows"):
        Selection(10).where_rows(np.array([3, 10]))


def test_sequential_ranges_are_clipped() -> None:
    """S3: (start, count) as skip and take."""
    ten = Selection(10)
    assert rows_of(ten.skip(1).take(4)) == [1, 2, 3, 4]
    assert rows_of(ten.skip(2).take(10)) == rows_of(ten.skip(2).take(20)) == list(range(2, 10))
    assert len(ten.skip(10)) == len(ten.skip(11).take(3)) == 0


# ---- split ----


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([8, 2], [8, 2]),
        ([0.8, 0.2], [8, 2]),
        ([0.41, 0.59], [4, 6]),
        ([1 / 3, 1 / 3, 1 / 3], [3, 4, 3]),
        ([1.0], [10]),
        ([1], [10]),
        ([10, 0], [10, 0]),
        ([0.0, 1.0], [0, 10]),
    ],
)
def test_split_sizes_sum_up_exactly(sizes: list[float], expected: list[int]) -> None:
    for seed in (None, 0, 5):
        assert [len(part) for part in Selection(10).split(sizes, seed)] == expected


@settings(max_examples=100)
@given(
    st.integers(0, 400),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.none() | st.integers(0, 2**64 - 1),
)
def test_split_parts_are_disjoint_and_complete(n: int, weights: list[int], seed: int | None) -> None:
    sizes = [weight / sum(weights) for weight in weights]
    parts = Selection(n).split(sizes, seed)
    rows = [rows_of(part) for part in parts]
    assert sorted(row for part in rows for row in part) == list(range(n))
    assert all(part == sorted(part) for part in rows)
    assert rows == [rows_of(part) for part in Selection(n).split(sizes, seed)]
    assert all(abs(len(part) - n * size) <= 1 for part, size in zip(rows, sizes, strict=True))


def test_split_depends_on_the_seed_and_not_on_what_is_selected() -> None:
    first, second = (rows_of(Selection(1000).split([0.5, 0.5], seed)[0]) for seed in (0, 1))
    assert first != second
    assert 200 < len(set(first) & set(second)) < 300
    evens = Selection(2000).select(slice(0, None, 2)).split([0.5, 0.5], 0)[0]
    assert rows_of(evens) == [2 * row for row in first]


def test_a_split_is_frozen() -> None:
    assert rows_of(Selection(20).split([0.7, 0.3], seed=42)[1]) == [3, 4, 5, 7, 8, 12]


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ([0.5, 0.4], "sum to 0.9"),
        ([8, 3], "sum to 11, but there are 10 rows"),
        ([], "at least one"),
        ([1.5, -0.5], "must be ≥ 0"),
        ([-1, 11], "must be at least 0"),
    ],
)
def test_wrong_sizes_are_refused(sizes: list[float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Selection(10).split(sizes)


def test_a_bool_is_no_size() -> None:
    with pytest.raises(TypeError, match=r"a size is a fraction from 0\.0 to 1\.0, or a count from 0 to 10"):
        Selection(10).split(True)


# ---- digests and memory ----


def test_equal_selections_have_equal_digests() -> None:
    ten = Selection(10)
    assert ten.select(list(range(2, 8, 2))).digest() == ten.select(slice(2, 8, 2)).digest()
    assert ten.skip(10).digest() == ten.select([]).digest()
    assert ten.select([3]).digest() == ten.skip(3).take(1).digest()
    assert len(ten.digest()) == 16
    others = [
        ten,
        ten.skip(1),
        ten.take(9),
        Selection(11),
        ten.select([1, 0, 2]),
        ten.select([1, 0, 3]),
        ten.take(0),
    ]
    assert len({selection.digest() for selection in others}) == len(others)
    assert ten.select([4, 5]) == ten.skip(4).take(2)


def test_digests_are_frozen() -> None:
    """They are part of saved states."""
    assert Selection(10).digest() == "dfbc2476c5a46c03"
    assert Selection(10).select([1, 0, 3]).digest() == "a586a3cff7dc5e22"


def test_selections_do_not_change() -> None:
    source = np.array([3, 1, 4])
    selection = Selection(10).select(source)
    source[0] = 9
    assert rows_of(selection) == [3, 1, 4]
    array = selection.as_c()[0]
    assert array is not None
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


def test_selections_hold_eight_bytes_a_row_at_most() -> None:
    n = 1 << 20
    tracemalloc.start()
    base = tracemalloc.get_traced_memory()[0]
    parts = Selection(n).split([0.5, 0.5], seed=1)
    kept = tracemalloc.get_traced_memory()[0] - base
    views = [parts[0].take(n // 4).skip(i) for i in range(100)]
    shared = tracemalloc.get_traced_memory()[0] - base - kept
    tracemalloc.stop()
    assert kept < 8.1 * n
    assert shared < 100_000
    assert len(views[-1]) == n // 4 - 99
