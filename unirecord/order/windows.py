"""Samples of one length cut from documents: windows, and documents packed whole; arithmetic on lengths alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core import pack
from .spec import check_integer

__all__ = [
    "PACKED_TOGETHER",
    "Packing",
    "WindowTable",
    "Windows",
    "cu_seqlens",
]


# How many windows documents have, and what comes before each of them: arithmetic on lengths alone.


Numbers = NDArray[np.int64]

_MOST_ENTRIES = 1 << 22  # 32 MiB: of more documents, the table has each second, fourth, …
_MOST = 1 << 62


@dataclass(frozen=True)
class Windows:
    """Windows of ``length`` elements, ``stride`` apart: of each document if ``apart``, else of all as one stream.

    With ``padded``, what is left at the end makes one more.
    """

    length: int
    stride: int
    apart: bool
    padded: bool

    def __post_init__(self) -> None:
        check_integer("length", self.length, 1, 1 << 40)
        check_integer("stride", self.stride, 1, 1 << 40)

    def of(self, elements: Numbers) -> Numbers:
        """How many windows so many elements have."""
        if self.padded:  # windows go on until one reaches the end
            overlap = max(self.length - self.stride, 0)
            return np.where(elements > 0, -(-np.maximum(elements - overlap, 1) // self.stride), 0)
        return np.where(elements >= self.length, (elements - self.length) // self.stride + 1, 0)

    def held(self, elements: Numbers) -> int:
        """How many elements the windows of so many have, without what they are filled up with."""
        counts = self.of(elements)
        last = np.minimum(elements - (counts - 1) * self.stride, self.length)
        return int(np.where(counts > 0, (counts - 1) * self.length + last, 0).sum())


@dataclass(frozen=True)
class WindowTable:
    """``before[k]``: elements (of windows apart: windows) before document k · every; the last entry: all of them.

    ``elements``: of all documents; ``held``: of all windows, without what they are filled up with.
    """

    before: Numbers
    every: int
    samples: int
    elements: int
    held: int

    @classmethod
    def of(cls, windows: Windows, lengths: Iterable[Numbers], documents: int) -> WindowTable:
        """From the lengths of the documents, a piece at a time."""
        every = 1
        while documents // every >= _MOST_ENTRIES:
            every *= 2
        before = np.zeros(-(-documents // every) + 1, np.int64)
        elements, counted, at, held = 0, 0, 0, 0
        for piece in lengths:
            elements += int(piece.sum())
            held += windows.held(piece) if windows.apart else 0
            ends = counted + np.cumsum(windows.of(piece) if windows.apart else piece)
            if len(piece) and (elements > _MOST or int(ends[-1]) > _MOST):
                raise ValueError("the documents have more than 2^62 elements")
            first = -(at + 1) % every  # the document before the next multiple of `every`
            entries = ends[first::every]
            place = (at + first + 1) // every
            before[place : place + len(entries)] = entries
            at, counted = at + len(piece), int(ends[-1]) if len(piece) else counted
        before[-1] = counted
        samples = counted if windows.apart else int(windows.of(np.array([elements], np.int64))[0])
        if not windows.apart:
            held = windows.held(np.array([elements], np.int64))
        return cls(before, every, samples, elements, held)


# Documents packed whole into samples of one length, best fit over a stretch of them: arithmetic on lengths alone.


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

    @property
    def held(self) -> int:
        """Elements of all samples, without what they are filled up with."""
        return int(self.pieces[:, 2].sum())

    @classmethod
    def of(cls, lengths: Iterable[Numbers], length: int) -> Packing:
        """Packs documents of these lengths, which come in pieces of any size (docs/spec/order.md has the rule)."""
        pieces, sizes, elements = [np.empty((0, 3), np.int64)], [np.empty(0, np.int64)], 0
        for first, together in _in_stretches(lengths):
            found, counts = _packed(first, together, length)
            pieces.append(found)
            sizes.append(counts)
            elements += int(together.sum())
        starts = np.concatenate([[0], np.cumsum(np.concatenate(sizes))]).astype(np.int64)
        return cls(np.ascontiguousarray(np.concatenate(pieces)), starts, elements)

    @classmethod
    def of_windows(cls, windows: Windows, lengths: Iterable[Numbers]) -> Packing:
        """The windows of documents of these lengths, as the pieces that they are made of."""
        sizes = np.concatenate([np.empty(0, np.int64), *lengths])
        if windows.apart:
            counts = windows.of(sizes)
            documents = np.repeat(np.arange(len(sizes)), counts)
            within = np.arange(len(documents)) - np.repeat(np.cumsum(counts) - counts, counts)
            first = within * windows.stride
            elements = np.minimum(sizes[documents] - first, windows.length)
            pieces = np.stack([documents, first, elements], axis=1)
            return cls(np.ascontiguousarray(pieces), np.arange(len(pieces) + 1), int(sizes.sum()))
        ends = np.cumsum(sizes)
        total = int(ends[-1]) if len(ends) else 0
        begin = np.arange(int(windows.of(np.array([total], np.int64))[0])) * windows.stride
        end = np.minimum(begin + windows.length, total)
        of_first, of_last = np.searchsorted(ends, begin, "right"), np.searchsorted(ends, end - 1, "right")
        counts = of_last - of_first + 1
        samples = np.repeat(np.arange(len(begin)), counts)
        documents = np.arange(len(samples)) - np.repeat(np.cumsum(counts) - counts - of_first, counts)
        starts = ends[documents] - sizes[documents]
        first = np.maximum(begin[samples] - starts, 0)
        elements = np.minimum(end[samples] - starts, sizes[documents]) - first
        some = elements > 0  # documents without elements lie between others
        pieces = np.stack([documents, first, elements], axis=1)[some]
        before = np.concatenate([[0], np.cumsum(np.bincount(samples[some], minlength=len(begin)))])
        return cls(np.ascontiguousarray(pieces), before.astype(np.int64), total)

    @classmethod
    def of_runs(cls, counts: Numbers, lengths: Numbers) -> Packing:
        """Rows that are packed samples already: of each how many runs it has, and the lengths of all of them."""
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        first = ends[:-1] - np.repeat(ends[bounds[:-1]], counts)
        pieces = np.stack([np.repeat(np.arange(len(counts)), counts), first, lengths], axis=1)
        starts = np.concatenate([bounds[:1], bounds[1:][counts > 0]])  # without documents there is no sample
        return cls(np.ascontiguousarray(pieces), starts, int(ends[-1]))

    @classmethod
    def joined(cls, of: Sequence[tuple[Packing, Callable[[Numbers], Numbers]]]) -> Packing:
        """The samples of several, one after the other; each with what gives the numbers of its documents in all."""
        pieces, starts, before = [np.empty((0, 3), np.int64)], [np.zeros(1, np.int64)], 0
        for packing, numbers in of:
            found = packing.pieces.copy()
            found[:, 0] = numbers(found[:, 0])
            pieces.append(found)
            starts.append(packing.starts[1:] + before)
            before += len(found)
        return cls(
            np.ascontiguousarray(np.concatenate(pieces)),
            np.concatenate(starts),
            sum(p.elements for p, _ in of),
        )


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


def cu_seqlens(runs: Any) -> NDArray[np.int32]:
    """Where each run of elements of one document begins in a batch, laid out flat, and its end: int32[runs + 1].

    What FlashAttention's functions for sequences of various lengths take, so that no token sees another document. With
    the column "document", what samples are filled up with counts as a run of its own; with "seq_lens" it counts as
    nothing: it is left out of what is laid out flat.

    Args:
        runs: the column "document" of a batch, [n, length], or of a sample, [length]; or "seq_lens" of a batch.
    """
    if hasattr(runs, "element_offsets"):
        return np.append(0, np.cumsum(runs.values, dtype=np.int64)).astype(np.int32)
    given = np.atleast_2d(np.asarray(runs))
    begins = np.ones(given.shape, np.bool_)
    begins[:, 1:] = given[:, 1:] != given[:, :-1]
    return np.append(np.flatnonzero(begins), given.size).astype(np.int32)
