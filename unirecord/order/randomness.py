"""Randomness that belongs to the sample: a key of (seed, epoch, row, draw), and counter-based generators made of it.

Worker processes, whose global generators are copies or unseeded, are seeded by a key of their own.
"""

from __future__ import annotations

import random
import sys
from typing import Any, Final

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

__all__ = [
    "child_key",
    "generator",
    "mixed",
    "operator_key",
    "pass_key",
    "sample_base",
    "sample_keys",
    "scaled",
    "seed_globals",
    "splitmix64",
]


# SplitMix64: numbers that look random, made of a number and a seed alone, so that every process finds the same.


Words = NDArray[np.uint64]

# The constants of Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014.
_GAMMA: Final = 0x9E3779B97F4A7C15
_FIRST: Final = 0xBF58476D1CE4E5B9
_SECOND: Final = 0x94D049BB133111EB
_ALL: Final = (1 << 64) - 1


def splitmix64(state: int | Words, numbers: NDArray[np.int64]) -> Words:
    """What SplitMix64 gives from a state on, or from one each, at these numbers of its sequence, from 0."""
    with np.errstate(over="ignore"):
        return _finished(
            np.asarray(state, np.uint64) + (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(_GAMMA)
        )


def mixed(numbers: NDArray[Any], seed: int) -> Words:
    """64 random bits for each integer of an array: what SplitMix64 gives at ``seed`` from that state on."""
    return _finished(np.asarray(numbers).astype(np.uint64) + np.uint64((seed + 1) * _GAMMA & _ALL))


def scaled(words: Words, count: int) -> NDArray[np.int64]:
    """Numbers below ``count``, at most 2^63, from 64 random bits each: the upper half of the product of the two."""
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    other_low, other_high = np.uint64(count & 0xFFFFFFFF), np.uint64(count >> 32)
    right, left = words & low, words >> shift
    first, second = right * other_high, left * other_low
    middle = (right * other_low >> shift) + (first & low) + (second & low)
    upper = left * other_high + (first >> shift) + (second >> shift) + (middle >> shift)
    return np.asarray(upper, np.int64)


def _finished(z: Words) -> Words:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_SECOND)
    return np.asarray(z ^ (z >> np.uint64(31)), np.uint64)


def _mixed_number(x: int) -> int:
    x = (x + _GAMMA) & _ALL
    x = ((x ^ (x >> 30)) * _FIRST) & _ALL
    x = ((x ^ (x >> 27)) * _SECOND) & _ALL
    return x ^ (x >> 31)


def sample_base(seed: int, epoch: int) -> int:
    """What the keys of all samples of an epoch are made of, beside row and draw."""
    return _mixed_number(_mixed_number(seed) ^ epoch)


def sample_keys(
    seed: int, epoch: int, rows: NDArray[np.int64], draws: NDArray[np.int64] | None = None
) -> list[int]:
    """64 bits for each sample, the same wherever and whenever it is read in this epoch.

    ``draws`` tell samples of one row apart, where it may come again in the epoch; −1 and None: it comes once.
    """
    base = np.uint64(sample_base(seed, epoch))
    keys = _finished(rows.astype(np.uint64) * np.uint64(_GAMMA) + base)
    if draws is not None:
        of_draws = _finished(keys ^ _finished((draws.astype(np.uint64) + np.uint64(1)) * np.uint64(_GAMMA)))
        keys = np.where(draws < 0, keys, of_draws)
    found: list[int] = keys.tolist()
    return found


def child_key(key: int, number: int) -> int:
    """The key of element ``number`` of those that an operator has made of one with ``key``."""
    return _mixed_number(key ^ _mixed_number(number))


def operator_key(key: int, operator: int) -> int:
    """64 bits for what one operator does to one sample."""
    return _mixed_number(key + operator)


def pass_key(seed: int, epoch: int, *places: int) -> int:
    """64 bits for a pass over an epoch, which begins at some place of it, on some rank."""
    key = _mixed_number(_mixed_number(seed) ^ epoch)
    for place in places:
        key = child_key(key, place)
    return key


def seed_globals(key: int) -> None:
    """Seeds the global generators of numpy, of Python and, where it is imported, of torch."""
    np.random.seed([key & 0xFFFFFFFF, key >> 32])
    random.seed(key)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(key)


class _Words(ISeedSequence):
    """Gives a bit generator its key as it is; numpy's own way would ask the system for entropy first: 20 µs."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> NDArray[np.uint64]:
        return self._words


def generator(key: int, operator: int) -> np.random.Generator:
    """The generator of one operator for one sample: ``Philox(key=[key, operator])``."""
    words: Any = _Words(np.array((key, operator), np.uint64))
    return np.random.Generator(np.random.Philox(words))
