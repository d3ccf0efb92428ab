"""A source that is read while rows are written: the same rows, bytes and errors, and nothing is left running."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from numbers_converted import ID, ROWS, UNITS, check, convert, files
from numbers_source import SCHEMA, Numbers
from process_counts import POOLS, assert_nothing_more, held

from unirecord import SchemaError, UniRecordDataset
from unirecord.convert.conversion import write_part
from unirecord.convert.sources.source import taken_ahead
from unirecord.convert.task import batches_ahead, of_next_task
from unirecord.format.schema import Schema


class Ahead(Numbers):
    """Numbers that are read ahead; ``readers``: the threads that have read them."""

    reads_ahead = True
    readers: set[str]

    def read(self, unit):  # type: ignore[no-untyped-def]
        self.readers = {*getattr(self, "readers", ()), threading.current_thread().name}
        return super().read(unit)


class Begun:
    """A source that says which of its units have been asked for."""

    reads_ahead = True

    def __init__(self, source: Numbers, began: list[threading.Event]) -> None:
        self.units, self._source, self._began = source.units, source, began

    def batches_of(self, unit):  # type: ignore[no-untyped-def]
        self._began[self.units.index(unit)].set()
        return self._source.batches_of(unit)


def test_the_next_is_taken_while_one_is_in_use() -> None:
    taken = [threading.Event() for _ in range(3)]

    def things() -> Iterator[int]:
        for number, event in enumerate(taken):
            event.set()
            yield number

    for number in taken_ahead(things()):
        if number < 2:
            assert taken[number + 1].wait(20)


def test_an_error_comes_behind_what_was_taken_before_it() -> None:
    def things() -> Iterator[int]:
        yield 1
        raise SchemaError("row 2")

    ahead = taken_ahead(things())
    assert next(ahead) == 1
    with pytest.raises(SchemaError, match="row 2"):
        next(ahead)
    assert list(ahead) == []


def test_who_stops_early_leaves_no_thread(tmp_path: Path) -> None:
    before = held()
    ahead = taken_ahead(iter(range(1000)))
    assert next(ahead) == 0
    ahead.close()
    assert_nothing_more(before, POOLS)


def test_the_next_task_is_read_while_one_ends(tmp_path: Path) -> None:
    source = Ahead(tmp_path, UNITS)
    began = [threading.Event() for _ in source.units]
    with closing(batches_ahead(Begun(source, began), [(0, 1), (1, 3), (3, 3), (3, 4)])) as ahead:
        first = list(of_next_task(ahead))
        assert {unit for unit, _ in first} == {0}
        assert began[1].wait(20)  # before anybody asks for it
        assert {unit for unit, _ in of_next_task(ahead)} == {1, 2}
        assert list(of_next_task(ahead)) == []
    assert not began[4].is_set()


def test_reading_ahead_changes_no_byte(tmp_path: Path) -> None:
    source = Ahead(tmp_path, UNITS)
    assert convert(tmp_path / "ahead", source) == convert(tmp_path / "plain", Numbers(tmp_path, UNITS))
    assert any(name.startswith("unirecord-read") for name in source.readers)
    assert files(tmp_path / "ahead") == files(tmp_path / "plain")
    check(tmp_path / "ahead")


@pytest.mark.parametrize("limit", [None, 0, 60, 777])
def test_one_part_counts_what_was_left_out_of_its_rows_alone(limit: int | None, tmp_path: Path) -> None:
    missing = frozenset({5, 120, 790, ROWS - 1})
    found = []
    for kind in (Numbers, Ahead):
        source, place = kind(tmp_path, UNITS, left_out=missing), tmp_path / f"{kind.__name__}.urec"
        found.append(write_part(source, str(place), Schema.parse(SCHEMA), id=ID, limit=limit))
    assert found[0] == found[1]
    assert (tmp_path / "Numbers.urec").read_bytes() == (tmp_path / "Ahead.urec").read_bytes()
    assert len(UniRecordDataset(tmp_path / "Ahead.urec")) == found[0][0]
