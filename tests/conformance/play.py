"""Reads as a case says, and compares what comes with what the oracle expects."""

from __future__ import annotations

import copy
import json
import pickle
from collections import Counter
from typing import Any

from conformance.canonical import Sample, digested, frozen, stored
from conformance.case import Case, Resume
from conformance.consumers import Consumer, Options, Reading, opened_transform
from conformance.oracle import batched
from conformance.records import Field
from conformance.views import View
from unirecord import UniRecordDataset

MOVES = {"pickled": lambda ds: pickle.loads(pickle.dumps(ds)), "copied": copy.deepcopy}


def run(case: Case) -> None:
    """Reads as the case says; AssertionError where something else comes than was written."""
    try:
        state, end = _read(case)
        if case.resume and end:
            _go_on(case, case.resume, state, *end)
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}\n{case}") from error


def _open(view: View, options: Options) -> UniRecordDataset:
    return view.open(**opened_transform(options))


def _fields(view: View) -> list[Field]:
    by_name = {each.name: each for each in view.written.fields}
    return [by_name[name] for name in view.names]


def _expected(
    view: View, consumer: Consumer, options: Options, epoch: int, start: int = 0
) -> list[list[Sample]]:
    """The batches of a pass."""
    rows = view.rows if consumer.whole else view.delivered(epoch, start)
    samples = [frozen({name: view.written.records[row][name] for name in view.names}) for row in rows]
    if options.dataset_transform or options.transform:
        written = [{name: view.written.records[row][name] for name in view.names} for row in rows]
        samples = [frozen(digested(sample)) for sample in written]
    elif consumer.stored_times and not options.collate:  # which gets samples, as ds[i] gives them
        samples = [{name: stored(value) for name, value in sample.items()} for sample in samples]
    if not consumer.batched:
        return [[sample] for sample in samples]
    return batched(samples, options.batch_size, options.drop_last)


def _read(case: Case) -> tuple[Any, tuple[int, int] | None]:
    """The state after the last pass, and the (epoch, global position) that it must stand for."""
    view, consumer = case.view, case.consumer
    epoch, begun, end, state = 0, False, None, None
    with _open(view, case.options) as ds:
        reading = consumer.make(ds, case.options, _fields(view))
        for each in case.passes:
            if each.set_epoch is not None:
                reading.set_epoch(ds, each.set_epoch)
                epoch, begun = each.set_epoch, False
            if each.dropped:
                iter(reading.batches())
            epoch = epoch + 1 if begun else epoch
            expected = _expected(view, consumer, case.options, epoch)
            count = None if each.stop is None else max(1, round(each.stop * len(expected)))
            begun = _check_pass(ds, reading, consumer, expected, count, each.disturbed, epoch)
            end = _position(case, expected[:count], epoch) if expected else None
            if each.disturbed == "set_epoch" and begun:
                epoch, begun = epoch + 7, False
        if case.resume and end:
            if consumer.ends_ahead and case.passes[-1].stop is None:
                end = epoch + 1, 0
            state = reading.owner.state_dict()
            if not consumer.own_states:
                assert (state["epoch"], state["position"]) == end, f"the state is {state}, not at {end}"
                state = json.loads(json.dumps(state))
    return state, end


def _position(case: Case, delivered: list[list[Sample]], epoch: int) -> tuple[int, int]:
    return epoch, sum(map(len, delivered)) * case.view.ranks


def _check_pass(
    ds: UniRecordDataset,
    reading: Reading,
    consumer: Consumer,
    expected: list[list[Sample]],
    count: int | None,
    disturbed: str | None,
    epoch: int,
) -> bool:
    """One pass beside what is expected of it; True if it has begun."""
    length = reading.length() if reading.length else None
    assert length in (None, len(expected)), f"the length is {length}, and {len(expected)} are to come"
    batches = reading.batches()
    found: list[list[Sample]] = []
    for batch in batches:
        found.append(batch)
        if disturbed and len(found) == 1:
            _disturb(ds, reading, disturbed, epoch)
        if count is not None and len(found) == count:
            break
    if hasattr(batches, "close"):
        batches.close()
    if not consumer.batched:
        found = [[sample] for batch in found for sample in batch]
    compare(found, expected if count is None else expected[:count], consumer.ordered)
    return bool(expected) or count is None


def _disturb(ds: UniRecordDataset, reading: Reading, how: str, epoch: int) -> None:
    """What the user may do to the dataset while a pass is under way."""
    if how == "set_epoch":
        reading.set_epoch(ds, epoch + 7)
    else:
        for _ in zip(range(3), ds.skip(0), strict=False):
            pass
        if len(ds):
            ds[0]


def compare(found: list[list[Sample]], expected: list[list[Sample]], ordered: bool) -> None:
    """Batch by batch, or as a set of samples."""
    if not ordered:
        have = Counter(repr(sample) for batch in found for sample in batch)
        want = Counter(repr(sample) for batch in expected for sample in batch)
        assert have == want, f"too much: {have - want}, missing: {want - have}"
        return
    assert [*map(len, found)] == [*map(len, expected)], (
        f"batches of {[*map(len, found)]}, not {[*map(len, expected)]}"
    )
    for number, (batch, wanted) in enumerate(zip(found, expected, strict=True)):
        for place, (sample, want) in enumerate(zip(batch, wanted, strict=True)):
            assert list(sample) == list(want), f"columns {list(sample)}, not {list(want)}"
            for name in want:
                assert sample[name] == want[name], (
                    f"batch {number}, sample {place}, column {name}: {sample[name]!r:.300}, not {want[name]!r:.300}"
                )


def _go_on(case: Case, resume: Resume, state: Any, epoch: int, position: int) -> None:
    """The rest of the epoch elsewhere, and all of the next one."""
    view, consumer, options = resume.view, resume.consumer, resume.options
    with _open(view, options) as first:
        ds = first
        if resume.through_dataset:
            ds.load_state_dict(state)
            ds = MOVES[resume.moved](ds) if resume.moved else ds
        reading = consumer.make(ds, options, _fields(view))
        if not resume.through_dataset:
            reading.owner.load_state_dict(state)
        rest = _expected(view, consumer, options, epoch, position)
        skips = consumer.skips_ended if case.passes[-1].stop is None else consumer.skips_last
        if rest or not skips:
            _check_pass(ds, reading, consumer, rest, None, None, epoch)
        if consumer.advances:
            following = _expected(view, consumer, options, epoch + 1)
            _check_pass(ds, reading, consumer, following, None, None, epoch + 1)
