"""SplitMix64: numbers that look random, made of a number and a seed alone, so that every process finds the same."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["mixed", "scaled", "splitmix64"]

Words = NDArray[np.uint64]

# The constants of Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
GAMMA: Final = 0x9E3779B97F4A7C15
FIRST: Final = 0xBF58476D1CE4E5B9
SECOND: Final = 0x94D049BB133111EB
ALL: Final = (1 << 64) - 1


def splitmix64(state: int | Words, numbers: NDArray[np.int64]) -> Words:
    """What SplitMix64 gives from a state on, or from one each, at these numbers of its sequence, from 0."""
    with np.errstate(over="ignore"):
        return finished(
            np.asarray(state, np.uint64) + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA)
        )


def mixed(numbers: NDArray[Any], seed: int) -> Words:
    """64 random bits for each integer of an array: what SplitMix64 gives at ``seed`` from that state on."""
    return finished(np.asarray(numbers).astype(np.uint64) + np.uint64((seed + 1) * GAMMA & ALL))


def scaled(words: Words, count: int) -> NDArray[np.int64]:
    """Numbers below ``count``, at most 2^63, from 64 random bits each: the upper half of the product of the two."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    other_low, other_high = np.uint64(count & 0xFFFFFFFF), np.uint64(count >> 32)
    right, left = words & low, words >> shift
    first, second = right * other_high, left * other_low
    middle = (right * other_low >> shift) + (first & low) + (second & low)
    upper = left * other_high + (first >> shift) + (second >> shift) + (middle >> shift)
    return np.asarray(upper, np.int64)


def finished(z: Words) -> Words:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)
