"""Conversions that append to one directory at once: each publishes its own, stopped or not, and in any order."""

from __future__ import annotations

import errno
import os
import random
import shutil
import time
import traceback
from pathlib import Path
from typing import Any

import faults
import pytest
from numbers_converted import ID, ROWS, UNITS, convert, files
from numbers_source import Numbers

from unirecord import (
    BusyError,
    ExistsError,
    StaleError,
    UniRecordDataset,
    Writer,
    append,
    compact,
    gc,
    verify,
    versions,
)
from unirecord.convert import task
from unirecord.convert.conversion import Standing
from unirecord.snapshot.versions import files_of, read_newest
from unirecord.storage import system as store
from unirecord.writing.change import Interrupted

OLD, OTHER = [30], [17, 20]


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_LEAST_BYTES", 100_000)


def make(path: Path) -> Path:
    convert(path, Numbers(path.parent, OLD), id=bytes(16))
    return path


def add(path: Path, units: list[int] = UNITS, **options: Any) -> tuple[int, list[Any]]:
    return convert(
        path, Numbers(path.parent, units), **{"append": True, "index": None, "id": None, **options}
    )


def seen(path: Path) -> list[int]:
    assert verify(path).ok
    return [row["n"] for row in UniRecordDataset(path)]


def hidden(path: Path) -> list[str]:
    return [name for name in os.listdir(path) if name.startswith(".")]


class At:
    """Does something, once, when so many tasks are finished."""

    def __init__(self, tasks: int, does: Any) -> None:
        self.tasks, self.does, self.resumed, self.dropped, self.published = tasks, does, 0, 0, False

    def __call__(self, standing: Standing) -> None:
        self.resumed, self.dropped, self.published = standing.resumed, standing.dropped, standing.published
        if self.does is not None and standing.tasks >= self.tasks:
            does, self.does = self.does, None
            does()


def interrupt() -> None:
    raise KeyboardInterrupt


def stop(path: Path, **options: Any) -> None:
    with pytest.raises(
        Interrupted, match=r"nothing was published, and \d finished parts are kept: .*--resume"
    ):
        add(path, **{"progress": At(3, interrupt), **options})


@pytest.mark.parametrize("workers", [1, 2])
def test_who_publishes_first_comes_first(workers: int, tmp_path: Path) -> None:
    path = make(tmp_path / "d")

    def beside() -> None:
        with append(path) as writer:
            writer.write({"n": 5, "name": "", "blob": b""})
        add(path, OTHER)
        compact(path)

    add(path, workers=workers, progress=At(2, beside))
    assert seen(path) == [*range(30), 5, *range(37), *range(ROWS)]
    assert [one.rows for one in versions(path)] == [30, 31, 68, 68, 68 + ROWS]
    assert hidden(path) == []


def test_processes_at_once_publish_each_its_own(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    children = []
    for count in (40, 41, 42):
        child = os.fork()
        if child == 0:
            code = 1
            try:
                add(path, [count, count], workers=2)
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 3
    found, rest = seen(path), []
    assert found[:30] == list(range(30))
    at = 30
    while at < len(found):  # each its rows together
        count = next(count for count in (42, 41, 40) if found[at : at + 2 * count] == list(range(2 * count)))
        rest.append(count)
        at += 2 * count
    assert sorted(rest) == [40, 41, 42]
    assert hidden(path) == []


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The parts that are appended by one run."""
    folder = tmp_path_factory.mktemp("reference")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(task, "_LEAST_BYTES", 100_000)
        before = files(make(folder / "d"))
        add(folder / "d", id=ID)
    return {name: data for name, data in parts(folder / "d").items() if name not in before}


def parts(path: Path) -> dict[str, bytes]:
    named = {file for name in files_of(read_newest(str(path))) for file in (name, name + ".idx")}
    return {name: (path / name).read_bytes() for name in sorted(named)}


class Unlinked(store.OsCalls):
    """A file system without hard links."""

    def link(self, there: str, new: str) -> None:
        raise OSError(errno.EPERM, "no links")


@pytest.mark.parametrize("seed", range(8))
def test_killed_at_any_system_call_any_number_of_times_it_goes_on(
    seed: int, reference: dict[str, bytes], tmp_path: Path
) -> None:
    """Others append, collect and lay out anew between its deaths."""
    chance, path = random.Random(seed), make(tmp_path / "d")
    before, others, finished = parts(path), 0, 0

    def once() -> None:
        with faults.unsynced():
            add(path, id=ID, resume=True, workers=1)

    for _ in range(100):
        alive = not faults.killed(once, chance.randint(1, 220), chance.random() < 0.5)
        is_out = len(UniRecordDataset(path)) - 30 - others >= ROWS
        now = sum(len(list(place.glob(".task-*"))) for place in path.glob(".append-*"))
        assert is_out or now >= finished, "finished parts were lost"
        finished = now
        if alive:
            break
        if chance.random() < 0.3:
            with append(path) as writer:
                writer.write({"n": -1, "name": "", "blob": b""})
            others += 1
        if chance.random() < 0.2:
            gc(path, keep=1)
        if is_out:
            if chance.random() < 0.5:
                compact(path)
                gc(path, keep=1)
            if list(path.glob(".append-*/.conversion.json")):
                told = At(0, None)
                assert add(path, id=ID, resume=True, progress=told)[0] == ROWS
                assert told.published
            break
    found = seen(path)
    assert [n for n in found if n != -1] == [*range(30), *range(ROWS)]
    assert len(found) == 30 + ROWS + others
    now_there = parts(path)
    if set(before) <= set(now_there):  # it has not been laid out anew
        assert {name: data for name, data in now_there.items() if name in reference} == reference
    with append(path) as writer:
        writer.write({"n": 1, "name": "", "blob": b""})
    assert hidden(path) == []


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("workers", [1, 2])
def test_what_fails_to_be_published_is_gone_on_with(
    links: bool, workers: int, reference: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make(tmp_path / "d")
    before = parts(path)
    if not links:
        monkeypatch.setattr(store, "os_calls", Unlinked())

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    with monkeypatch.context() as patch:
        patch.setattr("unirecord.writing.directory_claim.keep_version", full)
        with pytest.raises(OSError, match="make room; nothing was published, and"):
            add(path, id=ID)
    assert seen(path) == list(range(30))
    assert parts(path) == before
    told = At(0, None)
    add(path, id=ID, resume=True, workers=workers, progress=told)
    assert told.resumed >= len(reference) // 2  # all of it
    assert parts(path) == {**before, **reference}
    assert hidden(path) == []


def test_gc_leaves_what_can_be_gone_on_with_for_a_while(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    stop(path)
    for found in (gc(path, keep=1), gc(path, keep=1, older_than=3_600)):
        assert found.parts == 0
    planned = gc(path, keep=1, older_than=0, dry_run=True)
    assert planned.parts >= 2
    assert planned.bytes > 10_000
    assert len(hidden(path)) == 1
    told = At(5, lambda: gc(path, keep=1, older_than=0))  # of one that is at work nothing
    add(path, resume=True, progress=told)
    assert told.resumed >= 2
    assert seen(path) == [*range(30), *range(ROWS)]
    stop(path)
    week_ago = time.time() - 8 * 86_400
    for place in path.glob(".append-*/.*"):
        os.utime(place, (week_ago, week_ago))
    assert gc(path, keep=1, dry_run=True).parts == 0  # its parts are younger
    for place in path.glob(".append-*/*"):
        os.utime(place, (week_ago, week_ago))
    assert gc(path, keep=1, dry_run=True) == gc(path, keep=1)
    assert hidden(path) == []


def test_only_the_same_conversion_is_gone_on_with(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    stop(path, id=ID)
    with pytest.raises(StaleError, match=r"limit differs; without resume it begins anew"):
        add(path, resume=True, limit=9)
    with pytest.raises(StaleError, match=r"id differs"):
        add(path, resume=True, id=bytes(range(1, 17)))
    other = Numbers(tmp_path, [9])
    other.path = "others"  # another source is another conversion
    convert(path, other, append=True, index=None, id=None, resume=True)
    assert len(hidden(path)) == 1
    told = At(0, None)
    add(path, progress=told)
    assert (told.resumed, told.dropped >= 2) == (0, True)
    assert seen(path) == [*range(30), *range(9), *range(ROWS)]
    assert hidden(path) == []


def test_two_of_the_same_at_once(tmp_path: Path) -> None:
    """Who resumes is told of one that is at work; who does not has asked for its rows twice."""
    path = make(tmp_path / "d")

    def beside() -> None:
        with pytest.raises(BusyError, match="another run of the same is at work"):
            add(path, resume=True)
        add(path)

    add(path, progress=At(3, beside))
    assert seen(path) == [*range(30), *range(ROWS), *range(ROWS)]
    assert hidden(path) == []


def test_two_that_were_stopped_are_gone_on_with_each(tmp_path: Path) -> None:
    path = make(tmp_path / "d")

    def both() -> None:
        stop(path)
        interrupt()

    stop(path, progress=At(5, both))
    assert len(hidden(path)) == 2
    resumed = []
    for _ in range(2):
        told = At(0, None)
        add(path, resume=True, progress=told)
        resumed.append(told.resumed)
    assert len({*resumed}) == 2
    assert min(resumed) >= 2
    assert seen(path) == [*range(30), *range(ROWS), *range(ROWS)]
    assert hidden(path) == []


def test_another_dataset_ends_what_was_to_be_appended(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    stop(path)
    with (
        pytest.warns(UserWarning, match=r"d begins anew, without 2 finished parts"),
        Writer(path, {"n": "int64"}, overwrite=True) as writer,
    ):
        writer.write({"n": 1})
    assert hidden(path) == []
    shutil.rmtree(path)
    make(path)
    stop(path)
    kept = shutil.move(path, tmp_path / "kept")
    convert(path, Numbers(tmp_path, [8]), id=bytes(range(2, 18)))
    for place in Path(kept).glob(".append-*"):
        shutil.copytree(place, path / place.name)
    add(path, resume=True)  # of the other one nothing is taken
    assert seen(path) == [*range(8), *range(ROWS)]
    assert hidden(path) == []


def test_parts_that_were_stopped_are_checked_before_they_are_taken_up(tmp_path: Path) -> None:
    path = make(tmp_path / "d")
    stop(path, id=ID)
    finished = len(list(path.glob(".append-*/.task-*")))
    one = min(path.glob(".append-*/part-*.urec"))
    one.write_bytes(one.read_bytes()[:-100])
    told = At(0, None)
    add(path, id=ID, resume=True, progress=told)
    assert told.resumed == finished - 1
    assert seen(path) == [*range(30), *range(ROWS)]
    with pytest.raises(ExistsError):
        convert(path, Numbers(tmp_path, UNITS), resume=True)
