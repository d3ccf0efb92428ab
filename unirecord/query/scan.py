"""Tries a bound condition on the rows that the zones leave open: in C where it can, in slices, in several threads."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar, cast

import numpy as np
import numpy.typing as npt

from ..core import usable_cores, wait_for
from .bind import BoundCondition
from .columns import AND, BYTES, MASK, MASKS, OR, RANGE, SET, Mask, Program, RowsAt, Step, Vector, take_marked
from .zones import ALL, NONE, SOME, ZONE, States

# Runs tasks in a few threads that live no longer than the tasks; results in the order of the tasks.


PARALLEL = 1 << 20  # rows to try from which threads pay
MOST_THREADS = 8  # memory is the limit beyond
State = TypeVar("State")
Task = TypeVar("Task")
Result = TypeVar("Result")


def threads_for(effort: int) -> int:
    """How many threads to try ``effort`` rows with."""
    if effort < PARALLEL:
        return 1
    return min(usable_cores(), MOST_THREADS)


def in_threads(
    work: Callable[[Task, State], Result], state: Callable[[], State], tasks: Sequence[Task], threads: int
) -> list[Result]:
    """``work`` on each task with its thread's own ``state()``; the first error is raised, and ends the others.

    It returns when the tasks are done and waits for no thread beyond: on a busy machine, one may not even have begun.
    """
    if not tasks:
        return []
    results: dict[int, Result] = {}
    errors: list[BaseException] = []
    finished, lock = threading.Event(), threading.Lock()
    places = iter(range(len(tasks)))

    def following() -> int | None:
        with lock:
            return None if errors else next(places, None)

    def run() -> None:
        try:
            place = following()
            own = state() if place is not None else None
            while place is not None:
                result = work(tasks[place], cast("State", own))
                with lock:
                    results[place] = result
                    if len(results) == len(tasks):
                        finished.set()
                place = following()
        except BaseException as error:  # handed to the caller
            errors.append(error)
            finished.set()

    for _ in range(min(threads, len(tasks)) - 1):
        try:
            # a Thread's start() waits until it runs, which takes longer than many a query
            _thread.start_new_thread(run, ())
        except RuntimeError:
            break  # the system gives no more: those there are, this one at least, do it all
    run()
    wait_for(finished)
    if errors:
        raise errors[0]
    return [results[place] for place in range(len(tasks))]


SLICE = 1 << 16  # rows that a thread takes at a time, in C
COMPUTED_SLICE = (
    1 << 18
)  # … where it takes them in Python: in smaller ones threads wait for each other's turn
TAKE_ALONE = 1 << 17  # row numbers that one thread writes before another would be awake
_SWIFT: Final = ("i4", "i8", "f4")
_SWIFTER: Final = 4  # rows of these that take as long as one of others
Rows = npt.NDArray[np.int64]
Runs = npt.NDArray[np.int64]  # [n, 4] of start, stop, whether all of them pass, and where their marks begin
Marks = npt.NDArray[np.uint64]


def runs_of(states: States, rows: int) -> npt.NDArray[np.int64]:
    """The runs of zones in which rows may pass: [n, 3] of start, stop, all of them."""
    breaks = np.flatnonzero(np.diff(states)) + 1
    starts = np.concatenate([[0], breaks]).astype(np.int64) if len(states) else np.empty(0, np.int64)
    stops = np.minimum(np.concatenate([starts[1:], [len(states)]])[: len(starts)] * ZONE, rows)
    kinds = states[starts]
    keep = kinds != NONE
    runs: npt.NDArray[np.int64] = np.stack([starts * ZONE, stops, kinds == ALL], axis=1).astype(np.int64)
    return cast("npt.NDArray[np.int64]", runs[keep])


def cut(runs: npt.NDArray[np.int64], most: int) -> Runs:
    """The runs [n, 3] in pieces of at most ``most`` rows, each with words of its own for the marks of its rows."""
    pieces = -(-(runs[:, 1] - runs[:, 0]) // most)
    of = np.repeat(np.arange(len(runs)), pieces)
    number = np.arange(len(of)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    found = np.empty((len(of), 4), np.int64)
    found[:, 0] = runs[of, 0] + number * most
    found[:, 1] = np.minimum(found[:, 0] + most, runs[of, 1])
    found[:, 2] = runs[of, 2]
    words = np.where(found[:, 2], 0, (found[:, 1] - found[:, 0] + 63) // 64)
    found[:, 3] = np.cumsum(words) - words
    return found


def _words(runs: Runs) -> int:
    """Words that hold the marks of these runs."""
    return int((runs[:, 1] - runs[:, 0] + 63).sum() // 64 + len(runs))


class Scan:
    """A bound condition compiled to steps; what C cannot try becomes bytes that ``tests`` fill per slice."""

    def __init__(self, bound: BoundCondition) -> None:
        self.steps: list[Step] = []
        self.tests: list[tuple[int, BoundCondition]] = []  # step number, and what fills its bytes
        self.vectors: dict[int, tuple[Vector, bool]] = {}  # what C reads; bits, not elements, if True
        self._compile(bound, SET, 0)

    def program(self) -> Program:
        """The steps for one thread."""
        return Program(self.steps)

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
        for bits in bound.bits:
            self.vectors[id(bits)] = (bits, True)
        if len(steps) == 1:
            self.steps.append(replace(steps[0], combine=combine, target=target))
            return
        into = target if combine == SET else target + 1
        self.steps.extend(replace(step, target=into) for step in steps)
        if into != target:
            self.steps.append(Step(MASK, combine, target, mask=into))

    def check(self, runs: npt.NDArray[np.int64], rows: int, threads: int) -> None:
        """Checks what C is going to read of a part with so many rows: block by block, or that the file is unchanged."""
        tried = runs[runs[:, 2] == 0]
        if not len(tried):
            return

        def check(run: tuple[int, ...], vectors: list[tuple[Vector, bool]]) -> None:
            for vector, is_bits in vectors:
                start, stop = run[:2]
                vector.check(start // 8 if is_bits else start, (stop + 7) // 8 if is_bits else stop)

        swept = [(vector, is_bits) for vector, is_bits in self.vectors.values() if vector.swept]
        check((int(tried[0, 0]), int(tried[-1, 1])), swept)
        if others := [(vector, is_bits) for vector, is_bits in self.vectors.values() if not vector.swept]:
            in_threads(check, lambda: others, cut(tried, COMPUTED_SLICE).tolist(), threads)
            if int((tried[:, 1] - tried[:, 0]).sum()) == rows:
                for vector, _ in others:
                    vector.swept = True

    def mark(self, runs: Runs, marks: Marks | None, threads: int) -> Rows:
        """How many rows of each run pass; marks them, unless ``marks`` is None. `check` has been called."""
        counts = np.empty(len(runs), np.int64)
        if self.tests:
            whole = runs[:, 2] != 0
            counts[whole] = (runs[:, 1] - runs[:, 0])[whole]

            def mark(number: int, program: Program) -> None:
                self.mark_one(runs[number : number + 1], marks, counts[number : number + 1], program)

            in_threads(mark, self.program, np.flatnonzero(~whole).tolist(), threads)
        else:
            program, following = self.program(), np.zeros(1, np.int64)
            in_threads(
                lambda _, own: program.mark(runs, following, marks, counts),
                lambda: None,
                range(threads),
                threads,
            )
        return counts

    def mark_one(self, run: Runs, marks: Marks | None, counts: Rows, program: Program) -> None:
        """As `mark`, of one run."""
        start, stop, whole, _ = run[0].tolist()
        for place, bound in self.tests if not whole else ():
            program.point(place, self._tested(bound, start, stop).view(np.uint8), start)
        program.mark(run, np.zeros(1, np.int64), marks, counts)

    @staticmethod
    def _tested(bound: BoundCondition, start: int, stop: int) -> Mask:
        return np.ascontiguousarray(bound.test(RowsAt(start, stop)))


def scan_rows(bound: BoundCondition, rows: int, base: int, threads: int) -> Rows:
    """The rows of a part that pass, ``base`` added, ascending: marked and counted, then written to their places."""
    scan, whole = Scan(bound), runs_of(bound.states, rows)
    scan.check(whole, rows, threads)
    runs = cut(whole, COMPUTED_SLICE if scan.tests else SLICE)
    marks = np.empty(_words(runs), np.uint64)
    places = np.zeros(len(runs) + 1, np.int64)
    np.cumsum(scan.mark(runs, marks, threads), out=places[1:])
    found = np.empty(int(places[-1]), np.int64)
    following = np.zeros(1, np.int64)
    takers = threads if len(found) > TAKE_ALONE else 1
    in_threads(
        lambda _, own: take_marked(runs, following, marks, places, base, found),
        lambda: None,
        range(takers),
        takers,
    )
    return found


def scan_into(
    bound: BoundCondition, rows: int, base: int, threads: int, take: Callable[[Rows], None]
) -> None:
    """Hands the rows of a part that pass, ``base`` added, to ``take``: a piece for each slice, from the threads."""
    scan, whole = Scan(bound), runs_of(bound.states, rows)
    scan.check(whole, rows, threads)
    runs = cut(whole, COMPUTED_SLICE)
    runs[:, 3] = 0  # a thread's marks are those of one run
    most = int((runs[:, 1] - runs[:, 0]).max(initial=0))

    def find(number: int, own: tuple[Program, Marks, Rows]) -> None:
        program, marks, scratch = own
        run, places = runs[number : number + 1], np.zeros(2, np.int64)
        scan.mark_one(run, marks, places[1:], program)
        if places[1]:
            take_marked(run, np.zeros(1, np.int64), marks, places, base, scratch)
            take(scratch[: places[1]])

    def state() -> tuple[Program, Marks, Rows]:
        return scan.program(), np.empty(most // 64 + 1, np.uint64), np.empty(most, np.int64)

    in_threads(find, state, range(len(runs)), threads)


def scan_count(bound: BoundCondition, rows: int, threads: int) -> int:
    """How many rows of a part pass; none is written down."""
    scan, whole = Scan(bound), runs_of(bound.states, rows)
    scan.check(whole, rows, threads)
    return int(scan.mark(cut(whole, COMPUTED_SLICE if scan.tests else SLICE), None, threads).sum())


def effort_of(bound: BoundCondition) -> int:
    """Rows that have to be tried."""
    return int(np.count_nonzero(bound.states == SOME)) * ZONE


def threads_to_scan(bound: BoundCondition) -> int:
    """How many threads to try them with: fewer where a single range makes short work of them (csrc/scan/words.c)."""
    one = not bound.terms and len(bound.steps) == 1 and bound.steps[0].op == RANGE
    data = bound.steps[0].data if one else None
    swift = data is not None and data.dtype.str[1:] in _SWIFT
    return threads_for(effort_of(bound) // (_SWIFTER if swift else 1))
