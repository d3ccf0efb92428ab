"""Documents packed whole into samples of one length, best fit over a stretch of them: arithmetic on lengths alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core import pack

__all__ = ["PACKED_TOGETHER", "Packing", "cu_seqlens"]

Numbers = NDArray[np.int64]

PACKED_TOGETHER = 8192  # documents that are looked at together


@dataclass(frozen=True)
class Packing:
    """``pieces`` [n, 3]: document, first element, elements; those of sample k are pieces starts[k] … starts[k + 1]."""

    pieces: Numbers
    starts: Numbers
    elements: int

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return len(self.starts) - 1

    @classmethod
    def of(cls, lengths: Iterable[Numbers], length: int) -> Packing:
        """Packs documents of these lengths, which come in pieces of any size (docs/order.md has the rule)."""
        pieces, sizes, elements = [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)], 0
        for first, together in _in_stretches(lengths):
            found, counts = _packed(first, together, length)
            pieces.append(found)
            sizes.append(counts)
            elements += int(together.sum())
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        return cls(np.ascontiguousarray(np.concatenate(pieces)), starts, elements)


def _in_stretches(lengths: Iterable[Numbers]) -> Iterator[tuple[int, Numbers]]:
    """Number of the first, and lengths, of PACKED_TOGETHER documents at a time."""
    first, left = 0, np.empty(0, np.int64)
    for piece in lengths:
        left = np.concatenate([left, piece])
        while len(left) >= PACKED_TOGETHER:
            yield first, left[:PACKED_TOGETHER]
            first, left = first + PACKED_TOGETHER, left[PACKED_TOGETHER:]
    if len(left):
        yield first, left


def _packed(first: int, lengths: Numbers, length: int) -> tuple[Numbers, Numbers]:
    """The pieces of these documents, sample after sample, and how many each sample has."""
    whole, rest = np.divmod(lengths, length)
    numbers = np.arange(first, first + len(lengths))
    of_whole = np.repeat(numbers, whole)
    within = np.arange(len(of_whole)) - np.repeat(np.cumsum(whole) - whole, whole)
    full = np.stack([of_whole, within * length, np.full(len(of_whole), length)], axis=1)
    some = np.flatnonzero(rest)
    falling = some[np.argsort(-rest[some], kind="stable")]
    bins, used = pack(rest[falling], length)
    in_bins = falling[np.argsort(bins, kind="stable")]
    rests = np.stack([numbers[in_bins], whole[in_bins] * length, rest[in_bins]], axis=1)
    counts = np.concatenate([np.ones(len(full), np.int64), np.bincount(bins, minlength=used)])
    return np.concatenate([full, rests]).astype(np.int64), counts.astype(np.int64)


def cu_seqlens(document: NDArray[np.int64]) -> NDArray[np.int32]:
    """Where each run of elements of one document begins in a batch, laid out flat, and its end: int32[runs + 1].

    What FlashAttention's functions for sequences of various lengths take, so that no token sees another document. What
    samples are filled up with counts as a run of its own.

    Args:
        document: the column of that name of a batch, [n, length], or of a sample, [length].
    """
    given = np.atleast_2d(np.asarray(document))
    begins = np.ones(given.shape, np.bool_)
    begins[:, 1:] = given[:, 1:] != given[:, :-1]
    return np.append(np.flatnonzero(begins), given.size).astype(np.int32)
