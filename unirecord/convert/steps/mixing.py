"""Numbers that look random, each made of a number and a seed alone, so that every process finds the same ones."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

__all__ = ["mixed"]

# The finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
_STEP: Final = 0x9E3779B97F4A7C15
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def mixed(numbers: npt.NDArray[Any], seed: int) -> npt.NDArray[np.uint64]:
    """64 random bits for each integer of an array."""
    z = np.asarray(numbers).astype(np.uint64) + np.uint64((seed + 1) * _STEP & (1 << 64) - 1)
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    found: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return found
