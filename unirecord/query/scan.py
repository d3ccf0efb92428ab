"""Tries a bound condition on the rows that the zones leave open: in C where it can, in slices, in several threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import numpy.typing as npt

from ..columns.flat import Vector
from .bound_condition import BoundCondition
from .kernels import AND, BITS, BYTES, MASK, MASKS, OR, SET, Program, Step
from .parallel import in_threads
from .part_fields import Mask, RowsAt
from .zone_states import ALL, NONE, SOME, ZONE, States

SLICE = 1 << 18  # rows that one call tries: 2 MiB of row numbers
PROBE = 1 << 15  # rows that tell whether many pass
COMPUTED_SLICE = 1 << 18  # … where numpy works out numbers first; in smaller ones threads wait for each other
DENSE = 8  # more than one row in so many found: count first
Rows = npt.NDArray[np.int64]


@dataclass
class Slice:
    """Neighbouring runs of rows: triples start, stop, and whether all of them pass."""

    runs: npt.NDArray[np.int64]

    @property
    def room(self) -> int:
        """Rows in it."""
        return int((self.runs[1::3] - self.runs[::3]).sum())


def runs_of(states: States, rows: int) -> npt.NDArray[np.int64]:
    """The runs of zones in which rows may pass: [n, 3] of start, stop, all of them."""
    breaks = np.flatnonzero(np.diff(states)) + 1
    starts = np.concatenate([[0], breaks]).astype(np.int64) if len(states) else np.empty(0, np.int64)
    stops = np.minimum(np.concatenate([starts[1:], [len(states)]])[: len(starts)] * ZONE, rows)
    kinds = states[starts]
    keep = kinds != NONE
    runs: npt.NDArray[np.int64] = np.stack([starts * ZONE, stops, kinds == ALL], axis=1).astype(np.int64)
    return cast("npt.NDArray[np.int64]", runs[keep])


def slices_of(runs: npt.NDArray[np.int64], most: int, first: int | None = None) -> Iterator[Slice]:
    """The runs cut and joined to slices of at most ``most`` rows, the first one of at most ``first``."""
    pending: list[tuple[int, int, int]] = []
    room = first or most
    for start, stop, whole in runs.tolist():
        while start < stop:
            end = min(stop, start + room)
            pending.append((start, end, whole))
            room -= end - start
            start = end
            if room == 0:
                yield Slice(np.array(pending, np.int64).ravel())
                pending, room = [], most
    if pending:
        yield Slice(np.array(pending, np.int64).ravel())


class Scan:
    """A bound condition compiled to steps; what C cannot try becomes bytes that ``tests`` fill per slice."""

    def __init__(self, bound: BoundCondition) -> None:
        self.steps: list[Step] = []
        self.tests: list[tuple[int, BoundCondition]] = []  # step number, and what fills its bytes
        self.vectors: dict[int, tuple[Vector, bool]] = {}  # what C reads; bits, not elements, if True
        self.kept: dict[tuple[int, int], Mask] | None = None  # outcomes of tests, by step and first row
        self._compile(bound, SET, 0)

    def program(self) -> Program:
        """The steps for one thread."""
        return Program(self.steps)

    @property
    def most(self) -> int:
        """Rows of a slice."""
        return COMPUTED_SLICE if self.tests else SLICE

    def _compile(self, bound: BoundCondition, combine: int, target: int) -> None:
        if target + 1 < MASKS and bound.terms:
            self._compound(bound, combine, target)
        elif target + 1 < MASKS and bound.steps:
            self._leaf(bound, combine, target)
        else:
            self.tests.append((len(self.steps), bound))
            self.steps.append(Step(BYTES, combine, target, data=np.empty(0, np.uint8)))

    @staticmethod
    def _joins(bound: BoundCondition, combine: int) -> bool:
        """Whether the terms go straight into the target."""
        return combine == SET or combine == (AND if bound.how == "and" else OR)

    def _compound(self, bound: BoundCondition, combine: int, target: int) -> None:
        own = AND if bound.how == "and" else OR
        into = target if self._joins(bound, combine) else target + 1
        for place, term in enumerate(bound.terms):
            first = place == 0 and (combine == SET or into != target)
            self._compile(term, SET if first else own, into)
        if into != target:
            self.steps.append(Step(MASK, combine, target, mask=into))

    def _leaf(self, bound: BoundCondition, combine: int, target: int) -> None:
        for vector in bound.vectors:
            self.vectors[id(vector)] = (vector, False)
        steps = list(bound.steps)
        if bound.bits is not None:
            self.vectors[id(bound.bits)] = (bound.bits, True)
            if bound.vectors:
                steps.append(Step(BITS, AND, 0, data=bound.bits.array))
        if len(steps) == 1:
            self.steps.append(replace(steps[0], combine=combine, target=target))
            return
        into = target if combine == SET else target + 1
        self.steps.extend(replace(step, target=into) for step in steps)
        if into != target:
            self.steps.append(Step(MASK, combine, target, mask=into))

    def try_slice(self, part: Slice, program: Program, base: int, rows: npt.NDArray[np.int64] | None) -> int:
        """Fills ``rows`` with the rows of the slice that pass; returns how many."""
        tried = [(start, stop) for start, stop, whole in part.runs.reshape(-1, 3).tolist() if not whole]
        for vector, is_bits in self.vectors.values():
            for start, stop in tried:
                vector.check(start // 8 if is_bits else start, (stop + 7) // 8 if is_bits else stop)
        if not self.tests:
            return program.run(part.runs, base, rows)
        found = 0
        for run in part.runs.reshape(-1, 3):
            for place, bound in self.tests if not run[2] else ():
                mask = self._tested(place, bound, int(run[0]), int(run[1]))
                program.point(place, np.ascontiguousarray(mask).view(np.uint8), int(run[0]))
            found += program.run(run, base, None if rows is None else rows[found:])
        return found

    def _tested(self, place: int, bound: BoundCondition, start: int, stop: int) -> Mask:
        """What a test says of rows; where it is kept, it is handed out once more."""
        mask = None if self.kept is None else self.kept.pop((place, start), None)
        if mask is None:
            mask = bound.test(RowsAt(start, stop))
            if self.kept is not None:
                self.kept[place, start] = mask
        return mask


def scan_rows(bound: BoundCondition, rows: int, base: int, threads: int) -> Rows:
    """The rows of a part that pass, ``base`` added, ascending."""
    scan = Scan(bound)
    slices = list(slices_of(runs_of(bound.states, rows), scan.most, min(PROBE, scan.most)))
    if not slices:
        return np.empty(0, np.int64)

    def find(part: Slice, own: tuple[Program, Rows]) -> Rows:
        program, scratch = own
        return scratch[: scan.try_slice(part, program, base, scratch)].copy()

    def state() -> tuple[Program, Rows]:
        return scan.program(), np.empty(scan.most, np.int64)

    first = find(slices[0], (scan.program(), np.empty(slices[0].room, np.int64)))
    if len(scan.tests) <= 1 and len(slices) > 1 and len(first) * DENSE > slices[0].room:
        return _dense_rows(scan, slices, base, threads)
    return np.concatenate([first, *in_threads(find, state, slices[1:], threads)])


def _dense_rows(scan: Scan, slices: list[Slice], base: int, threads: int) -> Rows:
    """The rows in two passes: counted, then each written to its place, so that many rows are not copied.

    What a test said is kept from the first for the second: a byte a row, where an eighth of the rows take as much.
    """
    scan.kept = {}

    def count(part: Slice, program: Program) -> int:
        return scan.try_slice(part, program, base, None)

    counts = in_threads(count, scan.program, slices, threads)
    places = np.concatenate([[0], np.cumsum(counts)]).tolist()
    found = np.empty(places[-1], np.int64)

    def fill(numbered: tuple[int, Slice], program: Program) -> int:
        number, part = numbered
        start, stop = places[number], places[number + 1]
        return scan.try_slice(part, program, base, found[start:stop])

    in_threads(fill, scan.program, list(enumerate(slices)), threads)
    return found


def scan_into(
    bound: BoundCondition, rows: int, base: int, threads: int, take: Callable[[Rows], None]
) -> None:
    """Hands the rows of a part that pass, ``base`` added, to ``take``: a piece for each slice, from the threads."""
    scan = Scan(bound)

    def find(part: Slice, own: tuple[Program, Rows]) -> None:
        program, scratch = own
        found = scan.try_slice(part, program, base, scratch)
        if found:
            take(scratch[:found])

    def state() -> tuple[Program, Rows]:
        return scan.program(), np.empty(scan.most, np.int64)

    in_threads(find, state, list(slices_of(runs_of(bound.states, rows), scan.most)), threads)


def scan_count(bound: BoundCondition, rows: int, threads: int) -> int:
    """How many rows of a part pass; none is written down."""
    scan = Scan(bound)
    runs = runs_of(bound.states, rows)
    sure = runs[runs[:, 2] == 1]
    total = int((sure[:, 1] - sure[:, 0]).sum())

    def count(part: Slice, program: Program) -> int:
        return scan.try_slice(part, program, 0, None)

    slices = list(slices_of(runs[runs[:, 2] == 0], scan.most))
    return total + sum(in_threads(count, scan.program, slices, threads))


def effort_of(bound: BoundCondition) -> int:
    """Rows that have to be tried."""
    return int(np.count_nonzero(bound.states == SOME)) * ZONE
