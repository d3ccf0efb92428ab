"""Positions delivered never or twice, by interval arithmetic: against counting them one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unirecord.order.coverage import PositionRange, Stretch, never_and_twice, stretches

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


@settings(max_examples=150, deadline=None)
@given(PASSES, st.integers(0, 40), st.integers(0, 60))
def test_what_lies_in_no_stretch_or_in_several_is_what_counting_says(passes, first, length) -> None:
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
    never, twice = never_and_twice(pieces, first, first + length)
    inside = range(first, first + length)
    assert listed(never) == [p for p in inside if counted[p] == 0]
    assert listed(twice) == [p for p in inside if counted[p] > 1]


def test_ten_to_the_twelve_positions_take_no_time_by_their_number() -> None:
    ranks, each = 1000, 10**9
    rank_of = np.delete(np.arange(ranks), 17)
    found = list(stretches(0, ranks, rank_of, [0] * 999, [each] * 999))
    assert sum(s.count for s in found) == 999 * each
    never, twice = never_and_twice(found, 0, ranks * each)
    assert never == [PositionRange(17, 17 + (each - 1) * ranks + 1, ranks, each)]
    assert twice == []


def test_overlaps_without_a_short_period_are_refused_not_guessed() -> None:
    odd = [Stretch(0, 1 << 40, 0, ranks, np.array([1])) for ranks in ((1 << 13) - 1, 1 << 13)]
    with pytest.raises(OverflowError, match="no period of less"):
        never_and_twice(odd, 0, 1 << 40)
