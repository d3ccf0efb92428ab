"""Positions delivered never or twice, by interval arithmetic: against counting them one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unirecord.order.coverage import PositionRange, Stretch, coverage, stretches

PASSES = st.lists(
    st.integers(1, 7).flatmap(
        lambda ranks: st.tuples(
            st.integers(0, 30),
            st.dictionaries(
                st.integers(0, ranks - 1),
                st.tuples(st.integers(0, 9), st.integers(0, 9)),
                min_size=1,
                max_size=ranks,
            ),
            st.just(ranks),
        )
    ),
    max_size=4,
)


def listed(ranges: list[PositionRange]) -> list[int]:
    assert all(r.stride and len(range(r.first, r.stop, r.stride)) == r.count for r in ranges)
    return sorted(p for r in ranges for p in range(r.first, r.stop, r.stride))


def stretched(passes) -> tuple[list[Stretch], Counter[int]]:
    """The stretches of some passes, and their positions one by one."""
    pieces: list[Stretch] = []
    counted: Counter[int] = Counter()
    for start, samples, ranks in passes:
        order = list(samples)
        begin, end = [samples[r][0] for r in order], [sum(samples[r]) for r in order]
        found = list(stretches(start, ranks, np.array(order, np.int64), begin, end))
        own = [start + r + i * ranks for r, (a, n) in samples.items() for i in range(a, a + n)]
        assert sum(s.count for s in found) == len(own)
        counted.update(own)
        pieces += found
    return pieces, counted


@settings(max_examples=150, deadline=None)
@given(PASSES, PASSES, PASSES, st.integers(0, 40), st.integers(0, 60))
def test_what_becomes_of_each_position_is_what_counting_says(delivered, dropped, rest, first, length) -> None:
    came, of_drop, of_rest = stretched(delivered), stretched(dropped), stretched(rest)
    left = {"drop_last": of_drop[0], "remainder": of_rest[0]}
    found = coverage(came[0], left, first, first + length)
    inside = range(first, first + length)
    absent = [p for p in inside if came[1][p] == 0]
    assert listed(found.twice) == [p for p in inside if came[1][p] > 1]
    assert listed(found.left_out["drop_last"]) == [p for p in absent if of_drop[1][p]]
    assert listed(found.left_out["remainder"]) == [p for p in absent if of_rest[1][p] and not of_drop[1][p]]
    assert listed(found.never) == [p for p in absent if not of_rest[1][p] and not of_drop[1][p]]


def test_ten_to_the_twelve_positions_take_no_time_by_their_number() -> None:
    ranks, each = 1000, 10**9
    rank_of = np.delete(np.arange(ranks), 17)
    found = list(stretches(0, ranks, rank_of, [0] * 999, [each] * 999))
    assert sum(s.count for s in found) == 999 * each
    of_all = coverage(found, {}, 0, ranks * each)
    assert of_all.never == [PositionRange(17, 17 + (each - 1) * ranks + 1, ranks, each)]
    assert of_all.twice == []


def test_overlaps_without_a_short_period_are_refused_not_guessed() -> None:
    odd = [Stretch(0, 1 << 40, 0, ranks, np.array([1])) for ranks in ((1 << 13) - 1, 1 << 13)]
    with pytest.raises(OverflowError, match="no period of less"):
        coverage(odd, {}, 0, 1 << 40)
