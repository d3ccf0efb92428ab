"""The rest of an epoch: places are positions with what was delivered in front, and back."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord.order.rest import Rest, stepped_ranges


@given(data=st.data())
def test_places_are_the_positions_with_what_was_delivered_in_front(data: st.DataObject) -> None:
    samples = data.draw(st.integers(0, 60))
    behind = data.draw(st.integers(0, samples))
    left = sorted(data.draw(st.sets(st.integers(0, behind - 1))) if behind else [])
    rest = Rest(behind - len(left), np.array(left, np.int64))
    delivered = [position for position in range(behind) if position not in left]
    expected = [*delivered, *left, *range(behind, samples)]
    every = np.arange(samples, dtype=np.int64)
    assert rest.behind == behind
    assert rest.positions(every).tolist() == expected
    assert rest.places(rest.positions(every)).tolist() == every.tolist()
    step = data.draw(st.integers(1, 9))
    ranges = json.loads(json.dumps(stepped_ranges(rest.left, step)))
    assert Rest.of_state(rest.start, ranges, samples).left.tolist() == left


def test_what_a_rank_has_left_is_one_range() -> None:
    assert stepped_ranges(np.arange(3, 3000, 7), 7) == [[3, 3000, 7]]
    two = np.sort(np.concatenate([np.arange(3, 3000, 7), np.arange(501, 2000, 7)]))
    assert len(stepped_ranges(two, 7)) == 2


@pytest.mark.parametrize(
    ("start", "left"),
    [
        (0, [[0, 11, 1]]),
        (5, [[6, 7, 1]]),
        (0, [[2, 3, 1], [2, 4, 1]]),
        (0, [[0, 4, 0]]),
        (0, [3]),
        (0, 3),
        (11, [[0, 1, 1]]),
    ],
)
def test_what_no_state_says_is_refused(start: int, left: object) -> None:
    with pytest.raises(ValueError, match="the state's left"):
        Rest.of_state(start, left, 10)
