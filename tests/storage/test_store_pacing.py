"""When requests to a store are made: how many at once, how often, how long after a failure; by a clock of numbers."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unirecord.storage.pacing import STALLED, Durations, InFlightLimit, RequestRate, Retries, retries_of


def test_a_store_that_is_asked_too_much_halves_what_is_in_flight_once_a_round() -> None:
    pace = InFlightLimit(256)
    for _ in range(200):  # all of those in flight are told so
        pace.was_too_much(began=1.0, now=2.0, pause=0.5)
    assert pace.limit == 128
    assert not pace.may_start(2.4)
    assert pace.may_start(2.5)
    pace.was_too_much(began=2.5, now=3.0, pause=0.5)
    assert pace.limit == 64
    for turn in range(20):
        pace.was_too_much(began=4.0 + turn, now=4.0 + turn, pause=0.0)
    assert pace.limit == 1
    pace.in_flight = 1
    assert not pace.may_start(100.0)


def test_what_is_in_flight_comes_back_by_steps() -> None:
    pace = InFlightLimit(256)
    pace.was_too_much(0.0, 0.0, 0.0)
    answers = 0
    while pace.is_cut:
        before = pace.limit
        pace.succeeded()
        answers += 1
        assert before < pace.limit <= before + 256 / 64
    assert 32 * 128 < answers < 32 * 256  # 4 more with each round of answers


@given(st.floats(0.1, 1_000), st.lists(st.floats(0, 1), min_size=2, max_size=200))
def test_a_budget_is_never_exceeded(rate: float, steps: list[float]) -> None:
    budget, now, made = RequestRate(rate), 0.0, []
    for step in steps:
        now += step
        made.append(now + budget.wait(now))
    assert all(b - a >= 1 / rate * (1 - 1e-9) - 1e-9 for a, b in pairwise(made))


@given(st.integers(1, 10_000), st.integers(0, 2**32))
def test_pauses_grow_to_their_bound_and_differ(attempt: int, seed: int) -> None:
    retries = Retries(first=0.1, longest=15.0)
    whole = min(15.0, 0.1 * 2.0 ** min(attempt - 1, 64))
    assert whole / 2 <= retries.pause(attempt, Random(seed)) <= whole


def test_what_a_user_says_of_retries_is_obeyed_or_refused() -> None:
    config = {
        "max_retries": 3,
        "retry_timeout": timedelta(seconds=9),
        "backoff": {"init_backoff": timedelta(0, 2)},
    }
    assert retries_of(config) == Retries(most=3, patience=9.0, contact=9.0, first=2.0)
    assert retries_of(None) == Retries()
    with pytest.raises(ValueError, match="retry_config has no 'max_retry'"):
        retries_of({"max_retry": 3})
    with pytest.raises(ValueError, match="retry_config has no 'initial'"):
        retries_of({"backoff": {"initial": 3}})


def test_what_a_user_says_of_retries_is_said_to_the_client() -> None:
    retries = retries_of({"max_retries": 3, "retry_timeout": 9, "backoff": {"init_backoff": 0.5}})
    assert retries.for_client() == {
        "max_retries": 3,
        "retry_timeout": timedelta(seconds=9),
        "backoff": {
            "init_backoff": timedelta(seconds=0.5),
            "max_backoff": timedelta(seconds=15),
            "base": 2.0,
        },
    }
    assert retries_of(retries.for_client()) == retries


def test_late_is_what_takes_longer_than_its_like() -> None:
    durations = Durations()
    assert durations.long(1_000) == STALLED
    for i in range(1_000):
        durations.note(1_000, 0.1 if i % 2 else 0.2)
        durations.note(1_000_000, 1.0)
    assert durations.long(1_000) == pytest.approx(2 * 0.15 + 4 * 0.05, rel=0.02)
    assert durations.long(1_000_000) == pytest.approx(2.0)
    assert durations.long(1_000, 4) == durations.long(100_000_000) == STALLED


def test_what_is_late_follows_a_store_that_becomes_slower() -> None:
    durations = Durations()
    for _ in range(63):
        durations.note(1_000, 0.03)
    assert durations.long(1_000) == STALLED
    durations.note(1_000, 0.03)
    assert durations.long(1_000) == pytest.approx(0.06)
    durations.note(1_000, 3.0)  # one says little
    assert durations.long(1_000) < 0.4
    for _ in range(640):
        durations.note(1_000, 0.5)
    assert durations.long(1_000) == pytest.approx(1.0, rel=0.01)


@given(st.lists(st.floats(0, 1e4), min_size=64, max_size=200))
def test_no_request_is_late_before_those_of_its_like_have_mostly_come(seconds: list[float]) -> None:
    durations = Durations()
    for each in seconds:
        durations.note(1_000, each)
    assert durations.long(1_000) >= 0.02
    if len(seconds) == 64:
        assert durations.long(1_000) >= 2 * sum(seconds) / 64 * (1 - 1e-9)
