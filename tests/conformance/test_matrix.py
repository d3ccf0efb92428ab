"""The matrix of docs/frameworks.md: each framework keeps each promise, or says why not, and treats each kind of column
by its rule."""

from __future__ import annotations

import gc
import itertools
import json
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hang import HANG_SECONDS
from process_counts import ALLOCATOR, POOLS, assert_nothing_more, held

import conformance.frameworks  # noqa: F401  (registers consumers)
from conformance import matrix
from conformance.canonical import freeze
from conformance.consumers import CONSUMERS, Consumer, Options, Reading
from conformance.matrix import KINDS, REFUSED, ROWS, Row
from conformance.records import Field
from unirecord import UniRecordDataset, Writer, append

CONSUMER = {consumer.name: consumer for consumer in CONSUMERS}
N = [Field("n", "number", "int64")]
ROW_COUNT, SIZE = 61, 7
HERE = [row for row in ROWS if row.consumer in CONSUMER]
by_row = pytest.mark.parametrize("row", HERE, ids=lambda row: row.consumer)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("matrix") / "numbers"
    for first, last in ((0, 20), (20, 41), (41, ROW_COUNT)):
        with append(found, {"n": "int64"}) if first else Writer(found, {"n": "int64"}) as writer:
            writer.write_batch({"n": list(range(first, last))})
    return found


@pytest.fixture(scope="module", autouse=True)
def _imported_for_good() -> Iterator[None]:
    """What frameworks have imported is not looked through at each collection."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def opened(path: Path, rank: int = 0, ranks: int = 1, **options: Any) -> UniRecordDataset:
    return UniRecordDataset(path, rank, ranks, shuffle=True, seed=3, remainder="uneven", **options)


def made(row: Row, ds: UniRecordDataset, size: int = SIZE, fields: list[Field] = N) -> Reading:
    return CONSUMER[row.consumer].make(ds, Options(size), fields)


def numbers(batches: Iterator[list[dict[str, Any]]]) -> list[list[int]]:
    return [[struct.unpack("<q", sample["n"][1])[0] for sample in batch] for batch in batches]


def skip_excused(row: Row, check: str) -> Consumer:
    if check in row.excused:
        pytest.skip(row.excused[check])
    return CONSUMER[row.consumer]


@by_row
def test_epochs_are_those_of_row_ids_differ_and_repeat(row: Row, path: Path) -> None:
    ds, found = opened(path), []
    reading = made(row, ds)
    for epoch in (0, 1, 0):
        reading.set_epoch(ds, epoch)
        found.append(list(itertools.chain(*numbers(reading.batches()))))
        assert found[-1] == opened_at(path, epoch)
    assert found[0] == found[2] != found[1]


@cache
def opened_at(path: Path, epoch: int) -> list[int]:
    ds = opened(path)
    ds.set_epoch(epoch)
    return [int(row) for row in ds.order.row_ids()]


@by_row
def test_a_pass_is_resumed_after_every_batch(row: Row, path: Path) -> None:
    consumer = skip_excused(row, "resume")
    whole = opened_at(path, 1)
    for delivered in range(1, -(-ROW_COUNT // SIZE) + 1):
        ds = opened(path)
        reading = made(row, ds)
        reading.set_epoch(ds, 1)
        running = reading.batches()
        first = numbers(itertools.islice(running, delivered))
        state = reading.owner.state_dict()
        if not consumer.own_states:
            state = json.loads(json.dumps(state))
        again = made(row, opened(path))
        again.owner.load_state_dict(state)
        assert list(itertools.chain(*first, *numbers(again.batches()))) == whole
        if hasattr(running, "close"):
            running.close()


def all_of(batches: Iterator[list[dict[str, Any]]]) -> list[int]:
    return list(itertools.chain(*numbers(batches)))


def passes_from(reading: Reading, ds: UniRecordDataset, consumer: Consumer, epochs: range) -> list[list[int]]:
    """The rows of whole passes, one epoch after the other; the loader goes on by itself where it can."""
    found = []
    for epoch in epochs:
        if not consumer.advances:
            reading.set_epoch(ds, epoch)
        found.append(all_of(reading.batches()))
    return found


def saved(reading: Reading, consumer: Consumer) -> Any:
    state = reading.owner.state_dict()
    return state if consumer.own_states else json.loads(json.dumps(state))


def resumed(row: Row, path: Path, state: Any) -> tuple[UniRecordDataset, Reading]:
    """What a job that begins anew has: a dataset and a loader of its own, and the state."""
    ds = opened(path)
    reading = made(row, ds)
    reading.owner.load_state_dict(state)
    return ds, reading


@by_row
@pytest.mark.parametrize("steps", [(1, 1), (2, 4), (3, 5)], ids=str)
def test_an_epoch_is_resumed_twice_and_two_more_follow(row: Row, steps: tuple[int, int], path: Path) -> None:
    consumer = skip_excused(row, "twice")
    ds = opened(path)
    reading = made(row, ds)
    reading.set_epoch(ds, 1)
    found: list[int] = []
    for count in steps:
        running = reading.batches()
        found += all_of(itertools.islice(running, count))
        state = saved(reading, consumer)
        if hasattr(running, "close"):
            running.close()
        ds, reading = resumed(row, path, state)
    found += all_of(reading.batches())
    assert found == opened_at(path, 1)
    assert passes_from(reading, ds, consumer, range(2, 4)) == [opened_at(path, 2), opened_at(path, 3)]


@by_row
def test_a_job_that_is_resumed_between_epochs_has_the_next_two(row: Row, path: Path) -> None:
    """Twice: after each of two epochs. What a state from the end of an epoch leaves of it is nothing."""
    consumer = skip_excused(row, "between")
    ds = opened(path)
    reading = made(row, ds)
    for epoch in range(2):
        assert passes_from(reading, ds, consumer, range(epoch, epoch + 1)) == [opened_at(path, epoch)]
        ds, reading = resumed(row, path, saved(reading, consumer))
        if not consumer.skips_ended:
            assert all_of(reading.batches()) == []
    assert passes_from(reading, ds, consumer, range(2, 4)) == [opened_at(path, 2), opened_at(path, 3)]


@by_row
@pytest.mark.parametrize("taken", [1, 3])
def test_a_pass_that_is_broken_off_is_followed_by_the_next_epoch(row: Row, taken: int, path: Path) -> None:
    consumer = skip_excused(row, "broken")
    ds = opened(path)
    reading = made(row, ds)
    if not consumer.advances:
        reading.set_epoch(ds, 0)
    running = reading.batches()
    assert all_of(itertools.islice(running, taken)) == opened_at(path, 0)[: taken * SIZE]
    if hasattr(running, "close"):
        running.close()
    assert passes_from(reading, ds, consumer, range(1, 3)) == [opened_at(path, 1), opened_at(path, 2)]


@by_row
def test_two_threads_that_iterate_share_out_epochs(row: Row, path: Path) -> None:
    """Each pass is one whole epoch; no epoch comes twice where passes go on by themselves."""
    consumer = skip_excused(row, "threads")
    ds = opened(path)
    reading = made(row, ds)
    if not consumer.advances:
        reading.set_epoch(ds, 0)
    found: list[list[int]] = []
    begin = threading.Barrier(2)

    def work() -> None:
        for _ in range(2):
            begin.wait(HANG_SECONDS)
            found.append(all_of(reading.batches()))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    epochs = range(4) if consumer.advances else [0] * 4
    assert sorted(found) == sorted(opened_at(path, epoch) for epoch in epochs)


@by_row
def test_three_ranks_go_on_where_two_have_stopped(row: Row, path: Path) -> None:
    skip_excused(row, "ranks")
    delivered, state = [], None
    for rank in range(2):
        reading = made(row, opened(path, rank, 2))
        delivered += numbers(itertools.islice(reading.batches(), 3))
        state = reading.owner.state_dict()
    for rank in range(3):
        again = made(row, opened(path, rank, 3))
        again.owner.load_state_dict(state)
        delivered += numbers(again.batches())
    assert Counter(itertools.chain(*delivered)) == Counter(range(ROW_COUNT))


def fail(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["n"] == 17:
        raise RuntimeError("no seventeen")
    return sample


@by_row
def test_an_error_in_a_transform_comes_out_and_is_not_waited_for(row: Row, path: Path) -> None:
    skip_excused(row, "transform")
    ds = opened(path, transform=fail)
    with pytest.raises(Exception, match="no seventeen"):
        list(made(row, ds).batches())
    good = ds.view(transform=None)
    assert sorted(itertools.chain(*numbers(made(row, good).batches()))) == list(range(ROW_COUNT))


EXCLUDED = [3, 17, 30, 44]


@by_row
@pytest.mark.parametrize("fill", [True, False], ids=["filled", "skipped"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "once made"])
def test_excluded_rows_are_left_out_or_refused(row: Row, fill: bool, before: bool, path: Path) -> None:
    """What is made before rows are excluded obeys as well, or says that it does not know of them."""
    ds = opened(path)
    if before:
        ds.exclude(EXCLUDED, fill=fill)

    def read() -> list[int]:
        reading = made(row, ds)
        if not before:
            ds.exclude(EXCLUDED, fill=fill)
        return list(itertools.chain(*numbers(reading.batches())))

    unknown = not before and row.consumer in matrix.READS_AS_MADE
    if unknown or ("exclude" in row.excused and not fill):
        with pytest.raises(Exception, match=r"rows? .*excluded"):
            read()
        return
    found, apart = read(), opened(path)
    apart.exclude(EXCLUDED, fill=fill)
    assert found == [int(n) for batch in apart.batches(SIZE) for n in batch["n"]]
    assert not set(EXCLUDED) & set(found)


@by_row
def test_ten_epochs_leave_nothing(row: Row, path: Path) -> None:
    def read(reading: Reading, epochs: int) -> None:
        for number in range(epochs):
            reading.set_epoch(ds, number)
            assert sum(map(len, numbers(reading.batches()))) == ROW_COUNT

    with opened(path) as ds:
        reading = made(row, ds)
        read(reading, 3)  # frameworks start threads of their own when they are first used
        before = held()
        for name in POOLS:
            del before[name]
        read(reading, 10)
        assert_nothing_more(before, POOLS)
        del reading
        assert_nothing_more(before, ALLOCATOR)


@by_row
@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_column_has_its_rule(row: Row, kind: str, path: Path) -> None:
    column, values = KINDS[kind]
    with UniRecordDataset(of_kind(path.parent, kind)) as ds:

        def read() -> list[Any]:
            reading = made(row, ds, size=3, fields=[column])
            return [sample[column.name] for batch in reading.batches() for sample in batch]

        if row.rules[kind] == REFUSED:
            with pytest.raises(Exception, match=column.name):
                read()
        elif kind not in row.otherwise:
            assert read() == [freeze(value) for value in values]


def of_kind(folder: Path, kind: str) -> Path:
    column, values = KINDS[kind]
    path = folder / f"{list(KINDS).index(kind)}.urec"
    if not path.exists():
        with Writer(path, {column.name: column.spec}) as writer:
            for value in values:
                writer.write({column.name: value})
    return path


def test_every_row_but_those_apart_is_tried_here() -> None:
    missing = {row.consumer for row in ROWS} - CONSUMER.keys()
    assert missing <= matrix.APART or CONSUMER.keys() >= matrix.APART


def test_the_page_has_the_matrix() -> None:
    page = matrix.PAGE.read_text(encoding="utf-8")
    assert matrix.page(page).split() == page.split(), "make docs writes it"
