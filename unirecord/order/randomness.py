"""Randomness that belongs to the sample: a key of (seed, epoch, row, draw), and counter-based generators made of it.

Worker processes, whose global generators are copies or unseeded, are seeded by a key of their own.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
from numpy.random.bit_generator import ISeedSequence
from numpy.typing import NDArray

from .splitmix import ALL, FIRST, GAMMA, SECOND, finished

__all__ = ["child_key", "generator", "operator_key", "pass_key", "sample_keys", "seed_globals"]


def _mixed_number(x: int) -> int:
    x = (x + GAMMA) & ALL
    x = ((x ^ (x >> 30)) * FIRST) & ALL
    x = ((x ^ (x >> 27)) * SECOND) & ALL
    return x ^ (x >> 31)


def sample_keys(
    seed: int, epoch: int, rows: NDArray[np.int64], draws: NDArray[np.int64] | None = None
) -> list[int]:
    """64 bits for each sample, the same wherever and whenever it is read in this epoch.

    ``draws`` tell samples of one row apart, where it may come again in the epoch; −1 and None: it comes once.
    """
    base = np.uint64(_mixed_number(_mixed_number(seed) ^ epoch))
    keys = finished(rows.astype(np.uint64) * np.uint64(GAMMA) + base)
    if draws is not None:
        of_draws = finished(keys ^ finished((draws.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA)))
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
