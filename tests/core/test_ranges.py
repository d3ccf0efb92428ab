"""Ranges that are asked for as arrays: which come together, and that each gets its own bytes of what came."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unirecord._core import ffi
from unirecord.core import PUT, Answer, FetchError, Put, Range, Ranges
from unirecord.core.fetch import Fetching
from unirecord.snapshot import prefetch
from unirecord.snapshot.prefetch import RUN_BYTES, FileRun, PrefetchedRuns, join

GAP = 32 << 10


@st.composite
def sorted_ranges(draw: st.DrawFn) -> list[Range]:
    """Of several files, neighbours and others, each behind the one before."""
    found: list[Range] = []
    for part in range(draw(st.integers(1, 4))):
        for in_index in (False, True)[: draw(st.integers(1, 2))]:
            at = draw(st.integers(0, 10))
            for _ in range(draw(st.integers(1, 8))):
                size = draw(st.sampled_from([1, 7, 1_000, 70_000, 3 << 20, RUN_BYTES, RUN_BYTES + 1]))
                found.append(Range(part, in_index, at, size))
                at += size + draw(st.sampled_from([0, 0, 1, GAP, GAP + 1, 3 * GAP]))
    return found


def joined_one_by_one(ranges: Sequence[Range]) -> list[FileRun]:
    runs: list[FileRun] = []
    for wanted in ranges:
        stop, run = wanted.offset + wanted.size, runs[-1] if runs else None
        if (
            run is None
            or (run.part, run.in_index) != (wanted.part, wanted.in_index)
            or wanted.offset - run.stop > GAP
            or stop - run.start > RUN_BYTES
        ):
            runs.append(run := FileRun(wanted.part, wanted.in_index, wanted.offset, stop))
        run.stop = stop
    return runs


@given(sorted_ranges())
@settings(max_examples=300, deadline=None)
def test_ranges_are_joined_as_one_by_one(wanted: list[Range]) -> None:
    ranges = Ranges.of(wanted)
    assert list(ranges) == wanted == [ranges[i] for i in range(len(wanted))]
    runs, first, places = join(ranges)
    assert runs == joined_one_by_one(wanted)
    assert first[-1] == len(wanted)
    for number, (start, stop) in enumerate(zip(first.tolist(), first[1:].tolist(), strict=False)):
        for i in range(start, stop):
            assert runs[number].start + places[i] == wanted[i].offset
            assert wanted[i].offset + wanted[i].size <= runs[number].stop


def test_ranges_within_others_lie_in_their_run() -> None:
    wanted = [
        Range(0, False, 0, 9_000),
        Range(0, False, 10, 5),
        Range(0, False, 10, 5),
        Range(0, False, 8_000, 2_000),
    ]
    runs, first, places = join(Ranges.of(wanted))
    assert (runs, first.tolist(), places.tolist()) == (
        [FileRun(0, False, 0, 10_000)],
        [0, 4],
        [0, 10, 10, 8_000],
    )


def delivered(fetch: Callable[[Sequence[Range], Put], None], sizes: Sequence[int]) -> bytes:
    to = ffi.new("uint8_t[]", b"." * sum(sizes))
    ranges = ffi.new("ur_range[]", len(sizes))
    for i, size in enumerate(sizes):
        ranges[i].offset, ranges[i].bytes, ranges[i].to = 100 * i, size, to + sum(sizes[:i])
    try:
        Fetching(fetch).deliver(ranges, len(sizes))
    finally:
        delivered.found = bytes(ffi.buffer(to, sum(sizes)))  # type: ignore[attr-defined]
    return bytes(ffi.buffer(to, sum(sizes)))


def puts(*each: tuple[int, int, int]) -> Any:
    return np.array(list(each), PUT)


def test_many_are_put_by_one_call_and_what_does_not_fit_is_refused() -> None:
    answers = [Answer(b"abcdef"), Answer(memoryview(b"ghi"))]
    assert delivered(lambda _, put: put.many(answers, puts((1, 1, 0), (0, 0, 3))), [2, 3]) == b"deghi"
    for wrong in ((1, 1, 1), (2, 0, 0), (0, 2, 0)):
        with pytest.raises(FetchError, match="other bytes came"):
            delivered(lambda _, put, wrong=wrong: put.many(answers, puts((0, 0, 0), wrong)), [2, 3])
        assert delivered.found == b"....."  # type: ignore[attr-defined]
    with pytest.raises(FetchError, match="none of 3 bytes came"):
        delivered(lambda _, put: put.many(answers, puts((0, 0, 0))), [2, 3])
    with pytest.raises(FetchError, match="1 byte came for 3"):
        delivered(lambda _, put: put(1, b"x"), [2, 3])
    with pytest.raises(FetchError, match="none of 2 bytes came"):
        delivered(lambda _, put: put.many([], puts()), [2, 3])


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_what_was_asked_for_ahead_gives_each_range_its_own_bytes(data: st.DataObject) -> None:
    """Runs of several parts of which some fail, are short, or are dropped: what is put is right, the rest is named."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 30)))
    files = [rng.integers(0, 256, 4_000, np.uint8).tobytes() for _ in range(3)]

    def begin(runs: Sequence[FileRun]) -> list[Callable[[], Any]]:
        def answer(run: FileRun, how: float) -> Any:
            whole = files[run.part][run.start : run.stop]
            return whole if how < 0.8 else whole[:-1] if how < 0.9 else OSError("no")

        return [
            partial(answer, run, how) for run, how in zip(runs, rng.random(len(runs)).tolist(), strict=True)
        ]

    ahead = PrefetchedRuns(begin)
    for part in range(3):
        edges = np.sort(rng.choice(4_000, 2 * int(rng.integers(1, 6)), replace=False)).tolist()
        runs = [FileRun(part, False, a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)]
        ahead.next_turn()
        ahead.add(runs, [int((run.stop - run.start) * rng.choice([0.5, 1, 8])) for run in runs])
    for _ in range(4):
        wanted = sorted(
            (int(rng.integers(0, 3)), int(rng.integers(0, 3_900)), int(rng.integers(1, 100)))
            for _ in range(20)
        )
        ranges = Ranges.of([Range(part, False, offset, size) for part, offset, size in wanted])
        taken = ahead.take(ranges)
        if taken is None:
            continue

        found: list[int] = []

        def fetch(
            _: Sequence[Range], put: Put, taken: prefetch.Taken = taken, found: list[int] = found
        ) -> None:
            found.extend(taken.put(put).tolist())
            for number in (*found, *taken.others.tolist()):
                put(number, b"?" * wanted[number][2])  # noqa: B023

        brought = delivered(fetch, [size for _, _, size in wanted])
        at = 0
        for number, (part, offset, size) in enumerate(wanted):
            is_put = number not in found and number not in taken.others
            expected = files[part][offset : offset + size] if is_put else b"?" * size
            assert brought[at : at + size] == expected
            at += size
        assert ahead.bytes >= 0
    ahead.clear()
    assert ahead.bytes == 0
