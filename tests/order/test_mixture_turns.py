"""The turns of mixtures: draw by draw as the formula has them, within one of the shares at every prefix, frozen."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from order_reference import turns_of_cycle

from unirecord.order.mixture import Turns, whole_weights

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "mixture_vectors.json").read_text())
WEIGHTS = st.lists(st.integers(1, 30), min_size=1, max_size=6)
U64 = st.integers(0, 2**64 - 1)


@given(WEIGHTS, U64)
@settings(max_examples=15, deadline=None)
def test_turns_are_those_of_the_formula(weights: list[int], seed: int) -> None:
    turns = Turns(weights, seed)
    cycles = -(-4096 // sum(weights))
    source, _ = turns.at(np.arange(3 * sum(weights)) + (cycles - 1) * sum(weights))
    again = [turns_of_cycle(weights, seed, cycle % cycles) for cycle in (cycles - 1, cycles, cycles + 1)]
    assert source.tolist() == [turn for turns_of_cycle in again for turn in turns_of_cycle]


@given(WEIGHTS, U64, st.integers(0, 2**40))
@settings(max_examples=15, deadline=None)
def test_every_prefix_is_within_one_of_the_shares(weights: list[int], seed: int, start: int) -> None:
    turns, total = Turns(weights, seed), sum(weights)
    source, draw = turns.at(np.arange(start, start + 3000))
    for number, weight in enumerate(weights):
        counts = turns.before(number, start) + np.cumsum(source == number)
        prefix = np.arange(start + 1, start + 3001)
        assert np.all(np.abs(counts * total - prefix * weight) < total)
        own = np.flatnonzero(source == number)
        assert np.array_equal(draw[own], turns.before(number, start) + np.arange(len(own)))
        assert np.array_equal(turns.turns_of(number, draw[own]), own + start)


def test_turns_at_10_to_the_15_are_the_shares_by_arithmetic() -> None:
    weights = whole_weights([0.61803, 0.2, 0.1, 0.08197])
    turns = Turns(weights, 1)
    for at in (10**12 + 1, 10**15 + 7):
        counts = [turns.before(s, at) for s in range(4)]
        assert sum(counts) == at
        assert all(
            abs(c * sum(weights) - at * w) < sum(weights) for c, w in zip(counts, weights, strict=True)
        )


def test_ranks_that_take_every_second_turn_meet_both_sources_alike() -> None:
    source, _ = Turns([1, 1], 3).at(np.arange(4096))
    ones = int(source[::2].sum())
    assert abs(ones - 1024) < 4 * np.sqrt(2048) / 2  # four standard deviations of a fair coin


@pytest.mark.parametrize("vector", VECTORS["turns"], ids=lambda v: f"{v['weights']}-{v['seed']}")
def test_frozen_turns_are_reproduced(vector: dict[str, Any]) -> None:
    turns = Turns(vector["weights"], vector["seed"])
    source, draw = turns.at(np.array(vector["turns"]))
    assert (source.tolist(), draw.tolist()) == (vector["source"], vector["draw"])


@pytest.mark.parametrize("vector", VECTORS["weights"], ids=lambda v: str(v["given"]))
def test_weights_become_integers_of_their_proportions(vector: dict[str, Any]) -> None:
    assert list(whole_weights(vector["given"])) == vector["whole"]


def test_rounded_weights_are_near_the_given_ones() -> None:
    asked = [Fraction(1, 3**k) for k in range(11)]
    whole = whole_weights(asked)
    assert sum(whole) == 2**16
    assert max(
        abs(Fraction(w, 2**16) - a / sum(asked)) for w, a in zip(whole, asked, strict=True)
    ) < Fraction(2, 2**16)


@pytest.mark.parametrize(
    "wrong", [[0, 0], [-1, 2], [float("nan"), 1], [float("inf"), 1], [1e-9, 1], ["1", 2]]
)
def test_weights_that_are_none_are_refused(wrong: list[Any]) -> None:
    with pytest.raises((ValueError, TypeError), match="weight"):
        whole_weights(wrong)
